"""Ends the process when a loop is stuck: a supervisor that hangs must not keep its sessions alive (protocol §6, F60).

Every loop of the daemon registers, and beats once per round. If a loop has not beaten within its limit, on CLOCK_BOOTTIME,
the process ends at once with one line and all stacks. The session closer then hands over, systemd starts the
supervisor again, and no job notices. Should no Python thread be able to run at all (the interpreter's lock is held),
faulthandler's timer, which needs none, does the same. While every loop beats, systemd is notified of it.

A process that was stopped as a whole (SIGSTOP, a suspended host) is not stuck: the watchdog slept as well, sees the gap in
its own rounds, and gives every loop the time that nobody had. It never recovers anything by itself.
"""

from __future__ import annotations

import faulthandler
import os
import sys
import threading
from collections.abc import Callable
from typing import TextIO

from supervisor.clients.threads import BackgroundThread
from supervisor.clock import boottime_s
from supervisor.daemon.loops.notify import notify, watchdog_period_s

EXIT_CODE = 70  # EX_SOFTWARE: systemd restarts on it
ROUND_S = 0.5
REPORT_MAX_S = 2.0  # a log pipe that nobody reads must not keep a stuck process alive
LOCKED_LIMIT_S = 60.0


class Loop:
    """Is one registered loop. It calls ``beat`` at least once per ``limit_s``, and ``done`` when it ends in order."""

    def __init__(self, name: str, limit_s: float, forget: Callable[[Loop], None]) -> None:
        self.name = name
        self.limit_s = limit_s
        self.beaten_at_s = boottime_s()
        self._forget = forget

    def beat(self) -> None:
        self.beaten_at_s = boottime_s()

    def done(self) -> None:
        self._forget(self)


class Watchdog:
    """Watches the loops of one process; there is one watchdog per process.

    ``end`` ends the process; tests pass something milder. ``locked_limit_s`` is for how long no Python thread may run;
    None switches that guard off. A SIGSTOP that lasts longer ends the process when it is continued.
    """

    def __init__(
        self,
        *,
        end: Callable[[int], None] = os._exit,
        out: TextIO | None = None,
        locked_limit_s: float | None = LOCKED_LIMIT_S,
    ) -> None:
        self._end = end
        self._out = sys.stderr if out is None else out
        self._locked_limit_s = locked_limit_s
        self._loops: set[Loop] = set()
        self._lock = threading.Lock()
        self._stop = threading.Event()
        self._thread = BackgroundThread("watchdog", self._run, ask=self._stop.set)

    def register(self, name: str, limit_s: float) -> Loop:
        loop = Loop(name, limit_s, self._forget)
        with self._lock:
            self._loops.add(loop)
        return loop

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Ends the watch, because the process is about to end in an orderly way, with its own time limit."""
        self._thread.stop(2 * ROUND_S)
        faulthandler.cancel_dump_traceback_later()

    def stuck(self, now_s: float) -> tuple[Loop, float] | None:
        """Returns the loop that is furthest over its limit, and for how many seconds it has been silent; None if no loop is
        over its limit."""
        with self._lock:
            late = [(now_s - loop.beaten_at_s - loop.limit_s, loop) for loop in self._loops]
        over_s, loop = max(late, key=lambda each: each[0], default=(0.0, None))
        return (loop, now_s - loop.beaten_at_s) if loop is not None and over_s > 0 else None

    def forgive(self, gap_s: float) -> None:
        """Gives every loop ``gap_s`` more, because no thread of this process could run for that long."""
        with self._lock:
            for loop in self._loops:
                loop.beaten_at_s += gap_s

    def _forget(self, loop: Loop) -> None:
        with self._lock:
            self._loops.discard(loop)

    def _run(self) -> None:
        period_s = watchdog_period_s()
        round_s = min(ROUND_S, period_s or ROUND_S)
        last_at_s = reported_at_s = boottime_s()
        while not self._stop.is_set():
            now_s = boottime_s()
            if now_s - last_at_s > 2 * ROUND_S:
                self.forgive(now_s - last_at_s)
            last_at_s = now_s
            found = self.stuck(now_s)
            if found is not None:
                self._give_up(*found)
                return
            if period_s is not None and now_s - reported_at_s >= period_s - round_s:
                notify("WATCHDOG=1")
                reported_at_s = now_s
            if self._locked_limit_s is not None:
                faulthandler.dump_traceback_later(self._locked_limit_s, exit=True, file=self._out)
            self._stop.wait(round_s)

    def _give_up(self, loop: Loop, silent_s: float) -> None:
        """Reports in another thread, so that a pipe that nobody reads cannot delay the end, and ends the process."""
        BackgroundThread("report", lambda: self._report(loop, silent_s)).start().join(REPORT_MAX_S)
        self._end(EXIT_CODE)

    def _report(self, loop: Loop, silent_s: float) -> None:
        self._out.write(
            f"watchdog: the loop {loop.name} has been stuck for {silent_s:.1f} s (limit {loop.limit_s:g} s): "
            "the process ends\n"
        )
        self._out.flush()
        faulthandler.dump_traceback(file=self._out, all_threads=True)
