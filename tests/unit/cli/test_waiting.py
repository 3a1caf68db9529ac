"""``--wait``: a first batch ends it well, the same failure three times ends it early, and the cause is said once."""

from __future__ import annotations

import pytest

from supervisor.model.records import Cause, HistoryEntry, Ownership, OwnState, Phase, Progress, QueryProgress
from supervisor.operations import submit, waiting
from supervisor.operations.waiting import repeated
from tests.fakes.registry_bench import AT
from tests.unit.cli.conftest import Terminal
from tests.unit.plan.rows import own

SAID = "driver memory 400 MiB, Spark needs 450 MiB"


def after(*ends: tuple[Cause, str], state: OwnState = OwnState.EXITED) -> Ownership:
    """Of a job whose attempts, from 1 on, ended so."""
    history = tuple(
        HistoryEntry(at=AT, event=cause.value, attempt=number, detail=detail)
        for number, (cause, detail) in enumerate(ends, 1)
    )
    return own(state, attempt=len(ends), history=history).record


@pytest.mark.parametrize(
    ("ends", "since", "expected"),
    [
        ([(Cause.USER_ERROR, SAID)] * 2, 1, ""),
        ([(Cause.USER_ERROR, SAID)] * 3, 1, SAID),
        # one of them was before this wait
        ([(Cause.USER_ERROR, SAID)] * 3, 2, ""),
        ([(Cause.USER_ERROR, SAID)] * 4, 2, SAID),
        ([(Cause.USER_ERROR, f"no port {n}") for n in (4040, 4041, 9)], 1, "no port 9"),
        ([(Cause.USER_ERROR, "a"), (Cause.USER_ERROR, "b"), (Cause.USER_ERROR, "a")], 1, ""),
        ([(Cause.USER_ERROR, "a"), (Cause.OUT_OF_MEMORY, "a"), (Cause.USER_ERROR, "a")], 1, ""),
        ([(Cause.STOPPED, "on request")] * 3, 1, ""),  # no failure
    ],
)
def test_the_same_failure(ends: list[tuple[Cause, str]], since: int, expected: str) -> None:
    assert repeated(after(*ends), since) == expected
    assert bool(repeated(after(*ends, state=OwnState.ASSIGNED), since)) == bool(expected), (
        "also while the next is on its way"
    )


def test_the_same_failure_three_times_ends_the_wait_with_1_and_says_the_cause_once(
    terminal: Terminal,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def between_polls(_: float) -> None:
        ends = after(*[(Cause.USER_ERROR, SAID)] * 3)
        nonce = terminal.bench.ref("a").record.restart_nonce
        terminal.bench.set_own(
            "a",
            OwnState.EXITED,
            attempt=3,
            cause=Cause.USER_ERROR,
            reason=SAID,
            history=ends.history,
            restart_nonce=nonce,
        )

    monkeypatch.setattr(waiting, "sleep", between_polls)
    ran = terminal.run("submit", terminal.spec("a"), "--wait", "--timeout", "60s")
    assert ran.code == 1
    error = ran.err.rsplit("error: ", 1)[1]
    assert error.count(SAID) == 1 and "3 attempts failed alike" in error


@pytest.mark.parametrize(
    "seen",
    [
        # it waits for data
        {
            "progress": Progress(
                query="q",
                batch_id=0,
                input_rows_per_s=1.0,
                processed_rows_per_s=1.0,
                batch_ms=1.0,
                at=AT,
                lag=None,
            )
        },
        {"queries": (QueryProgress(query="q", id="1"),)},
    ],
)
def test_a_first_batch_and_a_query_that_waits_for_data_end_it(
    terminal: Terminal, seen: dict[str, object]
) -> None:
    terminal.run("submit", terminal.spec("a"))
    terminal.bench.run("a", since="2999-01-01T00:00:00Z", **seen)  # type: ignore[arg-type]
    assert terminal.run("submit", terminal.spec("a"), "--wait", "--timeout", "2s").code == 0


@pytest.mark.parametrize("phase", [Phase.BEGUN, Phase.SESSION, Phase.QUERY])
def test_what_comes_before_a_first_batch_does_not_end_it(terminal: Terminal, phase: Phase) -> None:
    terminal.run("submit", terminal.spec("a"))
    terminal.bench.run("a", phase)
    ran = terminal.run("submit", terminal.spec("a"), "--wait", "--timeout", "1s")
    assert ran.code == 7 and "starting" in ran.err and "has not used its checkpoint" not in ran.err


@pytest.mark.parametrize("command", [("suspend",), ("cancel", "--yes")])
def test_of_a_job_whose_queries_may_live_elsewhere_it_is_not_said_that_they_are_gone(
    terminal: Terminal, monkeypatch: pytest.MonkeyPatch, command: tuple[str, ...]
) -> None:
    """A version before this one has submitted it."""
    monkeypatch.setattr(submit, "why_unsupported", lambda *_: "")
    for name, asks in (("a", "env: {SPARK_REMOTE: 'sc://host'}"), ("b", "")):
        assert terminal.run("submit", terminal.spec(name, asks)).code == 0
        ran = terminal.run(*command, name, "--wait", "--timeout", "1s")
        assert ran.code == 0, ran.err
        assert ("gone: no driver of it is alive" in ran.err) is (name == "b")
        assert ("whether its queries have ended is not known: env SPARK_REMOTE" in ran.err) is (name == "a")
