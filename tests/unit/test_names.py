"""One name, one meaning: a public class stands once in the package, and no sentence for people decides anything."""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

import supervisor

PACKAGE = Path(supervisor.__file__).parent
TESTS = Path(__file__).parents[1]
FILES = sorted(PACKAGE.rglob("*.py"))
ALL_FILES = [*FILES, *sorted(TESTS.rglob("*.py"))]


@cache
def parsed(file: Path) -> ast.Module:
    return ast.parse(file.read_text())


def test_no_public_class_name_stands_twice() -> None:
    where: dict[str, list[str]] = defaultdict(list)
    for file in FILES:
        for node in parsed(file).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                where[node.name].append(str(file.relative_to(PACKAGE)))
    assert {name: files for name, files in where.items() if len(files) > 1} == {}


# -- words that were given up ----------------------------------------------------------------------------------------------

GIVEN_UP = {
    "sight": "FirstSeen, observed",
    "sights": "FirstSeen, observed",
    "sighting": "FirstSeen, observed",
    "sightings": "FirstSeen, observed",
    "mends": "repairs",
    "mending": "repairing",
    "ward": "GuardedAttempt",
    "sentinel": "SessionCloser",
    "bell": "ChangeNotifier, doorbell",
    "rung": "ChangeNotifier, doorbell",
    "look": "trust_check, preflight, probe, poll, read: which it is",
    "looks": "trust_check, preflight, probe, poll, read: which it is",
    "looked": "trust_check, preflight, probe, poll, read: which it is",
    "looking": "trust_check, preflight, probe, poll, read: which it is",
    "doom": "PendingDeletion, deletion",
    "doomed": "PendingDeletion, deletion",
    "dooms": "PendingDeletion, deletes",
    "desk": "WriteContext",
    "office": "CommandContext",
    "crew": "ActionExecutor",
    "came": "Outcome, ActionResult",
    "carried": "Outcome, ActionResult",
    "flying": "in_flight",
    "founding": "bootstrap",
    "founded": "bootstrapped",
    "mend": "repair",
    "mended": "repaired",
    "broom": "sweeper",
    "heed": "handle",
    "heeded": "handled",
    "say": "log, publish, print, write: which it is",
    "told": "reported",
    "noted": "recorded, last_accepted",
}
"""Words that meant several things, or nothing to whoever comes from elsewhere; and what stands in their place."""

GIVEN_UP_NAMES = {
    "left_by": "previous_user",
    "place_for": "reserve",
    "Gate": "StartBarrier",
    "Office": "CommandContext",
    "Places": "CheckpointClaims",
    "Post": "GuardedAttempt",
    "Remembered": "CheckpointExpectation",
    "Standing": "HostedState, LeadershipState, JobRecords, SavepointStatus",
    "Terms": "SchedulingSpec",
    "Word": "StartVerdict",
}

PERSISTED = {
    "JobRef.left_by": "a field of a record in ZooKeeper",
    "CheckpointClaim.doom": "a field of a record in ZooKeeper",
    "Launch.looked_s": "a field of the launch file, which shims of the version before read",
}
"""Names that stay, because other versions read them."""


def _target(node: ast.expr) -> str:
    return node.id if isinstance(node, ast.Name) else node.attr if isinstance(node, ast.Attribute) else ""


def _in_body(owner: str, body: list[ast.stmt]) -> Iterator[tuple[int, str]]:
    """Each class, function, constant and field that a module or class defines, and each attribute that a method sets."""
    for node in body:
        match node:
            case ast.ClassDef(name=name):
                yield node.lineno, name
                yield from _in_body(f"{name}.", node.body)
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
                if not name.startswith("test_"):
                    yield node.lineno, f"{owner}{name}"
                for each in ast.walk(node):
                    if isinstance(each, ast.FunctionDef) and each is not node:
                        yield each.lineno, each.name
                    elif isinstance(each, ast.Attribute) and isinstance(each.ctx, ast.Store):
                        yield each.lineno, f"{owner}{each.attr}"
            case ast.Assign(targets=targets):
                yield from ((node.lineno, f"{owner}{_target(each)}") for each in targets)
            case ast.AnnAssign(target=target):
                yield node.lineno, f"{owner}{_target(target)}"


