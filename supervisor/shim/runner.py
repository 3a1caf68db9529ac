"""Runs the shim's main loop: it waits for the next event, asks ``machine.step`` what to do, and does it.

Nothing in it waits for ZooKeeper (``link``), for the disk (``output``) or for the driver; the longest thing
it does is a kill in slices of a fifth of a second. All decisions are the machine's. Called by ``__main__``.
"""

from __future__ import annotations

import os
import queue
import select
import signal
from collections import deque
from typing import Any, NamedTuple

from supervisor.clients import processes, run_dir
from supervisor.clients.containment import Containment
from supervisor.clients.run_dir import DeadlineFile
from supervisor.clients.tree_usage import TreeMeter
from supervisor.clock import boottime_s, wall_s
from supervisor.model.emptiness import Emptiness
from supervisor.model.launch import Launch
from supervisor.model.lease_terms import SECOND_KILLER_PERIOD_S
from supervisor.model.records import Cause
from supervisor.model.redaction import Redactor
from supervisor.records.layout import Layout
from supervisor.shim import state as shim
from supervisor.shim.children import Children
from supervisor.shim.diagnosis import Diagnosis, task_for
from supervisor.shim.directory_sampler import DirectorySampler
from supervisor.shim.link import RegistryLink, Request
from supervisor.shim.log import ShimLog
from supervisor.shim.machine import next_wake_at_s, step
from supervisor.shim.memory_witness import MemoryWitness
from supervisor.shim.oom import OomWatch
from supervisor.shim.output import OutputPump, RotatedFile
from supervisor.shim.preparation import PreparedTree
from supervisor.shim.reports import ReportSocket
from supervisor.shim.starter import Starter, outcome, release, release_to_barrier
from supervisor.shim.state import Effect, Event, Now, ShimState, Stage
from supervisor.shim.usage_sampler import UsageSampler

KILL_SLICE_S = 0.2
_SHORTEST_WAIT_S = 0.01
_FAREWELL_S = 1.0
_PREPARED_FAREWELL_S = 10.0  # a whole driver that was never let begin; the twin kills what is left then


class RunnerParts(NamedTuple):
    """Holds what ``__main__`` has made before any thread existed. ``twin`` is its pidfd."""

    directory: str
    launch: Launch
    claim_id: str
    tree: Containment
    children: Children
    deadline: DeadlineFile
    starter: Starter
    twin: int


