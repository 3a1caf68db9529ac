"""Judges whether a driver waits for executors of its cluster, from what it says of their number. Pure; used by ``health``,
``driver`` and ``lease``.

The shim orders a count every few seconds (``spark/orders.py``), from the session on. Where the SparkContext itself comes up
only when the cluster has taken the application on (YARN), the driver's bootstrap says by itself that it has none. What a
driver says is believed for ``UNHEARD_S`` only, so that one that hangs does not wait for ever; the bootstrap would say it for
ever, and is believed by ``excused_until_at_s``.

``cluster_timeout`` judges more than the present wait: executors that come and go again at once do not end it. It counts
from the first count of none, until a batch was committed or executors have stayed for ``UNHEARD_S``.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from supervisor.model.executors import NO_EXECUTOR, NOTHING_THERE
from supervisor.model.launch import Launch
from supervisor.model.records import ClusterWait, clip
from supervisor.shim.state import Life, Reported

EVENTS: Final = ("executors", "cluster")
"""What is reported of executors. It counts only where the driver holds some elsewhere."""

UNHEARD_S: Final = 60.0
COUNT_EVERY_S: Final = 10.0
COUNT_WITHOUT_EVERY_S: Final = 5.0
COUNTS_IN_TIMEOUT: Final = 4
"""Executors are counted so often, at least, before a time-out of ``health`` could end the attempt."""
REPORTED_AFTER_S: Final = 8.0
"""A wait is told from its second count on: the executors of a healthy start register a moment after its session."""
SAYS_MAX_BYTES: Final = 200
APPLICATION_MAX_BYTES: Final = 80


def after_report(life: Life, report: Reported, now_s: float) -> Life:
    """Returns ``life`` with one more count of executors, or with what the cluster says. Other reports change nothing."""
    if report.event == "cluster":
        waits_there = report.error not in ("", NOTHING_THERE, NO_EXECUTOR)
        return replace(
            life,
            says=clip(report.error, SAYS_MAX_BYTES),
            said_at_s=now_s if waits_there else life.said_at_s,
        )
    if report.event != "executors" or report.executors is None:
        return life
    life = replace(
        life,
        executors=report.executors,
        application=clip(report.id, APPLICATION_MAX_BYTES) or life.application,
    )
    if report.executors:
        stayed = now_s - (life.without_at_s or 0.0) >= UNHEARD_S
        return replace(
            life,
            says="",
            without_since_at_s=None,
            without_since="",
            starved_since_at_s=None if stayed else life.starved_since_at_s,
        )
    return replace(
        life,
        says=life.says if life.without_since_at_s is not None else "",
        without_since_at_s=now_s if life.without_since_at_s is None else life.without_since_at_s,
        without_since=life.without_since or report.at,
        without_at_s=now_s,
        starved_since_at_s=now_s if life.starved_since_at_s is None else life.starved_since_at_s,
        held_at_s=now_s if _is_before_session(life) else life.held_at_s,
        delayed_at_s=now_s if life.batch_at_s is None else life.delayed_at_s,
        # none of them is silent: without an executor it can do nothing, nor can an application whose queries have ended
        queries=tuple(replace(query, last_at_s=now_s) for query in life.queries),
        last_at_s=None if life.last_at_s is None else now_s,
    )


def is_without(life: Life, now_s: float) -> bool:
    """Returns whether the driver waits for executors, as far as it has said so of late."""
    if life.without_since_at_s is None or life.without_at_s is None:
        return False
    return now_s - life.without_at_s < UNHEARD_S


def _is_before_session(life: Life) -> bool:
    return life.session_at_s is None and life.query_at_s is None


def is_making_context(life: Life, now_s: float) -> bool:
    """Returns whether the driver waits for a cluster that has to take its application on before there is a session."""
    return _is_before_session(life) and is_without(life, now_s)


def excused_until_at_s(life: Life, launch: Launch) -> float:
    """Returns until when its wait excuses a driver from the time-outs of ``health``; 0.0 if it has not waited.

    Before the session the driver's word alone counts for one ``start_timeout`` only, because the thread that says it goes
    on while the driver hangs. After that it counts for as long as the cluster says why the application waits.
    """
    said_at_s, since_at_s = life.without_at_s or 0.0, life.without_since_at_s
    if since_at_s is None or not _is_before_session(life):
        return said_at_s
    by_cluster_at_s = 0.0 if life.said_at_s is None else life.said_at_s + UNHEARD_S
    return min(said_at_s, max(since_at_s + launch.start_timeout_s, by_cluster_at_s))


def too_long(life: Life, launch: Launch, now_s: float) -> str | None:
    """Returns why the attempt has waited for too long, or None."""
    limit_s = launch.cluster_timeout_s
    if not limit_s or not is_without(life, now_s) or life.starved_since_at_s is None:
        return None
    if now_s - life.starved_since_at_s < limit_s:
        return None
    stayed = "" if life.starved_since_at_s == life.without_since_at_s else " that stayed"
    says = f": {life.says}" if life.says else ""
    return f"{name_of(launch)} gave it no executor{stayed} for {limit_s:g} s{says}"


def name_of(launch: Launch) -> str:
    """Returns what the cluster of the job is called."""
    return f"cluster {launch.on_cluster}" if launch.on_cluster else "its cluster"


def record_of_wait(life: Life, launch: Launch, now_s: float) -> ClusterWait | None:
    """Returns the wait for the lease record, or None if there is none, or none to be told yet."""
    if life.without_since_at_s is None or not is_without(life, now_s):
        return None
    if now_s - life.without_since_at_s < REPORTED_AFTER_S:
        return None
    return ClusterWait(
        cluster=launch.on_cluster, since=life.without_since, application=life.application, says=life.says
    )


def count_every_s(life: Life, launch: Launch) -> float:
    """Returns after how many seconds executors are counted again."""
    usual_s = COUNT_EVERY_S if life.executors else COUNT_WITHOUT_EVERY_S
    timeout_s = min(launch.start_timeout_s, launch.stall_timeout_s)
    return min(usual_s, timeout_s / COUNTS_IN_TIMEOUT, launch.cluster_timeout_s or usual_s)
