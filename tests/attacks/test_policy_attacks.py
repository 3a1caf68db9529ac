"""What a person who can submit jobs tries against the operator's policy. Each attack works with the policy of the version
before, which allows everything, and not with that of ``conf/supervisor.secure.yaml``. README.md lists them.
"""

from __future__ import annotations

import os
import stat
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from supervisor.daemon.host.admission import admitted
from supervisor.model.records import Assignment, BlobRef, Cause
from supervisor.settings.file import Settings, load_settings
from supervisor.settings.policy import PolicySettings, SecretSettings
from supervisor.settings.sections import validated
from supervisor.spark.attempt_place import AttemptPlace
from supervisor.spark.driver_launch import make_launch
from supervisor.spark.driver_start import DriverStart
from supervisor.spark.environment import build_environment
from supervisor.spark.properties import parse_properties
from supervisor.spark.refusal import Refused
from supervisor.spark.secrets import Secrets
from supervisor.spark.toolchain import Toolchain
from supervisor.spec.job import JobSpec

SECURE = load_settings(Path(__file__).parents[2] / "conf" / "supervisor.secure.yaml", {})
OPEN = SECURE.model_copy(update={"policy": PolicySettings()})
ASSIGNED = Assignment(
    name="evil",
    uid="u1",
    attempt=1,
    revision=1,
    job_version=0,
    own_version=0,
    spec=BlobRef(key="k", sha256="00", bytes=1),
    memory=1,
)


def spec(**keys: Any) -> JobSpec:
    body = {"name": "evil", "application": "store:00/app.py", "checkpoint": "s3a://streams/evil", **keys}
    return validated(JobSpec, body, "evil.yaml")


def conf(**named: str) -> dict[str, Any]:
    return {"conf": {name.replace("__", "."): value for name, value in named.items()}}


