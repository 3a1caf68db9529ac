"""A term ends when its tasks have ended, however long the request takes that one of them is in."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from supervisor.coord.term import Term
from supervisor.daemon.leader import leader as module
from supervisor.daemon.leader.leader import Leader
from tests.fakes.zookeeper import MemoryClient, MemoryZoo
from tests.waiting import wait_until


class Loop:
    """Ends with its term, or, if it is ``stuck`` in a request, with that."""

    def __init__(self, term: Term[Any], stuck: threading.Event | None = None) -> None:
        self.wake = threading.Event()
        self.way_back = None
        self._term = term
        self._stuck = stuck

    def run(self) -> None:
        self._term.over.wait()
        if self._stuck is not None:
            self._stuck.wait()


class Stage:
    def __init__(self) -> None:
        client = MemoryClient(MemoryZoo())
        client.start()
        self.term: Term[Any] = Term(1, 0, client, 1000.0, depose=lambda why: None)
        self.answered = threading.Event()
        self.beats = 0
        self.done = threading.Event()
        made: Any = lambda term, *_: Loop(term)  # noqa: E731
        stuck: Any = lambda term, *_: Loop(term, self.answered)  # noqa: E731
        self.leader = Leader(made, made, stuck, lambda name, error: None)
        self.leader.begin(self.term)
        self.term.end("deposed")

    def beat(self) -> None:
        self.beats += 1

    def step_down(self) -> None:
        self.leader.step_down(self.term, self.beat)
        self.done.set()


@pytest.fixture
def stage(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setattr(module, "AWAIT_SLICE_S", 0.01)
    stage = Stage()
    thread = threading.Thread(target=stage.step_down)
    thread.start()
    yield stage
    stage.answered.set()
    thread.join()


def test_a_deletion_in_a_long_request_is_awaited_and_taken_for_no_stuck_loop(stage: Stage) -> None:
    wait_until(lambda: stage.beats > 20, 30, "beats while it waits")
    assert not stage.done.is_set(), "tasks of one term never meet those of the next"
    assert stage.leader.controller is not None
    stage.answered.set()
    assert stage.done.wait(30)
    assert stage.leader.controller is None


def test_one_that_never_ends_is_a_stuck_loop(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    """It beats no more, so the watchdog ends the process: another one stands in its place."""
    wait_until(lambda: stage.beats > 0, 30, "a beat")
    monkeypatch.setattr(module, "AWAIT_MAX_S", 0.0)
    wait_until(lambda: _stands(stage), 30, "no more beats")
    assert not stage.done.is_set()


def _stands(stage: Stage) -> bool:
    before = stage.beats
    threading.Event().wait(0.2)
    return stage.beats == before
