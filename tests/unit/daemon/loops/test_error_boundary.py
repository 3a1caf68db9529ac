"""What is odd about one item of a loop is its own trouble: the loop goes on with the others, and what is odd is left alone."""

from __future__ import annotations

import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs

from supervisor.daemon.leader import controller as controller_module
from supervisor.daemon.leader.remover import Remover
from supervisor.daemon.leader.sweeper import Sweeper
from supervisor.daemon.loops.error_boundary import AGAIN_S, KNOWN_MAX, ErrorBoundary
from supervisor.errors import AccessDenied, Conflict, NotLeader
from supervisor.model.checkpoint_expectation import place_of
from supervisor.model.location import digest
from supervisor.model.records import (
    CheckpointClaim,
    CheckpointState,
    Cleanliness,
    Outcome,
    PendingDeletion,
    Result,
)
from supervisor.records.codec import encode
from supervisor.records.layout import about_key, is_attempt, split_attempt
from supervisor.spec.site_policy import SitePolicy
from tests.fakes.registry_bench import terms
from tests.unit.daemon.leader.test_controller import Rig
from tests.unit.daemon.leader.test_scheduled_savepoints import Rig as SavepointRig


def _raising(error: Exception) -> Any:
    def work(*_any: Any, **_more: Any) -> Any:
        raise error

    return work


def test_each_cause_of_each_item_is_said_once_in_a_while_and_never_without_end() -> None:
    now = [0.0]
    apart = ErrorBoundary("loop", lambda: now[0])
    with capture_logs() as logged:
        for _ in range(3):
            assert apart.attempt("a", _raising(ZeroDivisionError("x")), 7) == 7
        apart.attempt("b", _raising(ZeroDivisionError("x")), 0)
        apart.attempt("a", lambda: {}["k"], 0)
        now[0] += AGAIN_S
        apart.attempt("a", _raising(ZeroDivisionError("x")), 0)
        for number in range(2 * KNOWN_MAX):
            apart.attempt(str(number), _raising(ValueError("y")), 0)
    assert [line["item"] for line in logged[:4]] == ["a", "b", "a", "a"] and len(
        apart._logged_at_s
    ) <= KNOWN_MAX
    assert {(line["event"], line["loop"]) for line in logged} == {("item_failed", "loop")}


def test_what_a_loop_expects_goes_through() -> None:
    with pytest.raises(NotLeader):
        ErrorBoundary("loop").attempt("a", _raising(NotLeader("over")), 0, (NotLeader,))


@pytest.fixture
def rig() -> Rig:
    rig = Rig()
    rig.done()
    return rig


def _run(rig: Rig, until: threading.Event) -> threading.Thread:
    thread = threading.Thread(target=rig.controller.run, daemon=True)
    thread.start()
    assert until.wait(30)
    return thread


