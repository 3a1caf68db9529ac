"""A short run of everything, and the parts of the nemesis that must be right for a run to mean anything."""

from __future__ import annotations

import random
import threading
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from supervisor.clients.zookeeper import Link, ZooClient
from supervisor.demo.ensemble import EmbeddedEnsemble
from supervisor.errors import Unreachable
from tests.chaos.diary import Diary
from tests.chaos.report import distribution
from tests.chaos.run import run
from tests.chaos.sessions import expel, password_of
from tests.chaos.shared_lock import SharedLock
from tests.chaos.users import GONE, RUNNING, UNKNOWN, CommandRefused, ExpectedStage, Job, User
from tests.chaos.world import Options
from tests.faults import checker
from tests.faults.checker import WitnessNote
from tests.waiting import wait_until

SECONDS = 12.0


def test_a_short_run_breaks_no_promise(tmp_path: Path) -> None:
    """Few faults, and what they are differs with what is up at the moment; the long runs are a command (README.md)."""
    lines: list[str] = []
    outcome = run(Options(SECONDS, seed=1, kind="embedded", jobs=4), tmp_path / "chaos", lines.append)
    print("\n".join([*lines, outcome.text]))
    assert outcome.verdict.violations == []
    assert outcome.faults and outcome.leader_changes


def test_any_session_can_be_closed_by_its_id(embedded_ensemble: EmbeddedEnsemble) -> None:
    client = ZooClient(embedded_ensemble.hosts, 10.0)
    client.start()
    try:
        client.wait_connected(20)
        session = client.session
        assert session is not None and password_of(session.id) == session.password
        expel(embedded_ensemble.hosts, session.id)
        wait_until(lambda: client.link is Link.LOST, 20, "the session to be lost")
    finally:
        client.close()


def test_the_diary_knows_what_may_have_ended_an_attempt(tmp_path: Path) -> None:
    diary = Diary(tmp_path / "diary")
    with diary.harm("cut", ["one"], "s1", aftermath_s=1.0):
        diary.fault("cut", "s1")
    diary.close()
    (harm,) = diary.harms
    died = [
        WitnessNote("start", "one", "u", 1, 7, harm.begun_at_s - 5, host="s1"),
        WitnessNote("beat", "one", "u", 1, 7, harm.begun_at_s + 0.5),
    ]
    assert checker.disturbed(died, diary.harms, harm.ended_at_s + 10) == []
    elsewhere = [WitnessNote("start", "one", "u", 1, 7, harm.begun_at_s - 5, host="s2"), died[1]]
    assert checker.disturbed(elsewhere, diary.harms, harm.ended_at_s + 10)
    assert (diary.faults["cut"], diary.faults["other"]) == (1, 0)


def test_one_that_is_exclusive_waits_for_all_others_and_keeps_them_out() -> None:
    shared_lock, inside, order = SharedLock(), threading.Event(), []

    def shared() -> None:
        with shared_lock.shared():
            inside.set()
            order.append("shared")

    with shared_lock.exclusive():
        thread = threading.Thread(target=shared)
        thread.start()
        assert not inside.wait(0.1)
        order.append("exclusive")
    thread.join(10)
    assert order == ["exclusive", "shared"]


def test_the_times_at_which_a_job_is_wanted() -> None:
    from tests.chaos.report import wanted_times

    job = Job(
        "a",
        Path("a"),
        [
            ExpectedStage(0, GONE, None),
            ExpectedStage(2, RUNNING, "u"),
            ExpectedStage(5, "unknown", "u"),
            ExpectedStage(6, GONE, "u"),
            ExpectedStage(8, RUNNING, "v"),
        ],
    )
    assert list(wanted_times(job, 10.0)) == [(2, 5, "u"), (8, 10.0, "v")]


def test_a_distribution_says_how_many_and_how_long() -> None:
    assert distribution([]) == "n=0"
    assert distribution([1.0, 2.0, 3.0]) == "n=3 p50 2.00 p90 3.00 p99 3.00 max 3.00 s"


def user_in(directory: Path, answer: Callable[[Job, str], str] = lambda _job, _command: "uid") -> Any:
    """A user of a world with a diary alone, whose commands ``answer`` answers, and who leaves specs as they are."""
    user: Any = object.__new__(User)
    threading.Thread.__init__(user, name="user")
    user._world = SimpleNamespace(leases_s={"one": 5.0}, diary=Diary(directory / "diary"))
    user._choice, user.answers, user.acknowledged = random.Random(1), Counter(), []
    user._here = user._by_command_line = answer
    user._change_spec = lambda _job: None
    return user


@pytest.mark.parametrize("command", ["update", "suspend"])
def test_the_driver_of_a_broken_update_may_begin_when_it_is_prepared(tmp_path: Path, command: str) -> None:
    """It began 5 s after the command was acknowledged, and failed as it was to."""
    user = user_in(tmp_path)
    job = Job("one", tmp_path / "one.yaml", update={"prepare": "session"})
    job.becomes(RUNNING, "uid")
    user._give(job, command)
    user._world.diary.close()
    (harm,) = user._world.diary.harms
    later = checker.Span("one", "uid", 9, harm.begun_at_s + 5.0, harm.begun_at_s + 6.0)
    assert bool(checker.causes(later, [harm])) is (command == "update")


@pytest.mark.parametrize(("state", "mended"), [(GONE, True), (RUNNING, False)])
def test_a_job_is_not_submitted_with_a_spec_that_an_update_has_broken(
    tmp_path: Path, state: str, mended: bool
) -> None:
    user = user_in(tmp_path)
    written: list[list[str]] = []
    user._write_spec = lambda _name, knobs: written.append(knobs)
    job = Job("one", tmp_path / "one.yaml", changes=3)
    job.becomes(state, "uid")
    user._give(job, "submit")
    assert written == ([["change=3"]] if mended else [])
    user._world.diary.close()


@pytest.mark.parametrize("second", ["acknowledged", "refused"])
def test_an_update_whose_outcome_was_unknown_leaves_a_job_in_the_state_in_which_it_was(
    tmp_path: Path, second: str
) -> None:
    answers = iter([Unreachable("cut off"), CommandRefused("no") if second == "refused" else "uid"])

    def answer(_job: Job, _command: str) -> str:
        given = next(answers)
        if isinstance(given, Exception):
            raise given
        return given

    user = user_in(tmp_path, answer)
    job = Job("one", tmp_path / "one.yaml")
    job.becomes(RUNNING, "uid")
    user._give(job, "update")
    assert (job.now.state, job.pending) == (UNKNOWN, "update")
    user._give(job, "update")
    assert (job.now.state, job.now.uid, job.pending) == (RUNNING, "uid", None)
    assert user.answers == {"update unknown": 1, f"update {second}": 1}
    user._world.diary.close()