def given_up_in(module: ast.Module) -> list[tuple[int, str, str]]:
    """Line, name and what to write in its place."""
    found = []
    for line, full in _in_body("", module.body):
        name = full.rpartition(".")[2]
        words = {word.lower() for word in re.findall(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])", name)}
        better = {GIVEN_UP[word] for word in words & GIVEN_UP.keys()} | {GIVEN_UP_NAMES.get(name, "")} - {""}
        if better and full not in PERSISTED:
            found.append((line, full, " or ".join(sorted(better))))
    return found


def test_no_name_has_a_word_that_was_given_up() -> None:
    found = [
        f"{file.relative_to(PACKAGE.parent)}:{line}: {name}: {better}"
        for file in ALL_FILES
        for line, name, better in given_up_in(parsed(file))
    ]
    assert found == []


@pytest.mark.parametrize(
    ("source", "name"),
    [
        ("class TestTheBell: ...", "TestTheBell"),
        ("LOOK_S = 1", "LOOK_S"),
        ("def _told_by(): ...", "_told_by"),
        ("class A:\n  doom: int", "A.doom"),
        ("class A:\n  def f(self):\n    self._looked_on = 1", "A._looked_on"),
        ("def f():\n  def look(): ...", "look"),
        ("class JobRef:\n  doom: int", "JobRef.doom"),
        ("class Standing: ...", "Standing"),
    ],
)
def test_a_name_with_such_a_word_is_found(source: str, name: str) -> None:
    assert [each for _, each, _ in given_up_in(ast.parse(source))] == [name]


@pytest.mark.parametrize(
    "source",
    [
        "def test_it_looks(): ...",
        "class A:\n  def f(self): told = 1",
        "outlook = 1",
        "class CheckpointClaim:\n  doom: int",
    ],
)
def test_other_names_are_not(source: str) -> None:
    assert given_up_in(ast.parse(source)) == []


# -- the doubles of the harnesses --------------------------------------------------------------------------------------------

HARNESSES = ("chaos", "crash_points", "explore", "faults", "fuzz", "property", "simulation", "testbed")


def test_no_double_of_a_harness_has_the_name_of_a_class_of_the_product() -> None:
    """Else ``Outcome`` in a harness, or in a report of its, would be one of two things."""
    product = {
        node.name
        for file in FILES
        for node in ast.walk(parsed(file))
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_")
    }
    found = [
        f"{file.relative_to(TESTS)}:{node.lineno}: {node.name}"
        for room in HARNESSES
        for file in sorted((TESTS / room).rglob("*.py"))
        for node in ast.walk(parsed(file))
        if isinstance(node, ast.ClassDef) and node.name in product
    ]
    assert found == []


# -- sentences decide nothing ------------------------------------------------------------------------------------------------

IDIOMS = (
    'partition("; ")',
    "partition('; ')",
    'startswith(f"{name}: ")',
    '== "a place"',
    "str(error).partition",
)
"""How a sentence was taken apart, or a decision made by its words. Types say it: ``Alarm``, ``Awaited``, ``Hold``,
``SupervisorError.remedy``."""


@pytest.mark.parametrize("idiom", IDIOMS)
def test_nothing_is_decided_by_the_words_of_a_sentence(idiom: str) -> None:
    found = [str(file.relative_to(PACKAGE)) for file in FILES if idiom in file.read_text()]
    assert found == []


def test_no_function_is_longer_than_fifty_lines() -> None:
    """Its docstring not counted: an argument may be as long as it has to be."""
    long = []
    for file in FILES:
        for node in ast.walk(parsed(file)):
            if isinstance(node, ast.FunctionDef):
                first = node.body[0]
                said = ast.get_docstring(node) is not None
                documented = (first.end_lineno or 0) - first.lineno + 1 if said else 0
                if (node.end_lineno or 0) - node.lineno + 1 - documented > 50:
                    long.append(f"{file.relative_to(PACKAGE)}: {node.name}")
    assert long == []
