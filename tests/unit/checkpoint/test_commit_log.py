"""The newest committed batch, from listings of every kind and in every order in which a log can grow."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import boto3
import pytest
from hypothesis import given
from hypothesis import strategies as st

from supervisor.checkpoint.commit_log import (
    CommitLog,
    CommittedBatch,
    StoreListing,
    open_commit_log,
)
from supervisor.clients.store.open import open_store
from supervisor.errors import AccessDenied, InvalidInput, Unreachable
from supervisor.spec.s3a import S3Access
from tests.testbed.moto import MotoServer

NOISE = (".0.crc", ".7.1f2e.tmp", "__tmp", "9.compact", "+8", "٣", "1e3", "-5", " 6")


class Checkpoint:
    """A checkpoint that tests write to."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def put(self, key: str) -> None:
        path = self.root / key
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()

    def write(self, key: str, data: bytes) -> None:
        (self.root / key).write_bytes(data)

    def open(self) -> CommitLog | None:
        return open_commit_log(f"file://{self.root}", S3Access())


class FileStoreCheckpoint(Checkpoint):
    def open(self) -> CommitLog | None:
        return CommitLog(StoreListing(open_store(f"file://{self.root}")))


class S3Checkpoint:
    def __init__(self, endpoint_url: str, bucket: str) -> None:
        self.endpoint_url, self.bucket = endpoint_url, bucket
        self.client = boto3.client("s3", endpoint_url=endpoint_url)

    def put(self, key: str) -> None:
        self.write(key, b"")

    def write(self, key: str, data: bytes) -> None:
        self.client.put_object(Bucket=self.bucket, Key=f"deep/ck/{key}", Body=data)

    def open(self) -> CommitLog | None:
        return open_commit_log(f"s3a://{self.bucket}/deep/ck/", S3Access(self.endpoint_url))


@pytest.fixture(params=["directory", "file store", "s3"])
def checkpoint(request: pytest.FixtureRequest, tmp_path: Path) -> Checkpoint | S3Checkpoint:
    if request.param == "s3":
        server: MotoServer = request.getfixturevalue("moto_server")
        return S3Checkpoint(server.endpoint_url, request.getfixturevalue("s3_bucket"))
    root = tmp_path / "ck"
    root.mkdir()
    return FileStoreCheckpoint(root) if request.param == "file store" else Checkpoint(root)


def test_a_log_that_grows(checkpoint: Checkpoint | S3Checkpoint) -> None:
    log = checkpoint.open()
    assert log is not None
    assert log.newest() is None
    checkpoint.put("offsets/0")
    checkpoint.put("metadata")
    checkpoint.put("sources/0/0")
    assert log.newest() is None
    for name in NOISE:
        checkpoint.put(f"commits/{name}")
    assert log.newest() is None
    for batch in (0, 8, 9, 10, 11, 98, 101, 99, 1000):
        checkpoint.put(f"commits/{batch}")
        newest = log.newest()
        assert newest is not None
        assert newest.batch_id >= batch
    assert log.newest() == CommittedBatch("", 1000)
    fresh = checkpoint.open()
    assert fresh is not None
    assert fresh.newest() == CommittedBatch("", 1000)


def test_several_queries_below_one_location(checkpoint: Checkpoint | S3Checkpoint) -> None:
    log = checkpoint.open()
    assert log is not None
    checkpoint.put("a/commits/3")
    assert log.newest() == CommittedBatch("a", 3)
    checkpoint.put("a0/commits/5")
    checkpoint.put("note.txt")
    assert log.newest() == CommittedBatch("a0", 5)
    assert log.newest() == CommittedBatch("a0", 5)
    checkpoint.put("a/commits/4")
    assert log.newest() == CommittedBatch("a", 4)


def test_directory_markers_are_no_batches(moto_server: MotoServer, s3_bucket: str) -> None:
    checkpoint = S3Checkpoint(moto_server.endpoint_url, s3_bucket)
    for key in ("", "commits/", "commits/7/", "state/"):
        checkpoint.put(key)
    checkpoint.put("commits/4")
    log = checkpoint.open()
    assert log is not None
    assert log.newest() == CommittedBatch("", 4)


def test_other_file_systems_are_not_judged() -> None:
    assert open_commit_log("hdfs://namenode/ck", S3Access()) is None


def test_a_location_that_is_none() -> None:
    with pytest.raises(InvalidInput):
        open_commit_log("relative/ck", S3Access())


def test_unreadable_is_not_empty(tmp_path: Path) -> None:
    (tmp_path / "ck").mkdir()
    loop = tmp_path / "ck" / "commits"
    os.symlink(loop, loop)
    log = open_commit_log(f"file://{tmp_path}/ck", S3Access())
    assert log is not None
    with pytest.raises(AccessDenied, match="is not followed"):
        log.newest()


def test_a_missing_bucket_is_not_empty(moto_server: MotoServer, aws_env: dict[str, str]) -> None:
    log = open_commit_log("s3a://no-such-bucket-here/ck", S3Access(moto_server.endpoint_url))
    assert log is not None
    with pytest.raises((AccessDenied, Unreachable)):
        log.newest()


class Sorted:
    """A listing in memory that gives no more than it must."""

    def __init__(self) -> None:
        self.numbers: set[int] = set()
        self.listed = 0

    def names(self, directory: str, after: str = "") -> Iterator[str]:
        for name in sorted(map(str, self.numbers)):
            if name > after:
                self.listed += 1
                yield name

    def directories(self) -> Iterator[str]:
        return iter(())


@given(st.lists(st.integers(1, 5_000), min_size=1, max_size=12), st.integers(0, 300_000))
def test_growth_is_always_seen_at_the_next_look_but_one(steps: list[int], start: int) -> None:
    """100 batches are kept; each look shows progress when there was any, and two looks show the newest."""
    listing, batch = Sorted(), start
    log = CommitLog(listing)
    seen = -1
    for step in steps:
        batch += step
        listing.numbers = set(range(max(0, batch - 99), batch + 1))
        first = log.newest()
        assert first is not None
        assert first.batch_id > seen
        second = log.newest()
        assert second == CommittedBatch("", batch)
        seen = batch


def test_a_long_log_is_not_listed_again_and_again() -> None:
    listing = Sorted()
    listing.numbers = set(range(200_000, 203_000))
    log = CommitLog(listing)
    log.newest()
    listing.listed = 0
    for batch in range(203_000, 203_020):
        listing.numbers.add(batch)
        assert log.newest() == CommittedBatch("", batch)
    assert listing.listed == 20


def test_a_query_without_a_batch_under_way_waits_for_data(tmp_path: Path) -> None:
    log = open_commit_log(str(tmp_path), S3Access())
    assert log is not None
    assert not log.waits_for_data(), "nothing was ever committed"
    for directory in ("offsets", "commits"):
        (tmp_path / directory).mkdir()
        (tmp_path / directory / "7").touch()
    log.newest()
    assert log.waits_for_data()
    (tmp_path / "offsets" / "8").touch()
    assert not log.waits_for_data(), "batch 8 has begun and not ended"


def test_the_committed_batches_by_query_id(checkpoint: Checkpoint | S3Checkpoint) -> None:
    log = checkpoint.open()
    assert log is not None
    checkpoint.put("commits/3")
    assert log.newest() is not None
    assert log.committed() == {}  # its metadata is not there yet
    checkpoint.write("metadata", b'{"id":"query-1"}')
    checkpoint.put("commits/4")
    log.newest()
    assert log.committed() == {"query-1": 4}
