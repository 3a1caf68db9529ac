"""Defines plan and actions: frozen values that leave no choice to the code that carries them out, each with
its reason.

They are made by ``plan``, checked there, carried out by ``act`` and printed by ``explain``. An action holds
the very records, with versions, that it was decided on; its guards come from them. Its ``phrase`` is what the leader is to
do, in words that follow "the leader will".
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, TypeAlias

from supervisor.model.records import Acceptance, JobRef, Lease, Member, Outcome, Ownership, PrepareLevel
from supervisor.model.restart import Account
from supervisor.model.seen import Found, Seen
from supervisor.model.state import next_attempt
from supervisor.model.view import Leftover, UpdateRestored


@dataclass(frozen=True, slots=True)
class Waited:
    """The full wait W went by while the lease was as in this observation (None: there was no lease)."""

    lease: Seen[Lease]


@dataclass(frozen=True, slots=True)
class Assign:
    name: str
    why: str
    ref: Found[JobRef]
    own: Found[Ownership]
    host: Member
    account: Account
    waited: Waited | None = None
    prepared: bool = False  # a driver waits there that can take the attempt
    moved_by: str = ""  # the drain of a host by which the job left that host (``Ownership.moved_by``)
    queries: tuple[str, ...] = ()  # what is known of the checkpoint, as pairs of ``CheckpointExpectation``
    left: str = ""  # why the update of the job is not rolled back, though it has failed

    @property
    def phrase(self) -> str:
        return f"start attempt {next_attempt(self.ref.record, self.own.record)} on {self.host.id}"


@dataclass(frozen=True, slots=True)
class Unassign:
    name: str
    why: str
    own: Found[Ownership]

    @property
    def phrase(self) -> str:
        return f"take attempt {self.own.record.attempt} back from {self.own.record.supervisor}"


@dataclass(frozen=True, slots=True)
class Drain:
    name: str
    why: str
    ref: Found[JobRef]
    own: Found[Ownership]

    @property
    def phrase(self) -> str:
        return f"stop attempt {self.own.record.attempt} after its batch"


@dataclass(frozen=True, slots=True)
class Revoke:
    name: str
    why: str
    own: Found[Ownership]
    lease: Seen[Lease]

    @property
    def phrase(self) -> str:
        return f"give up attempt {self.own.record.attempt}"


@dataclass(frozen=True, slots=True)
class Bury:
    name: str
    why: str
    own: Found[Ownership]
    waited: Waited

    @property
    def phrase(self) -> str:
        return f"note attempt {self.own.record.attempt} as lost"


@dataclass(frozen=True, slots=True)
class Conclude:
    name: str
    why: str
    ref: Found[JobRef]
    own: Found[Ownership]
    outcome: Outcome
    account: Account

    @property
    def phrase(self) -> str:
        return f"note it as {self.outcome.value}"


@dataclass(frozen=True, slots=True)
class SuspendExhausted:
    name: str
    why: str
    ref: Found[JobRef]
    own: Found[Ownership]

    @property
    def phrase(self) -> str:
        return "suspend it"


@dataclass(frozen=True, slots=True)
class CleanUp:
    """Removes what an ended uid left behind. If ``dead`` is set, no attempt of the name can be alive and no
    newer uid owns it: ownership and lease are cleaned too.

    If ``deletes_checkpoint`` is set, the objects of its checkpoint are to be deleted, and its location stays
    claimed until then.
    """

    name: str
    why: str
    leftover: Leftover
    own: Found[Ownership]
    lease: Seen[Lease]
    dead: bool
    waited: Waited | None = None
    deletes_checkpoint: bool = False

    @property
    def phrase(self) -> str:
        left = f"remove what submission {self.leftover.result.record.uid} left behind"
        return f"{left}, with its checkpoint" if self.deletes_checkpoint else left


@dataclass(frozen=True, slots=True)
class Prepare:
    """Asks ``host`` to keep a prepared driver of the job's present revision. ``own`` is what the plan was made from. If
    ``new_host`` is set, this host was never asked before: the parent of its requests is made, too.
    """

    name: str
    why: str
    ref: Found[JobRef]
    own: Found[Ownership]
    host: Member
    level: PrepareLevel
    new_host: bool = False

    @property
    def phrase(self) -> str:
        return f"have a driver prepared on {self.host.id}"


@dataclass(frozen=True, slots=True)
class GiveUpdateUp:
    """Puts the revision that runs in the place of one of which no driver could be prepared. Nothing is stopped."""

    name: str
    why: str
    ref: Found[JobRef]
    own: Found[Ownership]

    @property
    def phrase(self) -> str:
        return f"give the update to revision {self.ref.record.revision} up"


@dataclass(frozen=True, slots=True)
class RollBack:
    """Makes the revision before an update the newest one again, since an attempt of the target has ended with a failure."""

    name: str
    why: str
    ref: Found[JobRef]
    own: Found[Ownership]

    @property
    def phrase(self) -> str:
        return f"roll revision {self.ref.record.revision} back"


@dataclass(frozen=True, slots=True)
class KeepSavepoint:
    """Writes down with an update the savepoint that was made before its hand-over. Nothing is stopped."""

    name: str
    why: str
    ref: Found[JobRef]
    own: Found[Ownership]
    savepoint: str

    @property
    def phrase(self) -> str:
        return f"note savepoint {self.savepoint}, made before revision {self.ref.record.revision}"


@dataclass(frozen=True, slots=True)
class RollBackToSavepoint:
    """Makes the revision before an update the newest one again, on a copy of the savepoint of the update."""

    name: str
    why: str
    ref: Found[JobRef]
    own: Found[Ownership]
    restored: UpdateRestored

    @property
    def phrase(self) -> str:
        return f"roll revision {self.ref.record.revision} back to a savepoint"


@dataclass(frozen=True, slots=True)
class FinishUpdate:
    """Notes that the target of an update has run for as long as it is observed."""

    name: str
    why: str
    ref: Found[JobRef]
    own: Found[Ownership]

    @property
    def phrase(self) -> str:
        return f"note the update to revision {self.ref.record.revision} as done"


@dataclass(frozen=True, slots=True)
class Withdraw:
    """Takes back the request for a prepared driver. ``path`` is that of its record."""

    name: str
    why: str
    path: str
    version: int

    @property
    def phrase(self) -> str:
        return "take back the request for a prepared driver"


Action: TypeAlias = (
    Prepare
    | Withdraw
    | Assign
    | Unassign
    | Drain
    | GiveUpdateUp
    | KeepSavepoint
    | RollBack
    | RollBackToSavepoint
    | FinishUpdate
    | Revoke
    | Bury
    | Conclude
    | SuspendExhausted
    | CleanUp
)


ROOM_ELSEWHERE: Final = "a host that can take it"
"""A move waits for this until somebody makes room; everything else that it waits for comes by itself."""


@dataclass(frozen=True, slots=True)
class Note:
    """Says why nothing is done about a job now. ``wait_s`` is the number of seconds until the plan would
    differ by time alone, if that is known. ``prepares`` is not None if the job waits for a prepared driver: it is the
    host of that, or empty if none was asked yet. ``unplaceable`` says that no host has what the job requires.
    ``moves`` is not empty if the job is to leave its host and goes on there for now: it is what that waits for,
    ``ROOM_ELSEWHERE`` or another text. With ``holds_stop`` its driver is to be stopped, and goes on because no host could
    start it again now. ``saves`` says that an update waits for a savepoint of its job, ``restores`` that
    a roll back waits for the copy of one: the leader makes both beside its passes. ``examines`` says that a roll back waits
    for an examination of the checkpoint, beside the passes, too. Of these three ``wait_s`` is the longest wait.
    """

    name: str
    why: str
    wait_s: float | None = None
    pending: bool = False
    quarantined: bool = False
    prepares: str | None = None
    unplaceable: bool = False
    moves: str = ""
    holds_stop: bool = False
    saves: bool = False
    restores: bool = False
    examines: bool = False


@dataclass(frozen=True, slots=True)
class Alarm:
    """Says what a person should look at. ``job`` is the job concerned; None means the cluster as a whole. As
    text its name comes first."""

    text: str
    job: str | None = None

    def __str__(self) -> str:
        return self.text if self.job is None else f"{self.job}: {self.text}"


@dataclass(frozen=True, slots=True)
class Plan:
    """Holds at most one action per name. ``notes`` say why the other jobs wait.

    ``waited_out`` is the acceptance of a restored registry after which the wait is over, which is to be
    recorded.
    """

    actions: tuple[Action, ...]
    notes: tuple[Note, ...] = ()
    alarms: tuple[Alarm, ...] = ()
    waited_out: Found[Acceptance] | None = None
