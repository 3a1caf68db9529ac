"""``operations.log_parts``: bounds, the last lines, times, cursors over rotations, and what a job puts in the way."""

from __future__ import annotations

import os
import socket
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from supervisor.errors import SupervisorError
from supervisor.operations import log_parts, log_stamps
from supervisor.operations.log_parts import LogParts, LogPosition, LogStart, open_parts
from supervisor.shim.output import RotatedFile

BEGIN = LogPosition(0, 0)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    (tmp_path / "log" / "clicks").mkdir(parents=True)
    return tmp_path / "log" / "clicks" / "u.1.log"


def all_of(path: Path, start: LogStart | None = None) -> bytes:
    with open_parts(path) as parts:
        return b"".join(parts.pieces(parts.position(start or LogStart())))


def tail(path: Path, lines: int) -> bytes:
    return all_of(path, LogStart(tail=lines))


# -- parts ------------------------------------------------------------------------------------------------------------


def test_parts_are_read_in_the_order_in_which_they_were_written(path: Path) -> None:
    file = RotatedFile(str(path), max_bytes=100, keep=4)
    lines = [f"line {number:04}\n".encode() for number in range(100)]
    for line in lines:
        file.write(line)
    file.close()
    got = all_of(path)
    assert b"".join(lines).endswith(got) and len(got) > 200


def test_there_is_nothing(path: Path) -> None:
    assert all_of(path) == b"" and tail(path, 5) == b""
    path.parent.rmdir()
    with open_parts(path) as parts:
        assert not parts and parts.position(LogStart(tail=3, since_at_s=0.0)) == BEGIN


def test_a_piece_has_as_many_bytes_as_are_asked_for_and_says_where_it_ends(path: Path) -> None:
    path.with_name("u.1.log.1").write_bytes(b"a" * 100_000)
    path.write_bytes(b"b" * 100_000)
    with open_parts(path) as parts:
        first, at = parts.read(BEGIN, 150_000)
        assert (first, at) == (b"a" * 100_000 + b"b" * 50_000, LogPosition(1, 50_000))
        rest, at = parts.read(at, 150_000)
        assert (rest, at) == (b"b" * 50_000, LogPosition(1, 100_000))
        assert parts.read(at, 150_000) == (b"", at)


def test_a_rotation_while_the_parts_are_opened_loses_nothing(path: Path, monkeypatch: Any) -> None:
    path.with_name("u.1.log.1").write_bytes(b"one\n")
    path.write_bytes(b"two\n")
    opened = log_parts.open_file

    def rotate_after_the_first(folder: int, name: str) -> int:
        descriptor = opened(folder, name)
        if name == path.name:
            os.replace(f"{path}.1", f"{path}.2")
            os.replace(path, f"{path}.1")
            path.write_bytes(b"three\n")
        return descriptor

    monkeypatch.setattr(log_parts, "open_file", rotate_after_the_first)
    assert all_of(path) == b"one\ntwo\n"


# -- the last lines ---------------------------------------------------------------------------------------------------


def test_the_last_lines(path: Path) -> None:
    path.with_name("u.1.log.1").write_bytes(b"1\n2\n3")
    path.write_bytes(b" 3\n4\n5\n")
    whole = b"1\n2\n3 3\n4\n5\n"
    for lines in range(8):
        assert tail(path, lines) == b"".join(whole.splitlines(keepends=True)[5 - min(lines, 5) :]), lines
    path.write_bytes(b" 3\n4\n5\nno end")
    assert tail(path, 1) == b"no end" and tail(path, 2) == b"5\nno end"


def test_the_last_lines_of_many_blocks(path: Path) -> None:
    lines = [b"x" * (number % 997) + b"\n" for number in range(2000)]
    path.with_name("u.1.log.1").write_bytes(b"".join(lines[:900]))
    path.write_bytes(b"".join(lines[900:]))
    for count in (1, 2, 3, 137, 1099, 1100, 1101, 1999, 2000, 2001):
        assert tail(path, count) == b"".join(lines[-count:]), count


