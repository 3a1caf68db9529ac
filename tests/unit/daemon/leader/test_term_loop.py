"""Whether a duty of a term may act, and the loop that repeats its step."""

from __future__ import annotations

import threading
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from supervisor.daemon.leader.term_loop import TermPermission, repeat
from supervisor.daemon.loops.error_boundary import ErrorBoundary
from supervisor.errors import NotLeader, SupervisorError, Unreachable


def term(**differs: object) -> Any:
    return SimpleNamespace(**{"over": threading.Event(), "distrust": None, "recorded": True, **differs})


def over() -> threading.Event:
    event = threading.Event()
    event.set()
    return event


@pytest.mark.parametrize(
    ("differs", "paused", "begins", "goes_on"),
    [
        ({}, False, True, True),
        ({"recorded": False}, False, False, True),
        ({"distrust": "another past"}, False, False, False),
        ({}, True, False, False),
        ({"over": over()}, False, True, False),
    ],
)
def test_when_a_duty_may_act(differs: dict[str, object], paused: bool, begins: bool, goes_on: bool) -> None:
    permission = TermPermission(term(**differs), lambda: paused)
    assert (permission.may_begin(), permission.may_go_on()) == (begins, goes_on)


class Steps:
    """Steps whose results are given; an error is raised. ``waits`` are the seconds that the loop waited before each."""

    def __init__(self, *results: float | Exception | None) -> None:
        self.results, self.waits = list(results), list[float | None]()
        self.term = term(over=self)

    def wait(self, seconds: float | None) -> bool:
        self.waits.append(seconds)
        return not self.results

    def step(self) -> float | None:
        result = self.results.pop(0)
        if isinstance(result, Exception):
            raise result
        return result

    def play(
        self, interrupted: Callable[[SupervisorError], float] | None = lambda _: 9.0
    ) -> list[float | None]:
        repeat(
            self.step,
            self.term,
            ErrorBoundary("tests"),
            every_s=1.0,
            interrupted=interrupted,
            first_after_s=5.0,
        )
        return self.waits


def test_each_step_says_when_the_next_one_comes() -> None:
    assert Steps(0.0, 3.0).play() == [5.0, 0.0, 3.0]
    assert Steps(None, 3.0).play() == [5.0]


def test_an_error_ends_its_step_alone_and_the_end_of_the_term_the_loop() -> None:
    assert Steps(Unreachable("away"), KeyError("a defect"), 2.0).play() == [5.0, 9.0, 1.0, 2.0]
    assert Steps(NotLeader("over"), 2.0).play() == [5.0]
    assert Steps(Unreachable("away"), 2.0).play(None) == [5.0, 1.0, 2.0]
