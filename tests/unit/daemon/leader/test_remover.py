"""By which records a deletion may go on: a result that vouches for that very place, and claims that say what they said."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from supervisor.clients.store import removal as removal_module
from supervisor.daemon.leader.remover import ClaimUnderDeletion, _is_about, _vouches
from supervisor.errors import InvalidInput
from supervisor.model.checkpoint_expectation import CheckpointExpectation, place_of
from supervisor.model.location import digest
from supervisor.model.records import Acceptance, CheckpointClaim, CheckpointState, Outcome, PendingDeletion
from supervisor.model.seen import Found
from supervisor.registry.pending_deletions import pending_deletion
from supervisor.spec.s3a import S3Access
from tests.fakes.registry_bench import terms
from tests.integration.test_checkpoint_deletion import OBJECTS, DeletionWorld, Leader, end

PLACE = "s3://bucket/a"


@pytest.fixture
def world(tmp_path: Path) -> DeletionWorld:
    return DeletionWorld(f"file://{tmp_path}/checkpoints/a", S3Access())


def vouched(world: DeletionWorld) -> tuple[Any, ClaimUnderDeletion]:
    """A result that vouches for the deletion of its checkpoint, which is at ``PLACE``."""
    uid = world.cancel()
    result = replace(
        world.result(uid),
        terms=terms(PLACE, delete_checkpoint=True),
        outcome=Outcome.CANCELLED,
        wrote=place_of(PLACE),
        checkpoint_state=CheckpointState.DELETING,
    )
    own: Any = None
    claim = Found(pending_deletion(CheckpointClaim(location=PLACE, name="a", uid=uid), result, "now"), 1)
    assert claim.record.doom is not None
    return result, ClaimUnderDeletion("/c", claim, claim.record.doom, own, None)


def two_batches_deleted(world: DeletionWorld, monkeypatch: pytest.MonkeyPatch) -> tuple[Leader, str]:
    """A leader in the middle of a deletion, and the uid of the job whose checkpoint that was."""
    monkeypatch.setattr(removal_module, "BATCH_MAX", 2)
    uid = world.cancel()
    world.bury()
    leader = Leader(world)
    leader.clean_up()
    assert [leader.remover.step() for _ in range(2)] == [True, True]
    return leader, uid


@pytest.mark.parametrize(
    ("change", "is_about"),
    [
        ({"wrote": ""}, True),
        ({"wrote": place_of("s3://bucket/b")}, True),
        ({"checkpoint_state": CheckpointState.KEPT}, True),
        ({"checkpoint_state": CheckpointState.DELETED}, True),
        ({"checkpoint_state": None}, True),
        ({"outcome": Outcome.FAILED}, True),
        ({"terms": terms(PLACE)}, True),
        ({"terms": terms("s3://bucket/b", delete_checkpoint=True)}, False),
        ({"terms": terms(None, delete_checkpoint=True)}, False),
        ({"name": "b"}, False),
        ({"uid": "another"}, False),
    ],
)
def test_what_does_not_vouch_for_a_deletion(
    world: DeletionWorld, change: dict[str, Any], is_about: bool
) -> None:
    result, now = vouched(world)
    assert _vouches(result, now) and _is_about(result, now)
    changed = replace(result, **change)
    assert (_vouches(changed, now), _is_about(changed, now)) == (False, is_about)


def test_a_claim_of_another_uid_than_its_deletion_counts_as_that_of_a_living_job(
    world: DeletionWorld,
) -> None:
    """Somebody has altered it: the deletion leaves it alone, and deletes nothing."""
    uid = world.cancel()
    world.bury()
    leader = Leader(world)
    leader.clean_up()
    pending = world.claim()
    assert pending is not None and pending.deletion_is_pending
    path = world.bench.layout.checkpoint(digest(world.place))
    world.bench.put(path, replace(pending, name="b", uid=f"1-{uid[-8:]}"))
    leader.remove()
    assert len(world.keys()) == OBJECTS and world.bench.has(path)


def test_a_claim_at_the_path_of_another_location_deletes_nothing(world: DeletionWorld) -> None:
    uid = world.cancel()
    world.bury()
    leader = Leader(world)
    leader.clean_up()
    right, wrong = (world.bench.layout.checkpoint(digest(each)) for each in (world.place, "s3://bucket/y"))
    pending = world.claim()
    world.bench.zoo.remove(right)
    world.bench.put(wrong, pending)
    leader.remove()
    assert len(world.keys()) == OBJECTS and not world.bench.has(wrong)
    assert "not the one of that location" in world.result(uid).history[-1].detail


def test_an_ownership_that_cannot_be_read_any_more_stops_it(
    world: DeletionWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    leader, _ = two_batches_deleted(world, monkeypatch)
    left, own = world.keys(), world.bench.layout.own("a")
    assert 0 < len(left) < OBJECTS
    world.bench.zoo.put(own, b"{")
    leader.remove()
    assert world.keys() == left and world.claim() is not None


def test_what_was_recognised_goes_on_when_the_name_has_left_its_batches_elsewhere(
    world: DeletionWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The name was submitted anew with another checkpoint, and its ownership remembers that one."""
    leader, uid = two_batches_deleted(world, monkeypatch)
    elsewhere = CheckpointExpectation(place=place_of("s3://bucket/y"), queries=("other 1",))
    world.bench.put(world.bench.layout.own("a"), replace(world.bench.own("a"), remembered=elsewhere))
    leader.remove()
    assert (world.keys(), world.result(uid).checkpoint_state) == ([], CheckpointState.DELETED)


