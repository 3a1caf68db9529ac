"""Judges from what an attempt takes whether it has too much or too little, and how much more input it could bear. Pure.

**Memory.** What the driver could run with is its peak and ``HEADROOM``, rounded up, and never less than a driver starts
with. It is what the processes hold, and a JVM holds what its heap allows before it collects: it may do with less. A peak
between two samples, or one that is still to come, is not in it; so it is no judgement before ``OBSERVED_LEAST_S``.

**Input.** A batch of r rows takes a + c·r (``model.batch_time``). With λ rows a second and a trigger of T seconds:

* it misses its trigger when the rows of T take longer than T: at the input λ' = (T − a) / (c·T). Then one batch follows on
  the other, each a little larger, until a batch takes a / (1 − c·λ'): it is late, and keeps up.
* it falls behind, further and further, when a row takes longer than the next needs to arrive: at λ' = 1 / c.

Where a and c are not known, the whole time of a batch is taken as growing with its rows. That is an upper bound of the
time, so the query keeps up at least so far; both limits are the same then. A source that is limited to some rows per
batch falls behind earlier: the limit is not known here.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from supervisor.model.batch_time import load_of
from supervisor.model.driver_memory import LEAST_BYTES, MIB
from supervisor.model.heap import JVM_BYTES, needed_bytes
from supervisor.model.usage import AttemptUsage, QueryUse, ResourceUse

HEADROOM: Final = 1.25
ROUNDED_TO: Final = 64 * MIB
LEAST_RESERVED: Final = math.ceil(needed_bytes(LEAST_BYTES, python=True) / ROUNDED_TO) * ROUNDED_TO
"""A driver with the smallest heap with which Spark starts, its JVM and its Python take this."""
OBSERVED_LEAST_S: Final = 600.0
BATCHES_LEAST: Final = 5
FACTOR_ASKED: Final = 2.0
FACTOR_MAX: Final = 1e6
TRIGGER_LEAST_S: Final = 0.001


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryJudgement:
    """Holds what is said of the memory of a driver, in bytes. ``share`` is the peak beside ``reserved``; it is None if
    nothing is reserved. ``is_early`` says that it was not observed for long enough to go by ``could_run_with``.
    ``heap`` is spark.driver.memory, None if it is not known; ``heap_fitting`` is to what it has to be lowered so that the
    JVM does not grow beyond ``could_run_with`` later, None if it allows no more."""

    reserved: int
    now: int
    p50: int
    p95: int
    p99: int
    peak: int
    share: float | None
    could_run_with: int
    heap: int | None
    heap_fitting: int | None
    is_early: bool
    source: str
    observed_s: float
    arithmetic: str


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryJudgement:
    """Holds what is said of a query. ``share_of_trigger`` is the 95th percentile of its batches beside the trigger.
    ``misses_trigger_at`` and ``falls_behind_at`` are factors of the present input; ``at_least`` says that they are lower
    bounds. ``batch_s_at_twice`` is what a batch would take at twice the input. None means that it can't be computed, and
    ``arithmetic`` says how it was, or why it was not."""

    query: str
    batches: int
    batch_ms_p50: float
    batch_ms_p95: float
    batch_ms_max: float
    trigger_s: float | None
    share_of_trigger: float | None
    input_rows_per_s: float | None
    misses_trigger_at: float | None
    falls_behind_at: float | None
    at_least: bool
    batch_s_at_twice: float | None
    arithmetic: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class CapacityJudgement:
    """Holds what is said of one attempt. ``cores`` and ``cores_p95`` are processors that it keeps busy."""

    memory: MemoryJudgement | None
    cores: float | None
    cores_p95: float | None
    queries: tuple[QueryJudgement, ...]


def judge_capacity(usage: AttemptUsage, reserved: int, heap: int | None = None) -> CapacityJudgement:
    """Returns the judgement of an attempt for which ``reserved`` bytes are taken on its host; ``heap`` is its
    spark.driver.memory, if that is known. The query that is loaded most comes first."""
    used = usage.resources
    ordered = sorted(usage.queries, key=load_of, reverse=True)
    return CapacityJudgement(
        memory=None if used is None else judge_memory(used, reserved, heap),
        cores=None if used is None else used.cores,
        cores_p95=None if used is None else used.cores_p95,
        queries=tuple(judge_query(query) for query in ordered),
    )


def judge_memory(used: ResourceUse, reserved: int, heap: int | None = None) -> MemoryJudgement:
    """Returns what is said of the memory of a driver."""
    peak = max(used.memory_max, used.memory_p99)
    wanted = math.ceil(peak * HEADROOM / ROUNDED_TO) * ROUNDED_TO
    could = max(wanted, LEAST_RESERVED)
    floor = f", and no driver starts with less than {_mib(LEAST_RESERVED)}" if could == LEAST_RESERVED else ""
    return MemoryJudgement(
        reserved=reserved,
        now=used.memory,
        p50=used.memory_p50,
        p95=used.memory_p95,
        p99=used.memory_p99,
        peak=peak,
        share=peak / reserved if reserved else None,
        could_run_with=could,
        heap=heap,
        heap_fitting=_heap_fitting(heap, could),
        is_early=used.observed_s < OBSERVED_LEAST_S,
        source=used.source,
        observed_s=used.observed_s,
        arithmetic=f"peak {_mib(peak)} × {HEADROOM:g} = {_mib(math.ceil(peak * HEADROOM))}, "
        f"rounded up to {_mib(wanted)}{floor}",
    )


def _heap_fitting(heap: int | None, memory: int) -> int | None:
    """Returns the largest heap that fits into ``memory`` beside JVM and Python, if the present one is larger."""
    if heap is None or needed_bytes(heap, python=True) <= memory:
        return None
    beside = needed_bytes(0, python=True)
    fitting = min(memory - beside, int((memory - beside + JVM_BYTES) / 1.1))
    return max(LEAST_BYTES, fitting // MIB * MIB)


# -- a query ------------------------------------------------------------------------------------------------------


def judge_query(use: QueryUse) -> QueryJudgement:
    """Returns what is said of a query by its latest batches."""
    line, arriving = _line_of(use), use.input_rows_per_s
    trigger_s = use.trigger_s if use.trigger_s and use.trigger_s >= TRIGGER_LEAST_S else None
    misses = falls = at_twice = None
    arithmetic: tuple[str, ...] = (_why_unknown(use),)
    if line is not None and arriving and use.batches >= BATCHES_LEAST:
        fixed_s, row_s = line
        falls = _factor(1.0, row_s * arriving)
        if trigger_s is not None:
            misses = _factor(trigger_s - fixed_s, row_s * arriving * trigger_s)
        at_twice = batch_s(fixed_s, row_s, arriving * FACTOR_ASKED, trigger_s)
        if falls is not None:
            arithmetic = (_of_a_row(use, fixed_s, row_s), *_limits(arriving, line, trigger_s, misses, falls))
    return QueryJudgement(
        query=use.query,
        batches=use.batches,
        batch_ms_p50=use.batch_ms_p50,
        batch_ms_p95=use.batch_ms_p95,
        batch_ms_max=use.batch_ms_max,
        trigger_s=trigger_s,
        share_of_trigger=None if trigger_s is None else min(FACTOR_MAX, use.batch_ms_p95 / 1000 / trigger_s),
        input_rows_per_s=arriving,
        misses_trigger_at=misses,
        falls_behind_at=falls,
        at_least=use.row_ms is None,
        batch_s_at_twice=at_twice,
        arithmetic=arithmetic,
    )


def batch_s(fixed_s: float, row_s: float, rows_per_s: float, trigger_s: float | None) -> float | None:
    """Returns how long a batch takes at that input, once it has come to rest; None if it falls behind."""
    on_time = fixed_s + row_s * rows_per_s * trigger_s if trigger_s else math.inf
    if trigger_s and on_time <= trigger_s:
        return on_time
    idle = 1.0 - row_s * rows_per_s
    return fixed_s / idle if idle > 0 else None


def _line_of(use: QueryUse) -> tuple[float, float] | None:
    """Returns the fixed seconds of a batch and those of a row; where the batches do not tell, all of it is the rows'."""
    if use.fixed_ms is not None and use.row_ms is not None and use.row_ms > 0:
        return max(0.0, use.fixed_ms) / 1000, use.row_ms / 1000
    if use.rows <= 0 or use.batch_ms_p50 <= 0:
        return None
    return 0.0, use.batch_ms_p50 / 1000 / use.rows


