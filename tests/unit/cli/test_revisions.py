"""``revisions`` and ``rollback --to``: what a job has been is kept, listed, and can be gone back to."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from supervisor.act.transactions import transaction_for
from supervisor.checkpoint.layout import parse_metadata
from supervisor.clock import wall_iso
from supervisor.model.actions import Conclude, GiveUpdateUp, RollBack
from supervisor.model.records import (
    Cause,
    HistoryEntry,
    JobRef,
    JudgedUpdate,
    Outcome,
    Ownership,
    OwnState,
    RevisionFate,
    Revisions,
)
from supervisor.model.seen import Found
from supervisor.model.transaction import Create, Delete, SetData
from supervisor.plan.decide import FRESH
from supervisor.registry.leader_write_context import LeaderWriteContext
from supervisor.registry.revisions import REVISIONS_MAX, known
from tests.fakes.registry_bench import ROOT
from tests.unit.checkpoint.golden import unpack
from tests.unit.cli.conftest import Terminal


def ref(terminal: Terminal) -> JobRef:
    record: JobRef = terminal.bench.ref("a").record
    return record


def kept(terminal: Terminal) -> Any:
    path = terminal.bench.layout.revisions_of(ref(terminal).uid)
    found = terminal.bench.record(Revisions, path)
    return found.record if isinstance(found, Found) else found


def runs(terminal: Terminal, revision: int, state: OwnState = OwnState.CLAIMED, **changes: Any) -> None:
    terminal.bench.set_own("a", state, revision=revision, **changes)


def applied(terminal: Terminal, *leases: str) -> None:
    """Each is a revision, and runs."""
    terminal.submit("a")
    runs(terminal, 1)
    for number, lease in enumerate(leases, start=2):
        assert terminal.run("apply", terminal.spec("a", f"lease: {lease}")).code == 0
        runs(terminal, number, judged=JudgedUpdate(target=number))


def by_leader(terminal: Terminal, kind: Any, why: str) -> None:
    """What the leader writes."""
    own = terminal.bench.record(Ownership, f"{ROOT}/own/a")
    action = kind("a", why, terminal.bench.ref("a"), own)
    tx = transaction_for(
        action, LeaderWriteContext(terminal.bench.layout, 1, 0, "op-l", "2026-01-01T00:00:00Z")
    )
    for op in tx.ops[3:]:  # but the guards of a term
        if isinstance(op, Create | SetData):
            terminal.bench.zoo.put(op.path, op.data)
        elif isinstance(op, Delete):
            terminal.bench.zoo.remove(op.path)


def states(terminal: Terminal) -> list[tuple[int, str]]:
    return [(each["revision"], each["state"]) for each in terminal.run("revisions", "a", "-o", "json").json]


def test_a_job_that_was_never_changed_has_one_and_no_record(terminal: Terminal) -> None:
    terminal.submit("a")
    assert kept(terminal) is None
    (only,) = terminal.run("revisions", "a", "-o", "json").json
    assert (only["revision"], only["state"], only["spec_sha256"]) == (1, "running", ref(terminal).spec.sha256)
    assert only["at"] == ref(terminal).submitted_at


def test_each_update_is_kept_with_what_changed(terminal: Terminal) -> None:
    applied(terminal, "20s", "25s")
    ran = terminal.run("revisions", "a", "-o", "json").json
    assert [(each["revision"], each["state"], each["changed"]) for each in ran] == [
        (3, "running", ["lease"]),
        (2, "superseded", ["lease"]),
        (1, "superseded", []),
    ]
    assert ran[0]["why"] == "its update is observing"
    assert [each.revision for each in kept(terminal).revisions] == [1, 2, 3]
    text = terminal.run("revisions", "a").out.splitlines()
    assert text[0].split() == ["REVISION", "AT", "BY", "STATE", "CHANGED", "WHY"]
    assert len(text) == 4


def test_what_the_leader_gave_up_is_told_and_kept_by_the_next_update(terminal: Terminal) -> None:
    applied(terminal, "20s")
    terminal.run("apply", terminal.spec("a", "lease: 25s"))
    by_leader(terminal, GiveUpdateUp, "no Python")
    assert states(terminal) == [(3, "failed"), (2, "running"), (1, "superseded")]
    terminal.run("apply", terminal.spec("a", "lease: 28s"))
    assert states(terminal) == [(4, "pending"), (3, "failed"), (2, "running"), (1, "superseded")]
    runs(terminal, 4)
    assert states(terminal) == [(4, "running"), (3, "failed"), (2, "superseded"), (1, "superseded")]
    runs(terminal, 2)
    entry = kept(terminal).revisions[2]
    assert (entry.fate, entry.why) == (RevisionFate.FAILED, "no Python")
    refused = terminal.run("apply", terminal.spec("a", "lease: 25s"))
    assert "a: unchanged; revision 3 had this spec and was given up: no Python; apply --again" in refused.out


def rolled_back(terminal: Terminal) -> None:
    applied(terminal, "20s")
    runs(terminal, 2, OwnState.EXITED, cause=Cause.USER_ERROR, reason="boom", judged=JudgedUpdate(target=2))
    by_leader(terminal, RollBack, "revision 2 failed: boom")


def test_what_the_leader_rolled_back_is_told_and_left_alone(terminal: Terminal) -> None:
    rolled_back(terminal)
    ran = terminal.run("revisions", "a", "-o", "json").json
    assert [(each["revision"], each["state"], each["why"]) for each in ran] == [
        (3, "running", "revision 1 again"),
        (2, "rolled_back", "revision 2 failed: boom"),
        (1, "superseded", None),
    ]
    assert ran[0]["spec_sha256"] == ran[2]["spec_sha256"] and ran[0]["by"] == "leader"
    again = terminal.run("apply", terminal.spec("a", "lease: 20s"))
    assert "revision 2 had this spec and was rolled back: revision 2 failed: boom; apply --again" in again.out
    assert "a: already rolled back" in terminal.run("rollback", "a").out
    assert terminal.run("apply", terminal.spec("a", "lease: 20s"), "--again").out.startswith(
        "a: updated to revision 4"
    )


def test_show_list_and_explain_say_it_was_rolled_back(terminal: Terminal) -> None:
    rolled_back(terminal)
    update = terminal.run("show", "a", "-o", "json").json["update"]
    assert (update["state"], update["target"], update["stable"]) == ("rolled_back", 2, 1)
    assert update["why"] == "revision 2 failed: boom"
    assert "rolled back: revision 2 failed: boom; 1 runs again" in terminal.run("show", "a").out
    assert "revision 3 is 1 again: revision 2 failed: boom" in terminal.run("explain", "a").out
    terminal.bench.run("a")
    runs(terminal, 3)
    assert "revision 2 was rolled back (revisions a)" in terminal.run("list").out


def test_a_roll_back_to_any_of_them_is_a_new_revision_with_its_spec(terminal: Terminal) -> None:
    applied(terminal, "20s", "25s")
    first = known(ref(terminal), kept(terminal).revisions)[0]
    assert terminal.run("rollback", "a", "--to", "1").out.startswith("a: rolled back (")
    job = ref(terminal)
    assert (job.revision, job.spec.sha256, job.terms.lease_s) == (4, first.sha256, 30.0)
    assert job.update is not None and job.update.policy is None and job.update.rolls_back
    assert kept(terminal).revisions[-1].stored_as == 1
    assert "a: unchanged" in terminal.run("rollback", "a", "--to", "1").out
    assert ref(terminal) == job
    runs(terminal, 4)
    assert terminal.run("rollback", "a", "--to", "3").code == 0
    assert ref(terminal).terms.lease_s == 25.0


def test_one_that_is_under_way_is_withdrawn(terminal: Terminal) -> None:
    applied(terminal, "20s")
    terminal.run("apply", terminal.spec("a", "lease: 25s"))
    assert "a: update withdrawn" in terminal.run("rollback", "a", "--to", "2").out
    assert states(terminal) == [(3, "superseded"), (2, "running"), (1, "superseded")]
    assert kept(terminal).revisions[-1].why == "withdrawn before it began"


def test_what_is_not_kept_or_gone_is_refused_with_what_to_do(terminal: Terminal) -> None:
    applied(terminal, "20s")
    ran = terminal.run("rollback", "a", "--to", "7")
    assert ran.code != 0
    assert "a has no revision 7 that is kept (there are 1, 2); revisions a lists them" in ran.err
    for path in terminal.home.rglob("1-*.json"):
        path.unlink()
    ran = terminal.run("rollback", "a", "--to", "1")
    assert ran.code != 0
    assert "the spec of revision 1 of a can't be read back" in ran.err and "apply the spec" in ran.err
    assert terminal.run("revisions", "a", "-o", "json").json[0]["changed"] is None


def test_another_checkpoint_is_refused_with_the_way_by_a_savepoint(terminal: Terminal) -> None:
    applied(terminal, "20s")
    job = ref(terminal)
    moved = replace(job, terms=replace(job.terms, checkpoint="s3a://bucket/elsewhere"))
    terminal.bench.put(f"{ROOT}/jobs/a", moved)
    ran = terminal.run("rollback", "a", "--to", "1")
    assert ran.code != 0
    assert "a roll back keeps the checkpoint" in ran.err
    assert "suspend a --wait, then rollback a --to 1 --from-savepoint" in ran.err


def test_from_a_savepoint_only_without_a_driver(terminal: Terminal) -> None:
    applied(terminal, "20s")
    ran = terminal.run("rollback", "a", "--from-savepoint", "before")
    assert ran.code != 0
    assert ref(terminal).revision == 2


def test_the_newest_twenty_are_kept(terminal: Terminal) -> None:
    terminal.submit("a")
    for number in range(2, 26):
        runs(terminal, number - 1)
        assert terminal.run("apply", terminal.spec("a", f"lease: {30 + number}s")).code == 0
    runs(terminal, 25)
    assert [number for number, _ in states(terminal)] == list(range(25, 25 - REVISIONS_MAX, -1))
    assert len(kept(terminal).revisions) == REVISIONS_MAX


def test_a_root_of_the_version_before_has_no_parent_and_gets_one(terminal: Terminal) -> None:
    terminal.submit("a")
    runs(terminal, 1)
    terminal.bench.zoo.remove(terminal.bench.layout.revisions)
    assert states(terminal) == [(1, "running")]
    assert terminal.run("apply", terminal.spec("a", "lease: 20s")).code == 0
    assert [each.revision for each in kept(terminal).revisions] == [1, 2]


def test_a_record_that_cannot_be_read_is_made_anew(terminal: Terminal) -> None:
    applied(terminal, "20s")
    terminal.bench.zoo.put(terminal.bench.layout.revisions_of(ref(terminal).uid), b"{")
    assert states(terminal) == [(2, "running"), (1, "superseded")]
    assert terminal.run("apply", terminal.spec("a", "lease: 25s")).code == 0
    assert [each.revision for each in kept(terminal).revisions] == [1, 2, 3]


def test_a_job_that_has_failed_is_registered_again_with_any_of_them(terminal: Terminal) -> None:
    applied(terminal, "20s", "25s")
    runs(terminal, 3, OwnState.EXITED, cause=Cause.USER_ERROR)
    by_leader(terminal, partial(Conclude, outcome=Outcome.FAILED, account=FRESH), "spent")
    assert terminal.run("revisions", "a", "-o", "json").json[0]["revision"] == 3
    assert "a: registered again" in terminal.run("rollback", "a", "--to", "1").out
    assert (ref(terminal).revision, ref(terminal).terms.lease_s) == (4, 30.0)
    assert [each.revision for each in kept(terminal).revisions] == [1, 2, 3, 4]


def test_an_update_says_how_it_is_judged(terminal: Terminal) -> None:
    terminal.submit("a")
    runs(terminal, 1)
    spec = "update: {mode: manual, observe: 1m, failures: 2, rollback: never}"
    ran = terminal.run("diff", terminal.spec("a", spec))
    assert "the running driver goes on until restart a is given (update.mode: manual)" in ran.out
    assert terminal.run("apply", terminal.spec("a", spec)).code == 0
    update = ref(terminal).update
    assert update is not None and update.policy is not None
    policy = update.policy
    assert (policy.mode, policy.observe_s, policy.failures, policy.rollback) == ("manual", 60.0, 2, "never")


def test_a_wait_ends_at_once_where_the_update_waits_for_a_restart(terminal: Terminal) -> None:
    terminal.submit("a")
    runs(terminal, 1, restart_nonce=ref(terminal).restart_nonce)
    ran = terminal.run("apply", terminal.spec("a", "update: {mode: manual}"), "--wait", "--timeout", "5s")
    assert ran.code == 0
    assert "a goes on with revision 1 until restart a is given" in ran.err


def test_a_rule_of_rollback_that_there_is_not_is_refused_when_it_is_read(terminal: Terminal) -> None:
    ran = terminal.run("apply", terminal.spec("a", "update: {rollback: always}"))
    assert ran.code != 0
    assert "update.rollback" in ran.err and "savepoint" in ran.err


@pytest.mark.parametrize("known_job", [False, True])
def test_a_name_that_was_never_submitted(terminal: Terminal, known_job: bool) -> None:
    if known_job:
        terminal.submit("a")
    assert terminal.run("revisions", "b").code != 0


@pytest.mark.parametrize("verb", ["rollback", "resume"])
def test_who_went_back_to_a_savepoint_is_told(terminal: Terminal, tmp_path: Path, verb: str) -> None:
    text = f"checkpoint: {unpack('files', tmp_path)}\nargs: ['{{checkpoint}}']"
    assert terminal.run("submit", terminal.spec("a", text)).code == 0
    assert terminal.run("savepoint", "create", "a", "one").code == 0
    assert terminal.run("apply", terminal.spec("a", f"{text}\nlease: 40s")).code == 0
    terminal.run("suspend", "a")
    assert terminal.run(verb, "a", "--from-savepoint", "one").code == 0
    newest, applied_one, _ = terminal.run("revisions", "a", "-o", "json").json
    assert newest["by"] == applied_one["by"] is not None
    assert "from savepoint one" in newest["why"]


@pytest.fixture
def failed_release(terminal: Terminal, tmp_path: Path) -> Path:
    """Revision 2 has failed at its first batch: 13 is planned, 12 is committed. Returns the checkpoint."""
    checkpoint = unpack("hdfs-v1", tmp_path)
    query = parse_metadata((checkpoint / "metadata").read_bytes())
    assert terminal.run("submit", terminal.spec("a", f"checkpoint: {checkpoint}\n")).code == 0
    runs(terminal, 1)
    assert terminal.run("apply", terminal.spec("a", f"checkpoint: {checkpoint}\nlease: 20s")).code == 0
    judged = JudgedUpdate(target=2, queries=(f"{query} 12",), before=1)
    nonce = ref(terminal).restart_nonce
    history = (HistoryEntry(at=wall_iso(), event="user_error", attempt=2),)
    ended: dict[str, Any] = {
        "cause": Cause.USER_ERROR,
        "reason": "boom",
        "judged": judged,
        "history": history,
        "attempt": 2,
    }
    ended["restart_nonce"] = nonce
    runs(terminal, 2, OwnState.EXITED, **ended)
    return checkpoint


BROKEN = "revision 2 has failed while it was observed, and is not rolled back by itself"


def test_after_the_failure_nothing_says_that_the_update_is_observed(
    terminal: Terminal, failed_release: Path
) -> None:
    (newest, _) = terminal.run("revisions", "a", "-o", "json").json
    assert newest["why"].startswith(BROKEN)
    shown = terminal.run("show", "a", "-o", "json").json
    assert shown["update"]["state"] == "broken" and shown["update"]["why"].startswith(BROKEN)
    assert BROKEN in terminal.run("show", "a").out
    runs(
        terminal, 2, OwnState.CLAIMED, judged=JudgedUpdate(target=2, failures=1, left="batch 7 was committed")
    )
    for words in (("list",), ("revisions", "a"), ("show", "a"), ("explain", "a")):
        assert "is observed" not in terminal.run(*words).out and "observing" not in terminal.run(*words).out
    assert "(batch 7 was committed)" in terminal.run("explain", "a").out


def test_explain_looks_at_the_checkpoint_and_says_that_the_leader_rolls_back(
    terminal: Terminal, failed_release: Path
) -> None:
    ran = terminal.run("explain", "a")
    assert "rolls revision 2 back" in ran.out and "spark-supervisor rollback" not in ran.out


def test_explain_says_why_it_is_not_rolled_back_and_offers_that_first(
    terminal: Terminal, failed_release: Path
) -> None:
    schema = failed_release / "state" / "0" / "0" / "_metadata" / "schema"
    schema.write_bytes(b"another")
    ran = terminal.run("explain", "a")
    assert "has written how its state is made: state/0/0/_metadata/schema" in ran.out
    assert "rolls revision 2 back" not in ran.out
    can = [line.partition("you can")[2] for line in ran.out.splitlines() if "you can" in line]
    assert can[0].split("#")[0].split() == ["spark-supervisor", "rollback", "a"]


def test_a_job_that_has_failed_for_good_by_an_update_can_go_back_first(
    terminal: Terminal, failed_release: Path
) -> None:
    by_leader(terminal, partial(Conclude, outcome=Outcome.FAILED, account=FRESH), "boom")
    ran = terminal.run("explain", "a")
    can = [
        line.partition("you can")[2].split("#")[0].split()
        for line in ran.out.splitlines()
        if "you can" in line
    ]
    assert can[:2] == [["spark-supervisor", "rollback", "a"], ["spark-supervisor", "resume", "a"]]
