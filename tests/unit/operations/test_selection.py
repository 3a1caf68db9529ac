"""Jobs are found by their labels from the records alone, and all are read at once."""

from __future__ import annotations

from dataclasses import replace

import pytest

from supervisor.model.labels import parsed_selector
from supervisor.operations.selection import jobs_and_failed, registered_jobs
from tests.fakes.registry_bench import Bench, submission


@pytest.fixture
def bench() -> Bench:
    return Bench()


def submit(bench: Bench, name: str, *labels: str) -> None:
    given = submission(name)
    bench.commands().submit(replace(given, scheduling=replace(given.scheduling, labels=labels)))


@pytest.mark.parametrize("jobs", [2, 30])
def test_the_number_of_requests_does_not_grow_with_the_jobs(
    bench: Bench, jobs: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(jobs):
        submit(bench, f"j{number}", "team=web")
    bench.fail("j0")
    zoo = bench.sessions().zoo()
    asked: list[str] = []
    for kind in ("read", "children", "read_many"):
        real = getattr(zoo, kind)
        monkeypatch.setattr(
            zoo, kind, lambda *what, kind=kind, real=real: (asked.append(kind), real(*what))[1]
        )
    found = jobs_and_failed(zoo, bench.layout)
    assert len(found.found) == jobs
    assert sorted(asked) == ["children", "children", "read_many", "read_many", "read_many"]


def test_registered_failed_and_cancelled_jobs(bench: Bench) -> None:
    for name in "abcd":
        submit(bench, name, "team=web" if name != "d" else "team=ops")
    bench.fail("b")
    bench.commands().cancel("c")
    bench.commands().suspend("a")
    zoo, web = bench.sessions().zoo(), parsed_selector(["team=web"])
    registered = registered_jobs(zoo, bench.layout).selected(web).found
    assert [(job.name, job.is_suspended, job.version is None) for job in registered] == [("a", True, False)]
    every = jobs_and_failed(zoo, bench.layout).selected(web).found
    assert [(job.name, job.version is None) for job in every] == [("a", False), ("b", True)]


def test_what_cannot_be_read_disturbs_nobody(bench: Bench) -> None:
    submit(bench, "a", "team=web")
    submit(bench, "b", "team=web")
    bench.zoo.put(bench.layout.job("b"), b"{")
    bench.zoo.put(bench.layout.own("x"), b"{")
    found = jobs_and_failed(bench.sessions().zoo(), bench.layout).selected(parsed_selector(["team"]))
    assert [job.name for job in found.found] == ["a"] and found.unreadable == ("b",)


def test_nothing_is_there(bench: Bench) -> None:
    assert jobs_and_failed(bench.sessions().zoo(), bench.layout).found == ()
