"""Labels, and commands for several jobs: which ones, the confirmation, a line for each, the worst exit code."""

from __future__ import annotations

import io
import sys
from dataclasses import replace

import pytest

from supervisor.errors import Unreachable
from supervisor.model.records import Desired, Promotion
from supervisor.operations.jobs import ChosenJob, JobOperations
from supervisor.operations.selection import registered_jobs
from tests.unit.cli.conftest import Ran, Terminal

WEB, OPS = "labels: {team: web}", "labels: {team: ops, tier: 1}"


class AtKeyboard(io.StringIO):
    """A terminal at which somebody types."""

    def isatty(self) -> bool:
        return True


@pytest.fixture
def fleet(terminal: Terminal) -> Terminal:
    """Jobs a and b of team web, c of team ops, d without labels."""
    files = [terminal.spec(name, text) for name, text in (("a", WEB), ("b", WEB), ("c", OPS), ("d", ""))]
    assert terminal.run("submit", *files).code == 0
    return terminal


def wanted(terminal: Terminal) -> dict[str, Desired]:
    found = registered_jobs(terminal.bench.sessions().zoo(), terminal.bench.layout).found
    return {job.name: Desired.SUSPENDED if job.is_suspended else Desired.RUNNING for job in found}


def suspended(terminal: Terminal) -> set[str]:
    return {name for name, desired in wanted(terminal).items() if desired is Desired.SUSPENDED}


# -- list, show ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "names"),
    [
        (["-l", "team=web"], ["a", "b"]),
        (["-l", "team"], ["a", "b", "c"]),
        (["-l", "team!=web"], ["c", "d"]),
        (["-l", "team=ops", "-l", "tier=1"], ["c"]),
        (["-l", "team=ops,tier!=1"], []),
        (["d", "a", "d"], ["a", "d"]),
    ],
)
def test_list_by_names_and_labels(fleet: Terminal, arguments: list[str], names: list[str]) -> None:
    ran = fleet.run("list", *arguments, "-o", "json")
    assert ran.code == 0 and [row["name"] for row in ran.json] == names


def test_a_list_of_nothing_says_so(fleet: Terminal) -> None:
    ran = fleet.run("list", "-l", "team=nobody")
    assert ran.code == 0 and ran.err == "no job has team=nobody\n"
    ran = fleet.run("list", "a", "nobody")
    assert ran.code == 3 and "error: no job is named nobody: " in ran.err and "\na " in ran.out
    fleet.run("cancel", "a", "--wait")
    assert "error: no job a is listed: see spark-supervisor list --all" in fleet.run("list", "a").err


def test_a_name_that_is_misspelt_is_told_from_one_that_ended(fleet: Terminal) -> None:
    fleet.submit("clicks")
    assert "no job is named clcks: did you mean clicks?" in fleet.run("list", "clcks").err


def test_labels_are_shown(fleet: Terminal) -> None:
    assert fleet.run("show", "c", "-o", "json").json["labels"] == {"team": "ops", "tier": "1"}
    assert "labels:          team=ops, tier=1" in fleet.run("show", "c").out
    assert "labels:" not in fleet.run("show", "d").out.partition("spec")[0]
    assert "team=ops,tier=1" in fleet.run("list", "-o", "wide").out
    assert [row["labels"] for row in fleet.run("list", "-o", "json").json][2:] == [
        {"team": "ops", "tier": "1"},
        {},
    ]


@pytest.mark.parametrize("command", ["list", "suspend", "resume", "restart", "cancel"])
@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["a", "-l", "team=web"], "give names of jobs, or -l with a label, not both"),
        (["-l", "team="], "--selector 'team=' is none of key=value, key!=value and key"),
    ],
)
def test_what_does_not_go_together(fleet: Terminal, command: str, arguments: list[str], says: str) -> None:
    ran = fleet.run(command, *arguments)
    assert ran.code == 2 and says in ran.err


