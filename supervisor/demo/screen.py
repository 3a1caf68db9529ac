"""Prints the story of ``demo`` as steps, commands, what happened and when, and a line that changes during a
wait.

On a terminal the waiting line is rewritten in place and there are colours; anywhere else everything is plain
lines, and a wait prints a line now and then. Text is wrapped to the width of the screen. The module knows
nothing of the story.
"""

from __future__ import annotations

import os
import shutil
import sys
import textwrap
import time
from collections.abc import Callable
from typing import Final, TextIO

from supervisor.cli.output import clean

PLAIN_WIDTH: Final = 100
WIDTH_MIN: Final = 32
WIDTH_MAX: Final = 110
REDRAW_S: Final = 0.1
QUIET_S: Final = 4.0
"""Without a terminal, a wait prints a line at most this often."""

_BOLD, _DIM, _GREEN, _RED, _CYAN = "1", "2", "32", "31", "36"
_TEXT, _EVENT, _VERDICT = "  ", " " * 10, " " * 12


class Screen:
    """Prints to ``stream``, or to stdout if it is None. ``now_s`` is a clock that only goes forward; printed
    times count from the start on."""

    def __init__(self, stream: TextIO | None = None, now_s: Callable[[], float] = time.monotonic) -> None:
        self._stream = sys.stdout if stream is None else stream
        self._on_terminal = self._stream.isatty() and os.environ.get("TERM") != "dumb"
        self._colours = self._on_terminal and not os.environ.get("NO_COLOR")
        self._now_s = now_s
        self._began_at_s = now_s()
        self._living = False
        self._said_at_s = self._began_at_s

    @property
    def width(self) -> int:
        if not self._on_terminal:
            return PLAIN_WIDTH
        return max(WIDTH_MIN, min(WIDTH_MAX, shutil.get_terminal_size((PLAIN_WIDTH, 40)).columns - 1))

    def title(self, text: str) -> None:
        self._line(text, _BOLD)

    def step(self, number: int, of: int, text: str) -> None:
        self._line("")
        self._line(f"{number}/{of}  {text}", _BOLD)

    def text(self, text: str) -> None:
        """Prints a paragraph."""
        for line in self._wrapped(text, _TEXT, _TEXT):
            self._line(line)

    def why(self, text: str) -> None:
        """Prints why what was seen matters."""
        for line in self._wrapped(text, f"{_TEXT}=> ", f"{_TEXT}   "):
            self._line(line, _CYAN)

    def command(self, text: str) -> None:
        """Prints what one would type. It is not wrapped, because it is there to be copied."""
        self._line(f"{_TEXT}$ {text}", _BOLD)

    def output(self, text: str) -> None:
        """Prints what a command printed."""
        for line in text.splitlines():
            shown = f"{_TEXT}  {clean(line)}"
            self._line(shown[: self.width] if self._on_terminal else shown)

    def event(self, text: str) -> None:
        """Prints what happened now."""
        for number, line in enumerate(self._wrapped(text, self._stamp(), _EVENT)):
            self._line(
                line if number else f"{self._coloured(line[: len(_EVENT)], _DIM)}{line[len(_EVENT) :]}"
            )

    def live(self, text: str) -> None:
        """Prints how things are during a wait; the next line of any kind replaces it."""
        now_s = self._now_s()
        if self._on_terminal:
            if now_s - self._said_at_s >= REDRAW_S:
                line = f"{self._stamp()}{clean(text)}"[: self.width]
                self._write(f"\r\033[K{self._coloured(line, _DIM)}")
                self._living, self._said_at_s = True, now_s
        elif now_s - self._said_at_s >= QUIET_S:
            self._line(f"{self._stamp()}... {text}")

    def verdict(self, ok: bool | None, text: str) -> None:
        """Prints one line of the summary. If ``ok`` is None, the story ended before this point."""
        word, colour = {True: ("ok", _GREEN), False: ("FAILED", _RED), None: ("not seen", _DIM)}[ok]
        first, *rest = self._wrapped(text, _VERDICT, _VERDICT)
        self._line(f"{_TEXT}{self._coloured(word, colour)}{first[len(_TEXT) + len(word) :]}")
        for line in rest:
            self._line(line)

    def _stamp(self) -> str:
        return f"{self._now_s() - self._began_at_s:6.1f} s  "

    def _wrapped(self, text: str, first: str, others: str) -> list[str]:
        wrapped = textwrap.wrap(
            clean(text),
            self.width,
            initial_indent=first,
            subsequent_indent=others,
            break_long_words=False,
            break_on_hyphens=False,
        )
        return wrapped or [""]

    def _line(self, text: str, colour: str | None = None) -> None:
        erase = "\r\033[K" if self._living else ""
        self._living, self._said_at_s = False, self._now_s()
        self._write(f"{erase}{self._coloured(text, colour)}\n")

    def _coloured(self, text: str, code: str | None) -> str:
        return f"\033[{code}m{text}\033[0m" if self._colours and code and text else text

    def _write(self, text: str) -> None:
        self._stream.write(text)
        self._stream.flush()
