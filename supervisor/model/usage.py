"""Defines what is recorded of the resources that an attempt takes: a field of its lease, and of its tombstone.

It imports the standard library only, because a shim imports it. ``model.capacity`` judges by it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Final

from supervisor.model.bounds import Bytes, Count, Seconds

_OMITTED: Final = {"omitted": True}  # as records.OMITTED


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
    cpu_s: float
    cores: float | None = None
    cores_p95: float | None = None
    extra: dict[str, Any] = field(default_factory=dict, hash=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryUse:
    """Describes what the latest batches of a query took (``model.batch_time``): those that had rows. ``query`` is its name,
    else its id.

    ``batches`` is how many they are, ``rows`` how many rows one had at the median, ``input_rows_per_s`` how many arrived a
    second before the newest of them. ``trigger_s`` is the interval of its trigger; None: it is not known. A batch of r rows
    takes about ``fixed_ms`` + r × ``row_ms``; both are None while the batches are too much alike to tell them apart.
    ``state_bytes`` is the memory of its state.
    """

    query: str
    batches: Count
    batch_ms_p50: float
    batch_ms_p95: float
    batch_ms_max: float
    rows: float
    input_rows_per_s: float | None = None
    trigger_s: Seconds | None = field(default=None, metadata=_OMITTED)
    fixed_ms: float | None = field(default=None, metadata=_OMITTED)
    row_ms: float | None = field(default=None, metadata=_OMITTED)
    state_bytes: Bytes | None = field(default=None, metadata=_OMITTED)
    extra: dict[str, Any] = field(default_factory=dict, hash=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class DirectoryUse:
    """Describes what the job has written to its working directory on the host of the attempt, which is ``path``: no other
    host has it. ``files`` of the spec and what Spark writes there by itself do not count. ``bytes`` is the sum of the sizes
    of ``files`` files; ``names`` are the largest entries of the directory, such as ``out`` and ``spark-warehouse``.
    """

    path: str
    bytes: Bytes
    files: Count
    names: tuple[str, ...] = ()
    extra: dict[str, Any] = field(default_factory=dict, hash=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptUsage:
    """Holds what is known of the usage of one attempt. ``resources`` is None where nothing could be sampled; ``queries``
    are those with the longest batches beside their trigger; ``directory`` is None if the job has written nothing there."""

    resources: ResourceUse | None = None
    queries: tuple[QueryUse, ...] = field(default=(), metadata=_OMITTED)
    directory: DirectoryUse | None = field(default=None, metadata=_OMITTED)
    extra: dict[str, Any] = field(default_factory=dict, hash=False)
