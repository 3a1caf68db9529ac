"""supervisor.yaml: defaults, the environment above it, and one sentence for every mistake."""

from __future__ import annotations

import socket
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from supervisor.errors import InvalidInput
from supervisor.settings import yaml_text
from supervisor.settings.file import Settings, lease_warnings, load_settings, settings_path
from supervisor.settings.sections import known_keys

MINIMAL = """
cluster: prod
zookeeper: {hosts: "zk1:2181, zk2:2182,zk3"}
store: {url: "s3://bucket/prefix//"}
"""

Load = Callable[..., Settings]


@pytest.fixture
def load(tmp_path: Path) -> Load:
    def load(text: str = MINIMAL, environ: Mapping[str, str] | None = None) -> Settings:
        path = tmp_path / "supervisor.yaml"
        path.write_text(text)
        return load_settings(path, environ or {})

    return load


def test_defaults_are_those_of_the_contract(load: Load) -> None:
    settings = load()
    assert settings.zookeeper.hosts == "zk1:2181,zk2:2182,zk3:2181"
    assert (settings.zookeeper.root, settings.zookeeper.session_timeout_s) == ("/spark-supervisor", 10.0)
    assert (settings.store.url, settings.store.endpoint_url, settings.store.region) == (
        "s3://bucket/prefix",
        None,
        None,
    )
    assert settings.supervisor.id == socket.gethostname()
    assert settings.supervisor.http == "127.0.0.1:8780"
    assert settings.supervisor.runtime_dir == Path("/run/spark-supervisor")
    assert settings.supervisor.log_dir == Path("/var/log/spark-supervisor")
    logs = settings.supervisor.logs
    assert (logs.per_job_bytes, logs.per_host_bytes) == (1 << 30, 10 << 30)
    capacity = settings.supervisor.capacity
    assert (capacity.memory_bytes, capacity.drivers, capacity.starting) == (16 << 30, 20, 2)
    assert (settings.spark.home, settings.spark.java_home, settings.spark.submit_timeout_s) == (
        None,
        None,
        120.0,
    )
    assert (settings.defaults.lease_s, settings.defaults.stop_grace_s) == (30.0, 30.0)
    restart = settings.defaults.restart
    assert (restart.strategy, restart.initial_s, restart.max_s, restart.jitter) == (
        "exponential",
        1.0,
        300.0,
        0.2,
    )
    assert (restart.reset_after_s, restart.attempts, restart.on_exhausted) == (600.0, None, "fail")
    assert (settings.defaults.health.start_timeout_s, settings.defaults.health.stall_timeout_s) == (
        300.0,
        600.0,
    )
    assert settings.defaults.resources.memory_bytes == 1 << 30


