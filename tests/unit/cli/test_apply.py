"""``apply``, ``diff`` and ``rollback``: what files say becomes what jobs shall run, or nothing happens at all."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from supervisor.clock import wall_iso, wall_s
from supervisor.model.actions import Conclude, GiveUpdateUp
from supervisor.model.records import Cause, JobRef, Outcome, Ownership, OwnState
from supervisor.model.seen import Found
from supervisor.model.transaction import SetData
from supervisor.operations.jobs import Done, JobOperations
from supervisor.operations.updating import Target
from supervisor.plan.decide import FRESH
from supervisor.records.codec import MAX_RECORD_BYTES, encode
from supervisor.registry import leader_writes
from supervisor.registry.leader_write_context import LeaderWriteContext
from tests.fakes.registry_bench import ROOT
from tests.fakes.zookeeper import MemoryClient
from tests.unit.checkpoint.savepoints import Killed, Life
from tests.unit.cli.conftest import Terminal


def folder(terminal: Terminal, *names: str, text: str = "") -> Path:
    for name in names:
        terminal.spec(name, text, file=f"jobs-{name}.yaml")
    path = terminal.home / "jobs"
    path.mkdir(exist_ok=True)
    (path / "app.py").write_text("print('hello')\n")
    for name in names:
        (terminal.home / f"jobs-{name}.yaml").rename(path / f"{name}.yaml")
    return path


def runs(terminal: Terminal, name: str, revision: int = 1) -> None:
    """An attempt of that revision runs."""
    terminal.bench.set_own(name, OwnState.CLAIMED, revision=revision)


def give_up(terminal: Terminal, name: str, why: str) -> None:
    """By the write of the leader, without its guards."""
    bench = terminal.bench
    own = bench.record(Ownership, bench.layout.own(name))
    assert isinstance(own, Found)
    context = LeaderWriteContext(bench.layout, 1, -1, "op-9", wall_iso(wall_s()), "supervisor:s1")
    (written,) = (
        op
        for op in leader_writes.give_update_up(context, GiveUpdateUp("j", why, bench.ref(name), own)).ops
        if isinstance(op, SetData) and op.path == bench.layout.job(name)
    )
    bench.zoo.put(written.path, written.data)


def ref(terminal: Terminal, name: str) -> JobRef:
    record: JobRef = terminal.bench.ref(name).record
    return record


def test_what_is_new_is_submitted_what_differs_is_updated_and_the_rest_left(terminal: Terminal) -> None:
    jobs = folder(terminal, "a", "b")
    first = terminal.run("apply", str(jobs))
    assert (first.code, sorted(first.out.splitlines())) == (0, ["a: created", "b: created"])
    folder(terminal, "a", text="lease: 20s")
    folder(terminal, "c")
    ran = terminal.run("apply", str(jobs), "-o", "json")
    assert [(each["name"], each["action"], each["revision"]) for each in ran.json] == [
        ("a", "updated", 2),
        ("b", "unchanged", 1),
        ("c", "created", 1),
    ]
    assert ref(terminal, "a").terms.lease_s == 20.0
    assert ref(terminal, "a").revision == 2
    again = terminal.run("apply", str(jobs))
    assert (again.code, again.out) == (0, "a, b, c: unchanged\n")


def test_an_update_keeps_what_runs_beside_it_and_stops_nothing(terminal: Terminal) -> None:
    terminal.submit("a")
    runs(terminal, "a")
    before, own = ref(terminal, "a"), terminal.bench.record(type(terminal.bench.own("a")), f"{ROOT}/own/a")
    assert terminal.run("apply", terminal.spec("a", "lease: 20s")).out == "a: updated to revision 2\n"
    after = ref(terminal, "a")
    assert after.update is not None
    assert (after.update.before.revision, after.update.before.spec) == (1, before.spec)
    assert (after.restart_nonce, after.desired, after.uid) == (
        before.restart_nonce,
        before.desired,
        before.uid,
    )
    assert terminal.bench.record(type(own.record), f"{ROOT}/own/a") == own
    assert after.changed.event == "updated"


def test_one_bad_file_and_nothing_is_done_and_every_error_is_told(terminal: Terminal) -> None:
    jobs = folder(terminal, "a", "b")
    bad = jobs / "bad.yaml"
    bad.write_text("name: bad\napplication: nothing.txt\ncheckpont: s3://bucket/x\nlease: soon\n")
    ran = terminal.run("apply", str(jobs))
    assert (ran.code, ran.out) == (2, "")
    lines = ran.err.splitlines()
    assert lines[0].startswith(f"error: unknown key 'checkpont' in {bad}:3")
    assert any(f"{bad}:2: application " in line for line in lines)
    assert any(f"{bad}:4: lease " in line for line in lines)
    assert lines[-1] == "nothing was done: 1 of 3 specs are refused"
    assert not terminal.bench.has(f"{ROOT}/jobs/a")


def test_another_checkpoint_is_refused_with_what_to_write(terminal: Terminal) -> None:
    terminal.submit("a")
    ran = terminal.run("apply", terminal.spec("a", "checkpoint: s3://bucket/elsewhere"))
    assert ran.code == 4
    assert "an update keeps the checkpoint; write s3://bucket/a into the spec" in ran.err
    assert ref(terminal, "a").revision == 1


def test_two_specs_of_one_name_are_refused(terminal: Terminal) -> None:
    one, other = terminal.spec("a"), terminal.spec("a", "lease: 20s", file="other.yaml")
    ran = terminal.run("apply", one, other)
    assert ran.code == 4
    assert "two different specs of a" in ran.err
    assert not terminal.bench.has(f"{ROOT}/jobs/a")


def test_a_dry_run_says_how_and_does_nothing(terminal: Terminal) -> None:
    terminal.submit("a")
    spec = terminal.spec("a", "lease: 20s")
    assert (
        "no driver of it runs; the next one is of the new revision"
        in terminal.run("apply", spec, "--dry-run").out
    )
    runs(terminal, "a")
    ran = terminal.run("apply", spec, "--dry-run")
    assert (ran.code, ran.out) == (
        0,
        "a: would be updated to revision 2; a driver of the new revision is prepared, and the running one is stopped when it"
        " is ready\n",
    )
    cold = terminal.run("apply", terminal.spec("a", "update: {prepare: off}"), "--dry-run")
    assert "the next one starts cold: its spec says update.prepare: off" in cold.out
    assert ref(terminal, "a").revision == 1


def test_diff_says_it_key_by_key(terminal: Terminal) -> None:
    terminal.submit("a")
    assert (terminal.run("diff", terminal.spec("a")).code, terminal.run("diff", terminal.spec("a")).out) == (
        0,
        "",
    )
    ran = terminal.run("diff", terminal.spec("a", "lease: 20s\nconf: {spark.x: '1'}"))
    assert ran.code == 1
    assert ran.out.splitlines()[1:] == ["  conf.spark.x: (none) → 1", "  lease: 30s → 20s"]
    (document,) = terminal.run("diff", terminal.spec("a", "lease: 20s"), "-o", "json").json
    assert document["differences"] == [{"key": "lease", "before": "30s", "after": "20s"}]


def test_a_second_update_replaces_the_first_and_the_spec_that_runs_withdraws_it(terminal: Terminal) -> None:
    terminal.submit("a")
    runs(terminal, "a")
    terminal.run("apply", terminal.spec("a", "lease: 20s"))
    terminal.run("apply", terminal.spec("a", "lease: 40s"))
    twice = ref(terminal, "a")
    assert twice.update is not None
    assert (twice.revision, twice.update.before.revision) == (3, 1)
    ran = terminal.run("apply", terminal.spec("a"))
    assert ran.out == (
        "a: updated to revision 1; revision 1 runs already, and the update to 3 is withdrawn\n"
    )
    now = ref(terminal, "a")
    assert (now.revision, now.update, now.last_revision, now.changed.event) == (
        1,
        None,
        3,
        "update withdrawn",
    )
    terminal.run("apply", terminal.spec("a", "lease: 50s"))
    assert ref(terminal, "a").revision == 4, "a number is given once"


def test_a_spec_that_was_given_up_is_left_until_it_is_asked_for_again(terminal: Terminal) -> None:
    terminal.submit("a")
    runs(terminal, "a")
    terminal.run("apply", terminal.spec("a", "lease: 20s"))
    give_up(terminal, "a", "No module named 'clicks'")
    ran = terminal.run("apply", terminal.spec("a", "lease: 20s"))
    assert ran.code == 0
    assert (
        "revision 2 had this spec and was given up: No module named 'clicks'; apply --again tries it"
        in ran.out
    )
    assert (
        terminal.run("apply", terminal.spec("a", "lease: 20s"), "--again").out
        == "a: updated to revision 3; revision 2 had this spec and was given up: No module named 'clicks'\n"
    )
    shown = terminal.run("show", "a", "-o", "json").json["update"]
    assert (shown["state"], shown["target"], shown["stable"]) == ("preparing", 3, 1)


def test_history_has_who_asked_for_an_update_that_was_given_up(terminal: Terminal) -> None:
    """The leader's word takes the place of the user's in the reference, and a restart that of the leader's."""
    terminal.submit("a")
    runs(terminal, "a")
    terminal.run("apply", terminal.spec("a", "lease: 20s"))
    asked = ref(terminal, "a").changed
    give_up(terminal, "a", "No module named 'clicks'")

    def entries() -> list[tuple[str, str, str | None]]:
        (story,) = terminal.run("history", "a", "-o", "json").json["uids"]
        return [(each["event"], each["detail"], each["by"]) for each in story["history"]][-2:]

    assert entries() == [
        ("updated", "revision 2 replaces 1", asked.by),
        ("update failed", "revision 2: No module named 'clicks'", "supervisor:s1"),
    ]
    assert asked.by
    assert terminal.run("restart", "a").code == 0
    before, last = entries()
    assert before == ("updated", "revision 2 replaces 1; it was given up: No module named 'clicks'", asked.by)
    assert last[0] == "restarted"


