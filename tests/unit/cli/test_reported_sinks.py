"""To which sinks a job writes ``list``, ``show`` and ``explain`` say as its driver reports it, and that a failed update could
not go back to its savepoint there, before one fails. ``submit``, ``apply`` and ``doctor`` say it as far as it is known then."""

from __future__ import annotations

import pytest

from supervisor.model.checkpoint_expectation import CheckpointExpectation
from supervisor.model.records import Phase, Progress, QueryProgress
from tests.unit.cli.conftest import Terminal

FILE, DELTA, FUNCTION = "file file:/out", "delta s3a://b/t", "foreachBatch"
BACK = "update: {rollback: savepoint}"
ASKS = "nobody says whether its foreachBatch sink skips a batch whose number it has seen; say savepoints.sink in the spec"
STUCK = "can't go back once its file sink file:/out has a batch of the new revision"
QUERY = "7c1f"


def running(terminal: Terminal, text: str, *sinks: str, **changes: object) -> str:
    """``a`` runs, and was seen to write to each of ``sinks``. Returns what was warned of when it was submitted."""
    spec = terminal.spec("a", text)
    ran = terminal.run("submit", spec)
    assert ran.code == 0, ran.err
    terminal.bench.join("host-a")
    report(terminal, *sinks, **changes)
    return " ".join(ran.err.split())


def report(terminal: Terminal, *sinks: str, **changes: object) -> None:
    known = CheckpointExpectation(place="p", sinks=tuple(f"{QUERY} 5 {sink}" for sink in sinks))
    progress = Progress(at="2026-11-21T00:46:50.000Z", batch_id=5)
    terminal.bench.run("a", **{"remembered": known, "progress": progress, **changes})


def words(terminal: Terminal, *command: str) -> str:
    return " ".join(terminal.run(*command).out.split())


@pytest.mark.parametrize(
    ("sink", "where", "memory", "says"),
    [
        (FILE, "file:/out", "remembers", "file sink file:/out: knows a batch by its number"),
        (DELTA, "s3a://b/t", "transactional", "Delta table s3a://b/t: knows a batch by its query and number"),
        ("kafka", None, "repeats", "kafka sink: takes a batch twice if it comes twice"),
        (
            FUNCTION,
            None,
            "unknown",
            "foreachBatch sink: unknown whether it skips a batch whose number it has seen",
        ),
    ],
)
def test_the_sink_is_named(terminal: Terminal, sink: str, where: str | None, memory: str, says: str) -> None:
    running(terminal, "", sink)
    (row,) = terminal.run("list", "-o", "json").json
    shown = terminal.run("show", "a", "-o", "json").json
    for (found,) in (row["sinks"], shown["sinks"]):
        assert (found["query"], found["where"], found["memory"]) == (QUERY, where, memory)
    assert f"sinks: {says}" in words(terminal, "show", "a")
    assert f"sinks {says}" in words(terminal, "explain", "a")
    assert "can't go back" not in row["reason"] and "savepoints.sink" not in row["reason"]


def test_what_the_spec_says_of_it_is_no_question_any_more(terminal: Terminal) -> None:
    running(terminal, f"{BACK}\nsavepoints: {{sink: transactional}}", FUNCTION)
    (row,) = terminal.run("list", "-o", "json").json
    assert row["sinks"][0]["memory"] == "transactional" and "skips" not in row["reason"]


@pytest.mark.parametrize(
    ("sink", "warning"), [(FILE, STUCK), (FUNCTION, ASKS), (DELTA, None), ("kafka", None)]
)
def test_it_warns_before_an_update_fails(terminal: Terminal, sink: str, warning: str | None) -> None:
    assert running(terminal, BACK, sink).count("savepoint") == 0, "nobody knows it yet"
    (row,) = terminal.run("list", "-o", "json").json
    explained = words(terminal, "explain", "a")
    if warning is None:
        assert "update.rollback" not in row["reason"] + explained
        return
    assert warning in row["reason"] and warning in row["trouble"] and warning in explained
    assert "update.rollback: savepoint" in terminal.run("list").out
    spec = terminal.spec("a", f"{BACK}\nargs: [more]")
    applied = terminal.run("apply", spec)
    assert applied.code == 0 and warning in " ".join(applied.err.split())


def test_a_job_whose_driver_names_no_sink(terminal: Terminal) -> None:
    running(terminal, BACK)
    (row,) = terminal.run("list", "-o", "json").json
    assert "its sink, which no driver names," in row["reason"] and row["sinks"] == []
    report(terminal, progress=None)
    assert "no driver names" not in terminal.run("list", "-o", "json").json[0]["reason"], (
        "it had no batch yet"
    )


def test_only_the_sink_to_which_a_query_writes_now_counts(terminal: Terminal) -> None:
    other = QueryProgress(query="rows", id="other")
    mine = QueryProgress(query="rows", id=QUERY)
    running(terminal, BACK, FILE, DELTA, queries=(mine,))
    (row,) = terminal.run("list", "-o", "json").json
    assert [each["kind"] for each in row["sinks"]] == ["delta"] and "can't go back" not in row["reason"]
    report(terminal, FILE, queries=(other,))
    assert terminal.run("list", "-o", "json").json[0]["sinks"] == [], "that query is gone"
    report(terminal, FILE, queries=(other,), more_queries=2)
    assert len(terminal.run("list", "-o", "json").json[0]["sinks"]) == 1, "it may be one without room"


def test_what_the_spec_shows_by_itself(terminal: Terminal) -> None:
    spec = terminal.spec("a", f"{BACK}\nsavepoints: {{sink: remembers}}")
    ran = terminal.run("submit", spec)
    assert ran.code == 0 and ran.err.count("can't go back once its sink has a batch") == 1
    applied = terminal.run("apply", terminal.spec("b", BACK))
    assert applied.code == 0 and "savepoint" not in applied.err


def test_while_a_driver_starts_its_sinks_are_not_told(terminal: Terminal) -> None:
    """What is known then is of the driver before, whose end is what matters."""
    running(terminal, "", FUNCTION, phase=Phase.BEGUN, progress=None)
    assert "sinks" not in words(terminal, "explain", "a")
    report(terminal, FUNCTION)
    assert "sinks" in words(terminal, "explain", "a")
