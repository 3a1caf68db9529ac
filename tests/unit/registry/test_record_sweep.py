"""What the sweeper takes, and above all what it leaves (protocol §5, F25)."""

from __future__ import annotations

from supervisor.clock import boottime_s
from supervisor.model.location import digest
from supervisor.model.records import CheckpointClaim, OwnState
from supervisor.observe.observer import Observer
from supervisor.registry.record_sweep import take_listing, to_sweep
from tests.fakes.registry_bench import Bench

PLACE = "s3://bkt/a"


def swept(bench: Bench) -> list[str]:
    zoo = bench.zoo.client()
    listing = take_listing(zoo, bench.layout)
    view = Observer(zoo, bench.layout, boottime_s, 1).take_view(None)
    return [one.what for one in to_sweep(listing, view.rows)]


def claimed(bench: Bench, uid: str) -> None:
    bench.put(bench.layout.checkpoint(digest(PLACE)), CheckpointClaim(location=PLACE, name="a", uid=uid))


def test_a_claim_of_a_uid_that_is_gone_goes() -> None:
    bench = Bench()
    bench.submit("a")
    claimed(bench, "older-uid")
    assert swept(bench) == ["claim"]


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
