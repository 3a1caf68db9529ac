"""Keeps a prepared driver until an attempt is handed to it, or it is discarded (protocol §9.1).

The driver's process tree is up already, and waits at its barrier: nothing of the application has run. The shim holds no
claim and has no connection to ZooKeeper. From the moment of the hand-over on it is a shim like any other: its first
connection, its patience and its claim count from there.

Only the shim discards its tree (or twin and guardian, which kill the shim first), and only before an attempt was handed
to it: from then on a claim may be under way, and its outcome is resolved as ever. The functions here are handlers of
``machine.TABLE`` and ``TIME``.
"""

from __future__ import annotations

from supervisor.shim.driver import note_exit
from supervisor.shim.end import finish
from supervisor.shim.state import Event, Exited, FirstConnect, HandedOver, HandedUnfit, ShimState, Stage
from supervisor.shim.turn import Turn

UNWANTED_S = 600.0
"""A prepared driver that no agent has asked for during this time goes."""


def want(turn: Turn, _: Event) -> None:
    turn.set(wanted_at_s=turn.now_s)


def discard(turn: Turn, _: Event) -> None:
    finish(turn, "the prepared driver is not wanted any more")


def hand_over(turn: Turn, event: HandedOver) -> None:
    """Takes the attempt: all that a shim counts from its birth counts from now."""
    turn.set(launch=event.launch, stage=Stage.CONNECTING, born_at_s=turn.now_s)
    turn.do(FirstConnect())


def refuse(turn: Turn, event: HandedUnfit) -> None:
    """Ends, so that the agent sees that the attempt which it handed over is lost, and the next start is a cold one."""
    finish(turn, f"what was handed over is not for this driver: {event.why}")


def ended(turn: Turn, event: Exited) -> None:
    note_exit(turn, event)
    finish(turn, "the prepared driver ended by itself")


def stop(turn: Turn, _: Event) -> None:
    finish(turn, "asked to stop before an attempt was handed over")


def watch(turn: Turn) -> None:
    """Discards a driver that nobody has asked for in ``UNWANTED_S``: its agent is gone, or of another version."""
    if turn.now_s >= unwanted_at_s(turn.state):
        finish(turn, f"no agent has asked for the prepared driver for {UNWANTED_S:g} s")


def unwanted_at_s(state: ShimState) -> float:
    return max(state.wanted_at_s, state.born_at_s) + UNWANTED_S
