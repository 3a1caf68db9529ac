"""Deletes the blobs that nobody names any more: those of submits that never registered, and of results that
were pruned.

The leader calls this from time to time, while it trusts the registry (protocol §6). A spec or artifact is
deleted only if it was seen unreferenced in two scans at least a grace time apart. This is why that is safe: a
submit stores its blobs and registers within 10 minutes, else it gives up; so what was listed by the first
scan, and is not named by the references that were read in the second, after its listing and a ``sync``, can
never come to be named. All doubt keeps the object.

``judge`` decides, and is pure; ``BlobSweeper`` lists, reads the references and deletes. Only keys of the
layout are ever touched.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from supervisor.clients.store.base import Store, StoreEntry, delete_each
from supervisor.clock import boottime_s
from supervisor.errors import InvalidInput
from supervisor.registry.blobs import ARTIFACTS, SPECS, parse_key

SUBMIT_MAX_S = 600.0
GRACE_S = 3600.0
DELETES_MAX = 500


@dataclass(frozen=True, slots=True)
class References:
    """Says what must stay. ``uids`` holds every uid that is live (a reference, an ownership, an assignment)
    or has a kept result. ``keys`` holds every key that any record names.

    A uid keeps all that is under it, unnamed revisions too: a resume from a savepoint that is tried again stores
    the same bytes under the same key, and must not find them deleted between its put and its registration.
    """

    uids: frozenset[str]
    keys: frozenset[str] = frozenset()

    def keep(self, key: str) -> bool:
        """Says whether ``key`` must stay. That is also true of every key that is not of the layout: it
        belongs to somebody else."""
        parsed = parse_key(key)
        return parsed is None or parsed.uid in self.uids or key in self.keys


class Needed(Protocol):
    """Says which objects must stay. ``uids`` are those that the registry knows."""

    @property
    def uids(self) -> frozenset[str]: ...

    def keep(self, key: str) -> bool:
        """Says whether ``key`` must stay."""
        ...


@dataclass(frozen=True, slots=True)
class Unreferenced:
    """Holds an object that a scan saw unreferenced, and when the first such scan had ended
    (CLOCK_BOOTTIME)."""

    entry: StoreEntry
    first_at_s: float


@dataclass(frozen=True, slots=True)
class SweepVerdict:
    """Holds the keys to delete now, in ``to_delete``, and what the next scan must know, by key, in
    ``unreferenced``."""

    to_delete: tuple[str, ...] = ()
    unreferenced: Mapping[str, Unreferenced] = field(default_factory=dict)


def judge(
    unreferenced: Mapping[str, Unreferenced],
    listed: Iterable[StoreEntry],
    references: Needed,
    began_at_s: float,
    ended_at_s: float,
    grace_s: float = GRACE_S,
    max_deletes: int = DELETES_MAX,
) -> SweepVerdict:
    """Returns which of the listed objects may go. An object that was referenced, absent or another in between
    starts anew.

    ``began_at_s`` and ``ended_at_s`` are the instants before the listing and after the references were read.
    The time between two scans counts from the end of the one to the beginning of the other, so it is never
    taken for longer than it was.

    If there are no uids at all, the registry was lost, rather than the cluster having no history: nothing
    goes (I10).
    """
    if not references.uids:
        return SweepVerdict()
    kept: dict[str, Unreferenced] = {}
    to_delete: list[str] = []
    for entry in listed:
        if references.keep(entry.key):
            continue
        before = unreferenced.get(entry.key)
        observed = before if before is not None and before.entry == entry else Unreferenced(entry, ended_at_s)
        kept[entry.key] = observed
        if began_at_s - observed.first_at_s >= grace_s and len(to_delete) < max_deletes:
            to_delete.append(entry.key)
    return SweepVerdict(tuple(to_delete), kept)


class BlobSweeper:
    """Sweeps for one term; a new leader has seen nothing and deletes nothing for a grace time."""

    prefixes: tuple[str, ...] = (SPECS, ARTIFACTS)
    """Where the keys of its objects begin."""

    def __init__(
        self, store: Store, grace_s: float = GRACE_S, clock: Callable[[], float] = boottime_s
    ) -> None:
        if grace_s < SUBMIT_MAX_S:
            raise InvalidInput(
                f"a grace time of {grace_s:g} s is shorter than a submit may take ({SUBMIT_MAX_S:g} s)"
            )
        self._store = store
        self._grace_s = grace_s
        self._clock = clock
        self._unreferenced: Mapping[str, Unreferenced] = {}

    @property
    def orphans(self) -> int:
        """Returns the number of objects that the last scan saw unreferenced and that are still there."""
        return len(self._unreferenced)

    def scan(
        self,
        referenced: Callable[[], References],
        go_on: Callable[[], bool] = lambda: True,
    ) -> tuple[str, ...]:
        """Lists, then reads the references, then deletes what two scans found unreferenced; returns the
        deleted keys.

        ``referenced`` must read ZooKeeper after a ``sync`` and raise if anything could not be read: then
        nothing is deleted and nothing is remembered, and its error is raised. The store's errors are raised,
        too (what was deleted stays deleted). ``go_on`` is called between requests of the store, which may be
        many and slow: False ends the scan (a step-down awaits it).
        """
        began_at_s = self._clock()
        listed = []
        listings = [self._store.entries(prefix) for prefix in self.prefixes]
        for entry in itertools.chain(*listings):
            if not go_on():
                return ()
            listed.append(entry)
        references = referenced()
        needed = self._needed(listed, references)
        verdict = judge(self._unreferenced, listed, needed, began_at_s, self._clock(), self._grace_s)
        left = dict(verdict.unreferenced)
        self._unreferenced = left
        deleted = delete_each(self._store, verdict.to_delete, go_on, left.pop)
        return tuple(deleted)

    def _needed(self, _listed: Sequence[StoreEntry], references: References) -> Needed:
        """Returns which of the listed objects must stay."""
        return references
