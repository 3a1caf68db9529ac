"""A job whose checkpoint is gone, or is another one, is not started: real Spark, real S3 calls, a real registry."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from supervisor.demo.ensemble import EmbeddedEnsemble
from tests.testbed.moto import MotoServer
from tests.testbed.spark_fleet import START_S, SinkBatch, SparkFleet
from tests.waiting import wait_until

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(1200)]

JOB = "lost"
REPEATS = {"sink": "repeats"}


@dataclass
class FreshFleet(SparkFleet):
    """``fresh_from``: so many batches were there, and judged, when a fresh start was accepted; they begin anew after that."""

    fresh_from: int = 0

    def batches(self, name: str) -> list[SinkBatch]:
        return super().batches(name)[self.fresh_from :]

    def begin_anew(self, name: str) -> None:
        self.judge()
        self.fresh_from += len(self.batches(name))


@pytest.fixture
def fleet(
    embedded_ensemble: EmbeddedEnsemble,
    moto_server: MotoServer,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[FreshFleet]:
    with FreshFleet.on_moto(embedded_ensemble, moto_server, tmp_path_factory.mktemp("lost")) as made:
        yield made


def objects(s3: Any, fleet: SparkFleet) -> dict[str, bytes]:
    pages = s3.get_paginator("list_objects_v2").paginate(Bucket=fleet.bucket, Prefix=f"checkpoints/{JOB}/")
    keys = [item["Key"] for page in pages for item in page.get("Contents", ())]
    return {key: s3.get_object(Bucket=fleet.bucket, Key=key)["Body"].read() for key in keys}


def refused(fleet: SparkFleet, *words: str) -> None:
    """Quarantined, for a reason with these words; no driver was started."""
    before = len(fleet.starts(JOB))

    def said() -> bool:
        row = fleet.show(JOB)
        return row["state"] == "quarantined" and all(
            word in row["reason"] for word in (*words, "--accept-fresh-start")
        )

    wait_until(said, START_S, f"{JOB} to be quarantined: {words}", period_s=0.5)
    assert len(fleet.starts(JOB)) == before


def next_batch(fleet: SparkFleet, uid: str) -> SinkBatch:
    """The first batch of the newest attempt."""
    before = len(fleet.batches(JOB))
    return wait_until(
        lambda: next((b for b in fleet.batches(JOB)[before:] if b.uid == uid), None), START_S, "a batch"
    )


def test_no_start_from_nothing_nor_from_the_checkpoint_of_another(
    fleet: FreshFleet, moto_server: MotoServer
) -> None:
    s3 = moto_server.client()
    first = fleet.submit(JOB, savepoints=REPEATS)
    fleet.wait_batches(JOB)
    fleet.ok("suspend", JOB, "--wait")
    fleet.ok("checkpoint", "verify", JOB)
    whole = objects(s3, fleet)
    for key in whole:
        s3.delete_object(Bucket=fleet.bucket, Key=key)
    fleet.ok("resume", JOB)
    refused(fleet, "missing or empty", fleet.checkpoint(JOB).replace("s3a://", "s3://"))
    assert objects(s3, fleet) == {}

    fleet.ok("cancel", JOB, "--wait")
    second = fleet.submit(JOB, savepoints=REPEATS)
    assert second != first
    refused(fleet, "missing or empty")  # what is remembered survives the uid

    for key, data in whole.items():
        s3.put_object(
            Bucket=fleet.bucket,
            Key=key,
            Body=b'{"id":"another"}' if key.endswith(f"{JOB}/metadata") else data,
        )
    fleet.ok("resume", JOB)
    refused(fleet, "another")

    key = f"checkpoints/{JOB}/metadata"
    s3.put_object(Bucket=fleet.bucket, Key=key, Body=whole[key])
    last = fleet.last_batch(JOB)
    fleet.ok("resume", JOB)
    assert next_batch(fleet, second).batch_id >= last  # it goes on from where it was

    fleet.ok("suspend", JOB, "--wait")
    for key in objects(s3, fleet):
        s3.delete_object(Bucket=fleet.bucket, Key=key)
    fleet.begin_anew(JOB)
    fleet.ok("resume", JOB, "--accept-fresh-start")
    assert next_batch(fleet, second).batch_id == 0
    fleet.ok("cancel", JOB, "--wait")
