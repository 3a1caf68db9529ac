"""What is kept of the revisions of a uid, and when it goes (protocol §9.2)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from supervisor.clock import boottime_s
from supervisor.model.records import Cleanliness, KeptRevision, OwnState, RevisionFate, Revisions
from supervisor.model.seen import Found
from supervisor.observe.observer import Observer
from supervisor.records.codec import encode
from supervisor.records.layout import Layout
from supervisor.registry.record_sweep import Deletion, RecordListing, take_listing, to_sweep
from supervisor.registry.revisions import (
    REVISIONS_MAX_BYTES,
    NewRevision,
    SeenRevisions,
    keep_revision,
    known,
    spec_of,
)
from tests.fakes.registry_bench import Bench
from tests.unit.plan.rows import updated

LAYOUT = Layout("/c")
SHA = "ab" * 32


def swept(bench: Bench) -> list[Deletion]:
    zoo = bench.zoo.client()
    listing = take_listing(zoo, bench.layout)
    view = Observer(zoo, bench.layout, boottime_s, 1).take_view(None)
    return list(to_sweep(listing, view.rows))


def kept(bench: Bench, name: str, uid: str) -> str:
    path = bench.layout.revisions_of(uid)
    bench.put(path, Revisions(name=name, uid=uid, revisions=(KeptRevision(revision=1, sha256=SHA, at=""),)))
    return path


def test_revisions_go_with_the_last_record_of_their_uid() -> None:
    bench = Bench()
    uid = bench.submit("a").uid
    path = kept(bench, "a", uid)
    assert swept(bench) == []
    failed = bench.fail("a")
    result = bench.result(failed)
    assert result is not None
    bench.put(bench.layout.result(failed), replace(result, state=Cleanliness.CLEAN))
    bench.submit("a")
    bench.set_own("a", OwnState.VACANT)
    assert not any(one.what == "revisions" for one in swept(bench)), "its result is kept"
    bench.zoo.remove(bench.layout.result(failed))
    (gone,) = swept(bench)
    assert (gone.what, gone.path) == ("revisions", path)


def test_those_of_a_uid_that_may_come_back_stay() -> None:
    bench = Bench()
    uid = bench.submit("a").uid
    kept(bench, "a", uid)
    bench.commands().cancel("a")
    bench.zoo.remove(bench.layout.result(uid))  # by hand
    assert not any(one.what == "revisions" for one in swept(bench)), "/own still speaks of it"


def test_what_cannot_be_read_or_placed_stays() -> None:
    bench = Bench()
    bench.submit("a")
    bench.zoo.put(bench.layout.revisions_of("u9"), b"{")
    kept(bench, "nobody", "u8-nobody")
    assert swept(bench) == []


def test_the_reference_has_what_became_of_the_newest() -> None:
    job = updated().record
    assert job.update is not None
    assert [each.revision for each in known(job, ())] == [1, 2]
    failed = replace(job, revision=1, update=replace(job.update, given_up="no Python"))
    assert [(each.revision, each.fate) for each in known(failed, ())] == [
        (1, RevisionFate.SUPERSEDED),
        (2, RevisionFate.FAILED),
    ]
    back = replace(job, revision=3, update=replace(job.update, rolled_back="boom"))
    assert [(each.revision, each.fate, each.by) for each in known(back, ())] == [
        (1, RevisionFate.SUPERSEDED, ""),
        (2, RevisionFate.ROLLED_BACK, "somebody@host"),
        (3, RevisionFate.SUPERSEDED, "leader"),
    ]


def test_a_spec_that_an_older_version_registered_is_known_by_its_sha_alone() -> None:
    job = updated().record
    assert job.update is not None
    gone = replace(job, revision=5, update=replace(job.update, given_up="why"))
    entry = known(gone, ())[1]
    assert (entry.revision, entry.sha256, entry.bytes) == (2, "1", 0)


def test_a_roll_back_names_the_spec_that_is_stored() -> None:
    entry = KeptRevision(revision=4, sha256=SHA, at="", bytes=7, stored_as=2)
    assert spec_of("a", "u1-a", entry).key == f"specs/a/u1-a/2-{SHA}.json"


def test_what_does_not_fit_goes_the_oldest_first() -> None:
    job = updated().record
    many = tuple(
        KeptRevision(revision=n, sha256=SHA, at="t" * 30, bytes=1, by="b" * 60, why="w" * 300)
        for n in range(1, 21)
    )
    record = Found(Revisions(name="j", uid="u1", revisions=many), 3)
    before, after = replace(job, revision=20, update=None), replace(job, revision=21, update=None)
    (op,) = keep_revision(LAYOUT, before, after, NewRevision("me"), SeenRevisions(True, record))
    assert len(op.data) <= REVISIONS_MAX_BYTES  # type: ignore[union-attr]
    assert b'"revision":21' in op.data and b'"revision":2,' not in op.data  # type: ignore[union-attr]


def test_it_has_room_for_twenty_ordinary_ones() -> None:
    many = tuple(
        KeptRevision(
            revision=n,
            sha256=SHA,
            at="2026-11-25T21:05:06.123Z",
            bytes=2048,
            by="some.user@build-host-1.example.com",
            fate=RevisionFate.ROLLED_BACK,
            why="w" * 100,
        )
        for n in range(1, 21)
    )
    record = Revisions(name="clicks", uid="u" * 26, revisions=many)
    assert len(encode(record, REVISIONS_MAX_BYTES)) < REVISIONS_MAX_BYTES


def test_the_results_are_looked_through_once_and_not_for_each_record() -> None:
    class Counted(dict[str, Any]):
        iterations = 0

        def __iter__(self) -> Iterator[str]:
            Counted.iterations += 1
            return super().__iter__()

    uids = [f"gone-{n}" for n in range(5)]
    kept = {f"/c/revisions/{uid}": Found(Revisions(name="a", uid=uid), 0) for uid in uids}
    bench = Bench()
    bench.submit("a")
    view = Observer(bench.zoo.client(), bench.layout, boottime_s, 1).take_view(None)
    listing = RecordListing({}, {}, {}, Counted(), kept)
    found = to_sweep(listing, view.rows)
    assert [one.path for one in found] == list(kept)
    assert Counted.iterations <= 1
