"""The leader's sweeper also removes what is left of savepoints: after the rest, and only while it may."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs

from supervisor.clients.store.files import FileStore
from supervisor.coord.epoch_marks import EpochMarks
from supervisor.coord.term import Term
from supervisor.daemon.leader.controller import Controller
from supervisor.daemon.leader.record import Recorder
from supervisor.daemon.leader.sweeper import Sweeper
from supervisor.daemon.loops.watchdog import Watchdog
from supervisor.metrics import Metrics
from supervisor.model.location import digest
from supervisor.model.records import CheckpointClaim, EpochRecord, Pause
from supervisor.model.transaction import Transaction
from supervisor.plan.make import Policy
from supervisor.registry.blob_sweep import BlobSweeper
from supervisor.registry.blobs import Blobs
from supervisor.registry.leader_write_context import LeaderWriteContext
from supervisor.registry.uploaded_logs import LogSweeper, UploadedKey
from supervisor.savepoints.sweep import GRACE_S, SavepointSweeper
from tests.fakes.registry_bench import AT, Bench
from tests.fakes.zookeeper import MemoryClient
from tests.unit.checkpoint.savepoints import area, begun, files, place, shelf


class Rig:
    """With a savepoint ``left`` whose creation has died."""

    def __init__(self, directory: Path) -> None:
        self.now_s = 1000.0
        self.bench = Bench()
        self.bench.put(self.bench.layout.epoch, EpochRecord(epoch=1, supervisor="l1", op="op"))
        self.place = place(directory, "left")
        shelf(directory).begin(begun(directory / "source", self.place, "left"))
        area(self.place).write("data/offsets/0", b"v1")
        client = MemoryClient(self.bench.zoo)
        client.start()
        self.term: Term[Any] = Term(1, 0, client, 1000.0, depose=lambda why: None)
        self.term.set_recorded()
        self.store = FileStore(directory)
        self.blobs = Blobs(self.store)
        loop = Watchdog(end=lambda code: None).register("test", 60.0)
        controller = Controller(
            self.term, self.bench.layout, Policy(), Recorder(Metrics(self.clock), 0.0), loop
        )
        self.executor = controller.executor
        self.sweeper = Sweeper(
            self.term,
            self.bench.layout,
            self.executor,
            BlobSweeper(self.store, clock=self.clock),
            EpochMarks(self.store),
            savepoints=SavepointSweeper(shelf(directory), self.clock),
            logs=LogSweeper(self.store, clock=self.clock),
        )

    def clock(self) -> float:
        return self.now_s

    def sweep_after_the_grace(self) -> int:
        self.now_s += GRACE_S + 1
        return self.sweeper.sweep_once()


@pytest.fixture
def rig(tmp_path: Path) -> Rig:
    return swept(tmp_path)


def swept(directory: Path) -> Rig:
    """One that has swept once: what is left is known, and not old enough."""
    rig = Rig(directory)
    assert rig.sweeper.sweep_once() == 0
    return rig


def test_what_is_left_of_a_savepoint_is_swept_and_said(rig: Rig) -> None:
    with capture_logs() as logged:
        assert rig.sweep_after_the_grace() == 1
    assert [*files(rig.place)] == []
    (swept,) = [line for line in logged if line["event"] == "swept"]
    assert swept["savepoints"] == 1


@pytest.mark.parametrize(
    "hinder",
    [
        lambda rig: rig.term.end("over"),
        lambda rig: rig.bench.put(rig.bench.layout.pause, Pause(by="me", at=AT, reason="", op="op")),
        lambda rig: rig.term.set_distrust("restored meanwhile"),
    ],
    ids=["term-over", "paused", "distrusted"],
)
def test_nothing_is_swept_after_the_term_nor_while_paused_or_distrusted(
    rig: Rig, hinder: Callable[[Rig], None]
) -> None:
    hinder(rig)
    assert rig.sweep_after_the_grace() == 0
    assert [*files(rig.place)] == ["begun.json", "data/offsets/0"]


def test_a_sweep_under_way_ends_when_the_registry_is_not_trusted_any_more(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Found by exploration ("swept, restored"): what it had read of a registry that was replaced meanwhile, it went on deleting."""
    blobs = [rig.blobs.put_spec("a", f"gone-{number}", 1, b"{}").key for number in range(2)]
    rig.bench.submit("a")
    assert rig.sweeper.sweep_once() == 0
    for number in range(2):
        place = f"s3://bkt/{number}"
        rig.bench.put(
            rig.bench.layout.checkpoint(digest(place)),
            CheckpointClaim(location=place, name="a", uid="older-uid"),
        )
    commit = rig.executor.commit

    def and_then_the_contender_checks(build: Callable[[LeaderWriteContext], Transaction]) -> int | None:
        version = commit(build)
        rig.term.set_distrust("ZooKeeper was restored")
        return version

    monkeypatch.setattr(rig.executor, "commit", and_then_the_contender_checks)
    assert rig.sweep_after_the_grace() == 1
    assert len(rig.bench.zoo.client().children(rig.bench.layout.checkpoints) or ()) == 1
    assert {entry.key for entry in rig.store.entries("specs/")} >= set(blobs)


def with_logs(rig: Rig) -> list[str]:
    """Three outputs of a job that is there, which keeps two, and two of one that is gone. It has swept once since."""
    uid = rig.bench.submit("a").uid
    keys = [UploadedKey("a", uid, attempt, 2) for attempt in (1, 2, 3)]
    keys += [UploadedKey("b", "0123456789ab-00000000", attempt, 2) for attempt in (1, 2)]
    for key in keys:
        rig.store.create(str(key), b"x")
    assert rig.sweeper.sweep_once() == 0
    return list(map(str, keys))


def test_outputs_that_nothing_keeps_are_swept_and_said(swept_rig: Rig) -> None:
    keys = with_logs(swept_rig)
    with capture_logs() as logged:
        swept_rig.sweep_after_the_grace()
    (line,) = [line for line in logged if line["event"] == "swept"]
    assert line["logs"] == 3
    assert [entry.key for entry in swept_rig.store.entries("logs/")] == keys[1:3]


def test_a_sweep_of_outputs_ends_when_the_term_does(swept_rig: Rig) -> None:
    keys = with_logs(swept_rig)
    delete = swept_rig.store.delete

    def and_then_the_term_is_over(key: str) -> None:
        delete(key)
        if key.startswith("logs/"):
            swept_rig.term.end("over")

    swept_rig.store.delete = and_then_the_term_is_over  # type: ignore[method-assign]
    swept_rig.sweep_after_the_grace()
    assert len([*swept_rig.store.entries("logs/")]) == len(keys) - 1


def test_where_nothing_is_uploaded_the_references_are_not_read_for_it(swept_rig: Rig) -> None:
    assert LogSweeper(swept_rig.store).scan(lambda: pytest.fail("the registry was read")) == ()


@pytest.fixture
def swept_rig(tmp_path: Path) -> Rig:
    return swept(tmp_path)
