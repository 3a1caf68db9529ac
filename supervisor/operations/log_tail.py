"""Extracts the last lines that show why a driver ended, from the end of its output, for ``show``
(``operations.logs``).

It is pure but for reading the files, by the rules of ``operations.log_parts``.
"""

from __future__ import annotations

import re
from pathlib import Path

from supervisor.model.secret_words import covered
from supervisor.operations.log_parts import open_parts

TAIL_BYTES = 64 * 1024
FRAME_LINES = 6
"""This many lines of a traceback are kept: those of the innermost calls."""
ERROR_LINES = 3
JVM_FRAMES = 3
OTHER_LINES = 5
LINE_MAX_CHARS = 300
HEADER = "Traceback (most recent call last):"
_LOG_LINE = re.compile(r"\d\d/\d\d/\d\d \d\d:\d\d:\d\d [A-Z]+ |spark-supervisor: ")
_JVM_ERROR = re.compile(r"(?:Exception in thread \"[^\"]*\" |Caused by: )\S")


def read_tail(path: Path) -> str:
    """Returns the end of the output at ``path`` and of what was rotated away from it. Raises SupervisorError, OSError."""
    with open_parts(path) as parts:
        return parts.end(TAIL_BYTES).decode("utf-8", "replace")


def tail_lines(text: str) -> list[str]:
    """Returns the end of the last traceback of Python in ``text``, else the last error of the JVM, else the
    last lines.

    What looks like a secret is covered.
    """
    lines = text.splitlines()
    found = _of_python(lines) or _of_the_jvm(lines) or [line for line in lines if line.strip()][-OTHER_LINES:]
    return [_shown(line) for line in found]


def _shown(line: str) -> str:
    """Cuts the line before it covers secrets, and again after: a line can be as long as the file."""
    return covered(line[: 2 * LINE_MAX_CHARS].rstrip().expandtabs(4))[:LINE_MAX_CHARS]


def _of_python(lines: list[str]) -> list[str]:
    """Takes the innermost traceback: Spark quotes that of a Python worker behind its own."""
    begin = next((n for n in reversed(range(len(lines))) if lines[n].rstrip().endswith(HEADER)), None)
    if begin is None:
        return []
    end = begin + 1
    while end < len(lines) and lines[end].startswith((" ", "\t")):
        end += 1
    error: list[str] = []
    for line in lines[end : end + ERROR_LINES]:
        if not line.strip() or line.startswith("\t") or _LOG_LINE.match(line):
            break
        error.append(line)
    frames = lines[begin + 1 : end]
    kept = frames[-FRAME_LINES:]
    while kept and len(kept) < len(frames) and not kept[0].startswith("  File "):
        kept = kept[1:]
    return [HEADER, *(["  ..."] if len(kept) < len(frames) else []), *kept, *error]


def _of_the_jvm(lines: list[str]) -> list[str]:
    begin = next((n for n in reversed(range(len(lines))) if _JVM_ERROR.match(lines[n])), None)
    if begin is None:
        return []
    frames = []
    for line in lines[begin + 1 : begin + 1 + JVM_FRAMES]:
        if not line.startswith("\tat "):
            break
        frames.append(line)
    return [lines[begin], *frames]
