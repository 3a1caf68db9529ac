"""Handles the driver of an attempt: how it is started, reports, is asked to stop, and is killed (protocol
§7).

The functions here are handlers of ``machine.TABLE`` and ``TIME``.
"""

from __future__ import annotations

from supervisor.model import lease_terms
from supervisor.model.records import PERMANENT_CAUSES, Cause, Phase
from supervisor.shim import diagnosing, health, queries, stopping, waiting
from supervisor.shim.end import finish
from supervisor.shim.state import (
    Event,
    ExecFailed,
    Executed,
    Exited,
    Kill,
    Order,
    Reported,
    Sampled,
    Stage,
    Terminate,
    TreeSeen,
    Unheard,
    WriteDeadline,
    WriteLog,
)
from supervisor.shim.turn import ALIVE, Turn

KILL_PAUSE_S = 0.05
STOP, PROBE, COUNT = "stop", "look", "executors"
NEWS_PAUSE_S = 5.0
"""What is new of a wait for executors is published at once, but not more often than this. A driver may say anything, as
often as it likes."""


# -- exec --------------------------------------------------------------------------------------------------------------


def executed(turn: Turn, _: Executed) -> None:
    if not turn.state.executed:
        turn.set(executed=True, renew_at_s=turn.now_s)


def started(turn: Turn, event: Executed) -> None:
    executed(turn, event)
    turn.set(stage=Stage.RUNNING)


def exec_error(turn: Turn, event: ExecFailed) -> None:
    turn.set(permanent=event.permanent)
    begin_kill(turn, Cause.NOT_STARTED, event.error)


def exec_late(turn: Turn, _: Event) -> None:
    begin_kill(turn, Cause.LEASE_EXPIRED, "its time was over before it could be started")


def unwritable(turn: Turn, _: Event) -> None:
    begin_kill(turn, Cause.NOT_STARTED, "the run directory can't be written")


# -- its exit ----------------------------------------------------------------------------------------------------------


def note_exit(turn: Turn, event: Exited) -> None:
    """Notes the exit, also of a starter whose claim is under way. Nothing else is done about it then, because
    exec will fail."""
    if turn.state.status is None:
        turn.set(memory=event.memory, left=event.left)
        turn.set(status=event.status, tail=event.tail, oom=event.oom, refused=event.refused)


def exited(turn: Turn, event: Exited) -> None:
    """Handles the exit of the driver: its children are killed with it."""
    if turn.state.status is None:
        note_exit(turn, event)
        begin_kill(turn, None, "")


def exit_early(turn: Turn, event: Exited) -> None:
    if turn.state.status is None:
        note_exit(turn, event)
        finish(turn, "the starter ended before the claim")


# -- reports -----------------------------------------------------------------------------------------------------------


def reported(turn: Turn, event: Reported) -> None:
    if event.event not in waiting.EVENTS or turn.state.launch.executors_outlive_s > 0:
        turn.set(life=health.after_report(turn.state.life, event, turn.now_s))
    stop_heard(turn, event)


def sampled(turn: Turn, event: Sampled) -> None:
    """Keeps what the tree takes for the next renewal, and for the tombstone."""
    turn.set(use=event.use, directory=event.directory)


def stop_heard(turn: Turn, event: Reported) -> None:
    """Counts what the driver reports of the orderly stop as part of its end, for the tombstone describes it."""
    if turn.state.ladder is not None:
        ladder = stopping.after_report(turn.state.ladder, event.event, event.queries, turn.now_s)
        turn.set(ladder=ladder)


def unheard(turn: Turn, event: Unheard) -> None:
    if event.order.order == STOP and turn.state.ladder is not None:
        turn.set(ladder=stopping.unheard(turn.state.ladder, turn.now_s))


# -- the orderly stop --------------------------------------------------------------------------------------------------


def begin_stop(turn: Turn, _: Event) -> None:
    request_stop(turn)


def request_stop(turn: Turn) -> None:
    """Begins an orderly stop: at a batch boundary if possible, else by SIGTERM, and by SIGKILL after the
    grace. A driver without an executor would come to no boundary. Only the first request counts."""
    launch = turn.state.launch
    if turn.state.stage in (Stage.STARTING, Stage.RUNNING):
        life = turn.state.life
        orderly = life.begun_at_s is not None and not waiting.is_without(life, turn.now_s)
        ladder = stopping.begin(launch, orderly, turn.now_s)
        turn.set(stage=Stage.STOPPING, stop_asked=True, stop_until_at_s=ladder.kill_at_s, ladder=ladder)
        change_phase(turn, Phase.STOPPING)
        if stopping.is_asked(ladder):
            turn.do(Order(STOP, ladder.terminate_at_s - turn.now_s))
    elif turn.state.stage is Stage.KILLING and turn.state.stop_until_at_s is None:
        turn.set(stop_until_at_s=turn.now_s + launch.stop_grace_s)


# -- the kill ----------------------------------------------------------------------------------------------------------


def begin_kill(turn: Turn, cause: Cause | None, reason: str) -> None:
    """Begins to kill the tree. Only the first cause counts."""
    if turn.state.stage in ALIVE:
        turn.set(
            stage=Stage.KILLING,
            cause=cause,
            reason=reason,
            kill_at_s=turn.now_s,
            kill_began_at_s=turn.now_s,
        )
        if reason:
            turn.do(WriteLog("shim_kills", reason))


