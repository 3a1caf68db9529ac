"""The stored form of a spec, pinned byte for byte: agents of another version must read it, and its sha256 is its name."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from supervisor.settings.sections import Section, is_later
from supervisor.spec.job import JobSpec, canonical_json, from_canonical, parse_spec, spec_sha256

GOLDEN = Path(__file__).parent / "specs" / "full.v1.json"

FULL = """
name: clicks-per-minute
application: s3://bucket/jobs/clicks.py
args: ["--topic", "clicks", "{checkpoint}", "größer\\n"]
py_files: ["local:/opt/lib.zip"]
jars: ["s3a://bucket/extra.jar"]
packages: ["org.apache.spark:spark-sql-kafka-0-10_2.13:4.1.1"]
launch: session
entry: clicks.main:run
master: "spark://host:7077"
conf: {spark.sql.shuffle.partitions: 8, spark.ui.enabled: false, spark.some.version: 1.10}
env: {TOKEN: "${env:CLICKS_TOKEN}", MODE: fast}
checkpoint: s3a://bucket/checkpoints/clicks
unbounded: false
resources: {memory: 1536m, priority: 7}
lease: 20s
stop_grace: 1500ms
restart: {strategy: failure-rate, initial: 2s, max: 90s, jitter: 0, reset_after: 1h, attempts: 5, on_exhausted: suspend}
health: {start_timeout: 90s, stall_timeout: 15m}
"""


def test_the_stored_form_is_the_golden_file() -> None:
    spec = parse_spec(FULL, "full.yaml")
    data = GOLDEN.read_bytes().removesuffix(b"\n")
    assert canonical_json(spec) == data
    assert from_canonical(data, "golden") == spec
    assert spec_sha256(spec) == "4b5450cba77408e0191f626cbb977feb73480320e02e8640da43ee24013ef8d7"


LOCAL = FULL.replace("spark://host:7077", "local[2]")
"""A prepared driver has no cluster of its own."""

SPOKEN: dict[str, tuple[str, str, bytes]] = {
    "restart.memory_step": (
        FULL.replace("attempts: 5", "attempts: 5, memory_step: 1.5, memory_max: 2g"),
        "",
        b'"memory_step":1.5',
    ),
    "restart.memory_max": (
        FULL.replace("attempts: 5", "attempts: 5, memory_step: 1.5, memory_max: 2g"),
        "",
        b'"memory_max":"2g"',
    ),
    "resources.memory_limit": (
        FULL.replace("priority: 7", "priority: 7, memory_limit: 2g"),
        "",
        b'"memory_limit":"2g"',
    ),
    "resources.cpu": (FULL.replace("priority: 7", "priority: 7, cpu: 1.5"), "", b'"cpu":1.5'),
    "health.cluster_timeout": (
        FULL.replace("start_timeout: 90s", "start_timeout: 90s, cluster_timeout: 20m"),
        "",
        b'"cluster_timeout":"20m"',
    ),
    "health.failed_query": (
        FULL.replace("start_timeout: 90s", "start_timeout: 90s, failed_query: restart"),
        "",
        b'"failed_query":"restart"',
    ),
    "resources.tasks": (FULL.replace("priority: 7", "priority: 7, tasks: 500"), "", b'"tasks":500'),
    "logs.every": (
        f"{FULL}logs: {{upload: on_exit, every: 5m}}\n",
        "logs: {every: null}",
        b'"logs":{"every":"5m","keep":20,"upload":"on_exit"}',
    ),
    "files": (
        f'{FULL}files: ["local:/opt/etl_config.json"]\n',
        "files: []",
        b'"files":["local:/opt/etl_config.json"]',
    ),
    "run_as": (f"{FULL}run_as: etl\n", "run_as: null", b'"run_as":"etl"'),
    "checkpoint_fence": (
        f"{FULL}checkpoint_fence: off\n",
        "checkpoint_fence: auto",
        b'"checkpoint_fence":"off"',
    ),
    "checkpoint_on_cancel": (
        f"{FULL}checkpoint_on_cancel: delete\n",
        "checkpoint_on_cancel: keep",
        b'"checkpoint_on_cancel":"delete"',
    ),
    "savepoints": (f"{FULL}savepoints: {{every: 1h, keep: 5, sink: transactional}}\n", "", b'"savepoints":{'),
    "logs": (
        f"{FULL}logs: {{keep: 5, upload: on_exit}}\n",
        "logs: {upload: off}",
        b'"logs":{"keep":5,"upload":"on_exit"}',
    ),
    "update": (
        f"{FULL}update: {{prepare: off}}\n",
        "update: {prepare: session}",
        b'"update":{"prepare":"off"}',
    ),
    "update.mode": (
        f"{FULL}update: {{mode: manual}}\n",
        "",
        b'"update":{"mode":"manual","prepare":"session"}',
    ),
    "update.observe": (
        f"{FULL}update: {{observe: 7m}}\n",
        "",
        b'"update":{"observe":"7m","prepare":"session"}',
    ),
    "update.failures": (
        f"{FULL}update: {{failures: 2}}\n",
        "",
        b'"update":{"failures":2,"prepare":"session"}',
    ),
    "update.rollback": (
        f"{FULL}update: {{rollback: never}}\n",
        "",
        b'"update":{"prepare":"session","rollback":"never"}',
    ),
    "savepoints.sink": (
        f"{FULL}savepoints: {{every: 1h, sink: repeats}}\n",
        "savepoints: {sink: null}",
        b'"savepoints":{"every":"1h","keep":8,"max_age":null,"sink":"repeats"}',
    ),
    "standby": (
        f"{LOCAL}update: {{prepare: session}}\nstandby: {{level: session, refresh: 30m}}\n",
        "standby: {level: null, where: other, refresh: 1h}",
        b'"standby":{"level":"session","refresh":"30m","where":"other"}',
    ),
    "labels": (
        f"{FULL}labels: {{team: web, tier: 1}}\n",
        "labels: {}",
        b'"labels":{"team":"web","tier":"1"}',
    ),
    "placement": (
        f"{FULL}placement: {{require: {{zone: a}}, spread: host, group: web}}\n",
        "placement: {require: {}, spread: null, group: null}",
        b'"placement":{"group":"web","require":{"zone":"a"},"spread":"host"}',
    ),
    "cluster": (
        f"{FULL}cluster: prod\n".replace('master: "spark://host:7077"\n', ""),
        "cluster: null",
        b'"cluster":"prod"',
    ),
    "sha256": (
        f"{FULL}sha256: {{'local:/opt/lib.zip': {'ab' * 32}}}\n",
        "sha256: {}",
        b'"sha256":{"local:/opt/lib.zip":"abab',
    ),
    "python": (
        f"{FULL}python: {{archive: 's3://bucket/env.tar.gz'}}\n",
        "python: {interpreter: null, archive: null}",
        b'"python":{"archive":"s3://bucket/env.tar.gz","interpreter":null}',
    ),
    "spark": (f'{FULL}spark: "4.1"\n', "spark: null", b'"spark":"4.1"'),
}
"""Each key that was added later: a spec in which it says something, a line in which it says nothing, what is written."""


def later_keys(section: type[Section], above: str = "") -> Iterator[str]:
    """Each key that came after version 0.1, by its path (``restart.memory_step``)."""
    for name, field in section.model_fields.items():
        path = f"{above}{field.alias or name}"
        if is_later(field):
            yield path
        if isinstance(field.annotation, type) and issubclass(field.annotation, Section):
            yield from later_keys(field.annotation, f"{path}.")


def test_each_key_that_was_added_later_has_a_row() -> None:
    assert SPOKEN.keys() == set(later_keys(JobSpec)), "add a row to SPOKEN"


@pytest.mark.parametrize("key", SPOKEN)
def test_a_key_that_was_added_later_is_written_only_where_it_says_something(key: str) -> None:
    """An agent of the version before reads the others, and what was submitted to it is still the same spec."""
    spoken, silent, written = SPOKEN[key]
    spec = parse_spec(spoken, "full.yaml")
    assert written in canonical_json(spec)
    assert from_canonical(canonical_json(spec), "x") == spec
    assert canonical_json(parse_spec(f"{FULL}{silent}\n", "full.yaml")) == GOLDEN.read_bytes().removesuffix(
        b"\n"
    )
