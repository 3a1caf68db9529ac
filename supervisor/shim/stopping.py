"""Decides the steps of an orderly stop: an order to stop at a batch boundary, SIGTERM, SIGKILL. Pure; used by ``machine``.

============  =================================================================  ========================================
rung          what is done                                                       what leads to the next one
============  =================================================================  ========================================
asked         the driver's bootstrap was asked to end each query after the       it did not take the order, or does not
              batch that it is in; the application then ends by itself           answer; it has no query; the rest of the
                                                                                 grace is what SIGTERM needs
terminated    SIGTERM                                                            the end of the grace
(killing)     SIGKILL of the tree: the machine's stage of that name              –
============  =================================================================  ========================================

A driver that takes no orders (a JVM application, or one that has not begun), or that has no executor and so comes to no
boundary, starts with SIGTERM. The grace counts from the
request, whatever happens in between; the deadline of the lease stands above all of it and is the machine's.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from supervisor.model.launch import Launch
from supervisor.model.records import StopMode

TERMINATE_MAX_S = 5.0
"""From SIGTERM until the driver was gone it took 1.3 to 2.0 s on a quiet host (spark.md S13)."""

TERMINATE_SHARE = 1 / 3
ANSWER_S = 10.0
"""A bootstrap answers in milliseconds; only code that never releases Python's global lock keeps it from that.
"""


@dataclass(frozen=True, slots=True)
class Ladder:
    """Holds the progress of an orderly stop. Instants are CLOCK_BOOTTIME seconds. SIGKILL follows at
    ``kill_at_s``; ``at_boundary`` is set when the driver has reported that no query is active."""

    kill_at_s: float
    terminate_at_s: float
    answer_due_at_s: float | None = None  # None: it has answered, or was not asked
    at_boundary: bool = False
    terminated: bool = False


def begin(launch: Launch, orderly: bool, now_s: float) -> Ladder:
    """Returns the first rung. ``orderly`` says that the application was seen to run, under our bootstrap, and that its
    queries can come to their boundary."""
    kill_at_s = now_s + launch.stop_grace_s
    if not (launch.reports and orderly):
        return Ladder(kill_at_s, now_s)
    share_s = min(TERMINATE_MAX_S, launch.stop_grace_s * TERMINATE_SHARE)
    return Ladder(kill_at_s, kill_at_s - share_s, answer_due_at_s=now_s + ANSWER_S)


def is_asked(ladder: Ladder) -> bool:
    """Returns whether the order is to be sent."""
    return ladder.answer_due_at_s is not None


def unheard(ladder: Ladder, now_s: float) -> Ladder:
    """Handles that nobody takes orders there."""
    return replace(ladder, terminate_at_s=min(now_s, ladder.terminate_at_s), answer_due_at_s=None)


def after_report(ladder: Ladder, event: str, queries: int | None, now_s: float) -> Ladder:
    """Handles what the driver reports: ``heard``; ``stopping``, for so many ``queries``; ``stopped``, when
    each is at its boundary."""
    if event == "stopping":
        return replace(ladder, answer_due_at_s=None) if queries else unheard(ladder, now_s)
    if event == "stopped":
        return replace(ladder, answer_due_at_s=None, at_boundary=True)
    return replace(ladder, answer_due_at_s=None) if event == "heard" else ladder


def acts_at_s(ladder: Ladder) -> float:
    """Returns when something is to be done next if no report comes."""
    if ladder.terminated:
        return ladder.kill_at_s
    return (
        ladder.terminate_at_s
        if ladder.answer_due_at_s is None
        else min(ladder.answer_due_at_s, ladder.terminate_at_s)
    )


def is_to_be_terminated(ladder: Ladder, now_s: float) -> bool:
    """Returns whether it is time for SIGTERM. That happens once; ``terminated`` says that it was sent."""
    return not ladder.terminated and now_s >= acts_at_s(ladder)


def terminated(ladder: Ladder) -> Ladder:
    return replace(ladder, terminated=True)


def mode(ladder: Ladder | None, killed: bool) -> StopMode | None:
    """Returns how the driver ended. ``killed`` says that the tree was killed for a reason of ours, before its
    root had ended by itself.

    It is None if no stop had begun, or if the driver ended by itself before the stop took effect (a query
    failed while it was waited for).
    """
    if ladder is None:
        return None
    if killed:
        return StopMode.SIGKILL
    if ladder.terminated:
        return StopMode.SIGTERM
    return StopMode.BATCH_BOUNDARY if ladder.at_boundary else None
