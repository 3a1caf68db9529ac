"""Prepared drivers with real shims, twins, light drivers, ZooKeeper, agent and guardian; the test plays the leader.

What is true is what the drivers wrote down, and what the registry holds.
"""

from __future__ import annotations

import json
import os
import signal
import threading
import uuid
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from supervisor.clients import processes, run_dir
from supervisor.clients.containment import find_cgroup_parent, find_own_cgroup
from supervisor.clients.processes import ProcessId
from supervisor.clients.zookeeper import ZooClient
from supervisor.clock import boottime_s
from supervisor.daemon.host.agent import Agent
from supervisor.daemon.host.guardian import Guardian
from supervisor.daemon.host.hosted_attempts import HostedAttempts
from supervisor.daemon.host.launcher import Launcher
from supervisor.daemon.host.prepared import HostCapacity
from supervisor.daemon.host.prepared_drivers import PreparedDrivers
from supervisor.demo.ensemble import EmbeddedEnsemble
from supervisor.metrics import Metrics
from supervisor.model.records import (
    Assignment,
    Cause,
    Desired,
    JobRef,
    Member,
    Ownership,
    OwnState,
    Preparation,
    PreparedDriver,
    PrepareLevel,
)
from supervisor.model.transaction import ANY_VERSION, Create, Delete, SetData, Transaction
from supervisor.operations.context import store_of
from supervisor.records.codec import decode, encode
from supervisor.records.layout import Layout
from supervisor.registry.blobs import Blobs
from supervisor.settings.file import load_settings
from supervisor.spec.job import canonical_json, parse_spec
from tests.testbed import requirements
from tests.waiting import wait_until

FAKE_SPARK = Path(__file__).resolve().parents[1] / "fakes" / "spark"
MAX_S = 60.0
JOB = "job"


