"""The second judge is judged: each test that it names passes on the code as it is, and fails with its defect."""

from __future__ import annotations

import pytest

from tests.explore.caught_by_tests import CAUGHT_BY, fails
from tests.explore.defects import DEFECTS
from tests.explore.scenarios import BY_NAME as SCENARIOS
from tests.explore.survivors import COVERED, UNSEEN

BY_NAME = {defect.name: defect for defect in DEFECTS}


@pytest.mark.parametrize("name", CAUGHT_BY)
def test_it_fails_while_the_defect_is_planted(name: str) -> None:
    with BY_NAME[name].patch():
        assert fails(*CAUGHT_BY[name]), f"{CAUGHT_BY[name][1]} does not see {name}"


@pytest.mark.parametrize("test", sorted(set(CAUGHT_BY.values())))
def test_it_passes_on_the_code_as_it_is(test: tuple[str, str]) -> None:
    assert not fails(*test)


def test_each_defect_has_a_scenario_that_shows_it_or_a_reason_why_none_does() -> None:
    assert [one.name for one in DEFECTS if bool(one.scenarios) == (one.redundant_because is not None)] == []
    assert [one.name for one in DEFECTS if not set(one.scenarios) <= set(SCENARIOS)] == []


def test_whatever_the_explorer_cannot_see_a_test_sees() -> None:
    assert set(UNSEEN) <= set(CAUGHT_BY)
    assert (set(COVERED) | set(UNSEEN)) - set(BY_NAME) == set()