def test_explain_says_how_long_a_failed_update_is_told(terminal: Terminal) -> None:
    """The spec that runs is applied once more: that changes nothing, and so the note stays."""
    terminal.submit("a")
    runs(terminal, "a")
    terminal.run("apply", terminal.spec("a", "lease: 20s"))
    give_up(terminal, "a", "No module named 'clicks'")
    assert terminal.run("apply", terminal.spec("a")).out == "a: unchanged\n"
    said = " ".join(terminal.run("explain", "a").out.split())
    assert "was given up, and 1 goes on: No module named 'clicks'; this is said " in said
    assert "until the next update (apply --again: to the same spec)" in said
    terminal.run("apply", terminal.spec("a", "lease: 25s"))
    assert "given up" not in terminal.run("explain", "a").out


def test_rollback_goes_to_what_ran_before_as_a_new_revision(terminal: Terminal) -> None:
    terminal.submit("a")
    ran = terminal.run("rollback", "a")
    assert (ran.code, "none is known to go back to" in ran.err) == (4, True)
    first = ref(terminal, "a")
    terminal.run("apply", terminal.spec("a", "lease: 20s"))
    runs(terminal, "a", revision=2)
    assert terminal.run("rollback", "a").code == 0
    back = ref(terminal, "a")
    assert (back.revision, back.spec, back.terms) == (3, first.spec, first.terms)
    assert back.update is not None and back.update.before.revision == 2
    again = terminal.run("rollback", "a")
    assert (again.code, again.out.startswith("a: already rolled back"), ref(terminal, "a")) == (0, True, back)


