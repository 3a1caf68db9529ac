"""Every command of the program in every page is carried out, in the state of the cluster that its page is about.

The ensemble is in memory, and a fleet obeys while a command waits. What can't be carried out so stands in ``ELSEWHERE``.
"""

from __future__ import annotations

import io
import sys
import time
from collections.abc import Iterator
from glob import glob
from pathlib import Path
from types import SimpleNamespace
from typing import Any, TypeVar

import pytest

from supervisor.cli import watch
from supervisor.cli.doctor import command as doctor_command
from supervisor.operations import waiting
from supervisor.savepoints import deep_verify
from supervisor.spark.state_reading import OpenedStore, StateOf
from tests.integration.test_drain_host import Host
from tests.unit.cli import page_worlds as worlds
from tests.unit.cli.conftest import Terminal
from tests.unit.cli.doctor.test_command import FINE
from tests.unit.cli.page_worlds import Site, World, obey
from tests.unit.cli.test_lazy import words_of_help
from tests.unit.page_commands import COMMANDS, Elsewhere, problem_of

T = TypeVar("T")

ELSEWHERE = {
    "demo": Elsewhere("tests/e2e/test_demo.py::test_demo_shows_all_of_its_story"),
    "dev": Elsewhere("tests/e2e/test_demo.py::test_dev_is_there_to_be_used"),
    "run": Elsewhere("tests/faults/test_killed.py::test_f1_kill_9_of_the_leader", "tests/testbed/fleet.py"),
    "stacks rate-counts": Elsewhere(
        "tests/unit/cli/test_stacks.py::test_the_threads_of_the_driver_are_printed_as_often_as_asked"
    ),
    "stacks rate-counts --times 3": Elsewhere(
        "tests/unit/cli/test_stacks.py::test_the_threads_of_the_driver_are_printed_as_often_as_asked"
    ),
    "stacks rate-counts --jvm --times 3 --every 2s": Elsewhere(
        "tests/unit/cli/test_stacks.py::test_the_threads_of_the_driver_are_printed_as_often_as_asked"
    ),
    "--install-completion": Elsewhere(
        "tests/unit/cli/test_completion.py::test_it_installs_itself_into_the_shell_that_called_it"
    ),
}
"""They start processes that stay, or write into the reader's home: the test that runs the command line."""

RUN = [(page, words) for page, words in COMMANDS if " ".join(words) not in ELSEWHERE]

IN_GENERAL: dict[str, World] = {
    "submit": worlds.cancelled,
    "apply": worlds.edited,
    "diff": worlds.edited,
    "rollback": worlds.updated,
    "rollback rate-counts --to": worlds.updated_twice,
    "rollback rate-counts --from-savepoint": worlds.quarantined_update,
    "show rate-counts-2": worlds.forked,
    "compare": worlds.forked,
    "promote": worlds.forked,
    "promote --undo": worlds.promoted,
    "resume": worlds.suspended,
    "uncordon": worlds.cordoned,
    "unpause": worlds.paused,
    "accept-registry": worlds.restored,
    "registry secure": worlds.to_be_secured,
    "registry secure --open": worlds.to_be_opened,
    "stop-drivers": worlds.hosting,
    "savepoint delete": worlds.saved,
    "savepoint list": worlds.saved,
    "savepoint restore": worlds.saved,
    "savepoint show": worlds.saved,
    "savepoint verify": worlds.saved,
}
"""By the words that a command begins with: the state in which it is typed. Where no row fits, the job runs."""

OF_PAGES: dict[tuple[str, str], World] = {
    (
        "supervisor/docs/jobs-upgrade.md",
        "resume rate-counts --from-savepoint before-upgrade",
    ): worlds.quarantined,
    ("supervisor/docs/operate-monitoring.md", "explain"): worlds.failing,
    ("supervisor/docs/operate-monitoring.md", "history"): worlds.failing,
    ("supervisor/docs/runbooks/checkpoint.md", "cancel"): worlds.quarantined,
    ("supervisor/docs/runbooks/checkpoint.md", "checkpoint"): worlds.damaged,
    ("supervisor/docs/runbooks/checkpoint.md", "resume"): worlds.quarantined,
    ("supervisor/docs/runbooks/incident.md", ""): worlds.failing,
    ("supervisor/docs/runbooks/incident.md", "apply"): worlds.edited,
    ("supervisor/docs/runbooks/incident.md", "stop-drivers"): worlds.hosting,
    ("supervisor/docs/runbooks/incident.md", "unpause"): worlds.paused,
    ("supervisor/docs/runbooks/oom.md", "explain"): worlds.out_of_memory,
    ("supervisor/docs/runbooks/oom.md", "history"): worlds.out_of_memory,
    ("supervisor/docs/runbooks/oom.md", "logs"): worlds.out_of_memory,
    ("supervisor/docs/runbooks/s3.md", "explain"): worlds.failing,
    ("supervisor/docs/runbooks/stalled.md", ""): worlds.stalled,
    ("supervisor/docs/runbooks/stalled.md", "apply"): worlds.edited,
    ("supervisor/docs/runbooks/zookeeper-restore.md", "explain"): worlds.failing,
    ("supervisor/docs/runbooks/zookeeper-restore.md", "cancel"): worlds.corrupt,
    ("supervisor/docs/tutorial.md", "list --all"): worlds.cancelled,
    ("supervisor/docs/tutorial.md", "status"): worlds.fleet,
}
"""By page and the words that the command begins with: where the page is about another state than the command in general."""

