"""Commands of the pages are carried out, each on an ensemble in memory, where the job of the pages runs."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest

from tests.unit.checkpoint.golden import unpack
from tests.unit.cli.conftest import Terminal
from tests.unit.test_docs import COMMANDS

NAME = "rate-counts"

NOT_HERE = {
    "dev": "starts ZooKeeper and two supervisors: tests/e2e/test_demo.py",
    "demo": "starts ZooKeeper and two supervisors: tests/e2e/test_demo.py",
    "doctor": "asks the host for Java, Spark and its servers: tests/integration/test_doctor.py",
    "list --watch": "runs until it is interrupted",
    "logs": "reads what a driver wrote: tests/unit/cli/test_logs.py",
    "accept-registry": "asks for a yes, and needs a registry that is distrusted: tests/unit/cli/test_accept_registry.py",
    "resume": "needs a savepoint and a job that is suspended: tests/unit/cli/test_with_savepoint.py",
    "stop-drivers": "signals the shims of a host: tests/integration/test_drain_host.py",
    "submit": "names files of the reader: tests/unit/cli/test_submit.py",
    "suspend rate-counts --savepoint": "needs a driver that stops: tests/unit/cli/test_with_savepoint.py",
    "switchover": "needs a leader: tests/unit/cli/test_operate.py",
}
"""By the words that a command begins with: why it is not carried out here, and which test does it."""


def _is_elsewhere(typed: str) -> bool:
    """``--wait`` needs a fleet that carries the command out: tests/unit/cli/test_waiting.py."""
    words = " ".join(shlex.split(typed)[1:])
    if "clicks" in words:  # the tutorial: tests/e2e/test_tutorial.py
        return True
    return words.endswith("--wait") or any(words == each or words.startswith(f"{each} ") for each in NOT_HERE)


RUN = sorted({" ".join(typed.split()) for typed in COMMANDS if not _is_elsewhere(typed)})


@pytest.mark.parametrize("typed", RUN)
def test_a_command_of_a_page_does_what_it_says(terminal: Terminal, tmp_path: Path, typed: str) -> None:
    checkpoint = unpack("hdfs-v1", tmp_path)
    assert terminal.run("submit", terminal.spec(NAME, f"checkpoint: {checkpoint}")).code == 0
    assert terminal.run("savepoint", "create", NAME, "one").code == 0
    terminal.bench.run(NAME)
    ran = terminal.run(*shlex.split(typed)[1:])
    assert (ran.code, ran.err) == (0, "")
    assert ran.out.strip()


def test_what_is_not_carried_out_here_is_in_the_pages() -> None:
    words = [" ".join(shlex.split(typed)[1:]) for typed in COMMANDS]
    assert [each for each in NOT_HERE if not any(typed.startswith(each) for typed in words)] == []


@pytest.mark.parametrize("reason", [reason for reason in NOT_HERE.values() if ": " in reason])
def test_the_test_that_is_named_instead_is_there(reason: str) -> None:
    assert (Path(__file__).resolve().parents[3] / reason.rpartition(": ")[2]).is_file()