def test_rollback_of_one_that_waits_withdraws_it(terminal: Terminal) -> None:
    terminal.submit("a")
    runs(terminal, "a")
    terminal.run("apply", terminal.spec("a", "lease: 20s"))
    assert terminal.run("rollback", "a").out.startswith("a: update withdrawn")
    assert ref(terminal, "a").revision == 1


def test_specs_extend_others_and_options_go_over_all(terminal: Terminal) -> None:
    jobs = folder(terminal)
    base = jobs / "_base.yaml"
    base.write_text("application: app.py\nlease: 20s\nresources: {memory: 2g, priority: 5}\n")
    (jobs / "a.yaml").write_text(
        "extends: _base.yaml\nname: a\ncheckpoint: s3://bucket/a\nresources: {memory: 3g}\n"
    )
    ran = terminal.run(
        "apply", str(jobs), "--set", "health.stall_timeout=20m", "--set", "conf.spark.a.b=1.10"
    )
    assert (ran.code, ran.out) == (0, "a: created\n"), ran.err
    spec = terminal.run("show", "a", "-o", "json").json["spec"]
    assert (spec["lease"], spec["resources"]["memory"], spec["resources"]["priority"]) == ("20s", "3g", 5)
    assert (spec["health"]["stall_timeout"], spec["conf"]) == ("20m", {"spark.a.b": "1.10"})


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("extends: a.yaml\nname: a\n", "a.yaml:1: extends leads back to a.yaml"),
        ("extends: [a, b]\nname: a\n", "a.yaml:1: extends must be the name of one file"),
        ("extends: gone.yaml\nname: a\n", "gone.yaml cannot be read (No such file or directory)"),
    ],
)
def test_what_cannot_be_extended_is_told(terminal: Terminal, text: str, said: str) -> None:
    jobs = folder(terminal)
    (jobs / "a.yaml").write_text(text)
    ran = terminal.run("apply", str(jobs))
    assert ran.code == 2
    assert said in ran.err


