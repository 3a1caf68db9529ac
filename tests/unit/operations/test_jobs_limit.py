"""The limit of jobs holds for submits that come at the same time, too: the multi rests on what was counted."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from supervisor.errors import Conflict
from supervisor.model.transaction import Committed, Transaction
from supervisor.operations import jobs as module
from supervisor.operations.jobs import JobOperations
from tests.fakes.registry_bench import Bench, submission


@pytest.fixture
def bench(monkeypatch: pytest.MonkeyPatch) -> Bench:
    monkeypatch.setattr(module, "JOBS_MAX", 1)
    return Bench()


def before_its_commit(
    bench: Bench, commands: JobOperations, act: Callable[[], object], monkeypatch: pytest.MonkeyPatch
) -> None:
    """``act`` happens once, when ``commands`` has read and built, and is about to commit."""
    commands._sessions.zoo()
    client = bench.clients[-1]
    commit, acts = client.commit, [act]

    def later(tx: Transaction) -> Committed:
        if acts:
            acts.pop()()
        return commit(tx)

    monkeypatch.setattr(client, "commit", later)


@pytest.mark.parametrize("mine", [None, "s3://bkt/b"], ids=["no checkpoint", "a checkpoint"])
@pytest.mark.parametrize("theirs", [None, "s3://bkt/a"], ids=["beside none", "beside one"])
def test_two_submits_at_once_for_the_last_place(
    bench: Bench,
    monkeypatch: pytest.MonkeyPatch,
    mine: str | None,
    theirs: str | None,
) -> None:
    commands = bench.commands()
    before_its_commit(bench, commands, lambda: bench.submit("a", checkpoint=theirs), monkeypatch)
    with pytest.raises(Conflict, match="1 jobs are registered already"):
        commands.submit(submission("b", checkpoint=mine))
    assert bench.has(bench.layout.job("a")) and not bench.has(bench.layout.job("b"))


def test_a_failed_job_is_registered_again_only_where_there_is_room(bench: Bench) -> None:
    bench.submit("a")
    bench.fail("a")
    bench.submit("b")
    with pytest.raises(Conflict, match="1 jobs are registered already"):
        bench.commands().restart("a")
    bench.commands().cancel("b")
    bench.commands().restart("a")
    assert bench.has(bench.layout.job("a"))


def test_one_session_submits_many_without_a_checkpoint(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """The version that it moved itself is known to it: no submit is built twice."""
    monkeypatch.setattr(module, "JOBS_MAX", 100)
    commands = bench.commands()
    bench.zoo.log.clear()
    for number in range(20):
        commands.submit(submission(f"j{number}"))
    assert len(bench.zoo.log) == 20
