"""A companion acts when we die, however we die, and not before; what its uses do then."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from supervisor.clients import processes
from supervisor.clients.companion import Companion, spawn
from supervisor.clients.processes import ProcessId
from supervisor.demo.death_guard import DeathGuard
from supervisor.errors import SupervisorError
from tests.waiting import wait_until

MODULE = """
import os, sys
from pathlib import Path
from supervisor.clients.companion import last_message
word = last_message()
Path(os.environ["LAST_MESSAGE"]).write_text("dismissed" if word is None else f"told {word.decode()!r}")
"""

PARENT = """
import os, sys, time
from supervisor.clients.companion import Companion
companion = Companion("some_companion")
for word in sys.argv[1:]:
    companion.send(word.encode())
print(companion.pid, flush=True)
time.sleep(600)
"""

GUARDED = """
import subprocess, sys, time
from supervisor.demo.death_guard import DeathGuard
guard = DeathGuard()
charges = [subprocess.Popen(["sleep", "600"], start_new_session=True) for _ in range(3)]
guard.watch(charges[0].pid)
guard.watch(charges[1].pid)
print(guard.pid, *(charge.pid for charge in charges), flush=True)
if sys.argv[1] == "dismiss":
    guard.dismiss()
    guard.dismiss()
    print("dismissed", flush=True)
time.sleep(600)
"""

STACK = """
import os, subprocess, sys, time
from pathlib import Path
from supervisor.demo.stack_guard import MARKER, StackGuard
guard = StackGuard(Path(sys.argv[1]), keep=False)
env = {**os.environ, MARKER: sys.argv[1]}
marked = subprocess.Popen(["sleep", "600"], start_new_session=True, env=env)
print(guard.pid, marked.pid, flush=True)
if sys.argv[2] == "dismiss":
    guard.dismiss()
    print("dismissed", flush=True)
time.sleep(600)
"""


@pytest.fixture
def last_message(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where the companion writes what it was told last."""
    (tmp_path / "some_companion.py").write_text(MODULE)
    monkeypatch.setenv(
        "PYTHONPATH", os.pathsep.join(filter(None, (str(tmp_path), os.environ.get("PYTHONPATH", ""))))
    )
    monkeypatch.setenv("LAST_MESSAGE", str(tmp_path / "last_message"))
    return tmp_path / "last_message"


class Parent:
    """A process that runs ``text``; ``first``: the pids on its first line."""

    def __init__(self, text: str, *arguments: str) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-c", text, *arguments], stdout=subprocess.PIPE, text=True
        )
        found = [processes.identify(int(pid)) for pid in self.line().split()]
        self.first: list[ProcessId] = [each for each in found if each is not None]

    def line(self) -> str:
        assert self._process.stdout is not None
        return self._process.stdout.readline().strip()

    def kill(self) -> None:
        self._process.kill()
        self._process.wait()


@pytest.fixture
def parents() -> Iterator[list[Parent]]:
    """Of a test: killed in its end, and whatever is left of what they named."""
    made: list[Parent] = []
    yield made
    for parent in made:
        parent.kill()
        for left in parent.first:
            processes.kill(left)


def gone(process: ProcessId) -> bool:
    return not processes.alive(process)


@pytest.mark.parametrize(("words", "expected"), [((), "''"), (("a",), "'a'"), (("a", "b"), "'b'")])
def test_it_has_the_last_word_when_its_parent_is_killed(
    last_message: Path, parents: list[Parent], words: tuple[str, ...], expected: str
) -> None:
    parent = Parent(PARENT, *words)
    parents.append(parent)
    (companion,) = parent.first
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        os.kill(companion.pid, number)
    assert os.getsid(companion.pid) == companion.pid
    assert not last_message.exists() and processes.alive(companion)
    parent.kill()
    wait_until(lambda: gone(companion), 30, "the end of the companion")
    assert last_message.read_text() == f"told {expected}"


def test_one_that_is_dismissed_does_not_act(last_message: Path) -> None:
    companion = Companion("some_companion")
    companion.send(b"a")
    companion.dismiss(30)
    companion.dismiss(30)
    assert not companion.alive
    assert last_message.read_text() == "dismissed"


def test_one_that_does_not_go_is_killed(last_message: Path) -> None:
    companion = Companion("some_companion")
    os.kill(companion.pid, signal.SIGSTOP)
    companion.dismiss(0.1)
    assert not companion.alive and not last_message.exists()