OPTIONS = "spark.driver.extraJavaOptions"
ATTACKS: dict[str, tuple[dict[str, Any], str, str]] = {
    "a secret of the supervisor by its name": (
        {"env": {"X": "${env:AWS_SECRET_ACCESS_KEY}"}},
        "env X",
        "policy.secrets.env",
    ),
    "the same through conf": (
        conf(spark__x="${env:AWS_SECRET_ACCESS_KEY}"),
        "conf spark.x",
        "policy.secrets.env",
    ),
    "any file": ({"env": {"X": "${file:/etc/shadow}"}}, "env X", "policy.secrets.files"),
    "any file, through conf": (conf(spark__x="${file:/etc/shadow}"), "conf spark.x", "policy.secrets.files"),
    "the secret of another job": (
        {"env": {"X": "${file:/etc/spark-supervisor/secrets/payments/key}"}},
        "env X",
        "policy.secrets.files",
    ),
    "out of the own directory by dots": (
        {"env": {"X": "${file:/etc/spark-supervisor/secrets/evil/../payments/key}"}},
        "env X",
        "policy.secrets.files",
    ),
    "a checkpoint of another team": (
        {"checkpoint": "s3a://other-team/all"},
        "checkpoint",
        "policy.checkpoints",
    ),
    "credentials to an endpoint of one's own": (
        conf(spark__hadoop__fs__s3a__endpoint="http://evil.example"),
        "s3a://streams/evil",
        "policy.endpoints",
    ),
    "a plugin": (conf(spark__plugins="evil.Plugin"), "conf spark.plugins", "policy.conf.forbidden"),
    "a plugin by the list of defaults": (
        conf(spark__plugins__defaultList="evil.Plugin"),
        "conf spark.plugins.defaultList",
        "policy.conf.forbidden",
    ),
    "an agent in the JVM": (
        {"conf": {OPTIONS: "-javaagent:/tmp/evil.jar"}},
        f"conf {OPTIONS}",
        "policy.conf.forbidden",
    ),
    "the same as a default of the operator's": (
        conf(spark__driver__defaultJavaOptions="-javaagent:/tmp/evil.jar"),
        "conf spark.driver.defaultJavaOptions",
        "policy.conf.forbidden",
    ),
    "the same by a variable of spark-submit": (
        {"env": {"SPARK_SUBMIT_OPTS": "-javaagent:/tmp/evil.jar"}},
        "env SPARK_SUBMIT_OPTS",
        "policy.conf.forbidden",
    ),
    "the same by a variable of Java": (
        {"env": {"JDK_JAVA_OPTIONS": "@/tmp/options"}},
        "env JDK_JAVA_OPTIONS",
        "policy.conf.forbidden",
    ),
    "a directory of configuration": (
        {"env": {"SPARK_CONF_DIR": "/tmp/evil"}},
        "env SPARK_CONF_DIR",
        "policy.conf.forbidden",
    ),
    "a script that bash reads before spark-submit": (
        {"env": {"BASH_ENV": "/tmp/evil.sh"}},
        "env BASH_ENV",
        "policy.conf.forbidden",
    ),
    "another java on the path": ({"env": {"PATH": "/tmp/evil"}}, "env PATH", "policy.conf.forbidden"),
    "redaction is turned off": (
        conf(spark__redaction__regex="nothing"),
        "conf spark.redaction.regex",
        "policy.conf.forbidden",
    ),
    "code on a bucket, which may be another tomorrow": (
        {"application": "s3a://streams/app.py"},
        "application",
        "policy.in_place_files",
    ),
    "code on the host": ({"jars": ["local:/tmp/evil.jar"]}, "jars", "policy.in_place_files"),
    "code through conf": (conf(spark__jars="/tmp/evil.jar"), "conf spark.jars", "policy.in_place_files"),
    "code of a public repository": (
        {"packages": ["evil:evil:1"]},
        "packages",
        "policy.in_place_files",
    ),
    "code through a variable": (
        {"env": {"PYTHONPATH": "/tmp/evil"}},
        "env PYTHONPATH",
        "policy.in_place_files",
    ),
    "a library by the loader's own variable": (
        {"env": {"LD_AUDIT": "/tmp/evil.so"}},
        "env LD_AUDIT",
        "policy.conf.forbidden",
    ),
    "a converter of the C library": (
        {"env": {"GCONV_PATH": "/tmp"}},
        "env GCONV_PATH",
        "policy.conf.forbidden",
    ),
    "a command in the prompt of bash": (
        {"env": {"SHELLOPTS": "allexport:xtrace", "PS4": "$(id)"}},
        "env SHELLOPTS",
        "policy.conf.forbidden",
    ),
    "a function of bash": (
        {"env": {"BASH_FUNC_dirname": "() { :; }"}},
        "env BASH_FUNC_dirname",
        "policy.conf.forbidden",
    ),
    "another standard library": ({"env": {"PYTHONHOME": "/tmp"}}, "env PYTHONHOME", "policy.in_place_files"),
    "another home, with its ivy settings": ({"env": {"HOME": "/tmp"}}, "env HOME", "policy.in_place_files"),
    "a configuration of log4j from elsewhere": (
        {"env": {"LOG4J_CONFIGURATION_FILE": "http://evil.example/l.xml"}},
        "env LOG4J_CONFIGURATION_FILE",
        "policy.in_place_files",
    ),
    "an engine of OpenSSL": (
        {"env": {"OPENSSL_CONF": "/tmp/x"}},
        "env OPENSSL_CONF",
        "policy.in_place_files",
    ),
    "another user of HDFS": (
        {"env": {"HADOOP_PROXY_USER": "hdfs"}},
        "env HADOOP_PROXY_USER",
        "policy.in_place_files",
    ),
    "a variable that nobody has allowed": (
        {"env": {"NEW_LOADER": "/x"}},
        "env NEW_LOADER",
        "policy.env.allowed",
    ),
    "a class path by its default": (
        conf(spark__driver__defaultExtraClassPath="/tmp/evil.jar"),
        "conf spark.driver.defaultExtraClassPath",
        "policy.in_place_files",
    ),
    "a script that finds resources": (
        conf(spark__driver__resource__gpu__discoveryScript="/tmp/evil.sh"),
        "conf spark.driver.resource.gpu.discoveryScript",
        "policy.in_place_files",
    ),
    "a library in the executors": (
        conf(spark__executorEnv__LD_PRELOAD="/tmp/evil.so"),
        "conf spark.executorEnv.LD_PRELOAD",
        "policy.in_place_files",
    ),
    "an agent in YARN's master": (
        conf(spark__yarn__am__extraJavaOptions="-javaagent:/tmp/evil.jar"),
        "conf spark.yarn.am.extraJavaOptions",
        "policy.in_place_files",
    ),
    "an image": (
        conf(spark__kubernetes__container__image="evil/image"),
        "conf spark.kubernetes.container.image",
        "policy.in_place_files",
    ),
    "a template of pods": (
        conf(spark__kubernetes__executor__podTemplateFile="/tmp/pod.yaml"),
        "conf spark.kubernetes.executor.podTemplateFile",
        "policy.in_place_files",
    ),
    "a repository of jars": (
        conf(spark__jars__ivy="/tmp/ivy"),
        "conf spark.jars.ivy",
        "policy.in_place_files",
    ),
    "a command of Kerberos": (
        conf(spark__hadoop__hadoop__kerberos__kinit__command="/tmp/evil.sh"),
        "conf spark.hadoop.hadoop.kerberos.kinit.command",
        "policy.in_place_files",
    ),
    "the keytab of another job": (
        conf(spark__kerberos__keytab="/etc/spark-supervisor/secrets/payments/keytab"),
        "conf spark.kerberos.keytab",
        "policy.secrets.files",
    ),
    "the credentials of another job": (
        conf(spark__hadoop__hadoop__security__credential__provider__path="jceks://file/etc/x.jceks"),
        "conf spark.hadoop.hadoop.security.credential.provider.path",
        "policy.secrets.files",
    ),
    "another team's object, fetched with the supervisor's credentials": (
        {"py_files": ["s3://team-b/private/etl.py"], "sha256": {"s3://team-b/private/etl.py": "ab" * 32}},
        "py_files",
        "policy.in_place_locations",
    ),
    "more processes than one job may have": (
        {"resources": {"tasks": 100_000}},
        "resources.tasks",
        "policy.resources.max.tasks",
    ),
    "another Python": (
        {"env": {"PYSPARK_PYTHON": "/tmp/evil"}},
        "env PYSPARK_PYTHON",
        "policy.in_place_files",
    ),
}


