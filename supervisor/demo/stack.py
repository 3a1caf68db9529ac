"""Starts a whole fleet on this machine for ``demo`` and ``dev``, with three ZooKeeper servers, supervisors, a
store, a job's spec.

Everything lives below one new directory and needs nothing but Python, PySpark and Java: it uses loopback and
free ports, no root, no cgroup. The supervisors are real ``spark-supervisor run`` processes. Whatever happens
to the process that made the stack, nothing of it stays: ``close`` ends it in order and within a bound, and a
guard (``demo.stack_guard``) does so if that process is killed.
"""

from __future__ import annotations

import os
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Any, Final, NamedTuple

import yaml

from supervisor.clients import processes
from supervisor.clients.marked import find_marked, kill_marked
from supervisor.clients.package_path import python_path
from supervisor.clients.processes import ProcessId
from supervisor.clients.spawn import reap_finished, spawn_detached
from supervisor.demo.ensemble import EmbeddedEnsemble, HeldPorts, find_class_path, find_java
from supervisor.demo.stack_guard import (
    MARKER,
    StackGuard,
    end_attempts,
    living_shims,
    remove_cgroups,
    remove_directory,
)
from supervisor.errors import NotFound, SupervisorError
from supervisor.operations.context import open_commands
from supervisor.settings.file import OVERRIDE_PREFIX, PATH_VARIABLE, Settings, load_settings
from supervisor.spark.toolchain import JAVA_MAJOR_MIN, installed_spark_home, java_major

FLEET: Final = ("alpha", "beta")
JOB: Final = "clicks"
ROWS_PER_BATCH: Final = 1000
APPLICATION: Final = Path(__file__).with_name("application.py")

_NOT_FOR_THE_STACK = ("SPARK_", "PYSPARK_", "HADOOP_", "YARN_", "JAVA_TOOL_OPTIONS", "JDK_JAVA_OPTIONS")
"""Variables of the user's environment with these prefixes are left out: they would make the stack's drivers
join another Spark, or configure its supervisors."""

_LIGHT_JVM = "-XX:+UseSerialGC -XX:TieredStopAtLevel=1"
"""These options suit drivers that live for minutes: they take half the CPU time at their start."""

_CANCEL_WAIT_S = 12.0
_STOP_WAIT_S = 6.0
_TWIN_WAIT_S = 4.0
_KILL_WAIT_S = 10.0


@dataclass
class Daemon:
    """Describes one supervisor of the stack. ``port`` is that of its HTTP server, also after a restart.
    ``process`` is None while it is not running."""

    id: str
    home: Path
    port: int
    process: ProcessId | None = None

    @property
    def config(self) -> Path:
        return self.home / "supervisor.yaml"

    @property
    def log(self) -> Path:
        return self.home / "supervisor.log"


class ProcessEnded(NamedTuple):
    """Says which process has ended. ``log_tail`` is the end of its log."""

    what: str
    log_tail: str


def check_requirements() -> None:
    """Raises SupervisorError with the remedy if Java or PySpark is missing or too old."""
    try:
        java = find_java()
        find_class_path()
    except NotFound as error:
        raise SupervisorError(str(error)) from None
    major = java_major(java)
    if major is not None and major < JAVA_MAJOR_MIN:
        raise SupervisorError(
            f"{java} is Java {major}, and Spark 4 needs {JAVA_MAJOR_MIN} or newer: install it "
            "(Debian: openjdk-17-jre-headless) or set JAVA_HOME to it"
        )


