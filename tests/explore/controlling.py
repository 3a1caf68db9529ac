"""What the leader's controller does besides its plan, by its own methods: a hand-over that was asked for, the end of a wait."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from supervisor.daemon.controller import Controller
from supervisor.model.actions import Plan
from supervisor.model.transaction import Transaction
from supervisor.model.view import View
from supervisor.registry.leader_writes import Desk


class Hand:
    """Stands in for a ``Controller``, its term and its crew. ``made``: what it would commit. ``nudged``: it has told its
    contender that a hand-over is wanted."""

    def __init__(self, desk: Desk, distrust: str | None) -> None:
        self.made: list[Transaction] = []
        self.nudged = False
        self.epoch, self.distrust = desk.epoch, distrust
        self._desk = desk
        self._term = self._crew = self.wake = self

    def commit(self, build: Callable[[Desk], Transaction]) -> None:
        self.made.append(build(self._desk))

    def nudge(self) -> None:
        self.nudged = True

    def set(self) -> None:
        """The next pass comes anyway."""

    def _conclude_switchover(self, wish: Any) -> None:
        Controller._conclude_switchover(self, wish)  # type: ignore[arg-type]

    def look_after(self, view: View, plan: Plan, broken: tuple[str, ...]) -> Hand:
        """As at the end of ``Controller.reconcile_once``, and in ``run``."""
        if plan.waited_out is not None and not broken:
            Controller._note_waited(self, plan.waited_out)  # type: ignore[arg-type]
        Controller._heed(self, view.wish)  # type: ignore[arg-type]
        return self
