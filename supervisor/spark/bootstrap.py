"""Runs a PySpark application unchanged and reports to the shim how far it has come.

``spark-submit`` starts it in place of the application (``bootstrap.py APP ARGS…``), or Python itself does for
``launch: session`` (``bootstrap.py --session MODULE:FUNCTION APP ARGS…``). It imports nothing of the
supervisor and nothing outside the standard library but pyspark: it may run under another Python (3.9 and
later) than the supervisor's.

It never changes what the application sees (``__main__``, ``sys.argv``, ``sys.path[0]``, tracebacks, exit code), never
blocks it once it has begun and until it is to stop, and never lets an error of its own reach it: a report that cannot be
sent is dropped.

**The start barrier.** A driver that was started while its checkpoint was still being checked does not begin
the application before the verdict of the host's supervisor is there (``SPARK_SUPERVISOR_GATE``); if the
verdict is a refusal, it never begins.

**Prepared drivers.** A driver that is brought up before there is an attempt (``SPARK_SUPERVISOR_PREPARED``) waits for its
opening first (``barrier``): before the application's first line, or at its first query.
"""

from __future__ import annotations

import _thread
import contextlib
import functools
import importlib
import importlib.machinery
import importlib.util
import json
import os
import re
import socket
import sys
import time
import traceback
import types
import weakref
from collections.abc import Callable, Collection, Iterable, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import unquote

REPORT_MAX_BYTES = 8192
MESSAGE_MAX_CHARS = 1024
CAUSE_MAX_CHARS = 300
KIND_MAX_CHARS = 120
SINK_MAX_CHARS = 512
SESSION_POLL_S = 1.0
BARRIER_POLL_S = 0.02
NOT_BEGUN = 78  # EX_CONFIG; the shim knows why from the verdict
LAST_TRIES = 20
LAST_PAUSE_S = 0.025
WITHOUT_EVERY_S = 5.0
UNSUPPORTED = "UnsupportedSession"
SHUTDOWN_POLL_S = 0.05
UNNAMED_WAIT_S = 60.0
CHECKPOINT_ROOT = "spark.sql.streaming.checkpointLocation"
# Spark's class of a trigger → what it is called here, and the method that has its milliseconds
TRIGGERS = {
    "ProcessingTimeTrigger": ("processing", "intervalMs"),
    "ContinuousTrigger": ("continuous", "intervalMs"),
    "RealTimeTrigger": ("real_time", "batchDurationMs"),
    "AvailableNowTrigger": ("available_now", ""),
    "OneTimeTrigger": ("once", ""),
}
HAS_NAME, HAS_PLACE = "_spark_supervisor_has_name", "_spark_supervisor_has_place"

# Searched for in the whole text of an error, since the part that is sent may end before the cause is named.
PYTHON_ERROR = re.compile(r"Traceback \(most recent call last\):\n(?:[ \t].*\n|\n)*(\S.*)")
JAVA_ERROR = re.compile(r"(?:py4j\.protocol\.Py4JJavaError: )?An error occurred while calling \S+\n: (.+)")
ROOT_CAUSE = re.compile(r"^Caused by: (?!py4j\.)(.+)$", re.MULTILINE)
WORKER_DIED = re.compile(
    r"(?:[\w.]+: )?Python worker exited unexpectedly[^\n]*(?:\nFatal Python error[^\n]*)?"
)
STAGE_ERROR = re.compile(r"Lost task \S+ in stage \S+ \(TID \d+\) \([^)\n]*\): (?=\S)(.+)")
TELLING = (
    "OutOfMemoryError",
    "CONCURRENT_STREAM_LOG_UPDATE",
    "Multiple streaming jobs detected",
    "Multiple streaming queries are concurrently using",
)


class Reports:
    """Sends datagrams to the shim, one JSON object each. Sending never blocks and never raises.

    ``words`` are the events that are sent while the driver is being prepared; None: all are.
    """

    def __init__(self, path: str | None) -> None:
        self.words: tuple[str, ...] | None = None
        self.refused = ""  # why the newest session was not made
        self._socket: socket.socket | None = None
        if not path:
            return
        try:
            # Through /proc, because a socket address holds 108 bytes only; the directory stays open for that.
            directory = os.open(Path(path).parent, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
            self._path = f"/proc/self/fd/{directory}/{Path(path).name}"
            self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK)
        except OSError:
            complain("nothing will be reported")

    def send(self, event: str, **more: Any) -> bool:
        """Sends one event; ``more`` holds JSON values. Returns False if the shim has not read the earlier
        ones yet (the socket keeps ten)."""
        if self._socket is None or (self.words is not None and event not in self.words):
            return True
        try:
            text = json.dumps({"event": event, **more}, default=str, allow_nan=False, ensure_ascii=False)
            data = text.encode(errors="replace")  # halves of surrogate pairs: bytes that were no UTF-8
            if len(data) <= REPORT_MAX_BYTES:
                self._socket.sendto(data, self._path)
        except BlockingIOError:  # a later report says it again
            return False
        except (OSError, ValueError):
            pass
        return True

    def send_last(self, event: str, **more: Any) -> None:
        """Sends what no later report says again, trying up to 20 times. The application is over or waits for
        its stop, so a short wait does no harm."""
        for _ in range(LAST_TRIES):
            if self.send(event, **more):
                return
            time.sleep(LAST_PAUSE_S)

    def send_outcome(self, event: str, message: str = "it ended without a query", **more: Any) -> None:
        """Sends how the application has ended. Before its barrier was open that means that it can't be prepared. A session
        that was refused, and after which none was made, is the cause of whatever the application did then."""
        if self.refused:
            event, message, more = "error", self.refused, {"kind": UNSUPPORTED}
        if self.words is not None:
            self.send_last("unready", why=message)
        else:
            self.send_last(event, **({"message": message, **more} if more else {}))


