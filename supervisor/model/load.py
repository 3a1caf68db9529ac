"""Counts what supervisors carry: declared memory, drivers, starting slots. It is used for placing, explaining
and showing; pure.

It counts every ownership in assigned, claimed, draining or revoked, names without a reference included: until
its tombstone or the full wait, an attempt may still occupy its host (protocol §8).

A starting slot keeps many JVMs from warming up on one host at once. A start that is stuck does not hold its
slot: after a third of the time that its start may take, at most a minute (a quarter of that while unclaimed),
the next one may begin beside it. Otherwise as many stuck jobs as a host has slots would hold up every other
start there for their whole ``start_timeout``, again and again. So a host begins at most ``starting`` drivers
per minute beyond those that come up, and memory and driver slots are counted all the time.

A driver that waits for executors of its cluster holds no starting slot: its JVM is up, nothing of it works, and the
next start is not held up by a cluster that has no room. Its memory and its driver slot it keeps, because its process
is there, as large as declared. When the cluster comes back, nothing is started here: the drivers that waited go on,
each as soon as it has an executor, so there is no storm of starts. Whether one of them then counts as starting is
decided as ever, by how long it has been there: after a minute it does not.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Iterable
from dataclasses import dataclass

from supervisor.model.records import LEASED, OCCUPYING, Ownership, OwnState, Phase
from supervisor.model.seen import Found
from supervisor.model.view import Row

SLOT_MAX_S = 60.0
"""This is several times what a start takes (12-16 s for PySpark on two quiet cores): a busy host keeps its
starting limit, too.
"""
SLOT_SHARE = 1 / 3
"""This is the share of ``start_timeout``, for jobs that are given little time; the default of that is 5m."""
UNCLAIMED_SHARE = 0.25
"""This is the share of the above for an assignment that no shim has claimed yet: nothing of Spark runs, and a
new leader can't know its age.
"""


@dataclass(frozen=True, slots=True)
class Load:
    """Holds what a supervisor carries: bytes of declared memory, drivers, and how many of them are still
    starting.
    """

    memory: int = 0
    drivers: int = 0
    starting: int = 0

    def plus(self, memory: int, *, starting: bool) -> Load:
        return Load(self.memory + memory, self.drivers + 1, self.starting + (1 if starting else 0))


@dataclass(frozen=True, slots=True)
class AbsentSupervisor:
    """Names a supervisor that is not connected to ZooKeeper, although ``drivers`` of jobs are its own."""

    id: str
    host: str
    drivers: int


def has_absent_supervisor(own: Ownership, present: Container[str]) -> bool:
    """Returns whether a driver may run whose supervisor is not among those ``present``."""
    return own.state in LEASED and own.supervisor not in present


def absent_of(rows: Iterable[Row], present: Container[str]) -> tuple[AbsentSupervisor, ...]:
    """Returns the supervisors that have drivers and are not among those ``present``, in the order of their ids. A
    driver that is assigned and not yet claimed does not count: it is placed anew."""
    owned = (row.own.record for row in rows if isinstance(row.own, Found))
    hosts = [(own.supervisor, own.host) for own in owned if has_absent_supervisor(own, present)]
    counts = Counter(supervisor for supervisor, _ in hosts)
    return tuple(AbsentSupervisor(id, host, counts[id]) for id, host in sorted(dict(hosts).items()))


def loads_of(rows: Iterable[Row], now_s: float | None = None) -> dict[str, Load]:
    """Returns the load by supervisor id. ``now_s`` is CLOCK_BOOTTIME of the observer; if it is None, stuck
    starts count as starting, too.
    """
    loads: dict[str, Load] = {}
    for row in rows:
        if isinstance(row.own, Found) and row.own.record.state in OCCUPYING:
            own = row.own.record
            loads[own.supervisor] = loads.get(own.supervisor, Load()).plus(
                own.memory, starting=_is_starting(row, now_s)
            )
    return loads


def _is_starting(row: Row, now_s: float | None) -> bool:
    """Returns whether the job is between its assignment and its first committed batch, unless it is stuck (or
    makes no query, which cannot be distinguished from it).

    The time for which it has been starting is what this observer saw, or the shim's own count, which a
    takeover does not reset, whichever is longer.
    """
    assert isinstance(row.own, Found)
    state = row.own.record.state
    ran_s = 0.0
    if state is not OwnState.ASSIGNED:
        if state is not OwnState.CLAIMED or row.lease is None or not isinstance(row.lease.seen, Found):
            return False
        lease = row.lease.seen.record
        if lease.phase in (Phase.RUNNING, Phase.STOPPING) or lease.cluster_wait is not None:
            return False
        ran_s = lease.ran_s
    return now_s is None or max(ran_s, now_s - row.own_seen_at_s) < _slot_s(row)


def _slot_s(row: Row) -> float:
    """Returns for how long a start holds its slot, in seconds."""
    timeout_s = (
        row.ref.record.terms.start_timeout_s if isinstance(row.ref, Found) else SLOT_MAX_S / SLOT_SHARE
    )
    unclaimed = isinstance(row.own, Found) and row.own.record.state is OwnState.ASSIGNED
    return min(SLOT_MAX_S, SLOT_SHARE * timeout_s) * (UNCLAIMED_SHARE if unclaimed else 1.0)
