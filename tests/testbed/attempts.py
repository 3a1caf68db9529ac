"""One attempt on a real ZooKeeper, without supervisor or leader: what the tests of shim and guardian act on.

``Attempts`` plays the leader (assigns), the agent (run directory, spawn) and the reader of the witness. Drivers are the
light ones of tests/fakes; what they wrote down themselves is what a test believes.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from supervisor.clients import processes, run_dir
from supervisor.clients.processes import ProcessId
from supervisor.clients.spawn import reap_finished, spawn_shim
from supervisor.clients.zookeeper import ZooClient
from supervisor.model.launch import Launch
from supervisor.model.records import Assignment, BlobRef, Lease, Ownership, OwnState
from supervisor.model.transaction import ANY_VERSION, Create, SetData, Transaction
from supervisor.records.codec import decode, encode
from supervisor.records.layout import Layout
from tests.testbed.secured_ensemble import access_in_use
from tests.waiting import wait_until

FAKE_SUBMIT = Path(__file__).resolve().parents[1] / "fakes" / "spark" / "bin" / "spark-submit"
SUPERVISOR = "host-a"


@dataclass
class Attempt:
    """One attempt that was assigned; ``shim`` once it was started."""

    launch: Launch
    directory: str
    witness: Path
    shim: ProcessId | None = None

    @property
    def entry(self) -> Assignment:
        return self.launch.assignment

    def notes(self) -> list[dict[str, Any]]:
        """The witness: what the driver's processes wrote."""
        if not self.witness.exists():
            return []
        return [json.loads(line) for line in self.witness.read_text().splitlines() if line.endswith("}")]

    def events(self, event: str) -> list[dict[str, Any]]:
        return [note for note in self.notes() if note["event"] == event]

    def driver_pids(self) -> set[int]:
        return {note["pid"] for note in self.notes()}

    def last_sign_at_s(self) -> float:
        """BOOTTIME of the newest line of any process of the driver."""
        return max((note["boottime"] for note in self.notes()), default=0.0)

    def living(self) -> list[int]:
        """Pids of the witness that still run (a stopped process does, a zombie does not)."""
        found = (processes.stat(pid) for pid in self.driver_pids())
        return [stat.pid for stat in found if stat is not None and not stat.dead]

    def process(self, file: str) -> ProcessId:
        record = wait_until(lambda: run_dir.read_process(f"{self.directory}/{file}"), 10, file)
        return record.process

    def send(self, number: int, file: str = run_dir.SHIM) -> None:
        pidfd = processes.open_pidfd(self.process(file))
        if pidfd is not None:
            processes.send_signal(pidfd, number)
            os.close(pidfd)

    def shim_alive(self) -> bool:
        reap_finished()
        return self.shim is not None and processes.alive(self.shim)

    def alive(self, file: str) -> bool:
        return processes.alive(self.process(file))

    def shim_log(self) -> str:
        path = Path(self.directory) / "shim.log"
        return path.read_text() if path.exists() else ""


