"""The quick part of the mutation gate: each defect that names scenarios is caught by them. (``python -m tests.explore.gate``)"""

from __future__ import annotations

from contextlib import AbstractContextManager
from functools import partial
from typing import Any

import pytest

from supervisor.model.second_killer import step as strike
from supervisor.shim.machine import step
from tests.explore import gate
from tests.explore.defect import Defect
from tests.explore.defects import DEFECTS
from tests.explore.gate import changed_by, judge, reached
from tests.explore.planting import Edit, around, edited
from tests.explore.scenarios import BY_NAME

SEEN = [defect for defect in DEFECTS if defect.redundant_because is None]


@pytest.mark.parametrize("defect", SEEN, ids=lambda defect: defect.name)
def test_a_planted_defect_is_caught(defect: Defect) -> None:
    verdict = judge(defect)
    assert verdict.is_right, verdict.line


def test_every_defect_has_a_scenario_or_a_reason() -> None:
    assert len(SEEN) >= 40
    assert [defect.name for defect in SEEN if not defect.scenarios] == []


def planted(patch: Any) -> Defect:
    return Defect("of this test", "§7", patch, ("submit",))


def raising(real: Any, state: Any, event: Any, now: Any) -> Any:
    if type(event).__name__ == "Executed":
        raise KeyError("planted")
    return real(state, event, now)


def test_a_defect_that_raises_is_caught_and_told_as_a_story() -> None:
    verdict = judge(planted(partial(around, step, raising)))
    assert verdict.is_right and verdict.caught is not None
    assert verdict.caught.broken is not None and "crash: KeyError" in verdict.caught.broken
    assert any(
        "executes its driver" in line or "claim: committed" in line for line in verdict.caught.trace
    ), verdict.caught.trace


def turning_in_circles(real: Any, *args: Any) -> Any:
    while True:
        pass


def test_a_defect_that_never_ends_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gate, "PATIENCE_S", 0.2)
    verdict = judge(planted(partial(around, step, turning_in_circles)))
    assert verdict.caught is not None and "crash: Endless" in str(verdict.caught.broken)


def test_a_defect_that_cannot_be_planted_is_wrong_and_ends_nothing() -> None:
    verdict = judge(planted(partial(edited, Edit(strike, "no such text", ""))))
    assert not verdict.is_right and "NOT PLANTED" in verdict.line


def test_only_scenarios_that_come_to_the_code_of_a_defect_are_explored_for_it() -> None:
    calm, killing = (planted(partial(around, function, raising)) for function in (step, strike))
    comes_to = reached([calm, killing], [BY_NAME["elections lost"], BY_NAME["submit"]], 20)
    assert set(changed_by(calm)) <= comes_to["submit"]


def test_a_patch_is_undone_after_a_crash() -> None:
    before: AbstractContextManager[object] | Any = step.__code__
    judge(planted(partial(around, step, raising)))
    assert step.__code__ is before
