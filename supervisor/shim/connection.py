"""Keeps the connection of a shim, and the one request that is under way in it. The functions are handlers of
``machine.TABLE``."""

from __future__ import annotations

from collections.abc import Callable

from supervisor.model.transaction import Transaction
from supervisor.shim.state import (
    Commit,
    Connected,
    Event,
    OwnRead,
    ReadFailed,
    WriteCommitted,
    WriteNotSent,
    WriteOutcomeUnknown,
    WriteRejected,
)
from supervisor.shim.turn import RETRY_S, Turn

# -- handlers ----------------------------------------------------------------------------------------------------------


def connected(turn: Turn, event: Connected) -> None:
    """Handles a new connection. In another session /own is read before anything else is done."""
    state = turn.state
    fresh = event.session != state.last_session and state.last_session is not None
    turn.set(
        session=event.session,
        last_session=event.session,
        lost=False,
        blind=state.blind or fresh,
        renew_at_s=turn.now_s,
        read_at_s=turn.now_s,
    )


def cut(turn: Turn, _: Event) -> None:
    turn.set(session=None, broken=False)


def cut_early(turn: Turn, _: Event) -> None:
    """Ends a shim that has lost its first connection before its claim: a claim is sent on the first
    connection only."""
    turn.set(session=None, broken=True)


def lost(turn: Turn, event: Event) -> None:
    cut(turn, event)
    turn.set(lost=True)


def lost_early(turn: Turn, event: Event) -> None:
    cut_early(turn, event)
    turn.set(lost=True)


def closed(turn: Turn, _: Event) -> None:
    """Handles the end of the old sessions. Nothing of the claim is under way any more, whichever session
    reads back; the shim need not be connected at this moment."""
    turn.set(closing=False, claim_session=turn.state.last_session, read_at_s=turn.now_s)


def not_closed(turn: Turn, _: Event) -> None:
    turn.set(closing=False, read_at_s=turn.now_s + RETRY_S)


def read_now(turn: Turn, _: Event) -> None:
    turn.set(read_at_s=turn.now_s)


def read_later(turn: Turn, _: Event) -> None:
    turn.set(read_at_s=turn.now_s + RETRY_S)


# -- requests ----------------------------------------------------------------------------------------------------------


def is_stale(turn: Turn, event: Event) -> bool:
    """Returns whether ``event`` answers a request that is not under way any more. With any other answer its
    request is over."""
    state = turn.state
    match event:
        case OwnRead() | ReadFailed():
            if not state.reading or event.token != state.token:
                return True
            turn.set(reading=False, read_at_s=None)
            if isinstance(event, OwnRead):
                turn.set(lease_exists=event.lease_version is not None, live=event.live)
        case WriteCommitted() | WriteRejected() | WriteNotSent() | WriteOutcomeUnknown():
            if not event.op or event.op != state.op:
                return True
            turn.answered = state.what
            turn.set(op="", what="")
    return False


def read_is_due(turn: Turn) -> bool:
    return turn.state.read_at_s is not None and turn.now_s >= turn.state.read_at_s


def next_op(turn: Turn) -> str:
    turn.set(ops=turn.state.ops + 1)
    return f"{turn.state.claim_id}.{turn.state.ops}"


def commit(turn: Turn, what: str, build: Callable[[str], Transaction]) -> None:
    send(turn, what, build(next_op(turn)))


def send(turn: Turn, what: str, transaction: Transaction) -> None:
    turn.set(op=transaction.id, what=what)
    turn.do(Commit(transaction, first=what == "claim"))
