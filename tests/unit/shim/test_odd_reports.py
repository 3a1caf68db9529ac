"""Whatever a driver says, and however much the records hold: the shim goes on, and its lease fits."""

from __future__ import annotations

import json
import random
import socket
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from supervisor.model.batch_time import WARM_UP
from supervisor.model.checkpoint_expectation import QUERIES_MAX, CheckpointExpectation, queries_of
from supervisor.model.records import Lease, QueryProgress
from supervisor.records.codec import MAX_RECORD_BYTES, decode, encode
from supervisor.shim import health, queries, stopping
from supervisor.shim.fitting import fitting
from supervisor.shim.lease import record_of
from supervisor.shim.reports import BATCH_ID_MAX, ReportSocket, parse
from supervisor.shim.state import Life, Now
from supervisor.shim.turn import Turn
from tests.golden.sample_records import USAGE
from tests.unit.shim.world import LAUNCH, REPORT_EVENTS, ShimWorld

VALUES: tuple[Any, ...] = (
    None,
    True,
    1e308,
    -1,
    10**400,
    "x" * 5000,
    "\ud800",
    [],
    {},
    [1],
    {"a": 1},
    1e15,
    "",
    2**63,
    -(2**63),
    0.1,
    "é\x1b[2J",
)
FIELDS = (
    "query",
    "id",
    "batch_id",
    "input_rows_per_s",
    "processed_rows_per_s",
    "batch_ms",
    "trigger_interval_s",
    "spark_ui",
    "lag",
    "error",
    "kind",
    "message",
    "queries",
    "checkpoint",
    "committed",
    "count",
    "why",
    "rows",
    "state_bytes",
    "trigger_interval_s",
)


def test_no_word_of_a_driver_ends_its_shim() -> None:
    rng, life, ladder = random.Random(13), Life(), stopping.Ladder(1.0, 1.0)
    for number in range(20_000):
        body = {
            "event": rng.choice([*REPORT_EVENTS, "unheard-of"]),
            **{name: rng.choice(VALUES) for name in FIELDS if rng.random() < 0.4},
        }
        report = parse(json.dumps(body).encode()[:8192])
        if report is None:
            continue
        life = health.after_report(life, report, float(number))
        ladder = stopping.after_report(ladder, report.event, report.queries, float(number))
        queries.shown(life, 600.0, float(number), "s3a://b/c")


def test_whatever_batches_a_driver_reports_its_lease_can_be_read() -> None:
    """A record with a number out of its bounds is none, and would stop the driver."""
    rng, numbers = random.Random(17), (0, 1, 1.5, -1, 1e-9, 0.001, 7, 1e6, 1e12, 9.9e14, 1e15, 2**60, 2**63)
    for _ in range(300):
        world = ShimWorld()
        world.connect()
        world.run()
        for _ in range(20):
            body = {
                "event": "progress",
                "id": rng.choice("ab"),
                **{name: rng.choice(numbers) for name in FIELDS[3:6] + FIELDS[-3:] if rng.random() < 0.8},
            }
            report = parse(json.dumps(body).encode())
            assert report is not None
            world.deliver(report)
        lease = record_of(Turn(world.state, Now(100.0, 1.8e9)))
        assert decode(Lease, encode(lease), "p") == lease


@pytest.mark.parametrize(
    "told",
    [
        {"batch_ms": 1e12, "processed_rows_per_s": 9.9e14},
        {"batch_ms": 1, "rows": 1, "state_bytes": 2**61},
        {"batch_ms": 1, "rows": 1, "state_bytes": BATCH_ID_MAX},
    ],
)
def test_what_follows_from_large_numbers_is_within_the_bounds_of_the_record(told: dict[str, Any]) -> None:
    """It would go into the ownership with the tombstone, too."""
    world = ShimWorld()
    world.connect()
    world.run()
    for _ in range(WARM_UP + 1):
        report = parse(json.dumps({"event": "progress", "id": "a", **told}).encode())
        assert report is not None
        world.deliver(report)
    lease = record_of(Turn(world.state, Now(100.0, 1.8e9)))
    assert decode(Lease, encode(lease), "p") == lease


@pytest.mark.parametrize(
    "key", ["message", "kind", "error", "id", "committed", "query", "checkpoint", "event"]
)
def test_no_depth_of_a_word_ends_its_shim(key: str) -> None:
    for depth in (100, 300, 500, 900, 1000, 2000, 4000):
        nested = b"[" * depth + b"]" * depth
        for event in (*REPORT_EVENTS, "unheard-of"):
            parse(b'{"event":"%s","%s":%s}' % (event.encode(), key.encode(), nested))


def test_a_datagram_of_the_wrong_type_is_taken_like_any_other(tmp_path: Path) -> None:
    reports = ReportSocket(str(tmp_path))
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sender:
        for body in (
            {"event": "progress", "id": ["x"], "batch_id": 1, "checkpoint": "/x"},
            {"event": "idle", "id": {}, "checkpoint": "/x"},
        ):
            sender.sendto(json.dumps(body).encode(), str(tmp_path / "report"))
    assert [report.event for report in reports.take()] == ["progress", "idle"]


@pytest.mark.parametrize("note", [0, 200, 1000, 5000])
@pytest.mark.parametrize("count", [0, 8])
@pytest.mark.parametrize("words", [1, 200])
def test_a_lease_always_fits_and_gives_up_what_is_shown_before_what_is_remembered(
    note: int, count: int, words: int
) -> None:
    known = CheckpointExpectation(
        place="p" * 16,
        queries=tuple(f"q{number:035d} {number}" for number in range(words)),
        accepted="o" * 32,
    )
    world = ShimWorld(launch=replace(LAUNCH, not_fenced="x" * note, host="h" * 200, remembered=known))
    world.connect()
    lease = record_of(Turn(world.state, Now(100.0, 1.8e9)))
    shown = tuple(
        QueryProgress(query=f"query{number}", id="i" * 36, error="e" * 160, elsewhere="s" * 120)
        for number in range(count)
    )
    lease = fitting(replace(lease, queries=shown, usage=USAGE))
    data = encode(lease)
    if lease.usage is None:
        assert note > 1000 or words > QUERIES_MAX or count, "only where there is no room"
    assert len(data) <= MAX_RECORD_BYTES and decode(type(lease), data, "p") == lease
    kept = queries_of(lease.remembered)
    assert kept[-1].batch_id == words - 1, "the newest is given up last"
    if words <= QUERIES_MAX:
        assert lease.remembered == known
    assert count == len(lease.queries) + lease.more_queries
