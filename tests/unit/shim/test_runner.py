"""What the runner tells its machine: on pipes, sockets and files as they are, without ZooKeeper and without a driver."""

from __future__ import annotations

import itertools
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from supervisor.clients import run_dir
from supervisor.clients.run_dir import DeadlineFile
from supervisor.clock import boottime_s
from supervisor.model.emptiness import Emptiness
from supervisor.model.launch import GATE
from supervisor.model.lease_terms import SECOND_KILLER_PERIOD_S
from supervisor.model.records import Cause
from supervisor.shim import reports
from supervisor.shim import runner as runner_module
from supervisor.shim import state as shim
from supervisor.shim.runner import Runner, RunnerParts
from supervisor.shim.starter import Starter
from tests.unit.shim.world import LAUNCH

ROOT = 4_000_000
SECRET = "hunter2-of-the-job"


@dataclass
class Tree:
    """A driver tree of which the kernel says ``after`` once it was killed."""

    after: Emptiness = Emptiness.EMPTY
    killed: bool = False
    members: list[int] = field(default_factory=list)

    def kill(self, _timeout_s: float) -> float:
        self.killed = True
        return 0.0

    def emptiness(self) -> Emptiness:
        return self.after if self.killed else Emptiness.POPULATED

    def pids(self) -> list[int]:
        return self.members


@dataclass
class Reaped:
    """``ended`` as ``children.Children`` has it."""

    ended: dict[int, int] = field(default_factory=dict)
    apart: set[int] = field(default_factory=set)
    apart_cpu_s: float = 0.0

    def reap(self) -> bool:
        return True


@dataclass
class Ends:
    """The other ends of the pipes of the starter."""

    go: int
    verdict: int

    def write_and_end(self, word: bytes = b"") -> None:
        os.write(self.verdict, word)
        os.close(self.verdict)
        self.verdict = -1


@contextmanager
def made(directory: Path, tree: Tree | None = None, **launch: Any) -> Iterator[tuple[Runner, Ends, Reaped]]:
    """A runner before ``run``; its link to ZooKeeper does nothing."""
    (go, release), (read_end, say), (output, written) = os.pipe(), os.pipe(), os.pipe()
    starter, children, ends = Starter(ROOT, -1, release, read_end, output), Reaped(), Ends(go, say)
    before, runner_module.RegistryLink = runner_module.RegistryLink, lambda *_parts: SimpleNamespace()  # type: ignore[assignment,misc]
    try:
        given = replace(LAUNCH, log_path=str(directory / "log"), **launch)
        parts: Any = RunnerParts(
            str(directory),
            given,
            "c1a1",
            tree or Tree(),
            children,
            DeadlineFile.create(str(directory)),
            starter,
            -1,
        )  # type: ignore[arg-type]
        runner = Runner(parts)
        runner._poll = SimpleNamespace(poll=lambda _ms: [], unregister=lambda _descriptor: None)  # type: ignore[assignment]
        os.close(written)
        runner._pump.start()
        try:
            yield runner, ends, children
        finally:  # a test that fails too: the pump may be about to make the log in a directory that is removed next
            runner._pump.join(10)
    finally:
        runner_module.RegistryLink = before  # type: ignore[misc]
        for descriptor in (ends.go, release, read_end, ends.verdict):
            if descriptor >= 0:
                os.close(descriptor)


