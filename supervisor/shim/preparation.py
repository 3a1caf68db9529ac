"""Does the I/O of a prepared driver for the runner: how far it has come, whether an attempt was handed to it, and the
opening of its barrier (protocol §9.1).

What arrives on the report socket comes from user code too: nothing that it says opens anything. An attempt is handed
over by a file of the agent, and the barrier was passed only if the opening was written here. Called by ``runner``; what
follows from it is decided in ``prepared``.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Protocol

from supervisor.clients import run_dir
from supervisor.clients.run_dir import Opening, Readiness
from supervisor.clock import boottime_s
from supervisor.errors import Corrupt
from supervisor.model.launch import NO_ATTEMPT, OF_PREPARED, Launch
from supervisor.records.codec import decode
from supervisor.shim import state as shim
from supervisor.shim.state import Event, Reported

PASSED = frozenset({"opened", "waiting", "begun"})
"""Each of these says that the driver is past its barrier: a report may be lost."""


class LineLog(Protocol):
    def __call__(self, event: str, level: str = "info", **fields: Any) -> None: ...


class PreparedTree:
    """Is the prepared driver of one run directory. ``launch`` is the one by which it was brought up, ``log`` takes lines
    for the log."""

    def __init__(self, directory: str, launch: Launch, log: LineLog) -> None:
        self._directory = directory
        self._launch = launch
        self._log = log
        self._unwritten: Readiness | None = None
        self._opened = False  # by us
        self._passed = False

    # -- before an attempt is handed over ------------------------------------------------------------------------------

    def handed(self) -> list[Event]:
        """Returns the attempt that was handed over, if one was, or that what was handed over is none for this driver."""
        self._write_readiness()
        try:
            data = run_dir.read_handed(self._directory)
        except OSError:  # looked at again soon
            return []
        if data is None:
            return []
        try:
            launch = decode(Launch, data, run_dir.HANDED)
            why = self.why_not(launch)
        except Corrupt as error:
            why = str(error)
        if not why:
            return [shim.HandedOver(launch)]
        self._log(
            "shim_not_handed_over", "error", why=why, next="the driver ends, and its agent starts a cold one"
        )
        return [shim.HandedUnfit(why)]

    def why_not(self, launch: Launch) -> str:
        """Returns why an attempt is not for this driver; an empty text if it is."""
        if launch.assignment.attempt <= NO_ATTEMPT:
            return "it is no attempt"
        was, now = _identity(self._launch), _identity(launch)
        differ = [name for name in was if was[name] != now[name]]
        return f"it is not for this driver: other {', '.join(differ)}" if differ else ""

    def note_readiness(self, ready: bool, why: str) -> None:
        """Writes down for the agent how far the driver has come. Only the first word counts. If it can't be written now (a
        full disk), it is tried again at each look."""
        if self._unwritten is None:
            self._unwritten = Readiness(ready, why, boottime_s())
            self._write_readiness()

    def _write_readiness(self) -> None:
        readiness = self._unwritten
        if readiness is None:
            return
        try:
            first = run_dir.write_readiness(self._directory, readiness)
        except OSError:
            return
        self._unwritten = None
        if first:
            level = "info" if readiness.ready else "warning"
            self._log("shim_prepared", level, ready=readiness.ready, why=readiness.why)

    # -- what it reports -----------------------------------------------------------------------------------------------

    def understood(self, reports: Iterable[Reported]) -> list[Event]:
        """Returns what the reports mean. Until the opening was written, they can mean nothing of the application."""
        return [event for report in reports for event in self._understood(report)]

    def _understood(self, report: Reported) -> list[Event]:
        match report.event:
            case "wanted":
                return [shim.StillWanted()]
            case "discard":
                return [shim.DiscardAsked()]
            case "ready" | "unready":
                self.note_readiness(report.event == "ready", report.error)
                return []
            case "late" if self._opened and not self._passed:
                return [shim.ExecLate()]
            case event if not self._opened:
                return []
            case event if event in PASSED and not self._passed:
                self._passed = True
                return [shim.Executed(), report]
            case _:
                return [report]

    # -- the opening ---------------------------------------------------------------------------------------------------

    def open(self, launch: Launch, claim_id: str, before_at_s: float) -> list[Event]:
        """Lets the application begin, by ``launch`` of the attempt. If the opening can't be written, nothing begins."""
        had = self._launch.env
        env = {
            name: value
            for name, value in launch.env.items()
            if had.get(name) != value and name not in OF_PREPARED
        }
        try:
            opening = Opening(claim_id, before_at_s, env, launch.hadoop_conf, launch.spark_conf)
            reader = launch.user.uid if launch.user is not None else None
            self._opened = run_dir.write_opening(launch.channel_in(self._directory), opening, reader)
            why = "" if self._opened else "there is an opening already, or no run directory"
        except OSError as error:
            why = str(error)
        return [shim.ExecFailed(f"the barrier could not be opened: {why}", False)] if why else []


def _identity(launch: Launch) -> dict[str, object]:
    """Returns what must be the same in both launches of a prepared driver."""
    entry = launch.assignment
    return {
        "prepared": launch.prepared,
        "name": entry.name,
        "uid": entry.uid,
        "revision": entry.revision,
        "cgroup": launch.cgroup,
        "user": launch.user,
        "channel": launch.channel,
        "cluster": launch.cluster,
        "root": launch.root,
    }
