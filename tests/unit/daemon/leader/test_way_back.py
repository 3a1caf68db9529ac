"""The loop that has the savepoints of updates made and restored: what it begins, keeps, tries again and gives up."""

from __future__ import annotations

import threading
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from supervisor.clients.task_child import TaskEnded
from supervisor.daemon.leader.update_savepoint_task import surplus_of
from supervisor.daemon.leader.way_back import RETRY_PAUSE, WORKERS, WayBack
from supervisor.errors import Conflict, InvalidInput, NotFound, NotYet, SupervisorError, Unreachable
from supervisor.model.actions import GiveUpdateUp, Note, Plan
from supervisor.model.records import JobRef, Ownership
from supervisor.model.seen import Found
from supervisor.model.update_savepoint import savepoint_id
from supervisor.model.view import Row, UpdateRestored, View
from supervisor.plan.make import Policy, make_plan
from supervisor.savepoints.shelf import ShelfEntry
from tests.unit.plan.rows import NOW_S, own, row, view
from tests.unit.plan.test_prepare import HOSTS
from tests.unit.plan.test_update_savepoint import ID, RESTORED, S, failed, running, wanted

SAVES, RESTORES = Note("j", "w", saves=True), Note("j", "w", restores=True)


class Work:
    """``trouble`` is raised by whatever comes first, and each after the other."""

    def __init__(self) -> None:
        self.trouble: list[Exception] = []
        self.did: list[str] = []

    def _begin(self, what: str, go_on: Any = None) -> None:
        self.did.append(what)
        if self.trouble:
            raise self.trouble.pop(0)

    def save(self, ref: Found[JobRef], owned: Found[Ownership], go_on: Any) -> str:
        self._begin("save")
        return savepoint_id(ref.record.uid, ref.record.revision, owned.version, ref.version)

    def restore(self, job: JobRef, go_on: Any) -> UpdateRestored:
        self._begin("restore")
        if not go_on():
            raise TaskEnded("ended")
        return RESTORED

    def read(self, job: JobRef, copied: UpdateRestored) -> UpdateRestored:
        self._begin("read")
        claimed = copied.claimed
        assert claimed is not None
        return replace(copied, claimed=replace(claimed, generation=claimed.generation + 1))

    def remove_surplus(self, job: JobRef, but: str, go_on: Any) -> None:
        self._begin(f"remove but {but}")


class Rig:
    def __init__(self) -> None:
        self.now_s = NOW_S
        self.term: Any = SimpleNamespace(lasts=True, over=threading.Event())
        self.work = Work()
        self.woken = 0
        self.way = WayBack(self.term, self.work, self.wake, clock=lambda: self.now_s)

    def wake(self) -> None:
        self.woken += 1

    def answer(self, one: Row, *notes: Note, **parts: Any) -> Row:
        seen: View = view(one, **parts)
        return self.way.answered(seen, Plan((), notes)).rows["j"]

    def serve(self) -> None:
        for name, each in self.way.due():
            self.way.see_to(name, each)


def planned(one: Row, now_s: float) -> Plan:
    return make_plan(view(one, members=HOSTS), Policy(), now_s)


@pytest.fixture
def leader_rig() -> Rig:
    return Rig()


def test_nothing_is_begun_that_the_plan_does_not_wait_for(leader_rig: Rig) -> None:
    assert leader_rig.answer(running(None)).saved is None
    leader_rig.serve()
    assert leader_rig.work.did == []


def test_a_savepoint_is_made_once_and_its_id_is_told_until_the_records_change(leader_rig: Rig) -> None:
    first = leader_rig.answer(running(None), SAVES).saved
    assert first is not None and (first.savepoint, first.since_at_s) == ("", NOW_S)
    leader_rig.serve()
    leader_rig.serve()
    assert leader_rig.work.did == ["save", f"remove but {ID}"]
    assert leader_rig.woken == 2
    for notes in ((SAVES,), ()):
        made = leader_rig.answer(running(None), *notes).saved
        assert made is not None and made.savepoint == ID
    assert leader_rig.answer(running(None, wanted(ID, version=9))).saved is None


@pytest.mark.parametrize("parts", [{"paused": True}, {"distrust": "older"}, {"recorded": False}])
def test_a_leader_that_may_do_nothing_begins_nothing(leader_rig: Rig, parts: dict[str, Any]) -> None:
    assert leader_rig.answer(running(None), SAVES, **parts).saved is None
    leader_rig.serve()
    leader_rig.answer(running(None), SAVES)
    leader_rig.answer(running(None), SAVES, **parts)
    leader_rig.serve()
    assert leader_rig.work.did == []