def test_the_end_of_the_pipe_proves_nothing(last_message: Path) -> None:
    companion = Companion("some_companion")
    companion.send(b"a")
    assert not companion.wait(0.5)
    assert not last_message.exists()
    companion.kill()


def test_what_cannot_be_told_is_an_error(last_message: Path) -> None:
    companion = Companion("some_companion")
    with pytest.raises(SupervisorError, match="too much for one line"):
        companion.send(b"x" * select.PIPE_BUF)
    companion.kill()
    with pytest.raises(SupervisorError, match=f"process {companion.pid} can't be told anything"):
        companion.send(b"a")
    companion.wait(0)
    with pytest.raises(SupervisorError, match="can't be told anything"):
        companion.send(b"a")


def test_one_that_cannot_be_started_is_an_error_and_leaves_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    before, blocked = set(os.listdir("/proc/self/fd")), signal.pthread_sigmask(signal.SIG_BLOCK, ())
    monkeypatch.setattr(sys, "executable", "/nonexistent/python")
    with pytest.raises(SupervisorError, match="some_companion could not be started"):
        Companion("some_companion")
    assert set(os.listdir("/proc/self/fd")) == before
    assert signal.pthread_sigmask(signal.SIG_BLOCK, ()) == blocked


def test_it_inherits_a_pidfd_of_us_and_no_other_descriptor(last_message: Path) -> None:
    ours = os.open("/dev/null", os.O_RDONLY)
    os.set_inheritable(ours, True)
    child = spawn("some_companion", stdout=subprocess.DEVNULL)
    try:
        (pidfd,) = wait_until(lambda: _only(child.pid), 10, "one descriptor besides its streams")
        assert _command(child.pid).endswith(f"\0{pidfd}\0")
        assert f"Pid:\t{os.getpid()}\n" in Path(f"/proc/{child.pid}/fdinfo/{pidfd}").read_text()
    finally:
        os.close(ours)
        child.kill()
        child.communicate()


def _only(pid: int) -> set[str]:
    """Of a process that is at rest: before that it has files open that it loads."""
    more = set(os.listdir(f"/proc/{pid}/fd")) - {"0", "1", "2"}
    return more if len(more) == 1 and "some_companion" in _command(pid) else set()


def _command(pid: int) -> str:
    return Path(f"/proc/{pid}/cmdline").read_text()


def test_a_death_guard_kills_its_charges_and_nobody_else(parents: list[Parent]) -> None:
    parent = Parent(GUARDED, "go on")
    parents.append(parent)
    guard, first, second, stranger = parent.first
    parent.kill()
    for process in (guard, first, second):
        wait_until(lambda process=process: gone(process), 30, "the end of the charges")
    assert processes.alive(stranger)


def test_a_death_guard_that_is_dismissed_kills_nobody(parents: list[Parent]) -> None:
    parent = Parent(GUARDED, "dismiss")
    parents.append(parent)
    guard, *charges = parent.first
    assert parent.line() == "dismissed"
    assert gone(guard)
    parent.kill()
    assert all(processes.alive(charge) for charge in charges)


def test_a_death_guard_tells_no_pid_that_nobody_has() -> None:
    guard = DeathGuard()
    try:
        with subprocess.Popen(["true"]) as ended:
            pass
        with pytest.raises(SupervisorError, match=f"no process {ended.pid}"):
            guard.watch(ended.pid)
    finally:
        guard.dismiss()


def test_a_stack_guard_kills_what_is_marked_and_takes_the_directory_away(
    tmp_path: Path, parents: list[Parent]
) -> None:
    directory = tmp_path / "stack"
    (directory / "deep").mkdir(parents=True)
    parent = Parent(STACK, str(directory), "go on")
    parents.append(parent)
    guard, marked = parent.first
    parent.kill()
    for process in (marked, guard):
        wait_until(lambda process=process: gone(process), 30, "the end of the stack")
    assert not directory.exists()


def test_a_stack_guard_that_is_dismissed_touches_nothing(tmp_path: Path, parents: list[Parent]) -> None:
    parent = Parent(STACK, str(tmp_path), "dismiss")
    parents.append(parent)
    guard, marked = parent.first
    assert parent.line() == "dismissed"
    assert gone(guard)
    parent.kill()
    assert processes.alive(marked) and tmp_path.exists()
