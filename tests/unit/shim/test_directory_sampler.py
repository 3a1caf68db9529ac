"""What a job has written to its working directory is measured, whatever lies there."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from supervisor.model.usage import DirectoryUse
from supervisor.shim import directory_sampler
from supervisor.shim.directory_sampler import DEEP_MAX, DirectorySampler, measure
from tests.waiting import wait_until


def write(path: Path, size: int) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"x" * size)


def test_files_are_counted_with_the_largest_entries_first(tmp_path: Path) -> None:
    write(tmp_path / "spark-warehouse" / "clicks" / "part-0", 300)
    write(tmp_path / "out" / "part-0", 10)
    write(tmp_path / "out" / "part-1", 20)
    write(tmp_path / "note", 1)
    write(tmp_path / "small", 0)
    assert measure(str(tmp_path)) == DirectoryUse(
        path=str(tmp_path), bytes=331, files=5, names=("spark-warehouse", "out", "note")
    )


def test_what_is_not_the_jobs_does_not_count(tmp_path: Path) -> None:
    write(tmp_path / "etl_config.json", 10)
    write(tmp_path / "derby.log", 10)
    (tmp_path / "artifacts" / "spark-1").mkdir(parents=True)
    assert measure(str(tmp_path), ("etl_config.json",)) == DirectoryUse(path=str(tmp_path), bytes=0, files=0)


def test_no_link_is_followed_and_no_fifo_opened(tmp_path: Path) -> None:
    write(tmp_path / "outside" / "large", 1000)
    there = tmp_path / "cwd"
    there.mkdir()
    (there / "link").symlink_to(tmp_path / "outside")
    (there / "loop").symlink_to(there)
    os.mkfifo(there / "fifo")
    found = measure(str(there))
    assert found is not None and (found.bytes, found.files) == (0, 0)


def test_there_is_an_end_to_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(directory_sampler, "FILES_MAX", 3)
    for number in range(10):
        write(tmp_path / "out" / str(number), 1)
    found = measure(str(tmp_path))
    assert found is not None and found.files == 3
    assert measure(str(tmp_path / "gone")) is None


def test_the_newest_is_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(directory_sampler, "FIRST_S", 0.01)
    write(tmp_path / "out" / "1", 1)
    sampler = DirectorySampler(str(tmp_path))
    sampler.start()
    wait_until(lambda: sampler.newest is not None and sampler.newest.files == 1, 20, "the first")
    write(tmp_path / "out" / "2", 1)
    wait_until(lambda: sampler.newest is not None and sampler.newest.files == 2, 20, "the next")
    sampler.stop()


def test_a_link_is_not_followed_and_deep_directories_end(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "secret").write_text("x" * 1000)
    job = tmp_path / "job"
    (job / "a").mkdir(parents=True)
    (job / "a" / "out.json").write_text("12345")
    (job / "a" / "link").symlink_to(outside)
    (job / "b").symlink_to(outside)
    deep = job / "d"
    for _ in range(DEEP_MAX + 5):
        deep.mkdir()
        deep /= "d"
    (deep.parent / "file").write_text("x")
    found = measure(str(job))
    assert found is not None and (found.files, found.bytes, found.names) == (1, 5, ("a",))
    (tmp_path / "other").symlink_to(job)
    assert measure(str(tmp_path / "other")) is None
