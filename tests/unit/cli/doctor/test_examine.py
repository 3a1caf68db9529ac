"""Whatever hangs or breaks in one area costs its own lines only."""

from __future__ import annotations

import threading
from types import SimpleNamespace
from typing import Any, cast

import pytest

from supervisor.cli.doctor.examine import examine
from supervisor.cli.doctor.findings import CheckGroup, CheckVerdict, DoctorCheck, DoctorFinding, ok
from supervisor.cli.doctor.subject import Subject

SUBJECT = cast(Subject, SimpleNamespace(patience=1.0))


def fine(_facts: Any) -> DoctorFinding:
    return ok("fine")


def broken(_: Any) -> Any:
    raise ZeroDivisionError("on purpose")


def area(name: str, collect: Any, judge: Any = fine, deadline_s: float = 10.0) -> CheckGroup[Any]:
    return CheckGroup(
        name, collect, (DoctorCheck(name, "x", judge), DoctorCheck(f"{name}-too", "x", fine)), deadline_s
    )


def verdicts(*areas: CheckGroup[Any]) -> dict[str, CheckVerdict]:
    return {line.check: line.finding.verdict for line in examine(SUBJECT, areas)}


@pytest.fixture
def gate() -> Any:
    gate = threading.Event()
    yield gate
    gate.set()


def test_all_is_in_order() -> None:
    assert list(verdicts(area("b", lambda _: 1), area("a", lambda _: 1))) == ["b", "b-too", "a", "a-too"]


def test_a_collector_that_hangs(gate: threading.Event) -> None:
    found = verdicts(area("slow", lambda _: gate.wait(60), deadline_s=0.05), area("a", lambda _: 1))
    assert found == {"slow": "problem", "slow-too": "skipped", "a": "ok", "a-too": "ok"}


def test_a_collector_and_a_judge_that_break() -> None:
    found = verdicts(area("c", broken), area("j", lambda _: 1, broken))
    assert found == {"c": "problem", "c-too": "skipped", "j": "problem", "j-too": "ok"}