class Attempts:
    """Works below ``root`` of the ensemble ``hosts`` and in ``directory``; ``cgroup_parent`` None: scan containment."""

    def __init__(self, hosts: str, root: str, directory: Path, cgroup_parent: str | None) -> None:
        self.hosts = hosts
        self.layout = Layout(root)
        self.directory = directory
        self.cgroup_parent = cgroup_parent
        self.made: list[Attempt] = []
        self.client = ZooClient(hosts, 10.0)
        self.client.start()
        self.client.wait_connected(30)
        for path in (
            root,
            *self.layout.persistent_parents(),
            self.layout.doorbell,
            self.layout.assigned_to(SUPERVISOR),
        ):
            self._ensure(path)

    def reconnect(self) -> None:
        """A new session; the old one may have been lost."""
        self.client.close()
        self.client = ZooClient(self.hosts, 10.0)
        self.client.start()
        self.client.wait_connected(60)

    def _ensure(self, path: str) -> None:
        if self.client.read(path) is None:
            self.commit(Create(path, b""))

    def commit(self, *ops: Any) -> None:
        self.client.commit(Transaction("test", uuid.uuid4().hex, ops))

    def assign(
        self,
        name: str = "",
        knobs: dict[str, Any] | None = None,
        *,
        start: bool = True,
        argv: tuple[str, ...] = (),
        reports: bool = True,
        **launch: Any,
    ) -> Attempt:
        """Assign attempt 1 of a new job, and start its shim. ``knobs`` of the light driver; ``launch``: Launch fields."""
        name = name or f"job-{uuid.uuid4().hex[:6]}"
        uid = f"{uuid.uuid4().hex[:12]}-{uuid.uuid4().hex[:8]}"
        own = Ownership(
            state=OwnState.ASSIGNED,
            op="op",
            newest_uid=uid,
            uid=uid,
            attempt=1,
            revision=1,
            supervisor=SUPERVISOR,
            host="here",
            memory=1,
        )
        blob = BlobRef(key="specs/x.json", sha256="0" * 64, bytes=1)
        entry = Assignment(
            name=name, uid=uid, attempt=1, revision=1, job_version=0, own_version=0, spec=blob, memory=1
        )
        self.commit(
            Create(self.layout.job(name), b"{}"),
            Create(self.layout.own(name), encode(own)),
            Create(self.layout.assignment(SUPERVISOR, uid, 1), encode(entry)),
        )
        attempt = self.prepare(entry, knobs or {}, argv, reports, launch)
        if start:
            self.start(attempt)
        return attempt

    def prepare(
        self,
        entry: Assignment,
        knobs: dict[str, Any],
        argv: tuple[str, ...],
        reports: bool,
        launch: dict[str, Any],
    ) -> Attempt:
        work = self.directory / f"{entry.uid}.{entry.attempt}"
        work.mkdir(parents=True, exist_ok=True)
        application = work / ("app.py" if reports else "app.jar")
        application.write_text("# {}\n")
        witness = work / "witness"
        attempts = self.directory / f"attempts-{uuid.uuid4().hex[:4]}"
        directory = attempts / f"{entry.uid}.{entry.attempt}"
        group = (
            self.cgroup_parent and f"{self.cgroup_parent}/{entry.uid}.{entry.attempt}-{uuid.uuid4().hex[:6]}"
        )
        env = {
            "PATH": os.environ["PATH"],
            "PYSPARK_PYTHON": sys.executable,
            "WITNESS": str(witness),
            "SPARK_SUPERVISOR_JOB": entry.name,
            "SPARK_SUPERVISOR_UID": entry.uid,
            "SPARK_SUPERVISOR_ATTEMPT": str(entry.attempt),
            "SPARK_SUPERVISOR_REVISION": "1",
            "SPARK_SUPERVISOR_REPORT": f"{directory}/{run_dir.REPORT}",
        }
        words = tuple(f"{name}={json.dumps(value)}" for name, value in knobs.items())
        described = Launch(
            cluster="test",
            hosts=self.hosts,
            root=self.layout.root,
            session_timeout_s=6.0,
            supervisor=SUPERVISOR,
            host="here",
            assignment=entry,
            lease_s=12.0,
            stop_grace_s=5.0,
            start_timeout_s=60.0,
            stall_timeout_s=60.0,
            unbounded=True,
            reports=reports,
            argv=argv or (str(FAKE_SUBMIT), str(application), *words),
            env=env,
            cwd=str(work),
            log_path=str(work / "driver.log"),
            cgroup=group,
            access=access_in_use(),
        )
        described = replace(described, **launch)
        made = run_dir.create(str(attempts), directory.name, encode(described, 1 << 20))
        assert made == str(directory)
        attempt = Attempt(described, made, witness)
        self.made.append(attempt)
        return attempt

    def start(self, attempt: Attempt) -> ProcessId:
        attempt.shim = spawn_shim(attempt.directory, attempt.launch.cgroup)
        return attempt.shim

    def own(self, attempt: Attempt) -> tuple[Ownership, int]:
        path = self.layout.own(attempt.entry.name)
        node = self.client.read(path)
        assert node is not None
        return decode(Ownership, node.data, path), node.stat.version

    def state(self, attempt: Attempt) -> OwnState:
        return self.own(attempt)[0].state

    def lease(self, attempt: Attempt) -> tuple[Lease, int] | None:
        path = self.layout.lease(attempt.entry.name)
        node = self.client.read(path)
        return None if node is None else (decode(Lease, node.data, path), node.stat.version)

    def move(self, attempt: Attempt, state: OwnState, **changes: Any) -> None:
        """Set /own as a cancel, drain or revoke does."""
        own, version = self.own(attempt)
        changed = replace(own, state=state, op="moved", **changes)
        self.commit(SetData(self.layout.own(attempt.entry.name), encode(changed), version))

    def spoil(self, attempt: Attempt, data: bytes) -> None:
        self.commit(SetData(self.layout.own(attempt.entry.name), data, ANY_VERSION))

    def wait_running(self, attempt: Attempt, timeout_s: float = 30) -> None:
        try:
            wait_until(lambda: attempt.events("batch"), timeout_s, "the first batch")
        except AssertionError as error:
            raise AssertionError(f"{error}\nshim.log:\n{attempt.shim_log()}") from None

    def wait_state(self, attempt: Attempt, state: OwnState, timeout_s: float = 20) -> Ownership:
        try:
            wait_until(lambda: self.state(attempt) is state, timeout_s, f"own {state}")
        except AssertionError as error:
            raise AssertionError(f"{error}\nshim.log:\n{attempt.shim_log()}") from None
        return self.own(attempt)[0]

    def wait_shim_gone(self, attempt: Attempt, timeout_s: float = 20) -> None:
        try:
            wait_until(lambda: not attempt.shim_alive(), timeout_s, "the end of the shim")
        except AssertionError as error:
            raise AssertionError(f"{error}\nshim.log:\n{attempt.shim_log()}") from None

    def close(self) -> None:
        """Nothing that was started here survives."""
        for attempt in self.made:
            for file in (run_dir.SHIM, run_dir.TWIN, run_dir.DRIVER):
                record = run_dir.read_process(f"{attempt.directory}/{file}")
                if record is not None:
                    processes.kill(record.process)
            for pid in attempt.living():
                try:
                    os.kill(pid, signal.SIGKILL)
                except ProcessLookupError:
                    pass
        reap_finished()
        self.client.close()
        if self.cgroup_parent:
            for attempt in self.made:
                _remove_group(attempt.launch.cgroup)


def _remove_group(path: str | None) -> None:
    for _ in range(50):
        try:
            if path:
                os.rmdir(path)
            return
        except FileNotFoundError:
            return
        except OSError:
            time.sleep(0.02)


def pss_kb(*pids: int) -> int:
    """Proportional set size of these processes together, in KiB."""
    total = 0
    for pid in pids:
        for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
            if line.startswith("Pss:"):
                total += int(line.split()[1])
    return total


@contextmanager
def eventually_closed(attempts: Attempts) -> Iterator[Attempts]:
    try:
        yield attempts
    finally:
        attempts.close()