def test_a_search_for_lines_that_have_no_end_is_bounded(path: Path, monkeypatch: Any) -> None:
    monkeypatch.setattr(log_parts, "SEARCH_MAX_BYTES", 300_000)
    path.write_bytes(b"x" * 1_000_000)
    read = counted_reads(monkeypatch)
    with open_parts(path) as parts:
        assert parts.position(LogStart(tail=1)) == LogPosition(0, 700_000)
    assert sum(read) <= 300_000


def counted_reads(monkeypatch: Any) -> list[int]:
    read: list[int] = []
    real = log_parts._read_at

    def counted(stream: Any, offset: int, max_bytes: int) -> bytes:
        block: bytes = real(stream, offset, max_bytes)
        read.append(len(block))
        return block

    monkeypatch.setattr(log_parts, "_read_at", counted)
    return read


# -- by time ----------------------------------------------------------------------------------------------------------

NOW_S = 1_800_000_000.0


def stamped(at_s: float, form: str = "%y/%m/%d %H:%M:%S INFO x") -> bytes:
    return time.strftime(form, time.localtime(at_s)).encode() + b"\n"


def since(path: Path, at_s: float) -> bytes:
    return all_of(path, LogStart(since_at_s=at_s))


def written(path: Path, text: bytes, at_s: float) -> None:
    path.write_bytes(text)
    os.utime(path, (at_s, at_s))


@pytest.mark.parametrize(
    "form",
    [
        "%y/%m/%d %H:%M:%S INFO x",
        "%Y-%m-%d %H:%M:%S,123 INFO x",
        "[%Y-%m-%dT%H:%M:%S] x",
        '{"ts":"%Y-%m-%dT%H:%M:%S.123","level":"INFO"}',
    ],
)
def test_the_first_line_whose_stamp_is_new_enough(path: Path, form: str) -> None:
    lines = [stamped(NOW_S - 1000 + number, form) + b"  more\n" for number in range(1000)]
    written(path, b"".join(lines), NOW_S)
    for number in (0, 1, 2, 500, 998, 999):
        assert since(path, NOW_S - 1000 + number) == b"".join(lines[number:]), number


def test_stamps_with_a_zone(path: Path) -> None:
    at_s = 1_800_000_000.0  # 2027-01-15T08:00:00Z
    lines = b"2027-01-15T08:00:00Z a\n2027-01-15T10:30:00.5+01:00 b\n2027-01-15T04:00:00-06:00 c\n"
    written(path, lines, at_s + 9000)
    assert since(path, at_s).count(b"\n") == 3
    assert since(path, at_s + 1).startswith(b"2027-01-15T10:30")
    assert since(path, at_s + 5401).startswith(b"2027-01-15T04:00")


def test_many_lines_of_all_lengths(path: Path) -> None:
    """Stamps stand at all places of the blocks that are read."""
    lines = []
    for number in range(3000):
        lines.append(stamped(NOW_S - 3000 + number) + b"y" * (number * 7 % 300) + b"\n")
    written(path, b"".join(lines), NOW_S)
    for number in range(0, 3000, 41):
        assert since(path, NOW_S - 3000 + number) == b"".join(lines[number:]), number


def test_parts_that_were_written_before_are_left_out(path: Path) -> None:
    written(path.with_name("u.1.log.1"), b"no stamps\n", NOW_S - 100)
    written(path, b"none here either\n", NOW_S)
    assert since(path, NOW_S - 101) == b"no stamps\nnone here either\n"
    assert since(path, NOW_S - 99) == b"none here either\n"
    assert since(path, NOW_S + 1) == b""


def test_what_follows_the_last_stamp_is_shown_when_the_file_is_new_enough(path: Path) -> None:
    old = stamped(NOW_S - 500)
    written(path, stamped(NOW_S - 900) + old + b"Traceback\n  more\n", NOW_S)
    assert since(path, NOW_S - 60) == old + b"Traceback\n  more\n"


