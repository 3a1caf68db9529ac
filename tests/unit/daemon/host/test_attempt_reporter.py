"""What the shim of a JVM application is told of its commit log."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest

from supervisor.checkpoint.commit_log import CommitLog, CommittedBatch
from supervisor.clock import boottime_s
from supervisor.daemon.host import attempt_reporter
from supervisor.daemon.host.attempt_reporter import AttemptReporter
from supervisor.daemon.host.launcher import HostedAttempts
from supervisor.errors import Unreachable
from supervisor.metrics import Metrics
from supervisor.model.launch import Launch
from supervisor.records.layout import Layout
from tests.fakes.report_socket import ReportSocket
from tests.unit.shim.world import LAUNCH

KEY = "uid-1.1"


class Log:
    """A commit log that says what the test wants: a batch, None, or an error."""

    def __init__(self) -> None:
        self.found: int | Exception | None = None
        self.waits = False

    def newest(self) -> CommittedBatch | None:
        if isinstance(self.found, Exception):
            raise self.found
        return None if self.found is None else CommittedBatch("", self.found)

    def committed(self) -> dict[str, int]:
        return {}

    def waits_for_data(self) -> bool:
        return self.waits


class Home(HostedAttempts):
    """One JVM application is hosted; its run directory is ``attempts_dir/KEY``."""

    def launches(self) -> dict[str, Launch]:
        return {KEY: replace(LAUNCH, reports=False)}


class ReporterRig:
    def __init__(self, directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.log = Log()
        self.beats = 0
        self._home = Home(directory, directory)
        (self._home.attempts_dir / KEY).mkdir(parents=True)
        self.socket = ReportSocket(self._home.attempts_dir / KEY)
        self._count = 0
        self.start()
        monkeypatch.setattr(attempt_reporter, "COMMITS_EVERY_S", 0.0)

    def start(self) -> None:
        """A supervisor begins: it knows nothing of what another saw."""
        self._reporter = AttemptReporter(
            "s1",
            self._home,
            Layout("/c"),
            lambda: None,
            Metrics(boottime_s),
            lambda _launch: cast(CommitLog, self.log),
        )

    def forget_readings(self) -> None:
        """As if the attempt had only now appeared beside others that were looked at a moment ago."""
        self._reporter._logs.clear()
        self._reporter._searched_for.clear()

    def probe(self, found: int | Exception | None, *, waits: bool = False) -> list[dict[str, Any]]:
        """One look; what the shim was told of it."""
        self.log.found, self.log.waits = found, waits
        self._reporter.round(self._beat)
        before, self._count = self._count, len(self.socket.take())
        return self.socket.taken[before:]

    def _beat(self) -> None:
        self.beats += 1


@pytest.fixture
def rig(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ReporterRig]:
    made = ReporterRig(tmp_path, monkeypatch)
    with made.socket:
        yield made


def test_progress_idle_and_a_look_in_vain_are_told_apart(rig: ReporterRig) -> None:
    assert rig.probe(None) == [{"event": "looked", "batch_id": None}]
    assert rig.probe(0) == [{"event": "progress", "batch_id": 0}]
    assert rig.probe(0) == [{"event": "looked", "batch_id": 0}]
    assert rig.probe(0, waits=True) == [{"event": "idle"}]
    assert rig.probe(7, waits=True) == [{"event": "progress", "batch_id": 7}]
    assert rig.beats == 5


def test_what_can_not_be_read_is_no_look_at_all(rig: ReporterRig) -> None:
    """Nor does the first look that succeeds take what was there before for progress."""
    away = Unreachable("the store is away")
    assert rig.probe(away) == []
    assert rig.probe(40) == [{"event": "looked", "batch_id": 40}]
    assert rig.probe(away) == []
    assert rig.probe(41) == [{"event": "progress", "batch_id": 41}]


def test_a_fresh_attempt_is_looked_at_at_once(rig: ReporterRig, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its first look is where progress begins: what it commits before that would be taken for its predecessor's."""
    rig.probe(3)
    monkeypatch.setattr(attempt_reporter, "COMMITS_EVERY_S", 3600.0)
    assert rig.probe(4) == []
    rig.forget_readings()
    assert rig.probe(4) == [{"event": "looked", "batch_id": 4}]


def test_a_supervisor_begins_with_a_look_and_says_what_it_found(rig: ReporterRig) -> None:
    rig.probe(3)
    rig.probe(4)
    rig.start()
    assert rig.probe(50) == [{"event": "looked", "batch_id": 50}]


@pytest.mark.parametrize(
    "trouble", [ValueError("not ascii"), OSError("no descriptor"), Unreachable("the store is away")]
)
def test_a_job_whose_commits_cannot_be_opened_disturbs_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, trouble: Exception
) -> None:
    monkeypatch.setattr(attempt_reporter, "COMMITS_EVERY_S", 0.0)
    bad, good = replace(LAUNCH, reports=False), replace(LAUNCH, reports=False)
    log = Log()
    log.found = 3

    class Two(Home):
        def launches(self) -> dict[str, Launch]:
            return {"uid-0.1": bad, KEY: good}

    def probe_at(launch: Launch) -> CommitLog:
        if launch is bad:
            raise trouble
        return cast(CommitLog, log)

    home = Two(tmp_path, tmp_path)
    (home.attempts_dir / KEY).mkdir(parents=True)
    with ReportSocket(home.attempts_dir / KEY) as shim:
        AttemptReporter("s1", home, Layout("/c"), lambda: None, Metrics(boottime_s), probe_at).round(
            lambda: None
        )
        assert shim.take() == [{"event": "looked", "batch_id": 3}]
