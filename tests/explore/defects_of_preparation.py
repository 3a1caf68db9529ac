"""Rules of protocol §9.1, prepared drivers, undone one at a time: the opening of a barrier comes after the claim and the deadline,
and nobody but its shim discards what was handed over."""

from __future__ import annotations

from functools import partial
from typing import Any

from supervisor.model import second_killer
from supervisor.shim import claim, end, machine, prepared
from supervisor.shim.state import Exec, HandedOver
from supervisor.shim.turn import Turn
from tests.explore.planting import around, planted, text

ORDER = "§9.1: claim committed, deadline written, then the opening; the driver reads the clock after it"
HAND_OVER = "§9.1: once an attempt was handed over, nobody discards; patience counts from there"
LOST = "§9.1: a prepared driver that is gone before the application began is no failure of the job, and the next start is cold"


def opening_too(real: Any, turn: Turn, event: HandedOver) -> None:
    real(turn, event)
    turn.do(Exec(turn.now_s + 100.0))


DEFECTS = (
    planted("opened-at-the-hand-over", ORDER, partial(around, prepared.hand_over, opening_too)),
    text(
        "opened-without-a-deadline-for-the-second-killers",
        ORDER,
        (
            claim.claimed,
            "turn.do(WriteDeadline(deadline_at_s), Exec(before_at_s))",
            "turn.do(Exec(before_at_s), *(() if turn.state.launch.prepared else (WriteDeadline(deadline_at_s),)))",
        ),
    ),
    text(
        "opening-is-valid-for-ever",
        ORDER,
        (
            claim.claimed,
            "Exec(before_at_s))",
            "Exec(before_at_s + (1e9 if turn.state.launch.prepared else 0.0)))",
        ),
    ),
    text(
        "second-killers-let-a-prepared-tree-be",
        "§9.1: an unclaimed tree goes when its shim dies",
        (
            second_killer._probed,
            "due or probe.shim_dead",
            "due or (probe.shim_dead and deadline_at_s is not None)",
        ),
    ),
    text(
        "discarded-although-handed-over",
        HAND_OVER,
        (
            machine.step,
            "TABLE[type(event)][_COLUMN[state.stage]](turn, event)",
            "(discard if isinstance(event, DiscardAsked) else TABLE[type(event)][_COLUMN[state.stage]])(turn, event)",
        ),
    ),
    text(
        "patience-counts-from-the-preparation",
        HAND_OVER,
        (prepared.hand_over, ", born_at_s=turn.now_s", ""),
    ),
    text(
        "prepared-driver-is-kept-for-ever",
        "§9.1: an unclaimed tree goes when no agent has asked for it for 10 minutes",
        (prepared.watch, "turn.now_s >= unwanted_at_s(turn.state)", "False"),
    ),
    text(
        "dead-prepared-driver-is-opened",
        LOST,
        (
            claim.claimed,
            "turn.state.launch.prepared and turn.state.status is not None",
            "False",
        ),
    ),
    text(
        "lost-preparation-is-charged",
        LOST,
        (end.is_lost_preparation, "bool(state.launch.prepared)", "False"),
    ),
    text(
        "every-early-end-of-a-prepared-driver-is-a-lost-preparation",
        LOST,
        (end.is_lost_preparation, "and state.life.begun_at_s is None", ""),
    ),
)