def test_what_is_no_time_is_no_stamp(path: Path) -> None:
    text = b"99/99/99 99:99:99 x\n2027-02-31 10:00:00 x\n2027-01-15T08:00:00+99:99 x\n x 26/01/01 10:00:00\n"
    written(path, text, NOW_S)
    assert since(path, NOW_S - 1) == text


def test_both_the_later_begin_counts(path: Path) -> None:
    lines = [stamped(NOW_S - 10 + number) for number in range(10)]
    written(path, b"".join(lines), NOW_S)
    assert all_of(path, LogStart(tail=2, since_at_s=NOW_S - 5)) == b"".join(lines[-2:])
    assert all_of(path, LogStart(tail=9, since_at_s=NOW_S - 5)) == b"".join(lines[-5:])


def test_a_search_among_lines_without_stamps_is_bounded(path: Path, monkeypatch: Any) -> None:
    monkeypatch.setattr(log_stamps, "SINCE_MAX_BYTES", 1_000_000)
    written(path, b"no stamp\n" * 1_000_000, NOW_S)
    read = counted_reads(monkeypatch)
    with open_parts(path) as parts:
        assert parts.position(LogStart(since_at_s=NOW_S - 1)) == BEGIN
    assert sum(read) <= 1_100_000


@pytest.mark.parametrize("fake", [b"99/99/99 99:99:99\n", b"2027-02-31T10:00:00+99:99\n"])
def test_a_search_among_text_that_only_looks_like_stamps_is_bounded(
    path: Path, monkeypatch: Any, fake: bytes
) -> None:
    """Each of them costs far more than the byte that is read: a request would take seconds of the processor."""
    written(path, stamped(NOW_S - 900) + fake * (8 * 2**20 // len(fake)), NOW_S)
    judged = 0
    real = log_stamps._instant

    def counted(match: Any) -> float | None:
        nonlocal judged
        judged += 1
        return real(match)

    monkeypatch.setattr(log_stamps, "_instant", counted)
    read = counted_reads(monkeypatch)
    with open_parts(path) as parts:
        assert parts.position(LogStart(since_at_s=NOW_S - 1)) == BEGIN
    assert judged <= log_stamps.STAMPS_MAX and sum(read) <= log_stamps.SINCE_MAX_BYTES


def test_a_log_of_a_driver_is_searched_by_halves(path: Path, monkeypatch: Any) -> None:
    lines = [stamped(NOW_S - 100_000 + number) + b"  more\n" for number in range(100_000)]
    written(path, b"".join(lines), NOW_S)
    read = counted_reads(monkeypatch)
    with open_parts(path) as parts:
        position = parts.position(LogStart(since_at_s=NOW_S - 777))
    assert position.offset == len(b"".join(lines[:-777]))
    assert sum(read) < 2 * 2**20, "of more than three million bytes"


# -- cursors ----------------------------------------------------------------------------------------------------------


class Follower:
    """A client that keeps a cursor and nothing else."""

    def __init__(self, path: Path) -> None:
        self.path, self.text, self.cursor, self.lost = path, b"", "", 0

    def poll(self, max_bytes: int = 1 << 20) -> None:
        with open_parts(self.path) as parts:
            position = parts.find(self.cursor) if self.cursor else BEGIN
            self.lost += position is None
            text, end = parts.read(position or BEGIN, max_bytes)
            self.text, self.cursor = self.text + text, parts.cursor(end)


def test_following_over_rotations_loses_and_repeats_nothing(path: Path) -> None:
    file, whole = RotatedFile(str(path), max_bytes=1000, keep=3), b""
    follower = Follower(path)
    file.write(b"")
    for number in range(300):
        line = f"{number:06} {'x' * (number % 50)}\n".encode()
        file.write(line)
        whole += line
        if number % 7 == 0:
            follower.poll(max_bytes=400)
            follower.poll()
    follower.poll()
    assert follower.text == whole and follower.lost == 0


def test_a_file_that_is_gone_is_said_and_the_oldest_comes_next(path: Path) -> None:
    path.write_bytes(b"old\n")
    follower = Follower(path)
    follower.poll()
    path.unlink()
    path.write_bytes(b"new\n" * 10)  # it may have the inode of the old one
    follower.poll()
    assert follower.text == b"old\n" + b"new\n" * 10 and follower.lost == 1


def test_a_file_that_was_emptied(path: Path) -> None:
    path.write_bytes(b"old and long\n")
    follower = Follower(path)
    follower.poll()
    os.truncate(path, 0)
    path.write_bytes(b"new\n")
    follower.poll()
    assert follower.text == b"old and long\nnew\n" and follower.lost == 1


# -- what a job puts in the way ---------------------------------------------------------------------------------------


def link_to_a_secret(path: Path) -> None:
    secret = path.parents[2] / "token"
    secret.write_text("hunter2")
    path.symlink_to(secret)


def directory_that_is_a_link(path: Path) -> None:
    elsewhere = path.parents[2] / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / path.name).write_text("hunter2")
    path.parent.rmdir()
    path.parent.symlink_to(elsewhere)


def rotated_link(path: Path) -> None:
    path.write_text("fine\n")
    link_to_a_secret(path.with_name("u.1.log.1"))


def a_socket(path: Path) -> None:
    here = os.getcwd()
    os.chdir(path.parent)
    try:
        with socket.socket(socket.AF_UNIX) as listening:
            listening.bind(path.name)
    finally:
        os.chdir(here)


ATTACKS = (
    link_to_a_secret,
    directory_that_is_a_link,
    rotated_link,
    a_socket,
    lambda path: os.mkfifo(path),
    lambda path: path.mkdir(),
    lambda path: path.symlink_to(path),
)


@pytest.mark.parametrize("attack", ATTACKS)
def test_what_is_no_file_of_the_shim_is_neither_read_nor_waited_for(
    path: Path, attack: Callable[[Path], None]
) -> None:
    attack(path)
    said: list[BaseException | bytes] = []

    def read() -> None:
        try:
            said.append(all_of(path))
        except Exception as error:
            said.append(error)

    thread = threading.Thread(target=read, daemon=True)
    thread.start()
    thread.join(20)
    assert not thread.is_alive(), "it waits"
    assert isinstance(said[0], SupervisorError), said
    assert "is not read" in str(said[0]) and "hunter2" not in str(said[0])


def test_the_log_directory_itself_may_be_a_link(path: Path) -> None:
    path.write_text("fine\n")
    other = path.parents[2] / "var"
    other.symlink_to(path.parents[1])
    assert all_of(other / "clicks" / path.name) == b"fine\n"


def test_no_descriptor_is_left_open(path: Path) -> None:
    path.with_name("u.1.log.1").write_text("x")
    os.mkfifo(path)
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(5):
        with pytest.raises(SupervisorError):
            all_of(path)
    path.unlink()
    all_of(path)
    assert len(os.listdir("/proc/self/fd")) == before


def test_what_this_user_may_not_read(path: Path, monkeypatch: Any) -> None:
    path.write_text("x")

    def refused(folder: int, name: str) -> int:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(log_parts, "open_file", refused)
    with pytest.raises(SupervisorError, match=r"may not read .*u\.1\.log; ask as the user of the supervisor"):
        all_of(path)


def test_the_current_file_is_left_where_the_pieces_end(path: Path) -> None:
    path.with_name("u.1.log.1").write_bytes(b"old\n")
    path.write_bytes(b"new\n")
    with open_parts(path) as parts:
        assert b"".join(parts.pieces(BEGIN)) == b"old\nnew\n"
        assert following(parts, path) == b"more\n"
    path.unlink()
    with open_parts(path) as parts:
        assert parts.take_current() is None


def following(parts: LogParts, path: Path) -> bytes:
    with path.open("ab") as file:
        file.write(b"more\n")
    current = parts.take_current()
    assert current is not None
    with current:
        return current.read()