def test_an_error_in_a_value_names_the_file_in_which_it_stands(terminal: Terminal) -> None:
    jobs = folder(terminal)
    (jobs / "_base.yaml").write_text("application: app.py\nlease: soon\n")
    (jobs / "a.yaml").write_text("extends: _base.yaml\nname: a\ncheckpoint: s3://bucket/a\n")
    ran = terminal.run("apply", str(jobs))
    assert f"{jobs}/_base.yaml:2: lease " in ran.err
    ran = terminal.run("apply", str(jobs), "--set", "lease=40s", "--set", "unbounded=perhaps")
    assert "--set unbounded: unbounded must be true or false" in ran.err
    ran = terminal.run("apply", str(jobs), "--set", "lease")
    assert "--set 'lease' is not KEY=VALUE" in ran.err


def test_a_folder_without_specs_is_told(terminal: Terminal) -> None:
    empty = terminal.home / "empty"
    empty.mkdir()
    ran = terminal.run("apply", str(empty))
    assert (ran.code, f"{empty} has no spec in it" in ran.err) == (2, True)


def test_a_suspended_job_is_updated_and_stays_suspended(terminal: Terminal) -> None:
    terminal.submit("a")
    terminal.run("suspend", "a")
    assert terminal.run("apply", terminal.spec("a", "lease: 20s")).code == 0
    assert (ref(terminal, "a").desired.value, ref(terminal, "a").revision) == ("suspended", 2)


def test_given_up_and_waited_for_it_is_an_error_also_when_it_is_asked_for_again(terminal: Terminal) -> None:
    terminal.submit("a")
    runs(terminal, "a")
    spec = terminal.spec("a", "lease: 20s")
    terminal.run("apply", spec)
    give_up(terminal, "a", "no Python")
    ran = terminal.run("apply", spec, "--wait", "-o", "json")
    assert (ran.code, ran.json[0]["action"], ran.json[0]["exit_code"]) == (1, "unchanged", 1)
    assert "a does not run this spec: revision 2 had this spec and was given up: no Python" in ran.err
    assert "was given up: no Python" in terminal.run("diff", spec).out


def test_what_was_written_is_told_as_written_whatever_comes_of_the_wait(terminal: Terminal) -> None:
    terminal.submit("a")
    runs(terminal, "a")
    ran = terminal.run("apply", terminal.spec("a", "lease: 20s"), "--wait", "--timeout", "1s", "-o", "json")
    (document,) = ran.json
    assert (ran.code, document["action"], document["revision"], document["exit_code"]) == (7, "updated", 2, 7)


def test_nobody_waits_for_a_suspended_job(terminal: Terminal) -> None:
    terminal.submit("a")
    terminal.run("suspend", "a")
    ran = terminal.run("apply", terminal.spec("a", "lease: 20s"), "--wait")
    assert (ran.code, "a is suspended, and stays so" in ran.err) == (0, True)


