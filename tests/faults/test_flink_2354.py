"""FLINK-2354 and its mirrors, interleaved by hand on a real ensemble: two leaders, one of which has not been told.

A leads, J is registered and runs. A pauses; B is elected and reads {J}. A, not yet told, concludes J. B launches J from
its earlier read: a finished job runs again. Each step here is the product's own code; only its loops are the test's.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from supervisor.act.carry_out import ActionOutcome, ActionResult
from supervisor.clock import boottime_s
from supervisor.errors import GuardFailed, NotLeader
from supervisor.model.actions import Assign, Conclude, Revoke, Unassign
from supervisor.model.lease_terms import deadline_at_s
from supervisor.model.records import Cause, Outcome, OwnState, Result
from supervisor.model.seen import Found
from supervisor.model.transaction import Create, Transaction
from supervisor.records.reading import seen
from tests.faults import checker
from tests.faults.by_hand import LEASE_S, HandStage, HostByHand, LeaderByHand
from tests.faults.checker import Acknowledged
from tests.testbed.ensembles import Ensemble
from tests.waiting import wait_until


@pytest.fixture
def stage(ensemble: Ensemble, zk_root: str) -> Iterator[HandStage]:
    made = HandStage(ensemble.hosts, zk_root)
    yield made
    try:
        assert checker.violations(made.notes, [], grace_s=2.0) == []
    finally:
        made.close()


def outcome(stage: HandStage, uid: str) -> Outcome | None:
    path = stage.layout.result(uid)
    found = seen(Result, stage.read_znode(path), path)
    return found.record.outcome if isinstance(found, Found) else None


def starts(stage: HandStage, name: str) -> list[int]:
    return [note.attempt for note in stage.notes if note.job == name and note.event == "start"]


def outcomes(results: list[ActionResult]) -> list[ActionOutcome]:
    return [each.outcome for each in results]


def test_flink_2354(stage: HandStage) -> None:
    """A's conclude fails on the epoch; B, having read {J}, concludes it itself and launches nothing."""
    host = HostByHand(stage, "h")
    a = LeaderByHand(stage, "a")
    uid = stage.submit("j", unbounded=False)
    a.pass_once()
    (driver,) = host.claim_all()
    host.end(driver, Cause.FINISHED, 0)
    assert [type(action) for action in a.plan()] == [Conclude]  # and A pauses
    b = LeaderByHand(stage, "b")
    b.plan()
    assert outcomes(a.act()) == [ActionOutcome.NOT_LEADER]
    assert stage.registered("j") and outcome(stage, uid) is None
    b.act()
    assert outcome(stage, uid) is Outcome.FINISHED and not stage.registered("j")
    b.pass_once()
    assert host.claim_all() == []
    assert starts(stage, "j") == [1]


def test_flink_2354_an_old_view_under_the_right_epoch(stage: HandStage) -> None:
    """A leader concludes J, the user registers it again, and the same leader acts on its view of before: the versions of
    the job stop it where the epoch does not."""
    host = HostByHand(stage, "h")
    b = LeaderByHand(stage, "b")
    uid = stage.submit("j", attempts=0)
    b.pass_once()
    (driver,) = host.claim_all()
    host.end(driver, Cause.USER_ERROR, 1)
    b.plan()
    old = b.latest
    assert [type(action) for action in old.actions] == [Conclude]
    assert outcomes(b.act()) == [ActionOutcome.DONE]
    assert outcome(stage, uid) is Outcome.FAILED
    assert stage.commands().restart("j").uid == uid
    b.latest = old
    assert outcomes(b.act()) == [ActionOutcome.CHANGED]
    assert stage.registered("j"), "what was registered again is not lost"
    b.pass_once()
    host.claim_all()
    assert starts(stage, "j") == [1, 2]


def test_flink_2354_launch_from_an_old_read(stage: HandStage) -> None:
    """B would assign J; before it does, J is cancelled: the assignment fails, whatever B still believes."""
    host = HostByHand(stage, "h")
    stage.submit("j")
    b = LeaderByHand(stage, "b")
    assert [type(action) for action in b.plan()] == [Assign]
    done = stage.commands().cancel("j")
    acknowledged = Acknowledged("j", done.uid, boottime_s())
    assert outcomes(b.act()) == [ActionOutcome.CHANGED]
    b.pass_once()
    assert host.claim_all() == [] and starts(stage, "j") == []
    assert checker.revived(stage.notes, [acknowledged]) == []


def test_flink_2354_claim_of_an_old_assignment(stage: HandStage) -> None:
    """The assignment is committed and read by its host; then the job is cancelled, and the claim comes too late."""
    host = HostByHand(stage, "h")
    stage.submit("j")
    LeaderByHand(stage, "b").pass_once()
    entry = stage.own("j")
    (given,) = host.assigned()
    stage.commands().cancel("j")
    with pytest.raises(GuardFailed):
        host.claim(given)
    assert stage.own("j").version == entry.version + 1
    assert starts(stage, "j") == []