# -- several ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("command", ["suspend", "resume", "restart", "cancel"])
def test_more_than_one_is_asked_for(fleet: Terminal, command: str, monkeypatch: pytest.MonkeyPatch) -> None:
    before = wanted(fleet)
    for asked in (["a", "c"], ["-l", "team"]):
        ran = fleet.run(command, *asked)
        assert ran.code == 2 and f"nobody can be asked here whether to {command}" in ran.err
        assert "give --yes" in ran.err and ran.out == ""
    monkeypatch.setattr(sys, "stdin", AtKeyboard("no\n"))
    ran = fleet.run(command, "-l", "team")
    assert ran.code == 4 and "not confirmed: nothing was done" in ran.err
    assert f"{command} 3 jobs: a, b, c\n" in ran.err
    assert wanted(fleet) == before
    assert fleet.run(command).code == 2
    ran = fleet.run(command, "-l", "team=nobody", "--yes")
    assert ran.code == 3 and "has team=nobody; list -o wide shows the labels of jobs" in ran.err


def test_a_yes_at_the_keyboard(fleet: Terminal, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", AtKeyboard("yes\n"))
    ran = fleet.run("suspend", "-l", "team=web")
    assert ran.code == 0 and suspended(fleet) == {"a", "b"}
    assert [line.partition(" (")[0] for line in ran.out.splitlines()] == ["a: suspended", "b: suspended"]


def test_one_failure_does_not_stop_the_rest_and_the_code_is_the_worst(fleet: Terminal) -> None:
    ran = fleet.run("suspend", "a", "nobody", "No/Name", "b", "a", "--yes", "-o", "json")
    assert ran.code == 3 and suspended(fleet) == {"a", "b"}
    found = {one["name"]: (one["did"], one["exit_code"]) for one in ran.json}
    assert found == {"a": ("suspended", 0), "nobody": (None, 3), "No/Name": (None, 3), "b": ("suspended", 0)}
    assert ran.json[0]["uid"] and ran.json[0]["error"] is None and "no job is named" in ran.json[1]["error"]


def test_one_name_has_the_document_of_one_and_a_label_has_a_list(fleet: Terminal) -> None:
    one = fleet.run("suspend", "a", "-o", "json").json
    assert list(one) == ["name", "uid", "did"]
    (only,) = fleet.run("suspend", "-l", "team=ops", "-o", "json").json
    assert only["name"] == "c" and only["did"] == "suspended"


def test_a_selector_takes_those_that_a_command_is_for(fleet: Terminal) -> None:
    assert fleet.run("suspend", "a").code == 0
    ran = fleet.run("restart", "-l", "team=web", "-o", "json")
    assert [one["name"] for one in ran.json] == ["b"]
    fleet.run("suspend", "b")
    ran = fleet.run("restart", "-l", "team=web")
    assert ran.code == 3 and "no job that shall run has team=web" in ran.err
    ran = fleet.run("resume", "-l", "team=web", "--yes", "-o", "json")
    assert [one["did"] for one in ran.json] == ["resumed", "resumed"]


def test_a_failed_job_is_found_by_its_labels(fleet: Terminal) -> None:
    fleet.bench.fail("a")
    assert [row["state"] for row in fleet.run("list", "-l", "team=web", "-o", "json").json][0] == "failed"
    ran = fleet.run("suspend", "-l", "team=web", "-o", "json")
    assert [one["name"] for one in ran.json] == ["b"]
    ran = fleet.run("resume", "-l", "team=web", "--yes", "-o", "json")
    assert {one["name"]: one["did"] for one in ran.json} == {"a": "registered again", "b": "resumed"}


def test_cancel_by_label(fleet: Terminal) -> None:
    ran = fleet.run("cancel", "-l", "team", "--yes")
    assert ran.code == 0 and set(wanted(fleet)) == {"d"}
    assert fleet.run("cancel", "-l", "team", "--yes").code == 3


def test_what_one_job_only_can_be_given(fleet: Terminal) -> None:
    for arguments, says in (
        (["resume", "a", "b", "--accept-fresh-start", "--yes"], "--accept-fresh-start is for one job"),
        (["resume", "-l", "team=ops", "--from-savepoint", "x"], "--from-savepoint is for one job"),
        (["suspend", "-l", "team=ops", "--savepoint"], "--savepoint is for one job"),
        (["suspend", "a", "b", "c", "--savepoint"], "--savepoint is for one job"),
    ):
        ran = fleet.run(*arguments)
        assert ran.code == 2 and says in ran.err, ran.err
    assert suspended(fleet) == set()


def test_what_cannot_be_read_is_left_out_and_named(fleet: Terminal) -> None:
    fleet.bench.zoo.put(fleet.bench.layout.job("a"), b"{")
    ran = fleet.run("suspend", "-l", "team=web")
    assert (
        ran.code == 0 and "a is left out: its labels can't be read" in ran.err and ran.out.startswith("b: ")
    )


def test_when_zookeeper_is_gone_the_rest_is_not_tried(
    fleet: Terminal, monkeypatch: pytest.MonkeyPatch
) -> None:
    tried: list[str] = []

    def suspend(_: JobOperations, name: str, **_options: object) -> None:
        tried.append(name)
        raise Unreachable("nobody answers")

    monkeypatch.setattr(JobOperations, "suspend", suspend)
    ran = fleet.run("suspend", "a", "b", "c", "--yes")
    assert ran.code == 5 and tried == ["a"]
    assert "error: c was not suspended: nobody answers" in ran.err


def test_wait_is_for_all_beside_each_other(fleet: Terminal) -> None:
    ran: Ran = fleet.run("suspend", "-l", "team", "--yes", "--wait", "--timeout", "1s")
    assert ran.code == 0
    assert [line for line in ran.err.splitlines() if "gone" in line] == [
        f"{name}: gone: no driver of it is alive" for name in "abc"
    ]


def test_a_wait_that_runs_out_is_told_of_each(fleet: Terminal) -> None:
    for name in ("a", "c"):
        fleet.bench.run(name)
    ran = fleet.run("suspend", "-l", "team", "--yes", "--wait", "--timeout", "0s", "-o", "json")
    assert ran.code == 7 and suspended(fleet) == {"a", "b", "c"}
    late = [line for line in ran.err.splitlines() if line.startswith("error: ")]
    assert [line.split()[1] for line in late] == ["a", "c"]
    assert "is suspended, but its driver has not stopped yet" in late[0]


# -- what was chosen -------------------------------------------------------------------------------------------------


def test_only_what_was_chosen_is_cancelled(fleet: Terminal) -> None:
    commands = JobOperations(fleet.bench.sessions(), fleet.bench.layout)
    (chosen,) = [
        job
        for job in registered_jobs(fleet.bench.sessions().zoo(), fleet.bench.layout).found
        if job.name == "a"
    ]
    as_chosen = ChosenJob(chosen.uid, chosen.version)
    fleet.run("suspend", "a")
    with pytest.raises(Exception, match="a was changed by somebody else meanwhile"):
        commands.cancel("a", chosen=as_chosen)
    fleet.run("cancel", "a")
    assert commands.cancel("a", chosen=as_chosen).did.value == "already cancelled"
    fleet.submit("a")
    with pytest.raises(Exception, match="a was changed by somebody else meanwhile"):
        commands.cancel("a", chosen=as_chosen)
    with pytest.raises(Exception, match="a was changed by somebody else meanwhile"):
        commands.cancel("a", chosen=replace(as_chosen, version=0))
    assert "a" in wanted(fleet)


def test_a_job_that_failed_since_it_was_chosen_is_left_as_it_is(fleet: Terminal) -> None:
    commands = JobOperations(fleet.bench.sessions(), fleet.bench.layout)
    ref = fleet.bench.ref("a")
    uid, version = ref.record.uid, ref.version
    fleet.bench.fail("a")
    with pytest.raises(Exception, match="a was changed by somebody else meanwhile"):
        commands.cancel("a", chosen=ChosenJob(uid, version))
    assert commands.cancel("a", chosen=ChosenJob(uid, None)).did.value == "cancelled"


def in_place_of(terminal: Terminal, name: str, over: str) -> None:
    """As after ``promote NAME --over OVER``, some time ago."""
    bench, job = terminal.bench, terminal.bench.ref(name).record
    place = Promotion(
        over=over, uid=bench.ref(over).record.uid, by="ann", at="2026-11-28T10:00:00.000Z", done=True
    )
    bench.put(bench.layout.job(name), replace(job, promotion=place))
    terminal.run("suspend", over)


class SomebodyElse(AtKeyboard):
    """While a person reads the question, somebody cancels b and submits another b."""

    def __init__(self, fleet: Terminal) -> None:
        super().__init__("yes\n")
        self._fleet = fleet

    def readline(self, *_: object) -> str:
        bench = self._fleet.bench
        JobOperations(bench.sessions(), bench.layout).cancel("b")
        bench.submit("b")
        return super().readline()


@pytest.mark.parametrize("command", ["suspend", "resume", "restart", "cancel"])
@pytest.mark.parametrize("which", [("-l", "team=web"), ("a", "b")])
def test_after_the_question_no_other_submission_is_hit(
    fleet: Terminal, monkeypatch: pytest.MonkeyPatch, command: str, which: tuple[str, ...]
) -> None:
    if command == "resume":
        fleet.run("suspend", "a", "b", "--yes")
    monkeypatch.setattr(sys, "stdin", SomebodyElse(fleet))
    ran = fleet.run(command, *which)
    assert ran.code == 4 and "a: " in ran.out, "a is done all the same"
    assert "error: b " in ran.err and "b: " not in ran.out
    job = fleet.bench.ref("b").record
    assert (job.desired, job.changed.event) == (Desired.RUNNING, "submitted")


def test_a_name_that_comes_up_after_the_question_is_not_hit(
    fleet: Terminal, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Late(AtKeyboard):
        def readline(self, *_: object) -> str:
            fleet.bench.submit("late")
            return "yes\n"

    monkeypatch.setattr(sys, "stdin", Late())
    ran = fleet.run("suspend", "a", "late")
    assert ran.code == 3 and "error: no job is named late" in ran.err
    assert suspended(fleet) == {"a"}


def test_one_of_several_whose_records_are_unreadable_is_left(fleet: Terminal) -> None:
    fleet.bench.zoo.put(fleet.bench.layout.job("a"), b"{")
    ran = fleet.run("cancel", "a", "b", "--yes")
    assert (
        ran.code != 0 and "the records of a are unreadable: nothing was done; cancel a by itself" in ran.err
    )
    assert "b: cancelled" in ran.out
    assert fleet.run("cancel", "a").code == 0


def test_a_maintenance_by_label_leaves_what_a_promotion_replaced(fleet: Terminal) -> None:
    """Of the two, one is to run: suspend -l and resume -l are not a wish that both do."""
    in_place_of(fleet, "b", over="a")
    assert fleet.run("suspend", "-l", "team=web", "--yes").code == 0
    ran = fleet.run("resume", "-l", "team=web", "--yes")
    assert ran.code == 0 and [line.partition(" (")[0] for line in ran.out.splitlines()] == ["b: resumed"]
    assert "a is left out: b was promoted over it; resume a, by its name, runs it beside" in ran.err
    assert suspended(fleet) == {"a"}
    assert fleet.run("resume", "a").code == 0 and suspended(fleet) == set()


def test_what_was_promoted_and_has_failed_since_has_the_place_still(fleet: Terminal) -> None:
    in_place_of(fleet, "b", over="a")
    fleet.bench.fail("b")
    ran = fleet.run("resume", "-l", "team=web", "--yes")
    assert ran.code == 0 and "b: registered again" in ran.out
    assert suspended(fleet) == {"a"}


def test_another_submission_of_a_job_that_was_replaced_is_a_job_like_any_other(fleet: Terminal) -> None:
    in_place_of(fleet, "b", over="a")
    fleet.run("cancel", "a")
    assert fleet.run("submit", fleet.spec("a", WEB), "--suspended").code == 0
    assert fleet.run("resume", "-l", "team=web", "--yes").code == 0 and suspended(fleet) == set()
