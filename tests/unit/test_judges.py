"""The shared judgements find what they are there to find, and every invariant of the protocol has a judge."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from supervisor.model.transaction import Check, SetData, Transaction
from tests import judges
from tests.judges import HELD_BY_TESTS, JUDGED_BY, Driver

TESTS = Path(judges.__file__).parent
HARNESSES = ("chaos", "crash_points", "explore", "faults", "simulation")
VERDICT = re.compile(r"""["'](I\d+): """)
NEW, OLD = Driver("a", "u2", 1), Driver("a", "u1", 3)


def shared() -> dict[str, set[str]]:
    """The names of the shared judgements, by the invariant with which their sentence begins."""
    found: dict[str, set[str]] = {}
    for name, value in vars(judges).items():
        doc = getattr(value, "__doc__", "") or ""
        if (match := re.match(r"(I\d+): ", doc)) is not None:
            found.setdefault(match[1], set()).add(name)
    return found


def judged(text: str) -> set[str]:
    """The invariants that a module says are broken: by its own sentences, and by the shared ones that it calls."""
    called = set(re.findall(r"\bjudges\.(\w+)\(", text))
    return set(VERDICT.findall(text)) | {number for number, names in shared().items() if names & called}


def test_every_invariant_has_a_judge_or_tests_that_hold_it() -> None:
    protocol = (TESTS.parent / "supervisor/docs/protocol.md").read_text()
    invariants = set(re.findall(r"^### (I\d+) ", protocol, re.MULTILINE))
    assert len(invariants) == 11 and JUDGED_BY.keys() | HELD_BY_TESTS.keys() == invariants
    assert JUDGED_BY.keys() & HELD_BY_TESTS.keys() == set()
    assert [path for paths in HELD_BY_TESTS.values() for path in paths if not (TESTS / path).is_file()] == []


def test_the_table_has_every_module_that_judges_and_no_other() -> None:
    found: dict[str, set[str]] = {}
    for harness in HARNESSES:
        for path in sorted((TESTS / harness).rglob("*.py")):
            if path.name.startswith(("test_", "defects")):
                continue
            for number in judged(path.read_text()):
                found.setdefault(number, set()).add(str(path.relative_to(TESTS)))
    assert found == {number: set(paths) for number, paths in JUDGED_BY.items()}


def test_two_drivers_exclude_each_other_by_name_or_place() -> None:
    assert judges.exclude_each_other(NEW, OLD)
    assert judges.exclude_each_other(NEW._replace(place="p"), Driver("b", "u3", 1, "p"))
    assert not judges.exclude_each_other(NEW, Driver("b", "u3", 1))
    assert not judges.exclude_each_other(NEW._replace(place="p"), Driver("b", "u3", 1, "q"))
    assert judges.two_drivers(NEW, OLD) == "I1: driver a u2.1 is executed while driver a u1.3 is alive"


@pytest.mark.parametrize(
    "wrong, right",
    [
        (judges.executed_again(NEW, {("u2", 1)}), judges.executed_again(NEW, {("u2", 2), ("u1", 1)})),
        (judges.claimed_after_cancel(NEW, {"u2"}), judges.claimed_after_cancel(NEW, {"u1"})),
        (
            judges.registered_after_cancel("a", "u2", {"u2"}),
            judges.registered_after_cancel("a", "u2", {"u1"}),
        ),
        (judges.lost_job("a", "u2", {"u1"}), judges.lost_job("a", "u2", {"u2"})),
        (
            judges.executed_unclaimed(NEW, claimed=False),
            judges.executed_unclaimed(NEW, claimed=True),
        ),
        (judges.reference_and_result("a", "u2", {"u2"}), judges.reference_and_result("a", "u2", {"u1"})),
    ],
)
def test_a_violation_is_a_sentence_and_all_else_is_none(wrong: str | None, right: str | None) -> None:
    assert right is None
    assert wrong is not None and re.match(r"I\d+: ", wrong) and "u2" in wrong


def test_a_write_of_a_leader_checks_the_epoch_of_its_term() -> None:
    def write(*checks: Check) -> Transaction:
        return Transaction("assign", "op", (*checks, SetData("/own/a", b"", 1)))

    guarded = write(Check("/epoch", 7))
    assert judges.unguarded(guarded, "/epoch") is None and judges.unguarded(guarded, "/epoch", 7) is None
    assert judges.unguarded(guarded, "/epoch", 8) == "I4: assign does not check the persistent epoch"
    assert judges.unguarded(write(), "/epoch") and judges.unguarded(write(Check("/leader", 7)), "/epoch")
