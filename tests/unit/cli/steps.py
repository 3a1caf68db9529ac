"""Has something happen between two steps of a command that runs in this process."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

Steps = dict[str, tuple[Any, str]]
"""Maps the name of a step to the function that takes it: whose attribute, and its name."""
Moment = tuple[str, bool]
"""Is before a step, or after it (True)."""


def moments_of(steps: Steps) -> list[Moment]:
    return [(step, is_after) for step in steps for is_after in (False, True)]


def happens_at(
    patch: pytest.MonkeyPatch, steps: Steps, moment: Moment, other: Callable[[], object]
) -> list[Moment]:
    """Has ``other`` happen once, at ``moment`` of the next command. Returns a list that has the moment once it came."""
    (owner, name), is_after = steps[moment[0]], moment[1]
    whole, came = getattr(owner, name), []

    def step(*given: Any, **more: Any) -> Any:
        if came:
            return whole(*given, **more)
        came.append(moment)
        if not is_after:
            other()
        done = whole(*given, **more)
        if is_after:
            other()
        return done

    patch.setattr(owner, name, step)
    return came
