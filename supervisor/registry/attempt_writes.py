"""Builds the multis of one attempt: claim, renew, announce, tombstone, refuse (protocol §5). All builders are
pure; the caller commits.

The shim (claim, renew, announce, tombstone), the guardian (tombstone) and the agent (refuse) call it. It uses
the stdlib only.

This is why they are safe: the fence of a name is the version of /own/<name>, which never restarts. A claim is
guarded by the versions that its assignment names, so a shim that wakes up late claims nothing (I2, I5); a
renewal checks the fence, so once anybody has moved it no renewal of the old holder commits; and a tombstone
is written only over a record that still names this very claim, because a restarted agent may start a second
shim for one entry and the loser must not bury the winner.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass, replace

from supervisor.model.headline import headline
from supervisor.model.records import (
    DETAIL_MAX_BYTES,
    DIAGNOSTICS_MEMORY_MAX_BYTES,
    DIAGNOSTICS_PATH_MAX_BYTES,
    POLICIES_MAX,
    POLICY_DIGITS,
    REASON_MAX_BYTES,
    Assignment,
    Cause,
    DriverDiagnostics,
    Lease,
    Ownership,
    OwnState,
    StopMode,
    clip,
    version_of,
    with_entry,
)
from supervisor.model.root_cause import cause_text
from supervisor.model.seen import Found
from supervisor.model.transaction import ANY_VERSION, Check, Create, Delete, Op, SetData, Transaction
from supervisor.model.usage import AttemptUsage
from supervisor.records.codec import MAX_RECORD_BYTES, encode
from supervisor.records.layout import Layout

USAGE_UP_TO_BYTES = MAX_RECORD_BYTES - 512
"""A tombstone up to this size has what its attempt took: the history has no less room for the next entries."""


@dataclass(frozen=True, slots=True)
class AttemptIdentity:
    """Says which attempt is writing. ``claim`` is the random id of its claim."""

    name: str
    uid: str
    attempt: int
    claim: str


@dataclass(frozen=True, slots=True)
class Exit:
    """Says how an attempt ended. ``ran_s`` is the time in seconds (BOOTTIME) from exec to the empty tree, or
    0 if nothing was executed. ``committed`` has the newest batch of each query that was heard of, as pairs of
    ``CheckpointExpectation``. ``usage`` is what the attempt took. ``diagnostics`` is the file with those of a driver that
    was silent, ``memory`` describes its memory before an out-of-memory."""

    cause: Cause
    reason: str
    exit_code: int | None = None
    ran_s: float = 0.0
    permanent: bool = False
    stop_mode: StopMode | None = None
    committed: tuple[str, ...] = ()
    usage: AttemptUsage | None = None
    diagnostics: str = ""
    memory: str = ""


def ring_doorbell(layout: Layout, name: str, version: int = ANY_VERSION) -> SetData:
    """Returns the op that sets the doorbell: it wakes the leader, which then rereads; the data is the last
    changed name."""
    return SetData(layout.doorbell, name.encode(), version)


def not_paused(layout: Layout) -> tuple[Op, Op]:
    """Returns ops that hold only while there is no /pause: what the leader does, and a claim, can't commit
    once a pause was acknowledged."""
    return Create(layout.pause, b""), Delete(layout.pause, 0)


def claim(
    layout: Layout,
    assignment: Assignment,
    own: Found[Ownership],
    claim_id: str,
    lease: Lease,
    lease_version: int | None,
    op_id: str,
    at: str,
) -> Transaction:
    """Returns the multi that takes the assigned attempt, before exec of the driver; its lease is the first
    renewal.

    ``own`` is the ownership as read just before; ``lease_version`` is None where /lease/<name> is absent. The
    multi fails as a whole when the job or the ownership moved since the assignment was written, and while the
    cluster is paused.
    """
    mine = replace(
        own.record,
        state=OwnState.CLAIMED,
        claim=claim_id,
        claims=own.record.claims + 1,
        op=op_id,
        history=with_entry(own.record.history, at, "claimed", assignment.attempt, own.record.supervisor),
    )
    lease_path, lease_data = layout.lease(assignment.name), encode(lease)
    return Transaction(
        "claim",
        op_id,
        (
            Check(layout.job(assignment.name), assignment.job_version),
            SetData(layout.own(assignment.name), encode(mine), assignment.own_version),
            Delete(layout.assignment(own.record.supervisor, assignment.uid, assignment.attempt), ANY_VERSION),
            Create(lease_path, lease_data)
            if lease_version is None
            else SetData(lease_path, lease_data, lease_version),
            Create(layout.live(assignment.uid, assignment.attempt), b"", ephemeral=True),
            *not_paused(layout),
            ring_doorbell(layout, assignment.name),
        ),
    )


def renew(
    layout: Layout,
    name: str,
    fence_version: int,
    lease: Lease,
    op_id: str,
    *,
    create: bool = False,
    with_ring: bool = False,
) -> Transaction:
    """Returns the multi that renews the lease under the fence. ``create`` is True if the lease was found
    absent, and ``with_ring`` if the phase changed."""
    path, data = layout.lease(name), encode(lease)
    ops: tuple[Op, ...] = (
        Check(layout.own(name), fence_version),
        Create(path, data) if create else SetData(path, data, ANY_VERSION),
    )
    return Transaction("renew", op_id, (*ops, ring_doorbell(layout, name)) if with_ring else ops)


def announce(
    layout: Layout,
    name: str,
    uid: str,
    attempt: int,
    fence_version: int,
    op_id: str,
    *,
    stale: bool,
) -> Transaction:
    """Returns the multi that puts /live back after the session was lost. ``stale`` is True if the znode of
    the old session is still there."""
    path = layout.live(uid, attempt)
    ops: tuple[Op, ...] = (Check(layout.own(name), fence_version),)
    if stale:
        ops += (Delete(path, ANY_VERSION),)
    return Transaction("announce", op_id, (*ops, Create(path, b"", ephemeral=True)))


def tombstone(
    layout: Layout,
    own: Found[Ownership],
    mine: AttemptIdentity,
    ended: Exit,
    op_id: str,
    at: str,
) -> Transaction | None:
    """Returns the multi that records that the driver tree of ``mine`` is gone, or None if the record is not
    about this claim any more, or ended.

    It may only be called after the tree was proven empty: everybody else stops waiting on seeing the
    tombstone.
    """
    record = own.record
    if (record.uid, record.attempt, record.claim) != (mine.uid, mine.attempt, mine.claim):
        return None
    if record.state not in (OwnState.CLAIMED, OwnState.DRAINING, OwnState.REVOKED):
        return None
    dead = _exited(record, ended, op_id, at)
    return Transaction(
        "exit",
        op_id,
        (
            SetData(layout.own(mine.name), encode(dead), own.version),
            ring_doorbell(layout, mine.name),
        ),
    )


def refuse(
    layout: Layout,
    assignment: Assignment,
    own: Found[Ownership],
    ended: Exit,
    op_id: str,
    at: str,
    *,
    policy_sha256: str = "",
) -> Transaction | None:
    """Returns the multi that records that the host cannot start this assignment, so nobody needs to wait; or
    None if it is not assigned here any more.

    ``policy_sha256`` is that of the host. If its policy is the cause, it is put among those that refuse the job: no host
    with this policy is given the job again while uid, revision and restart nonce stay the same (``model.policies.refuses``).
    Any other cause may pass, and keeps no host from the job.
    """
    record = own.record
    assigned = record.state is OwnState.ASSIGNED and own.version == assignment.own_version
    if not assigned or (record.uid, record.attempt) != (assignment.uid, assignment.attempt):
        return None
    dead = _exited(record, ended, op_id, at)
    if ended.cause is Cause.POLICY and policy_sha256:
        digits, version = policy_sha256[:POLICY_DIGITS], version_of(record)
        known = record.refused_by if record.refused_of == version else ()
        others = tuple(each for each in known if each != digits)
        dead = replace(dead, refused_by=(*others, digits)[-POLICIES_MAX:], refused_of=version)
    return Transaction(
        "refuse",
        op_id,
        (
            SetData(layout.own(assignment.name), encode(dead), own.version),
            Delete(layout.assignment(record.supervisor, assignment.uid, assignment.attempt), ANY_VERSION),
            ring_doorbell(layout, assignment.name),
        ),
    )


def _exited(record: Ownership, ended: Exit, op_id: str, at: str) -> Ownership:
    """Returns the record of an attempt that has ended. A history has no room for a long reason: it gets the error itself,
    because what wraps it is alike in all failures."""
    short = ended.reason if len(ended.reason.encode()) <= DETAIL_MAX_BYTES else headline(ended.reason)
    detail = f"{ended.stop_mode.value}: {short}" if ended.stop_mode is not None else short
    dead = replace(
        record,
        state=OwnState.EXITED,
        op=op_id,
        cause=ended.cause,
        reason=cause_text(ended.reason, REASON_MAX_BYTES),
        exit_code=ended.exit_code,
        stop_mode=ended.stop_mode,
        ran_s=ended.ran_s,
        permanent=ended.permanent,
        committed=ended.committed,
        history=with_entry(
            record.history, at, ended.cause.value, record.attempt, cause_text(detail, DETAIL_MAX_BYTES)
        ),
        diagnostics=None,
        usage=None,
    )
    return _with_usage(_with_diagnostics(dead, ended, record.diagnostics), ended.usage)


def _with_diagnostics(dead: Ownership, ended: Exit, before: DriverDiagnostics | None) -> Ownership:
    """Returns the record with what is known of this end, else with what was known of an earlier one, if nothing has to be
    given up for it."""
    path = ended.diagnostics if len(ended.diagnostics.encode()) <= DIAGNOSTICS_PATH_MAX_BYTES else ""
    memory = clip(ended.memory, DIAGNOSTICS_MEMORY_MAX_BYTES)
    known = before
    if path or memory:
        known = DriverDiagnostics(attempt=dead.attempt, host=dead.host, path=path, memory=memory)
    full = replace(dead, diagnostics=known)
    return full if len(encode(full, sys.maxsize)) <= USAGE_UP_TO_BYTES else dead


def _with_usage(dead: Ownership, usage: AttemptUsage | None) -> Ownership:
    """Returns the record with what the attempt took, if nothing has to be given up for it."""
    if usage is None:
        return dead
    peak = 0 if usage.resources is None else usage.resources.memory_max
    history = (*dead.history[:-1], replace(dead.history[-1], memory_max=peak))
    full = replace(dead, usage=usage, history=history)
    return full if len(encode(full, sys.maxsize)) <= USAGE_UP_TO_BYTES else dead
