"""One name, one meaning: a public class stands once in the package, and no sentence for people decides anything."""

from __future__ import annotations

import ast
from collections import defaultdict
from pathlib import Path

import pytest

import supervisor

PACKAGE = Path(supervisor.__file__).parent
FILES = sorted(PACKAGE.rglob("*.py"))


def test_no_public_class_name_stands_twice() -> None:
    where: dict[str, list[str]] = defaultdict(list)
    for file in FILES:
        for node in ast.parse(file.read_text()).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                where[node.name].append(str(file.relative_to(PACKAGE)))
    assert {name: files for name, files in where.items() if len(files) > 1} == {}


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
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.FunctionDef):
                first = node.body[0]
                said = ast.get_docstring(node) is not None
                documented = (first.end_lineno or 0) - first.lineno + 1 if said else 0
                if (node.end_lineno or 0) - node.lineno + 1 - documented > 50:
                    long.append(f"{file.relative_to(PACKAGE)}: {node.name}")
    assert long == []
