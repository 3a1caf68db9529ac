"""The demo's screen: plain lines for a file, one line that lives for a terminal, and never wider than it."""

from __future__ import annotations

import io
import os
import re

import pytest

from supervisor.demo.screen import Screen

LONG = "one of them leads and decides what runs where, and the other one is ready to take over at any moment of the day"


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


class Clock:
    def __init__(self) -> None:
        self.now_s = 0.0

    def __call__(self) -> float:
        return self.now_s


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> Terminal:
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setattr("shutil.get_terminal_size", lambda fallback=(0, 0): os.terminal_size((50, 20)))
    return Terminal()


def everything(screen: Screen) -> None:
    screen.title("title")
    screen.step(1, 6, "step")
    screen.text(LONG)
    screen.event(LONG)
    screen.why(LONG)
    screen.verdict(True, LONG)
    screen.verdict(False, LONG)
    screen.verdict(None, LONG)
    screen.output(LONG)


def plain(text: str) -> str:
    return re.sub(r"\033\[[0-9;]*m", "", text)


def test_a_file_gets_plain_lines() -> None:
    stream = io.StringIO()
    everything(Screen(stream, Clock()))
    assert "\033" not in stream.getvalue() and "\r" not in stream.getvalue()
    assert "  ok        one of them" in stream.getvalue() and "   0.0 s  one of" in stream.getvalue()


def test_a_narrow_terminal_is_not_overrun(terminal: Terminal) -> None:
    everything(Screen(terminal, Clock()))
    assert "\033[32m" in terminal.getvalue() and "\033[31m" in terminal.getvalue()
    assert max(len(line) for line in plain(terminal.getvalue()).splitlines()) < 50


def test_the_waiting_line_is_rewritten_and_then_replaced(terminal: Terminal) -> None:
    clock = Clock()
    screen = Screen(terminal, clock)
    for _ in range(3):
        clock.now_s += 0.06
        screen.live("x" * 200)
    screen.event("done")
    written = plain(terminal.getvalue())
    assert written.count("\n") == 1 and written.count("xxx") > 0
    assert terminal.getvalue().count("\r\033[K") == 2  # one redraw in 0.18 s, and its removal
    assert all(len(part) < 50 for part in plain(written).split("\r\033[K"))


def test_a_file_hears_of_a_wait_now_and_then() -> None:
    stream, clock = io.StringIO(), Clock()
    screen = Screen(stream, clock)
    for _ in range(100):
        clock.now_s += 0.1
        screen.live("waiting")
    assert stream.getvalue().count("... waiting\n") == 2


def test_control_characters_do_not_reach_it() -> None:
    stream = io.StringIO()
    screen = Screen(stream, Clock())
    screen.event("\033[2J boom")
    screen.output("\033[2J boom\x07")
    assert "boom" in stream.getvalue() and "\033" not in stream.getvalue() and "\x07" not in stream.getvalue()


def test_no_colours_where_none_are_wanted(terminal: Terminal, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    everything(Screen(terminal, Clock()))
    assert "\033[3" not in terminal.getvalue()
