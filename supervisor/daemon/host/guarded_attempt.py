"""Decides for the guardian about one attempt of this host (protocol §7.4), sans I/O, in
``step(guarded_attempt, event, now)``.

========  =============================================  =====================================================
stage     what is going on                               what ends it
========  =============================================  =====================================================
unborn    the run directory is read until it names a     a shim → watched; one of an earlier boot → removing;
          shim; that of another supervisor is left       no shim for 15 s: the directory is removed
          alone
watched   the shim and the deadline file are probed      ``model.second_killer`` acts → killing;
                                                         a stranger → removing
killing   the shim is killed, then its tree, until       tree proven empty → burying;
          nothing is seen                                not provable → removing; of a prepared driver → taken
taken     of a prepared driver only: it is read which    one, and tree proven empty → burying;
          attempt was handed to it                       none, or not believable → removing
burying   /own is read, and the tombstone is written     written, or /own is not about this claim → removing;
                                                         /own unbelievable for long → removing
removing  the run directory is removed, once nobody
          lives there
========  =============================================  =====================================================

What is never bent:

* No tombstone is written before the tree was *proven* empty, and only over this very claim, at the version
  just read. Without proof nothing is written, and the leader waits the full time.
* A prepared driver (``<uid>.p<random>``) has an attempt only if one was handed to it. That is read after the shim is dead:
  what is handed to it later reaches nobody. If none was, there was no claim: nothing is read or written.
* /own that is absent, unreadable or older than the assignment is *unknown*: nothing is written.
* A claim that the dead shim had sent may still commit: while /own shows the assignment, it is waited for.
* Run files of an earlier boot are removed, and nothing else is done (F58). That the host was booted would
  prove their tree gone, but that the files are of this very host is only what they say, and a tombstone on
  the strength of a copied or shared directory would start a second driver. The leader's full wait is mostly
  over by then.
* A living shim holds the lock of its directory from before it writes that it is there. Where the lock is free
  and the process that is named lives, that process is a stranger (the directory was copied): nobody is killed
  on the strength of it.

One request is under way at a time. ``guardian`` calls this module.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any, TypeAlias

from supervisor.clients.run_dir import ShimRecord
from supervisor.model import second_killer
from supervisor.model.emptiness import Emptiness
from supervisor.model.launch import Launch
from supervisor.model.lease_terms import DOUBT_S, KILL_TIME_S, tombstone_from_s
from supervisor.model.records import Cause, Ownership, OwnState
from supervisor.model.second_killer import Act, KillerProbe, SecondKiller, ShimStruck, TreeStruck
from supervisor.model.seen import Found, Seen
from supervisor.model.transaction import Transaction
from supervisor.records.layout import Layout, is_prepared
from supervisor.registry.attempt_writes import AttemptIdentity, Exit, tombstone

UNBORN_S = 15.0
"""A run directory without a shim for this long was left by an agent that crashed before it started one."""

CLAIM_UNDER_WAY_S = 20.0
"""A claim that a dead shim has sent may still commit for this long: the longest session time-out in use, and
a margin."""

_RETRY_S = 1.0
_KILLED_S = 0.001


class GuardStage(StrEnum):
    """Names where the attempt stands; the table is above."""

    UNBORN = "unborn"
    WATCHED = "watched"
    KILLING = "killing"
    TAKEN = "taken"
    BURYING = "burying"
    REMOVING = "removing"


# -- events: besides ``KillerProbe``, ``ShimStruck`` and ``TreeStruck`` ------------------------------------------------


@dataclass(frozen=True, slots=True)
class GuardTick:
    """Says that time has passed. ``connected`` is True if a request can be sent."""

    connected: bool


@dataclass(frozen=True, slots=True)
class DirectoryRead:
    """Holds what the run directory contains; None stands for a file that is not there or not believable."""

    launch: Launch | None
    shim: ShimRecord | None


@dataclass(frozen=True, slots=True)
class HandedRead:
    """Says by which launch an attempt was handed to a prepared driver whose shim is dead. It is None if none was, or if
    ``why`` says why the file is not to be believed."""

    launch: Launch | None
    why: str = ""


@dataclass(frozen=True, slots=True)
class Stranger:
    """Says that the process that is named lives, but not in this directory."""


@dataclass(frozen=True, slots=True)
class OwnershipRead:
    """Answers ``ReadOwn``. ``driver_began_at_s`` is when the driver's process was started, or None if that is
    not known.

    ``at`` is wall time, for display.
    """

    own: Seen[Ownership]
    driver_began_at_s: float | None
    at: str


@dataclass(frozen=True, slots=True)
class TombstoneWritten:
    """Says that the tombstone has committed."""


@dataclass(frozen=True, slots=True)
class CommitUnanswered:
    """Says that the request was rejected, not sent, or has an unknown outcome: /own is read again."""


Event: TypeAlias = (
    GuardTick
    | DirectoryRead
    | HandedRead
    | Stranger
    | KillerProbe
    | ShimStruck
    | TreeStruck
    | OwnershipRead
    | TombstoneWritten
    | CommitUnanswered
)


# -- effects -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Strike:
    """Kills. KILL_SHIM is answered by ``ShimStruck``, KILL_TREE by ``TreeStruck``."""

    act: Act


@dataclass(frozen=True, slots=True)
class ReadOwn:
    """Reads /own. The answer is ``OwnershipRead`` or ``CommitUnanswered``."""


@dataclass(frozen=True, slots=True)
class CommitTombstone:
    """Commits the tombstone. The answer is ``TombstoneWritten`` or ``CommitUnanswered``."""

    transaction: Transaction


@dataclass(frozen=True, slots=True)
class Remove:
    """Removes the run directory, if nobody lives there. It is repeated until the directory is gone."""


@dataclass(frozen=True, slots=True)
class LogGuard:
    """Writes one line of the log. ``event`` is one of ``supervisor.logs.events``."""

    event: str
    level: str
    fields: tuple[tuple[str, Any], ...]


Effect: TypeAlias = Strike | ReadOwn | CommitTombstone | Remove | LogGuard


# -- state -------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class GuardedAttempt:
    """Holds the state of one attempt of this host, with times in BOOTTIME seconds. ``supervisor`` and
    ``boot_id`` are those of the guardian itself."""

    key: str
    supervisor: str
    boot_id: str
    layout: Layout
    seen_at_s: float
    stage: GuardStage = GuardStage.UNBORN
    launch: Launch | None = None
    shim: ShimRecord | None = None
    killer: SecondKiller = SecondKiller()
    acted_at_s: float = 0.0  # when looking was over
    asking: bool = False
    retry_at_s: float = 0.0
    doubt_at_s: float | None = None  # since when /own shows nothing to go by

    @property
    def cause(self) -> Cause:
        """Returns why the driver died, if it did not end by itself."""
        return Cause.LEASE_EXPIRED if self.killer.due else Cause.SHIM_DIED


def step(
    guarded_attempt: GuardedAttempt, event: Event, now_s: float
) -> tuple[GuardedAttempt, tuple[Effect, ...]]:
    """Returns the guarded attempt after ``event``, and the effects to carry out, in order. It is pure. An
    event out of turn changes nothing."""
    turn = _Turn(guarded_attempt, now_s)
    turn.handle(event)
    return turn.guarded_attempt, tuple(turn.effects)


def next_wake_at_s(guarded_attempt: GuardedAttempt) -> float | None:
    """Returns when the attempt needs its next step at the latest (BOOTTIME), or None if once per period p is
    enough."""
    return (
        second_killer.next_probe_at_s(guarded_attempt.killer)
        if guarded_attempt.stage is GuardStage.WATCHED
        else None
    )


class _Turn:
    """Makes one step: it holds a guarded attempt that is replaced as the turn goes on, and the effects so
    far."""

    def __init__(self, guarded_attempt: GuardedAttempt, now_s: float) -> None:
        self.guarded_attempt = guarded_attempt
        self.now_s = now_s
        self.effects: list[Effect] = []

    def set(self, **changes: Any) -> None:
        self.guarded_attempt = replace(self.guarded_attempt, **changes)

    def log(self, event: str, level: str, **fields: Any) -> None:
        self.effects.append(LogGuard(event, level, tuple(fields.items())))

    def handle(self, event: Event) -> None:
        match event, self.guarded_attempt.stage:
            case DirectoryRead(), GuardStage.UNBORN:
                self.meet(event)
            case Stranger(), GuardStage.WATCHED:
                assert self.guarded_attempt.shim is not None
                self.log(
                    "run_dir_of_stranger",
                    "warning",
                    pid=self.guarded_attempt.shim.process.pid,
                    next="it is removed; the process is let be",
                )
                self.set(stage=GuardStage.REMOVING)
            case KillerProbe(), GuardStage.WATCHED:
                self.watch(event)
            case ShimStruck() | TreeStruck(), GuardStage.KILLING:
                self.struck(event)
            case GuardTick(), GuardStage.KILLING:
                self.effects.append(Strike(self.guarded_attempt.killer.act))
            case HandedRead(), GuardStage.TAKEN:
                self.take(event)
            case GuardTick(connected), GuardStage.BURYING:
                if (
                    connected
                    and not self.guarded_attempt.asking
                    and self.now_s >= self.guarded_attempt.retry_at_s
                ):
                    self.set(asking=True)
                    self.effects.append(ReadOwn())
            case GuardTick(), GuardStage.REMOVING:
                self.effects.append(Remove())
            case OwnershipRead() | TombstoneWritten() | CommitUnanswered(), GuardStage.BURYING if (
                self.guarded_attempt.asking
            ):
                self.set(asking=False, retry_at_s=self.now_s + _RETRY_S)
                self.answered(event)

    def meet(self, found: DirectoryRead) -> None:
        launch = self.guarded_attempt.launch or found.launch
        self.set(launch=launch)
        if launch is not None and launch.supervisor != self.guarded_attempt.supervisor:
            return  # somebody else's: leave it alone
        if found.shim is None:
            if self.now_s - self.guarded_attempt.seen_at_s >= UNBORN_S:
                self.effects.append(Remove())
            return
        self.set(shim=found.shim)
        if found.shim.process.boot_id != self.guarded_attempt.boot_id:
            self.log("run_dir_of_earlier_boot", "info")
            self.set(stage=GuardStage.REMOVING)
        else:
            self.set(stage=GuardStage.WATCHED)

    # -- killing -------------------------------------------------------------------------------------------------------

    def watch(self, probe: KillerProbe) -> None:
        killer = second_killer.step(self.guarded_attempt.killer, probe, self.now_s)
        self.set(killer=killer)
        if killer.act is not Act.PROBE:
            self.set(stage=GuardStage.KILLING, acted_at_s=self.now_s)
            if not killer.shim_dead:
                self.log("shim_let_deadline_come", "error", deadline_s=killer.deadline_at_s)

    def struck(self, blow: ShimStruck | TreeStruck) -> None:
        killer = second_killer.step(self.guarded_attempt.killer, blow, self.now_s)
        self.set(killer=killer)
        if killer.act is Act.OVER:
            self.over()
        elif isinstance(blow, ShimStruck):
            self.effects.append(Strike(killer.act))
        elif self.now_s - self.guarded_attempt.acted_at_s > KILL_TIME_S:  # again at the next tick
            self.log(
                "kill_takes_too_long", "error", seconds=round(self.now_s - self.guarded_attempt.acted_at_s, 1)
            )

    def over(self) -> None:
        killer, is_prepared_driver = self.guarded_attempt.killer, is_prepared(self.guarded_attempt.key)
        empty = killer.tree is Emptiness.EMPTY
        if empty or killer.took_s > _KILLED_S:
            self.log(
                "shim_gone",
                "warning",
                tree=killer.tree.value,
                cause=self.guarded_attempt.cause.value,
                killed_s=round(killer.took_s, 3),
                next="a tombstone if the tree is proven empty, else the full wait"
                if not is_prepared_driver
                else "nothing, unless an attempt was handed to it",
            )
        else:  # a shim that has ended in order takes its cgroup with it
            self.log("attempt_over", "info", next="its run directory is removed")
        if is_prepared_driver:
            self.set(stage=GuardStage.TAKEN)
        else:
            self.bury_or_remove(empty and self.guarded_attempt.launch is not None)

    def bury_or_remove(self, is_to_bury: bool) -> None:
        self.set(stage=GuardStage.BURYING if is_to_bury else GuardStage.REMOVING)
        launch, expired = self.guarded_attempt.launch, self.guarded_attempt.cause is Cause.LEASE_EXPIRED
        if is_to_bury and launch is not None:
            self.set(retry_at_s=tombstone_from_s(self.now_s, launch.executors_outlive_s, expired=expired))

    def take(self, handed: HandedRead) -> None:
        """Goes on with the attempt that was handed to a prepared driver, as with any other. If it is not to be believed
        which one that was, nothing is written: the leader waits the full time."""
        launch, killer = handed.launch, self.guarded_attempt.killer
        why = handed.why
        if launch is not None and launch.supervisor != self.guarded_attempt.supervisor:
            why = f"it was handed over by the supervisor {launch.supervisor}"
            launch = None
        if why:
            self.log("no_tombstone", "warning", why=why)
        elif launch is not None:
            self.set(launch=launch)
        self.bury_or_remove(launch is not None and killer.tree is Emptiness.EMPTY)

    # -- burying -------------------------------------------------------------------------------------------------------

    def answered(self, answer: OwnershipRead | TombstoneWritten | CommitUnanswered) -> None:
        if isinstance(answer, TombstoneWritten):
            self.log("tombstone_written", "info", cause=self.guarded_attempt.cause.value)
            self.set(stage=GuardStage.REMOVING)
        elif isinstance(answer, OwnershipRead):
            self.write_tombstone(answer)

    def write_tombstone(self, read: OwnershipRead) -> None:
        assert self.guarded_attempt.launch is not None and self.guarded_attempt.shim is not None
        own, entry, claim = read.own, self.guarded_attempt.launch.assignment, self.guarded_attempt.shim.claim
        # absent, unreadable, older than seen: unknown
        if not isinstance(own, Found) or own.version < entry.own_version:
            self.doubt(DOUBT_S)
        elif own.version == entry.own_version and own.record.state is OwnState.ASSIGNED:
            self.doubt(CLAIM_UNDER_WAY_S)
        else:
            mine = AttemptIdentity(entry.name, entry.uid, entry.attempt, claim)
            ended = self.exit(own.record, read.driver_began_at_s)
            transaction = tombstone(
                self.guarded_attempt.layout, own, mine, ended, f"guardian.{claim}", read.at
            )
            if transaction is None:
                self.set(stage=GuardStage.REMOVING)
            else:
                self.set(asking=True)
                self.effects.append(CommitTombstone(transaction))

    def doubt(self, patience_s: float) -> None:
        since_at_s = (
            self.now_s if self.guarded_attempt.doubt_at_s is None else self.guarded_attempt.doubt_at_s
        )
        self.set(doubt_at_s=since_at_s)
        if self.now_s - since_at_s >= patience_s:
            self.log("no_tombstone", "warning", why="/own does not show the claim")
            self.set(stage=GuardStage.REMOVING)

    def exit(self, own: Ownership, driver_began_at_s: float | None) -> Exit:
        """Returns the exit to record. A stop that was requested before is a stop, whatever killed the driver
        in the end."""
        ran_s = (
            0.0
            if driver_began_at_s is None
            else round(max(0.0, self.guarded_attempt.acted_at_s - driver_began_at_s), 3)
        )
        if own.state is OwnState.DRAINING:
            return Exit(
                Cause.STOPPED, "stopped on request; the process beside the driver died meanwhile", None, ran_s
            )
        why = "its lease ran out" if self.guarded_attempt.killer.due else "the process beside the driver died"
        return Exit(self.guarded_attempt.cause, f"{why}, and the driver with it", None, ran_s)
