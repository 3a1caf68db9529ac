"""Runs a real ZooKeeper ensemble on this machine, from the jars that PySpark brings: nothing else needs to be
installed.

``demo`` and ``dev`` run on it, and so do tests where there is no Docker. It is for trying things out: it uses
loopback only, no authentication, no fsync. It never touches an ensemble that it did not start.

Nodes are numbered from 0. They die with the process that started them (``death_guard``), unless they are left
running (``leave_running``).
"""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType

from supervisor.clients.four_letter import ask_status, newest_leader
from supervisor.demo.death_guard import DeathGuard
from supervisor.errors import InvalidInput, NotFound, SupervisorError, TimedOut

# What QuorumPeerMain needs of PySpark's 300 jars; a short class path is half of a fast start.
_JARS = re.compile(
    r"(zookeeper(-jute)?|slf4j-api|log4j-(api|core|slf4j2-impl)|metrics-core|snappy-java|commons-(cli|io)|audience-annotations"
    r"|netty-(buffer|codec|codec-base|common|handler|resolver|transport|transport-classes-epoll|transport-native-unix-common)"
    r"|netty-tcnative-classes|jackson-(core|annotations|databind))-[0-9][^-]*\.jar"
)
_JVM = ("-Xms32m", "-Xmx160m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xshare:auto")
_FOREIGN_JAVA_SETTINGS = ("JAVA_TOOL_OPTIONS", "JDK_JAVA_OPTIONS", "CLASSPATH")
_START_TRIES = 3


@dataclass(frozen=True)
class EnsembleNode:
    """Describes one server. ``pid`` is None while it is down. ``client_port`` stays the same over
    restarts."""

    index: int
    pid: int | None
    client_port: int
    log: Path


