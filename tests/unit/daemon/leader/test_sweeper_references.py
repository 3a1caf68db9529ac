"""Whose blobs the sweeper must leave: each kind of record for itself. And when it does not sweep at all."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

from supervisor.clock import boottime_s
from supervisor.coord.term import Term
from supervisor.daemon.leader.sweeper import Sweeper, references
from supervisor.errors import Corrupt
from supervisor.model.location import digest
from supervisor.model.records import Assignment, BlobRef, CheckpointClaim, OwnState
from supervisor.observe.observer import Observer
from supervisor.registry.pending_deletions import pending_deletion
from supervisor.registry.record_sweep import take_listing
from tests.fakes.registry_bench import AT, Bench
from tests.fakes.zookeeper import MemoryClient


def kept(bench: Bench) -> frozenset[str]:
    zoo = bench.zoo.client()
    listing = take_listing(zoo, bench.layout)
    return references(listing, Observer(zoo, bench.layout, boottime_s, 1).take_view(None).rows).uids


def test_a_registered_uid_keeps_its_blobs_without_an_ownership() -> None:
    bench = Bench()
    uid = bench.submit("a").uid
    bench.zoo.remove(bench.layout.own("a"))
    assert kept(bench) == {uid}


def test_an_ownership_keeps_the_blobs_of_its_attempt_and_of_the_newest_submission() -> None:
    bench = Bench()
    newest = bench.submit("a").uid
    bench.set_own("a", OwnState.DRAINING, uid="older")
    bench.zoo.remove(bench.layout.job("a"))
    assert kept(bench) == {"older", newest}


def test_an_unreadable_reference_is_made_up_for_by_the_ownership_and_by_nothing_else() -> None:
    bench = Bench()
    uid = bench.submit("a").uid
    bench.zoo.put(bench.layout.job("a"), b"rubbish")
    assert kept(bench) == {uid}
    bench.zoo.put(bench.layout.own("a"), b"rubbish")
    with pytest.raises(Corrupt, match="until it is cancelled"):
        kept(bench)


def test_a_kept_result_keeps_its_blobs_when_the_name_is_anothers() -> None:
    bench = Bench()
    older = bench.submit("a").uid
    bench.commands().cancel("a")
    newer = bench.submit("a").uid
    assert kept(bench) == {older, newer}


def test_an_assignment_keeps_its_blobs_whoever_owns_the_name() -> None:
    bench = Bench()
    uid = bench.submit("a").uid
    bench.put(
        bench.layout.assignment("host-a", "older", 1),
        Assignment(
            name="a",
            uid="older",
            attempt=1,
            revision=1,
            job_version=0,
            own_version=0,
            spec=BlobRef(key="k", sha256="0", bytes=1),
            memory=1,
        ),
    )
    assert kept(bench) == {uid, "older"}


def test_a_claim_keeps_the_blobs_of_its_uid_only_while_its_checkpoint_is_being_deleted() -> None:
    bench, place = Bench(), "s3://bkt/a"
    uid = bench.submit("a").uid
    bench.fail("a")
    ended = bench.result(uid)
    assert ended is not None
    claim, path = (
        CheckpointClaim(location=place, name="a", uid="gone"),
        bench.layout.checkpoint(digest(place)),
    )
    bench.put(path, claim)
    assert "gone" not in kept(bench)
    bench.put(path, pending_deletion(claim, ended, AT))
    assert "gone" in kept(bench)


@dataclass
class Once:
    """``Term.over``: after one wait."""

    waits: int = 0

    def wait(self, _: float) -> bool:
        self.waits += 1
        return self.waits > 1


def sweeps_in(read_term: Callable[[Term[Any]], None]) -> bool:
    bench, swept = Bench(), []
    term: Term[Any] = Term(1, 0, MemoryClient(bench.zoo), 1000.0, depose=lambda why: None)
    read_term(term)
    over: Any = Once()
    term.over = over
    nobody: Any = None
    sweeper = Sweeper(term, bench.layout, nobody, nobody, nobody)
    sweeper.sweep_once = lambda: swept.append("") or 0  # type: ignore[method-assign, func-returns-value]
    sweeper.run()
    return bool(swept)


def test_only_a_term_that_is_recorded_and_trusts_its_registry_sweeps() -> None:
    def recorded(term: Term[Any]) -> None:
        term.set_recorded()

    def distrusting(term: Term[Any]) -> None:
        term.set_recorded()
        term.set_distrust("restored")

    assert sweeps_in(recorded)
    assert not sweeps_in(lambda term: None)
    assert not sweeps_in(distrusting)