def test_one_spec_by_two_paths_is_applied_once(terminal: Terminal) -> None:
    jobs = folder(terminal, "a")
    (jobs / "link.yaml").symlink_to(jobs / "a.yaml")
    (jobs / "copy.yaml").write_text((jobs / "a.yaml").read_text())
    (jobs / "below.yaml").mkdir()
    ran = terminal.run("apply", str(jobs), f"{jobs}/../jobs/a.yaml")
    assert (ran.code, ran.out.count("created")) == (0, 1)
    assert "says the same" in ran.out


def test_a_withdrawal_that_comes_too_late_changes_nothing(
    terminal: Terminal, monkeypatch: pytest.MonkeyPatch
) -> None:
    terminal.submit("a")
    runs(terminal, "a")
    terminal.run("apply", terminal.spec("a", "lease: 20s"))
    update = JobOperations.update

    def late(self: JobOperations, target: Target) -> Done:
        runs(terminal, "a", revision=2)
        return update(self, target)

    monkeypatch.setattr(JobOperations, "update", late)
    before = ref(terminal, "a")
    ran = terminal.run("apply", terminal.spec("a"))
    assert (ran.code, "a has begun with revision 2 meanwhile: nothing was done" in ran.err) == (4, True)
    assert ref(terminal, "a") == before


def test_what_ran_before_two_updates_is_kept_until_one_of_them_has_begun(terminal: Terminal) -> None:
    terminal.submit("a")
    runs(terminal, "a")
    terminal.run("apply", terminal.spec("a", "lease: 20s"))
    terminal.bench.set_own("a", OwnState.DRAINING)
    terminal.run("apply", terminal.spec("a", "lease: 40s"))
    kept = ref(terminal, "a").update
    assert kept is not None and kept.before.revision == 1


def test_a_job_that_failed_with_its_new_spec_is_rolled_back(terminal: Terminal) -> None:
    uid = terminal.submit("a")
    first, bench = ref(terminal, "a"), terminal.bench
    terminal.run("apply", terminal.spec("a", "lease: 20s"))
    bench.exit("a", Cause.USER_ERROR)
    bench.set_own("a", OwnState.EXITED, revision=2, cause=Cause.USER_ERROR)
    context = LeaderWriteContext(bench.layout, 1, -1, "op-9", "now")
    own = bench.record(type(bench.own("a")), f"{ROOT}/own/a")
    tx = leader_writes.conclude(context, Conclude("j", "why", bench.ref("a"), own, Outcome.FAILED, FRESH))
    bench.zoo.client().commit(replace(tx, ops=tuple(op for op in tx.ops if "/epoch" not in op.path)))
    ran = terminal.run("rollback", "a")
    assert ran.code == 0, ran.err
    back = ref(terminal, "a")
    assert (back.uid, back.revision, back.spec, back.terms) == (uid, 3, first.spec, first.terms)


def test_a_spec_that_would_not_fit_beside_the_one_before_is_refused(terminal: Terminal) -> None:
    name, long = "n" * 60, f"s3://bucket/{'x' * 1000}"
    more = "standby: {level: session}\nsavepoints: {every: 1h}\nrestart: {memory_step: 1.5, memory_max: 8g}\n"
    text = f"checkpoint: {long}\n{more}conf: {{spark.driver.memory: 1g}}\nresources: {{memory: 2g}}"
    assert terminal.run("submit", terminal.spec(name, text)).code == 0
    ran = terminal.run("apply", terminal.spec(name, f"{text}\nlease: 20s"))
    assert ran.code in (0, 4), ran.err
    job = ref(terminal, name)
    assert len(encode(job)) <= MAX_RECORD_BYTES - (500 if job.update else 0)


def test_secrets_are_covered_in_a_diff(terminal: Terminal) -> None:
    terminal.submit("a")
    ran = terminal.run("diff", terminal.spec("a", "conf: {spark.my.password: hunter2}"))
    assert (ran.code, "hunter2" in ran.out, "conf.spark.my.password" in ran.out) == (1, False, True)