FAILS = {
    ("supervisor/docs/tutorial.md", "diff jobs/clicks.yaml"): 1,
    ("supervisor/docs/jobs-upgrade.md", "diff rate-counts.yaml"): 1,
    ("supervisor/docs/operate-daily.md", "logs rate-counts -f"): 130,  # until Ctrl-C
    ("supervisor/docs/operate-api.md", "logs rate-counts -f --since 10m"): 130,  # as well
    ("supervisor/docs/runbooks/checkpoint.md", "checkpoint verify rate-counts"): 1,
}
"""What ends with another code than 0, as its page says."""

PRINTS = {
    "accept-registry": "epoch",
    "accept-registry --dry-run": "a dry run: nothing was changed",
    "apply": "updated to revision 2",
    "audit": "submit",
    "apply jobs/ --prune": "would be",
    "cancel": "cancelled",
    "debug bundle": "read it before you give it away",
    "checkpoint show": "12",
    "checkpoint verify": "1 query",
    "cordon": "cordoned: nothing new is placed there",
    "diff": "lease: 30s → 20s",
    "compare": "rate-counts-2 is as far as rate-counts",
    "fork": "forked",
    "promote": "promoted over rate-counts",
    "promote --undo": "rate-counts runs again",
    "docs": "tutorial",
    "docs concepts-guarantees": "# What you can rely on",
    "docs reference": "# Reference",
    "docs runbooks/card": "# The 3 a.m. card",
    "docs runbooks/incident": "# Runbook: something failed",
    "docs tutorial": "# Tutorial",
    "docs zookeeper": "# ",
    "doctor": "2 checks ok",
    "drain": "is drained, 2 jobs at a time",
    "explain": "rate-counts",
    "explain clicks": "clicks is running",
    "history": "EVENT",
    "list -o json": '"sinks"',
    "list": "NAME ",
    "list --watch": "running attempt 1",
    "logs": "hello from attempt",
    "move": "to be moved",
    "pause": "nothing is started",
    "registry secure": "changed; ",
    "registry secure --dry-run": "a dry run: ",
    "restart": "restarted",
    "resume": "resumed",
    "revisions": "REVISION",
    "rollback": "rolled back",
    "rollback rate-counts --from-savepoint": "resumed",
    "savepoint create": "savepoint",
    "savepoint delete": "deleted",
    "savepoint list": "complete",
    "savepoint restore": "restored",
    "savepoint show": "before-upgrade",
    "savepoint verify": "is whole",
    "schema job": '"title": "A job of spark-supervisor"',
    "show": "rate-counts",
    "status": "host-a (epoch 7)",
    "stop-drivers": "1 driver stopped",
    "submit": "submitted",
    "suspend": "suspended",
    "switchover": "host-b leads",
    "top": "rate-counts",
    "top --hosts": "OFFERED",
    "uncordon": "uncordoned",
    "unpause": "unpaused",
}
"""By the words that a command begins with: what stands in its output."""

PRINTS_THERE = {
    ("supervisor/docs/runbooks/oom.md", "history rate-counts"): "out_of_memory",
    ("supervisor/docs/runbooks/oom.md", "explain rate-counts"): "spark.driver.memory",
    ("supervisor/docs/runbooks/stalled.md", "history rate-counts"): "stalled",
    ("supervisor/docs/runbooks/incident.md", "logs rate-counts --attempt 7"): "hello from attempt 7",
    ("supervisor/docs/runbooks/checkpoint.md", "checkpoint verify rate-counts"): "lacks version 13",
    ("supervisor/docs/operate-monitoring.md", "explain"): "rate-counts",
    ("supervisor/docs/runbooks/incident.md", "explain"): "rate-counts",
    ("supervisor/docs/tutorial.md", "status"): "host-a (epoch 7)",
}
"""What a page says that its command prints."""


def begun(table: dict[str, T], typed: str) -> T | None:
    """The row of the longest words that ``typed`` begins with."""
    fits = [key for key in table if f"{typed} ".startswith(f"{key} ") or not key]
    return table[max(fits, key=len)] if fits else None


