"""Defines what is recorded of the resources that an attempt takes: fields of its lease, and of its tombstone.

It imports the standard library only, because a shim imports it. ``model.capacity`` judges by it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from supervisor.model.bounds import Bytes, Count, Seconds


@dataclass(frozen=True, slots=True, kw_only=True)
class ResourceUse:
    """Describes the memory and the processors that the tree of a driver takes, from exec on. Quantiles and the largest are
    of samples, one in some seconds, and to within 5 %; a peak between two samples is not in them.

    ``source`` is a ``clients.tree_usage.MemorySource``. ``memory`` is the latest sample; all of them are bytes. ``cpu_s``
    are seconds of processor time in ``observed_s`` seconds, ``cores`` how many processors were busy in the latest ten
    seconds or so; None: it has not run for so long.
    """

    source: str
    samples: Count
    observed_s: Seconds
    memory: Bytes
    memory_p50: Bytes
    memory_p95: Bytes
    memory_p99: Bytes
    memory_max: Bytes
    cpu_s: Seconds
    cores: float | None = None
    cores_p95: float | None = None
    extra: dict[str, Any] = field(default_factory=dict, hash=False)
