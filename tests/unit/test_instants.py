"""A name says whether it holds an instant or a duration: instants end in ``_at_s``, durations in ``_s``.

Only names that end in ``_s`` are looked at, and only what can be told by the text of an assignment or a keyword argument:
a reading of a clock, another instant, or an instant plus or minus a duration.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import supervisor

PACKAGE = Path(supervisor.__file__).parent
TESTS = Path(__file__).parent.parent
FILES = [*sorted(PACKAGE.rglob("*.py")), *sorted(TESTS.rglob("*.py"))]
CLOCKS = frozenset(
    {
        "boottime_s",
        "wall_s",
        "monotonic",
        "clock",
        "_clock",
        "_now_s",
        "now_s",
        "clock_gettime",
        "boot_s",
        "_boot_s",
    }
)
READINGS = frozenset({"at_s", "now_s", "_now_s", "boottime_s", "wall_s", "monotonic_s"})
"""Names of an instant that need no ``_at_``: what a clock shows now, and the instant of which a record tells."""

ALLOWED = frozenset(
    {
        # Keys of persisted records and of log events, and the attributes that are called like them:
        "supervisor: begun_s",
        "supervisor: looked_s",
        "supervisor: session_s",
        "supervisor: batch_s",
        "supervisor: deadline_s",
        "tests: begun_s",
        "tests: looked_s",
    }
)


def name_of(node: ast.expr) -> str:
    if isinstance(node, ast.Subscript):
        return name_of(node.value)
    return node.id if isinstance(node, ast.Name) else node.attr if isinstance(node, ast.Attribute) else ""


def is_instant(node: ast.expr) -> bool:
    if isinstance(node, ast.Call):
        called = name_of(node.func)
        if called in ("min", "max"):
            return any(map(is_instant, node.args))
        return called in CLOCKS or called.endswith("_at_s") or ast.unparse(node.func) == "time.time"
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        return is_instant(node.left) != is_instant(node.right)
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Sub):
        return is_instant(node.left) and not is_instant(node.right)
    if isinstance(node, ast.IfExp):
        return is_instant(node.body) or is_instant(node.orelse)
    if isinstance(node, ast.BoolOp):
        return any(map(is_instant, node.values))
    return not isinstance(node, ast.Subscript) and says_instant(name_of(node))


def is_difference(node: ast.expr) -> bool:
    """Whether it is how long it is from one instant to another."""
    return (
        isinstance(node, ast.BinOp)
        and isinstance(node.op, ast.Sub)
        and is_instant(node.left)
        and is_instant(node.right)
    )


def says_instant(name: str) -> bool:
    return name.endswith("_at_s") or name in READINGS


def assignments(tree: ast.AST) -> Iterator[tuple[int, str, ast.expr]]:
    """Yields line, name and value of every assignment and of every keyword argument."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign):
            for target in node.targets:
                if isinstance(target, ast.Tuple) and isinstance(node.value, ast.Tuple):
                    for each, value in zip(target.elts, node.value.elts, strict=False):
                        yield each.lineno, name_of(each), value
                else:
                    yield node.lineno, name_of(target), node.value
        elif isinstance(node, ast.AnnAssign | ast.NamedExpr) and node.value is not None:
            yield node.lineno, name_of(node.target), node.value
        elif isinstance(node, ast.keyword) and node.arg is not None:
            yield node.value.lineno, node.arg, node.value


def wrong_names(source: str) -> list[tuple[int, str]]:
    return [
        (line, name)
        for line, name, value in assignments(ast.parse(source))
        if name.endswith("_s")
        and (is_instant(value) and not says_instant(name) or is_difference(value) and says_instant(name))
    ]


def test_an_instant_ends_in_at_s_and_a_duration_does_not() -> None:
    found = []
    for file in FILES:
        root = "supervisor" if file.is_relative_to(PACKAGE) else "tests"
        for line, name in wrong_names(file.read_text()):
            if f"{root}: {name}" not in ALLOWED:
                found.append(f"{file.relative_to(TESTS.parent)}:{line}: {name}")
    assert found == []


@pytest.mark.parametrize(
    "line",
    [
        "killed_s = boottime_s()",
        "a, killed_s = 1, time.monotonic()",
        "self.killed_s: float = self.now_s",
        "deadline_s = began_at_s + lease_s",
        "record(killed_s=max(0.0, wall_s()))",
        "took_at_s = boottime_s() - began_at_s",
    ],
)
def test_a_wrong_name_is_found(line: str) -> None:
    assert len(wrong_names(line)) == 1


@pytest.mark.parametrize(
    "line",
    [
        "killed_at_s = boottime_s()",
        "took_s = boottime_s() - began_at_s",
        "now = clock()",
        "left_s = until_at_s - now_s",
    ],
)
def test_a_right_name_is_not(line: str) -> None:
    assert wrong_names(line) == []
