"""Computes from the latest batches of a query how long they take, and how that depends on their rows. Pure; the shim calls
it for its lease, so it imports the standard library only.

The model is linear: a batch of r rows takes a + c·r, by least squares. It is given only where the batches tell: there are
``FIT_LEAST`` of them, the largest has ``FIT_SPREAD`` times the rows of the smallest, and the line explains at least half of
how their times differ. A negative fixed part means that the line is one through the origin.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final, NamedTuple

from supervisor.model.usage import QueryUse

KEPT: Final = 64
"""So many batches of a query are kept, the latest."""
PRESENT: Final = 16
"""So many of them say how many rows arrive at present."""
WARM_UP: Final = 5
"""The first batches of an attempt are left out: the JVM compiles, and they have what piled up before the start."""
FIT_LEAST: Final = 8
FIT_SPREAD: Final = 1.5
FIT_EXPLAINS: Final = 0.5


class TimedBatch(NamedTuple):
    """Holds a batch that had rows. ``ms`` is how long it took, in milliseconds."""

    rows: float
    ms: float
    input_rows_per_s: float | None = None


class LinearTime(NamedTuple):
    """Says that a batch of r rows takes ``fixed_ms`` + r × ``row_ms``, in milliseconds."""

    fixed_ms: float
    row_ms: float


def fitted(batches: Sequence[TimedBatch]) -> LinearTime | None:
    """Returns how the time depends on the rows, or None if the batches do not tell."""
    rows = [batch.rows for batch in batches]
    if len(batches) < FIT_LEAST or min(rows) <= 0 or max(rows) < FIT_SPREAD * min(rows):
        return None
    mean_rows, mean_ms = _mean(rows), _mean([batch.ms for batch in batches])
    square = sum((batch.rows - mean_rows) ** 2 for batch in batches)
    product = sum((batch.rows - mean_rows) * (batch.ms - mean_ms) for batch in batches)
    differs = sum((batch.ms - mean_ms) ** 2 for batch in batches)
    if product <= 0 or differs <= 0 or product**2 < FIT_EXPLAINS * square * differs:
        return None
    row_ms = product / square
    fixed_ms = mean_ms - row_ms * mean_rows
    if fixed_ms < 0:
        return LinearTime(0.0, mean_ms / mean_rows)
    return LinearTime(fixed_ms, row_ms)


def query_use(
    query: str, batches: Sequence[TimedBatch], trigger_s: float | None = None, state_bytes: int | None = None
) -> QueryUse | None:
    """Returns what is recorded of the latest batches of a query, or None while there is none."""
    if not batches:
        return None
    times_ms = sorted(batch.ms for batch in batches)
    present = batches[-PRESENT:]
    arriving = [batch.input_rows_per_s for batch in present if batch.input_rows_per_s is not None]
    line = fitted(batches)
    return QueryUse(
        query=query,
        batches=len(batches),
        batch_ms_p50=_rank(times_ms, 0.5),
        batch_ms_p95=_rank(times_ms, 0.95),
        batch_ms_max=times_ms[-1],
        rows=_short(_rank(sorted(batch.rows for batch in batches), 0.5)),
        input_rows_per_s=_short(_mean(arriving)) if arriving else None,
        trigger_s=trigger_s,
        fixed_ms=None if line is None else _short(line.fixed_ms),
        row_ms=None if line is None else _short(line.row_ms),
        state_bytes=state_bytes,
    )


def load_of(use: QueryUse) -> float:
    """Returns how heavily a query is loaded, to compare queries of one attempt: its batch time beside its trigger, else
    beside the time in which the rows of a batch arrive."""
    if use.trigger_s:
        return use.batch_ms_p95 / 1000 / use.trigger_s
    arrives_s = use.rows / use.input_rows_per_s if use.input_rows_per_s else 0.0
    return use.batch_ms_p50 / 1000 / arrives_s if arrives_s > 0 else 0.0


def _rank(ordered: Sequence[float], share: float) -> float:
    return ordered[max(1, math.ceil(share * len(ordered))) - 1]


def _mean(numbers: Sequence[float]) -> float:
    return math.fsum(numbers) / len(numbers)


def _short(number: float) -> float:
    """Returns a number with five digits that count: a record has little room."""
    return float(f"{number:.5g}")