def test_its_time_counts_from_when_its_turn_comes(leader_rig: Rig) -> None:
    """A folder of jobs is applied: what waits for the workers is not given up for that."""
    leader_rig.answer(running(None), SAVES)
    leader_rig.now_s += 10_000
    waits = leader_rig.answer(running(None), SAVES)
    assert waits.saved is not None and waits.saved.since_at_s == leader_rig.now_s
    assert planned(waits, leader_rig.now_s).notes[0].saves, "it is not given up"
    leader_rig.work.trouble = [Unreachable("no store")]
    leader_rig.serve()
    leader_rig.now_s += 59
    begun = leader_rig.answer(running(None), SAVES)
    assert begun.saved is not None and begun.saved.since_at_s == leader_rig.now_s - 59
    leader_rig.now_s += 1
    (action,) = planned(leader_rig.answer(running(None), SAVES), leader_rig.now_s).actions
    assert isinstance(action, GiveUpdateUp)


def test_no_time_counts_while_the_cluster_is_paused(leader_rig: Rig) -> None:
    leader_rig.answer(running(None), SAVES)
    leader_rig.work.trouble = [Unreachable("no store")]
    leader_rig.serve()
    leader_rig.now_s += 10_000
    leader_rig.answer(running(None), SAVES, paused=True)
    again = leader_rig.answer(running(None), SAVES).saved
    assert again is not None and again.since_at_s == leader_rig.now_s


def test_so_does_that_of_a_copy(leader_rig: Rig) -> None:
    leader_rig.answer(failed(), RESTORES)
    leader_rig.now_s += 10_000
    waits = leader_rig.answer(failed(), RESTORES)
    assert waits.restoring_since_at_s == leader_rig.now_s
    leader_rig.work.trouble = [Unreachable("no store")]
    leader_rig.serve()
    begun_at_s = leader_rig.now_s
    leader_rig.now_s += 899
    assert leader_rig.answer(failed(), RESTORES).restoring_since_at_s == begun_at_s


def test_what_has_failed_is_told_and_tried_again_later(leader_rig: Rig) -> None:
    leader_rig.work.trouble = [Unreachable("no store"), NotYet("no batch"), SupervisorError("worse")]
    leader_rig.answer(running(None), SAVES)
    told = []
    for _ in range(3):
        leader_rig.serve()
        saved = leader_rig.answer(running(None), SAVES).saved
        assert saved is not None and saved.since_at_s == NOW_S and not saved.for_good
        told.append((saved.why, saved.nothing))
        leader_rig.serve()
        leader_rig.now_s += 4 * RETRY_PAUSE.first_s
    assert told == [("no store", False), ("no batch", True), ("worse", False)]
    assert leader_rig.work.did == ["save"] * 3
    leader_rig.serve()
    saved = leader_rig.answer(running(None), SAVES).saved
    assert saved is not None and (saved.savepoint, saved.why, saved.nothing) == (ID, "", False)


def test_what_can_never_be_moved_is_not_tried_again(leader_rig: Rig) -> None:
    leader_rig.work.trouble = [InvalidInput("args names it")]
    leader_rig.answer(running(None), SAVES)
    leader_rig.serve()
    leader_rig.now_s += 1000
    leader_rig.serve()
    saved = leader_rig.answer(running(None), SAVES).saved
    assert saved is not None and saved.for_good and leader_rig.work.did == ["save"]


def test_trouble_with_older_savepoints_does_not_lose_the_new_one(leader_rig: Rig) -> None:
    leader_rig.answer(running(None), SAVES)
    leader_rig.work.trouble = []
    leader_rig.work.remove_surplus = lambda *_: (_ for _ in ()).throw(ValueError("odd"))  # type: ignore[method-assign]
    leader_rig.serve()
    saved = leader_rig.answer(running(None), SAVES).saved
    assert saved is not None and saved.savepoint == ID


def test_a_copy_is_made_once_and_what_its_write_rests_on_is_read_anew(leader_rig: Rig) -> None:
    assert leader_rig.answer(failed(), RESTORES).restored is None
    leader_rig.serve()
    leader_rig.serve()
    assert leader_rig.answer(failed(), RESTORES).restored == RESTORED
    leader_rig.serve()
    again = leader_rig.answer(failed()).restored
    assert again is not None and again.claimed is not None and RESTORED.claimed is not None
    assert again.claimed.generation == RESTORED.claimed.generation + 1
    assert leader_rig.work.did == ["restore", "read"]


