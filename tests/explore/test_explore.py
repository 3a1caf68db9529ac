"""Every interleaving of every scenario, within the quick bounds; ``python -m tests.explore --wide`` has the wide ones."""

from __future__ import annotations

from importlib import import_module
from pkgutil import iter_modules

import pytest

from supervisor import registry
from supervisor.records import codec
from tests.explore.scenario import Scenario
from tests.explore.scenarios import BY_NAME, SCENARIOS
from tests.explore.search import explore
from tests.explore.setting import ENCODING, Remembering, abstracted


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


def test_each_scenario_has_a_name_of_its_own() -> None:
    """Another one of that name would take its place wherever a defect is to be shown by it."""
    assert len(BY_NAME) == len(SCENARIOS)


def test_every_module_that_writes_records_writes_them_without_display() -> None:
    """One that moves code elsewhere would make the exploration larger, and nobody would notice."""
    modules = [import_module(each.name) for each in iter_modules(registry.__path__, f"{registry.__name__}.")]
    encoding = {module.__name__ for module in modules if getattr(module, "encode", None) is codec.encode}
    # what these write is written once, is explored as it is, or (the audit, notifications) is not explored: no write rests on what
    # receivers are told, so each job, each of its records and each other write can be left out of a world with notifications, and
    # property.test_notifier_stops follows the rest: two leaders, and every place where they stop in a step of production
    without = {
        "audit",
        "blobs",
        "bootstrap_cluster",
        "notification_writes",
        "older_history",
        "pending_deletions",
    }
    assert {name.rpartition(".")[2] for name in encoding} - without == {
        module.__name__.rpartition(".")[2] for module in ENCODING
    }
