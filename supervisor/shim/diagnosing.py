"""Decides when the diagnostics of a driver are collected: before it is killed for being silent, and never in the way of
another kill.

A running driver whose verdict is that it is silent (``model.diagnostics.DIAGNOSED_CAUSES``) is killed when its diagnostics
are there, or ``COLLECT_S`` later. Its lease is renewed meanwhile as ever, so nobody waits for it; the deadline, a
revocation, its exit and everything else that kills act at once, as they do without diagnostics. A driver that is to stop
has its grace, and SIGKILL comes at the end of that: its diagnostics begin before that, and nothing waits for them.

Diagnostics are of one end only: those of a silence that the driver gets over are named by the log, and by no tombstone.

The functions here are handlers of ``machine.TABLE``, or called by ``driver`` for what follows from the time.
"""

from __future__ import annotations

from supervisor.model.diagnostics import COLLECT_S, DIAGNOSED_CAUSES, stop_window_s
from supervisor.model.query_name import query_name
from supervisor.model.records import Cause
from supervisor.shim import health
from supervisor.shim.state import Diagnose, Diagnosed, Life, WriteLog
from supervisor.shim.stopping import Ladder
from supervisor.shim.turn import Turn

_QUERIES_MAX = 20


def is_awaited(turn: Turn, cause: Cause, why: str) -> bool:
    """Returns whether a kill for ``cause`` has to wait for diagnostics. It begins their collection."""
    if cause not in DIAGNOSED_CAUSES:
        return False
    if turn.state.diagnosing_until_at_s is None:
        _begin(turn, COLLECT_S, why)
    until_at_s = turn.state.diagnosing_until_at_s
    return not turn.state.diagnosed and until_at_s is not None and turn.now_s < until_at_s


def forget(turn: Turn) -> None:
    """Handles that a driver is not silent any more: it is judged anew, its next silence is diagnosed again, and the
    diagnostics of this one are not those of its end. Their file stays, and says of when it is."""
    if turn.state.diagnosed:
        turn.set(diagnosing_until_at_s=None, diagnosed=False, diagnostics="", stopped_pids=())


def before_end_of_grace(turn: Turn, ladder: Ladder) -> None:
    """Begins the collection for a driver that was sent SIGTERM and does not end, if its time has come. It goes without the
    heap: a JVM stands still for that, and this one may be about to end."""
    if not turn.state.diagnosing_stop and not _is_silent(turn):
        forget(turn)
    window_s = stop_window_s(ladder.terminate_at_s, ladder.kill_at_s)
    is_due = ladder.terminated and window_s > 0 and turn.now_s >= ladder.kill_at_s - window_s
    if is_due and turn.state.diagnosing_until_at_s is None:
        turn.set(diagnosing_stop=True)
        _begin(turn, ladder.kill_at_s - turn.now_s, "it does not end after SIGTERM")


def diagnosed(turn: Turn, event: Diagnosed) -> None:
    """Notes that the collection is over. A kill that waits for it follows from the time."""
    turn.set(
        diagnosed=True,
        diagnostics=event.path or turn.state.diagnostics,
        stopped_pids=event.stopped_pids,
    )


def with_stopped(turn: Turn, why: str) -> str:
    """Returns ``why`` a driver is silent, with those of its processes that a signal has stopped."""
    pids = ", ".join(map(str, turn.state.stopped_pids))
    if not pids:
        return why
    found = f"process {pids} is" if len(turn.state.stopped_pids) == 1 else f"processes {pids} are"
    return f"{why}; {found} stopped (SIGSTOP)"


def _begin(turn: Turn, within_s: float, why: str) -> None:
    turn.set(diagnosing_until_at_s=turn.now_s + within_s, diagnosed=False)
    lines = last_progress(turn.state.life, turn.now_s)
    turn.do(
        WriteLog("shim_diagnoses", why), Diagnose(within_s, why, lines, heap=not turn.state.diagnosing_stop)
    )


def _is_silent(turn: Turn) -> bool:
    state = turn.state
    if state.exec_at_s is None:
        return False
    verdict = health.overdue(state.life, state.launch, state.exec_at_s, turn.now_s)
    return verdict is not None and verdict[0] in DIAGNOSED_CAUSES


def last_progress(life: Life, now_s: float) -> tuple[str, ...]:
    """Returns a line for each query: how long ago it was heard of, and its last batch."""
    lines = []
    for query in life.queries[:_QUERIES_MAX]:
        batch = query.progress.batch_id if query.progress is not None else None
        last = "no batch yet" if batch is None else f"batch {batch} at {query.at}"
        state = "ended" if query.ended else "idle" if query.idle else "active"
        lines.append(
            f"query {query_name(query.name, query.id)}: {state}, {last}, heard {now_s - query.last_at_s:.0f} s ago"
        )
    if life.last_at_s is not None:
        lines.append(f"the last sign of any query was {now_s - life.last_at_s:.0f} s ago")
    return tuple(lines) or ("no query was heard of",)
