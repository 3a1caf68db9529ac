"""Who changes a job while the cluster is paused is told that nothing comes of it yet."""

from __future__ import annotations

import pytest

from supervisor.operations.pause_notice import WAITS
from tests.unit.cli.conftest import Terminal

SAID = "nothing comes of this until spark-supervisor unpause"


@pytest.mark.parametrize(
    ("words", "waits"), [(["restart", "a"], True), (["suspend", "a"], False), (["cancel", "a"], False)]
)
def test_what_waits_for_the_leader_says_so(terminal: Terminal, words: list[str], waits: bool) -> None:
    terminal.submit("a")
    terminal.bench.run("a")
    assert SAID not in terminal.run("restart", "a").err
    assert terminal.run("pause", "--reason", "disks").code == 0
    ran = terminal.run(*words)
    assert ran.code == 0 and (SAID in ran.err and "(disks)" in ran.err) is waits


def test_several_jobs_are_told_of_once(terminal: Terminal) -> None:
    for name in ("a", "b"):
        terminal.submit(name)
        terminal.bench.run(name)
    terminal.run("pause")
    ran = terminal.run("restart", "a", "b", "--yes")
    assert ran.code == 0 and ran.err.count(SAID) == 1


def test_a_resume_waits_and_explain_says_what_for(terminal: Terminal) -> None:
    terminal.submit("a")
    terminal.run("suspend", "a")
    terminal.run("pause", "--reason", "disks")
    assert SAID in terminal.run("resume", "a").err
    terminal.bench.run("a")
    terminal.bench.join("host-a")
    terminal.run("restart", "a")
    out = terminal.run("explain", "a").out
    assert "held" in out and "paused by" in out and "spark-supervisor unpause" in out


def test_every_word_is_one_of_a_command() -> None:
    assert {each.value for each in WAITS} >= {"restarted", "resumed", "updated"}
