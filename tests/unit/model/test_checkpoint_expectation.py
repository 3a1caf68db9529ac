"""What a name knows of the checkpoints that it had before: kept while there is room, right when it goes back to one."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from supervisor.model.checkpoint_expectation import (
    QUERIES_MAX,
    CheckpointExpectation,
    SeenQuery,
    moved_to,
    place_of,
    places_of,
    queries_of,
    to_be_expected,
    with_batches,
)

P1, P2, P3 = "s3a://bucket/one", "s3a://bucket/two", "s3a://bucket/three"


def started(
    location: str, lease: CheckpointExpectation | None, own: CheckpointExpectation | None, *seen: SeenQuery
) -> CheckpointExpectation:
    """The lease of an attempt there, once it has committed ``seen``."""
    found = to_be_expected(location, "", lease, own)
    assert found is not None
    return with_batches(found, seen)


def test_a_job_that_goes_back_to_an_earlier_checkpoint_is_looked_after_there() -> None:
    """P1 → P2 → P1, each by cancel and submit: the lease of P2 is all that is left of both."""
    first = started(P1, None, None, SeenQuery("q", 40))
    second = started(P2, first, None, SeenQuery("r", 7))
    assert queries_of(to_be_expected(P1, "", second, None)) == (SeenQuery("q", 40),)
    assert queries_of(to_be_expected(P1, "", None, second)) == (SeenQuery("q", 40),), (
        "the lease was cleaned up"
    )
    back = started(P1, second, first, SeenQuery("q", 41))
    assert queries_of(to_be_expected(P2, "", back, second)) == (SeenQuery("r", 7),)
    assert queries_of(to_be_expected(P1, "", back, first)) == (SeenQuery("q", 41),)
    assert places_of(back) == {place_of(P1), place_of(P2)}


def test_of_two_that_know_a_place_the_newest_is_right() -> None:
    stale = CheckpointExpectation(place=place_of(P1), queries=("q 5",))
    newest = CheckpointExpectation(place=place_of(P2), queries=("r 1",), elsewhere=(f"{place_of(P1)} q 9",))
    assert queries_of(to_be_expected(P1, "", newest, stale)) == (SeenQuery("q", 9),)


def test_an_accepted_fresh_start_holds_at_an_earlier_checkpoint_too() -> None:
    newest = CheckpointExpectation(place=place_of(P2), queries=("r 1",), elsewhere=(f"{place_of(P1)} q 9",))
    found = to_be_expected(P1, "op", newest, None)
    assert found == CheckpointExpectation(
        place=place_of(P1), queries=(), accepted="op", elsewhere=(f"{place_of(P2)} r 1",)
    )


def test_what_a_restored_savepoint_holds_is_expected_from_the_first_start_on() -> None:
    before = CheckpointExpectation(place=place_of(P1), queries=("q 40",))
    found = to_be_expected(P1, "op", before, None, ("q 12",))
    assert found == CheckpointExpectation(place=place_of(P1), queries=("q 12",), accepted="op")
    later = with_batches(found, [SeenQuery("q", 13)])
    assert to_be_expected(P1, "op", later, before, ("q 12",)) == later, "taken once"
    assert queries_of(to_be_expected(P1, "later", later, before)) == (), (
        "then another fresh start was accepted"
    )


def test_a_copy_of_a_savepoint_is_expected_as_it_was_copied_and_all_else_is_kept() -> None:
    lease = CheckpointExpectation(
        place=place_of(P1),
        queries=("q 40",),
        accepted="op",
        elsewhere=(f"{place_of(P3)} x 2", f"{place_of(P2)} q 99"),
    )
    moved = moved_to(P2, [SeenQuery("q", 12)], lease, None)
    assert moved == CheckpointExpectation(
        place=place_of(P2),
        queries=("q 12",),
        accepted="",
        elsewhere=(f"{place_of(P3)} x 2", f"{place_of(P1)} q 40"),
    )
    assert to_be_expected(P2, "", None, moved) == moved
    assert queries_of(to_be_expected(P1, "", None, moved)) == (SeenQuery("q", 40),)


QUERY = st.tuples(st.sampled_from("abcdefghij"), st.integers(0, 99)).map(lambda each: SeenQuery(*each))


@given(st.lists(st.tuples(st.sampled_from((P1, P2, P3)), st.lists(QUERY, max_size=12)), max_size=12))
def test_it_never_outgrows_its_room_and_never_invents(story: list[tuple[str, list[SeenQuery]]]) -> None:
    told: dict[str, dict[str, int]] = {P1: {}, P2: {}, P3: {}}
    lease = None
    for location, seen in story:
        lease = started(location, lease, None, *seen)
        for query in seen:
            told[location][query.id] = max(query.batch_id, told[location].get(query.id, 0))
        assert len(lease.queries) + len(lease.elsewhere) <= QUERIES_MAX
        for place, known in told.items():
            for query in queries_of(to_be_expected(place, "", lease, None)):
                assert query.batch_id <= known[query.id]
        newest = list(dict.fromkeys(reversed([query.id for query in seen])))[:QUERIES_MAX]
        assert set(newest) <= {query.id for query in queries_of(lease)}
