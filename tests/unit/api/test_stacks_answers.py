"""``/jobs/NAME/stacks``: the thread dump of a driver of this supervisor, and which host has that of another."""

from __future__ import annotations

import os
import signal
import threading
from typing import Any

import pytest

from supervisor.api import stacks_answers
from supervisor.clients.diagnostics.child import DiagnosticsProcess
from supervisor.model.records import OwnState
from supervisor.operations import stacks
from tests.fakes.running_driver import running_driver_of
from tests.unit.api.conftest import Fleet
from tests.unit.api.test_log_answers import elsewhere


@pytest.fixture(autouse=True)
def fresh(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("supervisor.api.shared_reads.FRESH_S", 0.0)


@pytest.fixture
def uid(empty: Fleet) -> str:
    uid = empty.terminal.submit("a")
    empty.terminal.bench.run("a")
    return uid


def test_a_dump_is_text_with_the_attempt_it_is_of(empty: Fleet, uid: str) -> None:
    with running_driver_of(empty.terminal.home / "run", "a", uid):
        answer = empty.ask("/jobs/a/stacks")
        assert (answer.code, answer.kind) == (200, "text/plain; charset=utf-8")
        assert (answer.headers["Log-Uid"], answer.headers["Log-Attempt"]) == (uid, "1")
        assert b"at waits_for_its_sink" in answer.body
        assert b"waits_for_its_sink" not in empty.ask("/jobs/a/stacks?of=jvm").body


def test_a_driver_that_stops_who_asks_holds_up_no_request(
    empty: Fleet, uid: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A driver may send signals to it, which has become its user; an alarm does not end what is stopped."""

    class Stopped(DiagnosticsProcess):
        def __init__(self, *given: Any) -> None:
            super().__init__(*given)
            os.kill(self.pid, signal.SIGSTOP)

    monkeypatch.setattr(stacks, "DiagnosticsProcess", Stopped)
    monkeypatch.setattr(stacks, "ANSWER_S", 0.1)
    monkeypatch.setattr(stacks, "LATE_S", 0.1)
    with running_driver_of(empty.terminal.home / "run", "a", uid):
        for _ in range(stacks_answers.AT_ONCE_MAX + 1):
            assert "without a word" in empty.error("/jobs/a/stacks")[1]["error"]


def test_another_host_is_named_with_the_address_of_its_api(empty: Fleet, uid: str) -> None:
    elsewhere(empty, api="https://host-b:1; touch /tmp/x")
    code, error = empty.error("/jobs/a/stacks")
    assert (code, error["host"]) == (421, "host-b.example")
    assert "spark-supervisor stacks a --server 'https://host-b:1; touch /tmp/x'" in error["error"]


def test_a_job_without_a_driver_is_404(empty: Fleet, uid: str) -> None:
    empty.terminal.bench.set_own("a", OwnState.EXITED)
    assert empty.error("/jobs/a/stacks")[0] == 404
    assert empty.error("/jobs/b/stacks")[0] == 404
    assert empty.error("/jobs/a/stacks?of=perl")[0] == 400


def test_only_some_are_taken_at_once(empty: Fleet, uid: str, monkeypatch: pytest.MonkeyPatch) -> None:
    begun, go_on = threading.Semaphore(0), threading.Event()

    def slow(*_: object) -> list[bytes]:
        begun.release()
        go_on.wait(60)
        return [b"threads"]

    monkeypatch.setattr(stacks_answers, "thread_dumps", slow)
    asking = [
        threading.Thread(target=empty.ask, args=("/jobs/a/stacks",))
        for _ in range(stacks_answers.AT_ONCE_MAX)
    ]
    for thread in asking:
        thread.start()
        assert begun.acquire(timeout=60)
    assert empty.ask("/jobs/a/stacks").code == 503
    go_on.set()
    for thread in asking:
        thread.join(60)
    assert empty.ask("/jobs/a/stacks").body == b"threads"
