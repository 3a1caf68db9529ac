"""What the runner and the twin make of a deadline file that cannot be written, or was torn."""

from __future__ import annotations

import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from supervisor.clients.run_dir import DeadlineFile
from supervisor.model.second_killer import Act, KillerProbe, SecondKiller, step
from supervisor.shim import runner as runner_module
from supervisor.shim import state as shim
from supervisor.shim import twin
from supervisor.shim.runner import Runner


class Unwritable:
    def write(self, _deadline_s: float | None) -> None:
        raise OSError(28, "No space left on device")


class Log:
    def log_event(self, *_words: Any, **_more: Any) -> None: ...


def runner_with(deadline: Any) -> Runner:
    """As much of one as performs effects."""
    made = object.__new__(Runner)
    made._parts = SimpleNamespace(deadline=deadline, launch=SimpleNamespace(cgroup=None), starter=None)  # type: ignore[assignment]
    made._log = Log()  # type: ignore[assignment]
    return made


def test_nothing_is_executed_whose_deadline_the_second_killers_can_not_know(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The disk of the run directory is full. Without a file twin and guardian would leave the driver alone for ever."""
    release: list[float] = []
    monkeypatch.setattr(runner_module, "release", lambda _starter, before_at_s: release.append(before_at_s))
    events = runner_with(Unwritable())._perform((shim.WriteDeadline(100.0), shim.Exec(99.0)))
    assert events == [shim.DeadlineUnwritable()] and release == []


def test_a_renewal_whose_deadline_can_not_be_written_goes_on_by_the_one_before() -> None:
    """The file still has the earlier deadline, which only ends the driver sooner."""
    assert runner_with(Unwritable())._perform((shim.WriteDeadline(100.0),)) == []


def test_a_torn_deadline_file_is_not_one_without_a_deadline(tmp_path: Path) -> None:
    """Half of a number says that there is one. "None" would tell the twin that the shim has called it off."""
    deadline = DeadlineFile.create(str(tmp_path))
    deadline.write(123456.75)
    whole = twin._probe(False, deadline)
    assert whole == KillerProbe(False, 123456.75)
    os.pwrite(deadline._descriptor, b"12\x0034", 0)
    torn = twin._probe(False, deadline)
    assert (torn.deadline_at_s, torn.readable) == (None, False)
    killer = step(step(SecondKiller(), whole, 0.0), torn, 1.0)
    assert step(killer, torn, 123457.0).act is not Act.PROBE, "it acts at the deadline that it knew"
