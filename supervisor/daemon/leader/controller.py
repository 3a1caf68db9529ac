"""Runs the leader's loop: observe, plan, check, act, record. This file is the product on one screen.

There is one ``Controller`` per term of leadership; ``daemon.leader.leader`` runs it in a thread of its own.
It holds no policy (``plan``), no protocol (``registry``, ``coord``) and no knowledge of Spark. Watches,
timers and signals only wake it; it reads again for itself.
"""

from __future__ import annotations

import threading
from dataclasses import replace

import structlog

from supervisor.act.carry_out import ActionExecutor, ActionOutcome, ActionResult
from supervisor.clients.zookeeper import ZooClient
from supervisor.clock import boottime_s
from supervisor.coord.term import Term
from supervisor.daemon.leader.left_behind import Examine, LeftBehind
from supervisor.daemon.leader.notifier_inbox import NotifierInbox
from supervisor.daemon.leader.record import Pass, Recorder
from supervisor.daemon.leader.way_back import WayBack, WayBackWork
from supervisor.daemon.loops.error_boundary import ErrorBoundary
from supervisor.daemon.loops.watchdog import Loop
from supervisor.errors import GuardFailed, NotLeader, OutcomeUnknown, SupervisorError
from supervisor.model.actions import Action, CleanUp, Plan
from supervisor.model.records import Acceptance, Handover
from supervisor.model.seen import Found, Seen
from supervisor.model.view import View
from supervisor.observe.change_notifier import ChangeNotifier
from supervisor.observe.observer import Observer
from supervisor.plan.check import violations
from supervisor.plan.make import Policy, make_plan
from supervisor.records.layout import Layout
from supervisor.registry.leader_writes import end_wait, make_parents
from supervisor.registry.operator_writes import switched_over

log = structlog.get_logger(__name__)

PERIOD_S = 1.0
PERIOD_MIN_S = 0.02
FULL_READ_EVERY_S = 60.0
REREAD_ALL_BELOW = 1_000
"""With fewer names than this, doorbell rings whose names are unknown are answered by a full read at once;
with more, by one every 10 s."""
CROWDED_FULL_READ_EVERY_S = 10.0
DEFECTS_MAX = 60
"""This many passes in a row, a second apart, may end by a defect; then the process ends, because another one
may do better. It does not end at the first, because what one record does to this leader it does to the next,
and a process that ends at once keeps nobody's jobs."""


