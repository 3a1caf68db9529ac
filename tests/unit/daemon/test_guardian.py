"""The guardian on run directories and processes of this host; its decisions are tested in ``test_ward``."""

from __future__ import annotations

import errno
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from supervisor.clients import processes, run_dir
from supervisor.clients.processes import ProcessId
from supervisor.clients.run_dir import DeadlineFile
from supervisor.daemon.guardian import Guardian
from supervisor.daemon.ward import UNBORN_S, WardStage
from supervisor.registry.codec import encode
from tests.unit.daemon.test_ward import LAUNCH, LAYOUT

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
    run_dir.write_process(f"{made}/{run_dir.SHIM}", ProcessId(shim.pid, stat.start_ticks, processes.boot_id()), "c1a1")
    DeadlineFile.create(made)


def test_want_of_descriptors_is_no_proof_that_a_shim_is_dead(
    tmp_path: Path, guardian: Guardian, shim: subprocess.Popen[bytes], monkeypatch: pytest.MonkeyPatch,
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
    assert [ward.stage for ward in guardian.wards()] == [WardStage.WATCHED]
    assert len(guardian.fds()) == 2


def test_a_shim_whose_deadline_comes_near_is_killed_and_its_directory_removed(
    tmp_path: Path, guardian: Guardian, shim: subprocess.Popen[bytes],
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
    tmp_path: Path, guardian: Guardian, shim: subprocess.Popen[bytes],
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
    assert [ward.stage for ward in guardian.wards()] == [WardStage.UNBORN]


def test_a_directory_without_a_shim_is_removed_in_the_end(tmp_path: Path, guardian: Guardian) -> None:
    run_dir.create(str(tmp_path), KEY, encode(LAUNCH))
    guardian.tick(0.0)
    assert (tmp_path / KEY).exists()
    guardian.tick(UNBORN_S)
    guardian.tick(UNBORN_S)
    assert guardian.keys() == frozenset() and not (tmp_path / KEY).exists()
