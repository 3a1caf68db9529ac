"""Decides whether a driver with this heap can start at all, and whether what the job declares holds it. It is
pure; ``submit`` and ``doctor`` use it.

Spark refuses a driver whose ``Runtime.maxMemory`` is below 1.5 times its reserved 300 MiB
(UnifiedMemoryManager: INVALID_DRIVER_MEMORY). With G1 that is -Xmx itself; the serial and the parallel
collector keep a survivor space back (measured with Java 17: 465m and 505m are the first that pass). Which
collector the JVM takes by itself depends on the host.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Final

from supervisor.errors import Complaint
from supervisor.model.driver_memory import LEAST_BYTES, MIB, PROPERTY, spark_size_bytes
from supervisor.model.spark_session import OPTION_PROPERTIES

_LEAST_WITH: Final = {"+UseSerialGC": 465 * MIB, "+UseParallelGC": 505 * MIB}
_TESTING: Final = "spark.testing"

JVM_BYTES: Final = 192 * MIB
"""Beside its heap a driver's JVM holds metaspace, compiled code, stacks of threads and direct buffers: with a
heap of 480 MiB it was seen at 663 MB as a whole. It takes at least this much, or a tenth of the heap if that
is more.
"""
PYTHON_BYTES: Final = 128 * MIB
"""This is what the driver's Python takes with pyspark imported, and the process that forks its workers; it
does not include the data that an application holds there.
"""


def least_bytes(conf: Mapping[str, str]) -> int:
    """Returns the smallest heap with which Spark starts, as far as the job chooses its collector."""
    options = " ".join(conf.get(key, "") for key in OPTION_PROPERTIES)
    return max((least for words, least in _LEAST_WITH.items() if words in options), default=LEAST_BYTES)


def why_impossible(conf: Mapping[str, str]) -> str | None:
    """Returns why Spark would refuse to start with the heap in ``conf``, or None if it would not, or if
    nothing is known of the heap.
    """
    heap = spark_size_bytes(conf.get(PROPERTY, ""))
    least = least_bytes(conf)
    if heap is None or heap >= least or any(key.startswith(_TESTING) for key in conf):
        return None
    return f"conf {PROPERTY}: driver memory {heap // MIB} MiB, Spark needs {least // MIB} MiB; raise it"


def needed_bytes(heap: int, *, python: bool) -> int:
    """Returns how many bytes of its host a driver with ``heap`` bytes of heap takes when the heap is full."""
    return heap + max(JVM_BYTES, heap // 10) + (PYTHON_BYTES if python else 0)


def why_short(conf: Mapping[str, str], declared: int, *, python: bool) -> Complaint | None:
    """Returns why ``resources.memory`` (``declared``, bytes) does not hold the driver, or None if it does, or
    if ``conf`` does not set the heap.
    """
    heap = spark_size_bytes(conf.get(PROPERTY, ""))
    if heap is None or declared >= needed_bytes(heap, python=python):
        return None
    needed = math.ceil(needed_bytes(heap, python=python) / MIB)
    beside = f"{'JVM and Python' if python else 'the JVM'} take {needed - heap // MIB} MiB beside it"
    return Complaint(
        f"resources.memory {declared // MIB} MiB does not hold a driver with {PROPERTY} {heap // MIB} MiB: {beside}",
        f"set resources.memory to {needed}m",
    )