class Host:
    """One host in this process: agent and guardian. ``restart`` is what the next supervisor on this host does."""

    def __init__(
        self, hosts: str, root: str, directory: Path, cgroup_parent: str | None, **capacity: Any
    ) -> None:
        self.layout, self.directory, self.cgroup_parent = Layout(root), directory, cgroup_parent
        config = {
            "cluster": "c",
            "zookeeper": {"hosts": hosts, "root": root, "session_timeout": "10s"},
            "store": {"url": f"file://{directory}/store"},
            "spark": {"home": str(FAKE_SPARK)},
            "supervisor": {
                "id": "host-a",
                "runtime_dir": str(directory / "run"),
                "log_dir": str(directory / "log"),
                "capacity": {"memory": "4g", "drivers": 4, **capacity},
            },
        }
        (directory / "supervisor.yaml").write_text(yaml.safe_dump(config))
        self.settings = load_settings(directory / "supervisor.yaml", {})
        self.blobs = Blobs(store_of(self.settings))
        self.client = ZooClient(hosts, 10.0)
        self.client.start()
        self.client.wait_connected(30)
        for path in (root, *self.layout.persistent_parents(), self.layout.doorbell):
            if self.client.read(path) is None:
                self.commit(Create(path, b""))
        self.uid = f"{uuid.uuid4().hex[:12]}-{uuid.uuid4().hex[:8]}"
        self.shims: set[ProcessId] = set()
        self.start()

    def start(self) -> None:
        settings = self.settings
        self.hosted = HostedAttempts(settings.supervisor.runtime_dir, settings.supervisor.log_dir)
        capacity = settings.supervisor.capacity
        prepared = PreparedDrivers(self.hosted, HostCapacity("h", capacity.drivers, capacity.memory_bytes))
        me = Member(
            id="host-a",
            host="h",
            boot_id=processes.boot_id(),
            address="",
            memory=capacity.memory_bytes,
            drivers=capacity.drivers,
            starting=4,
            software="",
            since="",
            prepares=1,
        )
        launcher = Launcher(
            settings, "h", lambda: self.blobs, self.hosted, self.cgroup_parent, Metrics(boottime_s), prepared
        )
        self.agent = Agent(
            me,
            self.layout,
            lambda link: ZooClient(settings.zookeeper.hosts, 10.0, on_link=link),
            launcher,
            self.hosted,
            prepared=prepared,
        )
        self.guardian = Guardian(
            self.hosted.attempts_dir,
            "host-a",
            self.layout,
            lambda: self.agent.client,
            on_unused=prepared.note_end,
        )
        self.over = threading.Event()
        self.threads = [
            threading.Thread(target=self.agent.run, args=(lambda: None,)),
            threading.Thread(target=self._guard),
        ]
        for thread in self.threads:
            thread.start()

    def _guard(self) -> None:
        while not self.over.is_set():
            self.over.wait(min(0.1, self.guardian.tick(boottime_s())))

    def stop(self) -> None:
        """The supervisor ends; its shims go on."""
        self.note()
        self.over.set()
        self.agent.stop()
        for thread in self.threads:
            thread.join(30)
        self.guardian.close()

    def close(self) -> None:
        if self.client.read(self.layout.preparation("host-a", self.uid, 1)) is not None:
            self.withdraw()

        def is_empty() -> bool:
            self.note()
            for shim in self.shims:
                send(shim, signal.SIGKILL)
            return not self.hosted.keys() and not self.hosted.prepared()

        try:
            wait_until(is_empty, MAX_S, "an empty host")
        finally:
            self.stop()
            self.client.close()

    def note(self) -> None:
        for path in self.hosted.attempts_dir.glob(f"*/{run_dir.SHIM}"):
            found = run_dir.read_process(str(path))
            if found is not None:
                self.shims.add(found.process)

    # -- the leader ----------------------------------------------------------------------------------------------------

    def commit(self, *ops: Any) -> None:
        self.client.commit(Transaction("test", uuid.uuid4().hex, ops))

    def submit(self, **knobs: Any) -> None:
        """Stores the job, which nobody runs yet."""
        application = self.directory / "app.py"
        application.write_text(f"# {json.dumps({'beat_s': 0.05, 'batch_s': 0.2, **knobs})}\n")
        text = yaml.safe_dump(
            {
                "name": JOB,
                "application": f"local:{application}",
                "checkpoint": f"file://{self.directory}/ck",
                "health": {"start_timeout": "30s"},
                "lease": "12s",
                "stop_grace": "5s",
            }
        )
        spec = parse_spec(text, "job.yaml", self.settings.defaults)
        self.blob = self.blobs.put_spec(JOB, self.uid, 1, canonical_json(spec))
        ref = JobRef(
            name=JOB,
            uid=self.uid,
            revision=1,
            spec=self.blob,
            desired=Desired.RUNNING,
            restart_nonce="",
            submitted_at="",
            changed="",
            op="op",
            terms=spec.scheduling(),
        )
        own = Ownership(state=OwnState.VACANT, op="op", newest_uid=self.uid, uid=self.uid)
        self.commit(Create(self.layout.job(JOB), encode(ref)), Create(self.layout.own(JOB), encode(own)))

    def ask(self, **changes: Any) -> None:
        record = Preparation(
            name=JOB,
            uid=self.uid,
            revision=1,
            spec=self.blob,
            level=PrepareLevel.SESSION,
            memory=1 << 20,
        )
        path = self.layout.preparation("host-a", self.uid, 1)
        wait_until(lambda: self.client.read(self.layout.preparations_of("host-a")), MAX_S, "its parent")
        self.commit(Create(path, encode(replace(record, **changes))))

    def withdraw(self) -> None:
        self.commit(Delete(self.layout.preparation("host-a", self.uid, 1), ANY_VERSION))

    def assign(self, attempt: int = 1, *, prepared: bool = True, withdraw: bool = False) -> None:
        node = self.client.read(self.layout.own(JOB))
        assert node is not None
        own = replace(
            decode(Ownership, node.data, ""),
            state=OwnState.ASSIGNED,
            attempt=attempt,
            revision=1,
            supervisor="host-a",
            host="h",
            memory=1 << 20,
            claim="",
        )
        entry = Assignment(
            name=JOB,
            uid=self.uid,
            attempt=attempt,
            revision=1,
            job_version=0,
            own_version=node.stat.version + 1,
            spec=self.blob,
            memory=1 << 20,
            prepared=prepared,
        )
        self.commit(
            SetData(self.layout.own(JOB), encode(own), node.stat.version),
            Create(self.layout.assignment("host-a", self.uid, attempt), encode(entry)),
        )
        if withdraw:
            self.withdraw()

    def own(self) -> Ownership:
        node = self.client.read(self.layout.own(JOB))
        assert node is not None
        return decode(Ownership, node.data, "")

    def wait_state(self, state: OwnState) -> Ownership:
        wait_until(lambda: self.own().state is state, MAX_S, f"{state}, it is {self.own()}")
        return self.own()

    # -- what there is -------------------------------------------------------------------------------------------------

    def reported(self) -> tuple[PreparedDriver, ...]:
        node = self.client.read(self.layout.supervisor("host-a"))
        return () if node is None else decode(Member, node.data, "").prepared

    def wait_ready(self, number: int = 1) -> str:
        """Returns the key of a driver that is ready, once so many are there and the record says so."""

        def ready() -> str | None:
            there = sorted(
                key
                for key in self.hosted.prepared()
                if run_dir.read_readiness(str(self.hosted.attempts_dir / key)) is not None
            )
            is_told = any(each.ready for each in self.reported())
            return there[0] if len(there) >= number and is_told else None

        return wait_until(ready, MAX_S, f"a prepared driver: {self.reported()}")

    def process(self, key: str, file: str = run_dir.SHIM) -> ProcessId:
        found = wait_until(
            lambda: run_dir.read_process(str(self.hosted.attempts_dir / key / file)), MAX_S, file
        )
        self.shims.add(found.process) if file == run_dir.SHIM else None
        return found.process

    def notes(self, event: str) -> list[dict[str, Any]]:
        path = self.directory / "witness"
        lines = path.read_text().splitlines() if path.exists() else []
        found = [json.loads(line) for line in lines if line.endswith("}")]
        return [note for note in found if note["event"] == event]

    def wait_batch(self, attempt: int) -> None:
        wait_until(lambda: any(note["attempt"] == attempt for note in self.notes("batch")), MAX_S, "a batch")

    def wait_gone(self, key: str) -> None:
        wait_until(lambda: not (self.hosted.attempts_dir / key).exists(), MAX_S, f"the end of {key}")


