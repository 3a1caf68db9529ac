"""A phase that is reached while the renewal that records the one before is under way is recorded at once as well."""

from __future__ import annotations

import pytest

from supervisor.model.records import Lease, Phase
from supervisor.records.codec import decode
from supervisor.shim import state as shim
from tests.unit.shim.world import LAUNCH, LEASE, ShimWorld


def test_since_counts_from_the_first_batch_not_from_the_claim() -> None:
    world = ShimWorld()
    world.connect()
    world.run()
    world.deliver(shim.Executed())
    world.run(2)
    claimed_at = decode(Lease, world.nodes[LEASE].data, LEASE).since
    world.deliver(shim.Reported("query"))
    world.run(2)
    assert decode(Lease, world.nodes[LEASE].data, LEASE).since == claimed_at
    world.deliver(shim.Reported("progress"))
    world.run(2)
    lease = decode(Lease, world.nodes[LEASE].data, LEASE)
    assert lease.phase is Phase.RUNNING and lease.since > claimed_at


@pytest.mark.parametrize("outcome", ["done", "not_sent", "lost", "applied"])
def test_a_phase_during_a_renewal_that_rings_is_told_after_it(outcome: str) -> None:
    world = ShimWorld()
    world.connect()
    world.run()
    world.deliver(shim.Executed())
    world.run()
    world.deliver(shim.Reported("query"))  # its renewal is under way
    world.deliver(shim.Reported("progress"))  # and the first batch is committed meanwhile
    begun_at_s = world.now_s
    world.answer(outcome)
    world.connect()
    world.run(0 if outcome == "done" else 2)
    assert decode(Lease, world.nodes[LEASE].data, LEASE).phase is Phase.RUNNING
    assert world.now_s - begun_at_s < LAUNCH.lease_s / 6