@pytest.mark.parametrize("error", [NotFound("gone"), Conflict("somebody's")])
def test_a_copy_that_can_never_be_made_is_given_up(leader_rig: Rig, error: SupervisorError) -> None:
    leader_rig.work.trouble = [error]
    leader_rig.answer(failed(), RESTORES)
    leader_rig.serve()
    leader_rig.now_s += 1000
    leader_rig.serve()
    restored = leader_rig.answer(failed()).restored
    assert restored is not None and (restored.revision, restored.why) == (None, str(error))
    assert leader_rig.work.did == ["restore"]


def test_a_place_that_somebody_has_claimed_since_is_given_up(leader_rig: Rig) -> None:
    leader_rig.answer(failed(), RESTORES)
    leader_rig.serve()
    leader_rig.answer(failed(), RESTORES)
    leader_rig.work.trouble = [Conflict("somebody's")]
    leader_rig.serve()
    restored = leader_rig.answer(failed()).restored
    assert restored is not None and restored.revision is None


def test_a_copy_that_can_not_be_read_back_for_now_stays(leader_rig: Rig) -> None:
    leader_rig.answer(failed(), RESTORES)
    leader_rig.serve()
    leader_rig.answer(failed(), RESTORES)
    leader_rig.work.trouble = [Unreachable("no ZooKeeper")]
    leader_rig.serve()
    assert leader_rig.answer(failed()).restored == RESTORED


def test_work_that_is_not_wanted_any_more_ends_and_leaves_nothing(leader_rig: Rig) -> None:
    leader_rig.answer(failed(), RESTORES)
    ((name, each),) = leader_rig.way.due()
    leader_rig.answer(replace(failed(), own=Found(own(S.ASSIGNED).record, 8)))
    leader_rig.way.see_to(name, each)
    assert leader_rig.answer(failed()).restored is None


@pytest.mark.parametrize("ends", ["the term", "the wish"])
def test_a_copy_goes_on_while_it_is_wanted_and_the_term_lasts(leader_rig: Rig, ends: str) -> None:
    asked: list[bool] = []

    def restore(job: JobRef, go_on: Any) -> UpdateRestored:
        asked.append(go_on())
        if ends == "the term":
            leader_rig.term.lasts = False
        else:
            leader_rig.answer(replace(failed(), own=Found(own(S.ASSIGNED).record, 8)))
        asked.append(go_on())
        raise TaskEnded("ended")

    leader_rig.work.restore = restore  # type: ignore[method-assign]
    leader_rig.answer(failed(), RESTORES)
    leader_rig.serve()
    assert asked == [True, False]


def test_no_more_is_begun_than_there_are_workers(leader_rig: Rig) -> None:
    names = [f"j{number}" for number in range(WORKERS + 2)]
    rows = [replace(running(None), name=name) for name in names]
    plan = Plan((), tuple(Note(name, "w", saves=True) for name in names))
    leader_rig.way.answered(view(*rows), plan)
    assert len(leader_rig.way.due()) == WORKERS


def test_a_row_that_can_not_be_read_is_left_alone(leader_rig: Rig) -> None:
    assert leader_rig.answer(row(ref=None, own=own(S.CLAIMED)), SAVES).saved is None
    assert leader_rig.way.due() == []


def test_of_older_savepoints_the_newest_and_those_in_use_stay() -> None:
    def entry(target: int, uid: str = "u1", **changes: Any) -> ShelfEntry:
        begun = type("B", (), {"uid": uid})()
        manifest: Any = object()
        return ShelfEntry(
            "j", savepoint_id(uid, target, 1, 1), begun, changes.pop("manifest", manifest), **changes
        )

    mine = [entry(number) for number in (2, 9, 10)]
    others = [entry(3, "u2"), ShelfEntry("j", "before-upgrade", mine[0].begun, mine[0].manifest)]
    half, unknown = entry(4, manifest=None), entry(5, unknown="elsewhere")
    there = [*mine, *others, half, unknown]
    assert surplus_of(there, "u1", set()) == [mine[0], half]
    assert surplus_of(there, "u1", {mine[0].id}) == [half]


def test_what_was_made_is_forgotten_when_the_records_change() -> None:
    leader_rig = Rig()
    leader_rig.answer(running(None), SAVES)
    leader_rig.serve()
    changed = replace(running(None), own=Found(own(S.CLAIMED).record, 8))
    assert leader_rig.answer(changed).saved is None