@pytest.mark.parametrize("error", [AccessDenied("no"), Conflict("changed"), ZeroDivisionError("a defect")])
def test_a_pass_that_fails_is_repeated_and_the_leader_stays(
    rig: Rig,
    error: Exception,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    left, whole, good = [error] * 3, rig.controller._observer.take_view, threading.Event()

    def odd_at_first(*args: Any, **more: Any) -> Any:
        if left:
            raise left.pop()
        good.set()
        return whole(*args, **more)

    monkeypatch.setattr(controller_module, "PERIOD_S", 0.02)
    monkeypatch.setattr(rig.controller._observer, "take_view", odd_at_first)
    thread = _run(rig, good)
    rig.controller._term.end("test is over")
    rig.controller.wake.set()
    thread.join(30)
    assert not thread.is_alive() and rig.controller._defects == 0


def test_a_defect_in_the_check_stops_each_pass_and_in_the_end_the_process(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    rig.bench.submit("a")
    before = rig.bench.zoo.tree()
    monkeypatch.setattr(controller_module, "PERIOD_S", 0.02)
    monkeypatch.setattr(controller_module, "DEFECTS_MAX", 5)
    monkeypatch.setattr(controller_module, "violations", _raising(ZeroDivisionError("a defect")))
    with pytest.raises(ZeroDivisionError):
        rig.controller.run()
    assert rig.bench.zoo.tree() == before


def test_a_job_that_cannot_be_placed_keeps_no_other_from_its_place(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    from supervisor.plan import place

    real = place.next_memory
    monkeypatch.setattr(place, "next_memory", lambda job, own: 1 / 0 if job.name == "odd" else real(job, own))
    rig.bench.submit("odd")
    rig.bench.submit("good")
    done = rig.controller.reconcile_once()
    assert [one.action.name for one in done.results] == ["good"]
    (note,) = [note for note in done.plan.notes if note.name == "odd"]
    assert note.quarantined and any(alarm.job == "odd" for alarm in done.plan.alarms)


def test_metrics_that_raise_hold_no_pass_up(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rig.controller._recorder, "record", _raising(KeyError("metric")))
    rig.bench.submit("a")
    assert rig.done() == ["Assign a"]


def _pending_deletion(rig: Rig, name: str) -> str:
    done = rig.bench.submit(name)
    place, layout = f"s3://bkt/{name}/ck", rig.bench.layout
    claim = CheckpointClaim(
        location=place,
        name=f"{name} (its checkpoint is being deleted)",
        uid=done.uid,
        doom=PendingDeletion(name=name, uid=done.uid, at="now", epoch=1),
    )
    rig.bench.put(layout.checkpoint(digest(place)), claim)
    wrote = Result(
        name=name,
        uid=done.uid,
        outcome=Outcome.CANCELLED,
        state=Cleanliness.CLEAN,
        revision=1,
        spec=None,
        terms=terms(place, delete_checkpoint=True),
        attempt=1,
        claims=1,
        reason="",
        at="now",
        submitted_at="now",
        op="op",
        checkpoint_state=CheckpointState.DELETING,
        wrote=place_of(place),
    )
    rig.bench.put(layout.result(done.uid), wrote)
    return layout.checkpoint(digest(place))


class _Removal:
    late_s, seen, unanswered, queries = 0.0, True, 0, None

    def __init__(self, location: str) -> None:
        self.resolved = location
        self._odd = "odd" in location

    def remove_batch(self, still: Any) -> Any:
        if self._odd:
            raise IndexError("list index out of range")
        still()
        return type("Removed", (), {"objects": 0, "left": False})()


def test_a_deletion_that_raises_is_put_off_and_its_place_stays_claimed(rig: Rig) -> None:
    odd, good = _pending_deletion(rig, "odd"), _pending_deletion(rig, "good")
    wanted = threading.Event()
    wanted.set()
    remover = Remover(
        rig.controller._term,
        rig.bench.layout,
        rig.controller.executor,
        "s3://store",
        lambda _location, _deletion: None,  # type: ignore[arg-type, return-value]
        site=SitePolicy(deletable=("*",)),
        wanted=wanted,
        open_at=lambda location, _access: _Removal(location),  # type: ignore[arg-type, return-value]
    )
    for _ in range(4):
        remover.step()
    assert rig.bench.has(odd) and not rig.bench.has(good)
    assert remover._jobs[odd].next_at_s > remover._clock()


def test_what_cannot_be_swept_keeps_nothing_else_from_being_swept(rig: Rig) -> None:
    swept: list[str] = []

    class Part:
        def __init__(self, name: str, error: Exception | None = None) -> None:
            self.name, self.error = name, error

        def scan(self, *_any: Any) -> tuple[str, ...]:
            swept.append(self.name)
            if self.error is not None:
                raise self.error
            return (self.name,)

        def prune_epochs(self) -> int:
            self.scan()
            return 0

    for error in (ZeroDivisionError("odd"), AccessDenied("no"), Conflict("changed")):
        swept.clear()
        sweeper = Sweeper(
            rig.controller._term,
            rig.bench.layout,
            rig.controller.executor,
            Part("blobs", error),
            Part("epochs", error),  # type: ignore[arg-type]
            savepoints=Part("savepoints"),  # type: ignore[arg-type]
        )
        assert sweeper.sweep_once() == 1
        assert swept == ["blobs", "epochs", "savepoints"]


def test_scheduled_savepoints_of_what_is_no_location_trouble_no_other_job(tmp_path: Path) -> None:
    rig = SavepointRig(tmp_path)
    rig.job("good")
    rig.job("odd")
    job = rig.bench.ref("odd").record
    rig.bench.zoo.put(
        rig.bench.layout.job("odd"),
        encode(replace(job, terms=replace(job.terms, checkpoint="relative/path"))),
    )
    assert rig.run_once() == [f"good/{rig.slot('good')}"]


@pytest.mark.parametrize(
    "key", ["", "x", ".1", "u.", "u.x", "u.²", "u.-1", "u.+1", "u." + "9" * 5000, "a.b.1"]
)
def test_an_entry_that_somebody_made_by_hand_is_none(key: str) -> None:
    assert is_attempt(key) == (key == "a.b.1")
    about_key(key)
    if key != "a.b.1":
        with pytest.raises(ValueError):
            split_attempt(key)
