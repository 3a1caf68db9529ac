"""What the pages tell a reader to type: lines of their blocks for a shell, and commands in backticks within a sentence or table."""

from __future__ import annotations

import ast
import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import typer

from supervisor.cli.lazy import ListedCommand
from supervisor.cli.main import PROGRAM as NAME_OF_PROGRAM
from supervisor.cli.main import app

ROOT = Path(__file__).resolve().parents[2]
PROGRAM: Any = typer.main.get_command(app)
FOR_READERS = sorted(
    str(path.relative_to(ROOT)) for path in (ROOT / "README.md", *(ROOT / "supervisor").rglob("*.md"))
)
"""The pages that the package has. Those of the tests are looked at for the commands of the tests."""
FOR_TESTERS = sorted(str(path.relative_to(ROOT)) for path in (ROOT / "tests").rglob("*.md"))

BLOCK = re.compile(r"^ *```(\w*)\n(.*?)^ *```", re.MULTILINE | re.DOTALL)
SPAN = re.compile(r"(?<!`)`([^`]+)`(?!`)")
MORE_OPTIONS = re.compile(r"`(python -m tests\.[^`]+)`, `(--[^`]+)`")
"""A command, and beside it an option that it may be given as well."""
WRAPPERS = (("sudo", "-u", "spark"), ("REGENERATE_GOLDEN=1",))
"""What may stand before a command that is otherwise as it would be without."""

PLACEHOLDERS = {
    "NAME": "rate-counts",
    "ID": "before-upgrade",
    "SPEC": "rate-counts.yaml",
    "HOST": "host-b",
}
GIVEN = {
    "name": "rate-counts",
    "names": "rate-counts",
    "where": "rate-counts",
    "spec": "rate-counts.yaml",
    "paths": "rate-counts.yaml",
    "specs": "rate-counts.yaml",
    "savepoint": "before-upgrade",
    "--from-savepoint": "before-upgrade",
}
"""By argument or option: what a command that a sentence only mentions (``suspend --savepoint``) is completed with."""


@dataclass(frozen=True)
class Typed:
    """``inline``: in backticks within a sentence or table, where arguments may be left out."""

    page: str
    words: tuple[str, ...]
    inline: bool = False

    def __str__(self) -> str:
        return " ".join(self.words)


def _bare(words: list[str]) -> tuple[str, ...]:
    """Without what only says who calls it, and where the program is."""
    for wrapper in WRAPPERS:
        if tuple(words[: len(wrapper)]) == wrapper:
            words = words[len(wrapper) :]
    if words and words[0].startswith((".venv/bin/", "/opt/spark-supervisor/bin/")):
        words = [words[0].rpartition("/")[2], *words[1:]]
    return tuple(words)


def lines_of(page: str) -> Iterator[Typed]:
    """Each command of the blocks for a shell, without comments; two that ``&&`` joins are two."""
    for language, block in BLOCK.findall((ROOT / page).read_text()):
        if language not in ("sh", "console"):
            continue
        for line in re.sub(r"\\\n\s*", "", block).splitlines():  # continued lines are one
            words = shlex.split(line.strip().removeprefix("$ "), comments=True)
            while words:
                end = words.index("&&") if "&&" in words else len(words)
                yield Typed(page, _bare(words[:end]))
                words = words[end + 1 :]


def spans_of(page: str) -> Iterator[Typed]:
    """Everything in backticks outside of the blocks that is two words or more, or a path; and options beside a command."""
    text = BLOCK.sub("", (ROOT / page).read_text())
    said = [*SPAN.findall(text), *(" ".join(pair) for pair in MORE_OPTIONS.findall(text))]
    for span in said:
        try:
            words = shlex.split(span)
        except ValueError:  # an apostrophe: it is no command
            continue
        if len(words) > 1 or words and "/" in words[0]:
            yield Typed(page, _bare(words), inline=True)


# -- commands of the program -----------------------------------------------------------------------------------------------


