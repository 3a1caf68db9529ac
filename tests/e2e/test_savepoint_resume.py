"""A job is suspended with a savepoint, goes on, and goes back to it: real Spark, real S3 calls, a real registry.

Its batches up to the savepoint, and those from there on, must be those of a run that nobody disturbed: none twice, none missing,
each with the state that all rows before it have made. What it did between counts for nothing, and stays where it was.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from supervisor.demo.ensemble import EmbeddedEnsemble
from tests.testbed.moto import MotoServer
from tests.testbed.spark_fleet import SinkBatch, SparkFleet
from tests.waiting import wait_until

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(3600)]

JOB = "back"
PATIENCE_S = 900.0
"""Four cold starts of Spark on a busy machine; nothing is asserted about time."""
HEALTH = {"start_timeout": "15m", "stall_timeout": "15m"}


@dataclass
class ReturningFleet(SparkFleet):
    """Of the first ``judged_batches`` batches those after ``kept`` count for nothing any more: the job has gone back."""

    judged_batches: int = 0
    kept: int = 0

    def batches(self, name: str) -> list[SinkBatch]:
        found = super().batches(name)
        return [each for each in found[: self.judged_batches] if each.batch_id <= self.kept] + found[
            self.judged_batches :
        ]

    def go_back(self, name: str, batch: int) -> None:
        self.judge()
        self.judged_batches, self.kept = len(SparkFleet.batches(self, name)), batch


@pytest.fixture
def fleet(
    embedded_ensemble: EmbeddedEnsemble,
    moto_server: MotoServer,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[ReturningFleet]:
    with ReturningFleet.on_moto(
        embedded_ensemble, moto_server, tmp_path_factory.mktemp("back"), lease_s=60.0
    ) as made:
        yield made


def objects(s3: Any, location: str) -> dict[str, str]:
    """Key → ETag."""
    bucket, _, prefix = location.partition("://")[2].partition("/")
    pages = s3.get_paginator("list_objects_v2").paginate(Bucket=bucket, Prefix=f"{prefix}/")
    return {item["Key"]: item["ETag"] for page in pages for item in page.get("Contents", ())}


def first_batch_after(fleet: SparkFleet, before: int) -> SinkBatch:
    return wait_until(
        lambda: next(iter(fleet.batches(JOB)[before:]), None), PATIENCE_S, "a batch of the next attempt"
    )


def test_back_to_a_savepoint_and_from_there_as_if_nothing_had_happened(
    fleet: ReturningFleet, moto_server: MotoServer
) -> None:
    s3 = moto_server.client()
    fleet.submit(JOB, health=HEALTH, savepoints={"sink": "repeats"})
    fleet.wait_batches(JOB, timeout_s=PATIENCE_S)
    assert "verified" in fleet.ok("suspend", JOB, "--savepoint", "before").out
    saved = json.loads(fleet.ok("savepoint", "show", JOB, "before", "-o", "json").out)
    (query,) = saved["queries"]
    assert query["batch"] in (fleet.last_batch(JOB), fleet.last_batch(JOB) - 1)

    fleet.ok("resume", JOB)  # what it does from here on is to be undone
    fleet.wait_batches(JOB, timeout_s=PATIENCE_S)
    fleet.ok("suspend", JOB, "--wait")
    assert fleet.last_batch(JOB) > query["batch"] + 1
    old = fleet.show(JOB)["checkpoint"]
    left = objects(s3, old)

    fleet.go_back(JOB, query["batch"])
    kept = len(fleet.batches(JOB))
    fleet.ok("resume", JOB, "--from-savepoint", "before")
    assert first_batch_after(fleet, kept).batch_id == query["batch"] + 1
    fleet.wait_batches(JOB, timeout_s=PATIENCE_S)
    fleet.judge()
    fresh = fleet.show(JOB)["checkpoint"]
    assert fresh.startswith(f"{old}.from-before-") and objects(s3, old) == left
    fleet.ok("checkpoint", "verify", JOB)

    fleet.ok("suspend", JOB, "--wait")  # the copy is looked after like any checkpoint
    for key in objects(s3, fresh):
        s3.delete_object(Bucket=fleet.bucket, Key=key)
    fleet.ok("resume", JOB)
    row = wait_until(
        lambda: [row for row in [fleet.show(JOB)] if row["state"] == "quarantined"], PATIENCE_S, "quarantine"
    )[0]
    assert "missing or empty" in row["reason"] and "--from-savepoint" in row["reason"]
    fleet.go_back(JOB, query["batch"])
    fleet.ok("resume", JOB, "--from-savepoint", "before")
    assert first_batch_after(fleet, kept).batch_id == query["batch"] + 1
    fleet.wait_batches(JOB, timeout_s=PATIENCE_S)
    fleet.ok("cancel", JOB, "--wait")
