"""The quick part of the mutation gate: each defect that names scenarios is caught by them. (``python -m tests.explore.gate``)"""

from __future__ import annotations

import pytest

from tests.explore.defect import Defect
from tests.explore.defects import DEFECTS
from tests.explore.gate import judge

SEEN = [defect for defect in DEFECTS if defect.redundant_because is None]


@pytest.mark.parametrize("defect", SEEN, ids=lambda defect: defect.name)
def test_a_planted_defect_is_caught(defect: Defect) -> None:
    verdict = judge(defect)
    assert verdict.is_right, verdict.line


def test_every_defect_has_a_scenario_or_a_reason() -> None:
    assert len(SEEN) >= 40
    assert [defect.name for defect in SEEN if not defect.scenarios] == []
