"""The leader's broom also sweeps what is left of savepoints: after the rest, and only while it may."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs

from supervisor.checkpoint.savepoint_sweep import GRACE_S, SavepointSweeper
from supervisor.clients.store.files import FileStore
from supervisor.coord.term import Term
from supervisor.daemon.controller import Controller
from supervisor.daemon.record import Recorder
from supervisor.daemon.sweeper import Sweeper
from supervisor.daemon.watchdog import Watchdog
from supervisor.metrics import Metrics
from supervisor.model.records import EpochRecord, Pause
from supervisor.plan.make import Policy
from supervisor.registry.blobs import Blobs
from supervisor.registry.sweep import BlobSweeper
from tests.fakes.offices import AT, Bench
from tests.fakes.zookeeper import MemoryClient
from tests.unit.checkpoint.savepoints import area, begun, files, place, shelf


class Rig:
    """With a savepoint ``left`` whose creation has died."""

    def __init__(self, directory: Path) -> None:
        self.now_s = 1000.0
        self.bench = Bench()
        self.bench.put(self.bench.layout.epoch, EpochRecord(1, "l1", "op"))
        self.place = place(directory, "left")
        shelf(directory).begin(begun(directory / "source", self.place, "left"))
        area(self.place).write("data/offsets/0", b"v1")
        client = MemoryClient(self.bench.zoo)
        client.start()
        self.term: Term[Any] = Term(1, 0, client, 1000.0, depose=lambda why: None)
        self.term.note_recorded()
        store = FileStore(directory)
        loop = Watchdog(end=lambda code: None).register("test", 60.0)
        controller = Controller(self.term, self.bench.layout, Policy(), Recorder(Metrics(self.clock), 0.0), loop)
        self.sweeper = Sweeper(
            self.term, self.bench.layout, controller.crew, BlobSweeper(store, clock=self.clock), Blobs(store),
            savepoints=SavepointSweeper(shelf(directory), self.clock),
        )

    def clock(self) -> float:
        return self.now_s

    def sweep_after_the_grace(self) -> int:
        self.now_s += GRACE_S + 1
        return self.sweeper.sweep_once()


@pytest.fixture
def rig(tmp_path: Path) -> Rig:
    rig = Rig(tmp_path)
    assert rig.sweeper.sweep_once() == 0
    return rig


def test_what_is_left_of_a_savepoint_is_swept_and_said(rig: Rig) -> None:
    with capture_logs() as said:
        assert rig.sweep_after_the_grace() == 1
    assert [*files(rig.place)] == []
    (swept,) = [line for line in said if line["event"] == "swept"]
    assert swept["savepoints"] == 1


@pytest.mark.parametrize(
    "hinder", [lambda rig: rig.term.end("over"), lambda rig: rig.bench.put(rig.bench.layout.pause, Pause("me", AT, "", "op"))],
    ids=["term-over", "paused"],
)
def test_nothing_is_swept_after_the_term_nor_while_paused(rig: Rig, hinder: Callable[[Rig], None]) -> None:
    hinder(rig)
    assert rig.sweep_after_the_grace() == 0
    assert [*files(rig.place)] == ["begun.json", "data/offsets/0"]