@pytest.mark.parametrize(("keys", "key", "rule"), ATTACKS.values(), ids=ATTACKS)
def test_it_is_refused_by_the_host_and_says_key_and_rule(keys: dict[str, Any], key: str, rule: str) -> None:
    with pytest.raises(Refused) as caught:
        admitted(spec(**keys), SECURE, "host1")
    assert caught.value.cause is Cause.POLICY
    assert str(caught.value).startswith(f"{key}: ") and rule in str(caught.value)
    assert "host1" in str(caught.value)


@pytest.mark.parametrize(("keys", "key", "rule"), ATTACKS.values(), ids=ATTACKS)
def test_without_the_rule_it_works(keys: dict[str, Any], key: str, rule: str) -> None:
    if rule == "policy.endpoints":  # its default is safe
        return
    assert admitted(spec(**keys), OPEN, "host1") == spec(**keys)


def test_a_job_that_asks_for_no_limit_gets_that_of_the_operator() -> None:
    """A fork bomb was the submitter's choice: null was no limit, over the operator's defaults."""
    job = spec(resources={"tasks": None, "memory_limit": None})
    limits = admitted(job, SECURE, "h").limits()
    assert limits is not None and limits.tasks == 4000
    assert admitted(job, OPEN, "h").limits() is None


PLUGINS = SECURE.model_copy(
    update={"policy": validated(PolicySettings, {"conf": {"forbidden": ["spark.plugins"]}}, "x")}
)
ENDPOINT = SECURE.model_copy(
    update={
        "policy": validated(
            PolicySettings, {"conf": {"forced": {"spark.hadoop.fs.s3a.proxy.host": "proxy"}}}, "x"
        )
    }
)


@pytest.mark.parametrize(
    "options",
    [
        "-Dspark.plugins=evil",
        '"-Dspark.plugins=evil"',
        "-Dspark.plug''ins=evil",
        "-Xss1m -Dspark.Plugins=evil",
    ],
)
@pytest.mark.parametrize("name", [OPTIONS, "spark.driver.defaultJavaOptions"])
def test_a_property_among_java_options_counts_as_one(name: str, options: str) -> None:
    """Spark reads them as if they stood in conf, and the policy forbids that property only."""
    for keys in ({"conf": {name: options}}, {"env": {"SPARK_SUBMIT_OPTS": options}}):
        with pytest.raises(Refused, match="policy.conf.forbidden"):
            admitted(spec(**keys), PLUGINS, "h")
    assert admitted(spec(conf={name: "-Dspark.other=1 -Xss1m"}), PLUGINS, "h")


