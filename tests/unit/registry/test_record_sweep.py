"""What the sweeper takes, and above all what it leaves (protocol §5, F25)."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import replace
from typing import Any

import pytest

from supervisor.clock import boottime_s
from supervisor.errors import GuardFailed
from supervisor.model.location import digest
from supervisor.model.records import (
    Assignment,
    BlobRef,
    CheckpointClaim,
    Cleanliness,
    EpochRecord,
    OwnState,
    Revisions,
)
from supervisor.observe.observer import Observer
from supervisor.registry import record_sweep
from supervisor.registry.leader_write_context import LeaderWriteContext
from supervisor.registry.record_sweep import Deletion, take_listing, to_sweep
from tests.fakes.registry_bench import AT, SHA, Bench

PLACE = "s3://bkt/a"


def deletions(bench: Bench) -> tuple[Deletion, ...]:
    zoo = bench.zoo.client()
    listing = take_listing(zoo, bench.layout)
    view = Observer(zoo, bench.layout, boottime_s, 1).take_view(None)
    return to_sweep(listing, view.rows)


def swept(bench: Bench) -> list[str]:
    return [one.what for one in deletions(bench)]


def claimed(bench: Bench, uid: str) -> None:
    bench.put(bench.layout.checkpoint(digest(PLACE)), CheckpointClaim(location=PLACE, name="a", uid=uid))


def test_a_claim_of_a_uid_that_is_gone_goes() -> None:
    bench = Bench()
    bench.submit("a")
    claimed(bench, "older-uid")
    assert swept(bench) == ["claim"]


def test_a_claim_of_a_uid_that_is_gone_goes_while_another_one_runs() -> None:
    bench = Bench()
    bench.submit("a")
    bench.set_own("a", OwnState.CLAIMED)
    claimed(bench, "older-uid")
    assert swept(bench) == ["claim"]


def test_a_claim_stays_while_its_ownership_cannot_be_read() -> None:
    bench = Bench()
    bench.submit("a")
    claimed(bench, "older-uid")
    bench.zoo.put(bench.layout.own("a"), b"{")
    assert swept(bench) == []


def test_a_claim_that_a_registered_or_dirty_uid_holds_stays() -> None:
    bench = Bench()
    bench.submit("a", checkpoint=PLACE)
    assert swept(bench) == []
    bench.commands().cancel("a")
    assert swept(bench) == []


def test_a_claim_stays_while_nobody_knows_whether_its_uid_was_cleaned() -> None:
    bench = Bench()
    uid = bench.submit("a", checkpoint=PLACE).uid
    bench.set_own("a", OwnState.CLAIMED)
    bench.commands().cancel("a")
    bench.zoo.put(bench.layout.result(uid), b"rubbish")
    bench.set_own("a", OwnState.EXITED)
    assert swept(bench) == []


def test_a_claim_stays_while_a_driver_of_its_uid_may_be_alive() -> None:
    bench = Bench()
    uid = bench.submit("a").uid
    bench.set_own("a", OwnState.DRAINING)
    bench.commands().cancel("a")
    claimed(bench, uid)
    bench.zoo.remove(bench.layout.result(uid))  # deleted by hand
    assert swept(bench) == []
    bench.set_own("a", OwnState.EXITED)
    assert swept(bench) == ["claim"]


# -- assignments, leases --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("of", "goes"),
    [
        ({}, False),
        ({"state": OwnState.CLAIMED}, True),
        ({"attempt": 2}, True),
        ({"uid": "older-uid"}, True),
    ],
    ids=["given-out", "claimed", "another-attempt", "another-uid"],
)
def test_an_assignment_goes_when_the_ownership_speaks_of_another_or_of_none(
    of: dict[str, Any], goes: bool
) -> None:
    bench = Bench()
    uid = bench.submit("a").uid
    given = Assignment(
        name="a",
        uid=uid,
        attempt=1,
        revision=1,
        job_version=0,
        own_version=0,
        spec=BlobRef(key="k", sha256=SHA, bytes=1),
        memory=1,
    )
    bench.set_own("a", OwnState.ASSIGNED)
    bench.put(f"{bench.layout.assigned_to('host-a')}/{uid}.1", given)
    own = replace(bench.own("a"), **of)
    bench.put(bench.layout.own("a"), own)
    assert swept(bench) == ["assignment"] * goes


@pytest.mark.parametrize("state", [OwnState.VACANT, OwnState.EXITED, OwnState.CLAIMED])
@pytest.mark.parametrize("is_there", ["registered", "dirty", "nothing"])
def test_a_lease_goes_when_nobody_owns_or_wants_the_name(state: OwnState, is_there: str) -> None:
    bench = Bench()
    uid = bench.submit("a").uid
    bench.run("a")
    if is_there != "registered":
        bench.commands().cancel("a")
    if is_there == "nothing":
        bench.zoo.remove(bench.layout.result(uid))
    bench.set_own("a", state)
    goes = is_there == "nothing" and state is OwnState.VACANT
    assert ("lease" in swept(bench)) == goes


# -- results, and what is about a uid ---------------------------------------------------------------------------------


def ended(bench: Bench, name: str, number: int, state: Cleanliness = Cleanliness.CLEAN) -> str:
    """A result of an earlier submission of ``name``; returns its uid, which is in the order of ``number``."""
    uid, other = older_uid(bench, name, number), f"{name}-x{number}"
    done = bench.submit(other)
    bench.commands().cancel(other)
    result = bench.result(done.uid)
    assert result is not None
    bench.put(bench.layout.result(uid), replace(result, name=name, uid=uid, state=state))
    for path in (bench.layout.result(done.uid), bench.layout.own(other)):
        bench.zoo.remove(path)
    return uid


def older_uid(bench: Bench, name: str, number: int) -> str:
    return f"{number}-{bench.ref(name).record.uid.rpartition('-')[2]}"


def swept_results(bench: Bench) -> list[str]:
    return [one.path.rpartition("/")[2] for one in deletions(bench) if one.what == "result"]


def test_of_each_name_the_oldest_clean_results_go_beyond_five() -> None:
    bench = Bench()
    bench.submit("a")
    uids = [ended(bench, "a", number) for number in range(1, 8)]
    assert swept_results(bench) == uids[:2]
    bench.put(bench.layout.result(uids[0]), replace(bench.result(uids[0]), state=Cleanliness.DIRTY))  # type: ignore[type-var]
    assert swept_results(bench) == uids[1:2], "what it left is not cleaned yet"


def test_of_all_names_the_oldest_results_go_beyond_a_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    bench = Bench()
    names = ("b", "a", "c")
    for name in names:
        bench.submit(name)
    uids = [ended(bench, name, number) for number, name in enumerate((*names, "b"), 1)]
    assert swept_results(bench) == []
    for most, goes in ((6, []), (4, []), (3, uids[:1]), (2, uids[:2]), (1, uids[:3])):
        monkeypatch.setattr(record_sweep, "RESULTS_MAX", most)
        assert swept_results(bench) == goes
    bench.zoo.put(bench.layout.own("b"), b"{")
    assert swept_results(bench) == uids[1:3], "no write can be guarded by what cannot be read"


@pytest.mark.parametrize("keeps", ["registered", "owned", "newest", "result", "nothing"])
def test_the_revisions_of_a_uid_go_when_nobody_can_go_back_to_them(keeps: str) -> None:
    bench = Bench()
    uid = bench.submit("a").uid
    old = uid if keeps == "registered" else older_uid(bench, "a", 1)
    if keeps == "result":
        ended(bench, "a", 1)
    if keeps == "owned":
        bench.set_own("a", OwnState.EXITED, uid=old)
    if keeps == "newest":
        bench.put(bench.layout.own("a"), replace(bench.own("a"), newest_uid=old))
    bench.put(bench.layout.revisions_of(old), Revisions(name="a", uid=old))
    assert swept(bench) == ["revisions"] * (keeps == "nothing")


def test_what_ends_between_the_listing_and_the_view_keeps_its_revisions() -> None:
    """The listing has no result of it, and the name is another submission's: that it is dirty says that it was there."""
    bench = Bench()
    uid = bench.submit("a").uid
    bench.put(bench.layout.revisions_of(uid), Revisions(name="a", uid=uid))
    zoo = bench.zoo.client()
    listing = take_listing(zoo, bench.layout)
    bench.commands().cancel("a")
    bench.submit("a")
    view = Observer(zoo, bench.layout, boottime_s, 1).take_view(None)
    assert to_sweep(listing, view.rows) == ()


