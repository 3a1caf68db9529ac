"""The preflight beside the preparation of a start: what it refuses, what it lets pass, and when it does not look at all."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from pathlib import Path

import pytest
import structlog

from supervisor.daemon.host.preflight import KnownCheckpoint, check_of
from supervisor.errors import Unreachable
from supervisor.model.checkpoint_expectation import CheckpointExpectation, place_of
from supervisor.model.records import PERMANENT_CAUSES, Assignment, BlobRef, Cause
from supervisor.spark.refusal import Refused
from supervisor.spec.s3a import S3Access
from tests.testbed.moto import AWS_ENV
from tests.unit.checkpoint.golden import unpack

GIVEN = Assignment(
    name="a",
    uid="u",
    attempt=2,
    revision=1,
    job_version=0,
    own_version=0,
    spec=BlobRef(key="specs/x.json", sha256="0" * 64, bytes=1),
    memory=1,
)
WORDS = ("ff7b2486-db9c-40b5-91ab-94bbc3f36e3d 12",)


def start(location: str | None, words: tuple[str, ...] = WORDS, conf: Mapping[str, str] | None = None) -> str:
    """What was prepared meanwhile."""
    remembered = CheckpointExpectation(place=place_of(location), queries=words) if location else None
    check_of(GIVEN, KnownCheckpoint(location, remembered), S3Access(), lambda: conf or {}).wait_for_answer()
    return "prepared"


def test_the_checkpoint_that_the_job_left(tmp_path: Path) -> None:
    with structlog.testing.capture_logs() as logs:
        assert start(str(unpack("hdfs-v1", tmp_path))) == "prepared"
    assert [line["event"] for line in logs] == ["checkpoint_checked"]


def test_one_that_is_gone_is_refused_for_good(tmp_path: Path) -> None:
    checkpoint = unpack("hdfs-v1", tmp_path)
    shutil.rmtree(checkpoint)
    with pytest.raises(Refused, match="missing or empty.*--accept-fresh-start") as refused:
        start(str(checkpoint))
    assert refused.value.cause is Cause.BAD_CHECKPOINT
    assert Cause.BAD_CHECKPOINT in PERMANENT_CAUSES
    assert not checkpoint.exists()


@pytest.mark.parametrize(
    ("location", "words"),
    [(None, WORDS), ("/none", ()), ("s3a://bucket/none", ()), ("hdfs://host/ck", WORDS)],
)
def test_where_there_is_nothing_to_compare(location: str | None, words: tuple[str, ...]) -> None:
    assert start(location, words) == "prepared"


def test_what_this_host_may_not_look_at_is_started_and_said(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in AWS_ENV:
        monkeypatch.delenv(name, raising=False)
    for name in ("AWS_CONFIG_FILE", "AWS_SHARED_CREDENTIALS_FILE", "AWS_EC2_METADATA_DISABLED"):
        monkeypatch.setenv(name, AWS_ENV[name])
    with structlog.testing.capture_logs() as logs:
        assert start("s3a://bucket/ck") == "prepared"
    assert [line["event"] for line in logs] == ["checkpoint_not_checked"]


def test_no_answer_starts_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    def down(*_: object) -> None:
        raise Unreachable("the store does not answer")

    monkeypatch.setattr("supervisor.daemon.host.preflight.preflight", down)
    with pytest.raises(Unreachable):
        start("/data/ck")


def test_a_first_start_where_another_job_was(tmp_path: Path) -> None:
    """Refused if anything is there: its rows would be counted on from the other job's state."""
    checkpoint = unpack("files", tmp_path)
    known = KnownCheckpoint(str(checkpoint), CheckpointExpectation(place=place_of(str(checkpoint))), "old")
    with pytest.raises(Refused, match="what job old left there.*--accept-fresh-start"):
        check_of(GIVEN, known, S3Access(), dict).wait_for_answer()
    shutil.rmtree(checkpoint)
    check_of(GIVEN, known, S3Access(), dict).wait_for_answer()
