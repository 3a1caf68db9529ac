"""How a driver gets the gate of queries, and what its barrier makes of it; the gate itself is tested with real Spark."""

from __future__ import annotations

import threading
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from supervisor.spark import barrier as barrier_module
from supervisor.spark import query_gate
from supervisor.spark.barrier import Barrier, barrier_of
from supervisor.spark.gate.agent import with_agent, without_agent

JAR, OPENING = Path("/run/fence/query-gate-4.3.jar"), Path("/run/a/opening")


@pytest.mark.parametrize("options", ["", "-Dx=y", "-javaagent:/opt/other.jar=x -Xmx1g"])
def test_the_options_are_those_of_a_cold_start_without_the_agent(options: str) -> None:
    word = with_agent(options, JAR, OPENING)
    assert word.endswith("/query-gate-4.3.jar=/run/a/opening") and without_agent(word) == options
    assert without_agent(options) == options


@pytest.mark.parametrize(
    ("jar", "opening"),
    [(JAR, Path("/run/a b/opening")), (JAR, Path("/a'b")), (Path("/a=b/query-gate-4.jar"), OPENING)],
)
def test_a_path_that_options_cannot_hold_is_refused(jar: Path, opening: Path) -> None:
    with pytest.raises(ValueError, match="a space"):
        with_agent("", jar, opening)


class Reports:
    words: Any = None

    def __init__(self) -> None:
        self.sent: list[tuple[str, dict[str, Any]]] = []

    def send_last(self, event: str, **more: Any) -> None:
        self.sent.append((event, more))


class Jvm:
    """The class in the JVM, as py4j shows it."""

    def __init__(self, why: str = "") -> None:
        self._why, self.calls = why, list[Any]()
        self.waiting, self.opened = threading.Event(), threading.Event()

    def attend(self, own: bool) -> None:
        self.calls.append(own)

    def why(self) -> str:
        return self._why

    def awaitArrival(self, timeout_ms: int) -> bool:
        return self.waiting.wait(0.01)

    def isOpen(self) -> bool:
        return self.opened.is_set()

    def open(self) -> None:
        self.calls.append("open")
        self.opened.set()

    @property
    def gateway(self) -> Any:
        package = SimpleNamespace(spark=SimpleNamespace(gate=SimpleNamespace(QueryGate=self)))
        return SimpleNamespace(jvm=SimpleNamespace(supervisor=package))


def brought_up(jvm: Jvm | None, monkeypatch: pytest.MonkeyPatch, level: str = "application") -> Any:
    """The barrier of a driver whose JVM is warm. Without ``jvm`` there is no such class in it."""
    gateway = SimpleNamespace(jvm=SimpleNamespace()) if jvm is None else jvm.gateway

    def warm_up(_: Any, begin: Any) -> tuple[Any, str]:
        if begin is not None:
            begin(gateway)
        return gateway, ""

    modules = {"warm_up": SimpleNamespace(warm_up=warm_up), "query_gate": query_gate}
    made = Barrier("/nowhere", level, Reports())
    monkeypatch.setattr(made, "_set_environment", lambda _: None)
    made.bring_up(modules.__getitem__)
    return made


@pytest.mark.parametrize(
    ("jvm", "why"),
    [
        (Jvm("a query did not pass"), "a query did not pass"),
        (None, "the JVM has no gate for them (AttributeError)"),
    ],
)
def test_where_not_every_query_is_held_the_application_does_not_begin(
    monkeypatch: pytest.MonkeyPatch, jvm: Jvm | None, why: str
) -> None:
    made = brought_up(jvm, monkeypatch)
    assert not made.at_first_query
    monkeypatch.setattr(made, "_await_opening", lambda: pytest.fail("it waits"))
    with pytest.raises(pytest.fail.Exception, match="it waits"):
        made.wait()
    ((event, said),) = made._reports.sent
    assert event == "ready" and why in said["why"] and "does not begin before its opening" in said["why"]


def test_the_gate_is_closed_after_the_warm_up_and_a_query_of_the_jvm_is_told(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    jvm, arrived = Jvm(), threading.Event()
    made = brought_up(jvm, monkeypatch)
    assert made.at_first_query and jvm.calls == [True, False]
    made.tell_arrival(arrived.set)
    time.sleep(0.1)
    assert not arrived.is_set()
    jvm.waiting.set()
    assert arrived.wait(30)


def test_the_gate_opens_last(monkeypatch: pytest.MonkeyPatch) -> None:
    jvm = Jvm()
    made = brought_up(jvm, monkeypatch)
    opening = SimpleNamespace(claim="c", before_at_s=time.clock_gettime(time.CLOCK_BOOTTIME) + 60, env={})
    monkeypatch.setattr(made, "_await_opening", lambda: opening)
    monkeypatch.setattr(made, "_apply", lambda *_: jvm.calls.append("applied"))
    made.wait(begin=lambda: jvm.calls.append("begun"))
    assert jvm.calls == [True, False, "applied", "begun", "open"] and made.is_open
    assert [event for event, _ in made._reports.sent] == ["ready", "opened"]


def test_a_driver_that_is_too_late_opens_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    jvm = Jvm()
    made = brought_up(jvm, monkeypatch)
    opening = SimpleNamespace(claim="c", before_at_s=0.0, env={})
    monkeypatch.setattr(made, "_await_opening", lambda: opening)
    monkeypatch.setattr(made, "_apply", lambda *_: None)

    def leave(code: int) -> None:
        raise SystemExit(code)

    monkeypatch.setattr(barrier_module, "leave", leave)
    with pytest.raises(SystemExit):
        made.wait()
    assert not jvm.opened.is_set()


def test_at_the_level_session_no_gate_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    jvm = Jvm()
    made = brought_up(jvm, monkeypatch, "session")
    assert jvm.calls == [] and not made.at_first_query
    made.tell_arrival(lambda: pytest.fail("nobody waits there"))


def test_why_the_supervisor_could_not_have_queries_held_is_said() -> None:
    environ = {"SPARK_SUPERVISOR_PREPARED": "/x", "SPARK_SUPERVISOR_NOT_HELD": "no compiler"}
    made: Any = barrier_of(environ, Reports())
    assert environ == {} and "no compiler" in made._lacks[0] and not made.at_first_query
