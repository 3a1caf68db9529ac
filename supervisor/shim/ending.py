"""How an attempt ended, as its tombstone says it. Pure; for ``machine``."""

from __future__ import annotations

from supervisor.model.exits import SHELL_SIGNAL_BASE, ExitEvidence, classify
from supervisor.registry.attempt_writes import Exit
from supervisor.shim import stopping
from supervisor.shim.state import ShimState


def waits_only(state: ShimState) -> bool:
    """Its application has not begun, because its driver has to wait for the word that it may: that is no running."""
    return state.launch.is_held and state.life.begun_s is None


def describe(state: ShimState) -> Exit:
    """``exit_code`` as a shell gives it: 128 + signal. ``ran_s``: from letting the starter go to the empty tree."""
    begun = state.life.begun_s is not None
    verdict = classify(
        ExitEvidence(
            state.status,
            state.launch.unbounded,
            stop_requested=state.stop_asked,
            killed_for=None if state.cause is None else (state.cause, state.reason),
            begun=begun if state.launch.reports else None,
            error=state.life.error,
            tail=state.tail,
            oom=state.oom,
            refused=None if begun else state.refused,
        )
    )
    code = state.status
    if code is not None and code < 0:
        code = SHELL_SIGNAL_BASE - code
    ran = state.executed and not waits_only(state)
    ran_s = state.empty_s - state.exec_s if ran and state.exec_s and state.empty_s else 0.0
    permanent = verdict.permanent or (state.permanent and not state.stop_asked)
    return Exit(
        verdict.cause,
        verdict.reason,
        code,
        round(max(0.0, ran_s), 3),
        permanent,
        stop_mode=stopping.mode(state.ladder, killed=state.cause is not None),
    )
