"""What a deletion on disk leaves, whatever a job has put at its checkpoint: links, pipes, mounts, depth."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from supervisor.clients.store import removal as removal_module
from supervisor.clients.store.deadline import Budget
from supervisor.clients.store.objects import FOLDERS_DEEP_MAX
from supervisor.clients.store.removal import KEPT_LATE_S, DirectoryRemoval, Removed
from supervisor.errors import AccessDenied
from supervisor.model.query_metadata import METADATA_MAX_BYTES


def removal_of(place: Path, deadline_s: float = 60.0) -> DirectoryRemoval:
    return DirectoryRemoval(f"file://{place}", deadline_s)


def removed(place: Path, still: Callable[[], None] = lambda: None) -> Removed:
    return removal_of(place).remove_batch(still)


@pytest.fixture
def place(tmp_path: Path) -> Path:
    (tmp_path / "ck" / "offsets").mkdir(parents=True)
    (tmp_path / "ck" / "offsets" / "0").write_text("v1")
    (tmp_path / "ck" / "metadata").write_text('{"id": "q"}')
    return tmp_path / "ck"


def test_nothing_is_deleted_before_the_answer_and_whose_it_is_is_known_then(place: Path) -> None:
    removal = removal_of(place)

    def still() -> None:
        assert (removal.queries, removal.resolved, removal.unanswered) == ({"q"}, f"file://{place}", 1)
        raise AccessDenied("no")

    with pytest.raises(AccessDenied, match="no"):
        removal.remove_batch(still)
    assert (place / "offsets" / "0").exists() and (place / "metadata").exists()
    assert removal.unanswered == 0


def test_whose_it_is_stays_known_when_the_metadata_has_gone(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A later batch finds nothing by which to tell; it is not looked for with each."""
    (place / "kept.savepoints").mkdir()
    removal, reads = removal_of(place), []
    queries_below = removal_module._queries_below

    def counted(root: int, budget: Budget) -> frozenset[str]:
        reads.append(root)
        return queries_below(root, budget)

    monkeypatch.setattr(removal_module, "_queries_below", counted)
    for _ in range(2):
        removal.remove_batch(lambda: None)
        assert (removal.queries, (place / "metadata").exists()) == ({"q"}, False)
    assert len(reads) == 1


def test_a_link_at_the_place_itself_is_not_followed(place: Path) -> None:
    link = place.with_name("link")
    link.symlink_to(place)
    with pytest.raises(AccessDenied):
        removed(link)
    assert (place / "offsets" / "0").exists()


def test_who_it_is_is_not_read_through_a_link(place: Path) -> None:
    """A job could point to what another one has left."""
    mine = place.with_name("mine")
    mine.mkdir()
    (mine / "metadata").symlink_to(place / "metadata")
    removal = removal_of(mine)
    removal.remove_batch(lambda: None)
    assert removal.queries == frozenset()
    assert (place / "metadata").exists()


def test_a_pipe_in_place_of_the_metadata_holds_nobody_up(place: Path) -> None:
    (place / "metadata").unlink()
    os.mkfifo(place / "metadata")
    removal = removal_of(place)
    assert removal.remove_batch(lambda: None) == Removed(2, left=False)
    assert (removal.queries, place.exists()) == (frozenset(), False)


def test_of_metadata_that_a_job_has_made_large_so_much_is_read(place: Path) -> None:
    (place / "metadata").write_text(json.dumps({"much": "x" * METADATA_MAX_BYTES, "id": "q"}))
    removal = removal_of(place)
    assert removal.remove_batch(lambda: None) == Removed(2, left=False)
    assert removal.queries == frozenset()


def test_another_file_system_is_not_entered(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (place / "mounted").mkdir()
    (place / "mounted" / "data").write_text("x")
    fstat, mounted = os.fstat, (place / "mounted").stat().st_ino

    def on_another(descriptor: int) -> Any:
        found = fstat(descriptor)
        return SimpleNamespace(st_dev=found.st_dev + 1) if found.st_ino == mounted else found

    monkeypatch.setattr(removal_module.os, "fstat", on_another)
    with pytest.raises(AccessDenied, match="on another file system"):
        removed(place)
    assert (place / "mounted" / "data").exists()


def test_what_is_nested_too_deep_is_left(place: Path) -> None:
    deepest = place.joinpath(*["d"] * (FOLDERS_DEEP_MAX + 1))
    deepest.mkdir(parents=True)
    with pytest.raises(AccessDenied, match="nested too deep"):
        removed(place)
    assert deepest.exists()


@pytest.mark.parametrize("at", ["a/x.savepoints/1", "x.savepoints/1", "a/b/x.savepoints/1"])
def test_savepoints_keep_the_directories_above_them_and_nothing_else(place: Path, at: str) -> None:
    kept = place / at
    kept.parent.mkdir(parents=True)
    for path in (kept, place / "z" / "1", place / "a0" / "1"):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("x")
    removal = removal_of(place)
    assert not removal.remove_batch(lambda: None).left
    assert [path for path in place.rglob("*") if path.is_file()] == [kept]
    above = {each for each in kept.parents if each.is_relative_to(place)}
    assert {path for path in place.rglob("*") if path.is_dir()} | {place} == above
    assert removal.late_s == KEPT_LATE_S, "the directory stays: who was stopped has it open"


@contextmanager
def sorted_by(key: Callable[[str], object], monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Lists directories in an order that a file system may have."""
    scandir = os.scandir

    @contextmanager
    def listed(folder: int) -> Iterator[list[Any]]:
        with scandir(folder) as found:
            yield sorted(found, key=lambda each: key(each.name))  # type: ignore[arg-type, return-value]

    with monkeypatch.context() as patch:
        patch.setattr(removal_module.os, "scandir", listed)
        yield


def test_a_directory_without_savepoints_after_one_with_them_does_not_hide_them(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for path in (place / "in" / "a" / "x.savepoints" / "1", place / "in" / "b" / "1"):
        path.parent.mkdir(parents=True)
        path.write_text("x")
    with sorted_by(str, monkeypatch):
        assert not removed(place).left
    assert (place / "in" / "a" / "x.savepoints" / "1").exists() and not (place / "in" / "b").exists()


def test_a_directory_that_stays_may_be_emptied_late_by_who_was_stopped(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its parent is somebody else's: a process that has it open still deletes what comes there."""
    rmdir = os.rmdir

    def refused(name: str, *, dir_fd: int) -> None:
        if name == place.name:
            raise PermissionError(13, "denied")
        rmdir(name, dir_fd=dir_fd)

    removal = removal_of(place)
    monkeypatch.setattr(removal_module.os, "rmdir", refused)
    assert removal.remove_batch(lambda: None) == Removed(2, left=False)
    assert (place.exists(), removal.late_s) == (True, KEPT_LATE_S)


def test_a_batch_is_bounded_and_the_metadata_goes_last(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (place / "zzz").write_text("x")
    monkeypatch.setattr(removal_module, "BATCH_MAX", 1)
    is_known = []
    with sorted_by(lambda name: name != "metadata", monkeypatch):
        found = []
        for _ in range(4):
            found.append(removed(place))
            is_known.append((place / "metadata").exists())
    assert [each.objects for each in found] == [1, 1, 1, 0]
    assert is_known == [True, True, False, False], "who goes on recognises by it what lies there"
    assert (found[-1].left, place.exists()) == (False, False)
