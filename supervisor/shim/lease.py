"""Keeps the lease of an attempt and watches its fence: what /own says of it, the renewals, and what they
publish (protocol §5 renew; §7).

The functions here are handlers of ``machine.TABLE`` and ``OUTCOMES``, and make the requests of
``machine.ask``.
"""

from __future__ import annotations

from supervisor.model import lease_terms
from supervisor.model.master import is_another
from supervisor.model.records import Cause, Driver, Lease, Ownership, OwnState, StartTimes, clip
from supervisor.model.secret_words import covered
from supervisor.model.seen import Found
from supervisor.model.usage import AttemptUsage
from supervisor.registry import attempt_writes
from supervisor.shim import connection, queries, waiting
from supervisor.shim.driver import begin_kill, request_stop
from supervisor.shim.end import waits_only
from supervisor.shim.fitting import fitting
from supervisor.shim.state import (
    Event,
    OwnRead,
    ShimState,
    WriteCommitted,
    WriteDeadline,
    WriteLog,
    WriteRejected,
)
from supervisor.shim.turn import LEASED, RETRY_S, Turn

OWN_MASTER_MAX_BYTES = 60

# -- the fence ---------------------------------------------------------------------------------------------------------


def judge(turn: Turn, event: OwnRead) -> None:
    """Judges what /own says about a lease that this shim holds."""
    state, own = turn.state, event.own
    if not isinstance(own, Found) or (state.fence is not None and own.version < state.fence):
        turn.set(held=True, read_at_s=turn.now_s + max(1.0, period_s(turn)))
        turn.do(
            WriteLog(
                "shim_fence_unknown",
                "renewals stop until /own can be believed: it is absent, unreadable or older",
            )
        )
        return
    turn.set(held=False, blind=False)
    if not is_mine(turn, own.record):
        lose(turn, "another attempt owns the name")
    elif own.record.state is OwnState.CLAIMED and state.fence is not None:
        turn.set(fence=own.version)
    elif own.record.state is OwnState.DRAINING and state.fence is not None:
        turn.set(fence=own.version)
        request_stop(turn)
    else:
        lose(turn, f"/own is {own.record.state.value}")


def is_mine(turn: Turn, record: Ownership) -> bool:
    entry = turn.state.launch.assignment
    return (record.uid, record.attempt, record.claim) == (entry.uid, entry.attempt, turn.state.claim_id)


def lose(turn: Turn, why: str) -> None:
    turn.set(fence=None)
    begin_kill(turn, Cause.LOST, why)


# -- renewals ----------------------------------------------------------------------------------------------------------


def may_renew(turn: Turn) -> bool:
    state = turn.state
    if (
        state.stage not in LEASED
        or state.fence is None
        or state.held
        or state.blind
        or state.deadline_at_s is None
    ):
        return False
    in_grace = state.stop_until_at_s is None or turn.now_s < state.stop_until_at_s
    return in_grace and turn.now_s < state.deadline_at_s and state.cause is not Cause.LEASE_EXPIRED


def renew(turn: Turn) -> None:
    state = turn.state
    fence, create = state.fence, not state.lease_exists
    assert fence is not None
    turn.set(rings=state.ring, ring=False, renewals=state.renewals + 1)
    connection.commit(
        turn,
        "renew",
        lambda op: attempt_writes.renew(
            state.layout,
            state.launch.assignment.name,
            fence,
            record_of(turn),
            op,
            create=create,
            with_ring=state.ring,
        ),
    )


def renewed(turn: Turn, event: WriteCommitted) -> None:
    """Handles a renewal that has committed. The deadline counts from its sending. A phase that changed
    meanwhile still has to be published, so ``ring`` stays set."""
    state = turn.state
    deadline_at_s = max(
        state.deadline_at_s or 0.0, lease_terms.deadline_at_s(event.sent_at_s, state.launch.lease_s)
    )
    turn.set(
        lease_exists=True,
        deadline_at_s=deadline_at_s,
        renew_at_s=turn.now_s if state.ring else event.sent_at_s + period_s(turn),
        rings=False,
    )
    if state.stage in LEASED:
        turn.do(WriteDeadline(deadline_at_s))


def renewal_rejected(turn: Turn, event: WriteRejected) -> None:
    state = turn.state
    if event.path == state.layout.lease(state.launch.assignment.name):
        # if that is no news, the parent of all leases is missing: in a while
        exists = event.kind != "no_node"
        pause_s = min(RETRY_S, period_s(turn)) if exists is state.lease_exists else 0.0
        turn.set(lease_exists=exists, renew_at_s=turn.now_s + pause_s)
    else:
        turn.set(blind=True, read_at_s=turn.now_s)
    ring_again(turn)


def renewal_unanswered(turn: Turn, _: Event) -> None:
    """Handles a renewal that was not sent, or whose outcome is unknown: the deadline stays where it is."""
    turn.set(renew_at_s=turn.now_s + min(RETRY_S, period_s(turn)))
    ring_again(turn)