@pytest.mark.parametrize(
    ("more", "says"),
    [
        ("zokeeper: {}", "unknown key 'zokeeper' in {file}; did you mean 'zookeeper'?"),
        ("spark: {hoem: /x}", "unknown key 'spark.hoem' in {file}; did you mean 'spark.home'?"),
        ("supervisor: {capacity: {mem: 1g}}", "did you mean 'supervisor.capacity.memory'?"),
        ("notify: [{urls: x}]", "unknown key 'notify[0].urls' in {file}; did you mean 'notify[0].url'?"),
        ("spark: {qqqq: 1}", "known here: class_archive, environments_dir, home, java_home, "),
        (
            "spark: {submit_timeout: 120}",
            "{file}: spark.submit_timeout is a number without a unit; write 120s for seconds",
        ),
        ("spark: {home: relative}", "spark.home must be an absolute path"),
        ("spark: {home: 5}", "spark.home must be"),
        ("spark: {versions: {'4.1': {}}}", "spark.versions.4.1.home is missing"),
        ("spark: {versions: {4.1: {home: x}}}", "spark.versions.4.1.home must be an absolute path"),
        ("spark: {versions: {4.1: {hom: /x}}}", "unknown key 'spark.versions.4.1.hom'"),
        ("spark: {versions: {'a b': {home: /x}}}", "spark.versions holds 'a b', which is no name"),
        (
            f"spark: {{versions: {{{', '.join(f'v{n}: {{home: /x}}' for n in range(9))}}}}}",
            "spark.versions has 9 versions, and 8 are the most",
        ),
        ("spark: {pythons: [python3]}", "spark.pythons[0] 'python3' is no absolute path"),
        ("spark: {pythons: [/opt/../x]}", "without '..'"),
        ("defaults: {lease: 4999ms}", "defaults.lease is 4999ms, outside of what is allowed (5s to 5m)"),
        ("defaults: {lease: 6m}", "outside of what is allowed"),
        ("defaults: {restart: {strategy: exponental}}", "did you mean 'exponential'?"),
        ("defaults: {restart: {strategy: failure-rate}}", "needs attempts"),
        ("defaults: {restart: {strategy: failure-rate, attempts: 65}}", "at most 64"),
        ("defaults: {restart: {initial: 10m}}", "raise max"),
        ("defaults: {restart: {jitter: 1.5}}", "defaults.restart.jitter must be at most 1.0"),
        ("defaults: {conf: {a.b: c}}", "begin with 'spark.'"),
        ("defaults: {conf: {spark.master: local}}", "use the key master of the spec"),
        ("supervisor: {capacity: {drivers: '20'}}", "drivers must be a whole number, not text"),
        ("supervisor: {capacity: {drivers: 1.5}}", "drivers must be a whole number"),
        ("supervisor: {capacity: {starting: 0}}", "starting must be at least 1"),
        ("supervisor: {capacity: 20}", "supervisor.capacity must be a mapping, not a number"),
        ("supervisor: {http: 8780}", "supervisor.http must be text, not a number; put it in quotes"),
        ("supervisor: {http: 'localhost'}", "is not host:port"),
        ("supervisor: {http: 'localhost:99999'}", "up to 65535"),
        ("supervisor: {id: a/b}", "supervisor.id must consist of"),
        ("supervisor: {runtime_dir: /run/../x}", "without '..'"),
        ("cluster: prod", "given twice"),
    ],
)
def test_a_mistake_is_one_sentence_with_key_and_file(
    load: Load, tmp_path: Path, more: str, says: str
) -> None:
    with pytest.raises(InvalidInput) as caught:
        load(MINIMAL + more)
    assert says.format(file=tmp_path / "supervisor.yaml") in str(caught.value)
    assert str(tmp_path / "supervisor.yaml") in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("ZOOKEEPER__HOSTS", value)
        for value in ["", "a:b", "a:1,,b:2", "a:1/chroot", "a b:1", "a:0", "a:70000", ":1"]
    ]
    + [
        ("ZOOKEEPER__ROOT", value)
        for value in ["", "/", "x", "/x/", "/x//y", "/x/../y", "/zookeeper/x", "/x\ty"]
    ]
    + [
        ("STORE__URL", value)
        for value in [
            "",
            "bucket",
            "s3a://bucket/x",
            "s3://b/x",
            "s3://UPPER/x",
            "file://host/x",
            "file:///",
            "http://x/y",
            "s3://bucket/../x",
            "s3://bucket/x?y",
        ]
    ]
    + [
        ("STORE__ENDPOINT_URL", value)
        for value in ["x", "ftp://x", "http://", "http://u:p@x", "http://x:port"]
    ]
    + [("ZOOKEEPER__SESSION_TIMEOUT", value) for value in ["10", "0s", "6m", "-1s"]]
    + [
        ("STORE__REGION", "a b"),
        ("CLUSTER", "a/b"),
        ("SUPERVISOR__CAPACITY__MEMORY", "16"),
        ("SUPERVISOR__CAPACITY__DRIVERS", "x"),
        ("ZOOKEEPER__HOST", "x"),
        ("ZOKEEPER__HOSTS", "x"),
        ("DEFAULTS__RESTART", "[1"),
        ("DEFAULTS__RESTART__MAXX", "1s"),
        ("STORE", "x"),
        ("CLUSTER__X", "y"),
        ("", "x"),
        ("STORE__", "x"),
        ("SPARK__HOME", "/a\0b"),
    ],
)
def test_a_mistake_in_the_environment_names_the_variable(load: Load, key: str, value: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        load(environ={f"SPARK_SUPERVISOR__{key}": value})
    assert f"SPARK_SUPERVISOR__{key}" in str(caught.value)


def test_the_environment_overrides_any_key(load: Load) -> None:
    settings = load(
        environ={
            "SPARK_SUPERVISOR__ZOOKEEPER__HOSTS": "other:2181",
            "SPARK_SUPERVISOR__SUPERVISOR__CAPACITY__DRIVERS": "7",
            "SPARK_SUPERVISOR__SUPERVISOR__CAPACITY__MEMORY": "4g",
            "SPARK_SUPERVISOR__SUPERVISOR__ID": "0017",
            "SPARK_SUPERVISOR__STORE__REGION": "",
            "SPARK_SUPERVISOR__DEFAULTS__RESTART": "{strategy: fixed, initial: 3s}",
            "SPARK_SUPERVISOR__DEFAULTS__RESTART__ATTEMPTS": "3",
            "SPARK_SUPERVISOR__DEFAULTS__RESTART__JITTER": "0.5",
            "SPARK_SUPERVISOR__DEFAULTS__CONF": "{spark.ui.enabled: false}",
            "SPARK_SUPERVISOR_CONFIG": "/not/read",
            "SPARK_SUPERVISOR_JOB": "somebody's",
        }
    )
    assert settings.zookeeper.hosts == "other:2181"
    assert (settings.supervisor.capacity.drivers, settings.supervisor.capacity.memory_bytes) == (7, 4 << 30)
    assert settings.supervisor.id == "0017"
    assert settings.store.region is None
    restart = settings.defaults.restart
    assert (restart.strategy, restart.initial_s, restart.attempts, restart.jitter) == ("fixed", 3.0, 3, 0.5)
    assert settings.defaults.conf == {"spark.ui.enabled": "false"}


def test_every_key_can_be_overridden(load: Load) -> None:
    """Each key is set to nonsense; the sentence must name the variable, so the override arrived where it belongs."""

    def leaves(prefix: tuple[str, ...] = ()) -> list[tuple[str, ...]]:
        keys = known_keys(Settings, prefix)
        return [leaf for key in keys for leaf in leaves((*prefix, key))] if keys else [prefix]

    for path in leaves():
        name = "SPARK_SUPERVISOR__" + "__".join(path).upper()
        with pytest.raises(InvalidInput, match=name):
            load(environ={name: "\0"})


def test_labels_of_a_host_keep_their_spelling(load: Load) -> None:
    assert load(f"{MINIMAL}supervisor: {{labels: {{zone: a, rack: 07}}}}").supervisor.labels == {
        "zone": "a",
        "rack": "07",
    }
    environ = {"SPARK_SUPERVISOR__SUPERVISOR__LABELS": "{zone: b}"}
    assert load(environ=environ).supervisor.labels == {"zone": "b"}
    with pytest.raises(InvalidInput, match=r"supervisor\.labels\.zone 'a b' must be 1 to 63 letters"):
        load(f"{MINIMAL}supervisor: {{labels: {{zone: a b}}}}")


def test_null_id_means_the_host_name(load: Load) -> None:
    assert load(MINIMAL + "supervisor: {id: null}").supervisor.id == socket.gethostname()
    assert load(environ={"SPARK_SUPERVISOR__SUPERVISOR__ID": ""}).supervisor.id == socket.gethostname()


def test_which_file_is_read(tmp_path: Path) -> None:
    assert settings_path(None, {}) == Path("/etc/spark-supervisor/supervisor.yaml")
    assert settings_path(None, {"SPARK_SUPERVISOR_CONFIG": "/a"}) == Path("/a")
    assert settings_path(Path("/b"), {"SPARK_SUPERVISOR_CONFIG": "/a"}) == Path("/b")


def test_a_missing_or_unreadable_file_is_named(tmp_path: Path) -> None:
    (tmp_path / "binary").write_bytes(b"\xff\xfe\xfd")
    (tmp_path / "huge").write_bytes(b"#" * 300_000)
    for name in ("absent", ".", "binary", "huge"):
        with pytest.raises(InvalidInput, match=str(tmp_path / name)):
            load_settings(tmp_path / name, {})


def test_without_a_file_the_environment_may_say_everything(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("supervisor.settings.file.DEFAULT_PATH", tmp_path / "absent.yaml")
    with pytest.raises(InvalidInput, match=r"absent\.yaml does not exist; name one with --config"):
        load_settings(None, {})
    environ = {"SPARK_SUPERVISOR__CLUSTER": "c", "SPARK_SUPERVISOR__STORE__URL": "file:///x/"}
    with pytest.raises(InvalidInput, match="does not exist.*zookeeper is missing"):
        load_settings(None, environ)
    settings = load_settings(None, {**environ, "SPARK_SUPERVISOR__ZOOKEEPER__HOSTS": "[::1]:2181,h"})
    assert (settings.store.url, settings.zookeeper.hosts) == ("file:///x", "[::1]:2181,h:2181")


def test_a_short_lease_is_warned_of() -> None:
    assert lease_warnings(30, 10) == ()
    (warning,) = lease_warnings(15, 10)
    assert warning.remedy == "use a lease of 21s or more"
    assert lease_warnings(21, 10) == ()
    assert lease_warnings(20, 10) != ()


@pytest.mark.parametrize("text", ["[" * 20_000, "{a: " * 20_000, "[[]," * 20_000, "- " * 20_000])
def test_deep_nesting_is_refused_before_all_of_it_is_read(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    opened = []
    real = yaml_text.yaml.SafeLoader.fetch_flow_collection_start

    def counted(loader: Any, token: Any) -> None:
        opened.append(token)
        real(loader, token)

    monkeypatch.setattr(yaml_text.yaml.SafeLoader, "fetch_flow_collection_start", counted)
    with pytest.raises(InvalidInput, match="nested too deeply"):
        yaml_text.read_value(text, "x")
    assert len(opened) <= 2 * yaml_text.BRACKETS_MAX
    assert yaml_text.read_value("[" * 100 + "]" * 100, "x") is not None
