"""``logs``: the files of this host, over rotations and attempts, and where to look for the others."""

from __future__ import annotations

import os
import pty
import subprocess
import sys
import threading
import tty
from collections.abc import Callable
from pathlib import Path

import pytest

from supervisor.cli import logs
from supervisor.cli.logs import harmless
from supervisor.model.records import OwnState, with_entry
from supervisor.operations.log_parts import OutputUnusable
from supervisor.shim.output import RotatedFile
from tests.fakes.registry_bench import AT
from tests.unit.cli.conftest import Terminal, replace_sleep
from tests.waiting import wait_until


def output_of(terminal: Terminal, uid: str, attempt: int = 1) -> Path:
    path = terminal.home / "log" / "a" / f"{uid}.{attempt}.log"
    path.parent.mkdir(parents=True, exist_ok=True)
    return path


@pytest.fixture
def uid(terminal: Terminal) -> str:
    """A job whose first attempt runs on this supervisor."""
    uid = terminal.submit("a")
    terminal.bench.run("a")
    return uid


def test_the_latest_attempt_over_its_rotated_files_as_the_shim_writes_them(
    terminal: Terminal, uid: str
) -> None:
    file = RotatedFile(str(output_of(terminal, uid)), max_bytes=10, keep=12)
    lines = [f"line {number:03}\n" for number in range(25)]
    for line in lines:
        file.write(line.encode())
    file.close()
    ran = terminal.run("logs", "a")
    assert ran.code == 0
    assert ran.out == "".join(lines[-len(ran.out.splitlines()) :]) and len(ran.out.splitlines()) > 10


@pytest.mark.parametrize(
    ("raw", "printed"),
    [(True, b"gr\xc3\xbc\xc3\x9fe \x1b[2J\xff\n"), (False, b"gr\xc3\xbc\xc3\x9fe \\x1b[2J\xef\xbf\xbd\n")],
)
def test_in_a_pipe_bytes_are_printed_as_they_were_written_if_asked_for(
    terminal: Terminal, uid: str, raw: bool, printed: bytes
) -> None:
    """Behind a pipe is a terminal, most often: `logs clicks | grep ERROR` passed what it obeys."""
    output_of(terminal, uid).write_bytes(b"gr\xc3\xbc\xc3\x9fe \x1b[2J\xff\n")
    call = [
        sys.executable,
        "-c",
        f"from supervisor.cli.logs import write_output; from pathlib import Path; "
        f"write_output(iter([Path({str(output_of(terminal, uid))!r}).read_bytes()]), raw={raw})",
    ]
    assert subprocess.run(call, capture_output=True, check=True).stdout == printed


def test_the_option_for_bytes_as_they_are(terminal: Terminal, uid: str) -> None:
    output_of(terminal, uid).write_bytes(b"red \x1b[31mtext\n")
    assert terminal.run("logs", "a").out == "red \\x1b[31mtext\n"
    assert terminal.run("logs", "a", "--raw").out == "red \x1b[31mtext\n"


def test_escape_sequences_of_a_driver_do_not_reach_a_terminal(tmp_path: Path) -> None:
    wrote = b"red \x1b[31mtext\x1b[0m\n\x1b]52;c;cHduZWQ=\x07\ttab\r\n\x9b31m \xc2\x9b5n gr\xc3\xbc\xc3\x9fe \xe2\x80\xae \xff\x08\n"
    file = tmp_path / "driver.log"
    file.write_bytes(wrote)
    script = f"from supervisor.cli.logs import write_output; from pathlib import Path; write_output(iter([Path({str(file)!r}).read_bytes()]))"
    ours, theirs = pty.openpty()
    try:
        tty.setraw(theirs)
        subprocess.run([sys.executable, "-c", script], stdout=theirs, check=True)
        got = os.read(ours, 65536).decode()
    finally:
        os.close(ours)
        os.close(theirs)
    assert all(char.isprintable() or char in "\n\t" for char in got), ascii(got)
    assert "red " in got and "\n" in got and "\ttab" in got and "gr\u00fc\u00dfe" in got


def test_a_character_that_is_split_between_pieces_is_whole_on_a_terminal() -> None:
    assert (
        "".join(harmless([b"gr\xc3", b"\xbc\xc3\x9f", b"e \x1b", b"[2J\xc2"]))
        == "gr\u00fc\u00dfe \\x1b[2J\ufffd"
    )


def test_one_document(terminal: Terminal, uid: str) -> None:
    output_of(terminal, uid).write_text("hello\n")
    ran = terminal.run("logs", "a", "-o", "json")
    assert ran.json == {
        "name": "a",
        "uid": uid,
        "attempt": 1,
        "path": str(output_of(terminal, uid)),
        "source": "host",
        "uploaded_until": None,
        "output": "hello\n",
    }
    assert terminal.run("logs", "a", "-f", "-o", "json").code == 2


def test_an_earlier_attempt(terminal: Terminal, uid: str) -> None:
    output_of(terminal, uid, 1).write_text("first\n")
    output_of(terminal, uid, 2).write_text("second\n")
    terminal.bench.set_own("a", OwnState.CLAIMED, attempt=2)
    assert terminal.run("logs", "a").out == "second\n"
    assert terminal.run("logs", "a", "--attempt", "1").out == "first\n"
    ran = terminal.run("logs", "a", "--attempt", "3")
    assert (
        ran.code == 3
        and "a has had no attempt 3: its latest is 2" in ran.err
        and "kept here is that of attempt 1, 2" in ran.err
    )


