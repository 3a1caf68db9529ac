"""Who breaks things: lanes side by side, each with its own seeded choice of what comes next and when.

A lane holds one kind of victim (leaders, links, servers …), so faults of different lanes meet at random, while within a lane
one ends before the next begins. What is hit depends on the moment (who leads, what runs); which fault, how long and how
soon comes from the seed.
"""

from __future__ import annotations

import random
import threading
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from supervisor.clock import boottime_s

if TYPE_CHECKING:
    from tests.chaos.world import ChaosWorld

Fault = Callable[["ChaosWorld", random.Random], None]


class Skipped(Exception):
    """There is no victim for this fault just now."""


class Lane(threading.Thread):
    """``pause_s``: between two faults, on average. ``faults``: with their weights. ``burst_s``, ``lull_s``: for so long it
    works, and rests in between; no lull: never."""

    def __init__(
        self,
        world: ChaosWorld,
        name: str,
        pause_s: float,
        faults: Sequence[tuple[float, Fault]],
        burst_s: float = 0.0,
        lull_s: float = 0.0,
    ) -> None:
        super().__init__(name=name, daemon=True)
        self._world = world
        self._pause_s = pause_s
        self._burst_s = burst_s
        self._lull_s = lull_s
        self._weights = [weight for weight, _ in faults]
        self._faults = [fault for _, fault in faults]
        self._choice = world.random(f"lane {name}")

    def run(self) -> None:
        world, choice, burst_at_s = self._world, self._choice, boottime_s()
        while not world.done.wait(choice.expovariate(1 / self._pause_s)):
            if self._lull_s and boottime_s() > burst_at_s + self._burst_s:
                world.wait(self._lull_s)
                burst_at_s = boottime_s()
            fault = choice.choices(self._faults, self._weights)[0]
            seed = choice.random()  # so that what one fault draws does not change the faults to come
            with world.shared_lock.shared():
                self._do(fault, random.Random(seed))

    def _do(self, fault: Fault, choice: random.Random) -> None:
        diary = self._world.diary
        try:
            fault(self._world, choice)
        except Skipped:
            pass
        except Exception as error:
            diary.failed[fault.__name__] += 1
            diary.write("fault_failed", fault=fault.__name__, error=f"{type(error).__name__}: {error}"[:300])
