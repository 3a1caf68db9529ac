"""What is known of the end of an attempt stands in ``show`` and ``explain``, as long as it is of the same submission."""

from __future__ import annotations

from dataclasses import replace

import pytest

from supervisor.model.records import Cause, DriverDiagnostics
from tests.unit.cli.conftest import Terminal

KNOWN = DriverDiagnostics(
    attempt=1,
    host="host-a.example",
    path="/log/a/u.1.diagnostics.txt",
    memory="largest: java\x1b[2J (pid 12)",
)


@pytest.fixture
def failed(terminal: Terminal) -> Terminal:
    terminal.submit("a")
    terminal.bench.run("a")
    terminal.bench.exit("a", Cause.STALLED)
    own = terminal.bench.own("a")
    terminal.bench.put(terminal.bench.layout.own("a"), replace(own, diagnostics=KNOWN))
    return terminal


@pytest.mark.parametrize("command", ["show", "explain"])
def test_it_says_where_they_are_and_what_the_memory_was(failed: Terminal, command: str) -> None:
    ran = failed.run(command, "a")
    assert "attempt 1, host-a.example:/log/a/u.1.diagnostics.txt" in ran.out
    assert "attempt 1, largest: java" in ran.out and "\x1b" not in ran.out
    document = failed.run(command, "a", "-o", "json").json["diagnostics"]
    assert (document["attempt"], document["host"], document["path"]) == (1, KNOWN.host, KNOWN.path)


def test_explain_names_the_command_that_packs_them(failed: Terminal) -> None:
    assert "spark-supervisor debug bundle a packs it there" in failed.run("explain", "a").out


def test_those_of_another_submission_are_not_shown(failed: Terminal) -> None:
    own = failed.bench.own("a")
    failed.bench.put(failed.bench.layout.own("a"), replace(own, uid="another"))
    for command in ("show", "explain"):
        assert failed.run(command, "a", "-o", "json").json["diagnostics"] is None
        assert "u.1.diagnostics.txt" not in failed.run(command, "a").out
