"""Directories are emptied whatever was left there, within their time, and nothing outside is touched."""

from __future__ import annotations

import os
import tempfile
import time
from pathlib import Path

import pytest

from supervisor.clients.emptying import empty, empty_as, remove

DEEP = 1500


def deep(directory: Path, depth: int = DEEP) -> None:
    """A chain of directories that no path of a call can name."""
    at = os.open(directory, os.O_RDONLY)
    for _ in range(depth):
        os.mkdir("d", dir_fd=at)
        below = os.open("d", os.O_RDONLY, dir_fd=at)
        os.close(at)
        at = below
    os.close(at)


@pytest.fixture
def outside(tmp_path: Path) -> Path:
    kept = tmp_path / "outside"
    kept.mkdir()
    (kept / "file").write_text("kept")
    return kept


@pytest.fixture
def inside(tmp_path: Path, outside: Path) -> Path:
    made = tmp_path / "inside"
    made.mkdir()
    deep(made)
    os.mkfifo(made / "pipe")
    (made / "link").symlink_to(outside)
    (made / "d" / "link").symlink_to(outside)
    for number in range(1200):
        (made / f"f{number}").touch()
    (made / "closed").mkdir()
    (made / "closed" / "x").touch()
    (made / "closed").chmod(0)
    return made


def test_whatever_is_there_goes_and_links_are_not_followed(inside: Path, outside: Path) -> None:
    assert empty(str(inside), time.monotonic() + 60.0)
    assert os.listdir(inside) == []
    assert (outside / "file").read_text() == "kept"


def test_when_its_time_is_over_it_leaves_the_rest(inside: Path) -> None:
    before = len(os.listdir(inside))
    assert not empty(str(inside), time.monotonic())
    assert len(os.listdir(inside)) == before
    assert not remove(str(inside), 0.0) and remove(str(inside), 60.0)
    assert not inside.exists()


def test_a_link_is_no_directory_to_be_emptied(tmp_path: Path, outside: Path) -> None:
    (tmp_path / "link").symlink_to(outside)
    with pytest.raises(OSError):
        empty(str(tmp_path / "link"), time.monotonic() + 60.0)
    assert remove(str(tmp_path / "link"), 1.0) and (outside / "file").exists()
    assert remove(str(tmp_path / "gone"), 1.0)


@pytest.mark.users
def test_as_a_user_only_what_that_user_may_remove_goes() -> None:
    directory = Path(tempfile.mkdtemp())  # where another user gets to
    directory.chmod(0o755)
    try:
        others, mine = directory / "others", directory / "mine"
        for made in (others, mine, mine / "closed"):
            made.mkdir()
        for made in (others / "x", mine / "x", mine / "closed" / "x"):
            made.touch()
        (mine / "closed").chmod(0)
        os.chown(mine, 20001, 20001)
        os.chown(mine / "closed", 20001, 20001)
        empty_as(20001, [str(others), str(mine)], 30.0)
        assert (others / "x").exists() and os.listdir(mine) == []
    finally:
        remove(str(directory), 30.0)
