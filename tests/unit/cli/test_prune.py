"""``apply --prune``: what is in no file is cancelled, never more than was judged, and never by a wrong folder."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

import pytest

from supervisor.errors import OutcomeUnknown, SupervisorError, Unreachable
from supervisor.model.records import Fork
from supervisor.operations.jobs import ChosenJob, Done, JobOperations
from tests.unit.cli.conftest import Terminal
from tests.unit.cli.test_apply import folder
from tests.unit.cli.test_several import AtKeyboard

WEB, OPS = "labels: {team: web}", "labels: {team: ops}"
PRUNE = ("--prune", "--selector", "team=web")


@pytest.fixture
def jobs(terminal: Terminal) -> Path:
    """a and b of team web are in the folder; c of team ops, and d, are registered too, and in no file."""
    path = folder(terminal, "a", "b", text=WEB)
    others = [terminal.spec("c", OPS), terminal.spec("d")]
    assert terminal.run("apply", str(path), *others).code == 0
    return path


def registered(terminal: Terminal) -> set[str]:
    return set(terminal.bench.sessions().zoo().children(terminal.bench.layout.jobs) or ())


def test_what_is_in_no_file_is_cancelled_after_a_yes(
    terminal: Terminal, jobs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (jobs / "b.yaml").unlink()
    ran = terminal.run("apply", str(jobs), *PRUNE)
    assert ran.code == 2 and "cancel 1 job with team=web in no file: b" in ran.err and "give --yes" in ran.err
    monkeypatch.setattr(sys, "stdin", AtKeyboard("n\n"))
    assert terminal.run("apply", str(jobs), *PRUNE).code == 4
    assert registered(terminal) == {"a", "b", "c", "d"}
    monkeypatch.setattr(sys, "stdin", AtKeyboard("yes\n"))
    ran = terminal.run("apply", str(jobs), *PRUNE)
    assert (ran.code, ran.out) == (0, "b: pruned; it is in no file\na: unchanged\n")
    assert registered(terminal) == {"a", "c", "d"}
    ran = terminal.run("apply", str(jobs), *PRUNE)
    assert (ran.code, ran.out) == (0, "a: unchanged\n"), "nothing is asked where nothing is pruned"


def test_a_dry_run_shows_it_and_asks_nothing(terminal: Terminal, jobs: Path) -> None:
    (jobs / "b.yaml").unlink()
    ran = terminal.run("apply", str(jobs), *PRUNE, "--dry-run")
    assert (ran.code, ran.out) == (0, "b: would be pruned; it is in no file\na: unchanged\n")
    ran = terminal.run("apply", str(jobs), *PRUNE, "--dry-run", "-o", "json")
    assert [(one["name"], one["action"], one["file"] is None) for one in ran.json] == [
        ("a", "unchanged", False),
        ("b", "pruned", True),
    ]
    assert registered(terminal) == {"a", "b", "c", "d"}


def test_as_a_document(terminal: Terminal, jobs: Path) -> None:
    (jobs / "b.yaml").unlink()
    folder(terminal, "e", text=WEB)
    ran = terminal.run("apply", str(jobs), *PRUNE, "--yes", "-o", "json")
    assert [(one["name"], one["action"], one["exit_code"]) for one in ran.json] == [
        ("a", "unchanged", 0),
        ("e", "created", 0),
        ("b", "pruned", 0),
    ]


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (["--prune"], "--prune needs the labels of the jobs that these files are about; give --selector"),
        (["--selector", "team=web"], "--selector says what --prune cancels: give that, too"),
        (["--prune-all", "--yes"], "--prune-all says what --prune cancels: give that, too"),
        (["--prune-forks"], "--prune-forks says what --prune cancels: give that, too"),
        (["--prune", "-l", "team!=ops"], "--selector team!=ops also chooses jobs without any label"),
        (["--prune", "-l", "team="], "--selector 'team=' is none of"),
    ],
)
def test_what_is_no_prune(terminal: Terminal, jobs: Path, options: list[str], says: str) -> None:
    ran = terminal.run("apply", str(jobs), *options)
    assert ran.code == 2 and says in ran.err
    assert registered(terminal) == {"a", "b", "c", "d"}


def test_a_folder_of_other_jobs_prunes_nothing(terminal: Terminal, jobs: Path) -> None:
    """None of the jobs with these labels would be left: most likely the folder is a wrong one."""
    wrong = terminal.home / "wrong"
    wrong.mkdir()
    (wrong / "app.py").write_text("")
    (wrong / "x.yaml").write_text(f"name: x\napplication: app.py\ncheckpoint: s3://bucket/x\n{WEB}\n")
    ran = terminal.run("apply", str(wrong), *PRUNE, "--yes")
    assert ran.code == 4 and registered(terminal) == {"a", "b", "c", "d"}
    assert "--prune would leave none of the 2 registered jobs with team=web" in ran.err
    assert "give --prune-all, too" in ran.err
    ran = terminal.run("apply", str(wrong), *PRUNE, "--prune-all")
    assert ran.code == 2 and registered(terminal) == {"a", "b", "c", "d"}, "it is asked all the same"
    ran = terminal.run("apply", str(wrong), *PRUNE, "--prune-all", "--yes")
    assert ran.code == 0 and registered(terminal) == {"c", "d", "x"}


def test_an_empty_folder_prunes_nothing_unless_that_is_meant(terminal: Terminal, jobs: Path) -> None:
    for each in jobs.glob("*.yaml"):
        each.unlink()
    ran = terminal.run("apply", str(jobs), *PRUNE, "--yes")
    assert ran.code == 2 and "has no spec in it" in ran.err
    assert registered(terminal) == {"a", "b", "c", "d"}
    ran = terminal.run("apply", str(jobs), *PRUNE, "--yes", "--prune-all", "-o", "json")
    assert ran.code == 0 and [one["name"] for one in ran.json] == ["a", "b"]
    assert registered(terminal) == {"c", "d"}


def test_every_file_has_the_labels(terminal: Terminal, jobs: Path) -> None:
    (jobs / "b.yaml").unlink()
    folder(terminal, "e")
    ran = terminal.run("apply", str(jobs), *PRUNE, "--yes")
    assert ran.code == 2 and "e.yaml: its labels do not have team=web" in ran.err
    assert registered(terminal) == {"a", "b", "c", "d"}


@pytest.mark.parametrize("name", ["c", "d"])
def test_a_job_of_another_folder_is_not_taken_over(terminal: Terminal, jobs: Path, name: str) -> None:
    (jobs / "b.yaml").unlink()
    folder(terminal, name, text=WEB)
    ran = terminal.run("apply", str(jobs), *PRUNE, "--yes")
    assert ran.code == 4 and f"{name} is registered, and is not of team=web" in ran.err
    assert registered(terminal) == {"a", "b", "c", "d"}
    assert terminal.run("apply", str(jobs / f"{name}.yaml")).code == 0
    assert terminal.run("apply", str(jobs), *PRUNE, "--yes").code == 0
    assert registered(terminal) == {"a", "c", "d"}


def test_with_an_error_in_any_file_nothing_is_pruned(terminal: Terminal, jobs: Path) -> None:
    (jobs / "b.yaml").unlink()
    (jobs / "e.yaml").write_text("name: e\n")
    ran = terminal.run("apply", str(jobs), *PRUNE, "--yes", "-o", "json")
    assert ran.code == 2 and {one["action"] for one in ran.json} == {"refused"}
    assert registered(terminal) == {"a", "b", "c", "d"}
    for words in ((), ("--dry-run",)):
        ran = terminal.run("apply", str(jobs), *PRUNE, *words)
        assert "cancel 1 job" not in ran.err and "pruned" not in ran.out, "nor is it asked, or shown"


def test_when_an_update_fails_nothing_is_pruned(
    terminal: Terminal, jobs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (jobs / "b.yaml").unlink()
    folder(terminal, "a", text=f"{WEB}\nlease: 20s")

    def update(_: JobOperations, target: object) -> Done:
        raise Unreachable("nobody answers")

    monkeypatch.setattr(JobOperations, "update", update)
    ran = terminal.run("apply", str(jobs), *PRUNE, "--yes")
    assert ran.code == 5 and "b was not cancelled: not all that was applied has succeeded" in ran.err
    assert registered(terminal) == {"a", "b", "c", "d"}


@pytest.mark.parametrize("meanwhile", ["submitted anew", "suspended", "cancelled"])
def test_exactly_what_was_judged_is_cancelled(
    terminal: Terminal, jobs: Path, meanwhile: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between the judgement and the write somebody else changes the job."""
    (jobs / "b.yaml").unlink()
    cancel = JobOperations.cancel

    def cancel_late(commands: JobOperations, name: str, *, chosen: ChosenJob | None = None) -> Done:
        if chosen is not None:
            monkeypatch.setattr(JobOperations, "cancel", cancel)
            other = terminal.bench.commands()
            _ = other.suspend("b") if meanwhile == "suspended" else other.cancel("b")
            if meanwhile == "submitted anew":
                terminal.bench.submit("b", checkpoint="s3://bucket/other")
        return cancel(commands, name, chosen=chosen)

    monkeypatch.setattr(JobOperations, "cancel", cancel_late)
    ran = terminal.run("apply", str(jobs), *PRUNE, "--yes")
    if meanwhile == "cancelled":
        assert ran.code == 0 and registered(terminal) == {"a", "c", "d"}
        return
    assert ran.code == 4 and "b was changed by somebody else meanwhile: it was not cancelled" in ran.err
    assert registered(terminal) == {"a", "b", "c", "d"}


