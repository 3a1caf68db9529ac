"""The loops of a term: a step-down awaits them all, and a defect in one is not kept quiet, nor in one of the process."""

from __future__ import annotations

import threading
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import structlog

from supervisor.daemon.leader.leader import Leader
from supervisor.daemon.loops.watchdog import Watchdog
from supervisor.daemon.process.supervisor import Supervisor
from supervisor.model.host_directories import StateDirectory


class Loops:
    """Each ends when it may, after the term is over."""

    def __init__(self, *names: str) -> None:
        self.term: Any = SimpleNamespace(epoch=1, over=threading.Event())
        self.may_end = {name: threading.Event() for name in names}
        self.ended: list[str] = []
        self.way_back: Any = None

    def make(self, name: str) -> Any:
        def run() -> None:
            self.term.over.wait(30)
            self.may_end[name].wait(30)
            self.ended.append(name)

        return lambda *_term: SimpleNamespace(run=run, wake=threading.Event(), way_back=self.way_back)


NAMES = ("controller", "sweeper", "remover", "savepoints", "way-back")


@pytest.mark.parametrize("last", NAMES)
def test_a_step_down_is_over_when_every_loop_is(last: str) -> None:
    loops = Loops(*NAMES)
    loops.way_back = loops.make("way-back")()
    leader = Leader(
        loops.make("controller"),
        loops.make("sweeper"),
        loops.make("remover"),
        lambda *_defect: None,
        loops.make("savepoints"),
    )
    leader.begin(loops.term)
    loops.term.over.set()
    for name in NAMES:
        if name != last:
            loops.may_end[name].set()
    stepping = threading.Thread(target=leader.step_down, args=(loops.term,), daemon=True)
    stepping.start()
    stepping.join(0.2)
    early = not stepping.is_alive()
    loops.may_end[last].set()
    stepping.join(10)
    assert not early and sorted(loops.ended) == sorted(NAMES)


def test_a_defect_that_ends_a_loop_is_told() -> None:
    """The process must not go on without it: it would lead, and do a part of what a leader does."""
    reported: list[tuple[str, BaseException]] = []

    def run() -> None:
        raise KeyError("planted")

    loops = Loops("controller", "remover")
    for ends in loops.may_end.values():
        ends.set()
    leader = Leader(
        loops.make("controller"),
        lambda *_term: SimpleNamespace(run=run, way_back=None),  # type: ignore[arg-type,return-value]
        loops.make("remover"),
        lambda name, error: reported.append((name, error)),
    )
    leader.begin(loops.term)
    loops.term.over.set()
    leader.step_down(loops.term)
    assert [(name, type(error)) for name, error in reported] == [("sweeper-1", KeyError)]


def test_a_defect_that_ends_a_loop_of_the_process_ends_the_process(tmp_path: Path) -> None:
    def fail(_loop: object) -> None:
        raise KeyError("planted")

    supervisor = Supervisor(
        tmp_path, StateDirectory(tmp_path / "state"), lambda _owner: pytest.fail("nothing is assembled")
    )
    watchdog = Watchdog(end=pytest.fail, locked_limit_s=None)
    with structlog.testing.capture_logs() as logs:
        supervisor._spawn("agent", fail, watchdog)
        assert supervisor.stopping.wait(10)
    assert [(line["event"], line["loop"]) for line in logs] == [
        ("loop_failed", "agent"),
        ("supervisor_failed", "agent"),
    ]
    assert isinstance(logs[0]["exc_info"], KeyError) and logs[0]["exc_info"].__traceback__ is not None
    assert watchdog.stuck(float("inf")) is None
