"""Savepoints when the process dies at any change that it makes: complete, or one that says so and can be finished or deleted."""

from __future__ import annotations

import shutil
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from supervisor.errors import Conflict, NotFound
from supervisor.model.going_back import GOES_ON, GoingBack, ReturnStep
from supervisor.savepoints import create as create_module
from supervisor.savepoints import restore_mark
from supervisor.savepoints.manifest import SavepointStage
from supervisor.savepoints.restore import RestoredCopy, restore, verify
from supervisor.savepoints.restore_mark import MARK
from tests.unit.checkpoint.golden import inspected, only, unpack
from tests.unit.checkpoint.savepoints import (
    AT,
    Dying,
    Killed,
    Life,
    area,
    contents,
    create,
    files,
    place,
    shelf,
)

NEW_IDS = GoingBack(ReturnStep.NEW_IDS)


def steps(after: bool, run: Callable[[Callable[[Any], Any]], object], check: Callable[[], None]) -> int:
    """Die at each change in turn, until there are no more; ``check`` looks at what is left each time. Returns how many."""
    for at in range(1000):
        life = Life(at, after=after)
        try:
            run(lambda each, life=life: Dying(each, life))
        except Killed:
            check()
        else:
            return at
    raise AssertionError("it never ends")


@pytest.mark.parametrize("after", [False, True])
def test_a_creation_that_is_killed_says_that_it_is_incomplete_and_goes_on(
    after: bool, tmp_path: Path
) -> None:
    source = unpack("files", tmp_path)
    store = tmp_path / "store"

    def check() -> None:
        on, saved = shelf(store), area(place(store))
        entries = [*on.entries("clicks")]
        if any(entry.stage is SavepointStage.COMPLETE for entry in entries):
            assert verify(saved).problems == ()
        else:
            with pytest.raises(NotFound):
                restore(saved, area(tmp_path / "never"), AT, GOES_ON)
        shutil.copytree(store, tmp_path / "other", dirs_exist_ok=True)
        create(source, store)  # goes on
        assert verify(saved).problems == ()
        shutil.rmtree(store)
        (tmp_path / "other").rename(store)
        if entries:  # or is deleted
            on.delete("clicks", "one")
        assert not [*files(store)]
        shutil.rmtree(store, ignore_errors=True)

    assert steps(after, lambda wrap: create(source, store, wrap=wrap), check) > 10


@pytest.mark.parametrize("after", [False, True])
def test_a_delete_that_is_killed_leaves_one_that_is_incomplete_and_can_be_deleted(
    after: bool, tmp_path: Path
) -> None:
    source, store = unpack("files", tmp_path), tmp_path / "store"

    def run(wrap: Callable[[Any], Any]) -> None:
        create(source, store)
        shelf(store, wrap).delete("clicks", "one")

    def check() -> None:
        on = shelf(store)
        for entry in on.entries("clicks"):
            if entry.stage is SavepointStage.COMPLETE:
                assert verify(area(place(store))).problems == ()
            on.delete("clicks", "one")
        assert not [*files(store)]

    assert steps(after, run, check) > 10


@pytest.mark.parametrize("after", [False, True])
def test_a_restore_that_is_killed_goes_on_and_harms_nothing(after: bool, tmp_path: Path) -> None:
    source, store, target = unpack("files", tmp_path), tmp_path / "store", tmp_path / "ck"
    create(source, store)
    whole = contents(place(store) / "data")

    def run(wrap: Callable[[Any], Any]) -> None:
        shutil.rmtree(target, ignore_errors=True)
        restore(wrap(area(place(store))), wrap(area(target)), AT, GOES_ON)

    def check() -> None:
        marked = [*area(place(store)).items("restores")]
        if marked:
            with pytest.raises(Conflict):
                shelf(store).delete("clicks", "one")
        restore(area(place(store)), area(target), AT, GOES_ON)
        assert contents(target) == whole
        assert [*area(place(store)).items("restores")] == []
        assert verify(area(place(store))).problems == ()

    assert steps(after, run, check) > 10


class Interleaved:
    """Areas of one process, between whose calls ``then`` is done once: before the ``at``-th of any kind."""

    def __init__(self, inner: Any, turn: Turn) -> None:
        self._inner = inner
        self._turn = turn
        self.location = inner.location

    def __getattr__(self, name: str) -> Any:
        value = getattr(self._inner, name)
        if name not in ("items", "read", "copy_from", "create", "write", "remove", "flush"):
            return value

        def call(*given: Any, **more: Any) -> Any:
            self._turn.take()
            plain = [each._inner if isinstance(each, Interleaved) else each for each in given]
            found = value(*plain, **more)
            return list(found) if name == "items" else found

        return call


class Turn:
    def __init__(self, at: int, then: Callable[[], object]) -> None:
        self._left = at
        self._then = then
        self._lock = threading.Lock()

    def take(self) -> None:
        with self._lock:
            self._left -= 1
            if self._left == -1:
                self._then()


@pytest.mark.parametrize("names", [("both", NEW_IDS, NEW_IDS), ("one", GOES_ON, NEW_IDS)], ids=lambda n: n[0])
def test_two_restores_at_once_make_one_copy(
    names: tuple[str, GoingBack, GoingBack], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever happens between any two steps of the one, the other one included, a job that begins on what either of them says
    is complete has the queries that were said, and nobody writes to it any more."""
    monkeypatch.setattr(restore_mark, "REREAD_EVERY_S", 0.0)
    monkeypatch.setattr(create_module, "WORKERS", 1)
    monkeypatch.setattr(create_module, "WAITING_MAX", 1)
    source, store, target = unpack("files", tmp_path), tmp_path / "store", tmp_path / "target"
    create(source, store)
    told: list[str] = []
    for at in range(500):
        shutil.rmtree(target, ignore_errors=True)
        done: list[tuple[RestoredCopy, dict[str, bytes]]] = []

        def other(done: list[tuple[RestoredCopy, dict[str, bytes]]] = done) -> None:
            try:
                copy = restore(area(place(store)), area(target), AT, names[2])
            except Conflict as conflict:
                told.append(str(conflict))
            else:
                runs_on(target)
                done.append((copy, contents(target)))

        before, turn = len(told), Turn(at, other)
        try:
            saved, to = Interleaved(area(place(store)), turn), Interleaved(area(target), turn)
            mine = restore(saved, to, AT, names[1])  # type: ignore[arg-type]
        except Conflict as conflict:
            told.append(str(conflict))
        else:
            if not done and len(told) == before:
                break
            done = done or [(mine, contents(target))]
            assert mine.queries == done[0][0].queries, at
        assert done, f"step {at}: neither has finished: {told[before:]}"
        (copy, then) = done[0]
        assert {key: contents(target).get(key) for key in then if key != MARK} == {
            key: data for key, data in then.items() if key != MARK
        }, f"step {at}: it was written to after it was complete"
        (query,) = copy.queries
        assert only(inspected(target)).id == query.id, at
    assert at > 20 and len(told) > 10
    assert not (target / MARK).exists()


def runs_on(checkpoint: Path) -> None:
    """A query goes on there: its next batch, and what it replaces of its own."""
    for folder in ("offsets", "commits"):
        newest = max(int(path.name) for path in (checkpoint / folder).iterdir() if path.name.isdigit())
        shutil.copy(checkpoint / folder / str(newest), checkpoint / folder / str(newest + 1))
