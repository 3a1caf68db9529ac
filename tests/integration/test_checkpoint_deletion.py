"""``checkpoint_on_cancel: delete``, with the real leader's parts: a registry in memory, checkpoints on disk and on S3 (moto).

What must hold whatever dies when: nothing that anybody claims is deleted, what is to be deleted goes in the end, and nobody can
claim it before.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from supervisor.clients.store import removal as removal_module
from supervisor.clients.store import s3_objects
from supervisor.clients.store.area import open_area
from supervisor.clients.store.removal import KEPT_LATE_S, Removal, Removed, open_removal
from supervisor.clock import boottime_s
from supervisor.coord.term import Term
from supervisor.daemon.leader.controller import Controller
from supervisor.daemon.leader.record import Recorder
from supervisor.daemon.leader.remover import READ_EVERY_S, Remover
from supervisor.daemon.loops.watchdog import Watchdog
from supervisor.errors import Conflict, NotLeader, Unreachable
from supervisor.metrics import Metrics
from supervisor.model.checkpoint_expectation import CheckpointExpectation, place_of
from supervisor.model.location import digest, normalise
from supervisor.model.records import (
    Acceptance,
    CheckpointClaim,
    CheckpointState,
    EpochRecord,
    JobRef,
    Outcome,
    OwnState,
    PendingDeletion,
    Result,
)
from supervisor.model.seen import Found
from supervisor.model.state import state_of_ended
from supervisor.operations.jobs import Submission
from supervisor.plan.make import Policy
from supervisor.spec.s3a import S3Access
from supervisor.spec.site_policy import SitePolicy
from tests.fakes.registry_bench import Bench, submission, terms
from tests.testbed.moto import MotoServer

OBJECTS = 7
BATCH = 3


class Killed(BaseException):
    """The process is gone."""


class Leader:
    """One term: the real controller, whose passes are asked for, and the real remover."""

    def __init__(
        self, world: DeletionWorld, open_at: Callable[[str, S3Access], Removal] = open_removal
    ) -> None:
        zoo = world.bench.zoo.client()
        node = zoo.read(world.bench.layout.epoch)
        version = 0 if node is None else node.stat.version + 1
        world.bench.put(world.bench.layout.epoch, EpochRecord(epoch=version + 1, supervisor="l", op="op"))
        zoo.start()
        self.term: Term[Any] = Term(version + 1, version, zoo, 1e9, depose=lambda _why: None)
        self.term.set_recorded()
        loop = Watchdog(end=lambda _code: None).register("test", 60.0)
        self.controller = Controller(
            self.term, world.bench.layout, Policy(), Recorder(Metrics(boottime_s), boottime_s()), loop
        )
        self.remover = Remover(
            self.term,
            world.bench.layout,
            self.controller.executor,
            world.store,
            lambda _location, _deletion: world.access,
            site=world.site,
            wanted=self.controller.deletions_wanted,
            clock=world.clock,
            open_at=open_at,
        )

    def clean_up(self) -> None:
        for _ in range(4):
            self.controller.reconcile_once()

    def remove(self) -> None:
        for _ in range(40):
            if not self.remover.step():
                return
        raise AssertionError("no end")


class DeletionWorld:
    """A job ``a`` whose checkpoint at ``place`` has seven objects and is to be deleted."""

    def __init__(self, place: str, access: S3Access) -> None:
        self.bench = Bench()
        self.place, self.access = place, access
        self.store = "s3://store/prefix"
        self.site = SitePolicy(deletable=("*",))
        self.now_s = 1_000.0
        self.area = open_area(place, access, deadline_s=60.0)
        self.fill()

    def clock(self) -> float:
        return self.now_s

    def fill(self) -> None:
        for number in range(OBJECTS):
            self.area.write(
                f"offsets/{number}" if number else "metadata", b"v1" if number else b'{"id": "q"}'
            )

    def keys(self) -> list[str]:
        return sorted(item.key for item in self.area.items())

    def submission(self, name: str = "a", place: str | None = None) -> Submission:
        return replace(submission(name), scheduling=terms(place or self.place, delete_checkpoint=True))

    def run(self) -> str:
        """Submitted, and its driver runs."""
        uid = self.bench.commands().submit(self.submission()).uid
        self.bench.run("a", remembered=CheckpointExpectation(place=place_of(self.place), queries=("q 7",)))
        return uid

    def cancel(self) -> str:
        uid = self.run()
        self.bench.commands().cancel("a")
        return uid

    def bury(self) -> None:
        """The tombstone."""
        self.bench.set_own("a", OwnState.EXITED)

    def claim(self) -> CheckpointClaim | None:
        found = self.bench.record(CheckpointClaim, self.bench.layout.checkpoint(digest(self.place)))
        return found.record if isinstance(found, Found) else None

    def result(self, uid: str) -> Result:
        result = self.bench.result(uid)
        assert result is not None
        return result


def end(world: DeletionWorld) -> None:
    """A leader cleans up, and deletes what may be deleted."""
    leader = Leader(world)
    leader.clean_up()
    leader.remove()


@pytest.fixture(params=["file", "s3"])
def world(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> DeletionWorld:
    monkeypatch.setattr(removal_module, "BATCH_MAX", BATCH)
    if request.param == "file":
        return DeletionWorld(f"file://{tmp_path}/checkpoints/a", S3Access())
    moto: MotoServer = request.getfixturevalue("moto_server")
    return DeletionWorld(
        f"s3a://{request.getfixturevalue('s3_bucket')}/checkpoints/a",
        S3Access(moto.endpoint_url, "us-east-1"),
    )


def test_it_goes_after_the_tombstone_and_not_before(world: DeletionWorld) -> None:
    uid = world.cancel()
    leader = Leader(world)
    leader.clean_up()
    leader.remove()
    assert len(world.keys()) == OBJECTS
    assert state_of_ended(world.result(uid)).reason.endswith(
        "its checkpoint will be deleted once no driver of it can be alive"
    )
    world.bury()
    leader.clean_up()
    assert world.result(uid).checkpoint_state is CheckpointState.DELETING
    assert len(world.keys()) == OBJECTS
    leader.remove()
    assert world.keys() == []
    assert world.claim() is None
    ended = world.result(uid)
    assert ended.checkpoint_state is CheckpointState.DELETED
    assert [(entry.event, entry.detail) for entry in ended.history][-2:] == [
        ("deleting checkpoint", ""),
        ("checkpoint deleted", f"{OBJECTS} objects"),
    ]


@pytest.mark.parametrize("ending", ["suspended", "failed"])
def test_no_other_end_deletes_it(world: DeletionWorld, ending: str) -> None:
    world.run()
    if ending == "failed":
        world.bench.fail("a")
    else:
        world.bench.commands().suspend("a")
        world.bury()
    end(world)
    assert len(world.keys()) == OBJECTS


def test_a_job_that_has_finished_by_itself_is_over_too() -> None:
    ended = Result(
        name="a",
        uid="u",
        outcome=Outcome.FINISHED,
        state="dirty",
        revision=1,
        spec=None,
        terms=terms("s3://b/c", delete_checkpoint=True),
        attempt=1,
        claims=1,
        reason="",
        at="",
        submitted_at="",
        op="",
    )  # type: ignore[arg-type]
    assert ended.deletes_checkpoint
    assert not replace(ended, outcome=Outcome.FAILED).deletes_checkpoint
    assert not replace(ended, terms=terms("s3://b/c")).deletes_checkpoint


def test_nobody_can_claim_it_from_the_cancel_to_the_last_object(world: DeletionWorld) -> None:
    """The name itself as well as others; at the place, inside of it and around it."""
    world.cancel()

    def refused() -> None:
        outer = world.place.rpartition("/")[0]
        for name, place in (("a", world.place), ("b", world.place), ("b", f"{world.place}/in"), ("b", outer)):
            with pytest.raises(Conflict, match="being deleted|belongs to job a"):
                world.bench.commands().submit(world.submission(name, place))
            with pytest.raises(Conflict, match="being deleted|belongs to job a"):
                world.bench.commands().check_submit(name, "ab" * 32, place)

    refused()
    world.bury()
    leader = Leader(world)
    leader.clean_up()
    while world.keys():
        refused()
        leader.remover.step()
    leader.remove()
    world.bench.commands().submit(world.submission("b"))
    assert world.claim() == CheckpointClaim(location=world.claim().location, name="b", uid=world.claim().uid)  # type: ignore[union-attr]


def test_a_command_and_a_sweeper_of_an_older_version_leave_the_claim_alone(world: DeletionWorld) -> None:
    """They know nothing of ``doom``: no job can have the name in the claim, so they take it for another job's."""
    world.cancel()
    world.bury()
    Leader(world).clean_up()
    claim = world.claim()
    assert claim is not None
    assert claim.doom is not None and claim.name not in ("", "a") and " " in claim.name


