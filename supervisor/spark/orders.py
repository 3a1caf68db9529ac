"""Carries out the orders of the shim in a running PySpark driver: to stop at a batch boundary, to probe
silent queries, to count executors, and to show where the interpreter's threads are.

``bootstrap`` loads it when the application has its first SparkSession, under whatever Python that runs (3.9
and later); it uses the standard library only. One thread waits on a datagram socket in the run directory:
nothing is polled while nothing is ordered. It only shows the threads; all else is for a second one, since that
may have to wait for a JVM which does not answer. Both are unknown to ``threading`` (an application may join
all threads that it finds), forked children close the socket, and no error of this module reaches the
application.

A query is stopped between two batches like this. Spark's own ``stop()`` interrupts the batch that runs, and
between the event of one batch and the call the next one has begun. So the engine's state is set to what
``stop()`` sets it to, without the interrupt, at a moment when the engine reads it only after the commit:
while the batch is handed to the sink. The engine's progress lock, which the engine needs for each commit and
each new batch, holds it there during the check; the lock is fair, so this module gets it right before a batch
goes to the sink, or right after. Where the engine is not as expected (another Spark), the listener's next
committed batch is followed by ``stop()``: then the batch that has begun meanwhile is replayed with the same
offsets at the next start, as after SIGTERM.
"""

from __future__ import annotations

import _thread
import contextlib
import json
import os
import queue
import re
import socket
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from typing import Any

ORDER_MAX_BYTES = 1024
PAUSE_S = 0.02
LOCK_WAIT_S = 1
HOLD_S = 2.0
HELD_PAUSE_S = 0.005
NEXT_BATCH_MAX_S = 2.0
NEXT_BATCH_SHARE = 0.6
"""A query that is between two batches gets its next one before it stops, if its interval is not longer than the former, and
interval and twice the time of its newest batch are together not more than this share of the time that the stop has."""
STACKS_MAX_BYTES = 100_000
FRAMES_MAX = 100
THREADS_MAX = 500
WHY_MAX_CHARS = 200
LISTENER = "pyspark.sql.streaming.listener"
NO_DATA = "Waiting for data to arrive"
WAITING = ("Waiting for next trigger", NO_DATA)

# Methods of the engine's thread, stable from Spark 3.0 to 4.3.
_IN_TRIGGER = re.compile(
    r"MicroBatchExecution\.(\$anonfun\$)?(executeOneBatch|runActivatedStream\$|constructNextBatch|runBatch)"
)
_IN_BATCH = re.compile(r"MicroBatchExecution\.(\$anonfun\$)?runBatch")
_IN_SINK = "execution.SQLExecution$"


