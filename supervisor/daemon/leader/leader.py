"""Runs what leadership means to this process: a controller, a sweeper, a remover, the scheduled savepoints and
the notifier, for as long as the term lasts.

``coord.contender`` calls it (as its ``Duties``). ``step_down`` returns only when every task of the term is
over, so tasks of an earlier term never meet a new one (FLINK-9494, 9573).
"""

from __future__ import annotations

from collections.abc import Callable

import structlog

from supervisor.clients.threads import BackgroundThread
from supervisor.clients.zookeeper import ZooClient
from supervisor.clock import boottime_s
from supervisor.coord.term import Term
from supervisor.daemon.leader.controller import Controller
from supervisor.daemon.leader.notifier import Notifier
from supervisor.daemon.leader.remover import Remover
from supervisor.daemon.leader.scheduled_savepoints import ScheduledSavepoints
from supervisor.daemon.leader.sweeper import Sweeper

log = structlog.get_logger(__name__)

AWAIT_SLICE_S = 0.5
AWAIT_LOGGED_S = 5.0
AWAIT_MAX_S = 600.0
"""This is longer than any single request to S3 or a file system is waited for."""


class Leader:
    """Runs at most one term at a time. ``failed`` is called with a defect in a loop: the process must not go
    on without that loop."""

    def __init__(
        self,
        make_controller: Callable[[Term[ZooClient]], Controller],
        make_sweeper: Callable[[Term[ZooClient], Controller], Sweeper],
        make_remover: Callable[[Term[ZooClient], Controller], Remover],
        failed: Callable[[str, BaseException], None],
        make_savepoints: Callable[[Term[ZooClient], Controller], ScheduledSavepoints] | None = None,
        make_notifier: Callable[[Term[ZooClient], Controller], Notifier] | None = None,
    ) -> None:
        self._make_controller = make_controller
        self._make_sweeper = make_sweeper
        self._make_remover = make_remover
        self._failed = failed
        self._make_savepoints = make_savepoints
        self._make_notifier = make_notifier
        self._controller: Controller | None = None
        self._threads: list[BackgroundThread] = []

    @property
    def controller(self) -> Controller | None:
        """Returns the controller of the present term, or None."""
        return self._controller

    def begin(self, term: Term[ZooClient]) -> None:
        """Starts the term's loops and returns at once."""
        controller = self._make_controller(term)
        sweeper, remover = self._make_sweeper(term, controller), self._make_remover(term, controller)
        loops = {"controller": controller.run, "sweeper": sweeper.run, "remover": remover.run}
        if self._make_savepoints is not None:
            loops["savepoints"] = self._make_savepoints(term, controller).run
        if self._make_notifier is not None:
            loops["notifier"] = self._make_notifier(term, controller).run
        if controller.way_back is not None:
            loops["way-back"] = controller.way_back.run
        self._controller = controller
        self._threads = [
            BackgroundThread(f"{name}-{term.epoch}", loop, failed=self._failed, daemon=False)
            for name, loop in loops.items()
        ]
        for thread in self._threads:
            thread.start()

    def wake(self) -> None:
        """Wakes the controller after a change for which the doorbell does not ring (the epoch was
        recorded)."""
        if self._controller is not None:
            self._controller.wake.set()

    def step_down(self, term: Term[ZooClient], beat: Callable[[], None] = lambda: None) -> None:
        """Awaits the end of every task of ``term``, whose ``over`` is set already.

        A task ends only with the request that it is in, such as a batch of a deletion or a copy for a
        savepoint. ``beat`` notifies the watchdog that waiting for that is no defect, for ``AWAIT_MAX_S``; after
        that the watchdog ends this process, which costs no driver.
        """
        self.wake()
        self._await(term, beat)
        self._threads = []
        self._controller = None
        log.info("stepped_down", epoch=term.epoch)

    def _await(self, term: Term[ZooClient], beat: Callable[[], None]) -> None:
        begun_at_s, logged = boottime_s(), False
        while waiting := [thread for thread in self._threads if thread.is_alive()]:
            waited_s = boottime_s() - begun_at_s
            if waited_s < AWAIT_MAX_S:
                beat()
            if waited_s >= AWAIT_LOGGED_S and not logged:
                logged = True
                log.warning(
                    "step_down_waits",
                    epoch=term.epoch,
                    loops=[thread.name for thread in waiting],
                    next="this supervisor stands again when they have ended; others may lead meanwhile",
                )
            waiting[0].join(AWAIT_SLICE_S)
