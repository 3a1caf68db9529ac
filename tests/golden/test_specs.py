"""The stored form of a spec, pinned byte for byte: agents of another version must read it, and its sha256 is its name."""

from __future__ import annotations

from pathlib import Path

from supervisor.spec.job import canonical_json, from_canonical, parse_spec, spec_sha256

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


def test_a_key_that_was_added_later_is_written_only_where_it_says_something() -> None:
    """An agent of the version before reads the others, and what was submitted to it is still the same spec."""
    silent = parse_spec(f"{FULL}checkpoint_fence: auto\n", "full.yaml")
    assert canonical_json(silent) == GOLDEN.read_bytes().removesuffix(b"\n")
    off = parse_spec(f"{FULL}checkpoint_fence: off\n", "full.yaml")
    assert b'"checkpoint_fence":"off"' in canonical_json(off)
    kept = parse_spec(f"{FULL}checkpoint_on_cancel: keep\n", "full.yaml")
    assert canonical_json(kept) == canonical_json(silent)
    deleted = parse_spec(f"{FULL}checkpoint_on_cancel: delete\n", "full.yaml")
    assert b'"checkpoint_on_cancel":"delete"' in canonical_json(deleted)
    assert from_canonical(canonical_json(off), "x") == off
    as_usual = "update: {prepare: session}\nstandby: {level: null, where: other, refresh: 1h}\n"
    assert canonical_json(parse_spec(f"{FULL}{as_usual}", "full.yaml")) == canonical_json(silent)
    cold = parse_spec(f"{FULL}update: {{prepare: off}}\n", "full.yaml")
    assert b'"update":{"prepare":"off"}' in canonical_json(cold)
    local = FULL.replace("spark://host:7077", "local[2]")
    standby = parse_spec(
        f"{local}update: {{prepare: session}}\nstandby: {{level: session, refresh: 30m}}\n", "full.yaml"
    )
    assert b'"standby":{"level":"session","refresh":"30m","where":"other"}' in canonical_json(standby)
    assert from_canonical(canonical_json(standby), "x") == standby
