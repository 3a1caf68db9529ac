"""Where a query writes is reported with each batch, and is remembered beside what it has committed."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from supervisor.model.checkpoint_expectation import CheckpointExpectation, to_be_expected
from supervisor.model.records import Lease
from supervisor.model.sinks import NamedSink
from supervisor.shim import queries
from supervisor.shim.fitting import fitting
from supervisor.shim.reports import parse
from supervisor.shim.state import InPlace, Life
from tests.golden.sample_records import SAMPLES
from tests.unit.shim.world import LAUNCH

DELTA = ["org.apache.spark.sql.delta.sources.DeltaSink", "DeltaSink[s3a://b/t]"]


def reported(**fields: Any) -> tuple[InPlace, ...]:
    body = {"event": "progress", "id": "q", "batch_id": 3, "checkpoint": "/ck", **fields}
    found = parse(json.dumps(body).encode())
    assert found is not None
    return found.committed


def test_a_report_names_the_sink() -> None:
    assert [each.sink for each in reported(sink=DELTA)] == [NamedSink("delta", "s3a://b/t")]


@pytest.mark.parametrize("odd", [None, "x", [], ["a"], ["a", 1], [1, 2], ["a", "b", "c"], {"a": 1}, ["", ""]])
def test_one_that_is_no_sink_is_none(odd: Any) -> None:
    assert [each.sink for each in reported(sink=odd)] == [None]


def test_it_is_remembered_with_the_newest_batch_and_travels_to_the_next_start() -> None:
    env = {"SPARK_SUPERVISOR_CHECKPOINT": "/ck"}
    launch = replace(LAUNCH, env=env, remembered=CheckpointExpectation(place="place"))
    life = Life(committed=reported(sink=DELTA))
    known = queries.remembered(launch, life)
    assert known is not None and known.sinks == ("q 3 delta s3a://b/t",)
    later = queries.remembered(
        replace(launch, remembered=known), Life(committed=reported(sink=DELTA, batch_id=4))
    )
    assert later is not None and later.sinks == ("q 4 delta s3a://b/t",)
    for location in ("/ck", "/elsewhere"):
        expected = to_be_expected(location, "accepted", later, None)
        assert expected is not None and expected.sinks == later.sinks, "a sink is no matter of a place"
    strays = queries.remembered(launch, Life(committed=reported(sink=DELTA, checkpoint="/tmp/x")))
    assert strays is not None and strays.sinks == ()


def test_the_lease_gives_up_sinks_before_what_the_next_start_must_find() -> None:
    lease = next(each for each in SAMPLES if isinstance(each, Lease))
    assert lease.remembered is not None
    full = replace(lease.remembered, sinks=tuple(f"q{n} 1 file s3a://b/{'x' * 150}" for n in range(8)))
    fits = fitting(replace(lease, remembered=full, not_fenced="é" * 1500)).remembered
    assert fits is not None and fits.queries == full.queries
