"""Makes a lease record fit into its znode, whatever is in it, because the lease keeps the driver alive. Pure;
used by ``machine``."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

from supervisor.model.records import Lease, clip
from supervisor.records.codec import encode

_WORDS_MAX_BYTES = 60


def fitting(lease: Lease) -> Lease:
    """Returns ``lease``, or as much of it as there is room for. What is only shown to people is left out
    first; what the next start has to find in the checkpoint is left out last, and its newest query at the
    very end."""
    if _fits(lease):
        return lease
    for smaller in _smaller(lease):
        if _fits(smaller):
            return smaller
    return smaller


def _fits(lease: Lease) -> bool:
    try:
        encode(lease)
    except ValueError:
        return False
    return True


def _smaller(lease: Lease) -> Iterator[Lease]:
    """Yields smaller and smaller leases; each one also lacks what those before it lack. ``extra`` holds
    fields of newer versions; a shim writes none."""
    driver = lease.driver
    giving_up: tuple[Callable[[Lease], dict[str, Any]], ...] = (
        lambda now: {"usage": None if now.usage is None else replace(now.usage, queries=())},
        lambda _now: {"usage": None},
        lambda now: {
            "not_fenced": clip(now.not_fenced, _WORDS_MAX_BYTES),
            "class_archive": "",
            "spark_ui": "",
            "own_master": "",
            "not_limited": clip(now.not_limited, _WORDS_MAX_BYTES),
            "cluster_wait": None if now.cluster_wait is None else replace(now.cluster_wait, says=""),
        },
        lambda now: {"queries": (), "more_queries": now.more_queries + len(now.queries)},
        lambda _now: {"progress": None, "start": None},
        lambda _now: {"driver": replace(driver, host=clip(driver.host, _WORDS_MAX_BYTES))},
    )
    for less in giving_up:
        lease = replace(lease, **less(lease))
        yield lease
    while lease.remembered is not None and lease.remembered.sinks:
        lease = replace(lease, remembered=replace(lease.remembered, sinks=lease.remembered.sinks[1:]))
        yield lease
    while lease.remembered is not None and lease.remembered.elsewhere:
        lease = replace(lease, remembered=replace(lease.remembered, elsewhere=lease.remembered.elsewhere[1:]))
        yield lease
    while lease.remembered is not None and lease.remembered.queries:
        lease = replace(lease, remembered=replace(lease.remembered, queries=lease.remembered.queries[1:]))
        yield lease
    yield replace(lease, remembered=None)
