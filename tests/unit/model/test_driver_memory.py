"""``restart.memory_step``: what the next attempt gets after one that ran out of memory, and what never changes it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from supervisor.model.driver_memory import (
    MIB,
    DriverMemory,
    as_spark_size,
    next_memory,
    raise_of_memory,
    spark_size_bytes,
)
from supervisor.model.records import Cause, JobRef, Ownership, OwnState
from supervisor.model.restart import RestartPolicy
from tests.unit.plan.rows import job, own

GIB = 1024 * MIB
STEP = RestartPolicy(memory_step=1.5, memory_max=3 * GIB)


def raising(policy: RestartPolicy = STEP, **changes: Any) -> JobRef:
    return job(restart=policy, memory=2 * GIB, driver_memory=GIB, **changes).record


def ended(cause: Cause = Cause.OUT_OF_MEMORY, state: OwnState = OwnState.EXITED, **changes: Any) -> Ownership:
    return own(state, cause=cause, **changes).record


def after(of: JobRef, before: Ownership) -> Ownership:
    """The ownership once the attempt that ``next_memory`` describes has run out as well."""
    memory = next_memory(of, before)
    return replace(before, driver_memory=memory.driver, raised=memory.raised, memory=memory.whole)


def test_each_exit_for_want_of_memory_raises_it_up_to_the_limit_and_the_whole_by_as_much() -> None:
    record, seen = ended(), []
    for _ in range(4):
        record = after(raising(), record)
        seen.append((record.driver_memory // MIB, record.raised, record.memory // MIB))
    assert seen == [(1536, 1, 2560), (2304, 2, 3328), (3072, 3, 4096), (3072, 3, 4096)]


def test_without_the_rule_nothing_is_set_and_nothing_raised() -> None:
    assert next_memory(job(memory=2 * GIB).record, ended()) == DriverMemory(0, 0, 2 * GIB)
    assert next_memory(job(memory=2 * GIB).record, ended(driver_memory=3 * GIB, raised=2)) == DriverMemory(
        0, 0, 2 * GIB
    )


def test_the_first_attempt_begins_with_what_the_spec_says() -> None:
    assert next_memory(raising(), own(OwnState.VACANT, uid="").record) == DriverMemory(GIB, 0, 2 * GIB)


@pytest.mark.parametrize("cause", [cause for cause in Cause if cause is not Cause.OUT_OF_MEMORY])
def test_what_was_raised_stays_after_any_other_exit(cause: Cause) -> None:
    assert next_memory(raising(), ended(cause, driver_memory=2 * GIB, raised=2)) == DriverMemory(
        2 * GIB, 2, 3 * GIB
    )


def test_it_stays_over_resume_and_restart_and_an_unassignment_is_no_exit() -> None:
    raised: dict[str, Any] = {"driver_memory": 2 * GIB, "raised": 2}
    kept = DriverMemory(2 * GIB, 2, 3 * GIB)
    assert next_memory(raising(restart_nonce="n2"), ended(Cause.STOPPED, **raised)) == kept
    assert next_memory(raising(), own(OwnState.VACANT, **raised).record) == kept
    assert next_memory(raising(), own(OwnState.REVOKED, cause=Cause.OUT_OF_MEMORY, **raised).record) == kept


def test_a_failed_job_that_is_resumed_gets_more_than_it_failed_with() -> None:
    cleaned = ended(state=OwnState.VACANT)
    assert next_memory(raising(restart_nonce="n2"), cleaned).raised == 1


@pytest.mark.parametrize("changes", [{"uid": "u2"}, {"revision": 2}])
def test_a_new_submit_or_revision_begins_again(changes: dict[str, Any]) -> None:
    assert next_memory(raising(**changes), ended(driver_memory=2 * GIB, raised=2)) == DriverMemory(
        GIB, 0, 2 * GIB
    )


def test_what_show_says() -> None:
    assert raise_of_memory(raising(), ended()) is None
    assert (
        raise_of_memory(raising(), ended(driver_memory=1536 * MIB, raised=1))
        == "1536m (raised once from 1g after out_of_memory)"
    )
    assert (
        raise_of_memory(raising(), ended(driver_memory=3 * GIB, raised=3))
        == "3g (raised 3 times from 1g after out_of_memory)"
    )
    assert raise_of_memory(raising(uid="u2"), ended(driver_memory=3 * GIB, raised=3)) is None


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("600m", 600 * MIB),
        ("1g", GIB),
        ("1G", GIB),
        ("2gb", 2 * GIB),
        (" 512 ", 512 * MIB),
        ("1t", 1024 * GIB),
        ("2048k", 2 * MIB),
        ("1.5g", None),
        ("", None),
        ("lots", None),
        ("1 g", GIB),
    ],
)
def test_spark_sizes(text: str, size: int | None) -> None:
    assert spark_size_bytes(text) == size


@given(st.integers(1, 10**14))
def test_what_is_written_for_spark_is_never_less(size: int) -> None:
    back = spark_size_bytes(as_spark_size(size))
    assert back is not None and size <= back < size + MIB


@given(
    st.floats(1.0001, 10),
    st.integers(MIB, 64 * GIB),
    st.integers(MIB, 64 * GIB),
    st.integers(0, 64 * GIB),
    st.integers(0, 50),
    st.sampled_from(OwnState),
    st.none() | st.sampled_from(Cause),
)
def test_never_above_the_limit_nor_below_the_spec(
    step: float,
    base: int,
    most: int,
    had: int,
    raised: int,
    state: OwnState,
    cause: Cause | None,
) -> None:
    of = job(restart=RestartPolicy(memory_step=step, memory_max=most), memory=base, driver_memory=base).record
    before = own(state, cause=cause, driver_memory=min(had, most), raised=raised).record
    memory = next_memory(of, before)
    assert base <= memory.driver <= max(base, most)
    assert memory.whole - base == memory.driver - base
    assert memory.raised - raised in (0, 1) or memory.raised == 0
