"""Represents one step of the machine while it is being made: a state that is replaced as the turn goes on,
and the effects so far.

The handlers of ``connection``, ``claim``, ``lease``, ``driver`` and ``end`` are functions of a turn.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from supervisor.clock import wall_iso
from supervisor.shim.state import Effect, Now, ShimState, Stage

ALIVE = (Stage.STARTING, Stage.RUNNING, Stage.STOPPING)
LEASED = (*ALIVE, Stage.KILLING)

RETRY_S = 0.5


class Turn:
    """Holds what is known at this step and what it does. ``answered`` says which write the event is the
    outcome of (``what``)."""

    def __init__(self, state: ShimState, now: Now) -> None:
        self.state = state
        self.now_s = now.boottime_s
        self.wall_s = now.wall_s
        self.effects: list[Effect] = []
        self.answered = ""

    def set(self, **changes: Any) -> None:
        self.state = replace(self.state, **changes)

    def do(self, *effects: Effect) -> None:
        self.effects.extend(effects)

    @property
    def at(self) -> str:
        return wall_iso(self.wall_s)