def command_of(words: tuple[str, ...]) -> tuple[Any, list[str]]:
    """The command that words without the name of the program mean, and what is left of them."""
    command, left = PROGRAM, list(words)
    while left and left[0] in getattr(command, "commands", ()):
        command = command.commands[left.pop(0)]
        command = command.load() if isinstance(command, ListedCommand) else command
    return command, left


def completed(typed: Typed) -> tuple[str, ...]:
    """Words for the program, with a value for each placeholder, and for what a mention in a sentence leaves out."""
    words = tuple(PLACEHOLDERS.get(word.strip("[]"), word) for word in typed.words)
    if not typed.inline:
        return words
    command, left = command_of(words)
    options = {name: option for option in command.params for name in option.opts if name.startswith("-")}
    if left and left[-1] in options and not options[left[-1]].is_flag:
        words = (*words, GIVEN[left[-1]])
    if not any(not word.startswith("-") for word in left):
        arguments = [each for each in command.params if each.param_type_name == "argument"]
        required = [
            each for each in arguments if each.required or (each.name == "names" and needs_names(left))
        ]
        at = len(typed.words) - len(left)
        words = (*words[:at], *(GIVEN[each.name] for each in required), *words[at:])
    return words


def needs_names(left: list[str]) -> bool:
    """Says whether a command of jobs is given their names: it has no selector, and is no list, which does without both."""
    return not {"-l", "--selector", "--watch", "--all", "-o"} & {*left}


def _of_program(typed: Typed) -> Typed | None:
    """Without the name of the program; None if it is something else."""
    if typed.words[0] == NAME_OF_PROGRAM and len(typed.words) > 1:
        return Typed(typed.page, typed.words[1:], typed.inline)
    if typed.inline and typed.words[0] in PROGRAM.commands:
        return typed
    return None


ALL = [typed for page in FOR_READERS for typed in (*lines_of(page), *spans_of(page))]
OF_TESTERS = [typed for page in FOR_TESTERS for typed in (*lines_of(page), *spans_of(page))]

COMMANDS = sorted(
    {
        (typed.page, completed(own))
        for typed in (*ALL, *(each for each in OF_TESTERS if each.words[0] == NAME_OF_PROGRAM))
        if (own := _of_program(typed))
    }
)
"""Page, and words after ``spark-supervisor``: every command of the program in every page, ready to be carried out."""

OTHERS = [typed for typed in ALL if not _of_program(typed) and not typed.inline]
OTHER_SPANS = [typed for typed in ALL if not _of_program(typed) and typed.inline]


# -- commands that other tests run ------------------------------------------------------------------------------------------


class Elsewhere(NamedTuple):
    """A test that runs the command line, as ``file.py::function``; its program and verb stand in the function, or in ``where``.

    ``where``: the script or recipe that the test makes run.
    """

    test: str
    where: str = ""


TUTORIAL = Elsewhere("tests/e2e/test_tutorial.py::test_what_the_tutorial_shows_is_what_is_seen")


def _function(test: str) -> str:
    """The source of ``file.py::function``, with its decorators."""
    file, _, name = test.partition("::")
    text = (ROOT / file).read_text()
    for node in ast.parse(text).body:
        if isinstance(node, ast.FunctionDef) and node.name == name:
            first = min([node.lineno, *(each.lineno for each in node.decorator_list)])
            return "\n".join(text.splitlines()[first - 1 : node.end_lineno])
    return ""


def problem_of(typed: str, row: Elsewhere | str) -> str:
    """What is wrong with a row; empty if the test is there, and what it runs has the program and the verb."""
    if isinstance(row, str):
        return "" if len(row.split()) > 3 else f"{typed}: say why"
    function = _function(row.test)
    if not function:
        return f"{typed}: there is no {row.test}"
    if row is TUTORIAL:
        return "" if "BLOCKS[1:]" in function else f"{typed}: the tutorial is not followed"
    text = (ROOT / row.where).read_text() if row.where else function
    program_and_verb = [word for word in typed.split()[:3] if word[0].isalnum() or word == typed][:2]
    missing = [word for word in program_and_verb if word not in text]
    return f"{typed}: {row.where or row.test} does not have {missing}" if missing else ""
