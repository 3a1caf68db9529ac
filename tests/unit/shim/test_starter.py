"""The process that may become the driver: what it executes, and what it does not."""

from __future__ import annotations

import os
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from supervisor.clock import boottime_s
from supervisor.shim.starter import Starter, fork_starter, outcome, release
from tests.unit.shim.world import LAUNCH


class Group:
    """``enter`` fails, or tells who has entered."""

    def __init__(self, error: OSError | None = None) -> None:
        self.entered, self._reported = os.pipe()
        self._error = error

    def enter(self) -> None:
        if self._error is not None:
            raise self._error
        os.write(self._reported, b"%d" % os.getpid())


def forked(directory: Path, group: Group | None = None) -> Starter:
    """It would make the file ``executed``."""
    launch = replace(
        LAUNCH, argv=("touch", str(directory / "executed")), cwd=str(directory), env=dict(os.environ)
    )
    tree: Any = group or Group()
    return fork_starter(launch, "c1a1", tree)


def ended(starter: Starter) -> bytes:
    """All that it said after "ready"."""
    heard = b""
    while data := os.read(starter.answer, 1000):
        heard += data
    os.waitpid(starter.pid, 0)
    for descriptor in (starter.pidfd, starter.answer, starter.output):
        os.close(descriptor)
    with suppress(OSError):
        os.close(starter.go)
    return heard


def test_it_becomes_the_driver_when_it_is_let_go_in_time(tmp_path: Path) -> None:
    starter = forked(tmp_path)
    release(starter, boottime_s() + 1000.0)
    assert outcome(ended(starter)) is None and (tmp_path / "executed").exists()


def test_it_looks_at_the_clock_itself(tmp_path: Path) -> None:
    """It, or the shim, may have been stopped since the shim has looked."""
    starter = forked(tmp_path)
    release(starter, boottime_s())
    refusal = outcome(ended(starter))
    assert refusal is not None and refusal.late
    assert not (tmp_path / "executed").exists()


def test_the_end_of_the_shim_is_no_word(tmp_path: Path) -> None:
    starter = forked(tmp_path)
    os.close(starter.go)
    ended(starter)
    assert not (tmp_path / "executed").exists()


def test_it_is_inside_before_it_waits(tmp_path: Path) -> None:
    group = Group()
    starter = forked(tmp_path, group)
    os.set_blocking(group.entered, False)
    assert os.read(group.entered, 20) == b"%d" % starter.pid
    os.close(starter.go)
    ended(starter)


def test_one_that_can_not_get_inside_is_none(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="No such device"):
        forked(tmp_path, Group(OSError(19, "No such device")))
