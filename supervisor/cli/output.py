"""What goes to the screen: one JSON document, or plain columns; notices and errors on stderr.

Called by every command. Text that came from an application or a record may hold control characters: they never reach
the terminal. Colours only where a person looks.
"""

from __future__ import annotations

import json
import shutil
import sys
import time
from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Any

_COLOURS = {
    "running": "32", "finished": "32", "failed": "31", "quarantined": "31", "backoff": "33", "pending": "33",
    "stopping": "36", "starting": "36",
}


def say(line: str) -> None:
    print(clean(line))


def notice(line: str) -> None:
    """Something that the user should know and a script should not read."""
    print(clean(line), file=sys.stderr)


def say_json(document: Any) -> None:
    print(json.dumps(document, indent=2))


def say_table(head: Sequence[str], rows: Iterable[Sequence[Any]], *, colour_column: int | None = None) -> None:
    """Columns two spaces apart; the last one takes what is left of a terminal's width."""
    cells = [[clean(_text(cell)) for cell in row] for row in rows]
    widths = [max(len(line[n]) for line in [list(head), *cells]) for n in range(len(head))]
    on_screen = sys.stdout.isatty()
    room = shutil.get_terminal_size((160, 40)).columns - sum(widths[:-1]) - 2 * (len(widths) - 1)
    for number, line in enumerate([list(head), *cells]):
        last = _cut(line[-1], max(20, room)) if on_screen else line[-1]
        padded = [text.ljust(width) for text, width in zip(line[:-1], widths[:-1], strict=True)]
        if on_screen and number and colour_column is not None:
            padded[colour_column] = _coloured(padded[colour_column], line[colour_column])
        print("  ".join([*padded, last]).rstrip())


def clean(text: str) -> str:
    """``text`` without control characters."""
    return "".join(char if char.isprintable() else " " for char in text)


def age(iso: str | None) -> str:
    """How long ago (or until) an ISO 8601 time is, in its largest unit: ``42s``, ``5m``, ``3h``, ``2d``."""
    try:
        passed_s = abs(time.time() - datetime.fromisoformat(iso or "").timestamp())
    except ValueError:
        return "-"
    for unit, length_s in (("d", 86_400), ("h", 3600), ("m", 60)):
        if passed_s >= 2 * length_s:
            return f"{int(passed_s // length_s)}{unit}"
    return f"{int(passed_s)}s"


def _text(cell: Any) -> str:
    return "-" if cell is None or cell == "" else str(cell)


def _cut(text: str, width: int) -> str:
    return text if len(text) <= width else text[: width - 1] + "…"


def _coloured(text: str, word: str) -> str:
    code = _COLOURS.get(word)
    return f"\033[{code}m{text}\033[0m" if code else text
