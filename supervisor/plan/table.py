"""Holds the decision table of protocol §8, as data: what is owned × what is wanted → what to do.

``plan.decide`` reads it; a test asserts that no cell is missing. It was explored exhaustively together with
the guards of the writes (4.1 million states): change a cell only with a trace or an argument.

*same / other* compare the uid of /own with that of the reference (or, without one, of the dirty result).
*silent* means that the lease has not changed for the full wait W, judged by a read sent at or after
``first_seen_at_s`` + W.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum

from supervisor.model.records import OwnState


class Wanted(StrEnum):
    """Names the columns."""

    RUNNING = "running"
    SUSPENDED = "suspended"
    GONE_DIRTY = "no reference, a result dirty"
    GONE_CLEAN = "no reference, all clean"


class Owned(StrEnum):
    """Names the rows."""

    ABSENT = "absent"
    UNREADABLE = "unreadable"
    VACANT = "vacant, same"
    VACANT_OTHER = "vacant, other"
    ASSIGNED = "assigned, same"
    ASSIGNED_OTHER = "assigned, other"
    CLAIMED_RENEWED = "claimed, same, renewed"
    CLAIMED_SILENT = "claimed, same, silent"
    CLAIMED_OTHER = "claimed, other"
    DRAINING = "draining, same"
    DRAINING_OTHER = "draining, other"
    REVOKED = "revoked, same"
    REVOKED_OTHER = "revoked, other"
    EXITED = "exited, same"
    EXITED_OTHER = "exited, other"


ROWS: Mapping[tuple[OwnState, bool], Owned] = {
    (OwnState.VACANT, True): Owned.VACANT,
    (OwnState.VACANT, False): Owned.VACANT_OTHER,
    (OwnState.ASSIGNED, True): Owned.ASSIGNED,
    (OwnState.ASSIGNED, False): Owned.ASSIGNED_OTHER,
    (OwnState.CLAIMED, True): Owned.CLAIMED_RENEWED,  # CLAIMED_SILENT once the full wait is over
    (OwnState.CLAIMED, False): Owned.CLAIMED_OTHER,
    (OwnState.DRAINING, True): Owned.DRAINING,
    (OwnState.DRAINING, False): Owned.DRAINING_OTHER,
    (OwnState.REVOKED, True): Owned.REVOKED,
    (OwnState.REVOKED, False): Owned.REVOKED_OTHER,
    (OwnState.EXITED, True): Owned.EXITED,
    (OwnState.EXITED, False): Owned.EXITED_OTHER,
}


class Do(StrEnum):
    """Names the decisions; ``plan.decide`` has one small function for each."""

    NOTHING = "nothing"
    QUARANTINE = "leave, quarantined, alarm"
    ASSIGN = "assign (capacity, back-off)"
    ASSIGN_FIRST = "assign attempt 1"
    CHECK_ASSIGNMENT = "leave; un-assign if the job changed, the host is gone, or it timed out"
    UNASSIGN = "un-assign"
    UNASSIGN_ALARM = "impossible: un-assign, alarm"
    KEEP = "leave (adopt); drain for a restart or an update, or give that up, or note it as done"
    DRAIN = "drain"
    REVOKE = "after the full wait: revoke"
    REVOKE_ALARM = "impossible: revoke, alarm"
    ASSIGN_WHEN_DEAD = "after the full wait: assign"
    BURY_WHEN_DEAD = "after the full wait: bury"
    BURY_ALARM = "impossible: alarm; after the full wait bury"
    CLEAN = "clean"
    CLEAN_WHEN_DEAD = "after the full wait: clean"
    AFTER_EXIT = "conclude, assign after back-off, or quarantine; roll an update back"
    CONCLUDE_IF_FINISHED = "conclude if finished"


_R, _S, _D, _C = Wanted.RUNNING, Wanted.SUSPENDED, Wanted.GONE_DIRTY, Wanted.GONE_CLEAN

TABLE: Mapping[tuple[Owned, Wanted], Do] = {
    # A reference without a readable ownership: nobody can say which attempt may run. Nothing is ever done on doubt.
    (Owned.ABSENT, _R): Do.QUARANTINE,
    (Owned.ABSENT, _S): Do.QUARANTINE,
    (Owned.ABSENT, _D): Do.QUARANTINE,
    (Owned.ABSENT, _C): Do.NOTHING,
    (Owned.UNREADABLE, _R): Do.QUARANTINE,
    (Owned.UNREADABLE, _S): Do.QUARANTINE,
    (Owned.UNREADABLE, _D): Do.QUARANTINE,
    (Owned.UNREADABLE, _C): Do.QUARANTINE,
    (Owned.VACANT, _R): Do.ASSIGN,
    (Owned.VACANT, _S): Do.NOTHING,
    (Owned.VACANT, _D): Do.CLEAN,
    (Owned.VACANT, _C): Do.NOTHING,
    (Owned.VACANT_OTHER, _R): Do.ASSIGN_FIRST,
    (Owned.VACANT_OTHER, _S): Do.NOTHING,
    (Owned.VACANT_OTHER, _D): Do.CLEAN,
    (Owned.VACANT_OTHER, _C): Do.NOTHING,
    # Nobody has claimed: taking back needs no wait, because a late claim fails on the version of /own.
    (Owned.ASSIGNED, _R): Do.CHECK_ASSIGNMENT,
    (Owned.ASSIGNED, _S): Do.UNASSIGN,
    (Owned.ASSIGNED, _D): Do.UNASSIGN_ALARM,
    (Owned.ASSIGNED, _C): Do.UNASSIGN_ALARM,
    # Cancel and conclude always move /own, so an assignment or claim of another uid cannot be; undo it all the same.
    (Owned.ASSIGNED_OTHER, _R): Do.UNASSIGN_ALARM,
    (Owned.ASSIGNED_OTHER, _S): Do.UNASSIGN_ALARM,
    (Owned.ASSIGNED_OTHER, _D): Do.UNASSIGN_ALARM,
    (Owned.ASSIGNED_OTHER, _C): Do.UNASSIGN_ALARM,
    # A renewed claim is a healthy driver: a new leader adopts it by doing nothing (I6).
    (Owned.CLAIMED_RENEWED, _R): Do.KEEP,
    (Owned.CLAIMED_RENEWED, _S): Do.DRAIN,
    (Owned.CLAIMED_RENEWED, _D): Do.REVOKE_ALARM,
    (Owned.CLAIMED_RENEWED, _C): Do.REVOKE_ALARM,
    # Revoking early would bring the next attempt no nearer and kill shims that would have come back.
    (Owned.CLAIMED_SILENT, _R): Do.REVOKE,
    (Owned.CLAIMED_SILENT, _S): Do.REVOKE,
    (Owned.CLAIMED_SILENT, _D): Do.REVOKE_ALARM,
    (Owned.CLAIMED_SILENT, _C): Do.REVOKE_ALARM,
    (Owned.CLAIMED_OTHER, _R): Do.REVOKE_ALARM,
    (Owned.CLAIMED_OTHER, _S): Do.REVOKE_ALARM,
    (Owned.CLAIMED_OTHER, _D): Do.REVOKE_ALARM,
    (Owned.CLAIMED_OTHER, _C): Do.REVOKE_ALARM,
    # A tombstone turns these into ``exited``; without one only the full wait frees the name, for whatever uid is next.
    (Owned.DRAINING, _R): Do.ASSIGN_WHEN_DEAD,
    (Owned.DRAINING, _S): Do.BURY_WHEN_DEAD,
    (Owned.DRAINING, _D): Do.CLEAN_WHEN_DEAD,
    (Owned.DRAINING, _C): Do.BURY_ALARM,
    (Owned.DRAINING_OTHER, _R): Do.ASSIGN_WHEN_DEAD,
    (Owned.DRAINING_OTHER, _S): Do.BURY_WHEN_DEAD,
    (Owned.DRAINING_OTHER, _D): Do.CLEAN_WHEN_DEAD,
    (Owned.DRAINING_OTHER, _C): Do.BURY_ALARM,
    (Owned.REVOKED, _R): Do.ASSIGN_WHEN_DEAD,
    (Owned.REVOKED, _S): Do.BURY_WHEN_DEAD,
    (Owned.REVOKED, _D): Do.CLEAN_WHEN_DEAD,
    (Owned.REVOKED, _C): Do.BURY_ALARM,
    (Owned.REVOKED_OTHER, _R): Do.ASSIGN_WHEN_DEAD,
    (Owned.REVOKED_OTHER, _S): Do.BURY_WHEN_DEAD,
    (Owned.REVOKED_OTHER, _D): Do.CLEAN_WHEN_DEAD,
    (Owned.REVOKED_OTHER, _C): Do.BURY_ALARM,
    (Owned.EXITED, _R): Do.AFTER_EXIT,
    (Owned.EXITED, _S): Do.CONCLUDE_IF_FINISHED,
    (Owned.EXITED, _D): Do.CLEAN,
    (Owned.EXITED, _C): Do.NOTHING,
    (Owned.EXITED_OTHER, _R): Do.ASSIGN_FIRST,
    (Owned.EXITED_OTHER, _S): Do.NOTHING,
    (Owned.EXITED_OTHER, _D): Do.CLEAN,
    (Owned.EXITED_OTHER, _C): Do.NOTHING,
}