def test_the_checkpoints_that_go_are_named(terminal: Terminal, jobs: Path) -> None:
    folder(terminal, "e", text=f"{WEB}\ncheckpoint: file:///data/stream/e\ncheckpoint_on_cancel: delete")
    assert terminal.run("apply", str(jobs)).code == 0
    (jobs / "e.yaml").unlink()
    ran = terminal.run("apply", str(jobs), *PRUNE)
    assert "with their checkpoints, as their specs say (checkpoint_on_cancel): e" in ran.err


def test_nothing_was_ever_submitted(terminal: Terminal) -> None:
    jobs = folder(terminal, "a", text=WEB)
    assert terminal.run("apply", str(jobs), *PRUNE).out == "a: created\n"


@pytest.mark.parametrize("asked", [False, True])
def test_a_fork_is_named_by_what_it_is_and_pruned_only_if_that_is_asked(
    terminal: Terminal, jobs: Path, asked: bool
) -> None:
    """Also one whose checkpoint has been another since: the mark of a fork stays."""
    (jobs / "b.yaml").unlink()
    job = terminal.bench.ref("b").record
    mark = Fork(of="a", uid=terminal.bench.ref("a").record.uid, savepoint="one")
    terminal.bench.put(terminal.bench.layout.job("b"), replace(job, fork=mark))
    ran = terminal.run("apply", str(jobs), *PRUNE, "--yes", *(("--prune-forks",) if asked else ()))
    assert ran.code == 0 and f"a fork of a, made at {job.submitted_at}" in ran.out
    assert registered(terminal) == ({"a", "c", "d"} if asked else {"a", "b", "c", "d"})
    named = f"cancel 1 job with team=web in no file: b (a fork of a, made at {job.submitted_at})"
    assert (named in ran.err) is asked


