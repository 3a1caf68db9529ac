"""The main job, for real: supervisors on a real ZooKeeper, real Spark, store and checkpoints on a real S3 API.

One fleet for the module. The job ``steady`` runs all the time, is never touched, and must never notice anything of what is
done beside it; its batches are also the undisturbed run with which the others are compared. Whatever the drivers wrote down
is judged after each test (``SparkFleet.judge``): no two attempts at once, no hole, no batch with another content.
"""

from __future__ import annotations

import secrets
import signal
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from supervisor.clients import processes
from supervisor.clients.processes import ProcessId
from supervisor.clock import boottime_s
from supervisor.demo.ensemble import EmbeddedEnsemble
from supervisor.spark.toolchain import installed_spark_home
from tests.fakes.faulty_s3 import FaultyS3, refuse
from tests.testbed import requirements
from tests.testbed.fleet import FAKE_SPARK
from tests.testbed.moto import MotoServer
from tests.testbed.spark_fleet import APPLICATIONS, START_S, SparkFleet, build_jar, digest
from tests.waiting import wait_until

pytestmark = [pytest.mark.spark, pytest.mark.timeout(900)]

STEADY = "steady"
S3_SECRET, TOKEN, FILE_TOKEN, CONF_SECRET = (
    f"{what}-{secrets.token_hex(12)}" for what in ("s3", "env", "file", "conf")
)


