"""``doctor`` on real parts: an ensemble, S3 servers that do and do not behave, directories, unit files, a fake Java and Spark.

The whole command runs once as a process; everything else runs the one area that it is about.
"""

from __future__ import annotations

import json
import math
import os
import socket
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from kazoo.client import KazooClient
from kazoo.security import make_digest_acl

from supervisor.cli.doctor import stores, zookeeper
from supervisor.cli.doctor.catalogue import AREAS
from supervisor.cli.doctor.directories import DIRECTORIES
from supervisor.cli.doctor.examine import examine
from supervisor.cli.doctor.findings import AnyArea, DoctorFinding
from supervisor.cli.doctor.host import HOST, UNIT_NAME
from supervisor.cli.doctor.java import JAVA, MODULES_NEEDED
from supervisor.cli.doctor.job import JOB, PACKAGES
from supervisor.cli.doctor.spark import SDK_OF_HADOOP, SPARK
from supervisor.cli.doctor.stores import CHECKPOINT, STORE
from supervisor.cli.doctor.subject import Subject
from supervisor.cli.doctor.zookeeper import ZOOKEEPER
from supervisor.cli.main import run_command
from supervisor.clients.processes import boot_id
from supervisor.clients.zookeeper import ZooClient
from supervisor.clients.zookeeper_probe import probe_servers
from supervisor.daemon.process.supervisor import take_lock
from supervisor.demo.ensemble import EmbeddedEnsemble
from supervisor.model.records import Member
from supervisor.model.transaction import Create, Transaction
from supervisor.records.codec import encode
from supervisor.records.layout import Layout
from supervisor.settings.file import load_settings
from supervisor.spec.files import read_spec_file
from tests.fakes.faulty_s3 import FaultyS3, Handler, refuse
from tests.testbed import requirements
from tests.testbed.moto import MotoServer

CALL = [sys.executable, "-c", "from supervisor.cli.main import main; main()"]
REPOSITORY = Path(__file__).parents[2]


def test_a_server_that_allows_conf_says_how_many_connections_it_takes(
    embedded_ensemble: EmbeddedEnsemble,
) -> None:
    assert {probe.connections_max for probe in probe_servers(embedded_ensemble.hosts)} == {0}


