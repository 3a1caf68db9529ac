"""What the leader's controller does besides its plan, by its own methods: a hand-over that was asked for, the end of a wait."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from supervisor.daemon.leader.controller import Controller
from supervisor.model.actions import Plan
from supervisor.model.transaction import Transaction
from supervisor.model.view import View
from supervisor.registry.leader_write_context import LeaderWriteContext


class StubController:
    """Stands in for a ``Controller``, its term and its executor. ``made``: what it would commit. ``nudged``: it has told its
    contender that a hand-over is wanted."""

    def __init__(self, context: LeaderWriteContext, distrust: str | None) -> None:
        self.made: list[Transaction] = []
        self.nudged = False
        self.epoch, self.distrust = context.epoch, distrust
        self._context = context
        self._term = self._executor = self.wake = self

    def commit(self, build: Callable[[LeaderWriteContext], Transaction]) -> None:
        self.made.append(build(self._context))

    def nudge(self) -> None:
        self.nudged = True

    def set(self) -> None:
        """The next pass comes anyway."""

    def _conclude_switchover(self, wish: Any) -> None:
        Controller._conclude_switchover(self, wish)  # type: ignore[arg-type]

    def conclude_pass(self, view: View, plan: Plan, broken: tuple[str, ...]) -> StubController:
        """As at the end of ``Controller.reconcile_once``, and in ``run``."""
        if plan.waited_out is not None and not broken:
            Controller._set_waited(self, plan.waited_out)  # type: ignore[arg-type]
        Controller._handle(self, view.wish)  # type: ignore[arg-type]
        return self
