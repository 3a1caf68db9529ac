"""Takes over from each pass what receivers are to be told of jobs, for the loop that writes it down and sends it.

The controller calls ``observe`` within its pass: it only computes and remembers. Events are kept until the loop has fetched
them, because the next view may not show them any more: a result that was cleaned meanwhile, a quarantine that is over.
Histories show the same events in each view; those that the loop has written down are left out. Beyond ``HAPPENED_MAX``
others the loop is asked to read the results itself.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import replace
from typing import Final

from supervisor.clock import boottime_s
from supervisor.model.actions import Plan
from supervisor.model.notifications import EventKey, JobEvent, keep
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
        self._lasting: dict[EventKey, JobEvent] = {}
        self._written: set[EventKey] = set()
        self._missed = False

    def observe(self, view: View, plan: Plan) -> None:
        """Takes in what a pass has seen. A view that vouches for nothing shows nothing, not even that something is over."""
        if view.distrust is not None:
            return
        seen = events_of(view, plan, self._lag.judge(view, self._clock()))
        with self._lock:
            self._seen = seen
            keep(self._lasting, seen.lasting)
            self._written.intersection_update([event.key for event in seen.happened])
            for event in seen.happened:
                if event.key in self._written:
                    continue
                if len(self._happened) >= HAPPENED_MAX:
                    self._missed = True
                    break
                keep(self._happened, (event,))

    def take(self) -> SeenEvents | None:
        """Returns what was shown since the last call, and what is over by the newest view; None before the first view."""
        with self._lock:
            happened, lasting = tuple(self._happened.values()), tuple(self._lasting.values())
            self._happened.clear()
            self._lasting.clear()
            return None if self._seen is None else replace(self._seen, happened=happened, lasting=lasting)

    def note_written(self, key: EventKey) -> None:
        """Takes note that what happened is written down: no later view has news of it."""
        with self._lock:
            self._written.add(key)

    def missed(self) -> bool:
        """Says whether something was left out since the last call: then the results are to be read."""
        with self._lock:
            missed, self._missed = self._missed, False
            return missed
