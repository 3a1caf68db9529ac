"""Carries out the actions of a plan: a bounded pool, one action in flight per job, a deadline, and an outcome
for each.

Called by the controller. It decides nothing: a guard that fails means that the world moved, and the next pass
reads again. An action whose reply is late stays in flight, and its job is left out of later plans until its
outcome is known (protocol §8: one bad or slow job never delays the others). ``close`` awaits everything, so
that no effect of a term outlives it.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from concurrent.futures import Future, wait
from dataclasses import dataclass
from enum import StrEnum

import structlog

from supervisor.act.transactions import transaction_for
from supervisor.clients.threads import Pool
from supervisor.clients.zookeeper import ZooClient
from supervisor.clock import wall_iso
from supervisor.coord.term import Term
from supervisor.errors import GuardFailed, NotLeader, OutcomeUnknown, Unreachable
from supervisor.model.actions import Action, Assign, Prepare, Unassign, Withdraw
from supervisor.model.transaction import Transaction
from supervisor.records.ids import new_op_id
from supervisor.records.layout import Layout
from supervisor.registry import leader_writes
from supervisor.registry.leader_write_context import LeaderWriteContext

log = structlog.get_logger(__name__)

WORKERS = 16
PASS_WAIT_S = 2.0
"""A pass waits for its actions for so long; the outcome of a later one is collected by the next pass."""


class ActionOutcome(StrEnum):
    """Is the outcome of an action; it is the label ``outcome`` of the metrics."""

    DONE = "done"
    CHANGED = "changed"  # a guard failed: reread
    NOT_SENT = "not_sent"  # no connection: certainly without effect
    UNKNOWN = "unknown"  # settled by the next reading, after a sync on this same session
    NOT_LEADER = "not_leader"
    FAILED = "failed"  # a defect, or a record that does not fit: that job's trouble alone (I9)


@dataclass(frozen=True, slots=True)
class ActionResult:
    """Holds the outcome of one action. ``doorbell_version`` is the doorbell's version that this write made,
    so that the leader knows its own ring."""

    action: Action
    outcome: ActionOutcome
    why: str = ""
    doorbell_version: int | None = None


class ActionExecutor:
    """Carries out the actions of one term of leadership. ``by`` is who leads, as an author."""

    def __init__(self, term: Term[ZooClient], layout: Layout, by: str = "") -> None:
        self._term = term
        self._layout = layout
        self._by = by
        self._pool = Pool(WORKERS, "act")
        self._lock = threading.Lock()
        self._busy: dict[str, tuple[Action, Future[ActionResult]]] = {}

    @property
    def busy(self) -> frozenset[str]:
        """Returns the names with an action in flight."""
        with self._lock:
            return frozenset(self._busy)

    @property
    def in_flight(self) -> tuple[Assign, ...]:
        """Returns the assignments in flight: each may commit, and takes its slot until that is known."""
        with self._lock:
            return tuple(action for action, _ in self._busy.values() if isinstance(action, Assign))

    def carry_out(self, actions: Iterable[Action]) -> list[ActionResult]:
        """Carries out what is not in flight already. Returns within ``PASS_WAIT_S`` one result per action
        that has finished, those of earlier passes included."""
        with self._lock:
            for action in actions:
                if action.name not in self._busy:
                    self._busy[action.name] = action, self._pool.submit(self._carry, action)
            in_flight = {name: future for name, (_, future) in self._busy.items()}
        wait(in_flight.values(), timeout=PASS_WAIT_S)
        finished = {name: future.result() for name, future in in_flight.items() if future.done()}
        with self._lock:
            for name in finished:
                self._busy.pop(name, None)
        return list(finished.values())

    def close(self) -> None:
        """Awaits every action. This is bounded, because each ends within the client's request time-out."""
        self._pool.close()

    def context(self) -> LeaderWriteContext:
        """Returns the context for one write under this term."""
        return LeaderWriteContext(
            self._layout, self._term.epoch, self._term.fence_version, new_op_id(), wall_iso(), self._by
        )

    def commit(self, build: Callable[[LeaderWriteContext], Transaction]) -> int | None:
        """Commits one guarded multi. Returns the data version that its last operation made.

        Raises NotLeader (the epoch moved), GuardFailed, NotSent, OutcomeUnknown.
        """
        self._term.check()
        try:
            return self._term.client.commit(build(self.context()), self._term.connection).versions[-1]
        except GuardFailed as failed:
            if failed.path == self._layout.epoch:
                raise self._term.fence_failed() from failed
            raise

    def _carry(self, action: Action) -> ActionResult:
        try:
            return ActionResult(action, ActionOutcome.DONE, doorbell_version=self._commit_action(action))
        except GuardFailed as error:
            return ActionResult(action, ActionOutcome.CHANGED, str(error))
        except NotLeader as error:
            return ActionResult(action, ActionOutcome.NOT_LEADER, str(error))
        except OutcomeUnknown as error:
            return ActionResult(action, ActionOutcome.UNKNOWN, str(error))
        except Unreachable as error:
            return ActionResult(action, ActionOutcome.NOT_SENT, str(error))
        except Exception as error:
            log.exception(
                "action_failed", action=type(action).__name__, job=action.name, epoch=self._term.epoch
            )
            return ActionResult(action, ActionOutcome.FAILED, f"{type(error).__name__}: {error}")

    def _commit_action(self, action: Action) -> int | None:
        try:
            made = self.commit(lambda context: transaction_for(action, context))
            return None if isinstance(action, Prepare | Withdraw) else made  # these ring no doorbell
        except GuardFailed as failed:
            if not isinstance(action, Unassign) or not failed.path.startswith(self._layout.assigned):
                raise
        # Its entry is gone although nobody claimed it (removed by hand): the ownership alone is put right.
        return self.commit(
            lambda context: leader_writes.unassign(context, action, entry_exists=False),
        )
