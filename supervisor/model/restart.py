"""Implements the restart strategies: how long to wait after a failure, and when to stop trying (REFERENCE.md,
``restart``).

It is pure and uses no wall clock: an attempt's run time is measured by its own shim on CLOCK_BOOTTIME and
travels in the ownership record, so the account survives a failover and needs no two clocks to agree. ``plan``
and ``list`` use it.
"""

from __future__ import annotations

import zlib
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from supervisor.growing_pause import GrowingPause
from supervisor.model.bounds import Bytes, Count, Factor, Seconds
from supervisor.model.phrases import counted


class Strategy(StrEnum):
    FIXED = "fixed"  # always ``initial``
    EXPONENTIAL = "exponential"  # ``initial`` doubled per consecutive failure, at most ``max``
    # ``initial`` each time; spent after ``attempts`` failures within ``reset_after``
    FAILURE_RATE = "failure-rate"
    NONE = "none"  # no restart


class OnExhausted(StrEnum):
    FAIL = "fail"
    SUSPEND = "suspend"


RECENT_KEPT = 64
"""This is the largest ``attempts`` that failure-rate accepts; one failure more is remembered, because the
next one is too many.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class RestartPolicy:
    """Holds the restart policy of a job. Durations are in seconds; ``jitter`` is a fraction of the delay (0 …
    1); if ``attempts`` is None, there is no limit.

    ``memory_step`` and ``memory_max`` (bytes) say what driver memory follows ``out_of_memory``, see
    ``driver_memory``; if they are None, it stays as it is.
    """

    strategy: Strategy = Strategy.EXPONENTIAL
    initial_s: Seconds = 1.0
    max_s: Seconds = 300.0
    jitter: float = 0.2
    reset_after_s: Seconds = 600.0
    attempts: Count | None = None
    on_exhausted: OnExhausted = OnExhausted.FAIL
    memory_step: Factor | None = None
    memory_max: Bytes | None = None
    extra: dict[str, Any] = field(default_factory=dict, hash=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Account:
    """Holds the failures up to and including the latest exit, and what follows from them."""

    failures: int
    charged: int
    recent_s: tuple[float, ...]
    delay_s: float
    exhausted: bool


def account(
    policy: RestartPolicy,
    *,
    failures: int,
    charged: int,
    recent_s: tuple[float, ...],
    ran_s: float,
    failed: bool,
    counts: bool,
    seed: str,
) -> Account:
    """Computes the account for one exit.

    ``failures``, ``charged`` and ``recent_s`` are as they stood when the attempt was assigned; ``recent_s``
    (failure-rate only) says how long before the latest exit each charged failure within ``reset_after`` was,
    oldest first. ``ran_s`` is how long the driver lived. ``failed`` says that the exit was not planned; a
    planned one (a move, a host that goes down) is no failure, and no reset either. ``counts`` says that it is
    charged to the budget (a lost attempt is not). ``seed`` makes the jitter differ between jobs and attempts
    while staying the same on every leader.
    """
    if ran_s >= policy.reset_after_s:
        failures, charged, recent_s = 0, 0, ()
    recent_s = _aged(policy, recent_s, ran_s)
    if not failed:
        return Account(failures=failures, charged=charged, recent_s=recent_s, delay_s=0.0, exhausted=False)
    failures += 1
    if counts:
        charged += 1
        recent_s = (*recent_s, 0.0)[-RECENT_KEPT - 1 :] if policy.strategy is Strategy.FAILURE_RATE else ()
    return Account(
        failures=failures,
        charged=charged,
        recent_s=recent_s,
        delay_s=_delay_s(policy, failures, seed),
        exhausted=_exhausted(policy, charged, recent_s),
    )


def _aged(policy: RestartPolicy, recent_s: tuple[float, ...], ran_s: float) -> tuple[float, ...]:
    """Returns the charged failures still within ``reset_after``, each as old as it is at least by now.

    Since the latest of them an attempt waited ``initial`` and ran. Time in a queue is not known here; leaving
    it out errs towards giving up early, never towards a hot loop. Hundredths of a second are enough: the
    record has 4 KiB.
    """
    if policy.strategy is not Strategy.FAILURE_RATE:
        return ()
    passed_s = ran_s + policy.initial_s * (1 - _jitter(policy))
    return tuple(
        round(age_s + passed_s, 2) for age_s in recent_s if 0 <= age_s + passed_s < policy.reset_after_s
    )


def delay_after(policy: RestartPolicy, failures: int, seed: str) -> float:
    """Returns the back-off in seconds after that many consecutive failures, for display; ``seed`` is as in
    ``account``.
    """
    return _delay_s(policy, failures, seed)


def _delay_s(policy: RestartPolicy, failures: int, seed: str) -> float:
    """Returns the back-off in seconds. The jitter spreads both ways, also at the cap: ``max`` is never
    exceeded, and jobs do not pile up on it.
    """
    delay, jitter = policy.initial_s, _jitter(policy)
    if policy.strategy is Strategy.EXPONENTIAL:
        delay = GrowingPause(policy.initial_s, policy.max_s / (1 + jitter)).after(failures)
    spread = zlib.crc32(seed.encode()) / 0xFFFFFFFF * 2 - 1  # -1 … 1, stable
    return max(0.0, delay * (1 + jitter * spread))


def _jitter(policy: RestartPolicy) -> float:
    """Returns the jitter within its bounds, whatever somebody wrote into the record: ``account`` has an
    answer for every record (I9).
    """
    return min(1.0, max(0.0, policy.jitter))


def spent(policy: RestartPolicy) -> str:
    """Returns, as text, why it is not tried again."""
    if policy.strategy is Strategy.NONE or policy.attempts == 0:
        return "restarts are off"
    if policy.strategy is Strategy.FAILURE_RATE:
        too_many = f"more than {counted(policy.attempts or 0, 'failure')}"
        return f"restart budget is spent ({too_many} within {policy.reset_after_s:g} s)"
    return f"restart budget is spent ({counted(policy.attempts or 0, 'restart')})"


def _exhausted(policy: RestartPolicy, charged: int, recent_s: tuple[float, ...]) -> bool:
    """Returns whether the restart budget is spent. ``attempts`` = N allows N restarts after the first
    attempt, and for failure-rate N failures within ``reset_after``.
    """
    if policy.strategy is Strategy.NONE:
        return charged > 0
    if policy.attempts is None:
        return False
    if policy.strategy is Strategy.FAILURE_RATE:
        return len(recent_s) > min(policy.attempts, RECENT_KEPT)
    return charged > policy.attempts
