"""Pause, unpause and switchover as writes: guarded, settled when the reply is lost, and what they forbid."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from supervisor.errors import Conflict, GuardFailed, OutcomeUnknown
from supervisor.model.records import (
    Assignment,
    EpochRecord,
    Handover,
    LeaderHint,
    Lease,
    Ownership,
    OwnState,
    Pause,
)
from supervisor.model.seen import Found
from supervisor.model.transaction import ANY_VERSION, Create, Delete, Transaction
from supervisor.operations.cluster import ClusterOperations
from supervisor.registry import attempt_writes, operator_writes
from supervisor.registry.leader_write_context import LeaderWriteContext
from tests.fakes.registry_bench import AT, Bench

Spoil = Callable[[Any], None]
LOST: dict[str, Spoil] = {
    "applied": lambda client: client.lose_next_reply(),
    "not applied": lambda client: client.fail_next_commit_before(),
}


@pytest.fixture
def bench() -> Bench:
    bench = Bench()
    bench.join("s0")
    bench.join("s1")
    bench.put(bench.layout.epoch, EpochRecord(epoch=7, supervisor="s0", op="op"))
    bench.put(bench.layout.leader, LeaderHint(supervisor="s0", epoch=7, address="s0:1"))
    return bench


def wish_of(bench: Bench) -> Handover | None:
    found = bench.record(Handover, bench.layout.switchover)
    return found.record if isinstance(found, Found) else None


@pytest.mark.parametrize("spoil", LOST.values(), ids=LOST)
def test_a_lost_reply_is_resolved(bench: Bench, spoil: Spoil) -> None:
    sessions = bench.sessions()
    operator = ClusterOperations(sessions, bench.layout, "ops@here")
    spoil(sessions.zoo())
    assert operator.pause("why").changed and bench.has(bench.layout.pause)
    spoil(sessions.zoo())
    assert operator.unpause().changed and not bench.has(bench.layout.pause)
    spoil(sessions.zoo())
    asked = operator.switchover("s1")
    assert asked.wish is not None and asked.wish == wish_of(bench)
    assert (asked.epoch, asked.leader, asked.wish.to, asked.wish.by) == (7, "s0", "s1", "ops@here")


def test_an_outcome_that_cannot_be_learned_is_said_to_be_unknown(bench: Bench) -> None:
    sessions = bench.sessions()
    sessions.zoo().lose_next_reply(reconnect=False)
    with pytest.raises(OutcomeUnknown):
        ClusterOperations(sessions, bench.layout, "ops@here").pause("")


def test_a_switchover_is_about_the_term_that_was_seen(bench: Bench) -> None:
    """Somebody is elected between the look and the write: the wish is written for the new term, or not at all."""
    sessions = bench.sessions()

    def elect() -> None:
        bench.put(bench.layout.epoch, EpochRecord(epoch=8, supervisor="s1", op="op2"))
        bench.put(bench.layout.leader, LeaderHint(supervisor="s1", epoch=8, address="s1:1"))

    sessions.zoo().before_next_commit(elect)
    asked = ClusterOperations(sessions, bench.layout, "ops@here").switchover("s1")
    assert (asked.leader, asked.epoch, asked.wish) == ("s1", 8, None)
    assert wish_of(bench) is None


def test_a_leader_that_is_changing_just_now_is_a_conflict(bench: Bench) -> None:
    bench.put(bench.layout.epoch, EpochRecord(epoch=8, supervisor="s1", op="op2"))
    with pytest.raises(Conflict, match="just now"):
        ClusterOperations(bench.sessions(), bench.layout, "ops@here").switchover(None)


def test_the_wish_is_taken_away_only_by_a_later_term_and_only_as_it_was_seen(bench: Bench) -> None:
    operator = ClusterOperations(bench.sessions(), bench.layout, "ops@here")
    operator.switchover("s1")
    seen = bench.record(Handover, bench.layout.switchover)
    epoch = bench.record(EpochRecord, bench.layout.epoch)
    operator.switchover(None)  # a second thought
    zoo = bench.zoo.client()
    for found, fence in (
        (seen, epoch.version),
        (bench.record(Handover, bench.layout.switchover), epoch.version + 1),
    ):
        with pytest.raises(GuardFailed):
            zoo.commit(operator_writes.switched_over(bench.layout, found, fence, "op"))
    found = bench.record(Handover, bench.layout.switchover)
    zoo.commit(operator_writes.switched_over(bench.layout, found, epoch.version, "op"))
    assert not bench.has(bench.layout.switchover)


def test_from_its_acknowledgement_a_pause_keeps_every_leader_write_from_committing(bench: Bench) -> None:
    """A pass that was planned before may still be on its way: its writes fail on /pause."""
    bench.submit("a")
    epoch = bench.record(EpochRecord, bench.layout.epoch)
    context = LeaderWriteContext(bench.layout, 7, epoch.version, "op", AT)
    write = context.transaction("anything", Create(f"{bench.layout.root}/x", b""))
    zoo = bench.zoo.client()
    operator = ClusterOperations(bench.sessions(), bench.layout, "ops@here")
    operator.pause("")
    with pytest.raises(GuardFailed) as refused:
        zoo.commit(write)
    assert (refused.value.path, bench.has(f"{bench.layout.root}/x")) == (bench.layout.pause, False)
    operator.unpause()
    zoo.commit(write)
    assert not bench.has(bench.layout.pause)


def test_while_the_cluster_is_paused_nothing_is_claimed_but_what_runs_renews(bench: Bench) -> None:
    bench.submit("a")
    bench.run("a")
    lease = bench.record(Lease, bench.layout.lease("a")).record
    bench.zoo.client().commit(Transaction("gone", "g", (Delete(bench.layout.lease("a"), ANY_VERSION),)))
    bench.set_own("a", OwnState.ASSIGNED)
    own, ref = bench.record(Ownership, bench.layout.own("a")), bench.ref("a")
    entry = Assignment(
        name="a",
        uid=own.record.uid,
        attempt=1,
        revision=1,
        job_version=ref.version,
        own_version=own.version,
        spec=ref.record.spec,
        memory=1 << 30,
    )
    bench.zoo.put(bench.layout.assigned_to("host-a"), b"")
    bench.put(bench.layout.assignment("host-a", entry.uid, 1), entry)
    claim = attempt_writes.claim(bench.layout, entry, own, lease.claim, lease, None, "op", AT)
    operator, zoo = ClusterOperations(bench.sessions(), bench.layout, "ops@here"), bench.zoo.client()
    operator.pause("")
    with pytest.raises(GuardFailed) as refused:
        zoo.commit(claim)
    assert refused.value.path == bench.layout.pause
    operator.unpause()
    zoo.commit(claim)
    operator.pause("")
    zoo.commit(attempt_writes.renew(bench.layout, "a", own.version + 1, lease, "op2"))


def test_a_late_unpause_ends_no_newer_pause(bench: Bench) -> None:
    """Its outcome was unknown to its user; meanwhile others have ended that pause, and paused again for another reason."""
    sessions, others = bench.sessions(), bench.sessions()
    ClusterOperations(sessions, bench.layout, "ops@here").pause("one")
    sent: list[Transaction] = []
    sessions.zoo().before_next_commit(lambda: None)
    client = sessions.zoo()
    commit = client.commit
    client.commit = lambda tx: (sent.append(tx), commit(tx))[1]
    ClusterOperations(sessions, bench.layout, "ops@here").unpause()
    ClusterOperations(others, bench.layout, "ops@there").pause("another")
    with pytest.raises(GuardFailed) as refused:
        commit(sent[0])
    assert refused.value.path == bench.layout.doorbell
    found = bench.record(Pause, bench.layout.pause)
    assert isinstance(found, Found) and found.record.reason == "another"


def test_an_unpause_ends_the_pause_that_was_read(bench: Bench) -> None:
    """Ended by somebody else meanwhile: that is what was wanted."""
    sessions = bench.sessions()
    operator = ClusterOperations(sessions, bench.layout, "ops@here")
    operator.pause("one")
    found = bench.record(Pause, bench.layout.pause)
    gone = Transaction("unpause", "x", (Delete(bench.layout.pause, found.version),))
    sessions.zoo().before_next_commit(lambda: bench.zoo.client().commit(gone))
    assert not operator.unpause().changed