class Runner:
    """Runs one attempt to its end."""

    def __init__(self, parts: RunnerParts) -> None:
        self._parts = parts
        launch = parts.launch
        layout = Layout(launch.root)
        self._events: queue.SimpleQueue[Event] = queue.SimpleQueue()
        self._wake = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        self._state = ShimState(
            launch,
            layout,
            parts.claim_id,
            os.getpid(),
            parts.starter.pid,
            born_at_s=boottime_s(),
            stage=Stage.PREPARED if launch.waits_for_assignment else Stage.CONNECTING,
        )
        file = RotatedFile(launch.log_path, launch.log_max_bytes, launch.log_keep)
        cover = Redactor(launch.secrets).text if launch.secrets else str
        self._pump = OutputPump(parts.starter.output, file, cover)
        self._reports = ReportSocket(launch.channel_in(parts.directory), launch.user, cover)
        self._log = _log_of(launch)
        self._link: RegistryLink | None = None  # a prepared driver has none until an attempt is handed to it
        self._preparation: PreparedTree | None = None
        if launch.waits_for_assignment:
            self._preparation = PreparedTree(parts.directory, launch, self._log_event)
        self._poll = select.poll()
        self._answer = b""
        self._heard = False
        self._released = False
        self._oom_watch: OomWatch | None = None
        self._diagnosis: Diagnosis | None = None
        meter = TreeMeter(launch.cgroup, self._pids, children=parts.children)
        self._memory = MemoryWitness(meter.read, self._pids, launch.cgroup)
        self._sampler = UsageSampler(self._memory.read)
        self._directory = DirectorySampler(launch.cwd, launch.files)
        self._exit_reported = False
        self._finished = False

    def run(self) -> None:
        """Returns when everything about this attempt is done."""
        signal.signal(signal.SIGTERM, lambda _number, _frame: self._post_event(shim.StopAsked()))
        signal.pthread_sigmask(signal.SIG_UNBLOCK, (signal.SIGTERM,))
        for descriptor in (
            self._wake,
            self._reports.fileno(),
            self._parts.starter.answer,
            self._parts.starter.pidfd,
            self._parts.twin,
        ):
            self._poll.register(descriptor, select.POLLIN)
        self._pump.start()
        if self._preparation is None:
            self._connect()
        else:
            release_to_barrier(self._parts.starter)
        while not self._finished:
            self._wait()
            for event in self._happened():
                self._feed(event)

    def _connect(self) -> None:
        """Makes the first client of this shim, by the launch of its attempt."""
        self._link = RegistryLink(self._state.launch, self._state.layout, self._post_event, self._log_event)
        self._link.start()

    def _log_event(self, event: str, level: str = "info", **fields: Any) -> None:
        """Writes a line into the log as it is called then."""
        self._log.log_event(event, level, **fields)

    # -- what happens --------------------------------------------------------------------------------------------------

    def _post_event(self, event: Event) -> None:
        """Queues an event. It may be called from any thread and from signal handlers."""
        self._events.put(event)
        try:
            os.eventfd_write(self._wake, 1)
        except BlockingIOError:
            pass

    def _wait(self) -> None:
        """Waits until something happens, for p at most, because a wait is measured on a clock that stands
        still in a suspend."""
        wanted_s = max(_SHORTEST_WAIT_S, next_wake_at_s(self._state) - boottime_s())
        wait_s = min(SECOND_KILLER_PERIOD_S, wanted_s)
        paused_s = self._reports.paused_s()
        self._poll.modify(self._reports.fileno(), 0 if paused_s else select.POLLIN)
        wait_s = min(wait_s, paused_s or wait_s)
        ready = {descriptor for descriptor, _ in self._poll.poll(wait_s * 1000)}
        if self._wake in ready:
            os.eventfd_read(self._wake)
        if self._parts.twin in ready:
            self._poll.unregister(self._parts.twin)
            self._log.log_event(
                "shim_lost_twin", "warning", next="only shim and guardian are left to kill the driver"
            )
        if self._parts.starter.answer in ready:
            for event in self._hear_starter():
                self._events.put(event)

    def _hear_starter(self) -> list[Event]:
        """Reads once from the starter's pipe, and returns at its end what became of exec."""
        data = os.read(self._parts.starter.answer, 4096)
        self._answer += data
        if data:
            return []
        self._poll.unregister(self._parts.starter.answer)
        self._heard = True
        refusal = outcome(self._answer)
        if self._preparation is not None:
            if refusal is not None:
                self._preparation.note_readiness(False, refusal.error)
            return []  # exec is not what lets its application begin
        if not self._released:
            return []  # it died while it waited; its exit says the rest
        if refusal is None:
            return [shim.Executed()]
        return [shim.ExecLate()] if refusal.late else [shim.ExecFailed(refusal.error, refusal.permanent)]

    def _happened(self) -> list[Event]:
        """Returns what has happened, in this order: posted events, an attempt that was handed over (it is not
        discarded any more then), reports, the exit (so that the driver's last reports are read before it), the
        time."""
        events: list[Event] = []
        while not self._events.empty():
            events.append(self._events.get())
        if self._preparation is not None and self._state.stage is Stage.PREPARED:
            events.extend(self._preparation.handed())
        events.extend(self._reported())
        events.extend(self._sampled())
        events.extend(self._exit())
        events.append(shim.Tick())
        return events

    def _reported(self) -> list[Event]:
        reports = self._reports.take()
        return [*reports] if self._preparation is None else self._preparation.understood(reports)

    def _sampled(self) -> list[Event]:
        """Returns the usage of the tree and of the directory, if one was measured since it was fed last."""
        use, directory = self._sampler.newest, self._directory.newest
        is_known = use is self._state.use and directory is self._state.directory
        return [] if is_known else [shim.Sampled(use, directory)]

    def _exit(self) -> list[Event]:
        children, pid = self._parts.children, self._parts.starter.pid
        children.reap()
        if self._exit_reported or pid not in children.ended:
            return []
        self._exit_reported = True
        self._sampler.stop()
        self._directory.stop()
        self._poll.unregister(self._parts.starter.pidfd)
        events: list[Event] = []
        while not self._heard:  # nobody has the other end any more: this ends
            events.extend(self._hear_starter())
        oom = self._oom_watch.seen() if self._oom_watch is not None else None
        status = children.ended[pid]
        left = len(self._pids()) if status == 0 else 0
        exited = shim.Exited(status, self._pump.tail(), oom, self._refused(), self._memory_before_end(), left)
        events.extend(self._reported())
        if self._preparation is not None:
            self._preparation.note_readiness(False, f"its driver has ended (status {exited.status})")
        return [*events, exited]

    def _memory_before_end(self) -> str:
        """Returns what is known of the driver's memory, in case it ended for want of it."""
        launch = self._state.launch
        samples = [(each.at_s, each.memory_bytes) for each in self._sampler.recent]
        return self._memory.described(
            samples, launch.assignment.memory, self._parts.starter.pid, boottime_s()
        )

    def _refused(self) -> tuple[Cause, str] | None:
        """Returns the start verdict, if it is a refusal. It is final: after it the application has not begun."""
        launch = self._state.launch
        channel = launch.channel_in(self._parts.directory)
        verdict = run_dir.read_verdict(channel) if launch.is_held else None
        return (Cause(verdict.cause), verdict.why) if verdict is not None and verdict.cause else None

    # -- what is done --------------------------------------------------------------------------------------------------

    def _feed(self, event: Event) -> None:
        events = deque((event,))
        while events and not self._finished:
            before = self._state
            self._state, effects = step(before, events.popleft(), Now(boottime_s(), wall_s()))
            self._log_changes(before, self._state)
            events.extend(self._perform(effects))

    def _log_changes(self, before: ShimState, now: ShimState) -> None:
        """Logs the attempt's story, one line per step, and each kill for the host's metrics."""
        if now.launch is not before.launch:
            self._log = _log_of(now.launch)
            self._pump.move_to(now.launch.log_path)
        if now.stage is not before.stage:
            self._log.log_event("shim_stage", stage=now.stage.value, was=before.stage.value)
        if now.phase is not before.phase:
            self._log.log_event("shim_phase", phase=now.phase.value, was=before.phase.value)
        if now.status is not None and before.status is None:
            self._log.log_event("shim_driver_exited", status=now.status, driver_pid=now.driver_pid)
        if now.empty_at_s is not None and before.empty_at_s is None and now.cause is not None:
            run_dir.note_kill(self._parts.directory, "shim", now.empty_at_s - now.kill_began_at_s)

    def _perform(self, effects: tuple[Effect, ...]) -> list[Event]:
        events: list[Event] = []
        for effect in effects:
            match effect:
                case (
                    shim.FirstConnect() | shim.Read() | shim.Commit() | shim.NewClient() | shim.CloseSession()
                ):
                    self._ask_registry(effect)
                case shim.WriteDeadline(deadline_at_s):
                    if not self._write_deadline(deadline_at_s) and any(
                        isinstance(e, shim.Exec) for e in effects
                    ):
                        return [*events, shim.DeadlineUnwritable()]
                case shim.Exec(before_at_s):
                    events.extend(self._exec(before_at_s))
                case shim.Order(order, within_s):
                    heard = self._reports.order(order, within_s)
                    events.extend(() if heard else (shim.Unheard(effect),))
                case shim.Diagnose():
                    events.extend(self._diagnose(effect))
                case shim.Terminate():
                    self._terminate()
                case shim.Kill():
                    events.extend(self._kill())
                case shim.Finish(why):
                    self._finish(why)
                case shim.WriteLog(name, why):
                    self._log.log_event(name, why=why)
        return events

    def _diagnose(self, asked: shim.Diagnose) -> list[Event]:
        """Starts a collection, and waits for nothing of it."""
        launch = self._state.launch
        try:
            task = task_for(launch, self._parts.directory, self._pids(), asked)
            self._diagnosis = Diagnosis(task, launch, self._post_event, self._log_event)
            self._parts.children.apart.add(self._diagnosis.pid)
            self._diagnosis.start()
        except (OSError, RuntimeError) as error:  # no process, memory, descriptor or thread left
            self._log.log_event("shim_not_diagnosed", "warning", why=str(error))
            return [shim.Diagnosed()]
        return []

    def _pids(self) -> list[int]:
        """Returns the processes of the driver's tree: without a cgroup, a scan finds what collects diagnostics, too."""
        apart = self._parts.children.apart
        return [pid for pid in self._parts.tree.pids() if pid not in apart]

    def _terminate(self) -> None:
        """Asks the driver to end. Where that is not allowed (a driver of another user, and a supervisor without
        CAP_KILL) it is killed when its time is over."""
        try:
            processes.send_signal(self._parts.starter.pidfd, signal.SIGTERM)
        except OSError as error:
            self._log.log_event(
                "shim_not_terminated", "error", why=str(error), next="it is killed after stop_grace"
            )

    def _ask_registry(self, effect: shim.FirstConnect | Request) -> None:
        if isinstance(effect, shim.FirstConnect):
            self._connect()
        elif self._link is not None:  # whatever asks for it has a session
            self._link.submit(effect)

    def _write_deadline(self, deadline_at_s: float | None) -> bool:
        try:
            self._parts.deadline.write(deadline_at_s)
        except OSError as error:
            self._log.log_event("shim_deadline_unwritable", "error", why=str(error))
            return False
        return True

    def _exec(self, before_at_s: float) -> list[Event]:
        self._released = True
        self._oom_watch = OomWatch(self._parts.launch.cgroup)
        self._begin_sampling()
        if self._preparation is not None:
            return self._preparation.open(self._state.launch, self._parts.claim_id, before_at_s)
        try:
            release(self._parts.starter, before_at_s)
        except OSError as error:
            return [shim.ExecFailed(f"the starter is gone: {error}", False)]
        return []

    def _begin_sampling(self) -> None:
        """Begins to sample the tree. A host that has no thread left costs the samples, and not the driver."""
        try:
            self._sampler.start()
            self._directory.start()
        except RuntimeError as error:
            self._log.log_event("shim_not_sampled", "warning", why=str(error))

    def _kill(self) -> list[Event]:
        if self._diagnosis is not None:  # first: it is a child of this process, and keeps nobody
            self._diagnosis.kill()
        self._parts.tree.kill(KILL_SLICE_S)
        self._parts.children.reap()
        empty = self._parts.tree.emptiness() is Emptiness.EMPTY
        if empty:
            self._pump.join(_FAREWELL_S / 2)  # the rest of the output, unless the disk hangs
        return [*self._exit(), shim.TreeSeen(empty, self._pump.tail())]

    def _finish(self, why: str) -> None:
        """Ends the work. The exit is recorded by now; the cgroup may not be removed before, because that lets
        the guardian record the exit as well."""
        self._log.log_event("shim_done", why=why)
        self._finished = True
        os.close(self._parts.starter.go)
        # a starter that was never let go, or a prepared driver whose application never began
        self._parts.tree.kill(_FAREWELL_S if self._preparation is None else _PREPARED_FAREWELL_S)
        self._parts.children.reap()
        self._parts.tree.remove()
        self._pump.join(_FAREWELL_S)
        if self._link is not None:
            self._link.close(_FAREWELL_S)


def _log_of(launch: Launch) -> ShimLog:
    """Returns the log of the attempt, or of the prepared driver that has none."""
    entry = launch.assignment
    key = launch.prepared if launch.waits_for_assignment else f"{entry.uid}.{entry.attempt}"
    return ShimLog(key, entry.name)
