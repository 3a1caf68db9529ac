"""The watchdog, in this process with a milder end, and for real in processes of its own."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from supervisor.clock import boottime_s
from supervisor.daemon.loops.notify import notify, watchdog_period_s
from supervisor.daemon.loops.watchdog import EXIT_CODE, Watchdog
from tests.waiting import wait_until

REPOSITORY = Path(__file__).resolve().parents[4]


def test_the_latest_loop_is_named() -> None:
    watchdog = Watchdog()
    now_s = boottime_s()
    loop = watchdog.register("controller", 5.0)
    watchdog.register("agent", 2.0)
    assert watchdog.stuck(now_s + 1.0) is None
    found = watchdog.stuck(now_s + 6.0)
    assert found is not None and found[0].name == "agent"
    found[0].done()
    found = watchdog.stuck(loop.beaten_at_s + 6.0)
    assert found is not None and found[0] is loop and found[1] == pytest.approx(6.0)
    loop.beat()
    assert watchdog.stuck(boottime_s()) is None


def test_a_sleep_of_the_whole_process_is_forgiven() -> None:
    watchdog = Watchdog()
    loop = watchdog.register("controller", 5.0)
    watchdog.forgive(100.0)
    assert watchdog.stuck(loop.beaten_at_s + 4.0) is None
    assert watchdog.stuck(loop.beaten_at_s + 6.0) is not None


def program(body: str, **more: str) -> subprocess.Popen[str]:
    source = (
        "import sys, threading, time\nfrom supervisor.daemon.loops.watchdog import Watchdog\n"
        + textwrap.dedent(body)
    )
    return subprocess.Popen(
        [sys.executable, "-c", source],
        cwd=REPOSITORY,
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={**os.environ, **more},
    )


def test_f60_a_stuck_loop_ends_the_process_and_says_which() -> None:
    stuck = program("""
        def a_loop_that_hangs():
            threading.Event().wait()
        watchdog = Watchdog()
        watchdog.register("controller", 0.5)
        watchdog.start()
        a_loop_that_hangs()
    """)
    _, errors = stuck.communicate(timeout=30)
    assert stuck.returncode == EXIT_CODE
    assert errors.startswith("watchdog: the loop controller has been stuck for ")
    assert "a_loop_that_hangs" in errors


def test_f60_a_log_that_nobody_reads_does_not_keep_it() -> None:
    reading, writing = os.pipe()
    os.set_blocking(writing, False)
    try:
        while True:
            os.write(writing, b"x" * 4096)
    except BlockingIOError:
        os.set_blocking(writing, True)
    source = (
        "from supervisor.daemon.loops.watchdog import Watchdog\nimport threading\nw = Watchdog()\n"
        "w.register('agent', 0.2)\nw.start()\nthreading.Event().wait()"
    )
    stuck = subprocess.Popen([sys.executable, "-c", source], cwd=REPOSITORY, stderr=writing)
    try:
        assert stuck.wait(30) == EXIT_CODE
    finally:
        stuck.kill()
        os.close(reading)
        os.close(writing)


def test_f60_not_even_a_held_interpreter_lock_keeps_it() -> None:
    held = program("""
        import ctypes
        watchdog = Watchdog(locked_limit_s=1.0)
        watchdog.start()
        watchdog.register("controller", 60.0)
        time.sleep(1.0)
        ctypes.PyDLL(None).sleep(60)     # PyDLL keeps the lock
    """)
    _, errors = held.communicate(timeout=30)
    assert held.returncode != 0
    assert "Timeout" in errors


def test_f2_a_stopped_and_continued_process_is_not_stuck() -> None:
    stopped = program("""
        watchdog = Watchdog()
        loop = watchdog.register("controller", 1.0)
        watchdog.start()
        print("ready", flush=True)
        until = time.monotonic() + 8
        while time.monotonic() < until:
            loop.beat()
            time.sleep(0.1)
        loop.done()
        watchdog.stop()
    """)
    assert stopped.stdout is not None
    stopped.stdout.readline()
    stopped.send_signal(signal.SIGSTOP)
    seen_at_s = boottime_s()
    wait_until(lambda: boottime_s() > seen_at_s + 4.0, 10)
    stopped.send_signal(signal.SIGCONT)
    _, errors = stopped.communicate(timeout=30)
    assert (stopped.returncode, errors) == (0, "")


@pytest.mark.parametrize("abstract", [False, True])
def test_systemd_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, abstract: bool) -> None:
    name = f"@spark-supervisor-test-{os.getpid()}" if abstract else str(tmp_path / "notify")
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as link:
        link.bind("\0" + name[1:] if abstract else name)
        link.settimeout(10)
        monkeypatch.setenv("NOTIFY_SOCKET", name)
        assert notify("READY=1", "STATUS=leading")
        assert link.recv(100) == b"READY=1\nSTATUS=leading"
        monkeypatch.setenv("WATCHDOG_USEC", "1000000")
        monkeypatch.delenv("WATCHDOG_PID", raising=False)
        watchdog = Watchdog(locked_limit_s=None)
        watchdog.start()
        try:
            assert link.recv(100) == b"WATCHDOG=1"
            assert link.recv(100) == b"WATCHDOG=1"
        finally:
            watchdog.stop()


def test_without_systemd_nobody_is_told(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("NOTIFY_SOCKET", raising=False)
    assert not notify("READY=1")
    monkeypatch.setenv("NOTIFY_SOCKET", str(tmp_path / "nobody"))
    assert not notify("READY=1")
    for limit, pid, period_s in (
        ("", "", None),
        ("x", "", None),
        ("4000000", "", 2.0),
        ("4000000", "1", None),
    ):
        monkeypatch.setenv("WATCHDOG_USEC", limit)
        monkeypatch.setenv("WATCHDOG_PID", pid)
        assert watchdog_period_s() == period_s
