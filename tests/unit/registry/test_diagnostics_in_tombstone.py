"""A tombstone says where the diagnostics are, the next attempt goes on saying it, and neither costs a tombstone."""

from __future__ import annotations

from dataclasses import replace

import pytest

from supervisor.model.records import Cause, DriverDiagnostics, Ownership, OwnState
from supervisor.model.seen import Found
from supervisor.records.codec import MAX_RECORD_BYTES, decode, encode
from supervisor.registry import attempt_writes
from supervisor.registry.attempt_writes import AttemptIdentity, Exit
from tests.golden.sample_records import AT, SAMPLES
from tests.unit.shim.world import LAYOUT

OWN = next(sample for sample in SAMPLES if isinstance(sample, Ownership))
CLAIMED = replace(OWN, state=OwnState.CLAIMED, diagnostics=None, usage=None)


def tombstone(own: Ownership, **ended: object) -> Ownership:
    mine = AttemptIdentity("clicks", own.uid, own.attempt, own.claim)
    exit_ = Exit(Cause.STALLED, "silent", **ended)  # type: ignore[arg-type]
    write = attempt_writes.tombstone(LAYOUT, Found(own, 7, 1), mine, exit_, "op", AT)
    assert write is not None
    data = write.ops[0].data  # type: ignore[union-attr]
    assert len(data) <= MAX_RECORD_BYTES
    return decode(Ownership, data, "own")


def test_it_names_file_host_and_attempt() -> None:
    dead = tombstone(CLAIMED, diagnostics="/log/u.2.diagnostics.txt", memory="largest: java\x1b[2J")
    assert dead.diagnostics == DriverDiagnostics(
        attempt=CLAIMED.attempt,
        host=CLAIMED.host,
        path="/log/u.2.diagnostics.txt",
        memory="largest: java [2J",
    )


def test_an_end_without_any_keeps_those_of_an_earlier_attempt() -> None:
    known = DriverDiagnostics(attempt=1, host="host-a", path="/log/u.1.diagnostics.txt")
    assert tombstone(replace(CLAIMED, diagnostics=known)).diagnostics == known
    newer = tombstone(replace(CLAIMED, diagnostics=known), memory="largest: java").diagnostics
    assert newer is not None and (newer.attempt, newer.path) == (CLAIMED.attempt, "")


def test_a_path_that_is_too_long_is_left_out() -> None:
    assert tombstone(CLAIMED, diagnostics="/x" * 200).diagnostics is None


@pytest.mark.parametrize("size", [1000, 2500, 3400])
def test_a_record_without_room_is_a_tombstone_all_the_same(size: int) -> None:
    """Nothing else is given up for it."""
    full = replace(CLAIMED, earlier="x" * max(0, size - len(encode(replace(CLAIMED, earlier="")))))
    dead = tombstone(full, diagnostics="/log/" + "x" * 200, memory="y" * 400)
    assert (dead.diagnostics is None) == (size == 3400)
    assert len(dead.history) == len(tombstone(full).history) and dead.earlier == tombstone(full).earlier
