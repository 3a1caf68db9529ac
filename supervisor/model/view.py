"""Defines one immutable View of the cluster: what the leader knows when it plans, with what it could not read
listed as data.

``observe`` builds it, ``plan`` reads it. Every instant is CLOCK_BOOTTIME of the observer, in seconds.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from supervisor.model.checkpoint_expectation import SeenQuery
from supervisor.model.claimed_location import ClaimedLocation
from supervisor.model.records import (
    Acceptance,
    CheckpointClaim,
    Cordon,
    Handover,
    JobRef,
    Lease,
    Member,
    Ownership,
    Pause,
    Preparation,
    Result,
    SpecRevision,
)
from supervisor.model.seen import Found, Seen, Unreadable
from supervisor.model.working_directory import directory_of


@dataclass(frozen=True, slots=True)
class SeenLease:
    """Holds a lease, and since when it has been unchanged.

    ``first_seen_at_s`` is a time after the response arrived that first showed this mzxid. ``read_sent_at_s``
    is when the latest read that still showed it was *sent*; that read was sent after the ownership beside it
    had been received. ``running_at_s`` is a time after the first response that showed the attempt of this lease in the phase
    ``running``; it is None if the lease does not say so.
    """

    seen: Seen[Lease]
    first_seen_at_s: float
    read_sent_at_s: float
    running_at_s: float | None = None

    @property
    def silent_s(self) -> float:
        """Returns for how long the lease has certainly not changed."""
        return self.read_sent_at_s - self.first_seen_at_s


@dataclass(frozen=True, slots=True)
class Leftover:
    """Holds a dirty result, and the checkpoint claim that still carries its uid (path and record), if any."""

    result: Found[Result]
    claim: tuple[str, Found[CheckpointClaim]] | None = None


@dataclass(frozen=True, slots=True)
class UpdateSaved:
    """Says what came of the savepoint that an update waits for (``update.rollback: savepoint``).

    ``savepoint`` is its id once it is complete, else empty. ``nothing`` says that no batch was found in the checkpoint.
    ``why`` is what the last try has failed of; with ``for_good`` no other one would help. ``since_at_s`` is from when its
    time counts: while it waits for its turn beside those of other jobs, that is now.
    """

    since_at_s: float
    savepoint: str = ""
    nothing: bool = False
    why: str = ""
    for_good: bool = False


@dataclass(frozen=True, slots=True)
class UpdateRestored:
    """Says what came of the copy of the savepoint of an update that has failed. If ``revision`` is None, there is no
    copy, and ``why`` says so.

    ``revision`` is the next one: the spec of the revision before, with the copy as its checkpoint. ``queries`` are what a
    start has to find there, ``moved_sha256`` is as in ``Update``. The rest was read after the copy was complete: the lease
    of the name, the place of the copy as it is to be claimed, and path and record of the claim of the old checkpoint.
    """

    revision: SpecRevision | None = None
    why: str = ""
    queries: tuple[SeenQuery, ...] = ()
    moved_sha256: str = ""
    lease: Seen[Lease] = None
    claimed: ClaimedLocation | None = None
    left: tuple[str, Found[CheckpointClaim]] | None = None


@dataclass(frozen=True, slots=True)
class Row:
    """Holds all that is known of one name. ``own_seen_at_s`` is when the present state of /own/<name> was
    first seen. ``left_behind`` is what a look at the checkpoint found that the target of an update has left there: empty if
    it is nothing, None if nobody has looked. ``saved`` and ``restored`` are what has come so far of the savepoint of an
    update, and of its copy; None if there is nothing yet. ``examined_since_s`` and ``restoring_since_at_s`` are from
    when the time of that look and that copy counts: now, while they wait for their turn beside those of other jobs; None
    where nobody knows, as in a command.
    """

    name: str
    ref: Seen[JobRef] = None
    own: Seen[Ownership] = None
    own_seen_at_s: float = 0.0
    lease: SeenLease | None = None
    leftovers: tuple[Leftover, ...] = ()
    flaws: tuple[str, ...] = ()
    left_behind: str | None = None
    saved: UpdateSaved | None = None
    restored: UpdateRestored | None = None
    examined_since_s: float | None = None
    restoring_since_at_s: float | None = None

    @property
    def is_torn(self) -> bool:
        """Returns whether the registered uid has a dirty result beside it. The registry never holds both, so
        the two were read at different moments.
        """
        uid = self.ref.record.uid if isinstance(self.ref, Found) else None
        return any(left.result.record.uid == uid for left in self.leftovers)

    @property
    def is_listed(self) -> bool:
        """Returns whether the name is registered, or unreadable. A name whose records only say that it has
        ended is neither.
        """
        return self.ref is not None or isinstance(self.own, Unreadable) or bool(self.flaws)

    @property
    def lease_of_owner(self) -> Lease | None:
        """Returns the lease if it is readable and of the very claim that /own is about, else None."""
        if self.lease is None or not isinstance(self.lease.seen, Found) or not isinstance(self.own, Found):
            return None
        lease, own = self.lease.seen.record, self.own.record
        return lease if (lease.uid, lease.attempt, lease.claim) == (own.uid, own.attempt, own.claim) else None


def home_of(row: Row) -> str:
    """Returns the supervisor on whose host alone lies what the job of ``row`` wrote to its working directory; empty if it
    wrote nothing there that is known."""
    own = row.own.record if isinstance(row.own, Found) else None
    uid = row.ref.record.uid if isinstance(row.ref, Found) else None
    if own is None or own.uid != uid:
        return ""
    lease = row.lease_of_owner
    written = directory_of(own.usage) or directory_of(None if lease is None else lease.usage)
    return own.supervisor if written is not None else ""


@dataclass(frozen=True, slots=True)
class SeenAcceptance:
    """Holds the latest acceptance of a restored registry. ``since_zxid`` is that of its commit.
    Records with a lower zxid were written before the acceptance. ``first_seen_at_s`` is a time after the response
    arrived that first showed it to this observer.
    """

    seen: Found[Acceptance] | Unreadable
    since_zxid: int
    first_seen_at_s: float


@dataclass(frozen=True, slots=True)
class SeenPreparation:
    """Holds a request for a prepared driver. ``supervisor`` is who is asked; ``first_seen_at_s`` is a time after the
    response arrived that first showed it to this observer. ``due_from_at_s`` is from when the time counts in which the
    driver has to be ready: no host begins to prepare one while the cluster is paused, so that this is now meanwhile."""

    supervisor: str
    path: str
    seen: Found[Preparation] | Unreadable
    first_seen_at_s: float
    due_from_at_s: float


@dataclass(frozen=True, slots=True)
class View:
    """Holds what one reading of the registry showed. ``errors`` say what could not be read; a name that an
    error concerns has a flaw in its row, and is left alone.

    ``distrust`` says why this registry must not be acted upon at all (I10), or is None. ``recorded`` says
    that this term's epoch is in the store; until then nothing is started or cleaned. ``paused`` says that
    there is a /pause, whatever is in it; ``pause`` is what is in it. ``wish`` is the latest planned hand-over
    that was asked for, in force or not. ``accepted`` is None if nothing was ever restored and accepted here.
    ``missing`` are parents that somebody removed and the leader creates again. ``preparations`` are the requests
    for prepared drivers, of all supervisors; ``prepare_hosts`` are those that were ever asked for one. ``cordons`` has what
    operators want of hosts, by supervisor id; a host without one is as any other.
    """

    rows: Mapping[str, Row]
    members: Mapping[str, Member]
    epoch: int
    recorded: bool = True
    paused: bool = False
    pause: Pause | None = None
    wish: Seen[Handover] = None
    accepted: SeenAcceptance | None = None
    distrust: str | None = None
    missing: tuple[str, ...] = ()
    preparations: tuple[SeenPreparation, ...] = ()
    prepare_hosts: frozenset[str] = frozenset()
    cordons: Mapping[str, Found[Cordon] | Unreadable] = field(default_factory=dict)
    errors: tuple[str, ...] = field(default=())

    @property
    def accepted_zxid(self) -> int:
        """Returns the zxid of the latest acceptance of a restored registry: what has a lower one was written
        before it. The result is 0 if there is no acceptance.
        """
        return self.accepted.since_zxid if self.accepted is not None else 0

    @property
    def cordoned(self) -> dict[str, str]:
        return cordoned_by(self.cordons)


def cordoned_by(cordons: Mapping[str, Found[Cordon] | Unreadable]) -> dict[str, str]:
    """Returns the hosts on which nothing new is placed, and why. A record that can't be read counts: nothing is placed on
    doubt, and nothing is moved away on doubt either."""
    return {
        host: found.record.sentence if isinstance(found, Found) else f"what is wanted of {host} can't be read"
        for host, found in cordons.items()
        if isinstance(found, Unreadable) or found.record.cordoned
    }