class Controller:
    """Acts for the leader as long as ``term`` lasts. ``loop`` is its entry in the watchdog, and is beaten
    once per pass. ``examine`` tells what the target of an update has left in the checkpoint; without it nobody knows.
    ``by`` is this supervisor, as an author. ``work`` makes and restores the savepoints of updates; without it nobody
    does. ``notifier_inbox`` gets what each pass shows of jobs; without it nobody is told."""

    def __init__(
        self,
        term: Term[ZooClient],
        layout: Layout,
        policy: Policy,
        recorder: Recorder,
        loop: Loop,
        examine: Examine | None = None,
        by: str = "",
        work: WayBackWork | None = None,
        notifier_inbox: NotifierInbox | None = None,
    ) -> None:
        self.wake = threading.Event()
        self.deletions_wanted = threading.Event()  # a checkpoint is to be deleted, or may be: for ``remover``
        self._term = term
        self._layout = layout
        self._policy = policy
        self._recorder = recorder
        self._loop = loop
        self._executor = ActionExecutor(term, layout, by)
        self._observer = Observer(term.client, layout, boottime_s, term.epoch)
        self._notifier = ChangeNotifier(term.client, layout.doorbell, self.wake.set)
        self._view: View | None = None
        self._plan = Plan(())
        self._reread: set[str] = set()
        self._missed = False
        self._outcome_is_open = True
        self._full_at_s = float("-inf")
        self._boundary = ErrorBoundary("controller")
        self._defects = 0
        self._left_behind = LeftBehind(examine, self.wake.set) if examine is not None else None
        self.way_back = WayBack(term, work, self.wake.set) if work is not None else None
        self.notifier_inbox = notifier_inbox

    @property
    def executor(self) -> ActionExecutor:
        return self._executor

    @property
    def view(self) -> View | None:
        """Returns the latest view, or None before the first; it is for ``explain``, the sweeper and
        metrics."""
        return self._view

    def is_paused(self) -> bool:
        """Whether the cluster is paused, as the latest view shows it."""
        return self._view is not None and self._view.paused

    @property
    def plan(self) -> Plan:
        return self._plan

    def run(self) -> None:
        """Runs pass after pass until the term is over. A pass that fails has had no effect by the failure
        itself; it is repeated, and what it read is read anew. Raises a defect that has ended ``DEFECTS_MAX``
        passes in a row."""
        while not self._term.over.is_set():
            self._loop.beat()
            self.wake.clear()
            try:
                self._handle(self.reconcile_once().view.wish)
                self._defects = 0
            except NotLeader as error:
                self._recorder.deposed(self._term.epoch, error)
                break
            except SupervisorError as error:
                self._outcome_is_open = True
                self._recorder.skipped(self._term.epoch, error)
            except Exception as error:  # noqa: BLE001 - the edge of one item
                self._after_defect(error)
            self.wake.wait(self._wait_s())
        self._executor.close()
        self._loop.done()

    def _after_defect(self, error: Exception) -> None:
        self._defects += 1
        if self._defects >= DEFECTS_MAX:
            raise error
        self._outcome_is_open, self._full_at_s = True, float("-inf")
        self._boundary.log_error("pass", error)

    def reconcile_once(self) -> Pass:
        """Runs one pass and returns it. Raises Unreachable (then nothing was planned) and NotLeader."""
        begun_at_s = boottime_s()
        self._term.check()
        view = self._observe()
        plan = self._without_busy(make_plan(view, self._policy, boottime_s(), self._executor.in_flight))
        broken = violations(view, plan)
        inbox = self.notifier_inbox
        if inbox is not None:  # before a result is cleaned by which receivers are told of a job
            self._boundary.attempt("notifier inbox", lambda: inbox.observe(view, plan), None)
        self._make_missing_parents(view)
        results = self._act(plan.actions if not broken else ())
        done = Pass(view, plan, broken, tuple(results), begun_at_s, boottime_s())
        self._boundary.attempt("record", lambda: self._recorder.record(done), None)
        if plan.waited_out is not None and not broken:
            self._set_waited(plan.waited_out)
        return done

    def _observe(self) -> View:
        """Returns the view now. It rereads what the doorbell named and what this leader changed itself, and
        from time to time everything."""
        if self._outcome_is_open:
            self._term.client.sync()
        changes = self._notifier.read_changes()
        # kept until a view was taken: a ring is heard once, and a read may fail
        self._reread |= changes.names
        self._missed |= changes.more
        changed = self._changed()
        term = self._term
        view = self._observer.take_view(changed, recorded=term.recorded, distrust=term.distrust)
        view = view if self._left_behind is None else self._left_behind.answered(view)
        view = view if self.way_back is None else self.way_back.answered(view, self._plan)
        if changed is None:
            self._full_at_s = boottime_s()
            self._missed = False
        self._reread.clear()
        self._outcome_is_open = False
        self._view = view
        return view

    def _changed(self) -> set[str] | None:
        since_full_s = boottime_s() - self._full_at_s
        crowded = self._view is not None and len(self._view.rows) >= REREAD_ALL_BELOW
        if since_full_s >= FULL_READ_EVERY_S or self._view is None:
            return None
        if self._missed and since_full_s >= (CROWDED_FULL_READ_EVERY_S if crowded else 0.0):
            return None
        return {*self._reread, *self._observer.in_motion()}

    def _without_busy(self, plan: Plan) -> Plan:
        """Allows one action in flight per job: returns the plan without the actions of jobs whose last action
        has no known outcome yet."""
        self._plan = plan
        busy = self._executor.busy
        return replace(plan, actions=tuple(a for a in plan.actions if a.name not in busy))

    def _act(self, actions: tuple[Action, ...]) -> list[ActionResult]:
        results = self._executor.carry_out(actions)
        for one in results:
            self._notifier.skip_own(one.doorbell_version)
            self._reread.add(one.action.name)
            self._outcome_is_open |= one.outcome is ActionOutcome.UNKNOWN
            if isinstance(one.action, CleanUp) and one.action.deletes_checkpoint:
                self.deletions_wanted.set()
        if any(one.outcome is ActionOutcome.DONE for one in results):
            self.wake.set()
        return results

    def _handle(self, wish: Seen[Handover]) -> None:
        """Handles the record of a planned hand-over. If it names this term, it nudges the contender. If it
        names an earlier term, the hand-over is done, because this leader has acted, and the record is
        concluded."""
        term = self._term
        if not isinstance(wish, Found) or wish.record.epoch > term.epoch:
            return
        if wish.record.epoch == term.epoch:
            term.nudge()
        elif term.distrust is None:
            self._conclude_switchover(wish)

    def _conclude_switchover(self, wish: Found[Handover]) -> None:
        try:
            self._executor.commit(
                lambda context: switched_over(context.layout, wish, context.fence_version, context.op_id)
            )
        except (GuardFailed, OutcomeUnknown) as error:
            log.debug("switchover_not_concluded", why=str(error))  # the next pass looks again
        else:
            log.info("switched_over", epoch=self._term.epoch, was=wish.record.leader, by=wish.record.by)

    def _make_missing_parents(self, view: View) -> None:
        """Handles what somebody removed by hand: either this term does nothing any more, or the missing
        znodes are created anew."""
        if view.distrust is not None:
            self._term.set_distrust(view.distrust)
        elif view.missing and view.recorded:
            try:
                self._executor.commit(lambda context: make_parents(context, view.missing))
            except (GuardFailed, OutcomeUnknown) as error:
                log.debug("parents_not_made", why=str(error))  # the next pass looks again
            else:
                self._log_parents(view.missing)

    def _log_parents(self, paths: tuple[str, ...]) -> None:
        """Logs which parents were made. A root that was founded by an older version lacks those that came later: that is no
        news to worry about."""
        epoch = self._term.epoch
        if set(paths) <= {self._layout.preparations, self._layout.revisions}:
            why = "this root is from before there were prepared drivers, or revisions"
            log.info("parents_made_anew", epoch=epoch, paths=paths, why=why)
        else:
            log.error("parents_made_anew", epoch=epoch, paths=paths, why="they were removed by hand")

    def _set_waited(self, accepted: Found[Acceptance]) -> None:
        """Records that the wait after an accepted restore is over, as the plan says."""
        try:
            self._executor.commit(lambda context: end_wait(context, accepted))
        except (GuardFailed, OutcomeUnknown) as error:
            log.debug("wait_not_ended", why=str(error))  # the next pass looks again
            return
        self.wake.set()
        log.info(
            "restore_waited_out",
            epoch=self._term.epoch,
            acceptance=accepted.record.epoch,
            by=accepted.record.by,
        )

    def _wait_s(self) -> float:
        """Returns the seconds until the next pass: until a back-off or a full wait ends, and at most the
        period."""
        waits = [note.wait_s for note in self._plan.notes if note.wait_s is not None]
        return max(PERIOD_MIN_S, min([PERIOD_S, *waits]))