class Clinic:
    """A configuration and a spec of a test's own; ``see`` examines one area and gives its findings by check."""

    def __init__(self, home: Path, hosts: str = "127.0.0.1:1", root: str = "/r") -> None:
        self.home = home
        self.settings: dict[str, Any] = {
            "cluster": "test",
            "zookeeper": {"hosts": hosts, "root": root},
            "store": {"url": f"file://{home}/store"},
            "supervisor": {
                "id": "host-a",
                "http": "127.0.0.1:0",
                "log_dir": str(home / "log"),
                "runtime_dir": str(home / "run"),
                "capacity": {"memory": "256m", "drivers": 2},
            },
            "spark": {},
        }
        self.job: dict[str, Any] = {
            "name": "clicks",
            "application": "app.py",
            "checkpoint": f"file://{home}/checkpoint",
        }
        self.environ = dict(os.environ)
        self.unit: Path | None = None
        self.patience = 6.0  # of a busy machine
        (home / "app.py").write_text("print('hello')\n")

    @property
    def config(self) -> Path:
        path = self.home / "supervisor.yaml"
        path.write_text(json.dumps(self.settings))
        return path

    @property
    def spec(self) -> Path:
        path = self.home / "clicks.yaml"
        path.write_text(json.dumps(self.job))
        return path

    def see(self, area: AnyArea, *, job: bool = False) -> dict[str, DoctorFinding]:
        settings = load_settings(self.config, {})
        spec = read_spec_file(self.spec, settings.defaults) if job else None
        subject = Subject(settings, self.environ, spec, self.spec if job else None, self.unit, self.patience)
        lines = examine(subject, [area])
        assert [line.check for line in lines] == [check.id for check in area.checks]
        assert not any("the check itself failed" in line.finding.found for line in lines), lines
        return {line.check: line.finding for line in lines}

    def run(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        environ = {
            key: value for key, value in self.environ.items() if not key.startswith("SPARK_SUPERVISOR")
        }
        return subprocess.run(
            [*CALL, "--config", str(self.config), "doctor", *arguments],
            capture_output=True,
            text=True,
            check=False,
            timeout=120,
            env=environ,
        )

    def tool(self, path: str, script: str) -> Path:
        """An executable of the test's own."""
        file = self.home / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(f"#!/bin/sh\n{script}\n")
        file.chmod(file.stat().st_mode | stat.S_IXUSR)
        return file


@pytest.fixture(autouse=True)
def busy_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is slow here: when that is warned of, the judges' own tests say."""
    monkeypatch.setattr(stores, "SLOW_MS", math.inf)
    monkeypatch.setattr(zookeeper, "SLOW_MS", math.inf)


@pytest.fixture
def clinic(tmp_path: Path) -> Clinic:
    return Clinic(tmp_path)


@pytest.fixture
def site(tmp_path: Path, embedded_ensemble: EmbeddedEnsemble, zk_root: str) -> Clinic:
    """With a real ensemble."""
    return Clinic(tmp_path, embedded_ensemble.hosts, zk_root)


def client_of(ensemble: EmbeddedEnsemble) -> Iterator[ZooClient]:
    client = ZooClient(ensemble.hosts, 10.0)
    client.start()
    client.wait_connected(20)
    yield client
    client.close()


zoo = pytest.fixture(lambda embedded_ensemble: (yield from client_of(embedded_ensemble)))


# -- the whole command --------------------------------------------------------------------------------------------


def test_a_healthy_site_is_0_and_nothing_is_left(
    site: Clinic,
    moto_server: MotoServer,
    s3_bucket: str,
    zoo: ZooClient,
) -> None:
    """One run with all checks; only the S3A jars are missing, so the checkpoint is a directory."""
    site.environ = dict(os.environ)
    site.settings["store"] = {"url": f"s3://{s3_bucket}/prefix", "endpoint_url": moto_server.endpoint_url}
    ran = site.run(str(site.spec), "-o", "json", "--timeout", "2m")
    document = json.loads(ran.stdout)
    bad = [line for line in document["checks"] if line["verdict"] == "problem"]
    assert (ran.returncode, bad, document["ok"]) == (0, [], True), ran.stderr
    assert [line["check"] for line in document["checks"]] == [
        check.id for area in AREAS for check in area.checks
    ]
    assert sum(document["counts"].values()) == len(document["checks"])
    assert "Contents" not in moto_server.client().list_objects_v2(Bucket=s3_bucket)
    zoo.sync()
    assert zoo.read(site.settings["zookeeper"]["root"]) is None
    assert not [name for name in zoo.children("/") or () if "doctor" in name]
    assert sorted(os.listdir(site.home)) == ["app.py", "clicks.yaml", "supervisor.yaml"]


def test_nothing_works_is_1_in_time_and_every_line_has_its_remedy(clinic: Clinic) -> None:
    clinic.tool("bin/none", "exit 0")
    clinic.environ |= {"PATH": str(clinic.home / "bin"), "JAVA_HOME": "", "PYSPARK_PYTHON": sys.executable}
    (clinic.home / "store").write_text("a file")
    ran = clinic.run("--timeout", "5s")
    assert ran.returncode == 1 and ran.stderr == "", ran
    lines = ran.stdout.splitlines()
    for check in ("java", "store", "zookeeper-servers", "zookeeper-session"):
        at = next(n for n, line in enumerate(lines) if line.split()[:2] == ["problem", check])
        assert lines[at + 1].split()[0] == "remedy:", lines[at + 1]
    assert "problem" in lines[-1]


@pytest.mark.parametrize(
    ("spec", "says"),
    [
        (None, "cannot be read"),
        ("[1]", "must hold 'key: value' lines"),
        ("name: UPPER", "name"),
    ],
)
def test_what_prevents_any_check_is_2(
    clinic: Clinic,
    spec: str | None,
    says: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    path = clinic.home / "bad.yaml"
    if spec is not None:
        path.write_text(spec)
    code = run_command(["--config", str(clinic.config), "doctor", str(path)])
    out, err = capsys.readouterr()
    assert (code, out) == (2, "") and says in err and len(err.splitlines()) == 1


def test_the_list_needs_no_configuration(clinic: Clinic, capsys: pytest.CaptureFixture[str]) -> None:
    clinic.settings = {"nonsense": 1}
    assert run_command(["--config", str(clinic.config), "doctor", "--list"]) == 0
    assert "java-modules" in capsys.readouterr().out


# -- Java and Spark -----------------------------------------------------------------------------------------------


def java(clinic: Clinic, modules: str, code: int = 0) -> None:
    """A Java that says that it has ``modules``."""
    clinic.settings["spark"]["java_home"] = str(clinic.home / "jdk")
    clinic.tool("jdk/bin/java", f"echo '{modules}'; exit {code}")


def test_no_java(clinic: Clinic) -> None:
    clinic.environ |= {"PATH": str(clinic.home), "JAVA_HOME": ""}
    seen = clinic.see(JAVA)
    assert seen["java"].verdict == "problem" and "install Java 17" in seen["java"].remedy
    clinic.environ["JAVA_HOME"] = "/nowhere"
    assert "JAVA_HOME is /nowhere" in clinic.see(JAVA)["java"].found


def test_a_java_that_lacks_modules(clinic: Clinic) -> None:
    java(clinic, "\n".join(f"{name}@17.0.15" for name in MODULES_NEEDED if name != "jdk.unsupported"))
    seen = clinic.see(JAVA)
    assert seen["java"].verdict == "ok" and "lacks jdk.unsupported" in seen["java-modules"].found


def test_a_java_that_does_not_start_because_of_the_environment(clinic: Clinic) -> None:
    clinic.environ["JAVA_TOOL_OPTIONS"] = "-XX:MaxRAMNonsense=1"
    seen = clinic.see(JAVA)
    assert seen["java"].verdict == "problem" and "remove what JAVA_TOOL_OPTIONS says" in seen["java"].remedy


def spark(clinic: Clinic, *jars: str, says: str = "version 4.3.0") -> Path:
    home = clinic.home / "spark"
    clinic.settings["spark"]["home"] = str(home)
    clinic.tool("spark/bin/spark-submit", f"echo '{says}' >&2")
    (home / "jars").mkdir(exist_ok=True)
    for jar in ("spark-core_2.13-4.3.0.jar", "hadoop-client-api-3.5.0.jar", *jars):
        (home / "jars" / jar).touch()
    return home


def test_s3a_jars(clinic: Clinic) -> None:
    home = spark(clinic)
    clinic.job["checkpoint"] = "s3a://bucket/ck"
    seen = clinic.see(SPARK, job=True)
    assert (seen["spark"].verdict, seen["spark-submit"].verdict, seen["pyspark"].verdict) == (
        "ok",
        "ok",
        "ok",
    )
    assert seen["s3a-jars"].verdict == "problem"
    assert "org.apache.hadoop:hadoop-aws:3.5.0 with software.amazon.awssdk:{s3," in seen["s3a-jars"].remedy
    (home / "jars" / "hadoop-aws-3.4.1.jar").touch()
    assert "hadoop-aws is 3.4.1, Hadoop of Spark is 3.5.0" in clinic.see(SPARK, job=True)["s3a-jars"].found
    (home / "jars" / "hadoop-aws-3.4.1.jar").unlink()
    clinic.job["packages"] = ["org.apache.hadoop:hadoop-aws:3.5.0"]
    assert clinic.see(SPARK, job=True)["s3a-jars"].verdict == "ok"


def test_tools_that_hang_cost_only_their_own_lines(clinic: Clinic) -> None:
    """Together they want more time than their area has."""
    home = spark(clinic)
    hanging = clinic.tool("bin/python", "exec sleep 60")
    clinic.tool("spark/bin/spark-submit", "exec sleep 60")
    clinic.environ["PYSPARK_PYTHON"] = str(hanging)
    clinic.patience = 0.3
    seen = clinic.see(SPARK)
    assert (seen["python"].verdict, seen["spark-submit"].verdict) == ("warning", "warning"), seen
    assert "--timeout" in seen["python"].remedy and str(home) in seen["spark"].found


def test_a_spark_home_that_is_none_or_mixed(clinic: Clinic) -> None:
    clinic.settings["spark"]["home"] = "/nowhere"
    seen = clinic.see(SPARK)
    assert "spark.home is /nowhere" in seen["spark"].found and seen["spark-submit"].verdict == "skipped"
    spark(clinic, says="version 3.5.1")
    assert "two Sparks are mixed" in clinic.see(SPARK)["spark-submit"].found


def test_the_sdk_versions_are_those_of_the_pom() -> None:
    pom = (REPOSITORY / "deploy" / "s3a-jars" / "pom.xml").read_text()
    for hadoop, sdk in SDK_OF_HADOOP.items():
        assert hadoop in pom and f"<aws.version>{sdk}</aws.version>" in pom


# -- store and checkpoint -----------------------------------------------------------------------------------------


@pytest.fixture
def faulty(moto_server: MotoServer) -> Iterator[FaultyS3]:
    server = FaultyS3(moto_server.port)
    yield server
    server.stop()


def ignore_condition(handler: Handler) -> None:
    """What rclone and others do: take If-None-Match, and overwrite."""
    del handler.headers["If-None-Match"]
    handler.answer(*handler.ask_backend())


def test_a_store_that_ignores_the_condition(
    clinic: Clinic, faulty: FaultyS3, s3_bucket: str, moto_server: MotoServer
) -> None:
    faulty.always = ignore_condition
    clinic.settings["store"] = {"url": f"s3://{s3_bucket}", "endpoint_url": faulty.endpoint_url}
    clinic.job["checkpoint"] = f"s3a://{s3_bucket}/ck"
    seen = clinic.see(STORE)
    assert (seen["store"].verdict, seen["store-conditional"].verdict) == ("ok", "problem")
    assert clinic.see(CHECKPOINT, job=True)["checkpoint-conditional"].verdict == "problem"
    assert "Contents" not in moto_server.client().list_objects_v2(Bucket=s3_bucket)


@pytest.mark.parametrize(
    ("status", "code", "says"),
    [
        (403, "RequestTimeTooSkewed", "chrony"),
        (403, "AccessDenied", "s3:PutObject"),
        (403, "ExpiredToken", "expired"),
        (503, "SlowDown", "SlowDown"),
    ],
)
def test_a_store_that_says_no(
    clinic: Clinic,
    faulty: FaultyS3,
    s3_bucket: str,
    status: int,
    code: str,
    says: str,
) -> None:
    faulty.always = refuse(status, code)
    clinic.patience = 1.0 if status == 503 else 6.0  # that one is tried again until its time is up
    clinic.settings["store"] = {"url": f"s3://{s3_bucket}", "endpoint_url": faulty.endpoint_url}
    seen = clinic.see(STORE)
    assert seen["store"].verdict == "problem" and says in f"{seen['store'].found} {seen['store'].remedy}"
    assert {seen[check].verdict for check in ("store-conditional", "store-owner", "store-clock")} == {
        "skipped"
    }


def test_a_wrong_bucket(clinic: Clinic, moto_server: MotoServer, aws_env: dict[str, str]) -> None:
    clinic.settings["store"] = {
        "url": f"file://{clinic.home}/store",
        "endpoint_url": moto_server.endpoint_url,
    }
    clinic.job["checkpoint"] = "s3a://no-such-bucket/ck"
    seen = clinic.see(CHECKPOINT, job=True)
    assert seen["checkpoint"].verdict == "problem" and "no-such-bucket" in seen["checkpoint"].found


def test_directories_as_store_and_checkpoint(clinic: Clinic) -> None:
    assert {finding.verdict for finding in clinic.see(STORE).values()} == {"ok"}
    assert clinic.see(CHECKPOINT, job=True)["checkpoint"].verdict == "warning"  # of this host only
    assert not (clinic.home / "checkpoint").exists()
    (clinic.home / "checkpoint").write_text("a file where a directory should be")
    assert clinic.see(CHECKPOINT, job=True)["checkpoint"].verdict == "problem"


# -- ZooKeeper ----------------------------------------------------------------------------------------------------


def closed_port() -> str:
    with socket.create_server(("127.0.0.1", 0)) as server:
        return f"127.0.0.1:{server.getsockname()[1]}"


def test_zookeeper_is_down(clinic: Clinic) -> None:
    clinic.patience = 0.5
    clinic.settings["zookeeper"]["hosts"] = f"{closed_port()},no-such-host.invalid:2181,{closed_port()}"
    seen = clinic.see(ZOOKEEPER, job=True)
    assert (
        seen["zookeeper-servers"].verdict == "problem"
        and "does not resolve" in seen["zookeeper-servers"].found
    )
    assert seen["zookeeper-session"].verdict == "problem"
    assert {seen[check].verdict for check in ("zookeeper-latency", "supervisor-id", "job-checkpoint")} == {
        "skipped"
    }


def test_one_server_of_three_is_down(site: Clinic) -> None:
    up = site.settings["zookeeper"]["hosts"].split(",")[:2]
    site.settings["zookeeper"]["hosts"] = ",".join([*up, closed_port()])
    seen = site.see(ZOOKEEPER)
    assert "the next loss stops everything" in seen["zookeeper-servers"].found
    assert seen["zookeeper-session"].verdict == "ok"


def test_what_zookeeper_grants_and_what_is_named(site: Clinic) -> None:
    site.settings["zookeeper"]["session_timeout"] = "5m"
    first = site.settings["zookeeper"]["hosts"].split(",")[0]
    site.settings["zookeeper"]["hosts"] = f"{first},{first.replace('127.0.0.1', 'localhost')}"
    seen = site.see(ZOOKEEPER)
    assert "ZooKeeper grants" in seen["zookeeper-session"].found
    assert "are one server" in seen["zookeeper-ensemble"].found


def test_a_root_that_others_own(site: Clinic, embedded_ensemble: EmbeddedEnsemble) -> None:
    kazoo = KazooClient(embedded_ensemble.hosts)
    kazoo.start(20)
    try:
        kazoo.add_auth("digest", "them:secret")
        kazoo.create(site.settings["zookeeper"]["root"], acl=[make_digest_acl("them", "secret", all=True)])
    finally:
        kazoo.stop()
        kazoo.close()
    seen = site.see(ZOOKEEPER)
    permissions = seen["zookeeper-permissions"]
    assert permissions.verdict == "problem" and "acl_admins" in permissions.remedy


def submit(site: Clinic) -> None:
    ran = subprocess.run(
        [*CALL, "--config", str(site.config), "submit", str(site.spec)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr


def test_what_the_registry_says_of_the_job(site: Clinic, zoo: ZooClient) -> None:
    submit(site)
    layout = Layout(site.settings["zookeeper"]["root"])
    assert site.see(ZOOKEEPER, job=True)["job-checkpoint"].verdict == "ok"  # its own claim
    me = Member(
        id="host-a",
        host="elsewhere.example",
        boot_id="another-boot",
        address="x:1",
        memory=1 << 28,
        drivers=2,
        starting=1,
        software="0.1.0",
        since="2026-11-21T00:00:00.000Z",
    )
    zoo.commit(Transaction("test", "x", (Create(layout.supervisor("host-a"), encode(me), ephemeral=True),)))
    site.job |= {
        "name": "other",
        "checkpoint": f"file://{site.home}/checkpoint/inside",
        "resources": {"memory": "1g"},
    }
    seen = site.see(ZOOKEEPER, job=True)
    assert "belongs to job clicks" in seen["job-checkpoint"].found
    assert seen["job-placement"].verdict == "problem"
    assert seen["supervisor-id"].verdict == "problem" and "elsewhere.example" in seen["supervisor-id"].found
    site.settings["cluster"] = "another"
    assert "belongs to cluster test" in site.see(ZOOKEEPER)["zookeeper-root"].found
    assert "belongs to cluster test" in site.see(STORE)["store-owner"].found


def test_a_supervisor_that_runs_here(site: Clinic, zoo: ZooClient) -> None:
    submit(site)
    lock = take_lock(site.home / "run")
    try:
        # runs, and is not registered
        assert site.see(ZOOKEEPER)["supervisor-id"].verdict == "problem"
        me = Member(
            id="host-a",
            host="here",
            boot_id=boot_id(),
            address="x:1",
            memory=1 << 28,
            drivers=2,
            starting=1,
            software="0.1.0",
            since="2026-11-21T00:00:00.000Z",
        )
        path = Layout(site.settings["zookeeper"]["root"]).supervisor("host-a")
        zoo.commit(Transaction("test", "x", (Create(path, encode(me), ephemeral=True),)))
        assert f"pid {os.getpid()}" in site.see(ZOOKEEPER)["supervisor-id"].found
        assert f"pid {os.getpid()}" in site.see(HOST)["open-files"].found
    finally:
        os.close(lock)
    # some other process of this host
    assert site.see(ZOOKEEPER)["supervisor-id"].verdict == "warning"


# -- this host ----------------------------------------------------------------------------------------------------


def test_unit_files(clinic: Clinic) -> None:
    clinic.unit = clinic.home / UNIT_NAME
    clinic.unit.write_text("[Service]\nExecStart=/x\n")
    seen = clinic.see(HOST)["service-unit"]
    assert seen.verdict == "problem" and "KillMode=control-group (the default)" in seen.found
    clinic.unit = REPOSITORY / "deploy" / "systemd" / UNIT_NAME
    # everything of the clinic is below /tmp
    assert clinic.see(HOST)["service-unit"].verdict == "ok"
    clinic.job |= {
        "packages": ["org.apache.spark:spark-sql-kafka-0-10_2.13:4.1.1"],
        "conf": {"spark.jars.ivy": "/srv/ivy"},
    }
    assert "spark.jars.ivy /srv/ivy" in clinic.see(HOST, job=True)["service-unit"].found
    clinic.job["checkpoint"] = "file:///mnt/shared%20by%20all"
    clinic.settings["store"]["url"] = "file:///srv/store"
    seen = clinic.see(HOST, job=True)["service-unit"]
    assert seen.verdict == "problem" and "store.url /srv/store, checkpoint /mnt/shared" in seen.found
    clinic.unit = clinic.home / UNIT_NAME
    clinic.unit.write_text((REPOSITORY / "deploy" / "systemd" / UNIT_NAME).read_text())
    (clinic.home / f"{UNIT_NAME}.d").mkdir()
    (clinic.home / f"{UNIT_NAME}.d" / "shared.conf").write_text("[Service]\nReadWritePaths=/srv /mnt\n")
    assert clinic.see(HOST, job=True)["service-unit"].verdict == "ok"


def test_a_taken_port_and_too_much_capacity(clinic: Clinic) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        clinic.settings["supervisor"]["http"] = f"127.0.0.1:{server.getsockname()[1]}"
        clinic.settings["supervisor"]["capacity"]["memory"] = "8000g"
        seen = clinic.see(HOST)
    assert seen["http"].verdict == "problem" and seen["memory"].verdict == "problem"


def test_a_file_where_a_directory_should_be(clinic: Clinic) -> None:
    (clinic.home / "run").write_text("x")
    clinic.settings["supervisor"]["log_dir"] = str(clinic.home / "run" / "log")
    seen = clinic.see(DIRECTORIES)
    assert seen["runtime-dir"].verdict == seen["log-dir"].verdict == "problem"


@pytest.mark.netns
@pytest.mark.parametrize(
    ("options", "check", "verdict"),
    [
        ("ro,size=64m", "runtime-dir", "problem"),
        ("noexec,size=64m", "runtime-dir", "warning"),
        ("size=4m", "log-dir", "problem"),
    ],
)
def test_mounts_that_do_not_fit(clinic: Clinic, options: str, check: str, verdict: str) -> None:
    place = clinic.home / "mounted"
    place.mkdir()
    requirements.need("mount")
    subprocess.run(["mount", "-t", "tmpfs", "-o", options, "none", str(place)], check=True)
    try:
        clinic.settings["supervisor"] |= {"runtime_dir": str(place), "log_dir": str(place)}
        assert clinic.see(DIRECTORIES)[check].verdict == verdict
    finally:
        subprocess.run(["umount", str(place)], check=True)


# -- the job ------------------------------------------------------------------------------------------------------


def test_files_and_secrets_of_the_job(clinic: Clinic) -> None:
    clinic.job |= {"py_files": ["lib.py"], "env": {"KEY": "${env:NO_SUCH_VARIABLE}"}}
    seen = clinic.see(JOB, job=True)
    assert seen["job-files"].verdict == "problem" and "lib.py" in seen["job-files"].found
    assert seen["job-secrets"].verdict == "warning" and "NO_SUCH_VARIABLE" in seen["job-secrets"].found
    (clinic.home / "lib.py").touch()
    assert clinic.see(JOB, job=True)["job-files"].verdict == "ok"


def test_an_application_on_s3(clinic: Clinic, moto_server: MotoServer, s3_bucket: str) -> None:
    clinic.settings["store"]["endpoint_url"] = moto_server.endpoint_url
    clinic.job["application"] = f"s3a://{s3_bucket}/jobs/app.py"
    assert clinic.see(JOB, job=True)["job-files"].verdict == "problem"
    moto_server.client().put_object(Bucket=s3_bucket, Key="jobs/app.py", Body=b"print(1)")
    assert clinic.see(JOB, job=True)["job-files"].verdict == "ok"


def test_packages_are_only_warned_of(clinic: Clinic, moto_server: MotoServer, s3_bucket: str) -> None:
    """The S3 server plays the Maven repository."""
    repository = f"{moto_server.endpoint_url}/{s3_bucket}"
    clinic.job |= {"packages": ["org.example:thing:1.0"], "conf": {"spark.jars.repositories": repository}}
    clinic.environ["no_proxy"] = "*"
    moto_server.client().put_object(
        Bucket=s3_bucket,
        Key="org/example/thing/1.0/thing-1.0.pom",
        Body=b"<project/>",
        ACL="public-read",
    )
    assert clinic.see(PACKAGES, job=True)["job-packages"].verdict == "ok"
    clinic.job["conf"] = {"spark.jars.ivySettings": "/x"}
    assert clinic.see(PACKAGES, job=True)["job-packages"].verdict == "skipped"