def _factor(numerator: float, denominator: float) -> float | None:
    """Returns a factor of the input, no larger than means anything."""
    if denominator <= 0:
        return None
    return min(FACTOR_MAX, max(0.0, numerator / denominator))


def _why_unknown(use: QueryUse) -> str:
    if use.batches < BATCHES_LEAST:
        return f"only {use.batches} batches with rows were measured: too few to go by"
    if not use.input_rows_per_s:
        return "it is not known how many rows arrive a second"
    return "its batches take no time that can be measured"


def _of_a_row(use: QueryUse, fixed_s: float, row_s: float) -> str:
    """Returns what a batch takes, and how that is known."""
    if use.row_ms is not None:
        return (
            f"a batch takes {fixed_s:.3g} s + {row_s * 1000:.3g} ms for each row, by the latest {use.batches}"
        )
    return (
        f"its batches are too much alike to tell what of their {use.batch_ms_p50 / 1000:.3g} s is fixed, so all of it "
        f"counts as growing with their {use.rows:.5g} rows: {row_s * 1000:.3g} ms each, an upper bound"
    )


def _limits(
    arriving: float,
    line: tuple[float, float],
    trigger_s: float | None,
    misses: float | None,
    falls: float,
) -> Iterator[str]:
    """Yields how the factors come about, so that a person can check them."""
    fixed_s, rows = line[0], f"{line[1] * 1000:.3g} ms × {arriving:.5g} rows/s"
    if trigger_s is not None and misses is not None:
        left = f"({trigger_s:g} s − {fixed_s:.3g} s)"
        yield f"misses its trigger at {left} / ({rows} × {trigger_s:g} s) = {times_text(misses)}"
    yield (
        "falls behind where a row takes longer than the next needs to arrive: "
        f"1 / ({rows}) = {times_text(falls)}"
    )


def times_text(factor: float) -> str:
    """Returns a factor of the input in words."""
    return f"{factor:.2g} times" if factor < 10 else f"{factor:.0f} times"


def _mib(size: int) -> str:
    return f"{math.ceil(size / MIB)} MiB"
