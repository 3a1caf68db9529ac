"""Claims an attempt: /own is read, the claim is sent, its outcome is resolved, and the starter is let go
(protocol §5 claim, §7.1).

The functions here are handlers of ``machine.TABLE``, ``OUTCOMES`` and ``TIME``.
"""

from __future__ import annotations

from supervisor.model import lease_terms
from supervisor.model.records import Cause, Ownership, OwnState
from supervisor.model.seen import Found
from supervisor.registry import attempt_writes
from supervisor.shim import connection
from supervisor.shim.driver import begin_kill
from supervisor.shim.end import finish
from supervisor.shim.lease import is_mine, lose, period_s, record_of
from supervisor.shim.state import (
    Connected,
    Event,
    Exec,
    OwnRead,
    ShimState,
    Stage,
    WriteCommitted,
    WriteDeadline,
    WriteRejected,
)
from supervisor.shim.turn import RETRY_S, Turn

CLAIM_PATIENCE_S = 120.0
CONNECT_PATIENCE_S = 10.0
"""This is the time allowed from the agent's trust check of the registry to the first connection. A ZooKeeper
that goes away, is restored and comes back within so little time is the one restore that a shim cannot notice.
"""
CLAIM_TRIES = 5
PAUSED_S = 2.0
TOO_LATE = f"no connection within {CONNECT_PATIENCE_S:g} s of the agent's trust check of the registry: it checks again"


# -- connecting --------------------------------------------------------------------------------------------------------


def first_link(turn: Turn, event: Connected) -> None:
    """Accepts the first connection only if it comes soon after the agent's trust check of the registry."""
    if turn.state.last_session is None and turn.now_s >= connect_due_at_s(turn):
        finish(turn, TOO_LATE)
    else:
        connection.connected(turn, event)


def connect_due_at_s(turn: Turn) -> float:
    return (turn.state.launch.looked_s or turn.state.born_at_s) + CONNECT_PATIENCE_S


def try_claim(turn: Turn, event: OwnRead) -> None:
    """Sends the claim if the name is assigned to this shim as the entry says."""
    if turn.state.session is None:
        turn.set(read_at_s=turn.now_s)  # nothing is written without knowing in which session: read again
        return
    turn.set(blind=False)
    own, entry = event.own, turn.state.launch.assignment
    if turn.state.stop_asked:  # while a claim was under way, which came to nothing
        finish(turn, "asked to stop before the claim")
    elif isinstance(own, Found) and is_assigned_to_us(turn, own):
        if turn.state.claim_tries >= CLAIM_TRIES:
            finish(turn, "the claim was rejected again and again")
        else:
            send_claim(turn, own, event.lease_version)
    elif isinstance(own, Found) and own.version >= entry.own_version:
        finish(turn, "the entry is not ours any more")
    else:  # absent, unreadable, older than the entry: unknown
        turn.set(read_at_s=turn.now_s + 2 * RETRY_S)


def is_assigned_to_us(turn: Turn, own: Found[Ownership]) -> bool:
    entry = turn.state.launch.assignment
    same = (own.record.uid, own.record.attempt, own.version) == (entry.uid, entry.attempt, entry.own_version)
    return same and own.record.state is OwnState.ASSIGNED


def send_claim(turn: Turn, own: Found[Ownership], lease_version: int | None) -> None:
    state = turn.state
    turn.set(
        since=turn.at,
        claim_sent_at_s=turn.now_s,
        claim_session=state.session,
        stage=Stage.CLAIMING,
        claim_tries=state.claim_tries + 1,
    )
    connection.commit(
        turn,
        "claim",
        lambda op: attempt_writes.claim(
            state.layout,
            state.launch.assignment,
            own,
            state.claim_id,
            record_of(turn),
            lease_version,
            op,
            turn.at,
        ),
    )


def give_up(turn: Turn, _: Event) -> None:
    finish(turn, "asked to stop before the claim")


def watch_connecting(turn: Turn) -> None:
    """Ends a shim that has not claimed, if one of the reasons for that holds."""
    if turn.state.broken:
        finish(turn, "the connection broke before the claim: the agent looks at the registry again")
    elif turn.state.last_session is None and turn.now_s >= connect_due_at_s(turn):
        finish(turn, TOO_LATE)
    elif turn.now_s - turn.state.born_at_s >= CLAIM_PATIENCE_S:
        finish(turn, f"no claim could be made for {CLAIM_PATIENCE_S:g} s")


# -- claiming ----------------------------------------------------------------------------------------------------------


