"""The working directory of a job goes when the job is gone, and not before; all doubt keeps it."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from pathlib import Path

import pytest

from supervisor.daemon.host.hosted_attempts import HostedAttempts
from supervisor.daemon.host.job_directories import EVERY_S, GONE_FOR_S, JobDirectories
from supervisor.model.host_directories import CWD, LEFTOVERS
from supervisor.model.records import Cleanliness, Outcome, OwnState, Result
from supervisor.model.seen import Found
from supervisor.records.reading import seen
from supervisor.spark.attempt_place import ABOUT, JobAbout
from tests.fakes.registry_bench import Bench

REGISTRY = "f00"


class Host:
    """A host with the directory of one job, in which rows lie. ``sweep`` lets so many seconds pass before it."""

    def __init__(self, directory: Path) -> None:
        self.bench = Bench()
        self.uid = self.bench.submit("a").uid
        self.doubt: str | None = None
        self.hosted = HostedAttempts(directory / "run", directory / "log")
        self.now_s = 1000.0
        self.about(JobAbout("a", self.uid, REGISTRY, delete=False))
        self.directories = JobDirectories(
            self.hosted.state.jobs,
            self.hosted.job_leftovers,
            REGISTRY,
            self.bench.layout,
            self.bench.zoo.client,
            lambda _client: self.doubt,
            self.hosted.uids,
        )

    def about(self, about: JobAbout) -> None:
        self.directory = self.hosted.state.of_job(self.uid)
        (self.directory / CWD).mkdir(parents=True, exist_ok=True)
        (self.directory / CWD / "rows").write_text("57")
        (self.directory / ABOUT).write_text(json.dumps(about._asdict()))

    def sweep(self, after_s: float = EVERY_S) -> bool:
        """Whether the directory is still there."""
        self.now_s += after_s
        self.directories.sweep(self.now_s)
        self.hosted.remove_leftovers()
        return self.directory.exists()

    def end(self, outcome: Outcome, state: Cleanliness = Cleanliness.CLEAN) -> None:
        """The job becomes a result."""
        self.bench.commands().cancel("a")
        self.bench.set_own("a", OwnState.EXITED)
        path = self.bench.layout.result(self.uid)
        found = seen(Result, self.bench.zoo.client().read(path), path)
        assert isinstance(found, Found)
        self.bench.put(path, replace(found.record, outcome=outcome, state=state))

    def forget(self) -> None:
        self.bench.zoo.remove(self.bench.layout.result(self.uid))


@pytest.fixture
def host(tmp_path: Path) -> Host:
    return Host(tmp_path)


def test_it_stays_while_the_job_is_there(host: Host) -> None:
    assert all(host.sweep(GONE_FOR_S) for _ in range(3))


def test_it_stays_with_the_result_and_goes_after_it(host: Host) -> None:
    host.end(Outcome.CANCELLED)
    assert all(host.sweep(GONE_FOR_S) for _ in range(3)), "checkpoint_on_cancel: keep"
    host.forget()
    assert host.sweep(), "it is asked for once more"
    assert not host.sweep(GONE_FOR_S)
    assert os.listdir(host.hosted.state.jobs / LEFTOVERS) == []


def test_a_job_that_is_back_is_not_gone(host: Host) -> None:
    host.end(Outcome.FAILED)
    host.forget()
    assert host.sweep()
    host.bench.put(host.bench.layout.result(host.uid), host.bench.submit("b"))
    assert host.sweep(GONE_FOR_S)
    host.forget()
    assert host.sweep(GONE_FOR_S), "the time begins anew"


def test_with_delete_it_goes_as_the_checkpoint_does(host: Host) -> None:
    host.about(JobAbout("a", host.uid, REGISTRY, delete=True))
    assert host.sweep()
    host.end(Outcome.CANCELLED, Cleanliness.DIRTY)
    assert host.sweep(), "a driver of it may live"
    path = host.bench.layout.result(host.uid)
    found = seen(Result, host.bench.zoo.client().read(path), path)
    assert isinstance(found, Found)
    host.bench.put(path, replace(found.record, state=Cleanliness.CLEAN))
    assert not host.sweep()


def test_a_job_that_failed_keeps_it_for_a_resume(host: Host) -> None:
    host.about(JobAbout("a", host.uid, REGISTRY, delete=True))
    host.end(Outcome.FAILED)
    assert host.sweep() and host.sweep(GONE_FOR_S)


def test_all_doubt_keeps_it(host: Host) -> None:
    host.end(Outcome.CANCELLED)
    host.forget()
    host.doubt = "the registry was restored"
    assert host.sweep() and host.sweep(GONE_FOR_S)
    host.doubt = None
    (host.hosted.attempts_dir / f"{host.uid}.3").mkdir(parents=True)
    assert host.sweep() and host.sweep(GONE_FOR_S), "an attempt of it is here"
    (host.hosted.attempts_dir / f"{host.uid}.3").rmdir()
    for about in ('{"name": "a"}', "", json.dumps(JobAbout("a", host.uid, "other", False)._asdict())):
        (host.directory / ABOUT).write_text(about)
        assert host.sweep() and host.sweep(GONE_FOR_S), "it is another registry's, or nobody knows whose"


def test_what_cant_be_read_keeps_it(host: Host) -> None:
    host.end(Outcome.CANCELLED)
    host.bench.zoo.put(host.bench.layout.result(host.uid), b"rubbish")
    assert host.sweep() and host.sweep(GONE_FOR_S)


def test_a_reference_that_cant_be_read_keeps_it(host: Host) -> None:
    """It may be that of this very job."""
    host.bench.zoo.put(host.bench.layout.job("a"), b"rubbish")
    assert all(host.sweep(GONE_FOR_S) for _ in range(3))


def test_an_attempt_that_begins_while_the_registry_is_asked_keeps_it(host: Host) -> None:
    host.end(Outcome.CANCELLED)
    host.forget()
    assert host.sweep()

    def begins(_: object) -> None:
        (host.hosted.attempts_dir / f"{host.uid}.3").mkdir(parents=True, exist_ok=True)

    host.directories._doubt = begins  # is asked after the directories were listed
    assert host.sweep(GONE_FOR_S)


def test_after_an_attempt_the_time_begins_anew(host: Host) -> None:
    """While it was here nobody asked for the job."""
    host.end(Outcome.CANCELLED)
    host.forget()
    attempt = host.hosted.attempts_dir / f"{host.uid}.3"
    attempt.mkdir(parents=True)
    assert host.sweep() and host.sweep(GONE_FOR_S)
    attempt.rmdir()
    assert host.sweep(), "it is asked for once more"
    assert not host.sweep(GONE_FOR_S)


def test_another_submission_of_the_name_is_another_job(host: Host) -> None:
    host.end(Outcome.CANCELLED)
    host.forget()
    host.bench.zoo.remove(host.bench.layout.own("a"))
    assert host.bench.submit("a").uid != host.uid
    assert host.sweep() and not host.sweep(GONE_FOR_S)


def test_the_registry_is_asked_now_and_then(host: Host) -> None:
    host.about(JobAbout("a", host.uid, REGISTRY, delete=True))
    assert host.sweep()
    host.end(Outcome.CANCELLED)
    assert host.sweep(EVERY_S - 1)
    assert not host.sweep(1)
