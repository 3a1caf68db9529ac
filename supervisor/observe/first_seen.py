"""Remembers since when each lease and each ownership has been as it is now.

Every wait of the leader rests on it. An instant is CLOCK_BOOTTIME *after* the response arrived that first
showed this mzxid, so that a wait can only be too long; a new leader starts with none (protocol §7.2). Only
``observer`` uses it.
"""

from __future__ import annotations

from collections.abc import Collection

from supervisor.model.records import Lease, Phase
from supervisor.model.seen import Found, Seen
from supervisor.model.view import SeenLease

ABSENT_MZXID = -1


class FirstSeen:
    """Holds the instants by name. The caller calls ``forget`` when a name vanishes."""

    def __init__(self) -> None:
        self._owns: dict[str, tuple[int, float]] = {}
        self._leases: dict[str, tuple[int, float]] = {}
        self._preparations: dict[str, tuple[int, float]] = {}
        self._paused_at_s = float("-inf")
        self._running: dict[str, tuple[str, float]] = {}

    def own_seen_at_s(self, name: str, mzxid: int, received_at_s: float) -> float:
        """Returns when this state of /own/<name> was first seen."""
        known = self._owns.get(name)
        if known is None or known[0] != mzxid:
            known = self._owns[name] = (mzxid, received_at_s)
        return known[1]

    def lease(self, name: str, lease: Seen[Lease], sent_at_s: float, received_at_s: float) -> SeenLease:
        """Returns the lease that a read sent at ``sent_at_s`` showed, with when it was first seen. Absence
        has a first time like any other state.
        """
        mzxid = ABSENT_MZXID if lease is None else lease.mzxid
        known = self._leases.get(name)
        if known is None or known[0] != mzxid:
            known = self._leases[name] = (mzxid, received_at_s)
        return SeenLease(lease, known[1], sent_at_s, self._running_at_s(name, lease, received_at_s))

    def _running_at_s(self, name: str, lease: Seen[Lease], received_at_s: float) -> float | None:
        """Returns when the attempt of ``lease`` was first seen to run, or None if it does not."""
        if not isinstance(lease, Found) or lease.record.phase is not Phase.RUNNING:
            self._running.pop(name, None)
            return None
        known = self._running.get(name)
        if known is None or known[0] != lease.record.claim:
            known = self._running[name] = (lease.record.claim, received_at_s)
        return known[1]

    def preparation_seen_at_s(self, path: str, mzxid: int, received_at_s: float) -> float:
        """Returns when this request for a prepared driver was first seen."""
        known = self._preparations.get(path)
        if known is None or known[0] != mzxid:
            known = self._preparations[path] = (mzxid, received_at_s)
        return known[1]

    def preparation_due_from_at_s(self, seen_at_s: float) -> float:
        """Returns from when the time of a request counts that was first seen at ``seen_at_s``: from the last reading at
        which the cluster was paused, if that was later."""
        return max(seen_at_s, self._paused_at_s)

    def note_pause(self, received_at_s: float) -> None:
        self._paused_at_s = received_at_s

    def keep_preparations(self, paths: Collection[str]) -> None:
        """Forgets the requests that are not at ``paths``."""
        self._preparations = {path: self._preparations[path] for path in paths if path in self._preparations}

    def forget(self, name: str) -> None:
        self._owns.pop(name, None)
        self.forget_lease(name)

    def forget_lease(self, name: str) -> None:
        self._leases.pop(name, None)
        self._running.pop(name, None)
