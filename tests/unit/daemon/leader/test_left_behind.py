"""The leader examines what a failed update has left, beside its passes: an answer, or none, and nobody waits for it."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import replace

from structlog.testing import capture_logs

from supervisor.daemon.leader.left_behind import EXAMINED_MAX, TURN_MAX_S, LeftBehind
from supervisor.errors import Unreachable
from supervisor.model.checkpoint_expectation import CheckpointExpectation, SeenQuery
from supervisor.model.records import JobRef, JudgedUpdate, RollbackRule
from supervisor.model.seen import Found
from supervisor.model.sinks import NamedSink, SeenSink
from supervisor.model.view import Row, View
from tests.unit.plan.rows import row, view
from tests.unit.plan.test_observed_update import PLACE, ended, judged

MAX_S = 60.0


def failed(name: str = "j", version: int = 7) -> Row:
    ref = judged(RollbackRule.CLEAN, checkpoint=PLACE)
    ref = Found(replace(ref.record, name=name), ref.version)
    own = ended(judged=JudgedUpdate(target=2, queries=("q 6",), before=1))
    return replace(row(ref=ref, own=Found(own.record, version, 70)), name=name)


def seen(*rows: Row) -> View:
    return replace(view(), rows={one.name: one for one in rows})


class Examined:
    """Answers when it is let, with what it is told."""

    def __init__(self, answer: str | Exception = "") -> None:
        self.answer, self.asked = answer, list[tuple[str, Sequence[SeenQuery]]]()
        self.go, self.woken = threading.Event(), threading.Event()

    def __call__(self, job: JobRef, known: Sequence[SeenQuery], sinks: Sequence[SeenSink]) -> str:
        self.asked.append((job.name, known))
        self.sinks = tuple(sinks)
        assert self.go.wait(MAX_S)
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer


def test_the_answer_comes_in_a_later_pass_and_wakes_the_leader() -> None:
    examined = Examined("batch 7 was begun")
    left = LeftBehind(examined, examined.woken.set)
    assert left.answered(seen(failed())).rows["j"].left_behind is None
    assert left.answered(seen(failed())).rows["j"].left_behind is None
    examined.go.set()
    assert examined.woken.wait(MAX_S)
    assert left.answered(seen(failed())).rows["j"].left_behind == "batch 7 was begun"
    assert examined.asked == [("j", (SeenQuery("q", 6),))], "it is examined once"


def test_the_next_exit_is_examined_anew() -> None:
    examined = Examined()
    examined.go.set()
    left = LeftBehind(examined, examined.woken.set)
    left.answered(seen(failed()))
    assert examined.woken.wait(MAX_S)
    examined.woken.clear()
    left.answered(seen(failed(version=9)))
    assert examined.woken.wait(MAX_S)
    assert len(examined.asked) == 2


def test_no_answer_is_not_clean() -> None:
    for error in (Unreachable("S3 is down"), RuntimeError("a defect")):
        examined = Examined(error)
        examined.go.set()
        left = LeftBehind(examined, examined.woken.set)
        with capture_logs():
            left.answered(seen(failed()))
            assert examined.woken.wait(MAX_S)
        said = left.answered(seen(failed())).rows["j"].left_behind
        assert said is not None and "could not be looked at" in said


def test_what_was_there_before_must_be_known() -> None:
    examined = Examined()
    left = LeftBehind(examined, examined.woken.set)
    one = failed()
    assert isinstance(one.own, Found)
    unknown = replace(one, own=Found(replace(one.own.record, judged=None), 7, 70))
    left.answered(seen(unknown))
    assert examined.woken.wait(MAX_S)
    assert (
        left.answered(seen(unknown)).rows["j"].left_behind == "what was in its checkpoint before is not known"
    )
    assert examined.asked == []


def test_the_time_of_a_look_counts_from_its_begin_and_for_its_turn_there_is_a_limit() -> None:
    examined, clock = Examined(), [100.0]
    left = LeftBehind(examined, examined.woken.set, clock=lambda: clock[0])
    many = [failed(f"j{n}") for n in range(EXAMINED_MAX + 1)]
    first, last = "j0", f"j{EXAMINED_MAX}"

    def since(name: str) -> float | None:
        return left.answered(seen(*many)).rows[name].examined_since_s

    assert (since(first), since(last)) == (100.0, 100.0)
    clock[0] = 500.0
    assert (since(first), since(last)) == (100.0, 500.0)
    clock[0] = 100.0 + TURN_MAX_S
    assert since(last) == 100.0, "those before it hang"
    examined.go.set()


def test_a_few_at_a_time_and_none_that_does_not_ask() -> None:
    examined = Examined()
    left = LeftBehind(examined, examined.woken.set)
    many = [failed(f"j{n}") for n in range(EXAMINED_MAX + 3)]
    calm = replace(row(), name="calm")
    assert left.answered(seen(*many, calm)).rows["calm"] == calm
    assert len(left._asked) == EXAMINED_MAX
    examined.go.set()


def test_the_sinks_that_are_remembered_are_asked_about() -> None:
    remembered = CheckpointExpectation(place="", sinks=("q 6 file /out",))
    one = failed()
    assert isinstance(one.own, Found)
    own = Found(replace(one.own.record, remembered=remembered), one.own.version, 70)
    examined = Examined()
    left = LeftBehind(examined, examined.woken.set)
    left.answered(seen(replace(one, own=own)))
    examined.go.set()
    assert examined.woken.wait(MAX_S)
    assert examined.sinks == (SeenSink("q", 6, NamedSink("file", "/out")),)
