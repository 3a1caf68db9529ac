"""Shows how far a long listing or copy is: a bar if stderr is a terminal; a pipe gets nothing.

Called by ``checkpoint``, ``savepoint``, ``submit`` and ``with_savepoint``.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from supervisor.cli.output import drawing_on_terminal


@contextmanager
def counting() -> Iterator[Callable[[int], None]]:
    """Gives a function that is called with the number of objects that were listed since its last call."""
    if not sys.stderr.isatty():
        yield lambda _count: None
        return
    with drawing_on_terminal().counting_bar() as report_progress:
        yield report_progress


@contextmanager
def progress(what: str) -> Iterator[Callable[[int, int], None]]:
    """Gives a function that is called with how many of how many objects are done."""
    if not sys.stderr.isatty():
        yield lambda _done, _of: None
        return
    with drawing_on_terminal().share_bar(what) as report_progress:
        yield report_progress