def test_after_a_cancel_the_last_attempt_is_still_shown(terminal: Terminal, uid: str) -> None:
    output_of(terminal, uid).write_text("bye\n")
    terminal.run("cancel", "a")
    assert terminal.run("logs", "a").out == "bye\n"


def test_another_host_is_named_with_the_path(terminal: Terminal, uid: str) -> None:
    terminal.config.write_text(terminal.config.read_text().replace("id: host-a", "id: host-b"))
    ran = terminal.run("logs", "a")
    assert (ran.code, ran.out) == (1, "")
    assert (
        "runs on host-a.example, whose supervisor host-a is not connected" in ran.err
        and str(output_of(terminal, uid)) in ran.err
    )
    assert "ssh host-a.example spark-supervisor logs a --attempt 1" in ran.err


def test_another_supervisor_of_this_host_says_where_its_logs_are(terminal: Terminal, uid: str) -> None:
    there = terminal.home / "elsewhere" / "a" / f"{uid}.1.log"
    terminal.bench.join("host-a", log_dir=str(terminal.home / "elsewhere"))
    terminal.config.write_text(terminal.config.read_text().replace("id: host-a", "id: host-b"))
    assert str(there) in terminal.run("logs", "a").err
    there.parent.mkdir(parents=True)
    there.write_text("hello\n")
    assert terminal.run("logs", "a").out == "hello\n"


def test_an_earlier_attempt_on_another_host_is_named_by_its_supervisor(terminal: Terminal, uid: str) -> None:
    history = with_entry((), AT, "claimed", 1, "host-z")
    terminal.bench.set_own("a", OwnState.CLAIMED, attempt=2, history=history)
    ran = terminal.run("logs", "a", "--attempt", "1")
    assert ran.code == 1 and "ran on host-z" in ran.err and "ssh" not in ran.err


def test_nothing_yet(terminal: Terminal) -> None:
    terminal.submit("a")
    ran = terminal.run("logs", "a")
    assert ran.code == 1 and "has had no attempt yet" in ran.err
    terminal.bench.run("a")
    ran = terminal.run("logs", "a")
    assert ran.code == 1 and "has written nothing yet" in ran.err


# -- following --------------------------------------------------------------------------------------------------------


class Reader(threading.Thread):
    """Collects what ``_tail`` yields."""

    def __init__(self, path: Path, is_over: Callable[[], bool]) -> None:
        super().__init__(daemon=True)
        self.text = b""
        self._pieces = logs._tail(path, is_over)
        self.start()

    def run(self) -> None:
        for piece in self._pieces:
            self.text += piece


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(logs, "PERIOD_S", 0.01)
    monkeypatch.setattr(logs, "ASK_EVERY_S", 0.0)


@pytest.mark.usefixtures("quick")
def test_following_over_a_rotation_loses_nothing(tmp_path: Path) -> None:
    path, over = tmp_path / "x.log", threading.Event()
    reader = Reader(path, over.is_set)  # the file is not there yet
    path.write_text("1\n")
    wait_until(lambda: reader.text == b"1\n", what="the first line")
    with path.open("a") as file:
        file.write("2\n")
    os.replace(path, f"{path}.1")
    path.write_text("3\n")
    wait_until(lambda: reader.text == b"1\n2\n3\n", what="the line after the rotation")
    with path.open("a") as file:
        file.write("4\n")
    over.set()
    reader.join(10)
    assert reader.text == b"1\n2\n3\n4\n"


def test_following_does_not_go_over_a_link_that_is_there_after_a_rotation(tmp_path: Path) -> None:
    log, secret = tmp_path / "a" / "u.1.log", tmp_path / "secret"
    log.parent.mkdir()
    log.write_bytes(b"1\n")
    secret.write_text("of whoever follows")
    followed = logs._tail(log, lambda: False)
    assert next(followed) == b"1\n"
    (tmp_path / "link").symlink_to(secret)
    (tmp_path / "link").rename(log)
    with pytest.raises(OutputUnusable, match="is a symbolic link or no regular file"):
        next(followed)


@pytest.mark.usefixtures("quick")
def test_following_goes_on_with_the_next_attempt_and_ends_with_the_job(
    terminal: Terminal,
    uid: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    output_of(terminal, uid, 1).write_text("first\n")
    story = iter(("second attempt", "cancel"))

    def next_chapter(_seconds: float) -> None:
        chapter = next(story, "")
        if chapter == "second attempt":
            output_of(terminal, uid, 2).write_text("second\n")
            terminal.bench.set_own("a", OwnState.CLAIMED, attempt=2)
        elif chapter == "cancel":
            terminal.bench.commands().cancel("a")

    replace_sleep(monkeypatch, logs, next_chapter)
    ran = terminal.run("logs", "a", "-f")
    assert (ran.code, ran.out) == (0, "first\nsecond\n")
    assert "attempt 2" in ran.err


@pytest.mark.usefixtures("quick")
def test_following_to_another_host_ends_with_its_name(
    terminal: Terminal,
    uid: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    output_of(terminal, uid, 1).write_text("first\n")
    terminal.config.write_text(terminal.config.read_text().replace("id: host-a", "id: host-b"))
    move = lambda _seconds: terminal.bench.set_own("a", OwnState.CLAIMED, attempt=2)  # noqa: E731
    replace_sleep(monkeypatch, logs, move)
    ran = terminal.run("logs", "a", "-f")
    assert (ran.code, ran.out) == (
        1,
        "first\n",
    ) and "runs on host-a.example, whose supervisor host-a is not connected" in ran.err
