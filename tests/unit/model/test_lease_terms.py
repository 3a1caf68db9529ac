"""The numbers of the lease (protocol §7) against each other: whoever waits, waits long enough."""

from __future__ import annotations

import pytest

from supervisor.model.lease_terms import (
    CLOCK_RATE_ERROR,
    KILL_TIME_S,
    LEASE_MAX_S,
    LEASE_MIN_S,
    deadline_at_s,
    full_wait_s,
    outage_survived_s,
    renew_period_s,
    request_timeout_s,
    second_killer_acts_at_s,
    shim_acts_at_s,
    tombstone_from_s,
)

LEASES = pytest.mark.parametrize("lease_s", [LEASE_MIN_S, 6.0, 30.0, LEASE_MAX_S])
SLOW, FAST = 1 + CLOCK_RATE_ERROR, 1 - CLOCK_RATE_ERROR


@LEASES
def test_the_full_wait_outlasts_any_deadline_by_clocks_that_differ(lease_s: float) -> None:
    """In true time: the shim's clock is slow, the leader's is fast; and a kill may take twice its time."""
    tree_gone_s = deadline_at_s(0.0, lease_s) * SLOW + 2 * KILL_TIME_S
    leader_acts_s = full_wait_s(lease_s) * FAST
    assert leader_acts_s >= tree_gone_s - 0.001


@LEASES
def test_the_shim_acts_first_then_twin_and_guardian_and_all_before_the_deadline(lease_s: float) -> None:
    at_s = deadline_at_s(100.0, lease_s)
    assert (
        100.0 < shim_acts_at_s(at_s) < second_killer_acts_at_s(at_s) < at_s == 100.0 + lease_s - KILL_TIME_S
    )


@LEASES
def test_a_healthy_shim_renews_several_times_before_it_would_have_to_act(lease_s: float) -> None:
    assert 2 * renew_period_s(lease_s) <= shim_acts_at_s(deadline_at_s(0.0, lease_s))
    assert outage_survived_s(lease_s) > 0


def test_a_tombstone_of_an_attempt_whose_lease_ran_out_waits_for_its_executors() -> None:
    assert tombstone_from_s(10.0, 90.0, expired=False) == 10.0
    assert tombstone_from_s(10.0, 0.0, expired=True) == 10.0
    assert tombstone_from_s(10.0, 90.0, expired=True) > 100.0


@pytest.mark.parametrize("lease_s", [LEASE_MIN_S, 5.5, 6.0, 30.0, LEASE_MAX_S])
def test_a_request_that_hangs_costs_one_renewal(lease_s: float) -> None:
    """It ends before the next renewal is due, and that one is sent while the driver need not be killed."""
    assert request_timeout_s(lease_s) <= min(renew_period_s(lease_s), outage_survived_s(lease_s), 5.0)
