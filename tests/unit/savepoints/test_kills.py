"""Savepoints when the process dies at any change that it makes: complete, or one that says so and can be finished or deleted."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from supervisor.errors import Conflict, NotFound
from supervisor.model.going_back import GOES_ON
from supervisor.savepoints.manifest import SavepointStage
from supervisor.savepoints.restore import restore, verify
from tests.unit.checkpoint.golden import unpack
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
