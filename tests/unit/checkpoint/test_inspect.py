"""Checkpoints that Spark wrote, as they are seen on a file system and on S3."""

from __future__ import annotations

import bisect
import dataclasses
import errno
import os
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from supervisor.checkpoint import inspect as module
from supervisor.checkpoint.inspect import inspect
from supervisor.checkpoint.judge import judge
from supervisor.checkpoint.layout import in_words
from supervisor.checkpoint.picture import Checkpoint
from supervisor.clients.store.base import StoreEntry
from supervisor.clients.store.tree import Level, open_tree
from supervisor.errors import AccessDenied, Corrupt, NotFound
from supervisor.spec.s3a import S3Access
from tests.testbed.moto import MotoServer
from tests.unit.checkpoint.golden import NAMES, inspected, only, unpack


def upload(directory: Path, server: MotoServer, bucket: str, prefix: str = "ck") -> str:
    """As the rename manager leaves it: with directory markers."""
    client = server.client()
    for path in sorted(directory.rglob("*")):
        key = f"{prefix}/{path.relative_to(directory)}"
        if path.is_dir():
            client.put_object(Bucket=bucket, Key=f"{key}/", Body=b"")
        else:
            client.put_object(Bucket=bucket, Key=key, Body=path.read_bytes())
    client.put_object(Bucket=bucket, Key=f"{prefix}/", Body=b"")
    return f"s3a://{bucket}/{prefix}"


@pytest.mark.parametrize("name", NAMES)
def test_what_spark_wrote_is_good(name: str, tmp_path: Path) -> None:
    checkpoint = inspected(unpack(name, tmp_path))
    assert judge(checkpoint) == ()
    assert only(checkpoint).lag == (0 if name == "files" else 1)


def test_every_object_is_counted_once(tmp_path: Path) -> None:
    for name in NAMES:
        directory = unpack(name, tmp_path)
        sizes = [path.stat().st_size for path in directory.rglob("*") if path.is_file()]
        amount = inspected(directory).amount
        assert (amount.objects, amount.bytes) == (len(sizes), sum(sizes)), name


def test_the_parts_of_a_stateful_query(tmp_path: Path) -> None:
    query = only(inspected(unpack("rocksdb-v2", tmp_path)))
    assert query.id == "3ccde098-86af-47c1-b2f1-c836465e46e0"
    assert (query.offsets.runs, query.commits.runs, query.wanted) == (((0, 5),), ((0, 4),), 5)
    (operator,) = query.operators
    assert (operator.number, operator.name, operator.partitions, operator.format) == (
        "0",
        "stateStoreSave",
        2,
        2,
    )
    assert operator.kinds == ("changelog",)
    assert query.checksums_read == 2
    assert query.newest_offset is not None
    assert query.newest_offset.value is not None
    assert query.newest_offset.value.sources == ('{"offset":180,"timestamp":1700000006000}',)
    assert query.newest_offset.value.conf["spark.sql.shuffle.partitions"] == "2"
    assert query.newest_commit is not None
    assert query.newest_commit.value is not None
    assert query.newest_commit.value.state_ids["0"][1] == ("0d0a993d-1059-4716-89fc-1fd2c4d934b2",)


