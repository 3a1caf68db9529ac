"""Defines the numbers of the lease (protocol §7), in one place for the shim, its twin, the guardian and the
planner. It is pure.

D = lease length, r = renewal period, K = time to kill a tree, ρ = clock-rate error, p = period of twin and
guardian. All are in seconds; instants are CLOCK_BOOTTIME of the host that computes them.
"""

from __future__ import annotations

KILL_TIME_S = 2.0
"""K is an upper bound of the time from the first signal to the empty tree. It is measured at each kill, and
there is an alarm when the kill took longer.
"""

CLOCK_RATE_ERROR = 0.001
"""ρ is how much two healthy clocks may differ in rate."""

SECOND_KILLER_PERIOD_S = 0.5
"""This is p ≤ K/2: twin and guardian act at deadline − p when the shim is alive but has not acted."""

SHIM_AHEAD_S = 2 * SECOND_KILLER_PERIOD_S
"""2p is how long before its deadline a shim kills, so that it comes before the twin and can still record the
exit.
"""

DOUBT_S = 600.0
"""For so long whoever is to write a tombstone, the shim or the guardian, reads /own again while that shows
nothing believable; then the attempt ends without one, and the leader waits in full.
"""

LEASE_MIN_S = 5.0
LEASE_MAX_S = 300.0
STOP_GRACE_MAX_S = 3600.0
EXECUTORS_OUTLIVE_MAX_S = 900.0


def renew_period_s(lease_s: float) -> float:
    """Returns r = D/6."""
    return lease_s / 6


def request_timeout_s(lease_s: float) -> float:
    """Returns for how long a shim waits for the answer to a request: one renewal period, 5 s at most. A request
    that hangs then costs one renewal, and the next one is sent on another connection before the shim must kill.
    """
    return min(5.0, renew_period_s(lease_s))


def deadline_at_s(sent_at_s: float, lease_s: float) -> float:
    """Returns when the driver tree must be killed: at the *sending* of the last claim or renewal that
    committed, + D − K.
    """
    return sent_at_s + lease_s - KILL_TIME_S


def full_wait_s(lease_s: float, executors_outlive_s: float = 0.0) -> float:
    """Returns W = (D+E)(1+2ρ)+K: after a lease has been silent for so long, its driver tree is gone, and so are the
    executors that the driver held on a cluster. E is ``executors_outlive_s`` (``model.executors``).
    """
    return (lease_s + executors_outlive_s) * (1 + 2 * CLOCK_RATE_ERROR) + KILL_TIME_S


def tombstone_from_s(empty_at_s: float, executors_outlive_s: float, *, expired: bool) -> float:
    """Returns from when on a tombstone may be written of an attempt whose tree was proven empty at ``empty_at_s``.

    If no renewal could commit (``expired``), its host may have been cut off from everything, and its executors were not told
    by a broken connection. A tombstone ends every wait, so it has to wait for them itself. The leader may be through with
    its own wait before.
    """
    return empty_at_s + executors_outlive_s * (1 + 2 * CLOCK_RATE_ERROR) if expired else empty_at_s


LONGEST_WAIT_S = full_wait_s(LEASE_MAX_S, EXECUTORS_OUTLIVE_MAX_S)
"""This is W where the terms are not known, or are such as no spec can have led to: those were not written by this
software, and must not make the wait short.
"""


def is_believable(lease_s: float, executors_outlive_s: float) -> bool:
    """Returns whether a spec can have led to these two numbers of a lease record."""
    return LEASE_MIN_S <= lease_s <= LEASE_MAX_S and 0.0 <= executors_outlive_s <= EXECUTORS_OUTLIVE_MAX_S


def wait_by_terms_s(lease_s: float, executors_outlive_s: float) -> float:
    """Returns W by these two numbers of a lease record if they are believable, else ``LONGEST_WAIT_S``."""
    if is_believable(lease_s, executors_outlive_s):
        return full_wait_s(lease_s, executors_outlive_s)
    return LONGEST_WAIT_S


def shim_acts_at_s(deadline_at_s: float) -> float:
    """Returns when a living shim kills its driver: deadline − 2p.

    That is before the second killers act. They would kill the shim first, and with it the tombstone that
    spares the leader the full wait.
    """
    return deadline_at_s - SHIM_AHEAD_S


def second_killer_acts_at_s(deadline_at_s: float) -> float:
    """Returns when twin and guardian act although the shim is alive: deadline − p (they probe every p)."""
    return deadline_at_s - SECOND_KILLER_PERIOD_S


def outage_survived_s(lease_s: float) -> float:
    """Returns for how long ZooKeeper may be away before a driver is stopped, from the worst moment, just
    before a renewal.
    """
    return shim_acts_at_s(deadline_at_s(0.0, lease_s)) - renew_period_s(lease_s)
