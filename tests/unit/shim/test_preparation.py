"""A prepared driver as its shim sees it: what is handed over to it, what its reports mean, and what opens its barrier."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from supervisor.clients import run_dir
from supervisor.clients.run_dir import Opening, Readiness
from supervisor.clock import boottime_s
from supervisor.model.launch import NO_ATTEMPT, PREPARE_LEVEL, PREPARED, Launch
from supervisor.records.codec import encode
from supervisor.shim import runner as runner_module
from supervisor.shim import state as shim
from supervisor.shim.output import OutputPump, RotatedFile
from supervisor.shim.preparation import PreparedTree
from supervisor.shim.reports import parse
from supervisor.shim.starter import TO_BARRIER, fork_starter, held_at_barrier, release, release_to_barrier
from supervisor.shim.state import Reported, Stage
from tests.unit.shim.test_runner import ROOT, made
from tests.unit.shim.test_starter import Group, ended
from tests.unit.shim.world import ENTRY, LAUNCH

KEY = f"{ENTRY.uid}.pa1"
ENV = {"A": "1", "SPARK_SUPERVISOR_ATTEMPT": "0", PREPARED: "x", PREPARE_LEVEL: "session"}
UP = replace(
    LAUNCH,
    prepared=KEY,
    assignment=replace(ENTRY, attempt=NO_ATTEMPT, own_version=-1, job_version=-1),
    env=ENV,
)
HANDED = replace(
    LAUNCH,
    prepared=KEY,
    env={**ENV, "SPARK_SUPERVISOR_ATTEMPT": "1", "SPARK_SUPERVISOR_GATE": "g", PREPARED: "y"},
    hadoop_conf={"supervisor.fence.owner": "job=job"},
    spark_conf={"spark.yarn.tags": "t"},
)


class Lines:
    def __init__(self) -> None:
        self.reported: list[tuple[str, dict[str, Any]]] = []

    def __call__(self, event: str, level: str = "info", **fields: Any) -> None:
        self.reported.append((event, fields))


@pytest.fixture
def log() -> Lines:
    return Lines()


@pytest.fixture
def driver(tmp_path: Path, log: Lines) -> PreparedTree:
    return PreparedTree(str(tmp_path), UP, log)


def hand(directory: Path, launch: Launch) -> None:
    (directory / run_dir.HANDED).write_bytes(encode(launch, 1 << 20))


def meant(driver: PreparedTree, *events: str) -> list[Any]:
    reports = [parse(json.dumps({"event": event, "why": "a reason"}).encode()) for event in events]
    found = driver.understood(report for report in reports if report is not None)
    return [event.event if isinstance(event, Reported) else type(event) for event in found]


# -- the hand-over -----------------------------------------------------------------------------------------------------


def test_an_attempt_for_it_is_taken(tmp_path: Path, driver: PreparedTree) -> None:
    assert driver.handed() == []
    hand(tmp_path, HANDED)
    assert driver.handed() == [shim.HandedOver(HANDED)]


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"assignment": replace(ENTRY, uid="uid-2")}, "uid"),
        ({"assignment": replace(ENTRY, name="other")}, "name"),
        ({"assignment": replace(ENTRY, revision=2)}, "revision"),
        ({"assignment": UP.assignment}, "no attempt"),
        ({"prepared": f"{ENTRY.uid}.pb2"}, "prepared"),
        ({"prepared": ""}, "prepared"),
        ({"cgroup": "/sys/fs/cgroup/x"}, "cgroup"),
        ({"root": "/other"}, "root"),
    ],
)
def test_what_is_not_for_it_is_refused(
    tmp_path: Path, driver: PreparedTree, log: Lines, change: dict[str, Any], why: str
) -> None:
    hand(tmp_path, replace(HANDED, **change))
    assert [type(event) for event in driver.handed()] == [shim.HandedUnfit]
    assert [event for event, _ in log.reported] == ["shim_not_handed_over"] and why in log.reported[0][1][
        "why"
    ]


def test_what_is_no_launch_is_refused(tmp_path: Path, driver: PreparedTree, log: Lines) -> None:
    (tmp_path / run_dir.HANDED).write_text("{")
    assert [type(event) for event in driver.handed()] == [shim.HandedUnfit]
    assert len(log.reported) == 1


# -- its reports -------------------------------------------------------------------------------------------------------


def test_the_agent_says_whether_it_is_wanted(driver: PreparedTree) -> None:
    assert meant(driver, "wanted", "discard", "handed") == [shim.StillWanted, shim.DiscardAsked]


def test_how_far_it_has_come_is_written_down_once(tmp_path: Path, driver: PreparedTree, log: Lines) -> None:
    assert meant(driver, "unready", "ready") == []
    found = run_dir.read_readiness(str(tmp_path))
    assert found is not None and found[:2] == (False, "a reason")
    assert [event for event, _ in log.reported] == ["shim_prepared"]


def test_no_word_of_the_driver_opens_its_barrier(driver: PreparedTree) -> None:
    assert meant(driver, "opened", "late", "begun", "session", "progress", "waiting") == []


@pytest.mark.parametrize("first", ["opened", "waiting", "begun"])
def test_it_has_begun_when_it_is_past_its_barrier(driver: PreparedTree, first: str) -> None:
    """One of the reports may be lost."""
    assert driver.open(HANDED, "c1", 9.0) == []
    assert meant(driver, "session", first, "opened", "late", "query") == [
        "session",
        shim.Executed,
        first,
        "opened",
        "late",
        "query",
    ]


def test_a_driver_that_was_late_says_so(driver: PreparedTree) -> None:
    driver.open(HANDED, "c1", 9.0)
    assert meant(driver, "late") == [shim.ExecLate]


# -- the opening -------------------------------------------------------------------------------------------------------


def test_the_opening_says_what_only_the_attempt_knows(tmp_path: Path, driver: PreparedTree) -> None:
    assert driver.open(HANDED, "c1", 9.5) == []
    env = {"SPARK_SUPERVISOR_ATTEMPT": "1", "SPARK_SUPERVISOR_GATE": "g"}
    assert run_dir.read_opening(str(tmp_path)) == Opening(
        "c1", 9.5, env, HANDED.hadoop_conf, HANDED.spark_conf
    )


def test_what_can_not_be_opened_has_not_begun(tmp_path: Path, driver: PreparedTree) -> None:
    (tmp_path / run_dir.OPENING).touch()
    (failed,) = driver.open(HANDED, "c1", 9.5)
    assert isinstance(failed, shim.ExecFailed) and not failed.permanent
    assert meant(driver, "opened") == []


def test_a_disk_that_fails_opens_nothing(driver: PreparedTree, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(_directory: str, _opening: Opening, _reader: int | None) -> bool:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(run_dir, "write_opening", fails)
    (failed,) = driver.open(HANDED, "c1", 9.5)
    assert isinstance(failed, shim.ExecFailed) and "No space" in failed.error and not failed.permanent


# -- its starter -------------------------------------------------------------------------------------------------------


def starter_of(directory: Path, launch: Launch) -> Any:
    given = replace(
        launch, argv=("touch", str(directory / "executed")), cwd=str(directory), env=dict(os.environ)
    )
    tree: Any = Group()
    return fork_starter(given, "c1", tree)


def test_its_starter_needs_no_deadline(tmp_path: Path) -> None:
    starter = starter_of(tmp_path, UP)
    release_to_barrier(starter)
    assert ended(starter) == b"" and (tmp_path / "executed").exists()


def test_an_ordinary_starter_never_starts_without_a_deadline(tmp_path: Path) -> None:
    for launch in (LAUNCH, HANDED):
        starter = starter_of(tmp_path, launch)
        release_to_barrier(starter)
        assert ended(starter).startswith(b"0 ") and not (tmp_path / "executed").exists()


def test_its_starter_never_starts_by_a_deadline(tmp_path: Path) -> None:
    starter = starter_of(tmp_path, UP)
    release(starter, boottime_s() + 1000.0)
    assert b"it waits at its barrier" in ended(starter) and not (tmp_path / "executed").exists()


def test_its_driver_is_told_of_its_barrier_by_the_shim(tmp_path: Path) -> None:
    """And is not started if it would find none, or an open one."""
    held = held_at_barrier(replace(UP, env={"A": "1"}), str(tmp_path))
    assert held.env == {"A": "1", PREPARED: f"{tmp_path}/{run_dir.OPENING}"}
    with pytest.raises(OSError, match="no barrier"):
        held_at_barrier(replace(UP, reports=False), str(tmp_path))
    (tmp_path / run_dir.OPENING).touch()
    with pytest.raises(OSError, match="another shim"):
        held_at_barrier(UP, str(tmp_path))


# -- its runner --------------------------------------------------------------------------------------------------------


def prepared(directory: Path) -> Any:
    return made(directory, prepared=KEY, assignment=UP.assignment, env=ENV)


def test_it_has_no_connection_until_an_attempt_is_handed_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with prepared(tmp_path) as (runner, _, _):
        monkeypatch.setattr(runner, "_connect", lambda: connected.append(runner._state.launch))
        connected: list[Launch] = []
        names: list[str] = []
        monkeypatch.setattr(runner._pump, "move_to", names.append)
        for event in runner._happened():
            runner._feed(event)
        assert runner._state.stage is Stage.PREPARED and connected == []
        given = replace(HANDED, log_path=str(tmp_path / "uid-1.1.log"))
        hand(tmp_path, given)
        for event in runner._happened():
            runner._feed(event)
        assert runner._state.stage is Stage.CONNECTING and connected == [given]
        assert names == [given.log_path]


def test_what_was_handed_over_is_not_discarded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with prepared(tmp_path) as (runner, _, _):
        monkeypatch.setattr(runner, "_connect", lambda: None)
        hand(tmp_path, replace(HANDED, log_path=str(tmp_path / "log")))
        monkeypatch.setattr(runner._reports, "take", lambda: [Reported("discard")])
        events = runner._happened()
        assert [type(event) for event in events[:2]] == [shim.HandedOver, shim.DiscardAsked]
        for event in events:
            runner._feed(event)
        assert runner._state.stage is Stage.CONNECTING


def test_its_exec_begins_nothing_and_its_end_is_written_down(tmp_path: Path) -> None:
    with prepared(tmp_path) as (runner, ends, children):
        ends.write_and_end()
        assert runner._hear_starter() == []
        children.ended[ROOT] = 3
        assert [type(event) for event in runner._exit()] == [shim.Exited]
    assert (run_dir.read_readiness(str(tmp_path)) or Readiness(True, "", 0.0))[:2] == (
        False,
        "its driver has ended (status 3)",
    )


def test_a_driver_that_could_not_be_executed_says_why(tmp_path: Path) -> None:
    with prepared(tmp_path) as (runner, ends, _):
        ends.write_and_end(b"2 x could not be executed: No such file")
        while not runner._heard:
            assert runner._hear_starter() == []
    found = run_dir.read_readiness(str(tmp_path))
    assert found is not None and found[:2] == (False, "x could not be executed: No such file")


def test_exec_opens_its_barrier(tmp_path: Path) -> None:
    with prepared(tmp_path) as (runner, ends, _):
        runner._state = replace(runner._state, launch=HANDED)
        os.set_blocking(ends.go, False)
        assert runner._perform((shim.Exec(99.5),)) == []
        with pytest.raises(BlockingIOError):
            os.read(ends.go, 100)
    opening = run_dir.read_opening(str(tmp_path))
    assert opening is not None and (opening.claim, opening.before_at_s) == ("c1a1", 99.5)


def test_it_is_let_go_by_its_own_word() -> None:
    with pytest.raises(ValueError):
        float(TO_BARRIER)
    assert runner_module.release_to_barrier is release_to_barrier


# -- its output --------------------------------------------------------------------------------------------------------


def test_its_output_takes_the_name_of_the_attempt(tmp_path: Path) -> None:
    read, write = os.pipe()
    pump = OutputPump(read, RotatedFile(str(tmp_path / "u.pa1.log"), 1000, 3))
    pump.start()
    os.write(write, b"x" * 1200)
    os.write(write, b"before ")
    pump.move_to(str(tmp_path / "u.1.log"))
    os.write(write, b"after")
    os.close(write)
    pump.join(10)
    assert {path.name for path in tmp_path.iterdir()} <= {"u.1.log", "u.1.log.1"}
    text = b"".join(path.read_bytes() for path in sorted(tmp_path.iterdir(), reverse=True))
    assert text == b"x" * 1200 + b"before after"


def test_a_silent_driver_has_the_name_of_the_attempt_too(tmp_path: Path) -> None:
    file = RotatedFile(str(tmp_path / "a"), 1000, 3)
    file.write(b"1")
    file.move_to(str(tmp_path / "b"))
    assert [path.name for path in tmp_path.iterdir()] == ["b"]


def test_a_log_that_is_there_is_kept(tmp_path: Path) -> None:
    """An attempt that came to nothing before its claim has written it."""
    (tmp_path / "b").write_text("old")
    file = RotatedFile(str(tmp_path / "a"), 1000, 3)
    file.write(b"new")
    file.move_to(str(tmp_path / "b"))
    assert (tmp_path / "b").read_text() == "new" and (tmp_path / "b.1").read_text() == "old"


def test_a_name_that_can_not_be_had_costs_nothing_but_the_name(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    file = RotatedFile(str(tmp_path / "a"), 1000, 3)
    file.write(b"1")
    file.move_to(str(tmp_path / "file" / "b"))
    file.write(b"2")
    file.close()
    assert (tmp_path / "a").read_text() == "12" and file.dropped_bytes == 0


def test_a_readiness_that_could_not_be_written_down_is_written_down_soon(
    driver: PreparedTree, log: Lines, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a disk that is full for a moment: the agent would wait for the word until the start's time is over."""

    def full(*_: object) -> bool:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as broken:
        broken.setattr(run_dir, "write_readiness", full)
        assert driver.understood([Reported("ready")]) == []
        assert driver.handed() == [] and run_dir.read_readiness(str(tmp_path)) is None
    assert driver.handed() == []
    found = run_dir.read_readiness(str(tmp_path))
    assert found is not None and (found.ready, found.why) == (True, "")
    driver.handed()
    assert [event for event, _ in log.reported] == ["shim_prepared"]
