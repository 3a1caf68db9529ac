"""Files of a run directory: whole or absent, torn lines noticed, one inhabitant."""

from __future__ import annotations

import fcntl
import os
import zlib
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


_RECORD = b'{"pid": %s, "start_ticks": %s, "boot_id": "b", "claim": "c"}'


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"{",
        b"[]",
        b'{"pid": "x"}',
        b"\xff",
        b"[" * 4000,
        _RECORD % (b"Infinity", b"1"),
        _RECORD % (b"1e999", b"1"),
        _RECORD % (b"0", b"1"),
        _RECORD % (b"-1", b"1"),
        _RECORD % (b"4194305", b"1"),
        _RECORD % (b"1", b"1" + b"0" * 400),
    ],
)
def test_an_unbelievable_process_record_is_none(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / run_dir.SHIM
    path.write_bytes(content)
    assert run_dir.read_process(str(path)) is None


def test_a_process_record_is_read_as_written(tmp_path: Path) -> None:
    me = processes.identify(os.getpid())
    assert me is not None
    run_dir.write_process(str(tmp_path / run_dir.SHIM), me, "claim")
    assert run_dir.read_process(str(tmp_path / run_dir.SHIM)) == (me, "claim")


def test_the_lock_of_a_directory_that_was_removed_is_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between opening and locking it the guardian may remove it: whoever makes it anew would be there as well."""
    real = fcntl.flock

    def late(descriptor: int, how: int) -> None:
        (tmp_path / run_dir.LOCK).unlink()
        real(descriptor, how)

    with monkeypatch.context() as slow:
        slow.setattr(fcntl, "flock", late)
        assert run_dir.take_lock(str(tmp_path)) is None
    lock = run_dir.take_lock(str(tmp_path))
    assert lock is not None
    os.close(lock)


def test_a_deadline_that_was_written_in_part_is_not_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    deadline = DeadlineFile.create(str(tmp_path))
    with monkeypatch.context() as full:
        full.setattr(os, "pwrite", lambda _descriptor, line, _at: len(line) - 1)
        with pytest.raises(OSError, match="in part"):
            deadline.write(5.0)


@pytest.fixture
def others(tmp_path: Path) -> Path:
    """A directory with a run directory in it in which each file is a pipe, and files of somebody else beside it."""
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "file").write_text("twin 0.1\n")
    (tmp_path / "a.1").mkdir()
    for name in (run_dir.LAUNCH, run_dir.SHIM, run_dir.DEADLINE, run_dir.GATE, run_dir.KILLS):
        os.mkfifo(tmp_path / "a.1" / name)
    return tmp_path


def test_a_pipe_is_no_file_and_nobody_waits_for_it(others: Path) -> None:
    directory = str(others / "a.1")
    assert run_dir.read_process(f"{directory}/{run_dir.SHIM}") is None
    assert run_dir.read_verdict(directory) is None
    assert run_dir.read_kills(directory) == []
    assert run_dir.read_file(f"{directory}/{run_dir.LAUNCH}", 10) is None
    with pytest.raises(FileNotFoundError):
        read_deadline(directory)


def test_a_link_is_neither_a_file_nor_a_run_directory(others: Path) -> None:
    (others / "b.1").symlink_to("outside")
    assert run_dir.directories(str(others)) == {"a.1", "outside"}
    (others / "outside" / run_dir.KILLS).symlink_to("file")
    assert run_dir.read_kills(str(others / "outside")) == []
    (others / "a.1" / run_dir.LOCK).symlink_to("../outside/lock")
    with pytest.raises(OSError, match="symbolic links"):
        run_dir.take_lock(str(others / "a.1"))
    assert not (others / "outside" / "lock").exists()


def test_who_lives_nowhere_is_told_by_the_lock(tmp_path: Path) -> None:
    assert not run_dir.is_deserted(str(tmp_path)), "there is no lock to tell by"
    held = run_dir.take_lock(str(tmp_path))
    assert held is not None and not run_dir.is_deserted(str(tmp_path))
    os.close(held)
    assert run_dir.is_deserted(str(tmp_path))


@pytest.mark.parametrize("text", ["nan", "inf", "-inf"])
def test_what_is_no_time_is_no_deadline(text: str) -> None:
    body = f"{text:>20}".encode()
    with pytest.raises(ValueError, match="is no time"):
        parse_deadline(b"%s %08x\n" % (body, zlib.crc32(body)))


def test_kills_that_are_none_are_left_out(tmp_path: Path) -> None:
    (tmp_path / run_dir.KILLS).write_bytes(b"shim inf\ntwin 0.25\nshim -1\nx\ntwin nan\nshim 0.5\n\xff\n")
    assert run_dir.read_kills(str(tmp_path)) == [("twin", 0.25), ("shim", 0.5)]
