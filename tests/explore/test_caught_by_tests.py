"""The second judge is judged: each test that it names passes on the code as it is, and fails with its defect."""

from __future__ import annotations

import pytest

from tests.explore.caught_by_tests import CAUGHT_BY, fails
from tests.explore.defects import DEFECTS

BY_NAME = {defect.name: defect for defect in DEFECTS}


@pytest.mark.parametrize("name", CAUGHT_BY)
def test_it_fails_while_the_defect_is_planted(name: str) -> None:
    with BY_NAME[name].patch():
        assert fails(*CAUGHT_BY[name]), f"{CAUGHT_BY[name][1]} does not see {name}"


@pytest.mark.parametrize("test", sorted(set(CAUGHT_BY.values())))
def test_it_passes_on_the_code_as_it_is(test: tuple[str, str]) -> None:
    assert not fails(*test)