def committed(turn: Turn, event: WriteCommitted) -> None:
    """Handles a claim that has committed. After a jump of the clocks, or without the version of /own, even
    this is read back."""
    if event.own_version is None or turn.state.blind:
        outcome_unknown(turn, event)
    else:
        turn.set(claim_sent_at_s=event.sent_at_s, live=turn.state.claim_session)
        claimed(turn, event.own_version, OwnState.CLAIMED)


def outcome_unknown(turn: Turn, _: Event) -> None:
    turn.set(stage=Stage.SETTLING, read_at_s=turn.now_s)


def rejected(turn: Turn, event: WriteRejected) -> None:
    if event.path == turn.state.layout.pause:  # no fault of the claim's
        turn.set(
            stage=Stage.CONNECTING,
            claim_tries=turn.state.claim_tries - 1,
            read_at_s=turn.now_s + PAUSED_S,
        )
    else:
        turn.set(stage=Stage.CONNECTING, read_at_s=turn.now_s)


def not_sent(turn: Turn, _: Event) -> None:
    turn.set(stage=Stage.CONNECTING, read_at_s=turn.now_s + RETRY_S)


def note_stop(turn: Turn, _: Event) -> None:
    """Notes a request to stop while the claim is under way: the outcome of the claim is resolved first."""
    turn.set(stop_asked=True)


# -- settling ----------------------------------------------------------------------------------------------------------


def read_back(turn: Turn, event: OwnRead) -> None:
    """Resolves the claim's outcome from a reading of /own. The reading is valid because ``machine.ask`` reads
    only in the session of the claim, or after that session was closed."""
    own = event.own
    if not isinstance(own, Found) or own.version < turn.state.launch.assignment.own_version:
        turn.set(read_at_s=turn.now_s + 2 * RETRY_S)
    elif is_mine(turn, own.record) and own.record.state in (
        OwnState.CLAIMED,
        OwnState.DRAINING,
        OwnState.REVOKED,
    ):
        turn.set(blind=False)
        claimed(turn, own.version, own.record.state)
    elif is_assigned_to_us(turn, own):
        turn.set(stage=Stage.CONNECTING, read_at_s=turn.now_s)
    else:
        finish(turn, "the claim was not applied, and the entry is not ours any more")


def watch_settling(turn: Turn) -> None:
    if turn.now_s >= resolve_due_at_s(turn.state):
        finish(turn, "nobody could tell in time what became of the claim: nothing was executed")


def resolve_due_at_s(state: ShimState) -> float:
    """Returns when a shim that cannot resolve the outcome of its claim ends (CLOCK_BOOTTIME): a leader that
    waits for the lease of a claim that was applied has waited for long enough by then. A shim that was asked
    to end goes on until the claim could not lead to an exec any more, since its tombstone would spare the
    leader the rest of the wait."""
    sent_at_s, lease_s = state.claim_sent_at_s, state.launch.lease_s
    return (
        lease_terms.deadline_at_s(sent_at_s, lease_s)
        if state.stop_asked
        else sent_at_s + lease_terms.full_wait_s(lease_s)
    )


# -- claimed -----------------------------------------------------------------------------------------------------------


def claimed(turn: Turn, fence: int, own_state: OwnState) -> None:
    """Handles a claim that is known to have committed: the starter is let go, if there is still time for it."""
    deadline_at_s = lease_terms.deadline_at_s(turn.state.claim_sent_at_s, turn.state.launch.lease_s)
    before_at_s = lease_terms.shim_acts_at_s(deadline_at_s)
    turn.set(
        stage=Stage.STARTING,
        fence=fence,
        lease_exists=True,
        deadline_at_s=deadline_at_s,
        renew_at_s=turn.state.claim_sent_at_s + period_s(turn),
    )
    if own_state is OwnState.REVOKED:
        lose(turn, "revoked before it was started")
    elif own_state is OwnState.DRAINING or turn.state.stop_asked:
        turn.set(stop_asked=True, stop_until_at_s=turn.now_s + turn.state.launch.stop_grace_s)
        begin_kill(turn, Cause.STOPPED, "stopped before it was started")
    elif turn.now_s >= before_at_s:
        begin_kill(turn, Cause.LEASE_EXPIRED, "the claim was confirmed too late")
    elif turn.state.launch.prepared and turn.state.status is not None:
        begin_kill(turn, Cause.PREPARED_LOST, "its prepared driver ended before the application began")
    else:
        turn.set(exec_at_s=turn.now_s, started_at=turn.at)
        turn.do(WriteDeadline(deadline_at_s), Exec(before_at_s))
