"""Files of a run directory: whole or absent, torn lines noticed, one inhabitant."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from supervisor.clients import processes, run_dir
from supervisor.clients.run_dir import DeadlineFile, parse_deadline, read_deadline


def test_a_deadline_is_read_as_it_was_written(tmp_path: Path) -> None:
    file = DeadlineFile.create(str(tmp_path))
    assert file.read() is None
    for value in (0.5, 12345678.123456, None):
        file.write(value)
        assert file.read() == read_deadline(str(tmp_path)) == value


def test_writing_a_deadline_needs_no_room(tmp_path: Path) -> None:
    file = DeadlineFile.create(str(tmp_path))
    size = (tmp_path / run_dir.DEADLINE).stat().st_size
    for value in (1.0, 9_999_999_999.0, None):
        file.write(value)
        assert (tmp_path / run_dir.DEADLINE).stat().st_size == size


@pytest.mark.parametrize("change", [b"", b"x", b"9"])
def test_a_torn_deadline_is_noticed(tmp_path: Path, change: bytes) -> None:
    DeadlineFile.create(str(tmp_path)).write(1234.5)
    line = (tmp_path / run_dir.DEADLINE).read_bytes()
    torn = line[:14] + change + line[14 + len(change) :] if change else line[:10]
    with pytest.raises(ValueError):
        parse_deadline(torn)


def test_the_inherited_descriptor_outlives_the_file(tmp_path: Path) -> None:
    file = DeadlineFile.create(str(tmp_path))
    (tmp_path / run_dir.DEADLINE).unlink()
    file.write(7.0)
    assert file.read() == 7.0


def test_a_run_directory_is_made_once_and_complete(tmp_path: Path) -> None:
    made = run_dir.create(str(tmp_path / "attempts"), "uid.1", b"{}")
    assert made is not None
    assert os.stat(made).st_mode & 0o777 == 0o700
    assert os.stat(f"{made}/{run_dir.LAUNCH}").st_mode & 0o777 == 0o600
    assert run_dir.create(str(tmp_path / "attempts"), "uid.1", b"other") is None
    assert Path(made, run_dir.LAUNCH).read_bytes() == b"{}"


def test_a_half_made_run_directory_of_a_crashed_agent_is_no_obstacle(tmp_path: Path) -> None:
    (tmp_path / f".uid.1.{os.getpid()}").mkdir()
    assert run_dir.create(str(tmp_path), "uid.1", b"{}") is not None


def test_the_lock_has_one_holder_and_dies_with_it(tmp_path: Path) -> None:
    held = run_dir.take_lock(str(tmp_path))
    assert held is not None
    assert run_dir.take_lock(str(tmp_path)) is None
    os.close(held)
    assert run_dir.take_lock(str(tmp_path)) is not None


def test_only_an_uninhabited_directory_is_removed(tmp_path: Path) -> None:
    made = run_dir.create(str(tmp_path), "uid.1", b"{}")
    assert made is not None
    held = run_dir.take_lock(made)
    assert held is not None
    assert not run_dir.remove(made)
    os.close(held)
    assert run_dir.remove(made) and not os.path.exists(made)
    assert run_dir.remove(made), "already gone is fine"
    assert run_dir.take_lock(made) is None


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b'{"pid": "x"}', b"\xff"])
def test_an_unbelievable_process_record_is_none(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / run_dir.SHIM
    path.write_bytes(content)
    assert run_dir.read_process(str(path)) is None


def test_a_process_record_is_read_as_written(tmp_path: Path) -> None:
    me = processes.identify(os.getpid())
    assert me is not None
    run_dir.write_process(str(tmp_path / run_dir.SHIM), me, "claim")
    assert run_dir.read_process(str(tmp_path / run_dir.SHIM)) == (me, "claim")