def test_long_values_are_shown_where_they_differ(terminal: Terminal) -> None:
    long = "x" * 100
    terminal.run("submit", terminal.spec("a", f"args: ['{long}1']"))
    ran = terminal.run("diff", terminal.spec("a", f"args: ['{long}2']"))
    before, _, after = ran.out.splitlines()[1].partition(" → ")
    assert before.endswith('x1"]') and after.endswith('x2"]')


def test_a_name_that_is_no_path_is_one_short_sentence(terminal: Terminal) -> None:
    ran = terminal.run("apply", "x" * 5000)
    assert (ran.code, len(ran.err) < 400) == (2, True)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ("lease.x=1", "--set lease.x: lease "),
        ("conf={spark.a: '1'}", ""),
        ("extends=b.yaml", "--set can't say what a spec extends"),
        (f"{'k' * 300}=1", "is longer than 200 characters"),
    ],
    ids=["below a value", "a whole section", "extends", "a long key"],
)
def test_set(terminal: Terminal, change: str, said: str) -> None:
    ran = terminal.run("apply", terminal.spec("a"), "--set", change)
    assert (ran.code, said in ran.err) == (2 if said else 0, True)


def test_submit_names_the_file_in_which_an_error_stands(terminal: Terminal) -> None:
    (terminal.home / "_b.yaml").write_text("bogus: 1\n")
    path = Path(terminal.spec("a"))
    path.write_text(f"extends: _b.yaml\n{path.read_text()}")
    assert f"unknown key 'bogus' in {terminal.home}/_b.yaml:1" in terminal.run("submit", str(path)).err


def test_interrupted_while_it_waits_it_has_its_document_all_the_same(
    terminal: Terminal, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    terminal.submit("a")
    runs(terminal, "a")
    monkeypatch.setattr("supervisor.operations.waiting.sleep", interrupted)
    ran = terminal.run("apply", terminal.spec("a", "lease: 20s"), "--wait", "-o", "json")
    assert (ran.code, [(one["name"], one["action"], one["revision"]) for one in ran.json]) == (
        130,
        [("a", "updated", 2)],
    )


def test_what_is_prepared_is_not_said_to_be_observed(terminal: Terminal) -> None:
    terminal.submit("a")
    terminal.bench.run("a")
    terminal.run("apply", terminal.spec("a", "lease: 20s"))
    for command in (("list",), ("show", "a"), ("explain", "a")):
        said = terminal.run(*command).out
        assert "its update to revision 2 is under way" in said and "is observed" not in said
    terminal.bench.set_own("a", OwnState.CLAIMED, revision=2, restart_nonce=ref(terminal, "a").restart_nonce)
    assert "revision 2 is observed" in terminal.run("list").out


@pytest.mark.parametrize("after", [False, True])
def test_killed_at_any_write_an_apply_comes_to_the_same_end_when_it_is_given_again(
    terminal: Terminal, after: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """new is submitted, old is updated, gone is pruned; then old is rolled back."""
    label = "labels: {team: web}"
    path = folder(terminal, "old", "gone", text=label)
    assert terminal.run("apply", str(path)).code == 0
    runs(terminal, "old")
    (path / "gone.yaml").unlink()
    folder(terminal, "new", text=label)
    folder(terminal, "old", text=f"{label}\nlease: 20s")
    commit = MemoryClient.commit
    for given in (("apply", str(path), "--prune", "-l", "team=web", "--yes"), ("rollback", "old")):
        for at in range(20):
            life = Life(at, after=after)
            with monkeypatch.context() as patch:
                patch.setattr(
                    MemoryClient,
                    "commit",
                    lambda client, tx, life=life: life.change(lambda: commit(client, tx)),
                )
                try:
                    ran = terminal.run(*given)
                    break
                except Killed:
                    assert terminal.bench.own("old").state is OwnState.CLAIMED
        else:
            raise AssertionError("it never ends")
        assert ran.code == 0, ran.err
        jobs = set(terminal.bench.sessions().zoo().children(terminal.bench.layout.jobs) or ())
        assert jobs == {"old", "new"}
        job = ref(terminal, "old")
        assert (job.revision, job.last_revision or 1) == ((2, 2) if given[0] == "apply" else (1, 2))
