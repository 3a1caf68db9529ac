"""The pause between two tries, which is one thing in the whole package."""

from __future__ import annotations

import ast
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import supervisor
from supervisor.growing_pause import GrowingPause

PACKAGE = Path(supervisor.__file__).parent


def test_it_doubles_up_to_the_longest() -> None:
    pause = GrowingPause(first_s=5.0, longest_s=60.0)
    assert [pause.after(failures) for failures in range(7)] == [5.0, 5.0, 10.0, 20.0, 40.0, 60.0, 60.0]


@given(st.floats(0.001, 1e6), st.floats(0.001, 1e6), st.integers(-3, 10**12))
def test_it_never_shrinks_and_never_exceeds_the_longest(
    first_s: float, longest_s: float, failures: int
) -> None:
    pause = GrowingPause(first_s, longest_s)
    assert 0 < pause.after(failures) <= pause.after(failures + 1) <= longest_s


def _doubling(node: ast.AST) -> bool:
    """Whether it is ``2 ** n``, or ``min(longest, 2 * pause)`` in either order."""
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Pow):
        return _is_two(node.left) and not isinstance(node.right, ast.Constant)
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "min":
        return any(
            isinstance(argument, ast.BinOp)
            and isinstance(argument.op, ast.Mult)
            and (_is_two(argument.left) or _is_two(argument.right))
            for argument in node.args
        )
    return False


def _is_two(node: ast.AST) -> bool:
    return isinstance(node, ast.Constant) and node.value == 2


def test_nobody_else_doubles_a_pause() -> None:
    """Eleven places did, with four ways to count failures and three bounds against an overflow."""
    found = {
        str(path.relative_to(PACKAGE))
        for path in PACKAGE.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if _doubling(node)
    }
    assert found == {
        "growing_pause.py",
        "clients/kazoo_connection.py",  # the silence after which kazoo gives up: twice its ping
        "shim/directory_sampler.py",  # the period of what changes seldom: nothing has failed
    }


@pytest.mark.parametrize("text", ["min(9.0, p * 2)", "min(2 * p, q)", "f * 2.0 ** n"])
def test_the_scan_sees_each_form(text: str) -> None:
    assert any(_doubling(node) for node in ast.walk(ast.parse(text)))


def test_the_pauses_of_a_duty_only_grow() -> None:
    from supervisor.shim.end import RETRY_PAUSE

    pauses = [RETRY_PAUSE.after(tries) for tries in range(1, 9)]
    assert (
        all(earlier <= later for earlier, later in pairwise(pauses))
        and pauses[0] == 0.25
        and pauses[-1] == 5.0
    )