class Wrapped:
    """A removal as it is, but for what a subclass overrides."""

    def __init__(self, inner: Removal) -> None:
        self._inner = inner

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)


class Dying(Wrapped):
    """Its process dies at the ``at``-th batch, before or after it."""

    def __init__(self, inner: Removal, at: int, after: bool) -> None:
        super().__init__(inner)
        self._left, self._after = at, after

    def remove_batch(self, still: Callable[[], None]) -> Removed:
        self._left -= 1
        if self._left or self._after:
            done = self._inner.remove_batch(still)
        if not self._left:
            raise Killed
        return done


@pytest.mark.parametrize("after", [False, True])
@pytest.mark.parametrize("at", [1, 2, 3])
def test_a_leader_that_dies_at_a_batch_has_a_successor_that_goes_on(
    world: DeletionWorld, at: int, after: bool
) -> None:
    uid = world.cancel()
    world.bury()
    first = Leader(world, lambda location, access: Dying(open_removal(location, access), at, after))
    first.clean_up()
    with pytest.raises(Killed):
        first.remove()
    left = len(world.keys())
    assert left == max(0, OBJECTS - BATCH * (at if after else at - 1))
    successor = Leader(world)
    successor.remove()
    assert world.keys() == []
    # all is gone, but that is not what the successor has seen
    if world.place.startswith("file") and after and at == 3:
        assert world.claim() is not None
        world.now_s += KEPT_LATE_S
        successor.remove()
        assert world.claim() is None
        assert world.result(uid).checkpoint_state is CheckpointState.KEPT
        return
    # a request of the dead one may be on its way for as long as S3 takes its signature
    if world.place.startswith("s3"):
        assert world.claim() is not None
        for _ in range(int(removal_module.LATE_S // READ_EVERY_S) + 1):
            world.now_s += READ_EVERY_S
            successor.remove()
    assert world.claim() is None
    assert world.result(uid).checkpoint_state is CheckpointState.DELETED


def test_a_deposed_leader_deletes_nothing_more(world: DeletionWorld) -> None:
    world.cancel()
    world.bury()
    first = Leader(world)
    first.clean_up()
    first.remover.step()
    first.remover.step()
    left = world.keys()
    Leader(world)
    with pytest.raises(NotLeader):
        first.remove()
    assert world.keys() == left != []


def test_a_pause_stops_it_at_the_next_batch(world: DeletionWorld) -> None:
    world.cancel()
    world.bury()
    leader = Leader(world)
    leader.clean_up()
    leader.remover.step()
    world.bench.zoo.put(world.bench.layout.pause, b"{}")
    leader.remove()
    assert len(world.keys()) == OBJECTS
    world.bench.zoo.remove(world.bench.layout.pause)
    world.now_s += 10.0
    leader.remove()
    assert world.keys() == []


def test_a_store_that_is_down_is_tried_again_later(world: DeletionWorld) -> None:
    class Down(Wrapped):
        def remove_batch(self, still: Callable[[], None]) -> Removed:
            if down.is_set():
                raise Unreachable("S3 does not answer")
            return self._inner.remove_batch(still)

    down = threading.Event()
    down.set()
    world.cancel()
    world.bury()
    leader = Leader(world, lambda location, access: Down(open_removal(location, access)))
    leader.clean_up()
    leader.remove()
    assert len(world.keys()) == OBJECTS
    assert world.claim() is not None
    down.clear()
    world.now_s += 10.0
    leader.remove()
    assert (world.keys(), world.claim()) == ([], None)


def test_a_registry_that_was_restored_meanwhile_deletes_nothing(world: DeletionWorld) -> None:
    """Somebody of the lost state may have claimed the place since."""
    uid = world.cancel()
    world.bury()
    leader = Leader(world)
    leader.clean_up()
    world.bench.put(
        world.bench.layout.accepted, Acceptance(id="x", epoch=9, by="me", at="now", wait_s=0.0, waited=True)
    )
    leader.remove()
    assert len(world.keys()) == OBJECTS
    assert world.claim() is None
    assert world.result(uid).checkpoint_state is CheckpointState.KEPT
    assert "restored" in world.result(uid).history[-1].detail


def test_no_batch_goes_out_once_the_registry_is_not_trusted(world: DeletionWorld) -> None:
    """The contender has noticed a restore since this step began: what is to be deleted here may be somebody's checkpoint there (I10)."""

    class Noticed(Wrapped):
        def remove_batch(self, still: Callable[[], None]) -> Removed:
            leader.term.set_distrust("restored")
            return self._inner.remove_batch(still)

    world.cancel()
    world.bury()
    leader = Leader(world, lambda location, access: Noticed(open_removal(location, access)))
    leader.clean_up()
    leader.remove()
    assert len(world.keys()) == OBJECTS
    assert world.claim() is not None


def test_a_claim_from_before_a_restore_is_no_pending_deletion(world: DeletionWorld) -> None:
    uid = world.cancel()
    world.bury()
    world.bench.put(
        world.bench.layout.accepted, Acceptance(id="x", epoch=9, by="me", at="now", wait_s=0.0, waited=True)
    )
    end(world)
    assert len(world.keys()) == OBJECTS
    assert world.result(uid).checkpoint_state is CheckpointState.KEPT


def test_what_overlaps_the_store_is_kept(world: DeletionWorld) -> None:
    uid = world.cancel()
    world.bury()
    world.store = world.place.replace("s3a:", "s3:").rpartition("/")[0]
    world.store = f"{world.place.replace('s3a:', 's3:')}/store"
    end(world)
    assert len(world.keys()) == OBJECTS
    assert world.result(uid).checkpoint_state is CheckpointState.KEPT


def test_savepoints_and_neighbours_are_never_touched(world: DeletionWorld) -> None:
    beside = open_area(f"{world.place}.savepoints", world.access)
    neighbour = open_area(f"{world.place}b", world.access)
    for area in (beside, neighbour):
        area.write("a/1/manifest.json", b"{}")
    world.area.write("inner.savepoints/a/manifest.json", b"{}")
    world.cancel()
    world.bury()
    end(world)
    assert world.keys() == ["inner.savepoints/a/manifest.json"]
    assert [item.key for area in (beside, neighbour) for item in area.items()] == ["a/1/manifest.json"] * 2
    assert world.claim() is None


def test_a_successor_keeps_the_place_where_savepoints_keep_the_directory(on_disk: DeletionWorld) -> None:
    """The dead one may only have been stopped: it has the directory open, and would delete what comes there."""
    on_disk.area.write("inner.savepoints/a/manifest.json", b"{}")
    uid = on_disk.cancel()
    on_disk.bury()
    first = Leader(on_disk, lambda location, access: Dying(open_removal(location, access), 1, False))
    first.clean_up()
    with pytest.raises(Killed):
        first.remove()
    successor = Leader(on_disk)
    successor.remove()
    assert on_disk.keys() == ["inner.savepoints/a/manifest.json"]
    assert on_disk.claim() is not None
    on_disk.now_s += KEPT_LATE_S
    successor.remove()
    assert (on_disk.claim(), on_disk.result(uid).checkpoint_state) == (None, CheckpointState.DELETED)


def test_the_next_submission_there_does_not_miss_what_was_deleted(world: DeletionWorld) -> None:
    world.run()
    own = world.bench.own("a")
    remembered = CheckpointExpectation(place=place_of(world.place), queries=("q 7",))
    world.bench.put(world.bench.layout.own("a"), replace(own, remembered=remembered))
    world.bench.commands().cancel("a")
    world.bench.put(world.bench.layout.own("a"), replace(world.bench.own("a"), state=OwnState.EXITED))
    end(world)
    left = world.bench.own("a").remembered
    assert left is not None and left.queries == ()
    world.bench.commands().submit(world.submission())
    assert isinstance(world.bench.record(JobRef, world.bench.layout.job("a")), Found)


@pytest.fixture
def on_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> DeletionWorld:
    return DeletionWorld(f"file://{tmp_path}/checkpoints/a", S3Access())


def test_a_process_that_was_stopped_in_the_middle_does_not_hit_who_came_after(on_disk: DeletionWorld) -> None:
    """Between its last question and its first deletion another leader has done all the work, and the place is a new job's."""
    on_disk.cancel()
    on_disk.bury()
    zombie = Leader(on_disk)
    zombie.clean_up()
    zombie.remover.step()  # it has begun
    real = zombie.remover._still

    def stopped(path: str, now: Any) -> None:
        real(path, now)
        successor = Leader(on_disk)
        successor.remove()
        assert on_disk.claim() is None
        on_disk.bench.commands().submit(on_disk.submission("b"))
        on_disk.area = open_area(on_disk.place, on_disk.access)  # of a driver that begins anew
        on_disk.fill()

    zombie.remover._still = stopped  # type: ignore[method-assign]
    with pytest.raises(NotLeader):
        zombie.remove()
    assert len(on_disk.keys()) == OBJECTS


def test_a_request_that_was_held_up_is_not_sent(
    moto_server: MotoServer,
    s3_bucket: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = DeletionWorld(f"s3a://{s3_bucket}/a", S3Access(moto_server.endpoint_url, "us-east-1"))
    found = open_removal(world.place, world.access)

    def stopped() -> None:
        late_at_s = boottime_s() + removal_module.SEND_WITHIN_S + 1
        monkeypatch.setattr(s3_objects, "boottime_s", lambda: late_at_s)

    with pytest.raises(Conflict, match="stopped before it could send"):
        found.remove_batch(stopped)
    assert len(world.keys()) == OBJECTS
    assert found.unanswered == 0


def test_a_link_is_removed_and_not_followed(on_disk: DeletionWorld, tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "data").write_text("x")
    Path(on_disk.place.removeprefix("file://"), "link").symlink_to(tmp_path / "elsewhere")
    on_disk.cancel()
    on_disk.bury()
    end(on_disk)
    assert on_disk.keys() == []
    assert (tmp_path / "elsewhere" / "data").exists()


def test_a_host_that_sees_no_such_directory_says_so(on_disk: DeletionWorld) -> None:
    uid = on_disk.cancel()
    on_disk.bury()
    path = Path(on_disk.place.removeprefix("file://"))
    path.rename(path.with_name("of-another-host"))
    end(on_disk)
    assert on_disk.result(uid).checkpoint_state is CheckpointState.KEPT
    assert "no such directory" in on_disk.result(uid).history[-1].detail


# -- what the operator allows, and what proves that the job was there ----------------------------------------------


def kept_because(world: DeletionWorld, uid: str) -> str:
    assert len(world.keys()) == OBJECTS
    assert world.claim() is None
    assert world.result(uid).checkpoint_state is CheckpointState.KEPT
    return world.result(uid).history[-1].detail


def test_nothing_is_deleted_where_the_leader_is_not_allowed_to(world: DeletionWorld) -> None:
    """The default; and what an upgrade from a version without the setting comes to."""
    world.site = SitePolicy()
    uid = world.cancel()
    world.bury()
    end(world)
    assert "policy.deletable" in kept_because(world, uid)


def test_a_location_beside_the_rule_is_kept(world: DeletionWorld) -> None:
    world.site = SitePolicy(deletable=(f"{world.place.rpartition('/')[0]}-evil/*", f"{world.place}/*"))
    uid = world.cancel()
    world.bury()
    end(world)
    assert "policy.deletable" in kept_because(world, uid)


def test_a_link_above_it_does_not_lead_out_of_what_is_allowed(on_disk: DeletionWorld, tmp_path: Path) -> None:
    uid = on_disk.cancel()
    on_disk.bury()
    (tmp_path / "checkpoints").rename(tmp_path / "of-others")
    (tmp_path / "checkpoints").symlink_to(tmp_path / "of-others")
    on_disk.site = SitePolicy(deletable=(f"file://{tmp_path}/checkpoints/*",))
    end(on_disk)
    assert kept_because(on_disk, uid).startswith("its directory is really file://")  # cut at 120 bytes


def test_a_job_that_never_ran_deletes_nothing(world: DeletionWorld) -> None:
    uid = world.bench.commands().submit(world.submission()).uid
    world.bench.commands().suspend("a")
    world.bench.commands().cancel("a")
    end(world)
    assert "no attempt of this submission" in kept_because(world, uid)


def test_what_an_earlier_submission_of_the_name_wrote_proves_nothing_for_one_that_never_ran(
    world: DeletionWorld,
) -> None:
    kept = world.submission()
    world.bench.commands().submit(replace(kept, scheduling=replace(kept.scheduling, delete_checkpoint=False)))
    world.bench.run("a", remembered=CheckpointExpectation(place=place_of(world.place), queries=("q 7",)))
    world.bench.commands().cancel("a")
    world.bury()
    leader = Leader(world)
    leader.clean_up()
    uid = world.bench.commands().submit(world.submission()).uid
    world.bench.commands().cancel("a")
    leader.clean_up()
    leader.remove()
    assert "no attempt of this submission" in kept_because(world, uid)


def test_a_forged_pending_deletion_deletes_nothing(world: DeletionWorld) -> None:
    """Also beside the genuine result of a job that was deleted elsewhere."""
    uid = world.cancel()
    world.bury()
    genuine = world.result(uid)
    other = normalise(world.place.replace("checkpoints/a", "checkpoints/forged"))
    theirs = open_area(other, world.access)
    theirs.write("offsets/1", b"v1")
    leader = Leader(world)
    leader.clean_up()
    path = world.bench.layout.checkpoint(digest(other))
    world.bench.put(
        path,
        CheckpointClaim(
            location=other,
            name="a (forged)",
            uid=uid,
            doom=PendingDeletion(name="a", uid=uid, at="now", spec=genuine.spec),
        ),
    )
    leader.remove()
    assert [item.key for item in theirs.items()] == ["offsets/1"]
    assert not world.bench.has(path)
    assert world.result(uid).checkpoint_state is CheckpointState.DELETED, "what was genuine goes on"


def test_a_leader_that_is_not_allowed_to_frees_no_place_while_a_request_of_one_that_was_may_be_under_way(
    world: DeletionWorld,
) -> None:
    uid = world.cancel()
    world.bury()
    first = Leader(world)
    first.clean_up()
    first.remover.step()
    first.remover.step()
    world.site = SitePolicy()
    second = Leader(world)
    second.remove()
    assert world.claim() is not None
    world.now_s += KEPT_LATE_S
    second.remove()
    assert (world.claim(), world.result(uid).checkpoint_state) == (None, CheckpointState.KEPT)


def test_a_leader_on_a_host_without_the_directory_never_says_deleted(
    on_disk: DeletionWorld,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Its predecessor died in the middle: what is left is still missed by the next start there."""
    monkeypatch.setattr(removal_module, "BATCH_MAX", BATCH)
    uid = on_disk.cancel()
    on_disk.bury()
    first = Leader(on_disk)
    first.clean_up()
    first.remover.step()
    first.remover.step()
    left = on_disk.keys()
    second = Leader(
        on_disk,
        lambda location, access: open_removal(location.replace("checkpoints", "of-another-host"), access),
    )
    second.remove()
    assert on_disk.claim() is not None
    on_disk.now_s += KEPT_LATE_S
    second.remove()
    assert on_disk.keys() == left != []
    assert on_disk.result(uid).checkpoint_state is CheckpointState.KEPT
    assert "unknown state" in on_disk.result(uid).history[-1].detail
    remembered = on_disk.bench.own("a").remembered
    assert remembered is not None and remembered.queries == ("q 7",)


# -- whose directory it is ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "there", [{"metadata": b'{"id": "of-another-job"}'}, {"data": b"x"}, {"metadata": b"{"}]
)
def test_another_directory_at_the_same_path_is_kept(on_disk: DeletionWorld, there: dict[str, bytes]) -> None:
    """The job ran on another host; here that path leads to something else, which no claim ever spoke of."""
    uid = on_disk.cancel()
    on_disk.bury()
    leader = Leader(on_disk)
    leader.clean_up()
    for key in list(on_disk.keys()):
        (Path(on_disk.place.removeprefix("file://")) / key).unlink()
    for key, data in there.items():
        on_disk.area.write(key, data)
    leader.remove()
    assert on_disk.keys() == sorted(there)
    result = on_disk.bench.result(uid)
    assert result is not None and result.checkpoint_state is CheckpointState.KEPT
    assert "none of the queries" in result.history[-1].detail
    remembered = on_disk.bench.own("a").remembered
    assert remembered is not None and remembered.queries == ("q 7",), "where it ran it is still there"


def test_what_tells_whose_directory_it_is_goes_last(on_disk: DeletionWorld) -> None:
    """Of several queries below it, too: a leader that goes on with it must know what it is."""
    for query in ("one", "two"):
        on_disk.area.write(f"{query}/metadata", b'{"id": "q"}')
        on_disk.area.write(f"{query}/offsets/0", b"v1")
    path = on_disk.place.removeprefix("file://")
    for batch in range(1, 40):
        removal = open_removal(on_disk.place, on_disk.access)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(removal_module, "BATCH_MAX", 1)
            left = removal.remove_batch(lambda: None).left
        assert removal.queries == {"q"} or not left, batch
        if not left:
            break
    assert not Path(path).exists() or not any(Path(path).iterdir())