class EmbeddedEnsemble:
    """Runs ``nodes`` ZooKeeper servers under ``directory`` (created; data of an earlier run there is used
    again).

    ``tick_ms`` 500 with ``sync_limit`` 6 replaces a killed leader in about 0.4 s and a stopped one in about
    3.4 s; session time-outs from 2 ticks to 60 s are granted. It is not thread safe, except for ``hosts``,
    ``node`` and ``leader``. ``jvm_options`` are further options for every server, e.g.
    ``-Dreadonlymode.enabled=true``.
    """

    ports_per_node = 3  # client, quorum, election

    def __init__(
        self,
        directory: Path | str,
        nodes: int = 3,
        tick_ms: int = 500,
        *,
        sync_limit: int = 6,
        jvm_options: Sequence[str] = (),
    ) -> None:
        if nodes < 1:
            raise InvalidInput(f"an ensemble needs at least one node, not {nodes}")
        self.directory = Path(directory)
        self.tick_ms = tick_ms
        self._count = nodes
        self._sync_limit = sync_limit
        self._jvm_options = tuple(jvm_options)
        self._ports = _Ports(0, self.ports_per_node)
        self._processes: list[subprocess.Popen[bytes] | None] = [None] * nodes
        self._paused: set[int] = set()
        self._guard: DeathGuard | None = None

    def __enter__(self) -> EmbeddedEnsemble:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    @property
    def hosts(self) -> str:
        """Returns ``127.0.0.1:p1,127.0.0.1:p2,…`` in the order of the nodes, for a ZooKeeper client."""
        return ",".join(self.address(i) for i in range(self._count))

    def address(self, i: int) -> str:
        """Returns ``127.0.0.1:port`` of node ``i`` alone."""
        return f"127.0.0.1:{self._ports.client(i)}"

    def status_address(self, i: int) -> str:
        """Returns where node ``i`` answers four-letter words without TLS."""
        return self.address(i)

    def node(self, i: int) -> EnsembleNode:
        process = self._processes[i]
        pid = process.pid if process is not None and process.poll() is None else None
        return EnsembleNode(i, pid, self._ports.client(i), self._home(i) / "zookeeper.log")

    def start(self, timeout_s: float = 60.0) -> None:
        """Starts every node and waits until all of them serve. Raises NotFound (no Java, no PySpark),
        TimedOut."""
        java, class_path = find_java(), find_class_path()
        self.directory.mkdir(parents=True, exist_ok=True)
        self._guard = DeathGuard()
        for attempt in range(1, _START_TRIES + 1):
            self._ports.release()
            self._ports = _Ports(self._count, self.ports_per_node)
            self._write_configuration()
            for i in range(self._count):
                self._launch(i, java, class_path)
            try:
                self.wait_serving(timeout_s)
                return
            except _PortTaken:
                self._end_all()
                if attempt == _START_TRIES:
                    self.stop()
                    raise
            except BaseException:
                self.stop()
                raise

    def runs(self, i: int) -> bool:
        """Returns whether the process of node ``i`` lives; it may also have ended by itself."""
        return self.node(i).pid is not None

    def kill(self, i: int) -> None:
        """Kills node ``i`` with SIGKILL and waits for its death. A node that is down already is no error."""
        self._end(i, signal.SIGKILL)

    def pause(self, i: int) -> None:
        """Stops node ``i`` with SIGSTOP, and waits until each of its threads has stopped: it keeps its connections and
        answers nothing."""
        process = self._signal(i, signal.SIGSTOP)
        self._paused.add(i)
        os.waitid(os.P_PID, process.pid, os.WSTOPPED | os.WEXITED | os.WNOWAIT)

    def resume(self, i: int) -> None:
        self._signal(i, signal.SIGCONT)
        self._paused.discard(i)

    def restart(self, i: int) -> None:
        """Starts node ``i`` again, on its port and data; it is ended first if it runs. Does not wait: call
        ``wait_serving`` for that."""
        self._end(i, signal.SIGKILL)
        self._launch(i, find_java(), find_class_path())

    def stop(self, i: int | None = None) -> None:
        """Ends node ``i`` in an orderly way (SIGTERM), or the whole ensemble. It is idempotent; the data
        stays."""
        if i is not None:
            self._end(i, signal.SIGTERM)
            return
        self._end_all()
        if self._guard is not None:
            self._guard.dismiss()
            self._guard = None
        self._ports.release()

    def leave_running(self) -> tuple[int, ...]:
        """Lets the servers go on when this process ends; returns their pids. ``stop`` still works until
        then."""
        if self._guard is not None:
            self._guard.dismiss()
            self._guard = None
        return tuple(pid for i in range(self._count) if (pid := self.node(i).pid) is not None)

    def modes(self) -> tuple[str | None, ...]:
        """Returns the mode that each node reports: ``leader``, ``follower``, ``standalone``, or None if there
        is no answer, or no quorum."""
        return tuple(ask_status(self.status_address(i)).mode for i in range(self._count))

    def leader(self, timeout_s: float = 30.0) -> int:
        """Returns the index of the leader, and waits for an election under way. Raises TimedOut.

        A leader that has lost its quorum still reports that it leads for a while; of two, the one of the
        higher ZooKeeper epoch counts.
        """
        for _ in _polls(timeout_s):
            index = newest_leader([self.status_address(i) for i in range(self._count)])
            if index is not None:
                return index
        raise TimedOut(f"no leader within {timeout_s:g} s", f"see {self.directory}/node*/zookeeper.log")

    def wait_serving(self, timeout_s: float = 30.0) -> None:
        """Waits until every node that is up, and not paused, serves. Raises TimedOut; SupervisorError if one
        exited."""
        up = [i for i in range(self._count) if self._processes[i] is not None and i not in self._paused]
        for _ in _polls(timeout_s):
            for i in up:
                self._check_alive(i)
            if all(ask_status(self.status_address(i)).mode is not None for i in up):
                return
        raise TimedOut(
            f"the ensemble did not serve within {timeout_s:g} s", f"see {self.directory}/node*/zookeeper.log"
        )

    def _home(self, i: int) -> Path:
        return self.directory / f"node{i}"

    def _write_configuration(self) -> None:
        servers = [
            f"server.{i + 1}=127.0.0.1:{self._ports.quorum(i)}:{self._ports.election(i)}"
            for i in range(self._count)
        ]
        for i in range(self._count):
            data = self._home(i) / "data"
            data.mkdir(parents=True, exist_ok=True)
            (data / "myid").write_text(f"{i + 1}\n")
            lines = [
                *self.configuration_lines(i),
                f"tickTime={self.tick_ms}",
                "initLimit=20",
                f"syncLimit={self._sync_limit}",
                f"dataDir={data}",
                f"clientPort={self._ports.client(i)}",
                "clientPortAddress=127.0.0.1",
                f"minSessionTimeout={2 * self.tick_ms}",
                "maxSessionTimeout=60000",
                "maxClientCnxns=0",
                "admin.enableServer=false",
                "4lw.commands.whitelist=srvr,ruok,mntr,cons,conf,dump,wchs",
                *(servers if self._count > 1 else []),
            ]
            (self._home(i) / "zoo.cfg").write_text("\n".join(lines) + "\n")

    def configuration_lines(self, _i: int) -> Sequence[str]:
        """Returns further lines of the configuration of a node; a kind of ensemble may have some."""
        return ()

    def _launch(self, i: int, java: Path, class_path: str) -> None:
        argv = [
            str(java),
            *_JVM,
            "-Dlog4j2.level=INFO",
            # a killed process loses nothing by it, and the disk is somebody's laptop
            "-Dzookeeper.forceSync=no",
            "-Dzookeeper.preAllocSize=4096",
            *self._jvm_options,
            "-cp",
            class_path,
            "org.apache.zookeeper.server.quorum.QuorumPeerMain",
            str(self._home(i) / "zoo.cfg"),
        ]
        with (self._home(i) / "zookeeper.log").open("ab") as log:
            process = subprocess.Popen(
                argv,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=self._home(i),
                env={name: value for name, value in os.environ.items() if name not in _FOREIGN_JAVA_SETTINGS},
                start_new_session=True,  # Ctrl-C at a terminal is for the demo, not for its ensemble
            )
        self._processes[i] = process
        self._paused.discard(i)
        if self._guard is not None:
            self._guard.watch(process.pid)

    def _signal(self, i: int, number: signal.Signals) -> subprocess.Popen[bytes]:
        process = self._processes[i]
        if process is None or process.poll() is not None:
            raise NotFound(f"node {i} of the ensemble is not running", "restart it first")
        process.send_signal(number)
        return process

    def _end(self, i: int, number: signal.Signals) -> None:
        process = self._processes[i]
        if process is None:
            return
        if i in self._paused and number != signal.SIGKILL:
            process.send_signal(signal.SIGCONT)
        process.send_signal(number)
        try:
            process.wait(timeout=10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        self._processes[i] = None
        self._paused.discard(i)

    def _end_all(self) -> None:
        # All at once: one after the other, each death would start an election among the rest.
        for process in self._processes:
            if process is not None:
                process.kill()
        for i in range(self._count):
            self._end(i, signal.SIGKILL)

    def _check_alive(self, i: int) -> None:
        process = self._processes[i]
        if process is None or process.poll() is None:
            return
        log = self.node(i).log
        with log.open("rb") as file:
            file.seek(max(0, log.stat().st_size - 20_000))
            tail = file.read().decode(errors="replace")
        if "Address already in use" in tail:
            raise _PortTaken(f"a port of ZooKeeper node {i} was taken by another process; try again")
        last = tail.strip().splitlines()[-1:] or ["it printed nothing"]
        raise SupervisorError(
            f"ZooKeeper node {i} exited with {process.returncode} ({last[0][:200]})", f"see {log}"
        )


class _PortTaken(SupervisorError):
    """Is raised if another process listens on a port that was chosen a moment ago."""


class HeldPorts:
    """Holds free loopback ports until ``release``.

    Each stays bound, without listening, by a socket of this process: the kernel then gives it to no process
    that asks for any port, also while its server is down between a kill and a restart. A server may still
    listen there, because Java, Python's HTTP server and this class set SO_REUSEADDR (this class after
    binding, so that the choice itself never lands on a port in use).
    """

    def __init__(self, count: int) -> None:
        self._holders: list[socket.socket] = []
        for _ in range(count):
            holder = socket.socket()
            holder.bind(("127.0.0.1", 0))
            holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            self._holders.append(holder)
        self.numbers: Sequence[int] = [holder.getsockname()[1] for holder in self._holders]

    def release(self) -> None:
        for holder in self._holders:
            holder.close()
        self._holders = []


class _Ports(HeldPorts):
    """Holds some ports for each ZooKeeper server: those for clients, quorum and election come first."""

    def __init__(self, nodes: int, per_node: int) -> None:
        super().__init__(nodes * per_node)
        self._per_node = per_node

    def client(self, i: int) -> int:
        return self.numbers[i * self._per_node]

    def quorum(self, i: int) -> int:
        return self.numbers[i * self._per_node + 1]

    def election(self, i: int) -> int:
        return self.numbers[i * self._per_node + 2]

    def further(self, i: int) -> int:
        return self.numbers[i * self._per_node + 3]


def find_java() -> Path:
    """Returns ``java`` of JAVA_HOME, else of PATH. Raises NotFound, which names the remedy."""
    home = os.environ.get("JAVA_HOME")
    found = shutil.which("java", path=str(Path(home) / "bin") if home else None)
    if found is None:
        where = (
            f"JAVA_HOME ({home}) has no bin/java"
            if home
            else "there is no java on PATH and JAVA_HOME is not set"
        )
        raise NotFound(f"{where}: install Java 17 (Debian: openjdk-17-jre-headless) or set JAVA_HOME to it")
    return Path(found)


def find_class_path() -> str:
    """Returns the class path of a ZooKeeper server among PySpark's jars, found without importing PySpark.
    Raises NotFound."""
    spec = importlib.util.find_spec("pyspark")
    if spec is None or not spec.submodule_search_locations:
        raise NotFound(
            "the embedded ZooKeeper needs the jars of PySpark, which is not installed: pip install pyspark"
        )
    directory = Path(spec.submodule_search_locations[0]) / "jars"
    jars = sorted(path for path in directory.glob("*.jar") if _JARS.fullmatch(path.name))
    if not any(path.name.startswith("zookeeper-") for path in jars):
        raise NotFound(f"{directory} holds no ZooKeeper jars: pip install --force-reinstall pyspark")
    return os.pathsep.join(str(path) for path in jars)


def _polls(timeout_s: float, period_s: float = 0.05) -> Iterator[None]:
    """Yields now, then every ``period_s``, and once more at the end."""
    deadline_at_s = time.monotonic() + timeout_s
    while time.monotonic() < deadline_at_s:
        yield
        time.sleep(period_s)
    yield
