"""The real protocol under random schedules: I1, I2, I3, I4 and convergence. Any failure replays from its seed.

The judge is tested too: seeded defects of the protocol must be noticed, else a green run would mean nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from supervisor.model.transaction import Check, Delete, SetData
from supervisor.plan import check, decide
from supervisor.registry import attempt_writes
from tests.simulation import world as simulated
from tests.simulation.world import SimulatedWorld, at_virtual_time

SEEDS = range(120)
BLOCK = 20
STEPS = 800
TELLING = (148, 55)
"""Schedules in which half the wait was too short: about one in a hundred. Others, when the code draws other lots."""


def run(seed: int, monkeypatch: pytest.MonkeyPatch) -> SimulatedWorld:
    world = SimulatedWorld(seed, names=("a", "b") if seed % 3 == 0 else ("a",))
    at_virtual_time(world, monkeypatch)
    world.run(STEPS)
    return world


@pytest.mark.parametrize("first", SEEDS[::BLOCK])
def test_random_schedules_never_overlap_never_revive_and_converge(
    first: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    executed = 0
    for seed in range(first, first + BLOCK):
        world = run(seed, monkeypatch)
        assert not world.broken, f"seed {seed}: {world.broken}\n" + "\n".join(world.log[-60:])
        executed += len(world.trees)
    assert executed > BLOCK


def skip_the_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(decide, "wait_of_s", lambda row: 0.0)
    monkeypatch.setattr(check, "wait_of_s", lambda row: 0.0)


def half_the_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(decide, "wait_of_s", lambda row: 5.0)
    monkeypatch.setattr(check, "wait_of_s", lambda row: 5.0)


def claim_unguarded(monkeypatch: pytest.MonkeyPatch) -> None:
    real = attempt_writes.claim

    def claim(layout, assignment, own, *rest):  # type: ignore[no-untyped-def]
        tx = real(layout, assignment, own, *rest)
        ops = tuple(
            replace(op, version=-1) if isinstance(op, SetData) else op
            for op in tx.ops
            if not isinstance(op, Check | Delete)
        )
        return replace(tx, ops=ops)

    monkeypatch.setattr(attempt_writes, "claim", claim)


def bury_before_the_tree_is_empty(monkeypatch: pytest.MonkeyPatch) -> None:
    def stop(self: SimulatedWorld, shim: simulated.ShimModel) -> None:
        if shim.stopping_at_s is not None and not shim.done:
            self.bury(shim)

    real = SimulatedWorld.step_shim
    monkeypatch.setattr(SimulatedWorld, "step_shim", lambda self, shim: (real(self, shim), stop(self, shim)))


@pytest.mark.parametrize(
    "defect", [skip_the_wait, half_the_wait, claim_unguarded, bury_before_the_tree_is_empty]
)
def test_the_judge_notices(
    defect: Callable[[pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    defect(monkeypatch)
    for seed in (*TELLING, *SEEDS, *range(SEEDS.stop, 2 * SEEDS.stop)):
        try:
            broken = run(seed, monkeypatch).broken
        except Exception as error:
            pytest.fail(f"the world fell over instead of judging: {error!r}")
        if any(one.startswith(("I1", "I2")) for one in broken):
            return
    pytest.fail("a seeded defect went unnoticed")