class WithoutExecutor:
    """Reports every few seconds that there is no executor, while the SparkContext waits for its cluster (YARN). Its thread
    is unknown to ``threading``: an application may join all threads that it finds."""

    def __init__(self, reports: Reports) -> None:
        self._reports = reports
        self._lasts = _thread.allocate_lock()

    def __enter__(self) -> None:
        self._lasts.acquire()
        try:
            _thread.start_new_thread(self._report, ())
        except RuntimeError:  # the kernel allows this driver no more threads
            complain("nobody says that there is no executor")

    def __exit__(self, *_: object) -> None:
        self._lasts.release()

    def _report(self) -> None:
        while not self._lasts.acquire(timeout=WITHOUT_EVERY_S):
            self._reports.send("executors", count=0)


class Loader:
    """Stands in for a module's loader: it runs the loader as ever, then passes the finished module to
    ``after``."""

    def __init__(self, loader: Any, after: Callable[[Any], None]) -> None:
        self._loader = loader
        self._after = after

    def __getattr__(self, name: str) -> Any:
        return getattr(self._loader, name)

    def create_module(self, spec: Any) -> Any:
        return self._loader.create_module(spec) if hasattr(self._loader, "create_module") else None

    def exec_module(self, module: types.ModuleType) -> None:
        try:
            if hasattr(self._loader, "exec_module"):
                self._loader.exec_module(module)
            else:  # a zip file, before Python 3.10
                exec(self._loader.get_code(module.__name__), module.__dict__)
        except ImportError as error:
            if module.__name__ not in (spark_session().PACKAGE, spark_session().SESSION_MODULE):
                raise
            raise spark_session().UnsupportedImport(error) from error
        try:
            self._after(module)
        except Exception:  # noqa: BLE001 - an unknown pyspark runs unwatched rather than not at all
            complain(f"{module.__name__} is not watched")


