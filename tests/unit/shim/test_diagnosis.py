"""The thread of the shim that keeps diagnostics in a file, with the real process that collects them."""

from __future__ import annotations

import os
import select
import signal
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from supervisor.clients import processes
from supervisor.clients.diagnostics.child import DiagnosticsProcess
from supervisor.clients.diagnostics.collection import DiagnosticsTask
from supervisor.model.diagnostics import FILES_KEPT
from supervisor.model.driver_user import DriverUser
from supervisor.shim import diagnosis as diagnosis_module
from supervisor.shim import state as shim
from supervisor.shim.diagnosis import Diagnosis, remove_surplus, stopped_of, task_for
from tests.unit.shim.world import LAUNCH
from tests.waiting import wait_until

WITHIN_S = 12.0


class Heard:
    """What the thread posts and logs."""

    def __init__(self) -> None:
        self.events: list[shim.Diagnosed] = []
        self.lines: list[tuple[str, dict[str, Any]]] = []

    def log(self, event: str, _level: str = "info", **fields: Any) -> None:
        self.lines.append((event, fields))


def collected(log_path: Path, *, kill: bool = False, times: int = 1, ends_within_s: float = 60.0) -> Heard:
    launch, heard = replace(LAUNCH, log_path=str(log_path)), Heard()
    asked = shim.Diagnose(WITHIN_S, "no sign for 60 s", ("query q: active",))
    task = replace(task_for(launch, "/run/a", [os.getpid()], asked), times=times, every_s=30.0)
    thread = Diagnosis(task, launch, heard.events.append, heard.log)
    if kill:
        thread.kill()
    thread.start()
    thread.join(ends_within_s)
    assert not thread.is_alive()
    thread.kill()  # harmless afterwards
    return heard


def test_diagnostics_are_kept_beside_the_output(tmp_path: Path) -> None:
    heard = collected(tmp_path / "job" / "u1.3.log")
    file = tmp_path / "job" / "u1.3.diagnostics.txt"
    assert heard.events == [shim.Diagnosed(str(file))]
    assert heard.lines == [("shim_diagnosed", {"path": str(file), "bytes": file.stat().st_size})]
    text = file.read_text()
    assert "why: no sign for 60 s\nquery q: active\n" in text and "== thread dump 1 of 1 of " in text
    assert list(file.parent.iterdir()) == [file]


def test_the_processes_that_are_stopped_are_found() -> None:
    with subprocess.Popen(["sleep", "600"]) as stopped, subprocess.Popen(["sleep", "600"]) as runs:
        try:
            stopped.send_signal(signal.SIGSTOP)
            wait_until(lambda: stopped_of([stopped.pid, runs.pid, os.getpid()]) == (stopped.pid,))
        finally:
            stopped.kill()
            runs.kill()
    assert stopped_of([stopped.pid]) == ()


def test_what_a_kill_has_left_is_no_file(tmp_path: Path) -> None:
    heard = collected(tmp_path / "u1.3.log", kill=True)
    assert heard.events == [shim.Diagnosed("")]
    assert heard.lines == [("shim_not_diagnosed", {"why": "nothing was written"})]
    assert list(tmp_path.iterdir()) == []


def test_what_is_there_is_replaced_and_no_link_is_followed(tmp_path: Path) -> None:
    (tmp_path / "precious").write_text("mine")
    (tmp_path / "u1.3.diagnostics.txt").symlink_to(tmp_path / "precious")
    collected(tmp_path / "u1.3.log")
    assert (tmp_path / "precious").read_text() == "mine"
    assert not (tmp_path / "u1.3.diagnostics.txt").is_symlink()


def is_dead(pid: int) -> bool:
    found = processes.stat(pid)
    return found is None or found.dead


@pytest.mark.parametrize("has_written", [True, False])
def test_a_collector_that_its_driver_has_stopped_is_ended_and_waited_for_no_longer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, has_written: bool
) -> None:
    """A driver may send signals to it, which has become its user; an alarm does not end what is stopped."""
    stopped: list[int] = []

    class StoppedByDriver(DiagnosticsProcess):
        def __init__(self, *given: Any) -> None:
            super().__init__(*given)
            if has_written:
                assert select.select([self.output], [], [], 60)[0]
            os.kill(self.pid, signal.SIGSTOP)
            stopped.append(self.pid)

    monkeypatch.setattr(diagnosis_module, "DiagnosticsProcess", StoppedByDriver)
    monkeypatch.setattr(diagnosis_module, "LATE_S", 3.0 - WITHIN_S)
    try:
        heard = collected(tmp_path / "u1.3.log", ends_within_s=30)
        wait_until(lambda: is_dead(stopped[0]))
    finally:
        os.kill(stopped[0], signal.SIGKILL)
        os.waitpid(stopped[0], 0)
    file = tmp_path / "u1.3.diagnostics.txt"
    assert heard.events == [shim.Diagnosed(str(file) if has_written else "")]
    if has_written:
        assert file.read_text().endswith(f"[{diagnosis_module.LATE}]\n")
    else:
        assert heard.lines == [("shim_not_diagnosed", {"why": diagnosis_module.LATE})]


def test_a_directory_that_cannot_be_written_costs_the_diagnostics_only(tmp_path: Path) -> None:
    (tmp_path / "job").touch()
    heard = collected(tmp_path / "job" / "u1.3.log")
    assert heard.events == [shim.Diagnosed("")] and heard.lines[0][0] == "shim_not_diagnosed"


def test_a_file_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(diagnosis_module, "FILE_MAX_BYTES", 100)
    collected(tmp_path / "u1.3.log")
    text = (tmp_path / "u1.3.diagnostics.txt").read_text()
    assert (
        text.endswith("[the rest was left out]\n") and len(text) < 100 + diagnosis_module._CHUNK_BYTES + 100
    )


def test_only_the_newest_files_of_a_job_are_kept_and_nothing_else_is_removed(tmp_path: Path) -> None:
    for number in range(FILES_KEPT + 3):
        file = tmp_path / f"u1.{number}.diagnostics.txt"
        file.touch()
        os.utime(file, (number, number))
    others = ["u1.0.log", "notes.diagnostics.txt", "u1.1.diagnostics.txt.keep"]
    for name in others:
        (tmp_path / name).touch()
        os.utime(tmp_path / name, (0, 0))
    remove_surplus(str(tmp_path))
    kept = {f"u1.{number}.diagnostics.txt" for number in range(3, FILES_KEPT + 3)}
    assert {path.name for path in tmp_path.iterdir()} == kept | set(others)


def test_the_driver_of_another_user_takes_orders_in_its_own_directory() -> None:
    user, asked = DriverUser(name="spark", uid=1000, gid=1000), shim.Diagnose(5.0, "why")
    other = replace(LAUNCH, user=user, channel="/work/channel")
    assert task_for(LAUNCH, "/run/a", (), asked).orders == "/run/a/orders"
    assert task_for(other, "/run/a", (), asked).orders == "/work/channel/driver/orders"


def test_a_task_names_no_more_processes_than_are_looked_at() -> None:
    task = task_for(LAUNCH, "/run/a", range(10_000), shim.Diagnose(5.0, "why"))
    assert isinstance(task, DiagnosticsTask) and len(task.pids) < 100 and task.within_s == 5.0
    assert task.heap and not task_for(LAUNCH, "/run/a", (), shim.Diagnose(5.0, "why", heap=False)).heap
