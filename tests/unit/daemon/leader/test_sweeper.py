"""The leader's sweeper also removes what is left of savepoints: after the rest, and only while it may."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs

from supervisor.clients.store.files import FileStore
from supervisor.coord.epoch_marks import EpochMarks
from supervisor.coord.term import Term
from supervisor.daemon.leader import sweeper
from supervisor.daemon.leader.controller import Controller
from supervisor.daemon.leader.record import Recorder
from supervisor.daemon.leader.sweeper import Sweeper
from supervisor.daemon.loops.watchdog import Watchdog
from supervisor.errors import Conflict, GuardFailed, OutcomeUnknown, Unreachable
from supervisor.metrics import Metrics
from supervisor.model.location import digest
from supervisor.model.records import CheckpointClaim, EpochRecord, Pause
from supervisor.model.transaction import Transaction
from supervisor.observe.observer import Observer
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


class Part:
    """What is swept in one part of a sweep: keeps what it is to ask before each request."""

    def __init__(self, asked: list[Callable[[], bool]]) -> None:
        self.asked = asked

    def scan(self, *given: Any) -> tuple[str, ...]:
        self.asked.append(given[-1])
        return ()

    sweep = scan


@pytest.mark.parametrize(
    "hinder",
    [
        lambda term, paused: term.end("over"),
        lambda term, paused: term.set_distrust("restored meanwhile"),
        lambda term, paused: paused.append("by somebody"),
    ],
    ids=["term-over", "distrusted", "paused"],
)
def test_each_part_asks_whether_it_may_go_on(rig: Rig, hinder: Callable[..., None]) -> None:
    asked: list[Callable[[], bool]] = []
    paused: list[str] = []
    part: Any = Part(asked)
    Sweeper(
        rig.term,
        rig.bench.layout,
        rig.executor,
        part,
        EpochMarks(rig.store),
        paused=lambda: bool(paused),
        savepoints=part,
        logs=part,
        applications=part,
    ).sweep_once()
    assert [may_go_on() for may_go_on in asked] == [True] * 4
    hinder(rig.term, paused)
    assert [may_go_on() for may_go_on in asked] == [False] * 4


def test_a_registry_that_has_lost_its_references_needs_everything(rig: Rig) -> None:
    """I10: no job is there, so that no blob would be needed and every claim be left over."""
    rig.blobs.put_spec("a", "0123456789ab-00000000", 1, b"{}")
    assert rig.sweep_after_the_grace() == 1
    rig.bench.zoo.remove(rig.bench.layout.jobs)
    with pytest.raises(Conflict, match="/jobs"):
        rig.sweep_after_the_grace()
    with pytest.raises(Conflict, match="/jobs"):
        rig.sweeper._references()
    assert len([*rig.store.entries("specs/")]) == 1


@pytest.mark.parametrize("read", [Sweeper.sweep_once, Sweeper._references, Sweeper._known_jobs])
def test_what_is_listed_is_judged_by_a_later_view(
    rig: Rig, monkeypatch: pytest.MonkeyPatch, read: Callable[[Sweeper], object]
) -> None:
    taken: list[str] = []

    def recorded(what: str, function: Callable[..., Any]) -> Callable[..., Any]:
        def call(*given: Any) -> Any:
            taken.append(what)
            return function(*given)

        return call

    monkeypatch.setattr(sweeper, "take_listing", recorded("listing", sweeper.take_listing))
    monkeypatch.setattr(Observer, "take_view", recorded("view", Observer.take_view))
    read(rig.sweeper)
    assert taken and taken == ["listing", "view"] * (len(taken) // 2)


def with_older_claims(rig: Rig) -> None:
    """Two of a uid that is gone."""
    rig.bench.submit("a")
    for number in range(2):
        place = f"s3://bkt/{number}"
        claim = CheckpointClaim(location=place, name="a", uid="older-uid")
        rig.bench.put(rig.bench.layout.checkpoint(digest(place)), claim)


@pytest.mark.parametrize("error", [GuardFailed("/own/a", "bad_version", 0), OutcomeUnknown("lost")])
def test_what_may_have_stayed_is_not_counted(rig: Rig, error: Exception) -> None:
    with_older_claims(rig)

    def fail(build: Callable[[LeaderWriteContext], Transaction]) -> int | None:
        raise error

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(rig.executor, "commit", fail)
        assert rig.sweeper.sweep_once() == 0
    assert rig.sweeper.sweep_once() == 2


@pytest.mark.parametrize(("error", "tried"), [(Unreachable("silent"), 1), (ValueError("a defect"), 2)])
def test_a_registry_that_does_not_answer_ends_the_sweep_and_a_defect_of_one_record_does_not(
    rig: Rig, error: Exception, tried: int
) -> None:
    with_older_claims(rig)
    calls: list[str] = []

    def fail(build: Callable[[LeaderWriteContext], Transaction]) -> int | None:
        calls.append("")
        raise error

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(rig.executor, "commit", fail)
        with pytest.raises(Unreachable) if tried == 1 else nullcontext():
            rig.sweeper.sweep_once()
    assert len(calls) == tried


def test_few_records_go_in_one_sweep(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    with_older_claims(rig)
    monkeypatch.setattr(sweeper, "DELETIONS_MAX", 1)
    assert [rig.sweeper.sweep_once() for _ in range(3)] == [1, 1, 0]


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
