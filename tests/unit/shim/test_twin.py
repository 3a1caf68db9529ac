"""The second killer on processes as they are: what it looks at, in which order it strikes, and what does not end it."""

from __future__ import annotations

import errno
import gc
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from supervisor.clients import processes, second_killer
from supervisor.clients.run_dir import DeadlineFile
from supervisor.clients.second_killer import strike
from supervisor.clock import boottime_s
from supervisor.model.emptiness import Emptiness
from supervisor.model.lease_terms import SECOND_KILLER_PERIOD_S
from supervisor.model.second_killer import Act, KillerProbe, SecondKiller, ShimStruck, TreeStruck, step
from supervisor.shim import twin
from supervisor.shim.log import ShimLog

DEAF = "import signal, sys, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print(flush=True); time.sleep(600)"


@contextmanager
def process() -> Iterator[tuple[subprocess.Popen[bytes], int]]:
    """One that SIGTERM does not end, and its pidfd."""
    with subprocess.Popen([sys.executable, "-I", "-S", "-c", DEAF], stdout=subprocess.PIPE) as child:
        assert child.stdout is not None
        child.stdout.readline()
        pidfd = os.pidfd_open(child.pid)
        try:
            yield child, pidfd
        finally:
            child.kill()
            os.close(pidfd)


class Tree:
    """Of the process ``shim``. ``after``: what is seen of it after each kill, the last one for ever."""

    def __init__(self, shim: int, *after: Emptiness) -> None:
        self._shim, self._after = shim, list(after)
        self.seen, self.kills, self.shim_was_dead = Emptiness.POPULATED, 0, True

    def kill(self, _timeout_s: float) -> float:
        self.kills += 1
        self.shim_was_dead = self.shim_was_dead and processes.wait_dead(self._shim, 0.0)
        self.seen = self._after.pop(0) if len(self._after) > 1 else self._after[0]
        return 0.25

    def emptiness(self) -> Emptiness:
        return self.seen


class Deadlines:
    """``then`` is what the file says after some looks at it."""

    def __init__(self, then: float | None) -> None:
        self._then, self._probes, self.was_read_twice = then, 0, threading.Event()
        self.may_go_on = threading.Event()

    def read(self) -> float | None:
        self._probes += 1
        if self._probes == 2:
            self.was_read_twice.set()
        return self._then if self.may_go_on.is_set() else None


@contextmanager
def watching(
    child: subprocess.Popen[bytes],
    shim: int,
    tree: Any,
    deadline: Any,
    directory: Path,
) -> Iterator[threading.Thread]:
    """The twin of ``child``, in a thread that is over when this is."""
    thread = threading.Thread(
        target=twin.watch, args=(shim, tree, deadline, ShimLog("u.1"), str(directory)), daemon=True
    )
    thread.start()
    try:
        yield thread
    finally:
        child.kill()
        thread.join(10)


def test_it_reads_the_deadline_again_and_kills_the_shim_before_its_tree(tmp_path: Path) -> None:
    deadline = Deadlines(0.0)
    with process() as (child, shim):
        tree = Tree(shim, Emptiness.POPULATED, Emptiness.EMPTY)
        with watching(child, shim, tree, deadline, tmp_path) as thread:
            assert deadline.was_read_twice.wait(10), "a shim that lives is looked at again"
            assert child.poll() is None and tree.kills == 0
            deadline.may_go_on.set()
            thread.join(10)
            assert not thread.is_alive() and child.wait(10) == -signal.SIGKILL
        assert tree.kills == 2 and tree.shim_was_dead, "again until nothing of it is seen"


def test_the_death_of_the_shim_is_seen_without_a_deadline(tmp_path: Path) -> None:
    deadline = Deadlines(None)
    with process() as (child, shim):
        tree = Tree(shim, Emptiness.EMPTY)
        with watching(child, shim, tree, deadline, tmp_path) as thread:
            assert deadline.was_read_twice.wait(10)
            assert tree.kills == 0
            child.kill()
            thread.join(10)
            assert not thread.is_alive() and tree.kills == 1


