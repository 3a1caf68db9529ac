"""A process is pid + start time + boot id; no signal ever reaches a stranger (F58)."""

from __future__ import annotations

import builtins
import errno
import os
import signal
import subprocess
import sys
from collections.abc import Iterator

import pytest

from supervisor.clients import processes
from supervisor.clients.containment import find_own_cgroup
from supervisor.clients.processes import ProcessId
from supervisor.clients.spawn import reap_finished, spawn_detached
from supervisor.errors import SupervisorError
from tests.waiting import wait_until


@pytest.fixture
def sleeper() -> Iterator[subprocess.Popen[bytes]]:
    child = subprocess.Popen([sys.executable, "-S", "-E", "-c", "import time; time.sleep(600)"])
    yield child
    child.kill()
    child.wait()


def identity(child: subprocess.Popen[bytes]) -> ProcessId:
    found = processes.identify(child.pid)
    assert found is not None
    return found


def test_a_living_process_is_known_and_killed(sleeper: subprocess.Popen[bytes]) -> None:
    process = identity(sleeper)
    assert processes.alive(process)
    assert processes.kill(process)
    assert sleeper.wait(10) == -signal.SIGKILL
    assert not processes.alive(process) and not processes.kill(process)


@pytest.mark.parametrize("change", [{"start_ticks": 1}, {"boot_id": "an earlier boot"}])
def test_another_process_with_the_same_pid_is_left_alone(
    sleeper: subprocess.Popen[bytes], change: dict[str, object]
) -> None:
    reused = identity(sleeper)._replace(**change)  # type: ignore[arg-type]
    assert not processes.alive(reused)
    assert processes.open_pidfd(reused) is None
    assert not processes.kill(reused)
    assert sleeper.poll() is None


def test_want_of_descriptors_is_no_proof_of_a_death(
    sleeper: subprocess.Popen[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The last one went to the pidfd, and /proc could not be opened: who is asked must not take that for "gone" (F56)."""
    process = identity(sleeper)

    def no_more(*_arguments: object) -> object:
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))

    before = len(os.listdir("/proc/self/fd"))
    monkeypatch.setattr(builtins, "open", no_more)
    monkeypatch.setattr(processes, "boot_id", lambda: process.boot_id)
    for ask in (processes.open_pidfd, processes.alive, processes.kill):
        with pytest.raises(OSError, match="Too many open files"):
            ask(process)
    with pytest.raises(OSError, match="Too many open files"):
        processes.stat(process.pid)
    monkeypatch.undo()
    assert len(os.listdir("/proc/self/fd")) == before
    assert sleeper.poll() is None


def test_a_stopped_process_is_alive_and_a_zombie_is_dead(sleeper: subprocess.Popen[bytes]) -> None:
    process = identity(sleeper)
    pidfd = processes.open_pidfd(process)
    assert pidfd is not None
    sleeper.send_signal(signal.SIGSTOP)
    assert processes.alive(process) and not processes.wait_dead(pidfd, 0)
    sleeper.kill()
    assert processes.wait_dead(pidfd, 10)
    assert not processes.alive(process), "nobody has waited for it yet"
    os.close(pidfd)


def test_a_command_with_blanks_and_parentheses_is_no_trap(tmp_path: object) -> None:
    with open("/proc/self/comm", encoding="ascii") as file:
        before = file.read()
    try:
        with open("/proc/self/comm", "w", encoding="ascii") as file:
            file.write(") R 1 (x")
        found = processes.stat(os.getpid())
        assert found is not None and found.ppid == os.getppid() and found.session == os.getsid(0)
    finally:
        with open("/proc/self/comm", "w", encoding="ascii") as file:
            file.write(before.strip())


def test_a_detached_process_has_its_own_session_and_is_reaped() -> None:
    process = spawn_detached([sys.executable, "-S", "-E", "-c", "pass"], os.environ, "/", None)
    wait_until(lambda: reap_finished() == 0 or not processes.alive(process), 10)
    reap_finished()
    assert not processes.alive(process)


def test_what_cannot_be_started_is_said() -> None:
    with pytest.raises(SupervisorError, match="/does/not/exist"):
        spawn_detached(["/does/not/exist"], {}, "/", None)


def test_a_log_that_cannot_be_opened_stops_no_start() -> None:
    process = spawn_detached(
        [sys.executable, "-S", "-E", "-c", "print(1)"], os.environ, "/", "/does/not/exist/log"
    )
    wait_until(lambda: not processes.alive(process), 10)


V1 = "32 31 0:29 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu\n"
HYBRID = "41 31 0:38 / /sys/fs/cgroup/unified rw,relatime - cgroup2 cgroup2 rw\n" + V1
PURE = "30 23 0:26 / /sys/fs/cgroup rw shared:4 - cgroup2 cgroup2 rw,nsdelegate\n"


@pytest.mark.parametrize(
    ("mountinfo", "membership", "expected"),
    [
        (HYBRID, "1:cpu:/\n0::/\n", "/sys/fs/cgroup/unified"),
        (HYBRID, "1:cpu:/\n0::/system.slice/x.service\n", "/sys/fs/cgroup/unified/system.slice/x.service"),
        (PURE, "0::/user.slice\n", "/sys/fs/cgroup/user.slice"),
        (
            "30 23 0:26 /docker/abc /sys/fs/cgroup ro - cgroup2 cgroup rw\n",
            "0::/docker/abc/sub\n",
            "/sys/fs/cgroup/sub",
        ),
        ("30 23 0:26 /docker/abc /sys/fs/cgroup ro - cgroup2 cgroup rw\n", "0::/docker/abcd\n", None),
        ("30 23 0:26 / /mnt/a\\040b rw - cgroup2 none rw\n", "0::/x\n", "/mnt/a b/x"),
        (HYBRID, "0::/../outside\n", None),
        (V1, "1:cpu:/\n", None),
    ],
)
def test_the_v2_hierarchy_is_found_wherever_it_is_mounted(
    mountinfo: str, membership: str, expected: str | None
) -> None:
    assert find_own_cgroup(mountinfo, membership) == expected


def test_the_age_of_a_process_counts_from_its_fork() -> None:
    code = (
        "import time\nfrom supervisor.clients.processes import own_age_s\nfrom supervisor.clock import boottime_s\n"
        "first, before = own_age_s(), boottime_s()\ntime.sleep(0.2)\nprint(0.0 < first, own_age_s() - first >= boottime_s() - before - 0.2)"
    )
    printed = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert printed.stdout.split() == ["True", "True"], printed.stderr


def test_an_age_that_cannot_be_read_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(_pid: int) -> None:
        raise OSError(24, "too many open files")

    monkeypatch.setattr(processes, "stat", refused)
    assert processes.own_age_s() == 0.0


def test_a_number_that_is_handed_out_while_it_is_opened_is_another_process(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Compared before it is opened, it would have been the one that was meant."""
    me = processes.identify(os.getpid())
    assert me is not None
    opened: list[int] = []
    pidfd_open, stat = os.pidfd_open, processes.stat

    def open_late(pid: int) -> int:
        opened.append(pid)
        return pidfd_open(pid)

    def stat_now(pid: int) -> processes.ProcessStat | None:
        found = stat(pid)
        return found._replace(start_ticks=found.start_ticks + 1) if found is not None and opened else found

    monkeypatch.setattr(os, "pidfd_open", open_late)
    monkeypatch.setattr(processes, "stat", stat_now)
    assert processes.open_pidfd(me) is None