def ring_again(turn: Turn) -> None:
    """Makes the next renewal publish what this one should have published."""
    turn.set(rings=False, ring=turn.state.ring or turn.state.rings)


def period_s(turn: Turn) -> float:
    return lease_terms.renew_period_s(turn.state.launch.lease_s)


# -- /live -------------------------------------------------------------------------------------------------------------


def announce(turn: Turn) -> None:
    state, entry, fence = turn.state, turn.state.launch.assignment, turn.state.fence
    assert fence is not None
    stale = state.live is not None
    connection.commit(
        turn,
        "announce",
        lambda op: attempt_writes.announce(
            state.layout, entry.name, entry.uid, entry.attempt, fence, op, stale=stale
        ),
    )


def announced(turn: Turn, _: Event) -> None:
    turn.set(live=turn.state.session)


def not_announced(turn: Turn, _: Event) -> None:
    """Handles an announcement that did not commit: the fence was moved, or /live is not what it was."""
    turn.set(read_at_s=turn.now_s + RETRY_S, blind=True)


# -- the record --------------------------------------------------------------------------------------------------------


def record_of(turn: Turn) -> Lease:
    """Returns what a claim or a renewal writes to /lease."""
    state, entry = turn.state, turn.state.launch.assignment
    pid = state.driver_pid if state.executed and state.empty_at_s is None else None
    shown, more = queries.shown(state.life, state.launch.stall_timeout_s, turn.now_s, state.launch.checkpoint)
    return fitting(
        Lease(
            name=entry.name,
            uid=entry.uid,
            attempt=entry.attempt,
            claim=state.claim_id,
            lease_s=state.launch.lease_s,
            stop_grace_s=state.launch.stop_grace_s,
            phase=state.phase,
            driver=Driver(
                host=state.launch.host,
                shim_pid=state.shim_pid,
                pid=pid,
                started_at=state.started_at or None,
            ),
            since=state.since,
            progress=state.life.progress,
            renewals=state.renewals,
            queries=shown,
            more_queries=more,
            ran_s=ran_s(turn),
            start=start_times(turn),
            silence_s=silence_s(turn),
            remembered=queries.remembered(state.launch, state.life),
            not_fenced=state.launch.not_fenced,
            class_archive=state.launch.class_archive,
            user=state.launch.user.name if state.launch.user is not None else "",
            not_limited=state.launch.not_limited,
            executors_outlive_s=state.launch.executors_outlive_s,
            cluster_wait=waiting.record_of_wait(state.life, state.launch, turn.now_s),
            spark_ui=state.life.spark_ui,
            own_master=own_master(state),
            failed_queries=queries.failed_count(state.life),
            usage=usage_of(state, queries.USED),
        )
    )


def own_master(state: ShimState) -> str:
    """Returns Spark's master if the application's code has set another one than its spec, else an empty text."""
    real = state.life.master
    return clip(covered(real), OWN_MASTER_MAX_BYTES) if is_another(real, state.launch.master) else ""


def usage_of(state: ShimState, most_queries: int) -> AttemptUsage | None:
    """Returns what the attempt takes, with at most so many queries; None if nothing is known of it."""
    found = AttemptUsage(
        resources=state.use, queries=queries.used(state.life, most_queries), directory=state.directory
    )
    return None if found == AttemptUsage() else found


def start_times(turn: Turn) -> StartTimes | None:
    """Returns where the time of this start went, for metrics and ``show``; None if it is not known."""
    exec_at_s, begun_at_s, life = turn.state.exec_at_s, turn.state.launch.begun_s, turn.state.life
    if exec_at_s is None or not turn.state.executed:
        return None
    ready_at_s = exec_at_s if life.session_at_s is None else life.session_at_s
    has_executor_at_s = max(ready_at_s, life.delayed_at_s or 0.0)
    waited = life.delayed_at_s is not None and life.batch_at_s is not None
    return StartTimes(
        spawn_s=round(exec_at_s - begun_at_s, 3) if begun_at_s else None,
        session_s=None if life.session_at_s is None else round(life.session_at_s - exec_at_s, 3),
        cluster_s=round(has_executor_at_s - ready_at_s, 3) if waited else None,
        first_batch_s=None
        if life.batch_at_s is None
        else round(max(0.0, life.batch_at_s - has_executor_at_s), 3),
    )


def silence_s(turn: Turn) -> float | None:
    """Returns for how many seconds the query that has been silent for longest has been silent, among those
    that have not ended."""
    life = turn.state.life
    last_at_s = min((query.last_at_s for query in life.queries if not query.ended), default=life.last_at_s)
    return None if last_at_s is None else round(max(0.0, turn.now_s - last_at_s), 3)


def ran_s(turn: Turn) -> float:
    """Returns for how long the attempt has run so far. If others have to bury this attempt, they know from it
    how long it ran at least."""
    state = turn.state
    if not state.executed or state.exec_at_s is None or waits_only(state):
        return 0.0
    return round(turn.now_s - state.exec_at_s, 3)
