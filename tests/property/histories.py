"""How property tests play histories: of a state machine, other ones in each run or those of a seed, and of plain strategies,
always the same."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from hypothesis import HealthCheck, Phase, seed, settings
from hypothesis.stateful import RuleBasedStateMachine, run_state_machine_as_test

Test = TypeVar("Test", bound=Callable[..., None])


def ordinary(max_examples: int) -> settings:
    """Returns the settings with which a state machine plays other histories in each run."""
    return settings(
        max_examples=max_examples,
        stateful_step_count=40,
        deadline=None,
        suppress_health_check=list(HealthCheck),
        report_multiple_bugs=False,
    )


def play_seed(machine: type[RuleBasedStateMachine], number: int, usual: settings, **changes: Any) -> None:
    """Plays histories with the ``number``-th seed, and shrinks nothing."""
    run_state_machine_as_test(
        seed(number)(machine),
        settings=settings(usual, **{"phases": [Phase.generate], "database": None, **changes}),
    )


def always_the_same(examples: int) -> Callable[[Test], Test]:
    """Returns what makes a test with ``given`` play so many examples, the same in each run; it shrinks nothing."""
    fixed = settings(
        max_examples=examples,
        database=None,
        deadline=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    return lambda test: seed(7)(fixed(test))
