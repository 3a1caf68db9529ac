"""The one way in which a test waits. Used by every test that has another process or thread to wait for."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


def wait_until(
    predicate: Callable[[], T | None], timeout_s: float = 30.0, what: str = "", *, period_s: float = 0.05
) -> T:
    """Poll ``predicate`` until it returns something true, and return that.

    An exception of the predicate ends the wait at once. Raises AssertionError that names ``what`` and the last value.
    """
    deadline_at_s = time.monotonic() + timeout_s
    while True:
        # decided before the look: a slow machine still gets a look at the end
        last = time.monotonic() >= deadline_at_s
        value = predicate()
        if value:
            return value
        if last:
            name = what or getattr(predicate, "__name__", "the condition")
            raise AssertionError(f"waited {timeout_s:g} s in vain for {name}; last value {value!r}")
        time.sleep(period_s)
