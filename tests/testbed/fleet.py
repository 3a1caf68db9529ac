"""Real supervisors on a real ensemble, with light drivers: what the fault tests act on.

``Fleet`` writes the configuration files, starts ``spark-supervisor run`` processes, uses the command line as a user does,
and breaks what it is told to break. Processes are signalled by pid and start time only. What is true is in the witness:
the drivers wrote it themselves; ``__exit__`` has it judged (``tests.faults.checker``), and then ends every process that
carries this fleet's witness file in its environment, shims and drivers included. What a user does to it is in
``fleet_commands``, what the drivers wrote in ``fleet_witness``.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any

import yaml

from supervisor.clients import processes, run_dir
from supervisor.clients.processes import ProcessId
from supervisor.clients.sessions import KeptSession, keep_session
from supervisor.clients.zookeeper import ZooClient
from supervisor.clock import boottime_s
from supervisor.errors import SupervisorError
from supervisor.model.records import LeaderHint
from supervisor.model.seen import Found
from supervisor.model.transaction import Node
from supervisor.model.zookeeper_access import ZooKeeperAccess
from supervisor.operations.jobs import JobOperations
from supervisor.records.layout import Layout, is_attempt
from supervisor.records.reading import seen
from tests.faults import checker
from tests.faults.checker import Acknowledged
from tests.testbed.ensembles import Ensemble
from tests.testbed.fleet_commands import PATIENCE_S, CommandResult, FleetCommands
from tests.testbed.fleet_member import FleetMember, hidden_cgroup, remove_group
from tests.testbed.fleet_witness import FleetWitness
from tests.testbed.secured_ensemble import access_in_use, settings_in_use
from tests.waiting import wait_until

__all__ = [
    "DRIVER",
    "FAKE_SPARK",
    "PATIENCE_S",
    "SHIM",
    "TWIN",
    "Fleet",
    "FleetMember",
    "CommandResult",
    "eventually",
]

FAKE_SPARK = Path(__file__).resolve().parents[1] / "fakes" / "spark"
SHIM, TWIN, DRIVER = run_dir.SHIM, run_dir.TWIN, run_dir.DRIVER
SESSION_S = 4.0
LEASE_S = 8.0
GRACE_S = 5.0


@dataclass
class Fleet(FleetCommands, FleetWitness):
    """``supervisors`` processes s0, s1 … on ``ensemble`` below ``root``; started by ``with``, or by ``start``.

    ``lease_s``, ``grace_s``: of jobs that do not say. ``through``: member number → hosts it is told instead;
    ``behind``: member number → what is done to it before its first start (``Cut.apply``).
    ``capacity``, ``defaults``, ``spark``, ``policy``, ``notify``: of each member, as in supervisor.yaml; deleting is allowed in its own
    directory if nothing is said; ``policies``: member number → what its own policy says besides. ``without_cgroup``: they see no cgroup v2 (root only).
    ``zookeeper``: keys of that section instead of those in use; ``access``: how the harness itself connects.
    ``restored_at_s``: when (BOOTTIME) a test gave the ensemble older data back: numbers of attempts may recur after that.
    """

    ensemble: Ensemble
    root: str
    directory: Path
    supervisors: int = 2
    lease_s: float = LEASE_S
    grace_s: float = GRACE_S
    session_s: float = SESSION_S
    store: str | None = None
    through: dict[int, str] = field(default_factory=dict)
    behind: dict[int, Callable[[FleetMember], None]] = field(default_factory=dict)
    capacity: dict[str, Any] = field(default_factory=dict)
    defaults: dict[str, Any] = field(default_factory=dict)
    spark: dict[str, Any] = field(default_factory=dict)
    policy: dict[str, Any] = field(default_factory=dict)
    clusters: dict[str, Any] = field(default_factory=dict)
    notify: list[dict[str, Any]] = field(default_factory=list)
    zookeeper: dict[str, Any] | None = None
    access: ZooKeeperAccess = field(default_factory=access_in_use)
    policies: dict[int, dict[str, Any]] = field(default_factory=dict)
    members: list[FleetMember] = field(default_factory=list)
    acknowledged: list[Acknowledged] = field(default_factory=list)
    restored_at_s: list[float] = field(default_factory=list)
    judged: bool = True
    without_cgroup: bool = False

    def __post_init__(self) -> None:
        self.layout = Layout(self.root)
        self.witness_file = self.directory / "witness.jsonl"
        self.store = self.store or f"file://{self.directory}/store"
        self._client: ZooClient | None = None
        self._sessions: list[KeptSession[ZooClient]] = []
        self._stopped_pids: set[ProcessId] = set()

    # -- life ---------------------------------------------------------------------------------------------------------

    def __enter__(self) -> Fleet:
        try:
            self.start()
        except BaseException:
            self.tell_logs()
            self.stop()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            if error is None and self.judged:
                self.judge()
        except AssertionError:
            self.tell_logs()
            raise
        finally:
            if error is not None:
                self.tell_logs()
            self.stop()

    def start(self) -> None:
        """All members; back when one of them leads and all are registered."""
        for i in range(self.supervisors):
            self.members.append(self._new_member(i))
        for i in range(self.supervisors):
            self.start_member(i)
        self.wait_complete()

    def add_member(self) -> FleetMember:
        """One more, started."""
        self.members.append(self._new_member(len(self.members)))
        return self.start_member(len(self.members) - 1)

    def start_member(self, i: int) -> FleetMember:
        """Start member ``i``, again if it has ended."""
        member = self.members[i]
        assert not member.running
        self._write_config(member)
        member.down = False
        with (member.directory / "supervisor.log").open("ab") as log:
            argv = [sys.executable, "-P", "-c", "from supervisor.cli.main import main; main()", "run"]
            member.process = subprocess.Popen(
                [
                    *member.wrapper,
                    *(hidden_cgroup() if self.without_cgroup else ()),
                    *argv,
                    "--config",
                    str(member.config),
                ],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=self._env(),
                start_new_session=True,
            )
        return member

    def wait_complete(self, timeout_s: float = PATIENCE_S) -> None:
        """Every member that runs is registered, and one of them leads."""

        def complete() -> bool:
            with contextlib.suppress(SupervisorError):
                there = self.client.children(self.layout.supervisors) or ()
                ended = [member.id for member in self.members if not (member.running or member.down)]
                assert not ended, f"{ended} ended by themselves"
                up = {member.id for member in self.members if member.running}
                return up == set(there) and self.leader_id() in up
            return False

        wait_until(complete, timeout_s, "a leader and all members")

    def stop(self) -> None:
        """End every process of this fleet. Idempotent."""
        groups = self._cgroups()
        for _ in range(50):
            ours = list(self.processes())
            for process in ours:
                processes.kill(process)
            for member in self.members:
                if member.process is not None:
                    with contextlib.suppress(subprocess.TimeoutExpired):
                        member.process.wait(0.1)
            if not ours:
                break
            time.sleep(0.05)
        for sessions in self._sessions:
            sessions.close()
        self._sessions.clear()
        if self._client is not None:
            self._client.close()
            self._client = None
        for group in groups:
            remove_group(group)

    def processes(self) -> Iterator[ProcessId]:
        """Whatever lives and carries our witness in its environment: supervisors, session closers, shims, twins, drivers."""
        mark = f"WITNESS={self.witness_file}\0".encode()
        for found in processes.all_stats():
            try:
                environment = Path(f"/proc/{found.pid}/environ").read_bytes()
            except OSError:
                continue
            if mark in environment and not found.dead:
                yield ProcessId(found.pid, found.start_ticks, processes.boot_id())

    def restart_all(self) -> None:
        """Everybody is up again, nobody is stopped."""
        for process in tuple(self._stopped_pids):
            self._signal_process(process, signal.SIGCONT)
        self._stopped_pids.clear()
        for i, member in enumerate(self.members):
            if not member.running:
                self.start_member(i)
        self.wait_complete()

    def restore(self) -> None:
        """For a fleet that tests share: ``restart_all``, and no job is registered."""
        self.restart_all()
        for row in self.rows():
            self.cancel(row["name"])

    def judge(self) -> None:
        """The independent judge: everything that the drivers wrote down, against what the user was told."""
        found = checker.violations(
            self.notes(), self.acknowledged, grace_s=self.grace_s, restored_at_s=self.restored_at_s
        )
        assert not found, "\n".join(found)

    def tell_logs(self) -> None:
        """Into the report of a failed test."""
        for member in self.members:
            print(f"--- {member.id}, last lines\n" + "\n".join(member.log.splitlines()[-40:]))
            for log in sorted(member.attempts_dir.glob("*/shim.log")):
                print(
                    f"--- {member.id} {log.parent.name} shim.log\n{log.read_text(errors='replace')[-2000:]}"
                )

    # -- members --------------------------------------------------------------------------------------------------------

    def leader_id(self) -> str | None:
        """Who says that it leads; None: nobody."""
        hint = self._leader_hint()
        return hint.record.supervisor if hint else None

    def epoch(self) -> int:
        """Of the present leader; 0: nobody leads."""
        hint = self._leader_hint()
        return hint.record.epoch if hint else 0

    def _leader_hint(self) -> Found[LeaderHint] | None:
        found = seen(LeaderHint, self.read_znode(self.layout.leader), self.layout.leader)
        return found if isinstance(found, Found) else None

    def leader_session(self) -> int:
        """Session id of the present term."""
        node = self.read_znode(self.layout.leader)
        assert node is not None, "nobody leads"
        return node.stat.ephemeral_owner

    def leader(self, timeout_s: float = PATIENCE_S) -> FleetMember:
        """Waits for one that runs."""

        def leading() -> FleetMember | None:
            leads = self.leader_id()
            return next((m for m in self.members if m.running and m.id == leads), None)

        return wait_until(leading, timeout_s, "a leader")

    def standby(self) -> FleetMember:
        leader = self.leader()
        return next(member for member in self.members if member is not leader and member.running)

    def number(self, member: FleetMember) -> int:
        return self.members.index(member)

    def signal_member(self, member: FleetMember, number: int) -> None:
        """A death by SIGKILL or SIGTERM is waited for."""
        process = processes.identify(member.pid)
        assert process is not None and member.process is not None
        self._signal_process(process, number)
        if number in (signal.SIGKILL, signal.SIGTERM):
            member.down = True
            member.process.wait(40)

    def kill(self, member: FleetMember) -> float:
        """kill -9; returns BOOTTIME of the signal."""
        at_s = boottime_s()
        self.signal_member(member, signal.SIGKILL)
        return at_s

    def kill_host(self, member: FleetMember) -> None:
        """All that runs on its host is gone at once: supervisor, session closer, shims, twins, and all of drivers."""
        mark = f"{member.directory}/".encode()
        victims = [each for each in self.processes() if mark in _words_and_environment(each.pid)]
        member.down = True
        for each in victims:
            processes.kill(each)
        assert member.process is not None
        member.process.wait(40)

    def stop_member(self, member: FleetMember) -> None:
        """An orderly stop; its shims go on."""
        self.signal_member(member, signal.SIGTERM)
        assert member.process is not None and member.process.returncode == 0, member.log[-2000:]

    def wait_new_leader(self, old_epoch: int, timeout_s: float = PATIENCE_S) -> FleetMember:
        """A leader of a later epoch."""
        wait_until(lambda: self.epoch() > old_epoch, timeout_s, f"a leader after epoch {old_epoch}")
        return self.leader()

    # -- attempts -------------------------------------------------------------------------------------------------------

    def run_dir(self, name: str, uid: str | None = None) -> Path:
        """The run directory of the newest attempt of the (newest) uid of ``name``, on whichever host."""
        uid = uid or self.uid(name)
        found = [
            path
            for member in self.members
            for path in member.attempts_dir.glob(f"{uid}.*")
            if is_attempt(path.name)  # and no prepared driver
        ]
        assert found, f"no run directory of {name} ({uid})"
        return max(found, key=lambda path: int(path.name.rpartition(".")[2]))

    def process(self, name: str, file: str = SHIM, uid: str | None = None) -> ProcessId:
        """Shim, twin or driver's root of the newest attempt."""
        record = run_dir.read_process(str(self.run_dir(name, uid) / file))
        assert record is not None, f"{name} has no {file}"
        return record.process

    def child(self, name: str) -> ProcessId:
        """The driver's child (knob ``child``): what the Python process is under a JVM."""
        starts = [note for note in self.notes(name) if note.event == "start" and note.role == "child"]
        process = processes.identify(starts[-1].pid)
        assert process is not None
        return process

    def signal(self, process: ProcessId, number: int) -> None:
        assert self._signal_process(process, number), f"process {process.pid} is gone already"

    def host_of(self, name: str) -> FleetMember:
        """The member that hosts the newest attempt."""
        directory = self.run_dir(name)
        return next(member for member in self.members if directory.parent == member.attempts_dir)

    def wait_gone(self, *gone: ProcessId, timeout_s: float = PATIENCE_S, period_s: float = 0.05) -> None:
        wait_until(
            lambda: not any(processes.alive(process) for process in gone),
            timeout_s,
            "processes to end",
            period_s=period_s,
        )

    def alive_pids(self, name: str, uid: str | None = None) -> list[int]:
        """Pids of the job's driver processes that live now (a stopped one does, a zombie does not)."""
        own = {process.pid for process in self.processes()}
        return sorted({n.pid for n in self.notes(name, uid)} & own)

    # -- the rest -------------------------------------------------------------------------------------------------------

    def commands(self) -> JobOperations:
        """The registry as a command sees it, on a session of its own: for many commands in quick succession."""
        sessions = keep_session(self.ensemble.hosts, self.session_s, access=self.access)
        self._sessions.append(sessions)
        return JobOperations(sessions, self.layout)

    @property
    def client(self) -> ZooClient:
        """A session of the test's own for looking into the registry; a new one after it was lost."""
        if self._client is None or self._client.link in ("lost", "closed"):
            if self._client is not None:
                self._client.close()
            self._client = ZooClient(self.ensemble.hosts, 10.0, access=self.access)
            self._client.start()
            self._client.wait_connected(PATIENCE_S)
        return self._client

    def read_znode(self, path: str) -> Node | None:
        """A fresh reading (after a sync), tried again while the ensemble is being harmed."""

        def answered() -> tuple[Node | None] | None:
            with contextlib.suppress(SupervisorError):
                self.client.sync()
                return (self.client.read(path),)
            return None

        return wait_until(answered, PATIENCE_S, f"ZooKeeper to answer {path}")[0]

    def _signal_process(self, process: ProcessId, number: int) -> bool:
        pidfd = processes.open_pidfd(process)
        if pidfd is None:
            return False
        try:
            sent = processes.send_signal(pidfd, number)
        finally:
            os.close(pidfd)
        (self._stopped_pids.add if number == signal.SIGSTOP else self._stopped_pids.discard)(process)
        return sent

    def _new_member(self, i: int) -> FleetMember:
        directory = self.directory / f"s{i}"
        directory.mkdir(parents=True, exist_ok=True)
        (directory / "supervisor.log").touch()
        member = FleetMember(f"s{i}", directory, self.through.get(i, self.ensemble.hosts))
        if i in self.behind:
            self.behind[i](member)
        return member

    def _write_config(self, member: FleetMember) -> None:
        settings = self._settings(member.hosts)
        settings["policy"] |= self.policies.get(self.number(member), {})
        # Training runs of every host of a test would cost minutes of CPU.
        spark = {"class_archive": "off", **settings["spark"]}
        member.config.write_text(
            yaml.safe_dump(
                settings
                | {
                    "spark": spark,
                    "supervisor": {
                        "id": member.id,
                        "http": "127.0.0.1:0",
                        "runtime_dir": str(member.directory / "run"),
                        "log_dir": str(member.directory / "log"),
                        "capacity": {"memory": "4g", "drivers": 20, "starting": 10, **self.capacity},
                    },
                }
            )
        )

    def _settings(self, hosts: str) -> dict[str, Any]:
        return {
            "cluster": "fleet",
            "zookeeper": {
                "hosts": hosts,
                "root": self.root,
                "session_timeout": _ms(self.session_s),
                **(settings_in_use() if self.zookeeper is None else self.zookeeper),
            },
            "store": {"url": self.store},
            "spark": {"home": str(FAKE_SPARK), **self.spark},
            "policy": {"deletable": [f"file://{self.directory.resolve()}/*"], **self.policy},
            **({"clusters": self.clusters} if self.clusters else {}),
            **({"notify": self.notify} if self.notify else {}),
            "defaults": {
                "lease": _ms(self.lease_s),
                "stop_grace": _ms(self.grace_s),
                "restart": {"strategy": "exponential", "initial": "200ms", "max": "2s", "jitter": 0.0},
                **self.defaults,
            },
        }

    def user_config(self) -> Path:
        """What a user on some other host has."""
        path = self.directory / "user.yaml"
        if not path.exists():
            path.write_text(yaml.safe_dump(self._settings(self.ensemble.hosts)))
        return path

    def _env(self) -> dict[str, str]:
        keep = {name: value for name, value in os.environ.items() if not name.startswith("SPARK_")}
        return {**keep, "WITNESS": str(self.witness_file)}

    def _cgroups(self) -> list[Path]:
        groups = []
        for member in self.members:
            for launch in member.attempts_dir.glob("*/launch.json"):
                with contextlib.suppress(OSError, ValueError):
                    group = json.loads(launch.read_bytes()).get("cgroup")
                    if group:
                        groups.append(Path(group))
        return groups


def _words_and_environment(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes() + Path(f"/proc/{pid}/environ").read_bytes()
    except OSError:
        return b""


def _ms(seconds: float) -> str:
    return f"{round(seconds * 1000)}ms"


def eventually(check: Callable[[], bool], timeout_s: float, what: str) -> None:
    """``check`` may raise what the product raises while it can't be reached."""

    def passes() -> bool:
        with contextlib.suppress(SupervisorError):
            return check()
        return False

    wait_until(passes, timeout_s, what)