class Orders:
    """Takes orders. ``sessions`` holds the sessions that the application uses, as they become known; ``send``
    sends one report, by name and values. ``intervals`` maps a query id to the seconds between the begins of its batches, if
    it has asked for that."""

    def __init__(
        self, send: Callable[..., Any], sessions: Iterable[Any], intervals: dict[str, float] | None = None
    ) -> None:
        self.stopping = False
        self._send = send
        self._sessions = sessions
        self._intervals = {} if intervals is None else intervals
        self._socket: socket.socket | None = None
        self._starting = 0
        self._counting = threading.Lock()
        self._stopped = threading.Event()
        self._thread = 0
        self._seen: dict[str, Any] = {}  # run id → what Spark was doing for it at the last probe
        self.committed: dict[str, int] = {}  # run id → batches that the listener saw committed
        # query id → its end, which the shim had no room to hear of
        self.unsaid: dict[str, dict[str, Any]] = {}
        self.started: dict[str, Any] = {}  # run id → query whose end was not heard of
        self._newest: dict[str, str] = {}  # run id → when the newest batch that was reported began
        self._epochs: dict[
            str, int | None
        ] = {}  # run id of a continuous query → its newest epoch at the last probe
        # these report a batch (a StreamingQueryProgress), and that a query has ended
        self.send_progress: Callable[[Any], None] = lambda _progress: None
        self.send_end: Callable[[Any], None] = lambda _query: None

    def listen(self, path: str) -> None:
        """Binds the socket ``path``, through /proc, because its address holds 108 bytes only. Raises OSError.

        The shim may be another user's process. Who gets to the socket is for its directory to say."""
        directory = os.open(Path(path).parent, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
            self._socket.bind(f"/proc/self/fd/{directory}/{Path(path).name}")
            os.chmod(Path(path).name, 0o666, dir_fd=directory)
        finally:
            os.close(directory)
        os.register_at_fork(after_in_child=self._socket.close)
        given: queue.SimpleQueue[dict[str, Any]] = queue.SimpleQueue()
        _thread.start_new_thread(self._work, (given,))
        _thread.start_new_thread(self._listen, (self._socket, given))

    def _listen(self, orders: socket.socket, given: queue.SimpleQueue[dict[str, Any]]) -> None:
        while True:
            try:
                data, sender = orders.recvfrom(ORDER_MAX_BYTES)
                body = json.loads(data)
                if body["order"] != "stacks":
                    given.put(body)
                elif sender:
                    orders.sendto(stacks(), socket.MSG_DONTWAIT, sender)
            except OSError:
                if orders.fileno() < 0:
                    return
                time.sleep(PAUSE_S)  # who has asked is gone
            except Exception:  # noqa: BLE001 - the edge, as below
                complain("an order was not understood")

    def _work(self, given: queue.SimpleQueue[dict[str, Any]]) -> None:
        self._thread = threading.get_ident()
        while True:
            try:
                body = given.get()
                if body["order"] == "stop" and not self.stopping:
                    self.stop(float(body["within_s"]))
                elif body["order"] == "look" and not self.stopping:
                    self.probe()
                elif body["order"] == "executors" and not self.stopping:
                    self.count_executors()
            except OSError:
                return
            except Exception:  # noqa: BLE001 - the edge: an application must not notice; the shim goes on with SIGTERM
                complain("an order was not carried out")
                if self.stopping:
                    self._send("stopping", queries=0)  # none that could be waited for
            finally:
                if self.stopping:
                    self._stopped.set()

    # -- for the application's threads ------------------------------------------------------------------------------

    def start(self, start: Callable[[], Any]) -> Any:
        """Starts a query, unless the driver is being stopped: then the thread that wants to start it is
        ended."""
        with self._counting:
            self._starting += 1
        try:
            if self.stopping:
                sys.exit(0)
            return start()
        finally:
            with self._counting:
                self._starting -= 1

    def wait_stopped(self) -> None:
        """Waits before the application ends or stops its session, since other queries may still be on the way
        to their batch boundary."""
        if self.stopping and threading.get_ident() != self._thread:
            self._stopped.wait()

    # -- orders -----------------------------------------------------------------------------------------------------

    def active(self) -> list[Any]:
        """Returns the active queries of all sessions, each once."""
        return [query for query, _ in self._active()]

    def _active(self) -> list[tuple[Any, Any]]:
        """Returns the active queries, each once and with its session. A session that the application has stopped runs none,
        and can't be asked."""
        sessions = [session for session in list(self._sessions) if not is_stopped(session)]
        found = ((query, session) for session in sessions for query in session.streams.active)
        return list({str(query.runId): (query, session) for query, session in found}.values())

    def note_start(self, query: Any) -> None:
        """Notes a query that was started, so that its end is noticed where no listener tells it in time."""
        self.started[str(query.runId)] = query

    def note_end(self, run: str) -> None:
        """Notes that a listener has told the end of a query."""
        for known in (self.committed, self.started, self._newest, self._epochs):
            known.pop(run, None)

    def is_news(self, progress: Any) -> bool:
        """Returns whether a batch is newer than what was reported of its query, and notes it. A slow listener of the
        application's delays all others: a batch may have been reported by a probe before the listener hears of it."""
        run, began = str(progress.runId), str(getattr(progress, "timestamp", ""))
        if began and began <= self._newest.get(run, ""):
            return False
        self._newest[run] = began
        return True

    def probe(self) -> None:
        """Reports each query that waits for its trigger, or for which Spark runs something, with its newest batch.

        Before that it reports the queries whose end could not be sent, or that no listener has told of: they would be
        silent for ever, and cost the others their driver. Where Spark is asked in vain, that is said (``unknown``): it is
        no sign that a query hangs. A JVM that does not answer at all says nothing.
        """
        seen: dict[str, Any] = {}
        try:
            active = self._active()
        except Exception as error:  # noqa: BLE001 - as below, of all queries
            self._send_unknown(error)
            return
        self._send_ends({str(query.runId): query for query, _ in active})
        for query, session in active:
            try:
                self._probe_one(query, session, seen)
            except Exception as error:  # noqa: BLE001 - another Spark than we know, or a session that is being stopped
                self._send_unknown(error, query)
        self._seen = seen

    def _send_ends(self, active: dict[str, Any]) -> None:
        ids = {str(query.id) for query in active.values()}
        for query_id in list(self.unsaid):
            ended = self.unsaid.pop(query_id)
            if query_id not in ids:  # else it was started again
                self._send("terminated", **ended)
        for run, query in list(self.started.items()):
            with contextlib.suppress(
                Exception
            ):  # it is not known of this one; its listener tells it, as ever
                if run not in active and not query.isActive:
                    self.note_end(run)
                    if str(query.id) not in ids:
                        self.send_end(query)

    def _send_unknown(self, error: Exception, query: Any = None) -> None:
        """Reports that a query, or all, could not be asked, unless the JVM does not answer: that is silence."""
        complain("what Spark does for a query is not known")
        if is_unanswered(error):
            return
        names = {} if query is None else {"query": query.name or str(query.id), "id": str(query.id)}
        self._send("unknown", why=f"{type(error).__name__}: {error}"[:WHY_MAX_CHARS], **names)

    def _probe_one(self, query: Any, session: Any, seen: dict[str, Any]) -> None:
        run, status = str(query.runId), query.status
        names = {"query": query.name or str(query.id), "id": str(query.id)}
        self._send_newest(query)
        if not status["isTriggerActive"]:
            if status["message"] in WAITING:
                self._send("idle", **names)
            else:
                self._send_epoch(query, names)
            return
        tasks, seen[run] = self._at_work(run, session)
        if tasks or seen[run] != self._seen.get(run, seen[run]):
            self._send("working", **names)

    def _send_epoch(self, query: Any, names: dict[str, str]) -> None:
        """Reports the newest epoch of a continuous query, if it is newer than at the last probe. Spark tells no listener of
        those, and its one job runs for as long as the query does."""
        engine = query._jsq.streamingQuery()
        if "ContinuousExecution" not in str(engine.getClass().getName()):
            return
        newest, run = engine.commitLog().getLatestBatchId(), str(query.runId)
        epoch = None if newest.isEmpty() else int(newest.get())
        before, self._epochs[run] = self._epochs.get(run, epoch), epoch
        if epoch is not None and epoch != before:
            self._send("progress", batch_id=epoch, checkpoint=str(engine.resolvedCheckpointRoot()), **names)

    def _send_newest(self, query: Any) -> None:
        """Reports the newest batch, if no listener has told it yet."""
        with contextlib.suppress(Exception):  # of another form than we know: the listener tells it, as ever
            progress = query.lastProgress
            if isinstance(progress, dict):  # before Spark 4.0
                progress = sys.modules[LISTENER].StreamingQueryProgress.fromJson(progress)
            if progress is not None and self.is_news(progress):
                self.send_progress(progress)

    def count_executors(self) -> None:
        """Reports how many executors the SparkContext has. One that needs none now is reported as if it had one: with
        dynamic allocation an idle application gives up the last, and a local one has none but the driver. Nothing is said
        of a stopped one, or of Spark Connect's."""
        contexts = (getattr(session, "_sc", None) for session in list(self._sessions))
        context = next((one for one in contexts if getattr(one, "_jsc", None) is not None), None)
        if context is None:
            return
        of_jvm = context._jsc.sc()
        count = max(0, len(of_jvm.statusTracker().getExecutorInfos()) - 1)  # the driver is in it
        # asked of the JVM, and only here: a copy of the conf takes a call for each property
        if not count and of_jvm.isLocal():
            count = 1
        elif not count and of_jvm.conf().getBoolean("spark.dynamicAllocation.enabled", False):
            count = 0 if context.statusTracker().getActiveStageIds() else 1
        self._send("executors", count=count, id=context.applicationId)

    def _at_work(self, run: str, session: Any) -> tuple[int, Any]:
        """Returns how many tasks run for the query, and a value to compare with that of the next probe."""
        tracker = session.sparkContext.statusTracker()
        jobs = sorted(tracker.getJobIdsForGroup(run))
        active = sorted(set(jobs) & set(tracker.getActiveJobsIds()))
        stages = {stage for job in active for stage in (tracker.getJobInfo(job) or _NO_JOB).stageIds}
        infos = [tracker.getStageInfo(stage) for stage in sorted(stages & set(tracker.getActiveStageIds()))]
        counts = [
            (i.stageId, i.numActiveTasks, i.numCompletedTasks, i.numFailedTasks)
            for i in infos
            if i is not None
        ]
        return sum(count[1] for count in counts), (jobs[-1:], active, counts)

    def stop(self, within_s: float) -> None:
        """Returns when no query is active any more, each at its batch boundary as far as that is possible; the shim makes
        sure that this ends. ``stopped`` is reported only where it is proved of each."""
        self.stopping = True
        self._send("heard")  # before anything is asked of a JVM that may be busy
        before = dict(self.committed)
        queries = self.active()
        count = len(queries) + self._starting
        self._send("stopping", queries=count)
        if not count:
            return
        log(f"asked to stop within {within_s:g} s: {count} queries, each after the batch that it is in")
        closing: dict[str, Closing] = {}
        while queries or self._starting:
            for query in queries:
                run = str(query.runId)
                if run not in closing:
                    committed = partial(self._has_committed, run, before.get(run, 0))
                    closing[run] = Closing(query, committed, self._next_batch_s(query, within_s))
                    _thread.start_new_thread(closing[run].run, ())
            time.sleep(PAUSE_S)
            queries = self.active()
        failed = [each.query for each in closing.values() if each.query.exception() is not None]
        cut = [each.query for each in closing.values() if not each.is_at_boundary()]
        if failed:
            log(f"{len(failed)} queries failed while they were to stop")
        elif cut:
            log(
                f"{len(cut)} of {len(closing)} queries may have been cut in a batch, which the next start replays"
            )
        else:
            self._send("stopped")
            log("all queries have stopped at a batch boundary")

    def _next_batch_s(self, query: Any, within_s: float) -> float:
        """Returns for how long the next batch of a query is waited for, in a stop that has ``within_s``."""
        interval_s = self._intervals.get(str(query.id), 0.0)
        if not 0 < interval_s <= NEXT_BATCH_MAX_S:
            return 0.0
        try:
            newest_s = query.lastProgress["durationMs"]["triggerExecution"] / 1000
        except Exception:  # noqa: BLE001 - it has made none yet, or this is another Spark than we know
            return 0.0
        return interval_s if has_room(interval_s, newest_s, within_s) else 0.0

    def _has_committed(self, run: str, before: int) -> bool:
        return self.committed.get(run, 0) > before


def has_room(interval_s: float, newest_s: float, within_s: float) -> bool:
    """Returns whether a stop that has ``within_s`` has room for the next batch, which begins ``interval_s`` from now at the
    latest, where the newest one took ``newest_s``."""
    return interval_s + 2 * newest_s <= within_s * NEXT_BATCH_SHARE


class Closing:
    """Brings one query to its batch boundary, in a thread of its own.

    ``committed`` is set when the listener has seen a batch since the request. A query that is between two
    batches is given ``next_batch_s`` seconds to begin the next one.
    """

    def __init__(self, query: Any, committed: Callable[[], bool], next_batch_s: float = 0.0) -> None:
        self.query = query
        self._committed = committed
        self._next_batch_s = next_batch_s
        self._engine: Any = None
        self._was_between = False

    def run(self) -> None:
        """Returns when the query has ended, or certainly will; on trouble the shim goes on with a signal."""
        try:
            self._engine = engine_of(self.query)
        except Exception:  # noqa: BLE001 - another Spark than we know: the listener has to do
            complain("the engine of a query is not known")
        try:
            self._await_next_batch()
            while self.query.isActive and not self._step():
                time.sleep(PAUSE_S)
        except Exception:  # noqa: BLE001 - the edge: no error of ours reaches the application
            if self.query.isActive:
                complain("a query was not stopped")

    def is_at_boundary(self) -> bool:
        """Returns whether it is proved of the ended query that no batch of it was cut. Spark itself tells no difference: a
        batch that an interrupt has ended is no error of a query which was to stop. So the logs say it, unless the query was
        held between two batches."""
        if self._was_between:
            return True
        try:
            planned, committed = newest_batches(self.query)
        except Exception:  # noqa: BLE001 - another Spark than we know, or a store that does not answer: not proved
            complain("whether a query has cut a batch is not known")
            return False
        return planned == committed

    def _await_next_batch(self) -> None:
        """Returns when the query is in a batch, has committed one since the request, or has had its time. One whose sources
        had nothing at its last look is not waited for."""
        until_at_s = time.monotonic() + self._next_batch_s
        while self.query.isActive and time.monotonic() < until_at_s and not self._committed():
            status = self.query.status
            if status["isTriggerActive"] or not status["isDataAvailable"]:
                return
            time.sleep(PAUSE_S)

    def _step(self) -> bool:
        if self._engine is not None:
            return self._at_boundary()
        if not self._committed() and self.query.status["isTriggerActive"]:
            return False
        self.query.stop()
        return True

    def _at_boundary(self) -> bool:
        active = self._engine[2].get()
        found = self._held(lambda: self._probe(active))
        if found == "asleep":  # between two batches, and it begins no other: this only wakes it
            self._was_between = True
            self.query.stop()
        if found == "no data":
            return self._held(lambda: self._probe_again(active)) != "batch"
        return found is not None

    def _held(self, probe: Callable[[], str | None]) -> str | None:
        """Returns what ``probe`` finds while this thread holds the engine's lock, or None. It gives up after
        ``HOLD_S``, the wait for the lock included."""
        lock, until_at_s = self._engine[1], time.monotonic() + HOLD_S
        if not lock.tryLock(LOCK_WAIT_S, jvm().java.util.concurrent.TimeUnit.SECONDS):
            return None
        try:
            found = probe()
            while found == "" and time.monotonic() < until_at_s:
                time.sleep(HELD_PAUSE_S)
                found = probe()
            return found or None
        finally:
            lock.unlock()

    def _probe(self, active: Any) -> str | None:
        """Ends the query where that cuts no batch. Returns ``""`` if it cannot be ended yet, and None if it
        cannot be ended while this thread holds the lock."""
        _, _, state, ended = self._engine
        stack = self._stack()
        if in_sink(stack):  # without our lock it can't commit, and it reads the state only after that
            state.set(ended)
            return "sink"
        if not in_trigger(stack):
            state.set(ended)
            if not in_trigger(self._stack()):
                return "asleep"
            state.set(active)  # it went on between the probe and the order
            return ""
        if not waits_for_lock(stack):  # it is planning the batch, or has just committed one
            return ""
        if self.query.status["message"] != NO_DATA:
            return None
        state.set(ended)
        return "no data"

    def _probe_again(self, active: Any) -> str | None:
        """Probes once more a query that was about to ask its sources when it was to end, and whose sources
        had nothing before: they may have something now."""
        stack = self._stack()
        if in_sink(stack) or not in_trigger(stack) or not self.query.isActive:
            return "none"
        if not any(_IN_BATCH.search(method) for method in stack):
            return ""
        self._engine[2].set(active)  # at once: the batch would be given up before it goes to the sink
        return "batch"

    def _stack(self) -> list[str]:
        """Returns the methods that the engine's thread is in, the innermost first."""
        java = jvm().java
        holder, text = java.lang.Throwable(), java.io.StringWriter()
        holder.setStackTrace(self._engine[0].queryExecutionThread().getStackTrace())
        holder.printStackTrace(java.io.PrintWriter(text))
        return re.findall(r"^\tat (?:[^(\n]*/)?([^/(\n]+)\(", str(text.toString()), re.MULTILINE)


def stacks() -> bytes:
    """Returns where each thread of the interpreter is, the innermost call first, with the pid before it. No file is read:
    the names and lines are those that the interpreter has."""
    names = {ident: thread.name for ident, thread in list(getattr(threading, "_active", {}).items())}
    lines = [f"pid {os.getpid()}"]
    for ident, frame in list(sys._current_frames().items())[:THREADS_MAX]:
        if ident == threading.get_ident():
            continue
        lines += ["", f'"{names.get(ident, "unknown to threading")}" {ident:#x}']
        at: Any = frame
        for _ in range(FRAMES_MAX):
            if at is None:
                break
            lines.append(f"  at {at.f_code.co_name} ({at.f_code.co_filename}:{at.f_lineno})")
            at = at.f_back
    return "\n".join(lines).encode("utf-8", "replace")[:STACKS_MAX_BYTES]


class _NoJob:
    stageIds: tuple[int, ...] = ()


_NO_JOB = _NoJob()


def is_stopped(session: Any) -> bool:
    """Returns whether the application has stopped the session: PySpark's SparkContext has no JVM's any more."""
    context = getattr(session, "_sc", None)
    return context is not None and getattr(context, "_jsc", None) is None


def is_unanswered(error: Exception) -> bool:
    """Returns whether the JVM is not there, or does not answer."""
    return isinstance(error, OSError) or type(error).__name__ == "Py4JNetworkError"


def in_sink(stack: list[str]) -> bool:
    """Returns whether the batch is being handed to the sink. ``stack`` holds methods, the innermost first."""
    batch = next((n for n, method in enumerate(stack) if _IN_BATCH.search(method)), 0)
    return any(_IN_SINK in method for method in stack[:batch])


def in_trigger(stack: list[str]) -> bool:
    """Returns whether the thread is in the middle of a trigger. When it sleeps for want of data it is not."""
    if not any(_IN_TRIGGER.search(method) for method in stack):
        return False
    caller = next((method for method in stack if not method.startswith("java.lang.Thread.")), "")
    return not (stack[0].startswith("java.lang.Thread.sleep") and "MicroBatchExecution" in caller)


def waits_for_lock(stack: list[str]) -> bool:
    """Returns whether the thread is about to begin the next batch, or to commit this one."""
    outer = next((n for n, method in enumerate(stack) if _IN_TRIGGER.search(method)), 0)
    return any(".ReentrantLock" in method for method in stack[:outer])


def newest_batches(query: Any) -> tuple[int, int]:
    """Returns the newest batch that the query has planned, and that it has committed; -1 stands for none."""
    execution = query._jsq.streamingQuery()
    found = [log.getLatestBatchId() for log in (execution.offsetLog(), execution.commitLog())]
    planned, committed = (int(each.get()) if each.isDefined() else -1 for each in found)
    return planned, committed


def engine_of(query: Any) -> tuple[Any, Any, Any, Any] | None:
    """Returns the execution, its progress lock, its state, and the state's value for "stopped"; None if only
    the listener can be used.

    A lock belongs to a thread of the JVM, so each thread here must have one of its own there (PySpark's
    default).
    """
    gateway = query._jsq._gateway_client
    execution = query._jsq.streamingQuery()
    if type(gateway).__name__ != "JavaClient" or "MicroBatch" not in execution.getClass().getName():
        return None
    lock, state = execution.awaitProgressLock(), execution.state()
    now = state.get().getClass()
    ended = now.getClassLoader().loadClass(re.sub(r"\w+\$$", "TERMINATED$", now.getName()))
    return execution, lock, state, ended.getField("MODULE$").get(None)


def jvm() -> Any:
    # here: the bootstrap imports this module, and must not be the first to import pyspark
    from pyspark import SparkContext

    context: Any = SparkContext._active_spark_context
    return context._jvm


def log(what: str) -> None:
    """Writes a line into the driver's log."""
    try:
        sys.stderr.write(f"spark-supervisor: {what}\n")
        sys.stderr.flush()
    except (OSError, ValueError, AttributeError):
        pass


def complain(what: str) -> None:
    log(f"{what}: " + traceback.format_exc(limit=-1).strip().replace("\n", " | "))
