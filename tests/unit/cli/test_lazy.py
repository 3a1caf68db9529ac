"""The commands stand in a table: ``--help`` imports none of their modules, and looks as if they all were imported."""

from __future__ import annotations

import ast
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import typer

import supervisor
from supervisor.cli.lazy import CommandEntry, ListedCommand
from supervisor.cli.main import COMMANDS, INSTEAD, app, run_command
from tests.unit.cli.conftest import Terminal

PACKAGE = Path(supervisor.__file__).parent
GOLDEN = Path(__file__).parents[2] / "golden" / "help"
WIDTHS = (80, 140)
HEAVY = {
    "pydantic",
    "boto3",
    "cryptography",
    "kazoo",
    "pyspark",
    "structlog",
    "rich",
    "yaml",
    "prometheus_client",
    "msgspec",
}
MODULES = {entry.target.partition(":")[0] for entry in COMMANDS}
GROUP: Any = typer.main.get_command(app)


def loaded(entry: CommandEntry) -> Any:
    return ListedCommand(entry).load()


def words_of_help() -> list[str]:
    """Every command and subcommand, separated by blanks; empty for the program itself."""
    found = [""]
    for entry in COMMANDS:
        found += [entry.name, *(f"{entry.name} {name}" for name in getattr(loaded(entry), "commands", ()))]
    return found


@pytest.mark.parametrize("words", words_of_help())
def test_each_help_is_the_golden_one(terminal: Terminal, monkeypatch: pytest.MonkeyPatch, words: str) -> None:
    """REGENERATE_GOLDEN=1 writes them anew."""
    for width in WIDTHS:
        monkeypatch.setenv("COLUMNS", str(width))
        golden = GOLDEN / f"{words.replace(' ', '_') or 'spark-supervisor'}-{width}.txt"
        ran = terminal.run(*words.split(), "--help")
        assert (ran.code, ran.err) == (0, "")
        if os.environ.get("REGENERATE_GOLDEN"):
            golden.write_text(ran.out)
        assert ran.out == golden.read_text()


def test_no_golden_help_is_left_of_a_command_that_is_gone() -> None:
    names = {words.replace(" ", "_") or "spark-supervisor" for words in words_of_help()}
    assert {f"{name}-{width}.txt" for name in names for width in WIDTHS} == {
        file.name for file in GOLDEN.iterdir()
    }


@pytest.mark.parametrize("entry", COMMANDS, ids=lambda entry: entry.name)
def test_a_line_of_the_table_is_the_commands_own(entry: CommandEntry) -> None:
    """At any width at which the line has room, and with the first words of what the command says of itself."""
    command = loaded(entry)
    listed = GROUP.commands[entry.name]
    assert (command.name, command.get_short_help_str(200)) == (entry.name, entry.line)
    assert (listed.name, listed.get_short_help_str(200)) == (entry.name, entry.line)
    assert [command.get_short_help_str(size) for size in (20, 40, 60)] == [
        listed.get_short_help_str(size) for size in (20, 40, 60)
    ]
    assert (listed.hidden, listed.deprecated) == (command.hidden, command.deprecated)
    assert command.help


def modules_after(*words: str, **environment: str) -> set[str]:
    """What a process has loaded when the command line is done with ``words``."""
    code = (
        "import json, sys; from supervisor.cli.main import run_command\n"
        "try:\n    run_command(sys.argv[1:])\n"
        "except SystemExit:\n    pass\n"
        "print(); print(json.dumps(sorted(sys.modules)))"
    )
    ran = subprocess.run(
        [sys.executable, "-c", code, *words],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, **environment},
    )
    return set(json.loads(ran.stdout.splitlines()[-1]))


@pytest.mark.parametrize("words", [("--help",), ("--version",), ()], ids=str)
def test_what_needs_no_command_imports_none(words: tuple[str, ...]) -> None:
    found = modules_after(*words)
    assert not HEAVY & found
    assert not MODULES & found


def test_a_misspelt_name_imports_no_command() -> None:
    """Pydantic is typer's own: it reads the values of the options with it."""
    found = modules_after("lits")
    assert not (HEAVY - {"pydantic"}) & found
    assert not MODULES & found


def test_completing_the_name_of_a_command_imports_none() -> None:
    typed = {"COMP_WORDS": "spark-supervisor s", "COMP_CWORD": "1"}
    found = modules_after(_SPARK_SUPERVISOR_COMPLETE="complete_bash", **typed)
    assert "typer._completion_classes" in found
    assert not (HEAVY - {"pydantic"}) & found
    assert not MODULES & found


def test_a_command_imports_its_own_module_only() -> None:
    found = modules_after("docs", "--help")
    assert MODULES & found == {"supervisor.cli.docs"}


def functions_of_commands() -> set[str]:
    """Each function of the package with ``@command``, as ``module:function``."""
    found = set()
    for file in PACKAGE.rglob("*.py"):
        module = ".".join(file.relative_to(PACKAGE.parent).with_suffix("").parts)
        for node in ast.parse(file.read_text()).body:
            if isinstance(node, ast.FunctionDef) and "command" in map(ast.unparse, node.decorator_list):
                found.add(f"{module}:{node.name}")
    return found


def test_each_function_that_is_a_command_is_in_the_table_or_in_a_group_of_it() -> None:
    groups = {entry.target.partition(":")[0] for entry in COMMANDS if entry.target.endswith(":app")}
    alone = {each for each in functions_of_commands() if each.partition(":")[0] not in groups}
    assert alone == {entry.target for entry in COMMANDS if not entry.target.endswith(":app")}
    grouped = functions_of_commands() - alone
    assert len(grouped) == sum(len(getattr(loaded(entry), "commands", ())) for entry in COMMANDS)


def test_a_name_is_suggested_only_for_one_that_resembles_it(capsys: pytest.CaptureFixture[str]) -> None:
    for typed, meant in (("cancle", "cancel"), ("lst", "list"), ("restrat", "restart"), ("log", "logs")):
        assert run_command([typed]) == 2
        assert f"Did you mean {meant!r}" in capsys.readouterr().err
    for typed in ("bogus", "xyz"):
        assert run_command([typed]) == 2
        assert "Did you mean" not in capsys.readouterr().err


def test_words_of_other_tools_lead_to_ours(capsys: pytest.CaptureFixture[str]) -> None:
    for typed, meant in INSTEAD.items():
        assert run_command([typed]) == 2
        assert f"Did you mean {', '.join(map(repr, meant))}?" in capsys.readouterr().err
        assert not {entry.name for entry in COMMANDS} & {typed}
        assert {entry.name for entry in COMMANDS} | {"--help"} >= set(meant)
