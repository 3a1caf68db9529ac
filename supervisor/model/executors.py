"""Says for how long the executors of a job may outlive its driver (protocol §7.8). It is pure.

An executor that has lost its driver ends by itself. If their hosts can still reach each other, it sees the
connection break, within a second or two. If not, only its heartbeats tell it: with Spark's defaults a task was
seen to go on for more than three minutes (S24). So each driver whose master is not local gets shorter times, which
the job's own ``conf`` overrides, and what follows from them stands in its lease.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from supervisor.model.lease_terms import EXECUTORS_OUTLIVE_MAX_S

INTERVAL: Final = "spark.executor.heartbeatInterval"
FAILURES: Final = "spark.executor.heartbeat.maxFailures"
TIMEOUT: Final = "spark.network.timeout"
CHECKS: Final = "spark.network.timeoutInterval"
KEYS: Final = (INTERVAL, FAILURES, TIMEOUT, CHECKS)

NOTHING_THERE: Final = "no application of this driver is there yet"
NO_EXECUTOR: Final = "its application runs, and gets no executor"
"""That is what is said of a driver which waits for executors, where its cluster does not have it wait for a place."""

INTERVAL_S: Final = 2.0
INTERVAL_MIN_S: Final = 0.1
FAILURES_DEFAULT: Final = 4
TIMEOUT_S: Final = 15.0
INTERVAL_OF_CHECKS_S: Final = 5.0

ENDING_S: Final = 80.0
"""An executor that gives up calls ``System.exit``, and its tasks go on until the JVM has run its shutdown hooks: 10 s
in which its heartbeats wait for themselves, at most the 30 s of Hadoop's hook time-out for all of Spark's, and as much
again until Hadoop gives up the hooks that go on. The rest is for a busy host (seen: 10 s)."""

_TIME: Final = re.compile(r"\s*(\d{1,12})\s*(us|ms|s|m|min|h|d)?\s*")
_UNITS: Final = {"us": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0, "d": 86400.0}
_BARE: Final = {INTERVAL: "ms", TIMEOUT: "s", CHECKS: "ms"}


def properties_for(conf: Mapping[str, str]) -> dict[str, str]:
    """Returns the properties that a driver with executors gets beside ``conf``, the job's own, so that Spark accepts
    them together: it asks for a time-out above the interval, and not below the period of its checks."""
    interval_s, checks_s = _seconds(conf, INTERVAL, INTERVAL_S), _seconds(conf, CHECKS, INTERVAL_OF_CHECKS_S)
    timeout_s = _seconds(conf, TIMEOUT, max(TIMEOUT_S, 3 * interval_s, checks_s))
    if INTERVAL not in conf:
        interval_s = min(interval_s, timeout_s / 3)
    ours = {
        INTERVAL: _text(interval_s),
        FAILURES: str(FAILURES_DEFAULT),
        TIMEOUT: _text(timeout_s),
        CHECKS: _text(min(checks_s, timeout_s)),
    }
    return {key: value for key, value in ours.items() if key not in conf}


def outlive_s(conf: Mapping[str, str]) -> float:
    """Returns for how many seconds executors may live after the last word of their driver. ``conf`` are all properties
    of the driver, or those of the job. A value that is no time or no number counts as the default, and Spark refuses it.
    """
    whole = {**properties_for(conf), **conf}
    interval_s, failures = _seconds(whole, INTERVAL, INTERVAL_S), _number(whole[FAILURES])
    return (failures + 1) * interval_s + ENDING_S


def why_impossible(conf: Mapping[str, str]) -> str | None:
    """Returns why no job with executors is registered with ``conf``, or None if it may be."""
    for key in (INTERVAL, TIMEOUT, CHECKS):
        if key in conf and _TIME.fullmatch(conf[key]) is None:
            return f"conf {key}: {conf[key][:40]!r} is no time, like 10s; correct it"
    if FAILURES in conf and not re.fullmatch(r"[1-9]\d{0,5}", conf[FAILURES].strip()):
        return f"conf {FAILURES}: {conf[FAILURES][:40]!r} is no number of failures; correct it"
    if INTERVAL in conf and _seconds(conf, INTERVAL, INTERVAL_S) < INTERVAL_MIN_S:
        return f"conf {INTERVAL}: {conf[INTERVAL][:40]!r} is below 100ms: executors would give up at any pause; raise it"
    whole = {**properties_for(conf), **conf}
    interval_s, timeout_s, checks_s = (_seconds(whole, key, 0.0) for key in (INTERVAL, TIMEOUT, CHECKS))
    if interval_s >= timeout_s:
        return f"conf {TIMEOUT} ({whole[TIMEOUT]}) is not above {INTERVAL} ({whole[INTERVAL]}): Spark would refuse to start"
    if checks_s > timeout_s:
        return f"conf {CHECKS} ({whole[CHECKS]}) is above {TIMEOUT} ({whole[TIMEOUT]}): Spark would refuse to start"
    if outlive_s(conf) > EXECUTORS_OUTLIVE_MAX_S:
        return (
            f"executors could outlive their driver by {outlive_s(conf):.0f} s, by conf {INTERVAL} × ({FAILURES} + 1) and "
            f"the {ENDING_S:.0f} s in which a JVM ends; {EXECUTORS_OUTLIVE_MAX_S:.0f} s at most: lower one of them"
        )
    return None


def why_long(conf: Mapping[str, str]) -> str | None:
    """Returns what ``conf`` costs after a host is lost, or None if it lengthens nothing."""
    asked_s, usual_s = outlive_s(conf), outlive_s({})
    if asked_s <= usual_s:
        return None
    return (
        f"conf {INTERVAL} and {FAILURES} let executors outlive their driver by {asked_s:.0f} s instead of {usual_s:.0f} s: "
        "after the loss of its host the job starts that much later"
    )


def _seconds(conf: Mapping[str, str], key: str, default_s: float) -> float:
    match = _TIME.fullmatch(conf.get(key, ""))
    return default_s if match is None else int(match[1]) * _UNITS[match[2] or _BARE[key]]


def _number(text: str) -> int:
    return int(text) if re.fullmatch(r"\s*\d{1,6}\s*", text) else FAILURES_DEFAULT


def _text(seconds: float) -> str:
    return f"{max(1, round(seconds * 1000))}ms" if seconds % 1 else f"{seconds:.0f}s"
