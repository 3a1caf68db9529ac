"""Ends an attempt: the tombstone is tried until it is written, and it says why the attempt ended (protocol §5
exit).

The functions here are handlers of ``machine.TABLE`` for the stage ``burying``, and of ``OUTCOMES``.
"""

from __future__ import annotations

from supervisor.growing_pause import GrowingPause
from supervisor.model.exit_evidence import SHELL_SIGNAL_BASE, ExitEvidence, is_telling
from supervisor.model.exits import ExitVerdict, classify
from supervisor.model.lease_terms import DOUBT_S, tombstone_from_s
from supervisor.model.records import UNCHARGED_CAUSES, Cause
from supervisor.model.seen import Found
from supervisor.model.usage import AttemptUsage
from supervisor.registry import attempt_writes
from supervisor.registry.attempt_writes import AttemptIdentity, Exit
from supervisor.shim import connection, queries, stopping
from supervisor.shim.state import Event, Finish, Life, OwnRead, ShimState, Stage
from supervisor.shim.turn import RETRY_S, Turn

RETRY_PAUSE = GrowingPause(first_s=RETRY_S / 2, longest_s=5.0)
SLOWEST_RETRY_S = 30.0


# -- handlers ----------------------------------------------------------------------------------------------------------


def bury(turn: Turn, event: OwnRead) -> None:
    """Writes the tombstone at the version just read, unless /own is not about this claim any more."""
    state, entry, own = turn.state, turn.state.launch.assignment, event.own
    if turn.now_s < bury_from_s(state):
        turn.set(read_at_s=bury_from_s(state))
        return
    if state.session is None:
        turn.set(read_at_s=turn.now_s)  # nothing is written without knowing in which session: read again
        return
    if not isinstance(own, Found) or (state.fence is not None and own.version < state.fence):
        since_at_s = state.doubt_at_s if state.doubt_at_s is not None else turn.now_s
        turn.set(doubt_at_s=since_at_s)
        if turn.now_s - since_at_s >= DOUBT_S:
            finish(turn, "/own shows nothing believable: no tombstone")
        else:
            retry(turn, event)
        return
    turn.set(doubt_at_s=None, blind=False)
    mine = AttemptIdentity(entry.name, entry.uid, entry.attempt, state.claim_id)
    ended = describe(state)
    op = connection.next_op(turn)
    transaction = attempt_writes.tombstone(state.layout, own, mine, ended, op, turn.at)
    if transaction is None:
        finish(turn, "/own is not about this claim any more")
    else:
        connection.send(turn, "exit", transaction)


def recorded(turn: Turn, _: Event) -> None:
    finish(turn, "the exit is recorded")


def retry(turn: Turn, _: Event) -> None:
    """Tries the tombstone again until it commits, at growing intervals, for a cluster that is down or was
    restored from an old state."""
    tries = turn.state.bury_tries + 1
    waited_s = turn.now_s - (turn.state.empty_at_s or turn.now_s)
    pause_s = SLOWEST_RETRY_S if waited_s > DOUBT_S else RETRY_PAUSE.after(tries)
    turn.set(bury_tries=tries, read_at_s=turn.now_s + pause_s)


# -- what they share ---------------------------------------------------------------------------------------------------


def finish(turn: Turn, why: str) -> None:
    turn.set(stage=Stage.DONE)
    turn.do(Finish(why))


def bury_from_s(state: ShimState) -> float:
    """Returns from when on the tombstone may be written (BOOTTIME): later than the tree is empty only if executors elsewhere
    may not know of it. What was let go counts, also if nothing confirms that it was executed: a prepared driver may have
    read its opening, and worked, before this shim heard of it."""
    return tombstone_from_s(
        state.empty_at_s or 0.0,
        state.launch.executors_outlive_s if state.exec_at_s is not None else 0.0,
        expired=state.cause is Cause.LEASE_EXPIRED,
    )


def waits_only(state: ShimState) -> bool:
    """Returns whether the driver still waits for its start verdict, so that its application has not begun;
    that does not count as running."""
    return state.launch.is_held and state.life.begun_at_s is None


def is_lost_preparation(state: ShimState, cause: Cause) -> bool:
    """Returns whether a prepared driver is gone before the application began, for whatever reason of its own: the job is
    not charged for it, and its next start is cold, so that a cause that lasts is found there."""
    unbegun = bool(state.launch.prepared) and state.life.begun_at_s is None
    return unbegun and state.refused is None and not state.stop_asked and cause not in UNCHARGED_CAUSES


def _reported_error(life: Life) -> str:
    """Returns the error that the driver reported: that of its own code, unless that says no more than that it left, or that
    its JVM does not answer; then that of the query that failed last."""
    return life.error if is_telling(life.error) else queries.last_error(life) or life.error


def _had_session(life: Life) -> bool:
    return life.session_at_s is not None or life.query_at_s is not None


def describe(state: ShimState) -> Exit:
    """Describes the end for the tombstone. ``exit_code`` is what a shell would give: 128 + signal. ``ran_s``
    counts from when the starter was let go to the empty tree."""
    life = state.life
    begun = life.begun_at_s is not None
    verdict = classify(
        ExitEvidence(
            state.status,
            state.launch.unbounded,
            stop_requested=state.stop_asked,
            killed_for=None if state.cause is None else (state.cause, state.reason),
            begun=begun if state.launch.reports else None,
            error=_reported_error(life),
            tail=state.tail,
            oom=state.oom,
            refused=None if begun else state.refused,
            raised=life.uncaught_at_s is not None,
            returned=life.returned,
            drained=queries.have_drained(life),
            left=state.left,
            session=_had_session(life) if state.launch.reports else None,
        )
    )
    if is_lost_preparation(state, verdict.cause):
        verdict = ExitVerdict(
            Cause.PREPARED_LOST, f"its prepared driver did not begin: {verdict.reason}", False
        )
    code = state.status
    if code is not None and code < 0:
        code = SHELL_SIGNAL_BASE - code
    ran = state.executed and not waits_only(state)
    ran_s = state.empty_at_s - state.exec_at_s if ran and state.exec_at_s and state.empty_at_s else 0.0
    permanent = verdict.permanent or (state.permanent and not state.stop_asked)
    remembered = queries.remembered(state.launch, state.life)
    return Exit(
        verdict.cause,
        verdict.reason,
        code,
        round(max(0.0, ran_s), 3),
        permanent,
        stop_mode=stopping.mode(state.ladder, killed=state.cause is not None),
        committed=remembered.queries if remembered is not None else (),
        usage=usage_at_end(state),
        diagnostics=state.diagnostics,
        memory=state.memory if verdict.cause is Cause.OUT_OF_MEMORY else "",
    )


def usage_at_end(state: ShimState) -> AttemptUsage | None:
    """Returns what the attempt took, for the tombstone; None if nothing was measured of it."""
    if state.use is None and state.directory is None:
        return None
    used = queries.used(state.life, 1) if state.use is not None else ()
    return AttemptUsage(resources=state.use, queries=used, directory=state.directory)
