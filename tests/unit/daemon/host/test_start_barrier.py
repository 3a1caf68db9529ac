"""Starts beside the look at a checkpoint: who is held, what the driver is told, and by whom. The look ends when the test says."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
import structlog

from supervisor.clients import run_dir
from supervisor.clock import boottime_s
from supervisor.daemon.host import launcher, preflight, start_barrier
from supervisor.daemon.host.launcher import TrustCheck
from supervisor.daemon.host.preflight import KnownCheckpoint
from supervisor.errors import Corrupt, Unreachable
from supervisor.model.checkpoint_expectation import CheckpointExpectation, place_of
from supervisor.model.launch import Launch
from supervisor.model.records import Assignment, Cause, Preparation
from supervisor.records.codec import encode
from supervisor.spark.refusal import Refused
from supervisor.spec.job import JobSpec
from tests.unit.daemon.host.test_launcher import Slow, given
from tests.waiting import wait_until

KEY = "uid-a.1"
MAX_S = 60.0


class Beside(Slow):
    """Its job has a checkpoint on S3, remembered, and the look at it ends when ``answer`` is set: to None, or an error."""

    def __init__(self, directory: Path, drivers: int = 9) -> None:
        super().__init__(directory, 1, drivers=drivers, memory_bytes=1000)
        self.answer: Future[None] = Future()
        self.preflights = 0

    def preflight(self, *_: object) -> None:
        self.preflights += 1
        self.answer.result(MAX_S)

    def _launch(
        self, given: Assignment, key: str, spec: JobSpec, request: Preparation | None = None
    ) -> Launch:
        launch = super()._launch(given, key, spec)
        return replace(launch, env={"SPARK_SUPERVISOR_CHECKPOINT": "s3a://bucket/a"})

    def begin(
        self, location: str = "s3://bucket/a", attempt: int = 1, previous_user: str = "", name: str = "a"
    ) -> Future[None]:
        known = KnownCheckpoint(
            location,
            CheckpointExpectation(place=place_of(location), queries=() if previous_user else ("q1 7",)),
            previous_user,
        )
        done: Future[None] = Future()

        def work() -> None:
            try:
                self.start(
                    replace(given(name), attempt=attempt), TrustCheck(boottime_s(), lambda: None, known)
                )
                done.set_result(None)
            except Exception as error:
                done.set_exception(error)

        threading.Thread(target=work, daemon=True).start()
        return done

    def is_held(self, key: str = KEY) -> bool:
        return self.hosted.launches()[key].is_held

    def verdict(self, key: str = KEY) -> run_dir.StartVerdict | None:
        return run_dir.read_verdict(str(self.hosted.attempts_dir / key))

    def wait_verdict(self, key: str = KEY) -> run_dir.StartVerdict:
        return wait_until(lambda: self.verdict(key), MAX_S, "the word")


@pytest.fixture
def beside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Beside:
    monkeypatch.setattr(launcher, "spawn_shim", lambda directory, cgroup: SimpleNamespace(pid=1))
    made = Beside(tmp_path)
    monkeypatch.setattr(preflight, "_check", made.preflight)
    return made


def test_a_start_does_not_wait_for_the_look_and_the_driver_is_told_what_came_of_it(beside: Beside) -> None:
    beside.begin().result(MAX_S)
    assert beside.is_held() and beside.verdict() is None
    assert beside.check_again() == {} and beside.preflights == 1, "somebody is about to tell it"
    beside.answer.set_result(None)
    assert beside.wait_verdict() == run_dir.StartVerdict()
    beside.check_again()
    assert beside.preflights == 1


REFUSALS = {
    "gone": (
        Refused(Cause.BAD_CHECKPOINT, "it is missing"),
        run_dir.StartVerdict("bad_checkpoint", "h: it is missing"),
    ),
    "no answer": (
        Unreachable("no answer in time"),
        run_dir.StartVerdict("no_access", "h: no answer in time"),
    ),
    "too many folders": (Corrupt("100,001 folders"), run_dir.StartVerdict("no_access", "h: 100,001 folders")),
    "a defect": (
        RecursionError("x"),
        run_dir.StartVerdict(
            "no_access",
            "h: its checkpoint can't be looked at, a defect of the supervisor: RecursionError('x')",
        ),
    ),
}


@pytest.mark.parametrize("why", REFUSALS)
def test_whatever_comes_of_the_look_the_driver_is_told(beside: Beside, why: str) -> None:
    error, verdict = REFUSALS[why]
    beside.begin().result(MAX_S)
    with structlog.testing.capture_logs() as logs:
        beside.answer.set_exception(error)
        assert beside.wait_verdict() == verdict
        wait_until(lambda: any(line["event"] == "start_refused" for line in logs), MAX_S, "the log line")


def test_of_an_attempt_that_is_over_nothing_is_said(beside: Beside) -> None:
    beside.begin().result(MAX_S)
    run_dir.remove(str(beside.hosted.attempts_dir / KEY))
    with structlog.testing.capture_logs() as logs:
        beside.answer.set_exception(Unreachable("no answer in time"))
        wait_until(lambda: KEY not in beside._barrier._awaited, MAX_S, "the end of the look")
    assert logs == [] and not beside.hosted.has(KEY)


def test_an_attempt_that_is_over_takes_no_place_while_its_look_lasts(tmp_path: Path, beside: Beside) -> None:
    small = Beside(tmp_path / "small", drivers=1)
    small.begin().result(MAX_S)
    run_dir.remove(str(small.hosted.attempts_dir / KEY))
    small.begin(name="b").result(MAX_S)
    assert small.is_held("uid-b.1")
    beside.answer.set_result(None)


@pytest.mark.parametrize("location", ["/data/a", "s3://bucket/a"])
def test_what_is_not_held_is_not_started_before_the_look(beside: Beside, location: str) -> None:
    """A directory; and a first start, where the claim would count as a look at what another job left."""
    done = beside.begin(location, previous_user="other" if location.startswith("s3") else "")
    wait_until(lambda: beside.preflights, MAX_S, "the look")
    with pytest.raises(TimeoutError):
        done.result(0.3)
    assert beside.hosted.keys() == frozenset()
    beside.answer.set_exception(Refused(Cause.BAD_CHECKPOINT, "it is missing"))
    with pytest.raises(Refused, match="it is missing"):
        done.result(MAX_S)
    assert beside.hosted.keys() == frozenset()


def jvm(beside: Beside, patch: pytest.MonkeyPatch) -> None:
    make = beside._launch
    patch.setattr(beside, "_launch", lambda given, key, spec: replace(make(given, key, spec), reports=False))


def older_bootstrap(beside: Beside, patch: pytest.MonkeyPatch) -> None:
    old = beside.directory / "bootstrap.py"
    old.write_text("print('begins at once')")
    patch.setattr(start_barrier, "BOOTSTRAP", old)


@pytest.mark.parametrize("unable", [jvm, older_bootstrap])
def test_who_can_not_wait_is_not_held(
    beside: Beside,
    monkeypatch: pytest.MonkeyPatch,
    unable: Callable[[Beside, pytest.MonkeyPatch], None],
) -> None:
    """Nor a PySpark application while this process outlives a downgrade of its files."""
    unable(beside, monkeypatch)
    done = beside.begin()
    with pytest.raises(TimeoutError):
        done.result(0.3)
    assert beside.hosted.keys() == frozenset()
    beside.answer.set_result(None)
    done.result(MAX_S)
    assert not beside.is_held()


def the_second_waits_for_its_preflight(beside: Beside) -> None:
    """There is no driver of attempt 2 before S3 answers, and none that waits after that."""
    waits = beside.begin(attempt=2)
    with pytest.raises(TimeoutError):
        waits.result(0.3)
    assert beside.hosted.keys() == {KEY}
    beside.answer.set_result(None)
    waits.result(MAX_S)
    assert not beside.is_held("uid-a.2")


@pytest.mark.parametrize("slow", ["no answer", "late", "a defect"])
def test_after_a_look_that_lasted_the_next_start_waits_for_its_own(
    beside: Beside,
    monkeypatch: pytest.MonkeyPatch,
    slow: str,
) -> None:
    """Until one is quick again. Else a driver after the other would be started in vain."""
    beside.begin().result(MAX_S)
    with monkeypatch.context() as patch:
        if slow == "late":
            patch.setattr(start_barrier, "SLOW_S", 0.0)
            beside.answer.set_result(None)
        else:
            beside.answer.set_exception(
                Unreachable("no answer in time") if slow == "no answer" else RecursionError("x")
            )
        beside.wait_verdict()
        wait_until(lambda: not beside._barrier._awaited, MAX_S, "the end of it")
    beside.answer = Future()
    the_second_waits_for_its_preflight(beside)
    beside.answer = Future()
    beside.begin(attempt=3).result(MAX_S)
    assert beside.is_held("uid-a.3")
    beside.answer.set_result(None)


def test_a_word_that_can_not_be_written_is_tried_again_and_told_meanwhile(
    beside: Beside, monkeypatch: pytest.MonkeyPatch
) -> None:
    beside.begin().result(MAX_S)
    with monkeypatch.context() as full, structlog.testing.capture_logs() as logs:
        full.setattr(run_dir.os, "link", no_room)
        beside.answer.set_result(None)
        why = wait_until(beside.check_again, MAX_S, "why it is not told")[KEY]
        assert why.endswith(f"{KEY}/gate can't be written (No space left on device); make room there")
        for _ in range(5):
            beside.check_again()
            wait_until(lambda: not beside._barrier._awaited, MAX_S, "its end")
        assert [line["event"] for line in logs] == ["start_delayed"], "said once"
    beside.check_again()
    assert beside.wait_verdict() == run_dir.StartVerdict()
    wait_until(lambda: beside.check_again() == {}, MAX_S, "nothing to tell of")
    assert not [
        entry.name for entry in (beside.hosted.attempts_dir / KEY).iterdir() if entry.name.startswith(".")
    ]


def test_while_a_look_goes_on_no_second_driver_waits_for_another(beside: Beside) -> None:
    """The first was given up (``start_timeout``) before S3 answered."""
    beside.begin().result(MAX_S)
    the_second_waits_for_its_preflight(beside)


def test_a_word_is_for_one_directory_not_for_its_name(beside: Beside) -> None:
    """Numbers of attempts come up again after an accepted restore."""
    beside.begin().result(MAX_S)
    old, directory = beside.hosted.launches()[KEY], beside.hosted.attempts_dir / KEY
    run_dir.remove(str(directory))
    run_dir.create(str(beside.hosted.attempts_dir), KEY, encode(old, 1 << 20))
    beside.answer.set_result(None)
    wait_until(lambda: not beside._barrier._awaited, MAX_S, "the end of the old look")
    assert beside.verdict() is None
    beside.check_again()
    assert beside.wait_verdict() == run_dir.StartVerdict() and beside.preflights == 2


def test_without_a_thread_nothing_is_known(monkeypatch: pytest.MonkeyPatch) -> None:
    def no_thread(_thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", no_thread)
    with pytest.raises(Unreachable, match="no thread can be started"):
        preflight.PreflightCheck(lambda: None).wait_for_answer()


def test_the_next_supervisor_looks_for_who_waits(beside: Beside, tmp_path: Path) -> None:
    beside.begin().result(MAX_S)
    successor = Beside(tmp_path)  # the same run directories
    successor.check_again()
    wait_until(lambda: beside.preflights == 2, MAX_S, "its look")
    beside.answer.set_result(None)
    assert successor.wait_verdict() == run_dir.StartVerdict()


def no_room(*_: object) -> None:
    raise OSError(28, "No space left on device")


def test_a_word_is_said_once(tmp_path: Path) -> None:
    """Also by two at once; but what is no word (torn, by hand) is replaced."""
    (tmp_path / run_dir.GATE).write_text('{"cau')
    assert run_dir.read_verdict(str(tmp_path)) is None
    assert run_dir.write_verdict(str(tmp_path), run_dir.StartVerdict())
    assert not run_dir.write_verdict(str(tmp_path), run_dir.StartVerdict("bad_checkpoint", "it is missing"))
    assert run_dir.read_verdict(str(tmp_path)) == run_dir.StartVerdict()
    assert [entry.name for entry in tmp_path.iterdir()] == [run_dir.GATE]
    assert not run_dir.write_verdict(str(tmp_path / "gone"), run_dir.StartVerdict())
    (tmp_path / run_dir.GATE).unlink()
    start = threading.Barrier(8)
    written: list[bool] = []

    def answer_to(number: int) -> None:
        start.wait(MAX_S)
        written.append(run_dir.write_verdict(str(tmp_path), run_dir.StartVerdict("no_access", str(number))))

    threads = [threading.Thread(target=answer_to, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert written.count(True) == 1