def world_of(page: str, typed: str) -> World:
    there = {words: world for (of, words), world in OF_PAGES.items() if of == page}
    if "--from-savepoint" in typed and typed.startswith("submit"):
        return worlds.emptied
    return begun(there, typed) or begun(IN_GENERAL, typed) or worlds.running


@pytest.fixture
def site(terminal: Terminal, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Site]:
    """The reader sits in the directory of the examples, at a terminal, and looks once before Ctrl-C."""
    host = Host(tmp_path / "run" / "attempts")
    site = Site(terminal, host, "rate-counts")
    site.lay_out()
    monkeypatch.chdir(terminal.home)
    monkeypatch.setattr(waiting, "sleep", lambda _s: obey(site))
    monkeypatch.setattr(sys, "stdin", Answers("yes\n"))
    monkeypatch.setattr(watch, "_pause", interrupted)
    clock = SimpleNamespace(monotonic=time.monotonic, sleep=interrupted)
    monkeypatch.setattr("supervisor.cli.logs.time", clock)
    yield site
    for shim in host.shims:
        shim.kill()
        shim.communicate()


class Answers(io.StringIO):
    def isatty(self) -> bool:
        return True


def interrupted(*_: object) -> None:
    raise KeyboardInterrupt


@pytest.fixture
def tools(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The doctor finds the host well, and Spark opens every state; returns the subjects of the doctor."""
    subjects: list[Any] = []

    def examine(subject: Any, _areas: object) -> Any:
        subjects.append(subject)
        return FINE

    def opened(
        states: list[StateOf], *_given: object, code: object, rules: object
    ) -> tuple[OpenedStore, ...]:
        return (OpenedStore(states[0].location, 0, "stateStoreSave", "default", 2, 7, None),)

    monkeypatch.setattr(doctor_command, "examine", examine)
    monkeypatch.setattr(deep_verify, "open_state", opened)
    return subjects


def by_world() -> dict[tuple[World, tuple[str, ...]], list[str]]:
    """Pages that have a command in the same state, once."""
    found: dict[tuple[World, tuple[str, ...]], list[str]] = {}
    for page, words in RUN:
        found.setdefault((world_of(page, " ".join(words)), words), []).append(page)
    return found


CASES = [(pages, world, words) for (world, words), pages in by_world().items()]


@pytest.mark.parametrize(
    ("pages", "world", "words"),
    CASES,
    ids=[f"{world.__name__}: {' '.join(words)}" for _, world, words in CASES],
)
def test_a_command_of_a_page_does_what_the_page_says(
    site: Site, tools: list[Any], pages: list[str], world: World, words: tuple[str, ...]
) -> None:
    site.name = "clicks" if any("clicks" in word for word in words) else "rate-counts"
    world(site)
    files = [name for word in words for name in (sorted(glob(word)) if "*" in word else [word])]
    typed = " ".join(words)
    empty = f"file://{site.terminal.home}/empty"
    ran = site.terminal.run(*(empty if word == "LOCATION" else word for word in files))
    assert ran.code == max(FAILS.get((page, typed), 0) for page in pages), ran.err
    assert ran.out.strip() and "Traceback" not in ran.err
    usual = begun(PRINTS, typed)
    assert usual is not None, f"add a row to PRINTS: what {typed!r} prints"
    for said in (usual, *(PRINTS_THERE.get((page, typed), "") for page in pages)):
        assert said in ran.out, ran.out
    if words[0] == "doctor" and any(word.endswith(".yaml") for word in words):
        assert tools[0].spec is not None


@pytest.mark.parametrize(("typed", "row"), ELSEWHERE.items(), ids=list(ELSEWHERE))
def test_what_is_not_carried_out_here_is_in_a_page_and_in_the_test_that_is_named(
    typed: str, row: Elsewhere
) -> None:
    assert typed in {" ".join(words) for _, words in COMMANDS}
    assert problem_of(f'"{typed}"', row) == ""


def test_every_row_of_the_tables_is_of_a_command_in_a_page() -> None:
    typed = [(page, " ".join(words)) for page, words in RUN]
    unused = [
        key
        for key in OF_PAGES
        if not any(page == key[0] and begun({key[1]: 1}, each) for page, each in typed)
    ]
    unused += [key for key in (*FAILS, *PRINTS_THERE) if key not in typed]
    lonely = [key for key in (*IN_GENERAL, *PRINTS) if not any(begun({key: 1}, each) for _, each in typed)]
    assert (unused, lonely) == ([], [])


def test_every_command_of_the_program_is_in_a_page() -> None:
    typed = [" ".join(words) for _, words in COMMANDS]
    missing = [words for words in words_of_help() if not any(begun({words: True}, each) for each in typed)]
    assert missing == [], "name them in the page that a user reads when he needs them"
