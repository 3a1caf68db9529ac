"""``savepoint verify --deep`` with a real Spark on checkpoints that Spark wrote: every store opens, damage is named, nothing is
written there."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from supervisor.settings.spark import SparkSettings
from supervisor.spark.state_reading import OpenedStore, StateOf, open_state
from supervisor.spec.job import JobSpec
from supervisor.spec.s3a import S3Access
from tests.unit.checkpoint.golden import unpack

pytestmark = [pytest.mark.spark, pytest.mark.slow]

NAMES = ("hdfs-v1", "rocksdb-v1", "rocksdb-v1-changelog", "rocksdb-v2", "join", "files")


def newest_commit(checkpoint: Path) -> int:
    return max(int(path.name) for path in (checkpoint / "commits").iterdir() if path.name.isdigit())


def seen(directory: Path) -> dict[str, tuple[int, int]]:
    return {str(path): (path.stat().st_size, path.stat().st_mtime_ns) for path in directory.rglob("*")}


def test_every_store_opens_damage_is_named_and_nothing_is_written(tmp_path: Path) -> None:
    import os

    there = {name: unpack(name, tmp_path / "whole") for name in NAMES}
    damaged = unpack("hdfs-v1", tmp_path / "damaged")
    batch = newest_commit(damaged)
    for path in [*(damaged / "state" / "0" / "0").iterdir()]:
        if path.name.endswith(".crc"):
            path.unlink()  # Hadoop's own, which would tell it first
        elif path.is_file():
            path.write_bytes(path.read_bytes()[:10])
    before = seen(tmp_path / "whole") | seen(tmp_path / "damaged")
    work = tmp_path / "work"
    work.mkdir()
    opened = open_state(
        [
            *(
                StateOf(f"file://{place}", newest_commit(place), 2 if name.endswith("-v2") else 1)
                for name, place in there.items()
            ),
            StateOf(f"file://{damaged}", batch),
        ],
        SparkSettings(),
        None,
        S3Access(),
        work,
        dict(os.environ),
    )
    assert seen(tmp_path / "whole") | seen(tmp_path / "damaged") == before
    found: dict[str, list[OpenedStore]] = {}
    for store in opened:
        found.setdefault(
            Path(store.location.removeprefix("file:")).resolve().parent.name
            + "/"
            + Path(store.location).name,
            [],
        ).append(store)
    (bad,) = found.pop("damaged/hdfs-v1")
    assert bad.rows is None and bad.error, bad
    assert {name for name in found} == {f"whole/{name}" for name in NAMES if name != "files"}
    assert all(
        store.error is None and store.rows is not None for stores in found.values() for store in stores
    ), json.dumps([str(store) for store in opened], indent=1)
    assert len(found["whole/join"]) == 4
    assert all(store.rows for store in found["whole/hdfs-v1"])


def test_state_of_a_provider_of_the_jobs_own_says_what_it_needs(tmp_path: Path) -> None:
    """The checkpoint names the class; it is loaded from the host's jars or not at all."""
    import os

    place = unpack("hdfs-v1", tmp_path)
    batch = newest_commit(place)
    offsets = place / "offsets" / str(batch)
    text = offsets.read_text()
    offsets.write_text(
        text.replace(
            "org.apache.spark.sql.execution.streaming.state.HDFSBackedStateStoreProvider", "com.example.Own"
        )
    )
    assert offsets.read_text() != text
    (offsets.parent / f".{offsets.name}.crc").unlink()
    work = tmp_path / "work"
    work.mkdir()
    job = JobSpec(
        name="a",
        application="app.py",
        checkpoint=f"file://{place}",
        env={"SPARK_HOME": "/x", "PATH": "/y", "PYSPARK_PYTHON": "/z"},
    )
    (store,) = open_state(
        [StateOf(f"file://{place}", batch)], SparkSettings(), job, S3Access(), work, dict(os.environ)
    )
    assert store.rows is None and store.error is not None
    assert "com.example.Own" in store.error and "--job-code loads them" in store.error, store.error