@pytest.mark.parametrize(
    "options", ["@/tmp/file", "-XX:VMOptionsFile=/tmp/f", "-XX:Flags=f", "${file:/etc/spark-supervisor/x}"]
)
def test_java_options_that_stand_elsewhere_are_refused(options: str) -> None:
    with pytest.raises(Refused, match="Java options that stand elsewhere"):
        admitted(spec(conf={OPTIONS: options}), PLUGINS, "h")


@pytest.mark.parametrize(
    "name", ["spark.hadoop.fs.s3a.bucket.streams.proxy.host", "spark.hadoop.fs.s3a.bucket.a.b.c.proxy.host"]
)
def test_what_is_forced_is_not_undone_for_one_bucket(name: str) -> None:
    with pytest.raises(Refused, match=r"policy\.conf\.forced"):
        admitted(spec(conf={name: "evil"}), ENDPOINT, "h")


def test_what_is_forced_takes_the_place_of_what_the_job_says() -> None:
    given = admitted(spec(conf={"spark.ui.enabled": "true", "spark.x": "1"}), SECURE, "h")
    assert given.conf == {"spark.ui.enabled": "false", "spark.x": "1"}


# -- on the host --------------------------------------------------------------------------------------------------


@dataclass
class Host:
    """A host: ``secrets`` is where the job's own are."""

    root: Path

    def __post_init__(self) -> None:
        self.secrets = self.root / "secrets" / "evil"
        self.secrets.mkdir(parents=True)
        self.rules = SecretSettings(files=(f"{self.root}/secrets/{{job}}/*",), env=("JOB_*",))

    def file(self, path: Path, text: str = "hush") -> Path:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        path.chmod(0o600)
        return path

    def read(self, path: Path, environ: dict[str, str] | None = None) -> str:
        return Secrets(environ or {}, self.rules, "evil").of_env("X", f"${{file:{path}}}")


@pytest.fixture
def host(tmp_path: Path) -> Host:
    return Host(tmp_path)


def test_a_link_in_the_own_directory_leads_to_no_other_file(host: Host) -> None:
    other = host.file(host.root / "secrets" / "payments" / "key")
    (host.secrets / "key").symlink_to(other)
    with pytest.raises(Refused, match="leads elsewhere") as caught:
        host.read(host.secrets / "key")
    assert caught.value.cause is Cause.NO_ACCESS and "hush" not in str(caught.value)
    (host.secrets / "up").symlink_to(host.root / "secrets" / "payments")
    with pytest.raises(Refused, match="leads elsewhere"):
        host.read(host.secrets / "up" / "key")


def test_a_link_within_the_own_directory_is_followed(host: Host) -> None:
    """Kubernetes mounts secrets so."""
    real = host.file(host.secrets / "..2026_11" / "key")
    (host.secrets / "key").symlink_to(real)
    assert host.read(host.secrets / "key") == "hush"


@pytest.mark.parametrize("mode", [0o620, 0o602, 0o666])
def test_a_file_that_others_can_write_to_is_no_secret(host: Host, mode: int) -> None:
    path = host.file(host.secrets / "key")
    path.chmod(mode)
    with pytest.raises(Refused, match="can be written by others") as caught:
        host.read(path)
    assert caught.value.cause is Cause.NO_ACCESS
    path.chmod(0o440)
    assert host.read(path) == "hush"


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root to give a file away")
def test_a_file_of_another_user_is_no_secret(host: Host) -> None:
    path = host.file(host.secrets / "key")
    os.chown(path, 12345, 12345)
    with pytest.raises(Refused, match="owner 12345"):
        host.read(path)


def test_a_pipe_blocks_no_start(host: Host) -> None:
    os.mkfifo(host.secrets / "pipe")
    with pytest.raises(Refused, match="no regular file"):
        host.read(host.secrets / "pipe")


