"""Brings a PySpark driver up before it may run, and holds it until its application may begin (protocol §9.1).

``bootstrap`` loads it in a driver that is being prepared, under whatever Python that runs (3.9 and later); it uses the
standard library only. Nothing is polled quickly for long, and no error of this module reaches the application.

**The warm-up** (``warm_up``) leaves a warm JVM and no SparkContext. What it has changed in Python is put back here
(``Surroundings``).

**The barrier** is passed when the shim has written the opening: the claim has committed. The opening says what only the
attempt knows, and until when the application may begin. This process may have been stopped for long before it reads
that, so the clock is read last of all.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
import time
import traceback
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

NOT_BEGUN = 78  # as the bootstrap's
FRESH_S = 120.0
"""A driver that has waited for so long does not look as often any more: it may wait for days."""
POLL_S, SLOW_POLL_S = 0.02, 0.15
WORDS = ("ready", "unready", "late", "opened")
"""All that a prepared driver reports until its barrier is open."""

APPLICATION = "application"
CLAIM = "SPARK_SUPERVISOR_CLAIM"
PREPARED, PREPARE_LEVEL = "SPARK_SUPERVISOR_PREPARED", "SPARK_SUPERVISOR_PREPARE_LEVEL"
NOT_HELD = "SPARK_SUPERVISOR_NOT_HELD"
HADOOP = "spark.hadoop."


class OpeningWord:
    """Holds what the shim has written (``supervisor.clients.run_dir.Opening``)."""

    def __init__(self, body: Mapping[str, Any]) -> None:
        self.claim = str(body["claim"])
        self.before_at_s = float(body["before_at_s"])
        self.env = {str(name): str(value) for name, value in body["env"].items()}
        self.hadoop_conf = {str(name): str(value) for name, value in body["hadoop_conf"].items()}
        self.spark_conf = {str(name): str(value) for name, value in body.get("spark_conf", {}).items()}


class Barrier:
    """Is the barrier of one driver. ``reports`` are the bootstrap's; they say nothing but ``WORDS`` until it is open.

    ``at_first_query`` says that the application runs up to its first query before it waits. It is given up where this JVM
    does not hold every query, whoever starts it (``query_gate``); then ``ready`` says why. ``not_held`` is why the JVM was
    not even made to.
    """

    def __init__(self, path: str, level: str, reports: Any, not_held: str = "") -> None:
        self.at_first_query = level == APPLICATION
        self._query_gate: Any = None
        self._lacks = [lowered(not_held)] if not_held else []
        self.is_open = False
        self._path = path
        self._reports = reports
        self._lock = threading.Lock()
        self._gateway: Any = None
        reports.words = WORDS

    def require(self, application: str) -> None:
        """Ends a driver whose application can't begin, as far as its text tells. Nothing of it is executed."""
        try:
            compile(Path(application).read_bytes(), application, "exec", dont_inherit=True)
        except (OSError, SyntaxError, ValueError) as error:
            complain("the application can't begin")
            self._refuse(f"the application can't begin: {first_line(error)}")

    def _refuse(self, why: str) -> None:
        self._reports.send_last("unready", why=why)
        leave(NOT_BEGUN)

    def bring_up(self, beside: Callable[[str], Any]) -> None:
        """Warms the JVM up; ``beside`` returns a module of this directory by its name. A driver that can't have a
        SparkContext says so and ends."""
        try:
            with Surroundings():
                gate_of = beside("query_gate").QueryGate
                begin = (lambda gateway: gate_of(gateway).let_own_pass()) if self.at_first_query else None
                self._gateway, not_warmed = beside("warm_up").warm_up(beside, begin)
                if self.at_first_query:
                    self._hold_queries(gate_of(self._gateway))
        except KeyboardInterrupt:
            raise
        except BaseException as error:  # noqa: BLE001 - whatever it is, this driver will never be ready
            complain("no SparkContext can be made")
            self._refuse(f"no SparkContext can be made: {first_line(error)}")
        self._set_environment({})
        if not_warmed:
            self._lacks.append(f"not warmed: {not_warmed}")
        for lack in self._lacks:
            log(lack)

    def _hold_queries(self, gate: Any) -> None:
        """Closes the gate of the JVM, or gives up that the application runs before the opening."""
        why = gate.why_not_held()
        if why:
            self.at_first_query = False
            self._lacks.append(lowered(why))
        else:
            self._query_gate = gate

    def tell_arrival(self, arrived: Callable[[], None]) -> None:
        """Calls ``arrived``, in a thread of its own, when a query has come to the gate that the JVM starts by itself."""
        if self._query_gate is not None:
            self._query_gate.tell_arrival(arrived)

    def wait(
        self, sessions: Callable[[], list[Any]] = list, begin: Callable[[], None] = lambda: None
    ) -> None:
        """Returns when the barrier is open. Any thread may call it; the first one waits for all. A driver that is too
        late ends. ``sessions`` returns those that the application has made; ``begin`` is called before any thread goes
        on."""
        with self._lock:
            if self.is_open:
                return
            self._reports.send_last("ready", **({"why": "; ".join(self._lacks)} if self._lacks else {}))
            opening = self._await_opening()
            try:
                if opening.claim != os.environ.get(CLAIM, opening.claim):
                    raise ValueError(f"the opening is of another claim, {opening.claim}")
                self._apply(opening, sessions())
            except Exception:  # noqa: BLE001 - the application does not begin with half of it
                complain("the opening was not carried out")
                leave(NOT_BEGUN)
            if time.clock_gettime(time.CLOCK_BOOTTIME) >= opening.before_at_s:
                log("the application does not begin: its time was over before it could")
                self._reports.send_last("late")
                leave(NOT_BEGUN)
            self._reports.send_last("opened")
            self._reports.words = None
            begin()
            try:
                if self._query_gate is not None:
                    self._query_gate.open()
            except Exception:  # noqa: BLE001 - a query that waits in that JVM would wait for ever
                complain("the gate of queries was not opened")
                leave(NOT_BEGUN)
            self.is_open = True

    def _await_opening(self) -> OpeningWord:
        began_at_s = time.monotonic()
        while True:
            try:
                with Path(self._path).open("rb") as file:
                    return OpeningWord(json.loads(file.read()))
            except (
                OSError,
                ValueError,
                KeyError,
                TypeError,
                AttributeError,
            ):  # it is written whole: not there yet
                pass
            process = getattr(self._gateway, "proc", None)
            if process is not None and process.poll() is not None:
                log("the JVM has ended while the driver was waiting")
                leave(NOT_BEGUN)
            time.sleep(POLL_S if time.monotonic() - began_at_s < FRESH_S else SLOW_POLL_S)

    def _apply(self, opening: OpeningWord, sessions: list[Any]) -> None:
        os.environ.update(opening.env)
        set_hadoop_conf(self._gateway.jvm, opening.hadoop_conf, sessions)
        for name, value in opening.spark_conf.items():  # for a SparkContext that is made from now on
            self._gateway.jvm.java.lang.System.setProperty(name, value)
        self._set_environment(opening.env)

    def _set_environment(self, env: Mapping[str, str]) -> None:
        """Sets ``env`` in the JVM, and removes there what says that this driver is a prepared one."""
        try:
            set_jvm_environment(self._gateway.jvm, env)
        except Exception:  # noqa: BLE001 - another JVM than we know: Java and Python workers see the old values
            complain("the JVM's environment was not changed")


