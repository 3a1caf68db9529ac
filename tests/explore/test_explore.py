"""Every interleaving of every scenario, within the quick bounds; ``python -m tests.explore --wide`` has the wide ones."""

from __future__ import annotations

import pytest

from tests.explore.scenario import Scenario
from tests.explore.scenarios import SCENARIOS
from tests.explore.search import explore
from tests.explore.setting import Remembering, abstracted


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda one: one.name)
def test_no_interleaving_breaks_an_invariant_and_all_come_to_rest(scenario: Scenario) -> None:
    with abstracted():
        found = explore(scenario, scenario.max_states)
    print(found.line)
    assert found.broken is None, "\n".join(["", *found.trace, "", f"VIOLATION: {found.broken}"])
    assert found.converged == found.states


@pytest.mark.parametrize("scenario", [one for one in SCENARIOS if one.script], ids=lambda one: one.name)
def test_a_script_can_be_followed(scenario: Scenario) -> None:
    Remembering.kept = scenario.replaceable
    with abstracted():
        scenario.beginning([], strict=True)
