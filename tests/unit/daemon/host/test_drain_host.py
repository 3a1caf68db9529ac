"""Whom a host that goes down asks to stop, and for how long it waits."""

from __future__ import annotations

import signal
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from supervisor.clients import processes, run_dir
from supervisor.daemon.host import drain_host
from supervisor.daemon.host.drain_host import MARGIN_S, stop_drivers
from supervisor.daemon.host.hosted_attempts import HostedAttempts
from supervisor.records.codec import encode
from tests.unit.daemon.host.prepared_bench import hand, request, stand
from tests.unit.daemon.host.test_guarded_attempt import LAUNCH


def moved_in(directory: Path, key: str, process: subprocess.Popen[bytes], stop_grace_s: float = 20.0) -> None:
    made = run_dir.create(str(directory), key, encode(replace(LAUNCH, stop_grace_s=stop_grace_s)))
    found = processes.identify(process.pid)
    assert made is not None and found is not None
    run_dir.write_process(f"{made}/{run_dir.SHIM}", found, "c")


def test_attempts_that_come_while_it_waits_are_asked_as_well(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real: Any = drain_host._await_one
    with subprocess.Popen(["sleep", "600"]) as first, subprocess.Popen(["sleep", "600"]) as second:
        moved_in(tmp_path, "u.1", first)

        def await_one(waiting: Any) -> None:
            """The first one is not looked at again before the second has come."""
            if not (tmp_path / "v.1").exists():
                moved_in(tmp_path, "v.1", second)
            else:
                real(waiting)

        monkeypatch.setattr(drain_host, "_await_one", await_one)
        departed = stop_drivers(tmp_path)
        ended = [process.poll() for process in (first, second)]
        for process in (first, second):
            process.kill()
    assert departed.stopped == ("u.1", "v.1") and ended == [-signal.SIGTERM] * 2


def test_it_waits_for_the_longest_stop_that_any_of_them_may_take(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    now_s, waited = [0.0], list[float]()

    def await_one(_waiting: Any) -> None:
        waited.append(now_s[0])
        now_s[0] += 1.0

    with subprocess.Popen(["sleep", "600"]) as one, subprocess.Popen(["sleep", "600"]) as other:
        moved_in(tmp_path, "u.1", one, 30.0)
        moved_in(tmp_path, "v.1", other, 5.0)
        with monkeypatch.context() as patch:
            patch.setattr(processes, "send_signal", lambda _pidfd, _number: True)  # they do not stop
            patch.setattr(drain_host, "_await_one", await_one)
            patch.setattr(drain_host, "boottime_s", lambda: now_s[0])
            departed = stop_drivers(tmp_path)
        for process in (one, other):
            process.kill()
    assert departed.left == ("u.1", "v.1") and waited[-1] == 30.0 + MARGIN_S - 1.0


def test_prepared_drivers_are_asked_as_well_and_a_handed_one_is_named_by_its_attempt(tmp_path: Path) -> None:
    hosted = HostedAttempts(tmp_path, tmp_path / "log")
    with subprocess.Popen(["sleep", "600"]) as one, subprocess.Popen(["sleep", "600"]) as other:
        for key, process in (("uid-a.p1", one), ("uid-a.p2", other)):
            found = processes.identify(process.pid)
            stand(hosted, key, request(), shim=found)
        hand(hosted, "uid-a.p2", 3)
        departed = stop_drivers(hosted.attempts_dir)
        ended = [process.poll() for process in (one, other)]
        for process in (one, other):
            process.kill()
    assert ended == [-signal.SIGTERM] * 2
    assert departed.stopped == ("uid-a.3",) and departed.left == (), "the other one held nothing"
