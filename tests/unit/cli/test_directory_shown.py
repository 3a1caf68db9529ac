"""What a job has in its working directory is on one host alone: ``list``, ``show``, ``explain`` and ``move`` say so."""

from __future__ import annotations

import pytest

from supervisor.model.checkpoint_expectation import CheckpointExpectation
from supervisor.model.records import QueryProgress
from supervisor.model.usage import AttemptUsage, DirectoryUse
from tests.unit.cli.conftest import Terminal

PATH = "/var/lib/spark-supervisor/jobs/u1/cwd"
THERE = AttemptUsage(
    directory=DirectoryUse(path=PATH, bytes=1_258_291, files=57, names=("out", "spark-warehouse"))
)
SAID = "57 files, 1.2 MiB: out, spark-warehouse"


@pytest.fixture
def running(terminal: Terminal) -> Terminal:
    """A job that has written there; two hosts are up."""
    terminal.submit("a")
    for supervisor in ("host-a", "host-b"):
        terminal.bench.join(supervisor)
    query = QueryProgress(query="rows", id="1", elsewhere=f"file:{PATH}/checkpoint/rows")
    terminal.bench.run("a", usage=THERE, queries=(query,))
    return terminal


def test_list_and_explain_warn(running: Terminal) -> None:
    warning = f"has what it wrote to its working directory ({SAID})"
    (row,) = running.run("list", "-o", "json").json
    assert warning in row["reason"]
    assert (
        f"rows keeps its checkpoint elsewhere, in file:{PATH}/checkpoint/rows: on this host alone"
        in row["reason"]
    )
    assert "working directory" in running.run("list").out
    assert warning in " ".join(running.run("explain", "a").out.split())


def test_what_only_one_host_has_needs_a_look(running: Terminal) -> None:
    one = " ".join(running.run("explain", "a").out.split())
    assert "as wanted" not in one
    assert "next it runs on; a start on another host begins without what lies in its working directory" in one
    assert "apply SPEC.yaml # with sinks, warehouse and checkpoints in places that every host reaches" in one
    everything = running.run("explain").out
    assert "0 as wanted, 1 to look at" in everything
    assert running.run("explain", "a", "-o", "json").json["fine"] is False


def test_a_job_whose_next_start_is_refused_needs_a_look(terminal: Terminal) -> None:
    terminal.submit("a")
    terminal.bench.join("host-a")
    terminal.bench.run("a", remembered=CheckpointExpectation(place="/x", unnamed=("1",)))
    one = " ".join(terminal.run("explain", "a").out.split())
    assert "next it runs on; whatever ends this attempt, its next start is refused" in one
    assert "apply SPEC.yaml # with an application that gives each query a queryName" in one
    assert "0 as wanted, 1 to look at" in terminal.run("explain").out


def test_show_and_the_document_have_it(running: Terminal) -> None:
    shown = " ".join(running.run("show", "a").out.split())
    assert f"directory: {SAID}; in {PATH}, on its host alone" in shown
    document = running.run("show", "a", "-o", "json").json["usage"]["directory"]
    assert (document["path"], document["bytes"], document["files"]) == (PATH, 1_258_291, 57)


def test_a_move_says_what_stays_behind(running: Terminal) -> None:
    moved = running.run("move", "a", "--to", "host-b")
    assert moved.code == 0 and f"stays on host-a.example, in {PATH} ({SAID})" in moved.err
    assert "stays on" not in running.run("move", "a", "--to", "host-a").err


def test_of_a_job_that_has_written_nothing_nothing_is_said(terminal: Terminal) -> None:
    terminal.submit("a")
    terminal.bench.run("a", usage=AttemptUsage(directory=DirectoryUse(path=PATH, bytes=0, files=0)))
    assert "directory" not in terminal.run("list", "-o", "json").json[0]["reason"]
    assert "directory:" not in terminal.run("show", "a").out


def test_submit_warns_of_a_relative_place(terminal: Terminal) -> None:
    spec = terminal.spec("a", "args: [--checkpoint, data/checkpoint]")
    ran = terminal.run("submit", spec)
    assert ran.code == 0 and "args: 'data/checkpoint' is relative" in ran.err