def barrier_of(environ: Any, reports: Any) -> Barrier | None:
    """Returns the barrier of a driver that is being prepared, and None for every other one. The variables that say so are
    removed."""
    path, level = environ.pop(PREPARED, None), environ.pop(PREPARE_LEVEL, "")
    not_held = environ.pop(NOT_HELD, "")
    return Barrier(path, level, reports, not_held) if path else None


def lowered(why: str) -> str:
    """Returns what is said of a driver whose application can't be held at its first query, because of ``why``."""
    return f"its application does not begin before its opening: its queries could not be held ({why})"


# -- the warm-up -------------------------------------------------------------------------------------------------------


class Surroundings:
    """Puts back at its end what an application would find changed after a SparkContext was made and stopped."""

    def __enter__(self) -> None:
        self._environ, self._path = dict(os.environ), list(sys.path)
        self._interrupt = signal.getsignal(signal.SIGINT)

    def __exit__(self, *_error: object) -> None:
        for name in set(os.environ) - set(self._environ):
            del os.environ[name]
        os.environ.update(self._environ)
        sys.path[:] = self._path
        if self._interrupt is not None:
            signal.signal(signal.SIGINT, self._interrupt)


# -- the opening -------------------------------------------------------------------------------------------------------


def set_hadoop_conf(jvm: Any, conf: Mapping[str, str], sessions: list[Any]) -> None:
    """Sets Hadoop properties as if they had been among the driver's from its start: for every SparkContext that is made
    from now on, and for those that are there."""
    for name, value in conf.items():
        jvm.java.lang.System.setProperty(HADOOP + name, value)
        for session in sessions:
            context = session._jsc.sc()
            context.conf().set(HADOOP + name, value)
            context.hadoopConfiguration().set(name, value)
            session.conf.set(HADOOP + name, value)


def set_jvm_environment(jvm: Any, env: Mapping[str, str]) -> None:
    """Changes what ``System.getenv`` says, and what processes inherit that the JVM starts: Python workers."""
    java = jvm.java.lang
    field = java.Class.forName("java.lang.ProcessEnvironment").getDeclaredField("theUnmodifiableEnvironment")
    field.setAccessible(True)
    inner = java.Class.forName("java.util.Collections$UnmodifiableMap").getDeclaredField("m")
    inner.setAccessible(True)
    variables = inner.get(field.get(None))
    for name, value in env.items():
        variables.put(name, value)
    for name in (PREPARED, PREPARE_LEVEL, NOT_HELD):
        variables.remove(name)


# -- small things ------------------------------------------------------------------------------------------------------


def leave(code: int) -> None:
    """Ends the process at once, whatever thread calls it, and whatever the application would catch."""
    for stream in (sys.stdout, sys.stderr):
        with suppress(Exception):
            stream.flush()
    os._exit(code)


def first_line(error: BaseException) -> str:
    """Returns the kind of the error and what it says first; Java's errors name their cause in the second line."""
    try:
        lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    except Exception:  # noqa: BLE001 - the text of a Java error is asked of a JVM that may be gone
        lines = []
    return f"{type(error).__name__}: {' '.join(lines[:2])}"[:1000]


def log(what: str) -> None:
    """Writes a line into the driver's log."""
    with suppress(OSError, ValueError, AttributeError):
        sys.stderr.write(f"spark-supervisor: {what}\n")
        sys.stderr.flush()


def complain(what: str) -> None:
    log(f"{what}: " + traceback.format_exc(limit=-1).strip().replace("\n", " | ")[:4000])