@pytest.fixture(scope="module")
def fleet(
    embedded_ensemble: EmbeddedEnsemble,
    moto_server: MotoServer,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[SparkFleet]:
    directory = tmp_path_factory.mktemp("recovery")
    (directory / "token").write_text(f"{FILE_TOKEN}\n")
    env = {"AWS_SECRET_ACCESS_KEY": S3_SECRET, "E2E_TOKEN": TOKEN}
    with SparkFleet.on_moto(embedded_ensemble, moto_server, directory, env=env) as made:
        yield made


@pytest.fixture(scope="module")
def steady(fleet: SparkFleet) -> str:
    """The job that nobody touches."""
    fleet.submit(
        STEADY,
        args=["{checkpoint}", "5 seconds"],
        env={"TOKEN": "${env:E2E_TOKEN}", "FILE_TOKEN": f"${{file:{fleet.directory / 'token'}}}"},
        conf={"spark.e2e.password": CONF_SECRET},
    )
    fleet.wait_batch_of(STEADY, 1)
    return STEADY


@pytest.fixture(autouse=True)
def judged(fleet: SparkFleet, steady: str) -> Iterator[None]:
    """Before and after each test all members are up; afterwards the witness is judged, and ``steady`` went on as it was."""
    fleet.restore()
    yield
    fleet.restore()
    fleet.assert_undisturbed(steady)
    fleet.judge()


def figure(what: str, seconds: float) -> None:
    """For the reader of ``pytest -rP``; nothing is asserted about it."""
    print(f"measured: {what}: {seconds:.1f} s")


def kill_leader(fleet: SparkFleet) -> None:
    epoch = fleet.epoch()
    fleet.kill(fleet.leader())
    fleet.wait_new_leader(epoch)


def kill(fleet: SparkFleet, process: ProcessId) -> float:
    killed_at_s = boottime_s()
    fleet.signal(process, signal.SIGKILL)
    return killed_at_s


def process_of(pid: int) -> ProcessId:
    found = processes.identify(pid)
    assert found is not None
    return found


def identity(row: dict[str, Any]) -> tuple[Any, ...]:
    """What must not change while nothing happens to the driver."""
    return tuple(
        row[key]
        for key in ("uid", "attempt", "restarts", "supervisor", "driver_pid", "shim_pid", "started_at")
    )


def test_batches_go_on_over_the_death_of_leader_jvm_and_python(fleet: SparkFleet, steady: str) -> None:
    """Neither a hole nor a row twice; the same aggregates as the run that nothing happened to."""
    job = "clicks"
    submitted_at_s = boottime_s()
    fleet.submit(job)
    figure("submit → first batch", fleet.wait_batch_of(job, 1).at_s - submitted_at_s)
    fleet.wait_batches(job)
    before = fleet.wait_state(job, "running")

    kill_leader(fleet)
    fleet.wait_batches(job)
    assert identity(fleet.wait_state(job, "running")) == identity(before)
    fleet.assert_undisturbed(job, steady)
    fleet.restore()

    jvm = fleet.root_of(job)
    assert jvm.pid == before["driver_pid"] == fleet.lines(job, "session")[-1]["jvm"]
    killed_at_s = kill(fleet, jvm)
    second = fleet.wait_batch_of(job, 2)
    figure("JVM killed → next batch", second.at_s - killed_at_s)
    fleet.wait_batches(job, 2)

    killed_at_s = kill(fleet, process_of(second.pid))
    figure("Python killed → next batch", fleet.wait_batch_of(job, 3).at_s - killed_at_s)
    last = fleet.wait_batches(job, 2)

    row = fleet.wait_state(job, "running")
    assert (row["uid"], row["attempt"], row["restarts"]) == (before["uid"], 3, 2)
    assert [entry["attempt"] for entry in row["history"] if entry["event"] == "claimed"] == [1, 2, 3]
    undisturbed = wait_until(
        lambda: (
            {b.batch_id: b.counts for b in fleet.batches(steady)}
            if fleet.last_batch(steady) >= last
            else None
        ),
        START_S,
        "the undisturbed run to come so far",
    )
    assert all(
        undisturbed[batch.batch_id] == batch.counts for batch in fleet.batches(job) if batch.batch_id <= last
    )
    fleet.cancel(job)


@pytest.mark.slow
def test_a_cancelled_name_that_is_submitted_again_goes_on_from_its_checkpoint(fleet: SparkFleet) -> None:
    job = "again"
    first = fleet.submit(job)
    fleet.wait_batches(job)
    fleet.cancel(job)
    second = fleet.submit(job)
    assert second != first
    batch = fleet.wait_batch_of(job, 1, second)
    last = [b for b in fleet.batches(job) if b.uid == first][-1]
    # a batch that was stopped before its commit is run again
    assert batch.batch_id in (last.batch_id, last.batch_id + 1)
    fleet.wait_batches(job, 2)
    assert fleet.wait_state(job, "running")["attempt"] == 1
    fleet.cancel(job)


@pytest.mark.slow
def test_a_job_in_a_session_of_ours_recovers(fleet: SparkFleet) -> None:
    """The tree is the other way round: Python is its root, the JVM a child. A stop lets its batch commit, as elsewhere."""
    job = "session"
    fleet.submit(job, launch="session", entry="counts:entry")
    first = fleet.wait_batch_of(job, 1)
    fleet.wait_batches(job, 2)
    row = fleet.wait_state(job, "running")
    assert row["driver_pid"] == first.pid == fleet.root_of(job).pid
    assert_no_secret_in_argv(fleet.tree(job))
    kill(fleet, fleet.root_of(job))
    fleet.wait_batch_of(job, 2)
    fleet.wait_batches(job, 2)
    assert fleet.wait_state(job, "running")["restarts"] == 1
    fleet.ok("suspend", job, "--wait")
    assert fleet.show(job)["stop_mode"] == "batch_boundary"
    fleet.cancel(job)


@pytest.fixture(scope="module")
def jar(tmp_path_factory: pytest.TempPathFactory) -> Path:
    requirements.need("jdk")
    spark_home = installed_spark_home()
    assert spark_home is not None
    return build_jar(APPLICATIONS / "Counts.java", tmp_path_factory.mktemp("jar") / "counts.jar", spark_home)


@pytest.mark.slow
def test_a_jvm_application_is_judged_by_its_commit_log(fleet: SparkFleet, jar: Path) -> None:
    """A host's supervisor looks for it. While none is there, its silence is no stall (I6)."""
    job, stall_s = "jvm", 20.0
    spec: dict[str, Any] = {
        "application": jar,
        "class": "Counts",
        "health": {"stall_timeout": f"{stall_s:.0f}s"},
    }
    fleet.submit(job, **spec)
    fleet.wait_batch_of(job, 1)
    before = fleet.wait_state(job, "running")
    assert before["driver_pid"] == fleet.batches(job)[0].pid
    assert_no_secret_in_argv(fleet.tree(job))
    progress = wait_progress(fleet, job, -1)

    for member in fleet.members:
        fleet.kill(member)
    alone_at_s = boottime_s()
    wait_until(lambda: boottime_s() > alone_at_s + stall_s + 5, 60, "more than the stall time-out")
    fleet.wait_batches(job)
    fleet.restore()
    wait_progress(fleet, job, progress)
    assert identity(fleet.wait_state(job, "running")) == identity(before)

    kill(fleet, fleet.root_of(job))
    fleet.wait_batch_of(job, 2)
    fleet.wait_batches(job, 2)
    assert fleet.wait_state(job, "running")["restarts"] == 1
    fleet.cancel(job)


def wait_progress(fleet: SparkFleet, job: str, beyond: int) -> int:
    """Until ``show`` has a higher batch id; no higher than the driver's own."""

    def moved() -> int | None:
        progress = fleet.show(job)["progress"]
        return progress["batch_id"] if progress is not None and progress["batch_id"] > beyond else None

    found = wait_until(moved, START_S, f"progress of {job} beyond batch {beyond}", period_s=0.5)
    assert found <= fleet.last_batch(job)
    return found


@dataclass
class Object:
    """What a job has in the store: its spec, or its application. ``whole``: its content before it was damaged."""

    s3: Any
    bucket: str
    key: str
    whole: bytes

    @classmethod
    def of(cls, fleet: SparkFleet, s3: Any, kind: str, job: str, uid: str) -> Object:
        found = s3.list_objects_v2(Bucket=fleet.bucket, Prefix=f"store/{kind}/{job}/{uid}/")["Contents"]
        assert len(found) == 1
        key = found[0]["Key"]
        return cls(s3, fleet.bucket, key, s3.get_object(Bucket=fleet.bucket, Key=key)["Body"].read())

    def damage(self, how: str) -> None:
        if how == "missing":
            self.s3.delete_object(Bucket=self.bucket, Key=self.key)
        else:
            self.s3.put_object(Bucket=self.bucket, Key=self.key, Body=self.whole[:-1] + b"#")

    def repair(self) -> None:
        self.s3.put_object(Bucket=self.bucket, Key=self.key, Body=self.whole)


@pytest.mark.slow
def test_what_the_store_has_lost_quarantines_that_job_alone(
    fleet: SparkFleet, moto_server: MotoServer
) -> None:
    """The reason names the object, until it is there again and the user says ``resume``."""
    damaged = {}
    for kind in ("artifacts", "specs"):
        for how in ("missing", "altered"):
            job = f"{kind}-{how}"
            uid = fleet.submit(job, suspended=True)
            damaged[job] = Object.of(fleet, moto_server.client(), kind, job, uid)
            damaged[job].damage(how)
            fleet.ok("resume", job)
    for job, thing in damaged.items():
        row = fleet.wait_state(job, "quarantined")
        assert thing.key.removeprefix("store/") in row["reason"], row["reason"]
        assert (row["restarts"], row["driver_pid"], fleet.starts(job)) == (0, None, [])
        assert row["reason"] in fleet.ok("show", job).out
    assert {row["name"] for row in fleet.rows() if row["state"] == "quarantined"} == damaged.keys()

    for job, thing in damaged.items():
        thing.repair()
        fleet.ok("resume", job)
        fleet.wait_state(job, "starting", "running")
        fleet.cancel(job)


@pytest.fixture
def refused_fleet(
    embedded_ensemble: EmbeddedEnsemble,
    moto_server: MotoServer,
    fleet: SparkFleet,
    zk_root: str,
    tmp_path: Path,
) -> Iterator[tuple[SparkFleet, FaultyS3]]:
    """A fleet with light drivers, whose member s0 reaches the store through something that may refuse its keys."""
    faulty = FaultyS3(moto_server.port)
    made = SparkFleet(
        embedded_ensemble,
        zk_root,
        tmp_path,
        endpoint_url=moto_server.endpoint_url,
        bucket=moto_server.new_bucket(),
        s3a_jars=fleet.s3a_jars,
        spark={"home": str(FAKE_SPARK), "submit_timeout": "6s"},
        endpoints={0: faulty.endpoint_url},
    )
    try:
        with made:
            yield made, faulty
    finally:
        faulty.stop()


@pytest.mark.slow
def test_a_host_whose_store_credentials_are_refused_does_not_keep_a_job(
    refused_fleet: tuple[SparkFleet, FaultyS3],
    tmp_path: Path,
) -> None:
    """The host that is chosen first can't read the store: it says so, and the job runs on the other one."""
    fleet, faulty = refused_fleet
    application = tmp_path / "light.py"
    application.write_text('# {"query": false}\n')

    def host_of(job: str) -> str:
        """Submit it; who started its driver."""
        fleet.submit(job, application=application)
        fleet.wait_attempt(job, 1)
        return str(fleet.show(job)["supervisor"])

    assert host_of("before") == "s0"
    fleet.cancel("before")
    fleet.ok("cancel", "before", "--wait")  # until it no longer counts on s0
    faulty.always = refuse(403, "InvalidAccessKeyId")
    assert host_of("refused") == "s1"
    events = [(entry["event"], entry["detail"]) for entry in fleet.show("refused")["history"]]
    assert [detail for event, detail in events if event == "no_access" and "InvalidAccessKeyId" in detail], (
        events
    )
    assert "InvalidAccessKeyId" in fleet.members[0].log

    faulty.always = None  # other keys were put in place; nobody restarted s0
    assert host_of("after") == "s0"


def assert_no_secret_in_argv(tree: list[ProcessId]) -> None:
    assert tree
    for process in tree:
        try:
            argv = Path(f"/proc/{process.pid}/cmdline").read_bytes().decode()
        except FileNotFoundError:  # it has ended
            continue
        for secret in (S3_SECRET, TOKEN, FILE_TOKEN, CONF_SECRET):
            assert secret not in argv, f"{secret} is in the argv of {process.pid}"


def test_secrets_reach_the_driver_and_are_seen_nowhere_else(fleet: SparkFleet, steady: str) -> None:
    told = [line for line in fleet.lines(steady, "start") if line.get("role") == "driver"]
    assert told[0]["secrets"] == {"TOKEN": digest(TOKEN), "FILE_TOKEN": digest(FILE_TOKEN)}
    assert len(fleet.tree(steady)) >= 2, "JVM and Python"
    assert_no_secret_in_argv(list(fleet.processes()))  # supervisors and shims as well

    run_dir = fleet.run_dir(steady)
    work_dir = run_dir.parent.parent / "work" / run_dir.name
    properties = work_dir / "spark.properties"
    assert CONF_SECRET in properties.read_text()
    for private, mode in (
        (properties, 0o600),
        (work_dir, 0o700),
        (run_dir, 0o700),
        (run_dir / "launch.json", 0o600),
    ):
        assert stat.S_IMODE(private.stat().st_mode) == mode, private

    for said in (
        fleet.ok("show", steady),
        fleet.ok("list", "-o", "wide"),
        fleet.ok_on(fleet.host_of(steady), "logs", steady),
    ):
        assert not any(secret in said.out + said.err for secret in (S3_SECRET, TOKEN, FILE_TOKEN))
    written = [path for member in fleet.members for path in member.directory.rglob("*.log")]
    assert written
    for path in written:
        assert not any(
            secret in path.read_text() for secret in (S3_SECRET, TOKEN, FILE_TOKEN, CONF_SECRET)
        ), path