def becomes_fork(terminal: Terminal, name: str) -> None:
    mark = Fork(of="a", uid=terminal.bench.ref("a").record.uid, savepoint="one")
    terminal.bench.put(terminal.bench.layout.job(name), replace(terminal.bench.ref(name).record, fork=mark))


@pytest.mark.parametrize("error", [Unreachable, OutcomeUnknown])
def test_once_nobody_answers_nothing_more_is_tried(
    terminal: Terminal, jobs: Path, error: type[SupervisorError], monkeypatch: pytest.MonkeyPatch
) -> None:
    folder(terminal, "e", text=WEB)
    assert terminal.run("apply", str(jobs)).code == 0
    for name in ("b", "e"):
        (jobs / f"{name}.yaml").unlink()
    tried = []

    def cancel(_: JobOperations, name: str, *, chosen: ChosenJob | None = None) -> Done:
        tried.append(name)
        raise error("nobody answers")

    monkeypatch.setattr(JobOperations, "cancel", cancel)
    ran = terminal.run("apply", str(jobs), *PRUNE, "--yes", "-o", "json")
    assert ran.code != 0 and tried == ["b"]
    said = {one["name"]: (one["action"], one["why"]) for one in ran.json}
    assert said["e"] == ("refused", "e was not cancelled: nobody answers")


def test_a_fork_that_is_left_alone_is_so_whatever_fails(
    terminal: Terminal, jobs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    becomes_fork(terminal, "b")
    (jobs / "b.yaml").unlink()
    folder(terminal, "a", text=f"{WEB}\nlease: 20s")

    def update(_: JobOperations, target: object) -> Done:
        raise Unreachable("nobody answers")

    monkeypatch.setattr(JobOperations, "update", update)
    ran = terminal.run("apply", str(jobs), *PRUNE, "--yes", "-o", "json")
    (said,) = [one for one in ran.json if one["name"] == "b"]
    assert (said["action"], said["exit_code"]) == ("unchanged", 0)


def test_a_fork_that_would_be_left_makes_no_folder_the_right_one(terminal: Terminal, jobs: Path) -> None:
    """It is in no file of anybody: that one stays says nothing about whose folder this is."""
    becomes_fork(terminal, "b")
    for name in ("a", "b"):
        (jobs / f"{name}.yaml").unlink()
    folder(terminal, "e", text=WEB)
    ran = terminal.run("apply", str(jobs), *PRUNE, "--yes")
    assert (ran.code, "would leave none of the 1 registered job" in ran.err) == (4, True), ran.err
    assert registered(terminal) == {"a", "b", "c", "d"}
