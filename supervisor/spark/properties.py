"""Reads and writes Java's properties format, in which Spark takes its configuration: ``spark-defaults.conf``
and ``--properties-file``.

Pure. The rules are those of ``java.util.Properties.load``: escapes, continued lines, and ``=``, ``:`` or a
space after the key.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

_ESCAPES: Final = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}
_WRITTEN: Final = {"\\": "\\\\", "\t": "\\t", "\n": "\\n", "\r": "\\r", "\f": "\\f"}
_KEY: Final = re.compile(r"(?:\\.|[^\\=:\s])*", re.DOTALL)
_SEPARATOR: Final = re.compile(r"[ \t\f]*[=:]?[ \t\f]*")
_ESCAPED: Final = re.compile(r"\\(u[0-9A-Fa-f]{4}|.)", re.DOTALL)
_HALF: Final = re.compile(r"[\ud800-\udbff][\udc00-\udfff]")


def parse_properties(text: str) -> dict[str, str]:
    """Parses a text. If a key is given twice, the last value counts. Malformed text is read as leniently as
    Java reads it."""
    found: dict[str, str] = {}
    for line in _logical_lines(text):
        match = _KEY.match(line)
        key = match[0] if match else ""
        rest = line[len(key) :]
        separator = _SEPARATOR.match(rest)
        found[_unescaped(key)] = _unescaped(rest[separator.end() :] if separator else rest)
    return found


def render_properties(properties: Mapping[str, str]) -> str:
    """Returns one line per property, in ASCII, sorted by key; ``parse_properties`` reads the same mapping
    back."""
    return "".join(
        f"{_escaped(key, in_key=True)}={_escaped(properties[key])}\n" for key in sorted(properties)
    )


def _logical_lines(text: str) -> list[str]:
    """Returns the lines without comments and blank lines; a line that ends in an odd number of backslashes is
    continued in the next."""
    lines: list[str] = []
    pending: str | None = None
    for raw in re.split(r"\r\n|\r|\n", text):
        line = raw.lstrip(" \t\f")
        if pending is None and (not line or line[0] in "#!"):
            continue
        joined = (pending or "") + line
        trailing = len(line) - len(line.rstrip("\\"))
        if trailing % 2:
            pending = joined[:-1]
        else:
            lines.append(joined)
            pending = None
    if pending is not None:
        lines.append(pending)
    return lines


def _unescaped(text: str) -> str:
    def replaced(match: re.Match[str]) -> str:
        what = match[1]
        return chr(int(what[1:], 16)) if len(what) == 5 else _ESCAPES.get(what, what)

    units = _ESCAPED.sub(replaced, text)
    return _HALF.sub(lambda pair: pair[0].encode("utf-16", "surrogatepass").decode("utf-16"), units)


def _escaped(text: str, *, in_key: bool = False) -> str:
    written = "".join(_escaped_char(char, in_key=in_key) for char in text)
    # Java drops blanks before a value unless the first is escaped.
    return f"\\{written}" if written[:1] == " " else written


def _escaped_char(char: str, *, in_key: bool) -> str:
    if char in _WRITTEN:
        return _WRITTEN[char]
    if in_key and char in "=: #!":
        return f"\\{char}"
    if " " <= char <= "~":
        return char
    units = char.encode("utf-16-be", "surrogatepass").hex()
    return "".join(f"\\u{units[at : at + 4]}" for at in range(0, len(units), 4))