def test_it_looks_again_in_time_however_far_the_deadline_is() -> None:
    """A wait is measured on a clock that stands still while the host sleeps."""
    far = step(SecondKiller(), KillerProbe(False, boottime_s() + 1000.0), boottime_s())
    assert twin._pause_s(far) == SECOND_KILLER_PERIOD_S


def test_a_deadline_that_can_not_be_read_is_not_none(tmp_path: Path) -> None:
    deadline = DeadlineFile(os.open(tmp_path, os.O_RDONLY))  # reading it is an error
    assert twin._probe(False, deadline) == KillerProbe(False, None, readable=False)


def test_a_shim_that_was_struck_is_dead_when_it_is_seen_dead(monkeypatch: pytest.MonkeyPatch) -> None:
    with process() as (child, shim):
        tree: Any = Tree(shim, Emptiness.EMPTY)
        with monkeypatch.context() as patch:
            # a blow that it has not felt yet
            patch.setattr(processes, "send_signal", lambda _pidfd, _number: True)
            assert strike(Act.KILL_SHIM, shim, tree, 0.05) == ShimStruck(False)
        assert child.poll() is None
        assert strike(Act.KILL_SHIM, shim, tree, 10.0) == ShimStruck(True)
        assert child.wait(10) == -signal.SIGKILL
        assert (
            strike(Act.KILL_SHIM, shim, tree, 0.0)
            == strike(Act.KILL_SHIM, None, tree, 0.0)
            == ShimStruck(True)
        )
        assert tree.kills == 0


@pytest.mark.parametrize("after", list(Emptiness))
def test_of_a_tree_that_was_struck_is_told_what_is_seen_of_it_afterwards(after: Emptiness) -> None:
    tree: Any = Tree(os.pidfd_open(os.getpid()), after)
    assert second_killer.strike(Act.KILL_TREE, None, tree, 1.0) == TreeStruck(0.25, after)


class ReportingTree:
    """A tree in another process: says on a pipe that it was killed."""

    def __init__(self, say: int) -> None:
        self._report_end = say

    def kill(self, _timeout_s: float) -> float:
        os.write(self._report_end, b"killed")
        return 0.0

    def emptiness(self) -> Emptiness:
        return Emptiness.EMPTY


def test_neither_signals_of_a_stop_nor_the_death_of_its_group_end_it(tmp_path: Path) -> None:
    read_end, say = os.pipe()
    shim = os.fork()
    if shim == 0:
        try:
            os.close(read_end)
            os.setsid()
            tree: Any = ReportingTree(say)
            os.write(say, b"%d\n" % twin.fork_twin(tree, DeadlineFile.create(str(tmp_path)), str(tmp_path)))
            signal.pause()
        finally:
            os._exit(1)
    os.close(say)
    with os.fdopen(read_end, "rb") as pipe:
        made = int(pipe.readline())
        assert processes.identify(made) is not None
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            os.kill(made, number)
        os.killpg(shim, signal.SIGKILL)
        os.waitpid(shim, 0)
        assert pipe.read() == b"killed", "it was there to kill the tree"


def test_without_a_twin_nothing_begins(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real, forks = os.fork, []

    def fork() -> int:
        forks.append(True)
        if len(forks) == 2:  # in the process between
            raise OSError(errno.EAGAIN, "Resource temporarily unavailable")
        return real()

    with monkeypatch.context() as scarce:
        scarce.setattr(os, "fork", fork)
        tree: Any = ReportingTree(-1)
        try:
            with pytest.raises(OSError, match="twin could not be forked"):
                twin.fork_twin(tree, DeadlineFile.create(str(tmp_path)), str(tmp_path))
        finally:
            gc.unfreeze()
