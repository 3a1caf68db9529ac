"""The guardian on run directories and processes of this host; its decisions are tested in ``test_guarded_attempt``."""

from __future__ import annotations

import errno
import os
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from supervisor.clients import processes, run_dir
from supervisor.clients.processes import ProcessId
from supervisor.clients.run_dir import DeadlineFile
from supervisor.daemon.host.guarded_attempt import UNBORN_S, GuardStage
from supervisor.daemon.host.guardian import Guardian
from supervisor.records.codec import encode
from tests.unit.daemon.host.test_guarded_attempt import LAUNCH, LAYOUT

KEY = "uid-1.1"


@pytest.fixture
def shim() -> Iterator[subprocess.Popen[bytes]]:
    with subprocess.Popen(["sleep", "600"]) as process:
        yield process
        process.kill()


@pytest.fixture
def guardian(tmp_path: Path) -> Iterator[Guardian]:
    guardian = Guardian(tmp_path, "host-a", LAYOUT, lambda: None)
    yield guardian
    guardian.close()


def move_in(directory: Path, shim: subprocess.Popen[bytes]) -> None:
    made = run_dir.create(str(directory), KEY, encode(LAUNCH))
    assert made is not None
    stat = processes.stat(shim.pid)
    assert stat is not None
    run_dir.write_process(
        f"{made}/{run_dir.SHIM}", ProcessId(shim.pid, stat.start_ticks, processes.boot_id()), "c1a1"
    )
    DeadlineFile.create(made)


def test_want_of_descriptors_is_no_proof_that_a_shim_is_dead(
    tmp_path: Path,
    guardian: Guardian,
    shim: subprocess.Popen[bytes],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    move_in(tmp_path, shim)

    def none_left(_pid: int) -> int:
        raise OSError(errno.EMFILE, "Too many open files")

    with monkeypatch.context() as scarce:
        scarce.setattr(os, "pidfd_open", none_left)
        for now_s in (1.0, 2.0):
            guardian.tick(now_s)
    assert shim.poll() is None
    guardian.tick(3.0)
    assert [guarded_attempt.stage for guarded_attempt in guardian.guarded_attempts()] == [GuardStage.WATCHED]
    assert len(guardian.fds()) == 2


def test_a_shim_whose_deadline_comes_near_is_killed_and_its_directory_removed(
    tmp_path: Path,
    guardian: Guardian,
    shim: subprocess.Popen[bytes],
) -> None:
    move_in(tmp_path, shim)
    deadline = DeadlineFile.create(str(tmp_path / KEY))
    deadline.write(100.0)
    guardian.tick(99.0)
    assert shim.poll() is None
    assert guardian.tick(99.4) == pytest.approx(0.1), "in time for the deadline"
    guardian.tick(99.5)
    assert shim.wait(10) < 0
    for _ in range(3):
        guardian.tick(99.6)
    assert guardian.keys() == frozenset() and not (tmp_path / KEY).exists()


def test_the_directory_of_the_next_shim_is_not_taken_for_that_of_the_last_one(
    tmp_path: Path,
    guardian: Guardian,
    shim: subprocess.Popen[bytes],
) -> None:
    """The agent starts another shim for the same attempt, as it does for one that ended before its claim; that has not
    locked its directory yet when the guardian, which has just removed the last one, looks again."""
    move_in(tmp_path, shim)
    guardian.tick(1.0)
    shim.kill()
    shim.wait(10)
    for now_s in (2.0, 3.0, 4.0):
        guardian.tick(now_s)
        if not (tmp_path / KEY).exists():
            break
    assert run_dir.create(str(tmp_path), KEY, encode(LAUNCH)) is not None
    guardian.tick(5.0)
    guardian.tick(6.0)
    assert (tmp_path / KEY / run_dir.LAUNCH).exists()
    assert [guarded_attempt.stage for guarded_attempt in guardian.guarded_attempts()] == [GuardStage.UNBORN]


def test_a_directory_without_a_shim_is_removed_in_the_end(tmp_path: Path, guardian: Guardian) -> None:
    run_dir.create(str(tmp_path), KEY, encode(LAUNCH))
    guardian.tick(0.0)
    assert (tmp_path / KEY).exists()
    guardian.tick(UNBORN_S)
    guardian.tick(UNBORN_S)
    assert guardian.keys() == frozenset() and not (tmp_path / KEY).exists()


def test_a_run_directory_that_was_copied_kills_nobody(
    tmp_path: Path,
    guardian: Guardian,
    shim: subprocess.Popen[bytes],
) -> None:
    """Its files name the shim of the other one, which does not hold the lock here."""
    move_in(tmp_path, shim)
    held = run_dir.take_lock(str(tmp_path / KEY))
    copy = tmp_path / "uid-1.10"
    shutil.copytree(tmp_path / KEY, copy)
    DeadlineFile.create(str(copy)).write(1.0)
    before = len(os.listdir("/proc/self/fd"))
    for now_s in (100.0, 101.0):
        guardian.tick(now_s)
    assert shim.poll() is None and not copy.exists()
    assert [guarded_attempt.stage for guarded_attempt in guardian.guarded_attempts()] == [GuardStage.WATCHED]
    assert len(os.listdir("/proc/self/fd")) == before + 1
    assert held is not None
    os.close(held)


def test_nothing_is_removed_where_a_link_leads_to(tmp_path: Path, guardian: Guardian) -> None:
    attempts, outside = tmp_path / "attempts", tmp_path / "outside"
    outside.mkdir()
    (outside / "precious").write_text("x")
    attempts.mkdir()
    (attempts / KEY).symlink_to(outside)
    (attempts / "by-hand").mkdir()
    guardian._attempts_dir = str(attempts)
    for now_s in (0.0, UNBORN_S, UNBORN_S + 1.0):
        guardian.tick(now_s)
    assert os.listdir(outside) == ["precious"]
    assert (attempts / "by-hand").exists(), "no attempt is called so"


def test_a_cgroup_that_is_not_the_attempts_is_let_be(
    tmp_path: Path,
    guardian: Guardian,
    shim: subprocess.Popen[bytes],
) -> None:
    group = tmp_path / "somebodys"
    group.mkdir()
    (group / "cgroup.events").write_text("populated 1\n")
    (group / "cgroup.kill").write_text("")
    (group / "empty").mkdir()
    move_in(tmp_path, shim)
    (tmp_path / KEY / run_dir.LAUNCH).write_bytes(encode(replace(LAUNCH, cgroup=str(group))))
    guardian.tick(1.0)
    shim.kill()
    shim.wait(10)
    for now_s in (2.0, 3.0, 4.0):
        guardian.tick(now_s)
    assert not (tmp_path / KEY).exists()
    assert (group / "cgroup.kill").read_text() == "" and (group / "empty").exists()