def test_an_endpoint_that_gets_no_credentials_keeps_it(world: DeletionWorld) -> None:
    uid = world.cancel()
    world.bury()

    def refuse(_location: str, _deletion: PendingDeletion) -> S3Access:
        raise InvalidInput("https://theirs is in no policy.endpoints")

    leader = Leader(world)
    leader.remover._access_to = refuse
    leader.clean_up()
    leader.remove()
    assert len(world.keys()) == OBJECTS and world.claim() is None
    assert "policy.endpoints" in world.result(uid).history[-1].detail


def test_a_claim_inside_keeps_it_before_it_begins(world: DeletionWorld) -> None:
    """One that a command of an older version has made, or a person by hand."""
    uid = world.cancel()
    world.bury()
    leader = Leader(world)
    leader.clean_up()
    inside = f"{world.place}/inside"
    path = world.bench.layout.checkpoint(digest(inside))
    world.bench.put(path, CheckpointClaim(location=inside, name="b", uid="u2"))
    leader.remove()
    assert len(world.keys()) == OBJECTS and world.claim() is None
    assert "it overlaps" in world.result(uid).history[-1].detail and world.bench.has(path)
    end(world)
    assert len(world.keys()) == OBJECTS


def test_a_claim_that_cannot_be_read_keeps_it_waiting_and_that_is_said_once(world: DeletionWorld) -> None:
    uid = world.cancel()
    world.bury()
    leader = Leader(world)
    leader.clean_up()
    path = f"{world.bench.layout.checkpoints}/doubtful"
    world.bench.zoo.put(path, b"{")
    leader.remove()
    said = world.result(uid).history
    assert len(world.keys()) == OBJECTS and path in said[-1].detail
    for _ in range(3):
        world.now_s += 700.0
        leader.remove()
    assert world.result(uid).history == said and world.claim() is not None
    world.bench.zoo.remove(path)
    world.now_s += 700.0
    leader.remove()
    assert (world.keys(), world.claim()) == ([], None)


ACCEPTED = Acceptance(id="x", epoch=9, by="me", at="now", wait_s=0.0, waited=True)


def test_what_is_to_be_deleted_since_an_acceptance_goes(world: DeletionWorld) -> None:
    world.bench.put(world.bench.layout.accepted, ACCEPTED)
    uid = world.cancel()
    world.bury()
    end(world)
    assert (world.keys(), world.result(uid).checkpoint_state) == ([], CheckpointState.DELETED)


def test_an_acceptance_in_the_middle_keeps_what_is_left(
    world: DeletionWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    leader, uid = two_batches_deleted(world, monkeypatch)
    left = world.keys()
    world.bench.put(world.bench.layout.accepted, ACCEPTED)
    leader.remove()
    assert (world.keys() == left != [], world.result(uid).checkpoint_state) == (True, CheckpointState.KEPT)
