"""Computes how much memory the next attempt of a job gets: as its spec says, or more after it ran out
(``restart.memory_step``).

It is pure. It is called by ``plan.place`` and ``plan.check`` (does it fit?), by the assignment that records
it, and by ``show``. The rule: an attempt that ended with ``out_of_memory`` is followed by one with
``memory_step`` times its driver memory, at most ``memory_max``. The raised memory stays over restarts, moves
and failovers, and over ``suspend``, ``resume`` and ``restart`` (it is what the job turned out to need). A new
revision, or a new submit, begins again with what its spec says; a revision to which the leader goes back has what it had.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from typing import Final

from supervisor.model.records import DEAD, Cause, JobRef, Ownership

MIB: Final = 1024**2
PROPERTY: Final = "spark.driver.memory"
LEAST_BYTES: Final = 450 * MIB
"""Spark does not start with less (INVALID_DRIVER_MEMORY)."""

_SPARK_SIZE: Final = re.compile(r"\s*([0-9]{1,12})\s*([bkmgtp])?b?\s*", re.IGNORECASE)
_UNITS: Final = {"b": 1, "k": 1024, "m": MIB, "g": 1024**3, "t": 1024**4, "p": 1024**5}


@dataclass(frozen=True, slots=True)
class DriverMemory:
    """Holds sizes in bytes. ``driver`` is what spark.driver.memory is set to; if it is 0, that is left to the
    spec. ``raised`` is how many times it was raised.

    ``whole`` is what the attempt occupies on its host: as declared, and as much more as the driver has more.
    """

    driver: int
    raised: int
    whole: int


def next_memory(job: JobRef, own: Ownership) -> DriverMemory:
    """Returns the memory of the attempt that would be assigned now."""
    policy, base, declared = job.terms.restart, job.terms.driver_memory, job.terms.memory
    if policy.memory_step is None or policy.memory_max is None or base <= 0:
        return DriverMemory(0, 0, declared)
    driver, raised = base, 0
    update, judged = job.update, own.judged
    undone = (
        update is not None and update.rolled_back and own.uid == job.uid and own.revision == update.target
    )
    if undone and judged is not None and judged.target == own.revision and judged.raised > 0:
        driver, raised = max(base, judged.driver_memory), judged.raised
    if own.uid == job.uid and own.revision == job.revision and own.raised > 0:
        driver, raised = max(base, own.driver_memory), own.raised
    ended = own.uid == job.uid and own.state in DEAD
    if ended and own.revision == job.revision and own.cause is Cause.OUT_OF_MEMORY:
        higher = min(policy.memory_max, math.ceil(driver * policy.memory_step / MIB) * MIB)
        if higher > driver:
            driver, raised = higher, raised + 1
    return DriverMemory(driver, raised, declared + driver - base)


def raise_of_memory(job: JobRef, own: Ownership) -> str | None:
    """Returns, for ``show``, what driver memory the present or latest attempt has, or None if that is not
    more than the spec says.
    """
    if own.uid != job.uid or own.revision != job.revision or not own.raised:
        return None
    base = as_spark_size(job.terms.driver_memory)
    return f"{as_spark_size(own.driver_memory)} (raised {times(own.raised)} from {base} after {Cause.OUT_OF_MEMORY.value})"


def times(number: int) -> str:
    return {1: "once", 2: "twice"}.get(number, f"{number} times")


def as_spark_size(size_bytes: int) -> str:
    """Returns the size in the largest unit of the JVM that is exact; a size below one MiB is rounded up."""
    mebibytes = math.ceil(size_bytes / MIB)
    return f"{mebibytes // 1024}g" if mebibytes and mebibytes % 1024 == 0 else f"{mebibytes}m"


def spark_size_bytes(text: str) -> int | None:
    """Returns the bytes as Spark reads spark.driver.memory: a bare number means MiB. It returns None if the
    text is no size."""
    match = _SPARK_SIZE.fullmatch(text)
    return None if match is None else int(match[1]) * _UNITS[(match[2] or "m").lower()]
