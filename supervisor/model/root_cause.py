"""Cuts a text that says why something failed, so that what it fails of in the end stays. Pure.

An error is often wrapped in others, and what wraps comes first: a text that is simply cut may end before its cause. The
bootstrap puts the cause first where Spark or Java wrap it (``<cause> | <all of it>``); elsewhere it follows ``Caused by:``,
or ``(caused by …)`` where Python has chained exceptions.

Where a text is too long, its long paths are the first to be cut, in their middle: what is said of a path follows it.

Each text of that kind goes through ``cause_text``: the reason of a tombstone, the history, the error of a query, events and
notifications.
"""

from __future__ import annotations

import re
from typing import Final

from supervisor.model.records import clip
from supervisor.model.secret_words import covered

WHOLE_FOLLOWS: Final = " | "
"""What stands before it is the cause, what follows is the whole text once more."""
_UNCUT: Final = 1 << 30
PATH_MAX: Final = 60
_PATH: Final = re.compile(r"(?:/[^\s/'\"]+){6,}")
_ROOT: Final = re.compile(r"Caused by: (?!py4j\.)|\(caused by ")


def cause_text(text: str, max_bytes: int) -> str:
    """Returns ``text`` on one line without secrets, cut to at most ``max_bytes`` of UTF-8. Its beginning and its root cause
    are kept."""
    line = clip(covered(text), _UNCUT)
    if len(line.encode()) <= max_bytes:
        return line
    line = _PATH.sub(_ends_of_path, line)
    root = _root(line)
    cut = clip(line, max_bytes)
    if not root or root[: max_bytes // 4] in cut:
        return cut
    kept = clip(root, max_bytes // 2)
    return f"{clip(line, max_bytes - len(kept.encode()) - 1)} {kept}"


def _ends_of_path(found: re.Match[str]) -> str:
    """Returns a path with its first two and its last two names: what lies between tells least of what is wrong with it."""
    path = found[0]
    names = path.split("/")
    return path if len(path) <= PATH_MAX else "/".join((*names[:3], "…", *names[-2:]))


def _root(line: str) -> str:
    """Returns the innermost error of ``line`` with the words that announce it; an empty text if there is none."""
    found = list(_ROOT.finditer(line.partition(WHOLE_FOLLOWS)[0]))
    return line[found[-1].start() :].partition(WHOLE_FOLLOWS)[0] if found else ""