def tree_seen(turn: Turn, event: TreeSeen) -> None:
    turn.set(tail=event.tail or turn.state.tail)
    took_s = turn.now_s - turn.state.kill_began_at_s
    if event.empty:
        turn.set(stage=Stage.BURYING, empty_at_s=turn.now_s, read_at_s=turn.now_s)
        over = f", more than {lease_terms.KILL_TIME_S:g} s" if took_s > lease_terms.KILL_TIME_S else ""
        turn.do(WriteDeadline(None), WriteLog("shim_tree_empty", f"after {took_s:.3f} s{over}"))
    else:
        turn.set(kill_at_s=turn.now_s + KILL_PAUSE_S)


# -- time --------------------------------------------------------------------------------------------------------------


def watch(turn: Turn) -> None:
    """Watches the time in the stages starting and running: the deadline comes first, then the driver's
    health."""
    state = turn.state
    if is_expiring(turn):
        begin_kill(turn, Cause.LEASE_EXPIRED, "no renewal was committed in time")
    elif state.exec_at_s is not None:
        verdict = health.overdue(state.life, state.launch, state.exec_at_s, turn.now_s)
        if verdict is not None:
            if not diagnosing.is_awaited(turn, *verdict):
                cause, why = verdict
                turn.set(permanent=cause in PERMANENT_CAUSES)
                begin_kill(turn, cause, diagnosing.with_stopped(turn, why))
            return
        diagnosing.forget(turn)
        probe_queries(turn)
        count_executors(turn)
        publish_wait(turn)
        if state.executed and state.phase is not Phase.RUNNING:
            change_phase(turn, health.phase_of(state.life, state.launch, state.exec_at_s, turn.now_s))


def climb(turn: Turn) -> None:
    """Watches the time in the stage stopping: the deadline comes first, then the next rung of the orderly
    stop, if it is due."""
    if is_expiring(turn):
        begin_kill(turn, Cause.LEASE_EXPIRED, "no renewal was committed in time")
        return
    ladder = turn.state.ladder
    assert ladder is not None
    if turn.now_s >= ladder.kill_at_s:
        begin_kill(turn, Cause.STOPPED, f"it did not stop within {turn.state.launch.stop_grace_s:g} s")
    elif stopping.is_to_be_terminated(ladder, turn.now_s):
        turn.set(ladder=stopping.terminated(ladder))
        turn.do(WriteLog("shim_terminates", "SIGTERM to the driver"), Terminate())
    else:
        diagnosing.before_end_of_grace(turn, ladder)


def strike(turn: Turn) -> None:
    """Kills again and again in the stage killing, until the tree is empty."""
    if turn.now_s >= turn.state.kill_at_s:
        turn.set(kill_at_s=float("inf"))  # until this one was answered
        turn.do(Kill())


def is_expiring(turn: Turn) -> bool:
    """Returns whether the deadline is near: at deadline − 2p the tree is killed, whatever else is going on."""
    assert turn.state.deadline_at_s is not None
    return turn.now_s >= lease_terms.shim_acts_at_s(turn.state.deadline_at_s)


def probe_queries(turn: Turn) -> None:
    """Orders the driver's bootstrap to probe a query that has been silent for long. Its answer is a report."""
    timeout_s, state = turn.state.launch.stall_timeout_s, turn.state
    due = state.launch.reports and turn.now_s >= state.next_probe_at_s
    if due and queries.is_to_be_probed(state.life, timeout_s, turn.now_s):
        turn.set(next_probe_at_s=turn.now_s + queries.probe_every_s(state.life, timeout_s))
        turn.do(Order(PROBE))


def count_executors(turn: Turn) -> None:
    """Orders the driver's bootstrap to count its executors, once it has a session. Its answer is a report."""
    state = turn.state
    has_session = state.life.session_at_s is not None or state.life.query_at_s is not None
    if state.launch.is_counted and has_session and turn.now_s >= state.next_count_at_s:
        turn.set(next_count_at_s=turn.now_s + waiting.count_every_s(state.life, state.launch))
        turn.do(Order(COUNT))


def publish_wait(turn: Turn) -> None:
    """Publishes the wait for executors if it is not what was published last, and logs where one begins or ends."""
    state = turn.state
    wait = waiting.record_of_wait(state.life, state.launch, turn.now_s)
    if wait == state.reported_wait or turn.now_s < state.next_news_at_s:
        return
    name, since_at_s = waiting.name_of(state.launch), state.life.without_since_at_s
    if state.reported_wait is None:
        why = f"{name} has given it no executor; no time-out runs but health.cluster_timeout"
        turn.do(WriteLog("shim_waits_for_cluster", why))
    elif wait is None and since_at_s is not None and not waiting.is_without(state.life, turn.now_s):
        unheard = f"it has not said for {waiting.UNHEARD_S:g} s that it has none"
        turn.do(WriteLog("shim_has_executors", f"{unheard}; it is judged as any other"))
    elif wait is None:
        waited_s = turn.now_s - state.reported_since_at_s
        turn.do(WriteLog("shim_has_executors", f"{name} has given it one, after {waited_s:.0f} s"))
    turn.set(ring=True, renew_at_s=turn.now_s, next_news_at_s=turn.now_s + NEWS_PAUSE_S)
    turn.set(reported_wait=wait, reported_since_at_s=since_at_s or turn.now_s)


def change_phase(turn: Turn, phase: Phase) -> None:
    """Changes the phase. A new phase is published at once, with the doorbell. ``since`` is the time of the
    claim, of running, or of stopping."""
    if phase is not turn.state.phase:
        since = turn.at if phase in (Phase.RUNNING, Phase.STOPPING) else turn.state.since
        turn.set(phase=phase, since=since, ring=True, renew_at_s=turn.now_s)
