"""Docstrings are sentences, and what they name exists. (That a sentence is true, a reader checks.)"""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections.abc import Iterator
from pathlib import Path

import supervisor

PACKAGE = Path(supervisor.__file__).parent
FILES = sorted(PACKAGE.rglob("*.py"))

FRAGMENT = re.compile(r"(?:^|[.;:)] )``[\w ,*`]+``(?: and ``\w+``)*: ")
"""How a parameter was described without a verb: the name, a colon, and half a sentence."""

OF_OTHERS = {
    "SPARK_SUPERVISOR__SECTION__KEY": "the pattern of names of variables",
    "_async": "kazoo",
    "_at_s": "the end of names of instants",
    "a0": "an example of a batch's file",
    "follower": "ZooKeeper",
    "ps": "the command",
}
"""Single names in docstrings that are not of this package."""


def docstrings(path: Path) -> Iterator[tuple[int, str]]:
    """Every docstring of a module, those below constants too, but for the ones that are printed as ``--help``."""
    for node in ast.walk(ast.parse(path.read_text())):
        body = getattr(node, "body", None)
        if not isinstance(body, list) or any(
            isinstance(each, ast.Name) and each.id == "command"
            for each in getattr(node, "decorator_list", ())
        ):
            continue
        for each in body:
            match each:
                case ast.Expr(value=ast.Constant(value=str(text), lineno=line)):
                    yield line, text


def helps(path: Path) -> Iterator[tuple[int, str]]:
    """What the commands of a module print of themselves: each paragraph before the examples."""
    for node in ast.parse(path.read_text()).body:
        if isinstance(node, ast.FunctionDef) and "command" in map(ast.unparse, node.decorator_list):
            text, _, _examples = (ast.get_docstring(node) or "").partition("\b")
            yield from ((node.lineno, " ".join(each.split())) for each in text.split("\n\n") if each.strip())


def names_in(path: Path) -> set[str]:
    """Every name, and every word of a text, that stands in the code of a module."""
    names = {path.stem, path.parent.name}
    for token in tokenize.generate_tokens(io.StringIO(path.read_text()).readline):
        if token.type == tokenize.NAME:
            names.add(token.string)
        elif token.type == tokenize.STRING and not token.string.startswith('"""'):
            names.update(re.findall(r"\w+", token.string))
    return names


def test_each_docstring_is_made_of_sentences() -> None:
    found = [
        f"{path.relative_to(PACKAGE)}:{line}: {text[:60]}"
        for path in FILES
        for line, text in docstrings(path)
        if FRAGMENT.search(" ".join(text.split())) or not text.rstrip().endswith((".", "?", "!", "::"))
    ]
    assert found == []


WITHOUT_SUBJECT = re.compile(r"(?:^|[.;:] )Of (?:the|a|an|each|every)\b[^.,;]*(?:[.;]|$)")
"""How a sentence was written that has no verb: ``Of the latest attempt.``"""


def test_what_a_command_says_of_itself_is_made_of_sentences() -> None:
    said = [(path, line, text) for path in FILES for line, text in helps(path)]
    assert len(said) > 40
    assert [
        f"{path.relative_to(PACKAGE)}:{line}: {text[:60]}"
        for path, line, text in said
        if WITHOUT_SUBJECT.search(text) or not text.endswith((".", "?", "!", ":"))
    ] == []


def test_each_name_in_a_docstring_is_a_name_in_the_code() -> None:
    known = set().union(*map(names_in, FILES)) | OF_OTHERS.keys()
    found = [
        f"{path.relative_to(PACKAGE)}:{line}: {name}"
        for path in FILES
        for line, text in docstrings(path)
        for name in re.findall(r"``([a-zA-Z_]\w*)``", text)
        if name not in known
    ]
    assert found == []
