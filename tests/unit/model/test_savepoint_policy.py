"""The schedule of savepoints and which of them may go, as a table of clocks and of what is in the store."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from supervisor.model.savepoint_policy import SavepointPolicy
from supervisor.savepoints.schedule import Scheduled, began_at_s, id_of, ids_of, newest_of, slot_of, surplus

HOUR = 3600.0
NOW = 1_795_000_000
YEAR = 365 * 24 * 3600


def made(*slots: int, complete: bool = True, source: str = "s3://b/ck") -> list[Scheduled]:
    return [Scheduled(id_of(slot), source, complete) for slot in slots]


def ids(*slots: int) -> tuple[str, ...]:
    return tuple(id_of(slot) for slot in slots)


def test_an_id_says_its_slot() -> None:
    assert id_of(1_795_327_200) == "scheduled-20261122-060000"
    assert (
        began_at_s("scheduled-20261122-060000") == began_at_s("scheduled-20261122-060000-2") == 1_795_327_200
    )
    ids = ids_of(1_795_327_200)
    assert [next(ids), next(ids)] == ["scheduled-20261122-060000", "scheduled-20261122-060000-2"]


@pytest.mark.parametrize(
    "other", ["20261122-060000-ab12", "scheduled-today", "scheduled-20261399-060000", "scheduled-"]
)
def test_other_ids_have_no_slot(other: str) -> None:
    assert began_at_s(other) is None


@given(st.text(max_size=20), st.floats(60, 1e7), st.floats(0, 4e9))
def test_every_moment_is_in_one_slot_that_all_leaders_agree_on(
    name: str, every_s: float, now_s: float
) -> None:
    slot_at_s = slot_of(name, every_s, now_s)
    every = int(every_s)
    assert slot_at_s <= now_s < slot_at_s + every
    assert {slot_of(name, every_s, slot_at_s), slot_of(name, every_s, slot_at_s + every - 1)} == {slot_at_s}
    assert slot_of(name, every_s, slot_at_s + every) == slot_at_s + every
    if slot_at_s >= 0:
        assert began_at_s(id_of(slot_at_s)) == slot_at_s


def test_jobs_with_one_period_are_not_due_at_once() -> None:
    assert len({slot_of(f"job-{n}", 6 * HOUR, NOW) for n in range(100)}) > 90


def slots(count: int, every: int = 3600, newest: int = NOW) -> list[int]:
    """Oldest first."""
    return [newest - every * n for n in reversed(range(count))]


@pytest.mark.parametrize("keep", [1, 2, 8])
def test_the_newest_so_many_stay(keep: int) -> None:
    there = slots(10)
    assert surplus(made(*there), SavepointPolicy(every_s=HOUR, keep=keep), NOW) == ids(*there[: 10 - keep])
    assert surplus(made(*there[:keep]), SavepointPolicy(every_s=HOUR, keep=keep), NOW) == ()


def test_older_than_max_age_goes_but_never_the_newest() -> None:
    policy = SavepointPolicy(every_s=HOUR, keep=100, max_age_s=3 * HOUR)
    there = slots(10)
    assert surplus(made(*there), policy, NOW) == ids(*there[:6])
    assert surplus(made(*there), policy, NOW + 10 * YEAR) == ids(*there[:6]), (
        "a clock that jumped ahead removes no more"
    )
    assert surplus(made(NOW - 2 * YEAR), policy, NOW) == ()


def test_what_is_from_the_future_is_neither_counted_nor_removed() -> None:
    """The store's clock was wrong, or is: nobody can tell which."""
    policy = SavepointPolicy(every_s=HOUR, keep=1, max_age_s=HOUR)
    future = made(NOW + YEAR, NOW + 2 * YEAR)
    assert surplus(future, policy, NOW) == ()
    assert surplus([*future, *made(NOW)], policy, NOW) == ()
    assert surplus([*future, *made(NOW - 3600, NOW)], policy, NOW) == ids(NOW - 3600)
    assert newest_of(future, NOW, HOUR) is None


def test_an_incomplete_one_goes_when_a_newer_is_complete() -> None:
    policy = SavepointPolicy(every_s=HOUR, keep=8)
    left = made(NOW - 7200, complete=False)
    assert surplus(left, policy, NOW) == ()
    assert surplus([*left, *made(NOW - 3600)], policy, NOW) == ids(NOW - 7200)
    under_way = made(NOW, complete=False)
    assert surplus([*under_way, *made(NOW - 3600)], policy, NOW) == ()


@given(
    st.lists(st.tuples(st.integers(0, 40), st.booleans()), max_size=30, unique_by=lambda each: each[0]),
    st.integers(1, 5),
    st.none() | st.integers(1, 20),
    st.integers(-30, 60),
)
def test_whatever_is_there_and_whatever_the_clock_says_the_newest_complete_one_stays(
    there: list[tuple[int, bool]],
    keep: int,
    max_age: int | None,
    clock: int,
) -> None:
    found = [Scheduled(id_of(NOW + 3600 * slot), "s", complete) for slot, complete in there]
    policy = SavepointPolicy(every_s=HOUR, keep=keep, max_age_s=None if max_age is None else max_age * HOUR)
    gone = set(surplus(found, policy, NOW + clock * HOUR))
    complete = sorted(each.id for each in found if each.complete)
    assert not complete or complete[-1] not in gone
    assert len(set(complete) - gone) >= min(1, len(complete))