def test_flink_2354_mirror_a_job_added_after_the_read_is_not_lost(stage: HandStage) -> None:
    """K is registered after B's read, through nobody's leadership: B's writes for J leave it alone, the next view has it."""
    host = HostByHand(stage, "h")
    stage.submit("j")
    b = LeaderByHand(stage, "b")
    b.plan()
    uid = stage.submit("k")
    b.act()
    assert stage.registered("k")
    b.pass_once()
    host.claim_all()
    assert starts(stage, "j") == [1] and starts(stage, "k") == [1]
    assert stage.own("k").record.uid == uid


def test_flink_2354_mirror_a_running_job_is_not_started_twice(stage: HandStage) -> None:
    """A's J runs on; B adopts it while it is renewed. When it falls silent, B waits for the whole time, and A's host has
    killed its driver by then; the renewal that comes after the revocation fails."""
    old, new = HostByHand(stage, "old"), HostByHand(stage, "new")
    a = LeaderByHand(stage, "a")
    stage.submit("j")
    a.pass_once()
    (driver,) = [*old.claim_all(), *new.claim_all()]
    host = old if driver in old.running else new
    b = LeaderByHand(stage, "b")
    for _ in range(3):
        host.renew(driver)
        assert b.plan() == ()
    assert outcomes(a.pass_once()) in ([], [ActionOutcome.NOT_LEADER])

    end_at_s = deadline_at_s(driver.sent_at_s, LEASE_S)
    revoked = False
    while not revoked:
        if driver.alive and boottime_s() >= end_at_s:
            host.end(driver, Cause.LEASE_EXPIRED, None, tombstone=False)
        elif driver.alive:
            host.beat(driver)
        revoked = any(isinstance(action, Revoke) for action in b.plan())
        assert not (revoked and driver.alive)
        assert revoked or b.latest.actions == ()
        until_at_s = boottime_s() + 0.1
        wait_until(lambda until_at_s=until_at_s: boottime_s() > until_at_s, 10, "the next pass")  # type: ignore[misc]
    b.act()
    with pytest.raises(GuardFailed):
        host.renew(driver)
    b.pass_once()
    (second,) = [*old.claim_all(), *new.claim_all()]
    assert second.entry.attempt == 2


def test_flink_2354_mirror_a_stale_lock_keeps_no_job(stage: HandStage) -> None:
    """Ephemerals of the old leader and of the old shim are still there: nobody asks them."""
    host = HostByHand(stage, "h")
    a = LeaderByHand(stage, "a")
    a.client.commit(Transaction("hint", "h", (Create(stage.layout.leader, b"{}", ephemeral=True),)))
    stage.submit("j", unbounded=False)
    a.pass_once()
    (driver,) = host.claim_all()
    assert stage.read_znode(stage.layout.live(driver.entry.uid, 1)) is not None
    b = LeaderByHand(stage, "b")
    host.end(driver, Cause.KILLED, 137)
    wait_until(lambda: any(isinstance(action, Assign) for action in b.plan()), 20, "the back-off")
    b.act()
    assert [each.entry.attempt for each in host.claim_all()] == [2]


def test_f52_a_leader_that_flaps(stage: HandStage) -> None:
    """A, B, A: the second epoch of A is above B's; what A's first term had planned comes to nothing (FLINK-9494, 9573)."""
    host = HostByHand(stage, "h")
    stage.submit("j")
    first = LeaderByHand(stage, "a")
    assert [type(action) for action in first.plan()] == [Assign]
    b = LeaderByHand(stage, "b")
    second = LeaderByHand(stage, "a")
    assert first.epoch < b.epoch < second.epoch
    assert outcomes(first.act()) == [ActionOutcome.NOT_LEADER]
    with pytest.raises(NotLeader):
        first.term.check()
    second.pass_once()
    host.claim_all()
    assert starts(stage, "j") == [1]


def test_f4_a_late_shim_after_the_assignment_was_taken_back(stage: HandStage) -> None:
    """Assigned, host gone, un-assigned, assigned elsewhere: the first host's shim claims nothing."""
    late = HostByHand(stage, "a-late")
    leader = LeaderByHand(stage, "l")
    stage.submit("j")
    leader.pass_once()
    (given,) = late.assigned()
    other = HostByHand(stage, "b-other")
    late.leave()
    assert [type(action) for action in leader.plan()] == [Unassign]
    leader.act()
    assert stage.state("j") is OwnState.VACANT
    leader.pass_once()
    (driver,) = other.claim_all()
    with pytest.raises(GuardFailed):
        late.claim(given)
    assert driver.entry.attempt == given.attempt + 1
    assert starts(stage, "j") == [2]