def test_a_driver_gets_nothing_of_the_supervisor_but_what_is_inherited() -> None:
    environ = {
        "PATH": "/bin",
        "LANG": "C.UTF-8",
        "AWS_SECRET_ACCESS_KEY": "hush",
        "JOB_TOKEN": "own",
        "LD_PRELOAD": "x",
    }
    tools = Toolchain(Path("/opt/spark"), Path("/usr/bin/python3"), None, "4.1.0")
    given = spec(env={"TOKEN": "${env:JOB_TOKEN}"})
    env = build_environment(given, ASSIGNED, tools, environ, Path("/report"), SECURE.policy)
    assert {name for name in env if not name.startswith("SPARK_SUPERVISOR_")} == {
        *("PATH", "LANG", "SPARK_HOME", "PYSPARK_PYTHON", "TOKEN"),
    }
    assert env["TOKEN"] == "own" and "hush" not in env.values()
    before = build_environment(given, ASSIGNED, tools, environ, Path("/report"))
    assert before["AWS_SECRET_ACCESS_KEY"] == "hush"


# -- files in place -----------------------------------------------------------------------------------------------

Start = Callable[..., dict[str, str]]


@pytest.fixture
def start(tmp_path: Path) -> Start:
    """Prepares a start, and returns the properties of the driver."""
    home = tmp_path / "spark"
    for directory in ("bin", "jars"):
        (home / directory).mkdir(parents=True)
    (home / "bin" / "spark-submit").touch(0o755)
    (home / "jars" / "spark-core_2.13-4.1.2.jar").touch()
    body = {
        "cluster": "test",
        "zookeeper": {"hosts": "zk1:2181"},
        "store": {"url": f"file://{tmp_path}/store"},
        "spark": {"home": str(home)},
    }
    settings = validated(Settings, body, "supervisor.yaml")
    environ = {"PATH": "/bin", "PYSPARK_PYTHON": sys.executable, "JOB_KEY": "hush"}

    def run(given: JobSpec, policy: PolicySettings = SECURE.policy) -> dict[str, str]:
        place = AttemptPlace(
            "h",
            tmp_path / "attempts",
            tmp_path / "work",
            tmp_path / "log",
            environ=environ,
            state_dir=tmp_path / "state",
        )
        make_launch(
            DriverStart(given, ASSIGNED, settings.model_copy(update={"policy": policy}), place),
            lambda _: app(tmp_path),
        )
        properties = tmp_path / "work" / "spark.properties"
        assert stat.S_IMODE(properties.stat().st_mode) == 0o600
        return parse_properties(properties.read_text())

    return run


def app(directory: Path) -> Path:
    path = directory / "app.py"
    path.write_text("pass")
    return path


def test_a_pinned_file_that_was_changed_is_not_started(start: Start, tmp_path: Path) -> None:
    jar = tmp_path / "lib.jar"
    jar.write_bytes(b"good")
    pinned = {f"local:{jar}": "770e607624d689265ca6c44884d0807d9b054d23c473c106c72be9de08b7376c"}
    given = spec(jars=[f"local:{jar}"], sha256=pinned, checkpoint="file:///ck")
    used = Path(start(given)["spark.jars"])
    assert used.read_bytes() == b"good"
    assert used.is_relative_to(tmp_path / "work")  # a copy: a change after the check changes nothing
    jar.write_bytes(b"evil")
    with pytest.raises(Refused, match=r"sha256: local:.*lib\.jar is another file") as caught:
        start(given)
    assert caught.value.cause is Cause.BAD_ARTIFACT
    assert not used.exists()
    unpinned = given.model_copy(update={"sha256": {}})
    assert start(unpinned)["spark.jars"] == f"local:{jar}"  # so it was before


def test_a_secret_in_conf_is_in_the_properties_and_nowhere_else(start: Start) -> None:
    found = start(spec(conf={"spark.token": "${env:JOB_KEY}", "spark.text": "a ${env:JOB_KEY}"}))
    assert found["spark.token"] == "hush"
    assert found["spark.text"] == "a ${env:JOB_KEY}"  # for Spark, as before
    with pytest.raises(Refused) as caught:
        start(spec(conf={"spark.token": "${env:PATH}"}))
    assert caught.value.cause is Cause.POLICY


def test_what_the_job_may_not_name_the_host_does_not_read_either(host: Host) -> None:
    """The judge of the spec comes first; this is for whoever starts a driver without it."""
    host.file(host.root / "other" / "key")
    with pytest.raises(Refused) as caught:
        host.read(host.root / "other" / "key")
    assert caught.value.cause is Cause.POLICY
    with pytest.raises(Refused):
        Secrets({"HUSH": "x"}, host.rules, "evil").of_env("X", "${env:HUSH}")
    host.rules = SecretSettings()
    assert host.read(host.root / "other" / "key") == "hush"
