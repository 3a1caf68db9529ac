"""Where the copy of a savepoint goes."""

from __future__ import annotations

from supervisor.savepoints.target import fresh_location


def test_a_command_that_is_given_again_goes_on_with_its_copy() -> None:
    one = fresh_location("s3://b/ck/", "before", "u1", 3)
    assert one == fresh_location("s3://b/ck", "before", "u1", 3)
    assert one.startswith("s3://b/ck.from-before-")
    assert fresh_location(one, "before", "u1", 3) == one, "beside the first one, and not inside of it"
    assert fresh_location("s3://b/ck", "before", "u1", 4) != one


def test_each_term_of_a_leader_copies_to_a_place_of_its_own() -> None:
    """One that was deposed may still be copying when its successor has begun, or when the job runs there."""
    places = {fresh_location("s3://b/ck", "update-2-0a1b2c3d", "u1", 2, epoch) for epoch in (0, 7, 8)}
    assert len(places) == 3
    assert {fresh_location(each, "update-2-0a1b2c3d", "u1", 2, 7) for each in places} < places
