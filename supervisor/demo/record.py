"""Checks the independent record of ``demo``, which the job's own sink wrote: can it be right? The module is
pure.

The story believes this record, not what the product reports. Batch ids must follow one another without a
hole, and each total must be exactly what all rows up to that batch make: a lost batch makes it too small, one
that was counted twice too large. A batch may come twice in one case only: the driver died between handing it
to the sink and committing it; then the next attempt must begin with it, and with the same total.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class BatchLine:
    """Describes one batch, as the sink saw it. ``boottime_s`` is CLOCK_BOOTTIME in seconds."""

    batch_id: int
    total: int
    attempt: int
    pid: int
    boottime_s: float


def parse_record(text: str) -> tuple[BatchLine, ...]:
    """Returns the complete lines of the file; one that is being written is left out. Raises ValueError for
    any other text."""
    complete = text[: text.rfind("\n") + 1].splitlines()
    return tuple(_line(json.loads(line)) for line in complete)


def _line(body: dict[str, float]) -> BatchLine:
    try:
        return BatchLine(
            int(body["batch_id"]),
            int(body["total"]),
            int(body["attempt"]),
            int(body["pid"]),
            float(body["boottime"]),
        )
    except (KeyError, TypeError) as error:
        raise ValueError(f"no line of the record: {body!r}") from error


def flaw_of(lines: Sequence[BatchLine], rows_per_batch: int) -> str | None:
    """Returns what is wrong with the record, or None."""
    before: BatchLine | None = None
    for line in lines:
        if before is not None and line.attempt < before.attempt:
            return (
                f"attempt {line.attempt} wrote batch {line.batch_id} after attempt {before.attempt} had begun"
            )
        if before is not None and line.attempt == before.attempt and line.pid != before.pid:
            return f"attempt {line.attempt} wrote from two processes, {before.pid} and {line.pid}"
        expected = 0 if before is None else before.batch_id + 1
        if line.batch_id != expected and not is_replay(before, line):
            return f"batch {line.batch_id} came where batch {expected} was due"
        due = rows_per_batch * (line.batch_id + 1)
        if line.total != due:
            return f"batch {line.batch_id} says that {line.total} rows were counted, but {due} were generated"
        before = line
    return None


def is_replay(before: BatchLine | None, line: BatchLine) -> bool:
    """Returns whether ``line`` is the batch that the attempt before had not committed when it died."""
    return before is not None and line.batch_id == before.batch_id and line.attempt > before.attempt