def test_while_a_reference_cannot_be_read_nothing_of_its_name_goes() -> None:
    """It may be of any uid."""
    bench = Bench()
    bench.submit("a")
    claimed(bench, "older-uid")
    old = older_uid(bench, "a", 1)
    bench.put(bench.layout.revisions_of(old), Revisions(name="a", uid=old))
    assert swept(bench) == ["claim", "revisions"]
    bench.zoo.put(bench.layout.job("a"), b"{")
    assert swept(bench) == []


# -- the write --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("moved", ["own", "record", "epoch", ""])
def test_what_moved_since_it_was_seen_stays(moved: str) -> None:
    bench = Bench()
    bench.put(bench.layout.epoch, EpochRecord(epoch=1, supervisor="l1", op="op"))
    bench.submit("a")
    claimed(bench, "older-uid")
    (deletion,) = deletions(bench)
    zoo = bench.zoo.client()
    fence = zoo.read(bench.layout.epoch)
    assert fence is not None
    path = {"own": bench.layout.own("a"), "record": deletion.path, "epoch": bench.layout.epoch}.get(moved)
    if path is not None:
        node = zoo.read(path)
        assert node is not None
        bench.zoo.put(path, node.data)
    transaction = deletion.transaction(LeaderWriteContext(bench.layout, 1, fence.stat.version, "op", AT))
    with pytest.raises(GuardFailed) if moved else nullcontext():
        zoo.commit(transaction)
    assert bench.has(deletion.path) == bool(moved)
