"""Stopping every driver of a host in order: who is asked, who is not, and when the wait is over. Real processes."""

from __future__ import annotations

import dataclasses
import errno
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from supervisor.clients import processes, run_dir
from supervisor.clients.processes import ProcessId
from supervisor.daemon.host import drain_host
from supervisor.daemon.host.drain_host import stop_drivers
from supervisor.records.codec import encode
from tests.unit.shim.world import LAUNCH
from tests.waiting import wait_until

OBEDIENT = "import signal, sys; signal.signal(signal.SIGTERM, lambda *_: sys.exit(0)); print('ready', flush=True); signal.pause()"
DEAF = "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('ready', flush=True)\nwhile True: signal.pause()"


class Host:
    """Run directories, and processes that play their shims."""

    def __init__(self, attempts: Path) -> None:
        self.attempts = attempts
        self.shims: list[subprocess.Popen[str]] = []

    def directory(self, key: str, stop_grace_s: float) -> Path:
        launch = dataclasses.replace(LAUNCH, stop_grace_s=stop_grace_s)
        made = run_dir.create(str(self.attempts), key, encode(launch, 2**20))
        assert made is not None
        return Path(made)

    def shim(self, key: str, code: str, stop_grace_s: float = 30.0) -> subprocess.Popen[str]:
        shim = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
        self.shims.append(shim)
        assert shim.stdout is not None and shim.stdout.readline() == "ready\n"
        identity = processes.identify(shim.pid)
        assert identity is not None
        run_dir.write_process(str(self.directory(key, stop_grace_s) / run_dir.SHIM), identity, "claim")
        return shim


@pytest.fixture
def host(tmp_path: Path) -> Iterator[Host]:
    host = Host(tmp_path / "attempts")
    yield host
    for shim in host.shims:
        shim.kill()
        shim.communicate()


def test_a_shim_that_can_not_be_asked_for_want_of_descriptors_is_asked_again(
    host: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    shim = host.shim("u1.1", OBEDIENT)
    opened, failures = processes.open_pidfd, iter([True, True])

    def sometimes(process: ProcessId) -> int | None:
        if next(failures, False):
            raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))
        return opened(process)

    monkeypatch.setattr(processes, "open_pidfd", sometimes)
    assert stop_drivers(host.attempts).stopped == ("u1.1",)
    assert shim.wait(10) == 0


def test_a_host_without_attempts_has_nothing_to_stop(tmp_path: Path) -> None:
    assert stop_drivers(tmp_path / "attempts").stopped == ()


def test_every_shim_is_asked_and_waited_for(host: Host) -> None:
    first, second = host.shim("a.1", OBEDIENT), host.shim("b.7", OBEDIENT)
    assert stop_drivers(host.attempts) == drain_host.DrainedHost(("a.1", "b.7"))
    assert (first.wait(10), second.wait(10)) == (0, 0)


def test_what_does_not_stop_is_named_and_left_alone(host: Host) -> None:
    host.shim("a.1", OBEDIENT)
    deaf = host.shim("b.1", DEAF)
    assert stop_drivers(host.attempts, timeout_s=1.0) == drain_host.DrainedHost(("a.1",), ("b.1",))
    assert deaf.poll() is None


def test_a_hurry_ends_the_wait(host: Host) -> None:
    host.shim("a.1", DEAF)
    asked: list[int] = []
    departed = stop_drivers(host.attempts, hurry=lambda: asked.append(1) is not None or len(asked) > 2)
    assert departed.left == ("a.1",)


def test_a_pid_that_was_given_to_somebody_else_is_never_signalled(host: Host) -> None:
    bystander = host.shim("a.1", OBEDIENT)
    identity = processes.identify(bystander.pid)
    assert identity is not None
    earlier = ProcessId(identity.pid, identity.start_ticks - 1, identity.boot_id)
    run_dir.write_process(str(host.attempts / "a.1" / run_dir.SHIM), earlier, "claim")
    other_boot = ProcessId(identity.pid, identity.start_ticks, "another")
    run_dir.write_process(str(host.directory("b.1", 1.0) / run_dir.SHIM), other_boot, "claim")
    assert stop_drivers(host.attempts).stopped == ()
    assert bystander.poll() is None


def test_an_attempt_that_is_only_being_started_is_waited_for(
    host: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The shim is there a moment before it has said which process it is."""
    unborn = host.directory("a.1", 5.0)
    late = subprocess.Popen([sys.executable, "-c", OBEDIENT], stdout=subprocess.PIPE, text=True)
    host.shims.append(late)
    assert late.stdout is not None and late.stdout.readline() == "ready\n"
    identity = processes.identify(late.pid)
    assert identity is not None
    reads: list[int] = []

    def hurry() -> bool:
        reads.append(1)
        if len(reads) == 3:
            run_dir.write_process(str(unborn / run_dir.SHIM), identity, "claim")
        return False

    assert stop_drivers(host.attempts, hurry=hurry).stopped == ("a.1",)
    wait_until(lambda: late.poll() == 0, 10, "the late shim stopped")


def test_a_directory_that_no_shim_ever_took_holds_nobody_up(
    host: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(drain_host, "UNBORN_S", 0.3)
    host.directory("a.1", 5.0)
    assert stop_drivers(host.attempts) == drain_host.DrainedHost()
