"""Says which applications on a cluster belong to drivers that are over (protocol §7.8). It is pure.

Numbers of attempts of a uid only grow, and one is given out only when all before it are over. So there are two questions:
a host that starts or ends an attempt asks for the attempts *before* a number, never for those that are not its own, since a
slow request would end a later attempt's application; and the leader asks which applications no driver can have any more.
The applications are listed before the registry is read: a driver that has one was claimed before that, so the registry
knows of it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from supervisor.clusters.application import Application, ApplicationStage
from supervisor.model.records import JobRef, Lease, Ownership, OwnState
from supervisor.model.seen import Found, Seen
from supervisor.model.view import Row
from supervisor.records.ids import may_be_of

OVER = frozenset({OwnState.VACANT, OwnState.EXITED})
"""In these states of an ownership, its attempt has no driver."""


def holds_something(application: Application) -> bool:
    """Returns whether there is anything to end."""
    return application.stage is not ApplicationStage.ENDED or bool(application.left)


def of_attempts_before(applications: Iterable[Application], uid: str, below: int) -> tuple[Application, ...]:
    """Returns the applications of attempts of ``uid`` whose number is below ``below``."""
    return tuple(
        one
        for one in applications
        if holds_something(one) and one.uid == uid.lower() and 0 < one.attempt < below
    )


@dataclass(frozen=True, slots=True)
class KnownJobs:
    """Holds what a registry knows of attempts. All attempts of a uid in ``over_below`` whose numbers are below
    that are over. ``doubtful`` are names of which something can't be read, so that any uid of theirs may have a driver."""

    over_below: Mapping[str, int]
    doubtful: frozenset[str]


def known_jobs(rows: Mapping[str, Row], leases: Mapping[str, Seen[Lease]]) -> KnownJobs:
    """Returns what a full view knows. ``leases`` are those of the registry, by name."""
    over_below: dict[str, int] = {}
    doubtful = {name for name in leases if name not in rows}
    for name, row in rows.items():
        if row.flaws or not _is_readable(row.ref) or not isinstance(row.own, Found):
            doubtful.add(name)
        for uid, below in _over_in(row.ref, row.own):
            over_below[uid] = min(below, over_below.get(uid, below))
    return KnownJobs(over_below, frozenset(doubtful))


def _is_readable(seen: Seen[Any]) -> bool:
    return seen is None or isinstance(seen, Found)


def _over_in(ref: Seen[JobRef], own: Seen[Ownership]) -> Iterable[tuple[str, int]]:
    """Yields, by uid, the number below which all attempts are over."""
    if isinstance(own, Found) and own.record.uid:
        record = own.record
        yield record.uid.lower(), record.attempt + (1 if record.state in OVER else 0)
    if isinstance(ref, Found) and not (isinstance(own, Found) and own.record.uid == ref.record.uid):
        yield ref.record.uid.lower(), 0  # none of its attempts was ever given out, as far as is known


def of_nobody(applications: Iterable[Application], known: KnownJobs) -> tuple[Application, ...]:
    """Returns the applications of attempts that are over, and of uids that no longer exist. What has a number that the
    registry has not given out yet is left alone: it is of a state of the registry that was lost."""
    return tuple(one for one in applications if holds_something(one) and _is_over(one, known))


def _is_over(application: Application, known: KnownJobs) -> bool:
    if not application.uid or application.attempt <= 0:
        return False
    below = known.over_below.get(application.uid)
    if below is not None:
        return application.attempt < below
    return not any(may_be_of(application.uid, name) for name in known.doubtful)