def test_a_state_file_that_is_too_large_to_be_compared_is_counted_as_such(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    checkpoint = unpack("rocksdb-v2", tmp_path)
    sizes = [store.needed_bytes for store in only(inspected(checkpoint)).operators[0].stores]
    monkeypatch.setattr(module, "CHECKED_MAX_BYTES", min(sizes) - 1)
    query = only(inspected(checkpoint))
    assert (query.checksums_read, query.checksums_left) == (0, 2)


def test_a_join_has_four_stores_in_each_partition(tmp_path: Path) -> None:
    (operator,) = only(inspected(unpack("join", tmp_path))).operators
    assert len(operator.stores) == 8
    assert {store.newest for store in operator.stores} == {5}


def test_queries_in_directories_below_the_location(tmp_path: Path) -> None:
    unpack("files", tmp_path)
    unpack("hdfs-v1", tmp_path)
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes" / "readme").write_text("mine")
    checkpoint = inspected(tmp_path)
    assert [query.path for query in checkpoint.queries] == ["files", "hdfs-v1"]
    assert checkpoint.others.objects == 1
    assert checkpoint.queries[1].metadata.key == "hdfs-v1/metadata"
    assert judge(checkpoint) == ()


def test_nothing_there(tmp_path: Path) -> None:
    assert inspected(tmp_path).queries == ()
    assert inspected(tmp_path / "not" / "there").queries == ()


def test_a_directory_that_may_not_be_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(directory: int) -> None:
        raise PermissionError(errno.EACCES, "Permission denied")

    (tmp_path / "ck").mkdir()
    monkeypatch.setattr(os, "scandir", refuse)  # root may read everything
    with pytest.raises(AccessDenied):
        inspected(tmp_path / "ck")


def without_places(checkpoint: Checkpoint) -> Any:
    """The figures, without what differs between two stores: times, the location, requests."""

    def plain(value: Any) -> Any:
        if isinstance(value, dict):
            return {
                key: plain(each)
                for key, each in value.items()
                if not key.endswith("_s") and key not in ("location", "requests")
            }
        return [plain(each) for each in value] if isinstance(value, list | tuple) else value

    return plain(dataclasses.asdict(checkpoint))


@pytest.mark.parametrize("name", ["hdfs-v1", "rocksdb-v2", "join"])
def test_the_same_on_s3_as_on_a_file_system(
    name: str, tmp_path: Path, moto_server: MotoServer, s3_bucket: str
) -> None:
    directory = unpack(name, tmp_path)
    location = upload(directory, moto_server, s3_bucket)
    there = inspected(location, S3Access(moto_server.endpoint_url))
    assert without_places(there) == without_places(inspected(directory))
    assert there.location == f"s3://{s3_bucket}/ck"
    assert 0 < there.requests <= 25


def test_requests_follow_pages_not_objects(moto_server: MotoServer, s3_bucket: str) -> None:
    """600 state files in 24 partitions: eight shares of one page, and a few requests for the rest. Attempts are counted, and a
    busy server causes second ones."""
    client = moto_server.client()
    client.put_object(Bucket=s3_bucket, Key="ck/metadata", Body=b'{"id":"q"}')
    client.put_object(Bucket=s3_bucket, Key="ck/offsets/99", Body=b"v1\n{}\n1")
    client.put_object(Bucket=s3_bucket, Key="ck/commits/99", Body=b"v1\n{}")
    for partition in range(24):
        for version in range(1, 26):
            client.put_object(Bucket=s3_bucket, Key=f"ck/state/0/{partition}/{version + 75}.delta", Body=b"x")
    tree = open_tree(f"s3://{s3_bucket}/ck", S3Access(moto_server.endpoint_url))
    assert tree is not None
    reported: list[int] = []
    query = only(inspect(tree, report_progress=reported.append))
    assert sum(store.newest == 100 for store in query.operators[0].stores) == 24
    assert sum(reported) >= 600
    assert tree.requests < 100, tree.requests


class Huge:
    """A hundred thousand state files, listed as S3 does. A page of the state is given out when eight ask at the same time."""

    location = "s3://bucket/huge"

    def __init__(self) -> None:
        self.requests = 0
        small = ["metadata", "offsets/499", "commits/499"]
        self.keys = sorted([*small, *(f"state/0/{p}/{v}.delta" for p in range(200) for v in range(1, 501))])
        self._together = threading.Barrier(module.SHARES)
        self._met = threading.local()

    def level(self, folder: str) -> Level:
        self.requests += 1
        if folder == "":
            return Level(("commits", "offsets", "state"), (StoreEntry("metadata", 10, 0.0),))
        return Level({"state": ("0",), "state/0": tuple(str(p) for p in range(200))}[folder], ())

    def entries(self, folder: str, after: str = "", at_once: int = 1000) -> Iterator[StoreEntry]:
        at = max(bisect.bisect_right(self.keys, after), bisect.bisect_left(self.keys, f"{folder}/"))
        if folder == "state":
            self._together.wait(30)
        for number, key in enumerate(self.keys[at : bisect.bisect_left(self.keys, f"{folder}0")]):
            self.requests += number % at_once == 0
            yield StoreEntry(key, 10, 1.0)

    def read(self, key: str, max_bytes: int) -> bytes:
        self.requests += 1
        found = {
            "metadata": b'{"id":"q"}',
            "offsets/499": b"v1\n{}\n1",
            "offsets/498": b"v1\n{}\n1",
            "commits/499": b"v1\n{}",
        }
        if key not in found:
            raise NotFound(key)
        return found[key]


def test_a_hundred_thousand_objects_are_listed_in_parallel_and_told_of_as_they_come() -> None:
    tree, reported = Huge(), list[int]()
    checkpoint = inspect(tree, checksums=True, report_progress=reported.append)
    assert judge(checkpoint) == ()
    assert checkpoint.amount.objects == len(tree.keys) > 100_000
    assert only(checkpoint).operators[0].partitions == 200
    assert sum(reported) >= 100_000 and max(reported) <= module.REPORTED_EVERY
    assert tree.requests < 150, tree.requests


def test_trees_agree_on_listing(tmp_path: Path, moto_server: MotoServer, s3_bucket: str) -> None:
    """Bytewise order over directories whose names are prefixes of others, and starting behind any key."""
    keys = ["a", "a-b/1", "a/1", "a/10", "a/2", "a0", "b/c/d", "b/c.d", ".hidden/x", "ü/1"]
    for key in keys:
        (tmp_path / key).parent.mkdir(parents=True, exist_ok=True)
        if key != "a":
            (tmp_path / key).write_bytes(b"1")
            moto_server.client().put_object(Bucket=s3_bucket, Key=f"p/{key}", Body=b"1")
    trees = [
        open_tree(str(tmp_path), S3Access()),
        open_tree(f"s3://{s3_bucket}/p", S3Access(moto_server.endpoint_url)),
    ]
    wanted = sorted((key for key in keys if key != "a"), key=lambda key: key.encode())
    for tree in trees:
        assert tree is not None
        assert [entry.key for entry in tree.entries("")] == wanted
        for at, key in enumerate(wanted):
            assert [entry.key for entry in tree.entries("", key, 2)] == wanted[at + 1 :]
        assert [entry.key for entry in tree.entries("a", "a/1")] == ["a/10", "a/2"]
        assert tree.level("b").folders == ("c",)
        assert [entry.key for entry in tree.level("b").objects] == ["c.d"]
        assert tree.read("a0", 10) == b"1"
        with pytest.raises(Corrupt):
            tree.read("a0", 0)
        with pytest.raises(NotFound):
            tree.read("none", 10)


@pytest.mark.parametrize(
    ("source", "words"),
    [
        (None, "nothing yet"),
        ("17", "offset 17"),
        ('{"logOffset":2}', "files up to entry 2 of its file log"),
        ('{"clicks":{"0":5,"1":7}}', "Kafka, clicks: 2 partitions, 12 records"),
        ("raw text", "raw text"),
        ('{"offset":180,"timestamp":1}', "offset 180"),
        ('{"shard":"x"}', '{"shard":"x"}'),
        ('{"reservoirVersion":3,"index":-1}', "Delta table version 3, index -1"),
        ("x" * 300, "x" * 99 + "…"),
    ],
)
def test_offsets_in_words(source: str | None, words: str) -> None:
    assert in_words(source) == words