class Watch:
    """Puts a streaming listener into every session that the application uses for queries.

    It is an import hook (``sys.meta_path``), so that pyspark is imported when the application does it, and
    not before. If ``announce`` is set, each new session is reported. ``barrier`` is that of a prepared driver whose
    application runs up to its first query; while ``asleep`` is set, nothing is noticed.
    """

    def __init__(self, reports: Reports, announce: bool = True, barrier: Any = None) -> None:
        self.reports = reports
        self.announce = announce
        self.barrier = barrier
        self.asleep = False
        self.sessions: weakref.WeakSet[Any] = weakref.WeakSet()
        self.orders: Any = None
        self.places: dict[str, str] = {}  # query id → location of its checkpoint, as Spark resolved it
        self.intervals: dict[
            str, float
        ] = {}  # query id → seconds between the begins of its batches, as it asked for
        self.unnamed: set[str] = set()  # ids of queries whose directory has a random name
        self.sinks: dict[str, tuple[str, str]] = {}  # query id → class of its sink, and what Spark calls that
        self.spark_ui = ""  # the address of Spark's UI, if it has one
        self.master = ""  # as the session has it, whoever has set it
        self._waiting: dict[str, Callable[[Any], None]] = {
            "pyspark.sql.session": lambda module: self._wrap_session(module.SparkSession),
            "pyspark.sql.streaming.readwriter": lambda module: self._wrap_writer(module.DataStreamWriter),
            "pyspark.accumulators": hasten_shutdown,
            spark_session().PACKAGE: lambda _: None,  # for what its import needs, see Loader
            spark_session().SESSION_MODULE: lambda module: self._refuse_making(module.SparkSession),
            spark_session().CLIENT_MODULE: lambda module: self._refuse_making(module.SparkConnectClient),
        }

    def find_spec(self, name: str, _path: Any = None, _target: Any = None) -> Any:
        after = self._waiting.pop(name, None)
        if after is None:
            return None
        # asks the other finders: this one has nothing more to say about the name
        spec = importlib.util.find_spec(name)
        if spec is not None and spec.loader is not None:
            spec.loader = Loader(spec.loader, after)  # type: ignore[assignment]
        return spec

    def _wrap_session(self, session_class: Any) -> None:
        self._wrap_builder(session_class.Builder)
        stop = session_class.stop

        @functools.wraps(stop)
        def stop_session(session: Any) -> Any:
            self.wait_stopped()
            return stop(session)

        session_class.stop = stop_session

    def _refuse_making(self, remote: Any) -> None:
        """Has the class of a Spark Connect session, or of its client, refuse to be made. One that is only looked at works:
        libraries ask whether a session is of it."""

        def refuse(*_args: Any, **_kwargs: Any) -> None:
            self.refuse(f"{remote.__module__}.{remote.__name__} asks for {spark_session().OUTSIDE}")

        remote.__init__ = refuse

    def refuse(self, what: str) -> None:
        """Raises in the application that it can't have this session, because of ``what``."""
        error = spark_session().UnsupportedSession(what)
        self.reports.refused = f"{type(error).__name__}: {error}"
        raise error

    def _require_classic(self, builder: Any) -> None:
        """Refuses what the builder of a session would make if that is not a session in this driver's own JVM."""
        options = getattr(builder, "_options", {})
        what = spark_session().why_unsupported(os.environ, options, "the builder's")
        if not what and options.get("spark.api.mode") != "classic":
            what = spark_session().why_unsupported_by_default(sys.modules.get("pyspark.util"))
        if what:
            self.refuse(what)

    def _wrap_validation(self, builder: Any) -> None:
        """Has our refusal come before that of pyspark, which refuses a remote beside the master of ``spark-submit`` (in its
        variable MASTER) as soon as the builder is given it: its words do not say that a job can't have such a session."""
        validate = getattr(builder, "_validate_startup_urls", None)
        if validate is None:
            return

        @functools.wraps(validate)
        def validate_urls(builder: Any) -> None:
            try:
                validate(builder)
            except Exception:
                self._require_classic(builder)
                raise

        builder._validate_startup_urls = validate_urls

    def _wrap_builder(self, builder: Any) -> None:
        self._wrap_validation(builder)
        create_new = getattr(builder, "create", None)
        create = builder.getOrCreate

        if create_new is not None:

            @functools.wraps(create_new)
            def create_session(builder: Any) -> Any:
                self._require_classic(builder)
                session = create_new(builder)
                self.seen(session)
                return session

            builder.create = create_session

        @functools.wraps(create)
        def get_or_create(builder: Any) -> Any:
            self._require_classic(builder)
            if self.asleep or self.sessions or not os.environ.get("SPARK_SUPERVISOR_AWAITS_CONTEXT"):
                session = create(builder)
            else:
                with WithoutExecutor(self.reports):
                    session = create(builder)
            self.seen(session)
            return session

        builder.getOrCreate = get_or_create

    def _wrap_writer(self, writer: Any) -> None:
        """Wraps the writer of streams, because a query may be started in a session of ``newSession()``, which
        has listeners of its own."""
        for name in ("start", "toTable"):
            setattr(writer, name, self._watched(getattr(writer, name)))
        for name in ("option", "options", "queryName"):
            setattr(writer, name, marked(getattr(writer, name)))

    def _watched(self, start: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(start)
        def watched(writer: Any, *args: Any, **kwargs: Any) -> Any:
            if self.asleep:
                return start(writer, *args, **kwargs)
            self.seen(getattr(writer, "_spark", None))
            self.pass_barrier()
            unnamed = begins_anew(writer, args, kwargs)
            if unnamed and os.environ.get("SPARK_SUPERVISOR_UNNAMED"):
                self.refuse_unnamed()
            if self.orders is None:
                query = start(writer, *args, **kwargs)
            else:
                query = self.orders.start(lambda: start(writer, *args, **kwargs))
            self.note_place(query)
            if unnamed:
                self.unnamed.add(str(query.id))
            self.note_trigger(query)
            self.note_start(query)
            self.note_sink(query)
            return query

        return watched

    def refuse_unnamed(self) -> None:
        """Does not let a query begin that would begin from nothing where one like it was. The shim ends its driver."""
        self.reports.send_last("unnamed")
        time.sleep(UNNAMED_WAIT_S)
        raise RuntimeError(
            "a query without queryName and checkpointLocation begins from nothing at each start: give it a queryName"
        )

    def pass_barrier(self) -> None:
        """Waits at the barrier, if the application has come to its first query before that was opened."""
        if self.barrier is None or self.barrier.is_open:
            return
        self.barrier.wait(lambda: list(self.sessions), self._begin)

    def _begin(self) -> None:
        await_verdict(self.reports, os._exit)
        self.reports.send("begun")
        if self.announce:
            self.announce_session()

    def announce_session(self) -> None:
        """Reports that there is a session."""
        known = {"spark_ui": self.spark_ui, "master": self.master}
        self.reports.send("session", **{name: value for name, value in known.items() if value})

    def note_start(self, query: Any) -> None:
        """Notes that the query runs, for the probes."""
        try:
            if self.orders is not None:
                self.orders.note_start(query)
        except Exception:  # noqa: BLE001 - the listener tells of it, as ever
            pass

    def note_trigger(self, query: Any) -> None:
        """Notes and reports what begins the query's batches. Its progress reports carry the interval of one by time."""
        try:
            trigger = query._jsq.streamingQuery().trigger()
            kind, duration = TRIGGERS.get(str(trigger.getClass().getSimpleName()).rstrip("$"), ("", ""))
            interval_ms = int(getattr(trigger, duration)()) if duration else 0
            key = str(query.id)
            self.intervals.pop(key, None)
            if kind == "processing" and interval_ms > 0:
                self.intervals[key] = interval_ms / 1000
            if kind:
                interval = {"interval_s": interval_ms / 1000} if interval_ms > 0 else {}
                self.reports.send("trigger", query=query.name or key, id=key, kind=kind, **interval)
        except Exception:  # noqa: BLE001 - as with its place: nothing is said of it
            pass

    def note_sink(self, query: Any) -> None:
        """Notes which class writes what the query gives: it says what its sink remembers. Progress reports carry it."""
        try:
            sink = query._jsq.streamingQuery().sink()
            self.sinks[str(query.id)] = (
                str(sink.getClass().getName()),
                str(sink.toString())[:SINK_MAX_CHARS],
            )
        except Exception:  # noqa: BLE001 - as with its place: nothing is said of it
            pass

    def note_place(self, query: Any) -> None:
        """Notes where the query keeps its checkpoint, which may be elsewhere than where the job says. Its
        progress reports carry that."""
        try:
            self.places[str(query.id)] = str(query._jsq.streamingQuery().resolvedCheckpointRoot())
        except Exception:  # noqa: BLE001 - another Spark than we know (Connect has no engine here): nothing is said of it
            pass

    def seen(self, session: Any) -> None:
        """Takes note of a session of the application; the same one may come many times."""
        try:
            if session is None or self.asleep or session in self.sessions:
                return
            self.sessions.add(session)
            self._take_orders()
            session.streams.addListener(
                listener(self.reports, self.orders, self.places, self.intervals, self.unnamed, self.sinks)
            )
        except Exception:  # noqa: BLE001 - the application's session works; it is only not watched
            complain("a session is not watched")
        self.reports.refused = ""
        self.spark_ui = ui_of(session) or self.spark_ui
        self.master = master_of(session) or self.master
        if self.announce:
            self.announce_session()

    def _take_orders(self) -> None:
        """Begins to take orders, from the first session on; an application without one is stopped by a
        signal."""
        path = os.environ.get("SPARK_SUPERVISOR_REPORT")
        if self.orders is not None or not path:
            return
        try:
            orders = beside("orders").Orders(self.reports.send_last, self.sessions, self.intervals)
            orders.send_progress = lambda progress: report_progress(
                self.reports, progress, self.places, self.intervals, self.unnamed, self.sinks
            )
            orders.send_end = lambda query: report_end(self.reports, orders, end_of(query))
            # a driver of another user than the supervisor's makes its socket elsewhere
            orders.listen(os.environ.get("SPARK_SUPERVISOR_ORDERS") or str(Path(path).with_name("orders")))
            self.orders = orders
        except Exception:  # noqa: BLE001 - it works; it is only not to be asked
            complain("no orders are taken")

    def wait_stopped(self) -> None:
        """Waits, while the driver is being stopped, until no query is in a batch any more."""
        if self.orders is not None:
            self.orders.wait_stopped()


def marked(method: Callable[..., Any]) -> Callable[..., Any]:
    """Wraps a method of the writer of streams, to note on the writer whether the query gets a name, and a place of its
    own."""

    @functools.wraps(method)
    def wrapped(writer: Any, *args: Any, **kwargs: Any) -> Any:
        if method.__name__ == "queryName":
            setattr(writer, HAS_NAME, True)
        elif is_placed([*args[:1], *kwargs.values(), *kwargs]):
            setattr(writer, HAS_PLACE, True)
        return method(writer, *args, **kwargs)

    return wrapped


def is_placed(words: Iterable[Any]) -> bool:
    """Returns whether one of the words is the option that gives a query a place of its own."""
    return any(isinstance(word, str) and word.lower() == "checkpointlocation" for word in words)


def begins_anew(writer: Any, args: Sequence[Any], options: dict[str, Any]) -> bool:
    """Returns whether the query gets a directory of a random name in the job's checkpoint, which no start finds again.

    Spark's StreamingQueryManager does that with a root for checkpoints in the session, and neither a name nor a place.
    ``args`` and ``options`` are those of ``start`` or ``toTable``. Their fifth argument is the name.
    """
    try:
        if options.get("queryName") or args[4:5] not in ((), (None,)) or is_placed(options):
            return False
        if getattr(writer, HAS_NAME, False) or getattr(writer, HAS_PLACE, False):
            return False
        root = writer._spark.conf.get(CHECKPOINT_ROOT, None)
        return bool(root) and is_within(str(root), os.environ.get("SPARK_SUPERVISOR_CHECKPOINT", ""))
    except Exception:  # noqa: BLE001 - another Spark than we know
        return False


def is_within(place: str, location: str) -> bool:
    """Returns whether ``place`` is ``location``, or inside of it, as far as their texts tell."""

    def parts(text: str) -> list[str]:
        scheme, _, rest = text.replace("s3a:", "s3:", 1).rpartition(":/")
        return [scheme.replace("file", ""), *(part for part in rest.split("/") if part not in ("", "."))]

    inner, outer = parts(place), parts(location)
    return bool(location) and inner[: len(outer)] == outer


def hasten_shutdown(accumulators: Any) -> None:
    """Has the server for accumulators look every 50 ms whether it is to end, in place of every 500 ms (``socketserver``): a
    SparkContext that stops waits for that (docs/spark.md S39)."""
    for name in ("AccumulatorServer", "AccumulatorTCPServer", "AccumulatorUnixServer"):
        server = getattr(accumulators, name, None)
        if server is not None:
            server.serve_forever = functools.partialmethod(server.serve_forever, SHUTDOWN_POLL_S)


@functools.cache
def spark_session() -> types.ModuleType:
    """Returns the module that says which sessions a job may have."""
    return beside("spark_session", Path(__file__).parent.with_name("model"))


def beside(name: str, directory: Path = Path(__file__).parent) -> types.ModuleType:
    """Returns the module of that name in this file's directory, or in another one of the supervisor, which are hidden from
    the application's imports."""
    spec = importlib.util.spec_from_file_location(f"spark_supervisor_{name}", directory / f"{name}.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[module.__name__] = module
    spec.loader.exec_module(module)
    return module


def ui_of(session: Any) -> str:
    """Returns the address of Spark's UI, or an empty text if it has none."""
    try:
        return str(session.sparkContext.uiWebUrl or "")
    except Exception:  # noqa: BLE001 - with Connect there is no context here
        return ""


def master_of(session: Any) -> str:
    """Returns the master of the session, or an empty text if it has none here."""
    try:
        return str(session.sparkContext.master or "")
    except Exception:  # noqa: BLE001 - as above
        return ""


def listener(
    reports: Reports,
    orders: Any = None,
    places: dict[str, str] | None = None,
    intervals: dict[str, float] | None = None,
    unnamed: Collection[str] = (),
    sinks: dict[str, tuple[str, str]] | None = None,
) -> Any:
    """Returns a StreamingQueryListener that reports. Its methods run on a thread of py4j and return at once.

    ``places`` maps a query id to the location of its checkpoint, ``intervals`` to its trigger's seconds, ``sinks`` to the
    class of its sink and what Spark calls that. ``unnamed`` has the ids of those whose directory has a random name. They
    are filled while the application runs.
    """
    # here: ``Watch`` waits for the application to import pyspark, so the bootstrap must not be the first
    from pyspark.sql.streaming.listener import StreamingQueryListener

    names: dict[str, str] = {}  # query id → its name: idle and terminated events carry the id only

    def name_of(event: Any) -> str:
        return names.get(str(event.id), str(event.id))

    class ReportingListener(StreamingQueryListener):
        def onQueryStarted(self, event: Any) -> None:
            if event.name:
                names[str(event.id)] = event.name
            reports.send("query", query=name_of(event), id=str(event.id))

        def onQueryProgress(self, event: Any) -> None:
            if orders is not None:
                run = str(event.progress.runId)
                orders.committed[run] = orders.committed.get(run, 0) + 1
            if orders is None or orders.is_news(event.progress):
                report_progress(reports, event.progress, places or {}, intervals or {}, unnamed, sinks or {})

        def onQueryIdle(self, event: Any) -> None:
            reports.send("idle", query=name_of(event), id=str(event.id))

        def onQueryTerminated(self, event: Any) -> None:
            if orders is not None:
                orders.note_end(str(event.runId))
            report_end(
                reports,
                orders,
                end_fields(name_of(event), str(event.id), event.exception, event.errorClassOnException),
            )

    return ReportingListener()


def report_progress(
    reports: Reports,
    progress: Any,
    places: dict[str, str],
    intervals: dict[str, float],
    unnamed: Collection[str],
    sinks: dict[str, tuple[str, str]],
) -> None:
    """Reports a batch; the rest is as above."""
    try:
        key = str(progress.id)
        known = {
            "checkpoint": places.get(key),
            "trigger_interval_s": intervals.get(key),
            "unnamed": key in unnamed,
            "sink": sinks.get(key),
        }
        more = {name: value for name, value in known.items() if value}
        reports.send("progress", **progress_of(progress), **more)
    except Exception:  # noqa: BLE001 - a progress of unknown form still shows that the query lives
        complain("a progress event was not understood")
        reports.send("idle", id=str(progress.id))


def end_fields(name: str, query_id: str, error: str | None, error_class: str | None) -> dict[str, Any]:
    """Returns the fields of a ``terminated`` report; ``error`` is None for a query that was stopped."""
    fields = {"query": name, "id": query_id, "error": None}
    if error is not None:
        fields.update(error=telling(error), kind=kind_of(error, error_class or ""))
    return fields


def end_of(query: Any) -> dict[str, Any]:
    """Returns the same for a query that has ended without a listener's word."""
    error, error_class = query.exception(), None
    with contextlib.suppress(Exception):  # the class is only a shorter name of it
        error_class = error.getCondition() if error is not None else None
    return end_fields(
        query.name or str(query.id), str(query.id), None if error is None else str(error), error_class
    )


def report_end(reports: Reports, orders: Any, ended: dict[str, Any]) -> None:
    """Reports the end of a query. No later event repeats it, so what the shim has no room for now is reported
    at its next probe."""
    if not reports.send("terminated", **ended) and orders is not None:
        orders.unsaid[ended["id"]] = ended


def progress_of(progress: Any) -> dict[str, Any]:
    """Returns the fields of a ``progress`` report for a StreamingQueryProgress."""
    return {
        "query": progress.name or str(progress.id),
        "id": str(progress.id),
        "batch_id": progress.batchId,
        "input_rows_per_s": finite(progress.inputRowsPerSecond),
        "processed_rows_per_s": finite(progress.processedRowsPerSecond),
        "batch_ms": progress.durationMs.get("triggerExecution"),
        "lag": lag_of(progress.sources),
        "rows": getattr(progress, "numInputRows", None),
        "state_rows": state_rows_of(getattr(progress, "stateOperators", ())),
        "state_bytes": state_bytes_of(getattr(progress, "stateOperators", ())),
    }


def state_rows_of(operators: Iterable[Any]) -> int | None:
    """Returns how many rows the state of a query has, or None if it keeps none."""
    rows = [operator.numRowsTotal for operator in operators or ()]
    return sum(rows) if rows else None


def state_bytes_of(operators: Iterable[Any]) -> int | None:
    """Returns the memory that the state of a query takes, in bytes, or None if it keeps none."""
    sizes = [getattr(operator, "memoryUsedBytes", 0) for operator in operators or ()]
    return sum(sizes) if sizes else None


def finite(number: float | None) -> float | None:
    """Returns a finite number or None: Spark gives NaN and infinity for a batch without duration, and JSON
    has neither."""
    return number if number is not None and number - number == 0 else None


def lag_of(sources: Iterable[Any]) -> int | None:
    """Returns how many records the sources have that the query has not read (Kafka: offsets per topic and
    partition), or None."""
    lags = []
    for source in sources or ():
        latest, end = parsed(source.latestOffset), parsed(source.endOffset)
        if not isinstance(latest, dict) or not isinstance(end, dict):
            continue
        for topic, partitions in latest.items():
            read = end.get(topic)
            if isinstance(partitions, dict) and isinstance(read, dict):
                lags += [max(0, offset - read.get(partition, 0)) for partition, offset in partitions.items()]
    return sum(lags) if lags else None


def parsed(text: Any) -> Any:
    try:
        return json.loads(text) if isinstance(text, str) else text
    except ValueError:
        return None


def complain(what: str) -> None:
    """Writes an error of the bootstrap itself into the driver's log; the application goes on."""
    error = traceback.format_exc(limit=-1).strip().replace("\n", " | ")
    sys.stderr.write(f"spark-supervisor: {what}: {error}\n")


def kind_of(text: str, error_class: str) -> str:
    """Returns a short name for an error: a telling word from anywhere in its text, else Spark's error class."""
    return next((verdict for verdict in TELLING if verdict in text), error_class)[:KIND_MAX_CHARS]


def telling(text: str) -> str:
    """Returns ``text`` cut to size, with the original cause first: Java wraps errors of Python, py4j those of
    Java, and each other, as when Java fails in what a function of ``foreachBatch`` has called. Of a Python worker that died
    Java only knows that it sent nothing more (EOFException)."""
    python = innermost_traceback(text)
    begin = python.start(1) if python else 0
    java = JAVA_ERROR.match(text, begin)
    died, of_task = WORKER_DIED.search(text, begin), STAGE_ERROR.search(text, begin)
    if died:
        core = [died[0]]
    elif python and not java:
        core = [python[1]]
    elif of_task and not ROOT_CAUSE.search(text, begin):
        core = [of_task[1]]
    else:
        core = [*ROOT_CAUSE.findall(text, begin)[-1:], *([java[1]] if java else [])]
    return " | ".join((*core, text))[:MESSAGE_MAX_CHARS]


def innermost_traceback(text: str) -> Any:
    """Returns the match of the first traceback of Python in ``text``, or of the one that its error quotes: the driver's
    error of a UDF ends with the traceback of the worker."""
    found = PYTHON_ERROR.search(text)
    quoted = found
    while quoted:
        found, quoted = quoted, PYTHON_ERROR.match(text, quoted.end() + 1)
    return found


def report_error(reports: Reports, error: BaseException) -> None:
    """Reports an exception that the application did not catch."""
    name = type(error).__name__
    try:
        text = str(error)
        condition = getattr(error, "getCondition", None) or getattr(error, "getErrorClass", None)
        kind = kind_of(text, (condition() if condition else None) or name)
    except Exception:  # noqa: BLE001 - the text of a Java error is asked of a JVM that may be gone
        text, kind = "", name
    if isinstance(error, MemoryError):
        kind = "OutOfMemoryError"
    of = caused_by(error)
    message = f"{name}: {telling(text)}"[: MESSAGE_MAX_CHARS - len(of)]
    reports.send_outcome("error", f"{message}{of}", kind=kind)


def caused_by(error: BaseException) -> str:
    """Returns the exception at the other end of the chain that Python shows, as words to append; empty if there is none."""
    root, seen = error, {id(error)}
    while True:
        before = root.__cause__ or (None if root.__suppress_context__ else root.__context__)
        if before is None or id(before) in seen:
            break
        root = before
        seen.add(id(root))
    if root is error:
        return ""
    try:
        text = f"{type(root).__name__}: {telling(str(root))}"
    except Exception:  # noqa: BLE001 - as above
        text = type(root).__name__
    return f" (caused by {text[:CAUSE_MAX_CHARS]})"


def without_us(error: BaseException) -> types.TracebackType | None:
    """Returns the error's traceback from the application's first frame on."""
    trace = error.__traceback__
    while trace is not None and trace.tb_frame.f_code.co_filename == __file__:
        trace = trace.tb_next
    return trace


def await_verdict(reports: Reports, leave: Callable[[int], Any] = sys.exit) -> None:
    """Waits for the verdict of the host's supervisor, if this driver has to, and leaves if it is a refusal.

    There is no time-out here: a query that starts without its checkpoint starts from nothing. A supervisor
    that died examines the checkpoint again when it is back, and the shim ends what has not begun in time.
    """
    path, reported = os.environ.get("SPARK_SUPERVISOR_GATE"), False
    while path:
        try:
            verdict = json.loads(Path(path).read_bytes())
            if verdict["cause"] == "":
                return
            sys.stderr.write(f"spark-supervisor: the application does not begin: {verdict['why']}\n")
            sys.stderr.flush()
            leave(NOT_BEGUN)
        except (OSError, ValueError, KeyError, TypeError):  # nothing is decided yet
            reported = reported or reports.send("waiting")
            time.sleep(BARRIER_POLL_S)


def guarded(reports: Reports, call: Callable[[], None]) -> None:
    """Runs the application's code, and ends as Python would have ended, after reporting how."""
    try:
        call()
    except KeyboardInterrupt:
        raise
    except SystemExit as leaving:
        if leaving.code in (None, 0):
            reports.send_outcome("ended")
        else:
            reports.send_outcome("error", f"exit {leaving.code}"[:MESSAGE_MAX_CHARS], kind="SystemExit")
        raise
    except BaseException as error:  # noqa: BLE001 - what Python itself does with an exception that nobody caught
        report_error(reports, error)
        trace = without_us(error)
        sys.excepthook(type(error), error.with_traceback(trace), trace)
        sys.exit(1)
    reports.send_outcome("ended")


def run_application(reports: Reports, watch: Watch, path: str) -> None:
    """Runs the file ``path`` as ``__main__``, as ``python path args…`` does."""
    try:
        source = Path(path).read_bytes()
    except OSError as error:
        sys.stderr.write(
            f"{sys.executable}: can't open file {path!r}: [Errno {error.errno}] {error.strerror}\n"
        )
        sys.exit(2)
    main = types.ModuleType("__main__")
    loader = importlib.machinery.SourceFileLoader("__main__", path)
    main.__dict__.update(
        __file__=path, __builtins__=__builtins__, __cached__=None, __package__=None, __loader__=loader
    )
    sys.modules["spark_supervisor_bootstrap"] = sys.modules["__main__"]
    # for good: pickling and late threads look the application's names up there
    sys.modules["__main__"] = main

    def execute() -> None:
        code = compile(source, path, "exec", dont_inherit=True)
        await_verdict(reports)
        reports.send("begun")
        try:
            exec(code, main.__dict__)
        finally:
            end_session(watch)

    guarded(reports, execute)


def run_session(reports: Reports, watch: Watch, entry: str) -> None:
    """Builds a session, passes it to ``module:function``, and waits for the queries that the function left
    running.

    The configuration comes from PYSPARK_SUBMIT_ARGS, as it does for any Python process that starts Spark by
    itself.
    """
    module, _, function = entry.partition(":")
    watch.announce = False

    def execute() -> None:
        from pyspark.sql import SparkSession  # here: it is to be imported with ``watch`` in place

        spark = SparkSession.builder.getOrCreate()
        await_verdict(reports)
        watch.announce = True
        reports.send("begun")
        watch.announce_session()
        call = functools.reduce(getattr, function.split("."), importlib.import_module(module))
        try:
            call(spark)  # type: ignore[operator]
        except BaseException:
            end_session(watch)
            raise
        await_queries([spark, *(session for session in watch.sessions if session is not spark)])
        spark.stop()  # waits, while the driver is being stopped

    guarded(reports, execute)


def end_session(watch: Watch) -> None:
    """Ends a driver that was asked to stop, in order: no batch is cut, and the session is stopped before
    Python ends."""
    if watch.orders is None or not watch.orders.stopping:
        return
    try:
        for session in list(watch.sessions)[:1]:
            session.stop()
    except Exception:  # noqa: BLE001 - the JVM may be gone already
        complain("the session was not stopped")


def await_queries(sessions: Sequence[Any]) -> None:
    """Returns when no query is active any more, and raises what stopped one, also one that ended before the
    call."""
    while True:
        active = [query for session in sessions for query in session.streams.active]
        for session in sessions:
            # Never reset: Spark remembers a failure until then, so that none slips by between two probes.
            session.streams.awaitAnyTermination(0.001)
        if not active:
            return
        active[0].awaitTermination(SESSION_POLL_S)


def pretend(path: str, args: Sequence[str]) -> None:
    """Sets ``sys.argv`` and ``sys.path`` to what the application would find without the bootstrap."""
    sys.argv[:] = [path, *args]
    sys.path[0] = str(Path(path).resolve().parent)


def main(argv: Sequence[str]) -> None:
    """Runs ``[--quoted] [--session MODULE:FUNCTION] APP ARGS…``. After ``--quoted`` everything is
    percent-encoded, because spark-submit's scripts drop carriage returns, and the JVM drops what its locale
    lacks."""
    if argv[0] == "--quoted":
        argv = [unquote(arg) for arg in argv[1:]]
    reports = Reports(os.environ.get("SPARK_SUPERVISOR_REPORT"))
    entry = argv[1] if argv[0] == "--session" else ""
    path, *args = argv[2:] if entry else argv
    pretend(path, args)
    require_classic(reports)
    watch = Watch(reports)
    sys.meta_path.insert(0, watch)
    try:
        beside("compiled_pyspark").use_compiled_pyspark()
    except Exception:  # noqa: BLE001 - it is imported from the archive, as ever
        complain("pyspark is not imported from compiled files")
    if os.environ.get("SPARK_SUPERVISOR_PREPARED"):
        prepare(reports, watch, path)
    if entry:
        run_session(reports, watch, entry)
    else:
        run_application(reports, watch, path)


def require_classic(reports: Reports) -> None:
    """Ends a driver in whose environment every session would be one that a job can't have."""
    what = spark_session().why_unsupported(os.environ, {})
    if what:
        message = f"{spark_session().MARK}{what}; {spark_session().REMEDY}"
        sys.stderr.write(f"spark-supervisor: {message}\n")
        sys.stderr.flush()
        event = "unready" if os.environ.get("SPARK_SUPERVISOR_PREPARED") else "error"
        reports.send_last(event, kind=UNSUPPORTED, message=message, why=message)
        sys.exit(1)


def prepare(reports: Reports, watch: Watch, path: str) -> None:
    """Brings the driver up, and waits for its opening unless the application, the file ``path``, does that at its first
    query."""
    barrier = beside("barrier").barrier_of(os.environ, reports)
    barrier.require(path)
    watch.asleep = True
    barrier.bring_up(beside)
    watch.asleep = False
    watch.barrier = barrier
    if not barrier.at_first_query:
        barrier.wait()
    barrier.tell_arrival(watch.pass_barrier)


if __name__ == "__main__":
    main(sys.argv[1:])
