"""Every event that the code logs is in the table with its fields, and every event of the table is logged."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from supervisor.logs.events import EVENTS

PACKAGE = Path(__file__).resolve().parents[3] / "supervisor"
LEVELS = {"debug", "info", "warning", "error", "critical", "exception"}
BOUND = {"job", "uid", "attempt"}
"""``ShimLog`` binds them; ``**about`` of the guardian and of the agent holds them."""
MACHINES = ("shim/", "daemon/host/guarded_attempt.py")
"""They say what is logged in their place, about the attempt that is theirs."""


class Call(NamedTuple):
    where: str
    event: ast.expr | None
    fields: frozenset[str]


def calls() -> Iterator[Call]:
    for path in sorted(PACKAGE.rglob("*.py")):
        name = str(path.relative_to(PACKAGE))
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call) and is_log_call(node.func, name):
                fields = {keyword.arg for keyword in node.keywords if keyword.arg}
                if any(keyword.arg is None for keyword in node.keywords) or name.startswith(MACHINES):
                    fields |= BOUND
                if isinstance(node.func, ast.Name) and node.func.id in ("WriteLog", "LogGuard"):
                    fields.add("why")
                yield Call(f"{name}:{node.lineno}", node.args[0] if node.args else None, frozenset(fields))


def is_log_call(called: ast.expr, file: str) -> bool:
    if isinstance(called, ast.Name):
        return (called.id == "WriteLog") or (called.id == "log_outcome" and file == "daemon/leader/record.py")
    if not isinstance(called, ast.Attribute):
        return False
    of = called.value
    if called.attr in LEVELS:
        named = isinstance(of, ast.Name) and of.id == "log"
        return named or (
            isinstance(of, ast.Call) and isinstance(of.func, ast.Name) and of.func.id == "get_logger"
        )
    return called.attr in ("log_event", "log", "_log") and file.startswith(MACHINES)


def test_each_call_names_an_event_of_the_table_and_its_fields() -> None:
    for call in calls():
        if isinstance(call.event, ast.Name):  # the machine's words, passed on by the runner
            assert call.where.startswith("shim/runner.py"), call.where
            continue
        assert isinstance(call.event, ast.Constant), f"{call.where}: the name of an event is fixed"
        assert call.event.value in EVENTS, (
            f"{call.where}: {call.event.value} is not in supervisor/logs/events.py"
        )
        unknown = call.fields - set(EVENTS[call.event.value].fields.split()) - {"exc_info"} - BOUND
        assert not unknown, (
            f"{call.where}: {call.event.value} has fields that are not in the table: {unknown}"
        )


def test_each_event_of_the_table_is_logged_somewhere_with_each_of_its_fields() -> None:
    logged: dict[str, set[str]] = {}
    for call in calls():
        if isinstance(call.event, ast.Constant):
            logged.setdefault(str(call.event.value), set()).update(call.fields)
    assert set(EVENTS) - set(logged) == set(), "nothing logs these"
    for name, event in EVENTS.items():
        assert set(event.fields.split()) <= logged[name] | BOUND, name


def test_each_event_about_an_attempt_carries_its_uid() -> None:
    for call in calls():
        if isinstance(call.event, ast.Constant) and "attempt" in call.fields:
            assert "uid" in call.fields, call.where


def test_the_calls_are_found() -> None:
    assert len(list(calls())) > 80
