"""The ladder of an orderly stop: asked to stop at a batch boundary, SIGTERM, SIGKILL. Pure; for ``machine``.

============  =================================================================  ========================================
rung          what is done                                                       what leads to the next one
============  =================================================================  ========================================
asked         the driver's bootstrap was asked to end each query after the       it did not take the order, or does not
              batch that it is in; the application then ends by itself           answer; it has no query; the rest of the
                                                                                 grace is what SIGTERM needs
terminated    SIGTERM                                                            the end of the grace
(killing)     SIGKILL of the tree: the machine's stage of that name              –
============  =================================================================  ========================================

A driver that takes no orders (a JVM application, or one that has not begun) starts with SIGTERM. The grace counts from the
request, whatever happens in between; the deadline of the lease stands above all of it and is the machine's.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from supervisor.model.launch import Launch
from supervisor.model.records import StopMode

TERMINATE_MAX_S = 5.0
"""SIGTERM → driver gone took 1.3 to 2.0 s on a quiet host (spark.md S13)."""

TERMINATE_SHARE = 1 / 3
ANSWER_S = 10.0
"""A bootstrap answers in milliseconds; only code that never lets go of Python's lock keeps it from that."""


@dataclass(frozen=True, slots=True)
class Ladder:
    """Times: CLOCK_BOOTTIME, seconds. ``kill_at_s``: SIGKILL. ``at_boundary``: the driver said that no query is active."""

    kill_at_s: float
    terminate_at_s: float
    answer_due_at_s: float | None = None  # None: it has answered, or was not asked
    at_boundary: bool = False
    terminated: bool = False


def begin(launch: Launch, begun: bool, now_s: float) -> Ladder:
    """The first rung. ``begun``: the application was seen to run, under our bootstrap."""
    kill_at_s = now_s + launch.stop_grace_s
    if not (launch.reports and begun):
        return Ladder(kill_at_s, now_s)
    share_s = min(TERMINATE_MAX_S, launch.stop_grace_s * TERMINATE_SHARE)
    return Ladder(kill_at_s, kill_at_s - share_s, answer_due_at_s=now_s + ANSWER_S)


def is_asked(ladder: Ladder) -> bool:
    """Is the order to be sent?"""
    return ladder.answer_due_at_s is not None


def unheard(ladder: Ladder, now_s: float) -> Ladder:
    """Nobody takes orders there."""
    return replace(ladder, terminate_at_s=min(now_s, ladder.terminate_at_s), answer_due_at_s=None)


def after_report(ladder: Ladder, event: str, queries: int | None, now_s: float) -> Ladder:
    """What the driver says: ``heard``; ``stopping``, for so many ``queries``; ``stopped``: each is at its boundary."""
    if event == "stopping":
        return replace(ladder, answer_due_at_s=None) if queries else unheard(ladder, now_s)
    if event == "stopped":
        return replace(ladder, answer_due_at_s=None, at_boundary=True)
    return replace(ladder, answer_due_at_s=None) if event == "heard" else ladder


def acts_at_s(ladder: Ladder) -> float:
    """When something is to be done next if nothing is heard."""
    if ladder.terminated:
        return ladder.kill_at_s
    return (
        ladder.terminate_at_s
        if ladder.answer_due_at_s is None
        else min(ladder.answer_due_at_s, ladder.terminate_at_s)
    )


def is_to_be_terminated(ladder: Ladder, now_s: float) -> bool:
    """Is it time for SIGTERM? Once; ``terminated`` says that it was sent."""
    return not ladder.terminated and now_s >= acts_at_s(ladder)


def terminated(ladder: Ladder) -> Ladder:
    return replace(ladder, terminated=True)


def mode(ladder: Ladder | None, killed: bool) -> StopMode | None:
    """How it ended. ``killed``: the tree was killed for a reason of ours, before its root had ended by itself.

    None: no stop had begun, or the driver ended by itself before it took effect (a query failed while it was waited for).
    """
    if ladder is None:
        return None
    if killed:
        return StopMode.SIGKILL
    if ladder.terminated:
        return StopMode.SIGTERM
    return StopMode.BATCH_BOUNDARY if ladder.at_boundary else None
