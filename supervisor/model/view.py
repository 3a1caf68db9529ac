"""One immutable View of the cluster: what the leader knows when it plans, with what it could not read listed as data.

Built by ``observe``, read by ``plan``. Every instant is CLOCK_BOOTTIME of the observer, in seconds.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from supervisor.model.records import CheckpointClaim, JobRef, Lease, Member, Ownership, Result
from supervisor.model.seen import Found, Seen


@dataclass(frozen=True, slots=True)
class LeaseSight:
    """A lease and since when it has looked like this.

    ``first_seen_s``: after the response arrived that first showed this mzxid. ``read_sent_s``: when the latest read
    that still showed it was *sent*; that read was sent after the ownership beside it had been received.
    """

    seen: Seen[Lease]
    first_seen_s: float
    read_sent_s: float

    @property
    def silent_s(self) -> float:
        """For how long the lease has certainly not changed."""
        return self.read_sent_s - self.first_seen_s


@dataclass(frozen=True, slots=True)
class Leftover:
    """A dirty result, and the checkpoint claim that still carries its uid (path and record), if any."""

    result: Found[Result]
    claim: tuple[str, Found[CheckpointClaim]] | None = None


@dataclass(frozen=True, slots=True)
class Row:
    """All that is known of one name. ``own_seen_s``: first sight of the present state of /own/<name>."""

    name: str
    ref: Seen[JobRef] = None
    own: Seen[Ownership] = None
    own_seen_s: float = 0.0
    lease: LeaseSight | None = None
    leftovers: tuple[Leftover, ...] = ()
    flaws: tuple[str, ...] = ()

    @property
    def is_torn(self) -> bool:
        """The registered uid has a dirty result beside it, which never is: the two were read at different moments."""
        uid = self.ref.record.uid if isinstance(self.ref, Found) else None
        return any(left.result.record.uid == uid for left in self.leftovers)


@dataclass(frozen=True, slots=True)
class View:
    """``errors``: what could not be read; a name that an error concerns has a flaw in its row, and is left alone.

    ``distrust``: why this registry must not be acted upon at all (I10), or None. ``recorded``: this term's epoch is in
    the store; until then nothing is started or cleaned.
    """

    rows: Mapping[str, Row]
    members: Mapping[str, Member]
    epoch: int
    recorded: bool = True
    paused: bool = False
    distrust: str | None = None
    errors: tuple[str, ...] = field(default=())