class Stack:
    """Runs the fleet of ``demo`` or ``dev``, as a context manager. Use from one thread.

    ``purpose`` is part of the directory's name. If ``keep`` is True, the directory is left in the end. Raises
    SupervisorError (no Java, no PySpark, no room).
    """

    def __init__(self, purpose: str, ids: tuple[str, ...], *, keep: bool, trigger: str = "1 second") -> None:
        check_requirements()
        try:
            self.directory = Path(tempfile.mkdtemp(prefix=f"spark-supervisor-{purpose}-")).resolve()
        except OSError as error:
            raise SupervisorError(
                f"no directory could be made ({error}): set TMPDIR to one with room"
            ) from None
        self._hurry = threading.Event()
        self._closing = False
        self._signals: dict[int, Any] = {}
        self._keep = keep
        self._trigger = trigger
        self._guard = StackGuard(self.directory, keep=keep)
        self._ensemble = EmbeddedEnsemble(self.directory / "zookeeper")
        self._ports = HeldPorts(len(ids))
        self.daemons = {
            name: Daemon(name, self.directory / name, port)
            for name, port in zip(ids, self._ports.numbers, strict=True)
        }

    def __enter__(self) -> Stack:
        """Makes SIGINT, SIGTERM and SIGHUP raise KeyboardInterrupt from here on; once the stack is being
        closed, they hurry that up."""
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            self._signals[number] = signal.signal(number, self._on_signal)
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # -- where things are ------------------------------------------------------------------------------------------

    @property
    def config(self) -> Path:
        """Returns the configuration file for the commands; any supervisor's file would do."""
        return next(iter(self.daemons.values())).config

    @property
    def spec(self) -> Path:
        return self.directory / "jobs" / f"{JOB}.yaml"

    @property
    def _program(self) -> Path:
        return self.spec.parent / "clicks.py"

    @property
    def record(self) -> Path:
        """Returns the path of the file that the job's own sink writes."""
        return self.directory / "record.jsonl"

    def settings(self) -> Settings:
        return load_settings(self.config, {})

    # -- starting --------------------------------------------------------------------------------------------------

    def start_ensemble(self) -> None:
        """Starts three ZooKeeper servers; returns when all of them serve. Writes the configuration files and
        the spec."""
        self._ensemble.start()
        for daemon in self.daemons.values():
            daemon.home.mkdir(exist_ok=True)
            _write_yaml(
                daemon.config, self._configuration(daemon), f"configuration of supervisor {daemon.id}"
            )
        self.spec.parent.mkdir(exist_ok=True)
        self._program.write_bytes(APPLICATION.read_bytes())
        self.write_spec(self._trigger)

    def write_spec(self, trigger: str) -> None:
        """Writes the spec of the job; ``trigger`` is the time between two batches, as Spark takes it."""
        about = "a streaming job: generated rows, counted per key, state in its checkpoint"
        _write_yaml(self.spec, self._job(trigger), about)

    def break_program(self) -> None:
        """Leaves half of the job's program, which is no Python any more."""
        whole = APPLICATION.read_text()
        self._program.write_text(whole[: whole.index("parser.add_argument(") + len("parser.add_argument(")])

    def start_supervisor(self, name: str) -> int:
        """Starts ``spark-supervisor run`` and returns its pid; does not wait until it is ready."""
        daemon = self.daemons[name]
        argv = (sys.executable, "-P", "-m", "supervisor.cli.main", "run", "--config", str(daemon.config))
        daemon.process = spawn_detached(argv, self._environment(), str(self.directory), str(daemon.log))
        return daemon.process.pid

    def _environment(self) -> dict[str, str]:
        env = {name: value for name, value in os.environ.items() if not name.startswith(_NOT_FOR_THE_STACK)}
        env["PYTHONPATH"] = python_path(env)
        env |= {
            MARKER: str(self.directory),
            "SPARK_LOCAL_IP": "127.0.0.1",
            "SPARK_LOCAL_HOSTNAME": "localhost",
        }
        return env

    def _configuration(self, daemon: Daemon) -> dict[str, Any]:
        return {
            "cluster": "demo",
            "zookeeper": {"hosts": self._ensemble.hosts},
            "store": {"url": f"file://{self.directory}/store"},
            "supervisor": {
                "id": daemon.id,
                "http": f"127.0.0.1:{daemon.port}",
                "runtime_dir": str(daemon.home / "run"),
                "log_dir": str(self.directory / "logs"),
                "capacity": {"memory": "16g", "drivers": 8, "starting": 2},
            },
            "spark": {"home": str(installed_spark_home()), "class_archive": "off"},
        }

    def _job(self, trigger: str) -> dict[str, Any]:
        return {
            "name": JOB,
            "application": "clicks.py",
            "args": [
                "--checkpoint",
                "{checkpoint}",
                "--record",
                str(self.record),
                "--rows-per-batch",
                str(ROWS_PER_BATCH),
                "--trigger",
                trigger,
            ],
            "master": "local[1]",
            "conf": {
                "spark.ui.enabled": "false",
                "spark.sql.shuffle.partitions": "1",
                "spark.driver.extraJavaOptions": _LIGHT_JVM,
            },
            "checkpoint": f"file://{self.directory}/checkpoints/{JOB}",
            "stop_grace": "10s",
        }

    # -- watching --------------------------------------------------------------------------------------------------

    def pid(self, name: str) -> int:
        """Returns the pid of a supervisor that was started and not killed here. Raises SupervisorError if it
        is not running."""
        process = self.daemons[name].process
        if process is None:
            raise SupervisorError(f"supervisor {name} is not running")
        return process.pid

    def find_ended(self) -> ProcessEnded | None:
        """Returns a supervisor that has ended without ``kill_supervisor``; it counts as not running from now
        on."""
        reap_finished()
        for daemon in self.daemons.values():
            if daemon.process is not None and not processes.alive(daemon.process):
                pid, daemon.process = daemon.process.pid, None
                return ProcessEnded(f"supervisor {daemon.id} (pid {pid}) has ended", _last_line(daemon.log))
        return None

    def kill_supervisor(self, name: str) -> None:
        """Sends SIGKILL; returns when the supervisor is dead."""
        daemon = self.daemons[name]
        if daemon.process is not None:
            pidfd = processes.open_pidfd(daemon.process)
            if pidfd is not None:
                processes.send_signal(pidfd, signal.SIGKILL)
                processes.wait_dead(pidfd, _KILL_WAIT_S)
                os.close(pidfd)
            daemon.process = None
        reap_finished()

    def keep_directory(self) -> None:
        """Leaves the directory there in the end, even if the stack was made without ``keep``."""
        self._keep = True

    # -- ending ----------------------------------------------------------------------------------------------------

    def close(self) -> None:
        """Ends everything, in order and within a bound, and removes the directory unless it is kept. It is
        idempotent.

        Jobs are cancelled and their drivers stopped; then the supervisors, what is left of shims, and the
        ensemble are ended.
        """
        if self._closing:
            return
        self._closing = True
        try:
            self._cancel_jobs()
            self._stop_supervisors()
            end_attempts(self.directory)
            self._until(lambda: not find_marked(MARKER, str(self.directory)), _TWIN_WAIT_S)
        finally:
            kill_marked(MARKER, str(self.directory), _KILL_WAIT_S)
            reap_finished()
            self._ensemble.stop()
            self._ports.release()
            remove_cgroups(self.directory)
            if not self._keep:
                remove_directory(self.directory)
            self._guard.dismiss()
            for number, before in self._signals.items():
                signal.signal(number, before)

    def _on_signal(self, _number: int, _frame: FrameType | None) -> None:
        if self._closing:
            self._hurry.set()
        else:
            raise KeyboardInterrupt

    def _cancel_jobs(self) -> None:
        """Cancels the jobs as far as that works; what is not stopped by it is killed afterwards."""
        if not any(living_shims(self.directory)):
            return
        try:
            with open_commands(self.settings()) as context:
                for name in context.zoo().children(context.layout.jobs) or ():
                    context.commands.cancel(name)
        except SupervisorError:
            return
        self._until(lambda: not any(living_shims(self.directory)), _CANCEL_WAIT_S)

    def _stop_supervisors(self) -> None:
        running = [(d.id, d.process) for d in self.daemons.values() if d.process is not None]
        for _, process in running:
            pidfd = processes.open_pidfd(process)
            if pidfd is not None:
                processes.send_signal(pidfd, signal.SIGTERM)
                os.close(pidfd)
        self._until(lambda: not any(processes.alive(process) for _, process in running), _STOP_WAIT_S)
        for name, _ in running:
            self.kill_supervisor(name)

    def _until(self, is_over: Callable[[], bool], timeout_s: float) -> None:
        deadline_at_s = time.monotonic() + timeout_s
        while not self._hurry.is_set() and time.monotonic() < deadline_at_s and not is_over():
            time.sleep(0.05)


def forget_configuration() -> None:
    """Removes SPARK_SUPERVISOR_CONFIG and SPARK_SUPERVISOR__... from the environment: there they are about
    another fleet."""
    for name in [name for name in os.environ if name == PATH_VARIABLE or name.startswith(OVERRIDE_PREFIX)]:
        del os.environ[name]


def _write_yaml(path: Path, body: dict[str, Any], about: str) -> None:
    text = yaml.safe_dump(body, sort_keys=False, default_flow_style=False, width=120)
    path.write_text(f"# {about[:1].upper()}{about[1:]}.\n{text}")


def _last_line(log: Path) -> str:
    try:
        lines = log.read_text(errors="replace").strip().splitlines()
    except OSError:
        lines = []
    return lines[-1][:300] if lines else "it said nothing"