def send(process: ProcessId, number: int) -> None:
    pidfd = processes.open_pidfd(process)
    if pidfd is not None:
        processes.send_signal(pidfd, number)
        os.close(pidfd)


def is_alive(process: ProcessId) -> bool:
    return processes.alive(process)


@pytest.fixture(scope="module")
def cgroup_parent() -> Iterator[str | None]:
    requirements.need("cgroup")
    parent = find_cgroup_parent(find_own_cgroup(), f"prepared-{os.getpid()}")
    assert parent is not None
    yield parent
    Path(parent).rmdir()


@pytest.fixture(params=["cgroup", "scan"])
def host(
    request: pytest.FixtureRequest,
    embedded_ensemble: EmbeddedEnsemble,
    zk_root: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[Host]:
    parent = request.getfixturevalue("cgroup_parent") if request.param == "cgroup" else None
    monkeypatch.setenv("WITNESS", str(tmp_path / "witness"))
    made = Host(embedded_ensemble.hosts, zk_root, tmp_path, parent)
    yield made
    made.close()


def test_a_driver_is_prepared_gets_its_attempt_and_begins(host: Host) -> None:
    """The whole way; the request is taken back with the assignment, and the driver does not go for that."""
    host.submit()
    host.ask()
    key = host.wait_ready()
    driver = host.process(key, run_dir.DRIVER)
    assert host.notes("batch") == [] and not host.hosted.keys()
    host.assign(withdraw=True)
    own = host.wait_state(OwnState.CLAIMED)
    host.wait_batch(1)
    assert own.attempt == 1 and host.process(f"{host.uid}.1", run_dir.DRIVER) == driver
    assert [note["claim"] for note in host.notes("opened")] == [own.claim]
    assert {note["attempt"] for note in host.notes("batch")} == {1}
    wait_until(lambda: host.reported() == (), MAX_S, "nothing is prepared any more")
    assert (host.directory / "log" / JOB / f"{host.uid}.1.log").exists()
    send(host.process(key), signal.SIGTERM)
    assert host.wait_state(OwnState.EXITED).cause is Cause.STOPPED
    host.wait_gone(key)
    wait_until(lambda: not (host.hosted.attempts_dir / f"{host.uid}.1").is_symlink(), MAX_S, "its name goes")


def test_a_request_that_is_gone_takes_its_driver_along(host: Host) -> None:
    host.submit()
    host.ask()
    key = host.wait_ready()
    driver = host.process(key, run_dir.DRIVER)
    host.withdraw()
    host.wait_gone(key)
    assert not is_alive(driver) and host.notes("batch") == []


def test_what_cannot_be_prepared_is_told_with_its_reason_and_the_attempt_starts_cold(host: Host) -> None:
    host.submit(unready="no module named x")
    host.ask()
    wait_until(lambda: any("no module named x" in each.why for each in host.reported()), MAX_S, "the reason")
    host.assign()
    host.wait_state(OwnState.CLAIMED)
    host.wait_batch(1)
    assert host.notes("opened") == []


def test_a_file_that_changed_meanwhile_means_a_cold_start(host: Host) -> None:
    host.submit()
    host.ask()
    key = host.wait_ready()
    with (host.directory / "app.py").open("a") as file:
        file.write("# changed\n")
    host.assign(withdraw=True)
    host.wait_state(OwnState.CLAIMED)
    host.wait_batch(1)
    host.wait_gone(key)
    assert host.notes("opened") == []


@pytest.mark.parametrize("victim", [run_dir.SHIM, run_dir.TWIN, run_dir.DRIVER])
def test_a_process_that_dies_before_the_hand_over_costs_the_driver_and_nothing_else(
    host: Host, victim: str
) -> None:
    host.submit()
    host.ask()
    key = host.wait_ready()
    driver = host.process(key, run_dir.DRIVER)
    before = host.own()
    send(host.process(key, victim), signal.SIGKILL)
    if victim != run_dir.TWIN:
        host.wait_gone(key)
        assert not is_alive(driver) and host.own() == before
        host.wait_ready()  # another one, after the pause
    host.assign()
    host.wait_state(OwnState.CLAIMED)
    host.wait_batch(1)


@pytest.mark.parametrize("victim", [run_dir.SHIM, run_dir.DRIVER])
def test_a_process_that_dies_after_the_opening_ends_the_attempt(host: Host, victim: str) -> None:
    host.submit()
    host.ask()
    key = host.wait_ready()
    host.assign(withdraw=True)
    host.wait_state(OwnState.CLAIMED)
    host.wait_batch(1)
    driver = host.process(key, run_dir.DRIVER)
    send(host.process(key, victim), signal.SIGKILL)
    if victim == run_dir.SHIM and host.cgroup_parent is None:
        host.wait_gone(key)
        assert host.own().state is OwnState.CLAIMED, "not proven empty: the full wait"
    else:
        cause = host.wait_state(OwnState.EXITED).cause
        assert cause is (Cause.SHIM_DIED if victim == run_dir.SHIM else Cause.KILLED)
    wait_until(lambda: not is_alive(driver), MAX_S, "the end of the driver")


def test_a_shim_that_is_dead_with_an_attempt_handed_over_and_not_claimed_is_lost_and_not_started_again(
    host: Host,
) -> None:
    host.submit()
    host.ask()
    key = host.wait_ready()
    shim = host.process(key)
    send(shim, signal.SIGSTOP)
    host.assign(withdraw=True)
    wait_until(lambda: host.hosted.launches(), MAX_S, "the hand-over")
    send(shim, signal.SIGKILL)
    own = host.wait_state(OwnState.EXITED)
    assert (own.cause, own.permanent) == (Cause.PREPARED_LOST, False)
    host.wait_gone(key)
    assert host.notes("batch") == []
    host.assign(2, prepared=False)
    host.wait_state(OwnState.CLAIMED)
    host.wait_batch(2)


def test_the_next_supervisor_adopts_what_was_prepared_and_hands_over(host: Host) -> None:
    host.submit()
    host.ask()
    key = host.wait_ready()
    driver = host.process(key, run_dir.DRIVER)
    host.stop()
    host.start()
    assert host.wait_ready() == key
    host.assign(withdraw=True)
    host.wait_state(OwnState.CLAIMED)
    host.wait_batch(1)
    assert host.process(f"{host.uid}.1", run_dir.DRIVER) == driver


def test_an_agent_that_died_between_name_and_hand_over_is_gone_on_with(host: Host) -> None:
    host.submit()
    host.ask()
    key = host.wait_ready()
    host.stop()
    (host.hosted.attempts_dir / f"{host.uid}.1").symlink_to(key)
    host.assign(withdraw=True)
    host.start()
    host.wait_state(OwnState.CLAIMED)
    host.wait_batch(1)
    assert len(host.notes("opened")) == 1


def test_of_two_drivers_of_one_job_one_is_kept_and_one_gets_the_attempt(host: Host) -> None:
    host.submit()
    host.ask()
    first = host.wait_ready()
    launch = host.hosted.prepared()[first]
    extra = launch.extra["prepared_for"]
    record = decode(Preparation, json.dumps(extra).encode(), "")
    host.agent._launcher.bring_up(record)
    wait_until(lambda: host.hosted.prepared().keys() == {first}, MAX_S, "one of them goes")
    host.assign(withdraw=True)
    host.wait_state(OwnState.CLAIMED)
    host.wait_batch(1)
    assert len(host.notes("opened")) == 1
