"""What is left of savepoints whose creation or delete died, and what must stay."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from supervisor.errors import Conflict
from supervisor.savepoints import sweep
from supervisor.savepoints.manifest import SavepointStage
from supervisor.savepoints.sweep import EVERY_S, GRACE_S, SavepointSweeper
from tests.unit.checkpoint.golden import unpack
from tests.unit.checkpoint.savepoints import area, begun, create, files, place, shelf


class Clock:
    now_s = 1000.0

    def __call__(self) -> float:
        return self.now_s


class SlowClock(Clock):
    """Each look at it takes long."""

    STEP_S = 100.0

    def __call__(self) -> float:
        self.now_s += self.STEP_S
        return self.now_s


@pytest.fixture
def store(tmp_path: Path) -> Path:
    """With a complete savepoint ``kept``, and ``left`` without its manifest."""
    source = unpack("files", tmp_path)
    for savepoint in ("kept", "left"):
        create(source, tmp_path / "store", savepoint)
    area(place(tmp_path / "store", "left")).remove("manifest.json")
    return tmp_path / "store"


def test_left_for_a_grace_time_it_goes_and_nothing_else(store: Path) -> None:
    clock, kept = Clock(), [*files(place(store, "kept"))]
    sweeper = SavepointSweeper(shelf(store), clock)
    assert sweeper.scan() == ()
    clock.now_s += GRACE_S - 1
    assert sweeper.scan() == ()
    clock.now_s += EVERY_S
    assert sweeper.scan() == ("clicks/left",)
    assert [*files(store)] == [f"savepoints/clicks/kept/{key}" for key in kept]
    clock.now_s += GRACE_S + EVERY_S
    assert sweeper.scan() == ()


def test_what_is_complete_is_never_among_what_is_left(store: Path) -> None:
    """The delete refuses it as well; a sweep does not come so far."""
    assert [*shelf(store).leftovers()] == [("clicks", "left")]


def test_it_looks_once_an_hour(store: Path) -> None:
    clock = Clock()
    sweeper = SavepointSweeper(shelf(store), clock)
    sweeper.scan()
    shutil.rmtree(store)
    clock.now_s += EVERY_S - 1
    assert sweeper.scan() == ()


def test_what_somebody_works_on_stays(store: Path) -> None:
    clock = Clock()
    sweeper = SavepointSweeper(shelf(store), clock)
    for number in range(4):
        assert sweeper.scan() == ()
        area(place(store, "left")).write(f"data/{number}", b"")
        clock.now_s += GRACE_S
    area(place(store, "left")).write("restores/ab.json", b"{}")
    sweeper.scan()
    clock.now_s += GRACE_S + 1
    assert sweeper.scan() == ()
    assert shelf(store).find("clicks", "left").stage is SavepointStage.INCOMPLETE


def test_a_new_leader_begins_anew_and_one_that_steps_down_stops(store: Path) -> None:
    clock = Clock()
    SavepointSweeper(shelf(store), clock).scan()
    clock.now_s += 2 * GRACE_S
    later = SavepointSweeper(shelf(store), clock)
    assert later.scan() == ()
    clock.now_s += 2 * GRACE_S
    assert later.scan(lambda: False) == ()
    assert shelf(store).find("clicks", "left")


def test_copies_without_an_entry_go_too(store: Path) -> None:
    (place(store, "left") / "begun.json").unlink()
    assert shelf(store).find("clicks", "left").stage is SavepointStage.INCOMPLETE
    clock = Clock()
    sweeper = SavepointSweeper(shelf(store), clock)
    sweeper.scan()
    clock.now_s += GRACE_S + 1
    assert sweeper.scan() == ("clicks/left",)


def test_an_entry_that_is_unreadable_stays_and_keeps_nothing_else(store: Path) -> None:
    create(store.parent / "files", store, "doubtful")
    area(place(store, "doubtful")).remove("manifest.json")
    (place(store, "doubtful") / "begun.json").write_text("{")
    clock = Clock()
    sweeper = SavepointSweeper(shelf(store), clock)
    sweeper.scan()
    clock.now_s += GRACE_S + 1
    assert sweeper.scan() == ("clicks/left",)


def test_one_beside_a_checkpoint_that_another_host_sees_is_neither_incomplete_nor_swept(
    tmp_path: Path,
) -> None:
    on = shelf(tmp_path / "store")
    on.begin(begun(tmp_path / "elsewhere", tmp_path / "elsewhere.savepoints" / "clicks" / "one"))
    (entry,) = on.entries("clicks")
    assert entry.stage is SavepointStage.UNKNOWN
    assert "this host sees nothing" in entry.unknown
    clock = Clock()
    sweeper = SavepointSweeper(on, clock)
    sweeper.scan()
    clock.now_s += GRACE_S + 1
    assert sweeper.scan() == ()
    with pytest.raises(Conflict, match="--force"):
        on.delete("clicks", "one")
    on.delete("clicks", "one", force=True)
    assert [*on.entries("clicks")] == []


def test_what_cannot_be_read_keeps_no_other_from_going(store: Path) -> None:
    for name, savepoint in (("a", "loop"), ("a", "odd"), ("a", "numbers")):
        place(store, savepoint, name).mkdir(parents=True)
    (place(store, "loop", "a") / "begun.json").symlink_to("begun.json")
    (place(store, "odd", "a") / "begun.json").mkdir()
    (place(store, "numbers", "a") / "begun.json").write_text(
        '{"v": 1, "attempt": Infinity, "every_s": 1e999}'
    )
    (place(store, "x", "a")).symlink_to("x")
    clock = Clock()
    sweeper = SavepointSweeper(shelf(store), clock)
    sweeper.scan()
    clock.now_s += GRACE_S + 1
    assert sweeper.scan() == ("clicks/left",)


def test_somebodys_files_are_no_leftover(store: Path, tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "file").write_text("precious")
    place(store, "linked").symlink_to(tmp_path / "elsewhere")
    clock = Clock()
    sweeper = SavepointSweeper(shelf(store), clock)
    sweeper.scan()
    clock.now_s += GRACE_S + 1
    assert sweeper.scan() == ("clicks/left",)
    assert (tmp_path / "elsewhere" / "file").read_text() == "precious"


def test_a_slow_scan_makes_the_time_between_two_no_longer(store: Path) -> None:
    """What was listed at its end may have been worked on until then."""
    clock = SlowClock()
    sweeper = SavepointSweeper(shelf(store), clock)
    assert sweeper.scan() == ()
    clock.now_s = 1000.0 + GRACE_S
    assert sweeper.scan() == ()
    clock.now_s += GRACE_S
    assert sweeper.scan() == ("clicks/left",)


def test_one_that_steps_down_between_two_deletions_stops(store: Path) -> None:
    create(store.parent / "files", store, "left-too")
    area(place(store, "left-too")).remove("manifest.json")
    clock = Clock()
    sweeper = SavepointSweeper(shelf(store), clock)
    sweeper.scan()
    clock.now_s += GRACE_S + 1
    leads = iter([True, True, True])  # for each that was listed, and for the first to go
    assert sweeper.scan(lambda: next(leads, False)) == ("clicks/left",)
    assert shelf(store).find("clicks", "left-too")


def test_few_go_in_one_scan(store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    create(store.parent / "files", store, "left-too")
    area(place(store, "left-too")).remove("manifest.json")
    monkeypatch.setattr(sweep, "DELETES_MAX", 1)
    clock = Clock()
    sweeper = SavepointSweeper(shelf(store), clock)
    sweeper.scan()
    for gone in ("clicks/left", "clicks/left-too"):
        clock.now_s += GRACE_S + 1
        assert sweeper.scan() == (gone,)