def test_it_looks_at_the_clock_again_in_time_whatever_it_waits_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A wait is measured on a clock that stands still while the host sleeps."""
    waits_ms: list[float] = []
    monkeypatch.setattr(runner_module, "next_wake_at_s", lambda _state: boottime_s() + 1000.0)
    with made(tmp_path) as (runner, _, _):
        runner._poll = SimpleNamespace(
            poll=lambda ms: waits_ms.append(ms) or [], modify=lambda *_watched: None
        )  # type: ignore[assignment]
        runner._wait()
    assert waits_ms == [SECOND_KILLER_PERIOD_S * 1000]


@pytest.mark.parametrize(
    ("after", "empty"), [(Emptiness.EMPTY, True), (Emptiness.POPULATED, False), (Emptiness.UNPROVABLE, False)]
)
def test_a_tree_is_empty_only_when_that_is_proven(tmp_path: Path, after: Emptiness, empty: bool) -> None:
    with made(tmp_path, Tree(after)) as (runner, _, _):
        assert runner._perform((shim.Kill(),)) == [shim.TreeSeen(empty)]


def test_the_exit_is_told_before_the_tree_is_told_empty(tmp_path: Path) -> None:
    with made(tmp_path) as (runner, ends, children):
        ends.write_and_end()
        children.ended[ROOT] = -9
        assert runner._perform((shim.Kill(),)) == [shim.Exited(-9), shim.TreeSeen(True)]


@pytest.mark.parametrize(
    ("word", "reported"),
    [
        (b"", shim.Executed()),
        (b"late\n", shim.ExecLate()),
        (
            b"2 x could not be executed: No such file",
            shim.ExecFailed("x could not be executed: No such file", True),
        ),
        (b"11 x could not be executed: again", shim.ExecFailed("x could not be executed: again", False)),
    ],
)
def test_what_became_of_exec_is_told_as_the_starter_said_it(
    tmp_path: Path, word: bytes, reported: shim.Event
) -> None:
    with made(tmp_path) as (runner, ends, _):
        assert runner._perform((shim.Exec(99.5),)) == []
        assert os.read(ends.go, 100) == b"99.500000\n", "it knows until when it may"
        ends.write_and_end(word)
        heard = [event for _ in range(2) if not runner._heard for event in runner._hear_starter()]
        assert heard == [reported]


def test_a_starter_that_died_before_it_was_let_go_has_executed_nothing(tmp_path: Path) -> None:
    with made(tmp_path) as (runner, ends, _):
        ends.write_and_end()
        assert runner._hear_starter() == []


def test_a_starter_that_is_gone_is_told(tmp_path: Path) -> None:
    with made(tmp_path) as (runner, ends, _):
        os.close(ends.go)
        ends.go = -1
        (failed,) = runner._perform((shim.Exec(boottime_s() + 100),))
        assert isinstance(failed, shim.ExecFailed) and not failed.permanent


def test_the_last_words_of_a_starter_are_heard_before_its_exit(tmp_path: Path) -> None:
    with made(tmp_path) as (runner, ends, children):
        runner._perform((shim.Exec(99.5),))
        ends.write_and_end(b"late\n")
        children.ended[ROOT] = 127
        reported = runner._exit()
        assert [type(event) for event in reported] == [shim.ExecLate, shim.Exited]
        assert runner._exit() == [], "it is told once"


def test_each_event_is_judged_at_its_own_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Effects take their time, a kill most of all: what comes of them is later than what caused them."""
    judged: list[tuple[type[shim.Event], float]] = []

    def step(
        state: shim.ShimState, event: shim.Event, now: shim.Now
    ) -> tuple[shim.ShimState, tuple[shim.Effect, ...]]:
        judged.append((type(event), now.boottime_s))
        return state, (shim.Kill(),) if isinstance(event, shim.Tick) else ()

    with made(tmp_path) as (runner, _, _):
        clock = itertools.count(100.0)
        monkeypatch.setattr(runner_module, "boottime_s", lambda: next(clock))
        monkeypatch.setattr(runner_module, "step", step)
        runner._feed(shim.Tick())
    (first, at_s), (second, later_s) = judged
    assert (first, second) == (shim.Tick, shim.TreeSeen) and later_s > at_s


def test_a_chatty_driver_does_not_stop_the_clock(tmp_path: Path) -> None:
    """However many reports there are, some are taken, and the machine hears of the time."""
    received = itertools.count(1)

    def recv(_size: int) -> bytes:
        if next(received) > 20 * reports.TAKEN_AT_ONCE:
            raise BlockingIOError
        return b'{"event": "idle"}'

    with made(tmp_path) as (runner, _, _):
        real, runner._reports._socket = runner._reports._socket, SimpleNamespace(recv=recv)  # type: ignore[assignment]
        *reported, last = runner._happened()
        real.close()
    assert last == shim.Tick()
    assert [type(event) for event in reported] == [shim.Reported] * reports.TAKEN_AT_ONCE


def test_the_word_of_the_gate_goes_with_the_exit(tmp_path: Path) -> None:
    run_dir.write_verdict(str(tmp_path), run_dir.StartVerdict(Cause.BAD_CHECKPOINT.value, "it is another's"))
    with made(tmp_path, env={GATE: "gate"}) as (runner, ends, children):
        ends.write_and_end()
        children.ended[ROOT] = 0
        (exited,) = runner._exit()
        assert isinstance(exited, shim.Exited) and exited.refused == (Cause.BAD_CHECKPOINT, "it is another's")


def test_an_order_that_nobody_takes_is_unheard(tmp_path: Path) -> None:
    order = shim.Order("stop", 5.0)
    with made(tmp_path) as (runner, _, _):
        assert runner._perform((order,)) == [shim.Unheard(order)]


def test_a_driver_that_may_not_be_signalled_does_not_end_its_shim(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A supervisor without CAP_KILL: the ladder goes on, and the cgroup needs no signal."""

    def refuses(_pidfd: int, _number: int) -> bool:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(runner_module.processes, "send_signal", refuses)
    with made(tmp_path) as (runner, _, _):
        assert runner._perform((shim.Terminate(),)) == []


def test_what_collects_diagnostics_is_no_process_of_the_driver(tmp_path: Path) -> None:
    """Without a cgroup it is found with the tree."""
    tree = Tree(members=[os.getpid()])
    with made(tmp_path, tree) as (runner, _, children):
        assert runner._diagnose(shim.Diagnose(12.0, "why")) == []
        diagnosis = runner._diagnosis
        assert diagnosis is not None and children.apart == {diagnosis.pid}
        tree.members.append(diagnosis.pid)
        assert runner._pids() == [os.getpid()]
        diagnosis.kill()
        diagnosis.join(30)
        os.waitpid(diagnosis.pid, 0)


def test_what_its_driver_was_given_as_a_secret_is_in_no_reason(tmp_path: Path) -> None:
    """What it prints and what it reports becomes the reason of its end, which stands in the registry."""
    with made(tmp_path, secrets=(SECRET,)) as (runner, _ends, _children):
        pump, reports_in = runner._pump, runner._reports
        assert SECRET not in pump._cover(f"no login with {SECRET}")
        found = reports.parse(
            json.dumps({"event": "error", "kind": "E", "message": f"no {SECRET}"}).encode(), reports_in._cover
        )
        assert found is not None and SECRET not in found.error
