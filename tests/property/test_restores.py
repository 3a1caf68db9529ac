"""Restores and acceptances in any order: what was lost is noticed, and an acceptance excuses nothing that came after it.

The truth is a list of events that this test keeps; the judgement is that of the product: ``Trust`` with its file, the
terms in the store, the election's and the acceptance's multis on an ensemble in memory that goes back to a snapshot.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from hypothesis import example, given, settings
from hypothesis import strategies as st

from supervisor.coord.election import (
    ACCEPTER,
    Author,
    Candidate,
    RestoredRegistry,
    accept,
    election_view,
    recent_terms,
    take_leadership,
)
from supervisor.coord.trust import RegistryEvidence, Trust, judge_epochs, record_epoch
from supervisor.errors import Conflict
from supervisor.model.records import Acceptance
from supervisor.model.transaction import ANY_VERSION, Delete, SetData, Transaction
from tests.fakes.zookeeper import Saved
from tests.unit.coord.rig import CLUSTER, PATHS, MemoryEpochs, bootstrapped

PASTS = 32
SUPERVISORS = 2


@dataclass(frozen=True)
class RegistryEvent:
    """``kind``: change (of a job; it rings), term, acceptance. ``epoch``: of the latter two."""

    number: int
    kind: str
    epoch: int = 0


class RestoreWorld:
    """One registry, its snapshots, the store, and supervisors that look now and then."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.zoo = bootstrapped()
        self.zoo.put(PATHS.doorbell, b"")
        self.store = MemoryEpochs()
        self.history: tuple[RegistryEvent, ...] = ()
        self.saved: list[tuple[Saved, tuple[RegistryEvent, ...]]] = [(self.zoo.snapshot(), ())]
        self.recorded: set[RegistryEvent] = set()
        self.seen: list[tuple[RegistryEvent, ...]] = [()] * SUPERVISORS
        self.acknowledged: list[set[RegistryEvent]] = [set() for _ in range(SUPERVISORS)]
        self.trusts = [self.trust(i) for i in range(SUPERVISORS)]
        self.numbers = [(0, 0)] * SUPERVISORS
        self.highest = 0
        self.events = 0
        self.pasts = 0

    def trust(self, i: int) -> Trust:
        return Trust(self.directory / f"zxid{i}", CLUSTER.id)

    def happens(self, kind: str, epoch: int = 0) -> RegistryEvent:
        self.events += 1
        event = RegistryEvent(self.events, kind, epoch)
        self.history = (*self.history, event)
        return event

    # -- what may happen -------------------------------------------------------------------------------------------

    def change(self, _: int) -> None:
        """No two pasts give one zxid to different transactions: SAFETY.md names that as not covered."""
        self.zoo.skip_zxids(lambda zxid: zxid % PASTS != self.pasts % PASTS)
        self.zoo.client().commit(Transaction("change", "c", (SetData(PATHS.doorbell, b"job", ANY_VERSION),)))
        self.happens("change")

    def save(self, _: int) -> None:
        self.saved.append((self.zoo.snapshot(), self.history))

    def restore(self, n: int) -> None:
        """``n``: which snapshot, and whether the zxid is lower or, with a new ZooKeeper epoch, higher than ever."""
        saved, history = self.saved[n // 2 % len(self.saved)]
        self.pasts += 1
        self.zoo.restore(saved, max(self.zoo.zxid, saved.zxid) + (1 << 32) if n % 2 else None)
        self.history = history

    def restart(self, n: int) -> None:
        """What is on disk is what ``remember`` and a judgement put there; it is put there at least at a stop."""
        i = n % SUPERVISORS
        if self.trusts[i].reason is None:
            self.trusts[i].remember(self.zoo.zxid if self.seen[i] == self.history else 0)
        self.trusts[i] = self.trust(i)

    def trust_check(self, n: int) -> str | None:
        """A supervisor looks, and is held to what it must find."""
        i = n % SUPERVISORS
        before = set(self.seen[i])
        reason = self.trusts[i].judge(PATHS, self.evidence())
        acceptances = {event for event in self.history if event.kind == "acceptance"}
        unknown = {event for event in acceptances if event not in self.acknowledged[i]}
        lost = {event for event in before - set(self.history) if event.kind in ("change", "acceptance")}
        newest = max((event.epoch for event in self.acknowledged[i]), default=0)
        if lost and not any(event.epoch > newest for event in unknown) and not self.has_caught_up(i):
            assert reason, f"{i} had seen {lost}, which this registry has lost"
        if reason is None:
            self.seen[i], self.numbers[i] = self.history, self.doorbell()
            self.acknowledged[i] |= acceptances
            self.trusts[i].remember(self.zoo.client().last_zxid or self.zoo.zxid)
        return reason

    def doorbell(self) -> tuple[int, int]:
        """Version and mzxid."""
        node = self.zoo.client().read(PATHS.doorbell)
        assert node is not None
        return node.stat.version, node.stat.mzxid

    def has_caught_up(self, i: int) -> bool:
        """The registry has since counted as many changes as the lost one, and more: SAFETY.md names that as not covered."""
        return all(now > then for now, then in zip(self.doorbell(), self.numbers[i], strict=True))

    def lead(self, n: int) -> None:
        """A supervisor looks, is elected and records its term, as far as it may. ``n`` above 5: on a new host."""
        i = n % SUPERVISORS
        distrust = self.trust_check(n) if n < 6 else None
        client = self.zoo.client()
        leader, epoch = client.read_many((PATHS.leader, PATHS.epoch)).nodes
        assert epoch is not None
        seen = election_view(PATHS, leader, epoch)
        # a process that was there remembers more
        number = max(self.highest if n % 3 else 0, seen.epoch.epoch) + 1
        me = Candidate(f"s{i}", "a")
        if leader is not None:
            client.commit(Transaction("gone", "g", (Delete(PATHS.leader, ANY_VERSION),)))
        self.zoo.client().commit(
            take_leadership(
                PATHS,
                me,
                epoch=number,
                op_id=f"op{self.events}",
                seen=seen.epoch,
                version=epoch.stat.version,
                distrust=distrust,
            )
        )
        recent = {**recent_terms(seen.epoch), number: Author(me.supervisor, f"op{self.events}")}
        event = self.happens("term", number)
        self.highest = max(self.highest, number)
        if distrust is not None:
            return
        lost = {term for term in self.recorded if term not in self.history}
        newest = max((e.epoch for e in self.history if e.kind == "acceptance"), default=0)
        reason = record_epoch(self.store, number, recent)
        if any(term.epoch > newest for term in lost):
            assert reason, f"term {number} leads although the registry has lost {lost}"
        if reason is None:
            self.recorded.add(event)

    def accept(self, n: int) -> None:
        """The command; ``n`` odd: it dies between the mark and the multi."""
        client = self.zoo.client()
        cluster, epoch, accepted, leader = client.read_many(
            (PATHS.cluster, PATHS.epoch, PATHS.accepted, PATHS.leader)
        ).nodes
        assert cluster is not None and epoch is not None
        seen = election_view(PATHS, leader, epoch)
        number = max(seen.epoch.epoch, self.store.newest_epoch_above(0) or 0) + 1
        acceptance = Acceptance(id=f"a{self.events}.{number}", epoch=number, by="me", at="t", wait_s=32.0)
        try:
            self.store.record_epoch(number, ACCEPTER, acceptance.id)
        except Conflict as error:
            raise AssertionError("nobody else writes marks here") from error
        if n % 4 == 1:
            return
        client.commit(
            accept(PATHS, RestoredRegistry(cluster, seen.epoch, epoch.stat.version, accepted), acceptance)
        )
        self.happens("acceptance", number)
        for i in range(SUPERVISORS):  # whatever was before, all trust it now, and a term can be recorded
            assert (
                self.trusts[i].doubt(PATHS, self.evidence()) is None
                or self.trusts[i].judge(PATHS, self.evidence()) is None
            )
            assert self.trust_check(i) is None
        node = self.zoo.client().read(PATHS.epoch)
        assert node is not None
        now = election_view(PATHS, None, node)
        assert judge_epochs(self.store, now.epoch.epoch, recent_terms(now.epoch)) is None

    def evidence(self) -> RegistryEvidence:
        client = self.zoo.client()
        cluster, accepted, doorbell = client.read_many((PATHS.cluster, PATHS.accepted, PATHS.doorbell)).nodes
        return RegistryEvidence(cluster, accepted, doorbell, self.zoo.zxid)


STEPS: tuple[Callable[[RestoreWorld, int], object], ...] = (
    RestoreWorld.change,
    RestoreWorld.change,
    RestoreWorld.trust_check,
    RestoreWorld.trust_check,
    RestoreWorld.lead,
    RestoreWorld.save,
    RestoreWorld.restore,
    RestoreWorld.accept,
    RestoreWorld.restart,
)


@settings(max_examples=80, deadline=None)
@given(st.lists(st.tuples(st.sampled_from(STEPS), st.integers(0, 11)), max_size=25))
@example(
    [(RestoreWorld.lead, 1), (RestoreWorld.restore, 1), (RestoreWorld.lead, 7)]
)  # caught up with by number
@example(
    [
        (RestoreWorld.change, 0),
        (RestoreWorld.trust_check, 0),
        (RestoreWorld.restore, 0),
        (RestoreWorld.change, 0),
        (RestoreWorld.trust_check, 0),
    ]
)
@example(
    [
        (RestoreWorld.change, 0),
        (RestoreWorld.trust_check, 0),
        (RestoreWorld.restore, 0),
        (RestoreWorld.change, 0),
        (RestoreWorld.change, 0),
        (RestoreWorld.trust_check, 0),
    ]
)  # caught up with by the doorbell's numbers
def test_what_was_lost_is_noticed_and_an_acceptance_counts_once(
    steps: list[tuple[Callable[[RestoreWorld, int], object], int]],
) -> None:
    with tempfile.TemporaryDirectory() as directory:
        world = RestoreWorld(Path(directory))
        for step, n in steps:
            step(world, n)


def test_the_same_snapshot_restored_twice_is_accepted_twice(tmp_path: Path) -> None:
    """To a state before the acceptance, and to one after it; each time by whoever was there and by a new host."""
    world = RestoreWorld(tmp_path)
    for step, n in (
        (RestoreWorld.lead, 1),
        (RestoreWorld.save, 0),
        (RestoreWorld.change, 0),
        (RestoreWorld.trust_check, 0),
        (RestoreWorld.trust_check, 1),
        (RestoreWorld.lead, 1),
    ):
        step(world, n)
    for snapshot in (1, 1, 2):
        world.restore(2 * snapshot + 1)
        assert world.trust_check(0) and world.trust_check(1)
        world.accept(0)
        assert world.trust_check(0) is None and world.trust_check(1) is None
        if snapshot == 1:
            world.lead(1)
            world.save(0)
            world.change(0)
            world.trust_check(0)
            world.trust_check(1)
            world.lead(1)
