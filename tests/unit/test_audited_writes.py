"""No command writes to the registry beside its auditor: each commit of one is handed to ``Auditor.commit``."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import supervisor

ROOT = Path(supervisor.__file__).parent
COMMANDS = ("api", "bluegreen", "cli", "operations", "savepoints")
"""The rooms in which commands are carried out."""
RESOLVED = "commit_resolved"
"""By it commands write to the registry, in ``registry.resolve_outcome``."""


def functions() -> Iterator[tuple[str, ast.FunctionDef]]:
    for room in COMMANDS:
        for path in sorted((ROOT / room).rglob("*.py")):
            for node in ast.walk(ast.parse(path.read_text())):
                if isinstance(node, ast.FunctionDef):
                    yield f"{path.relative_to(ROOT)}:{node.name}", node


def calls(node: ast.AST, method: str) -> list[ast.Call]:
    return [
        each
        for each in ast.walk(node)
        if isinstance(each, ast.Call) and isinstance(each.func, ast.Attribute) and each.func.attr == method
    ]


def by_an_auditor(call: ast.Call) -> bool:
    assert isinstance(call.func, ast.Attribute)
    return ast.unparse(call.func.value).rpartition(".")[2].lstrip("_") == "auditor"


def audited(function: ast.FunctionDef) -> bool:
    """Whether the auditor is given each ``partial(commit_resolved, …)`` of the function, and nobody else calls it."""
    text = f"partial({RESOLVED}, "
    made = {
        ast.unparse(node.value): node.targets[0]
        for node in ast.walk(function)
        if isinstance(node, ast.Assign) and ast.unparse(node.value).startswith(text)
    }
    given = [ast.unparse(call.args[1]) for call in calls(function, "commit") if by_an_auditor(call)]
    handed = [each for each in given if each.startswith(text) or each in map(ast.unparse, made.values())]
    uses = [node for node in ast.walk(function) if isinstance(node, ast.Name) and node.id == RESOLVED]
    return len(uses) == len(handed)


def test_each_write_of_a_command_is_handed_to_its_auditor() -> None:
    writing = [
        (where, function)
        for where, function in functions()
        if any(isinstance(node, ast.Name) and node.id == RESOLVED for node in ast.walk(function))
    ]
    assert len(writing) >= 3
    assert [where for where, function in writing if not audited(function)] == []


def test_no_command_commits_in_another_way() -> None:
    found = [
        (where, ast.unparse(call))
        for where, function in functions()
        for call in calls(function, "commit")
        if not by_an_auditor(call)
    ]
    assert found == []
