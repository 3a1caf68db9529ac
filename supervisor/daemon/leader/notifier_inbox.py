"""Takes over from each pass what receivers are to be told of jobs, for the loop that writes it down and sends it.

The controller calls ``observe`` within its pass: it only computes and remembers. What *happened* is kept until the loop has
fetched it, because the next view may not show it any more: a result that was cleaned meanwhile. Beyond ``HAPPENED_MAX`` the
loop is asked to read the results itself.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import replace
from typing import Final

from supervisor.clock import boottime_s
from supervisor.model.actions import Plan
from supervisor.model.notifications import EventKey, JobEvent
from supervisor.model.view import View
from supervisor.plan.falling_behind import LagWatch
from supervisor.plan.job_events import SeenEvents, events_of

HAPPENED_MAX: Final = 10_000


class NotifierInbox:
    """Holds what the passes of one term have shown. ``observe`` is for the controller, the rest for the notifier."""

    def __init__(self, clock: Callable[[], float] = boottime_s) -> None:
        self._clock = clock
        self._lag = LagWatch()
        self._lock = threading.Lock()
        self._seen: SeenEvents | None = None
        self._happened: dict[EventKey, JobEvent] = {}
        self._missed = False

    def observe(self, view: View, plan: Plan) -> None:
        """Takes in what a pass has seen."""
        seen = events_of(view, plan, self._lag.judge(view, self._clock()))
        with self._lock:
            self._seen = seen
            for event in seen.happened:
                if len(self._happened) >= HAPPENED_MAX:
                    self._missed = True
                    break
                self._happened[event.key] = event

    def take(self) -> SeenEvents | None:
        """Returns what the newest view shows, with all that has happened since the last call; None before the first view."""
        with self._lock:
            happened = tuple(self._happened.values())
            self._happened.clear()
            return None if self._seen is None else replace(self._seen, happened=happened)

    def missed(self) -> bool:
        """Says whether something was left out since the last call: then the results are to be read."""
        with self._lock:
            missed, self._missed = self._missed, False
            return missed
