"""Bounds that the configuration file and the job spec share.

``settings`` lies below ``model`` and must not import it, so a few numbers of protocol §7 stand here a second time; a test
keeps them equal to ``model.lease_terms`` and ``model.restart``.
"""

from __future__ import annotations

LEASE_MIN_S = 5.0
LEASE_MAX_S = 300.0
STOP_GRACE_MAX_S = 3600.0
KILL_TIME_S = 2.0
SHIM_AHEAD_S = 1.0
"""2p: how long before its deadline a shim kills, so that it comes before the twin and can still record the exit."""

ASSUMED_TICK_S = 2.0
"""ZooKeeper's tickTime is not told to clients; two seconds is its usual value."""

FAILURE_RATE_ATTEMPTS_MAX = 64
RESTART_INITIAL_MIN_S = 0.1
"""A crash loop without any pause would break I11 (bounded)."""
