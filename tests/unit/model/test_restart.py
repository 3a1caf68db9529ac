"""When a job is started again, and when no longer: the strategies of REFERENCE.md, and what holds for all of them."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from supervisor.model.restart import RECENT_KEPT, Account, OnExhausted, RestartPolicy, Strategy, account

EXACT = RestartPolicy(jitter=0.0)
RATE = RestartPolicy(
    strategy=Strategy.FAILURE_RATE, initial_s=10.0, jitter=0.0, reset_after_s=600.0, attempts=2
)
NEW = Account(failures=0, charged=0, recent_s=(), delay_s=0.0, exhausted=False)

policies = st.builds(
    RestartPolicy,
    strategy=st.sampled_from(Strategy),
    initial_s=st.floats(0.1, 100),
    max_s=st.floats(100, 1000),
    jitter=st.floats(0, 1),
    reset_after_s=st.floats(1, 10_000),
    attempts=st.none() | st.integers(0, RECENT_KEPT),
    on_exhausted=st.sampled_from(OnExhausted),
)
exits = st.lists(st.tuples(st.floats(0, 20_000), st.booleans()), max_size=100)


def after(policy: RestartPolicy, before: Account, ran_s: float = 1.0, *, counts: bool = True) -> Account:
    """The account after one failure more."""
    return account(
        policy,
        failures=before.failures,
        charged=before.charged,
        recent_s=before.recent_s,
        ran_s=ran_s,
        failed=True,
        counts=counts,
        seed="uid.1",
    )


def after_all(policy: RestartPolicy, *runs_s: float) -> Account:
    result = NEW
    for ran_s in runs_s:
        result = after(policy, result, ran_s)
    return result


def test_exponential_doubles_up_to_max() -> None:
    delays = [after_all(EXACT, *[1.0] * n).delay_s for n in (1, 2, 3, 4, 9, 10, 1000)]
    assert delays == [1, 2, 4, 8, 256, 300, 300]


@pytest.mark.parametrize("strategy", [Strategy.FIXED, Strategy.FAILURE_RATE])
def test_fixed_and_failure_rate_wait_initial_each_time(strategy: Strategy) -> None:
    policy = replace(EXACT, strategy=strategy, initial_s=7.0, attempts=50)
    assert [after_all(policy, *[1.0] * n).delay_s for n in (1, 2, 30)] == [7, 7, 7]


@pytest.mark.parametrize("strategy", [Strategy.FIXED, Strategy.EXPONENTIAL])
def test_attempts_are_restarts_after_the_first_attempt(strategy: Strategy) -> None:
    policy = replace(EXACT, strategy=strategy, attempts=2)
    assert [after_all(policy, *[1.0] * n).exhausted for n in (1, 2, 3)] == [False, False, True]


def test_zero_attempts_and_none_allow_no_restart() -> None:
    assert after(replace(EXACT, attempts=0), NEW).exhausted
    assert after(replace(EXACT, strategy=Strategy.NONE), NEW).exhausted
    assert after(replace(RATE, attempts=0), NEW).exhausted


def test_no_limit_is_never_spent() -> None:
    assert not after_all(EXACT, *[0.0] * 500).exhausted


def test_a_long_run_resets_failures_and_budget() -> None:
    policy = replace(EXACT, attempts=2)
    assert after_all(policy, 1, 1, policy.reset_after_s) == after(policy, NEW)
    assert after_all(policy, 1, 1, policy.reset_after_s - 1).exhausted


def test_a_lost_attempt_counts_for_the_back_off_only() -> None:
    policy = replace(EXACT, attempts=0)
    lost = after(policy, after(policy, NEW, counts=False), counts=False)
    assert (lost.failures, lost.charged, lost.delay_s, lost.exhausted) == (2, 0, 2.0, False)
    assert not after(replace(EXACT, strategy=Strategy.NONE), NEW, counts=False).exhausted


def test_a_planned_exit_is_no_failure_and_no_reset() -> None:
    """A crash loop that is moved from host to host still spends its budget; only a long run clears it."""

    def planned(ran_s: float) -> Account:
        return account(
            RATE, failures=5, charged=4, recent_s=(1.0,), ran_s=ran_s, failed=False, counts=True, seed="x"
        )

    assert planned(20.0) == Account(failures=5, charged=4, recent_s=(31.0,), delay_s=0.0, exhausted=False)
    assert planned(RATE.reset_after_s) == NEW


def test_failure_rate_is_spent_by_one_failure_too_many_within_the_window() -> None:
    assert [after_all(RATE, *[1.0] * n).exhausted for n in (1, 2, 3)] == [False, False, True]


def test_failure_rate_forgets_failures_older_than_the_window() -> None:
    assert not after_all(RATE, 1, 290, 290, 290, 290, 290).exhausted
    assert after_all(RATE, 1, 290, 289).exhausted


def test_failure_rate_counts_the_time_of_lost_attempts_too() -> None:
    """Failures hours apart are no crash loop because the attempt between them was lost, not failed."""
    two = after_all(RATE, 1, 1)
    assert not after(RATE, after(RATE, two, 500.0, counts=False), 100.0).exhausted
    assert not after(RATE, after(RATE, two, 36_000.0, counts=False), 1.0).exhausted
    assert after(RATE, after(RATE, two, 1.0, counts=False), 1.0).exhausted


def test_failure_rate_works_up_to_the_largest_number_of_attempts() -> None:
    policy = replace(RATE, attempts=RECENT_KEPT, initial_s=0.1)
    assert not after_all(policy, *[1.0] * RECENT_KEPT).exhausted
    assert after_all(policy, *[1.0] * (RECENT_KEPT + 1)).exhausted


@given(policies, exits)
def test_an_account_is_bounded_and_delays_never_exceed_max(
    policy: RestartPolicy, runs: list[tuple[float, bool]]
) -> None:
    result = NEW
    for ran_s, counts in runs:
        result = after(policy, result, ran_s, counts=counts)
        assert 0 <= result.charged <= result.failures
        assert len(result.recent_s) <= RECENT_KEPT + 1
        assert list(result.recent_s) == sorted(result.recent_s, reverse=True)
        longest = policy.max_s if policy.strategy is Strategy.EXPONENTIAL else policy.initial_s * 2
        assert 0 <= result.delay_s <= longest * (1 + 1e-9)


@given(policies, st.integers(1, 60), st.text(max_size=20))
def test_the_delay_is_the_same_on_every_leader_and_stays_near_its_centre(
    policy: RestartPolicy,
    failures: int,
    seed: str,
) -> None:
    def once() -> float:
        return account(
            policy,
            failures=failures,
            charged=0,
            recent_s=(),
            ran_s=0.0,
            failed=True,
            counts=True,
            seed=seed,
        ).delay_s

    assert once() == once()
    centre = account(
        replace(policy, jitter=0.0, max_s=policy.max_s / (1 + policy.jitter)),
        failures=failures,
        charged=0,
        recent_s=(),
        ran_s=0.0,
        failed=True,
        counts=True,
        seed=seed,
    ).delay_s
    assert centre * (1 - policy.jitter) - 1e-6 <= once() <= centre * (1 + policy.jitter) + 1e-6


@given(policies, exits)
def test_once_spent_a_quick_failure_does_not_unspend_it(
    policy: RestartPolicy, runs: list[tuple[float, bool]]
) -> None:
    result = NEW
    for ran_s, counts in runs:
        result = after(policy, result, ran_s, counts=counts)
    if result.exhausted and policy.strategy is not Strategy.FAILURE_RATE:
        assert after(policy, result, 0.0).exhausted


def test_jitter_differs_between_attempts_at_the_cap_too() -> None:
    policy = RestartPolicy(initial_s=300.0)
    delays = {
        account(
            policy, failures=9, charged=0, recent_s=(), ran_s=0, failed=True, counts=True, seed=f"u.{n}"
        ).delay_s
        for n in range(50)
    }
    assert len(delays) == 50
    assert max(delays) <= policy.max_s
    assert max(delays) - min(delays) > 50
