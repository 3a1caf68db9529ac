"""The gate of queries itself, in a JVM without Spark's session: who waits there, who passes, and what opens it.

``tests/e2e/test_query_gate.py`` has the ways by which a query comes to it.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from py4j.java_gateway import GatewayParameters, JavaGateway, launch_gateway
from py4j.protocol import Py4JJavaError

from supervisor.clients import run_dir
from supervisor.clients.run_dir import Opening
from supervisor.clock import boottime_s
from supervisor.spark.fence.build import host_jar
from supervisor.spark.gate.agent import SOURCES
from supervisor.spark.toolchain import installed_spark_home, java_of, spark_version
from tests.waiting import wait_until

pytestmark = pytest.mark.spark

START = "startQuery"
A_WHILE_S = 0.5
"""Is long beside the pauses in which the gate looks for the file."""


@pytest.fixture(scope="module")
def jvm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    home = installed_spark_home()
    assert home is not None
    directory, java = tmp_path_factory.mktemp("gate"), java_of(None, os.environ)
    built = host_jar(home, java, spark_version(home) or "", directory, os.environ, of=SOURCES)
    assert built.jar is not None, built.why
    (py4j,) = home.glob("jars/py4j-*.jar")
    port = launch_gateway(
        classpath=f"{home}/jars/*:{built.jar}", jarpath=str(py4j), java_path=str(java), die_on_exit=True
    )
    gateway = JavaGateway(gateway_parameters=GatewayParameters(port=port))
    yield gateway.jvm
    gateway.shutdown()


class FreshGate:
    """The gate as a JVM has it that has just begun. ``home`` has the opening's file."""

    def __init__(self, jvm: Any, home: Path) -> None:
        self.jvm, self.home = jvm, home
        self.java = jvm.supervisor.spark.gate.QueryGate
        for name in ("attended", "letting", "isOpen"):
            self._field(name).setBoolean(None, False)
        self._field("waiting").setInt(None, 0)
        self._field("opening").set(None, str(home / run_dir.OPENING))
        for name in ("asking", "passed"):
            self._field(name).get(None).clear()
        self.outcomes: list[str] = []

    def _field(self, name: str) -> Any:
        found = self.jvm.java.lang.Class.forName("supervisor.spark.gate.QueryGate").getDeclaredField(name)
        found.setAccessible(True)
        return found

    def begin(self, method: str = START) -> None:
        """A query comes to the gate, in a thread of its own."""

        def come() -> None:
            try:
                getattr(self.java, "pass")(method)
                self.outcomes.append("passed")
            except Py4JJavaError as error:
                self.outcomes.append(error.java_exception.getMessage())

        threading.Thread(target=come, daemon=True).start()

    def thread_at_the_gate(self) -> Any:
        traces = self.jvm.java.lang.Thread.getAllStackTraces()
        for thread in traces.keySet():
            frames = [f"{each.getClassName()}.{each.getMethodName()}" for each in traces[thread]]
            if "supervisor.spark.gate.QueryGate.pass" in frames:
                return thread
        return None

    def waits(self) -> bool:
        """Whether the query that came is still there after a while."""
        wait_until(lambda: self.thread_at_the_gate() is not None or bool(self.outcomes), 60, "it is there")
        time.sleep(A_WHILE_S)
        return not self.outcomes and not self.java.isOpen()

    def passed(self) -> bool:
        wait_until(lambda: bool(self.outcomes), 60, "it passes")
        return self.outcomes == ["passed"]

    def write_opening(self, before_at_s: float) -> None:
        (self.home / run_dir.OPENING).unlink(missing_ok=True)
        assert run_dir.write_opening(str(self.home), Opening("c", before_at_s, {}, {}))


@pytest.fixture
def gate(jvm: Any, tmp_path: Path) -> Iterator[FreshGate]:
    made = FreshGate(jvm, tmp_path)
    yield made
    made.java.open()  # whoever waits still, ends


def test_in_a_jvm_that_no_bootstrap_attends_the_file_opens_and_only_in_time(gate: FreshGate) -> None:
    """A JVM that the application starts with the properties of its driver, where another driver may run by now."""
    gate.begin()
    assert gate.waits()
    gate.write_opening(boottime_s() - 1.0)
    assert gate.waits(), "the file is too old: the claim that it was written for may be over"
    gate.write_opening(boottime_s() + 600.0)
    assert gate.passed() and gate.java.isOpen()


def test_where_a_bootstrap_attends_it_alone_opens(gate: FreshGate) -> None:
    """It has more to do between the file and the first query."""
    gate.java.attend(False)
    gate.write_opening(boottime_s() + 600.0)
    gate.begin()
    assert gate.waits()
    gate.java.open()
    assert gate.passed()


def test_a_query_that_waits_for_the_file_is_held_from_when_a_bootstrap_attends(gate: FreshGate) -> None:
    gate.begin()
    assert gate.waits()
    gate.java.attend(False)
    gate.write_opening(boottime_s() + 600.0)
    assert gate.waits()


def test_only_the_query_of_the_warm_up_passes_before(gate: FreshGate) -> None:
    gate.java.attend(True)
    gate.begin()
    assert gate.passed()
    gate.outcomes.clear()
    gate.java.attend(False)
    gate.begin()
    assert gate.waits()


def test_who_is_interrupted_does_not_start_its_query(gate: FreshGate) -> None:
    """Code that ends its threads with an interrupt must not be let through by it."""
    gate.java.attend(False)
    gate.begin()
    assert gate.waits() and gate.java.awaitArrival(0)
    gate.thread_at_the_gate().interrupt()
    wait_until(lambda: bool(gate.outcomes), 60, "it ends")
    assert gate.outcomes == ["interrupted while it waited for the opening of its driver"]
    assert not gate.java.isOpen() and not gate.java.awaitArrival(1), "and nobody waits any more"


def test_an_arrival_is_told_while_somebody_waits(gate: FreshGate) -> None:
    answers: list[bool] = []

    def ask() -> None:
        """As who would wait for ever."""
        answers.append(gate.java.awaitArrival(0))

    gate.java.attend(False)
    assert not gate.java.awaitArrival(1)
    threading.Thread(target=ask, daemon=True).start()
    gate.begin()
    wait_until(lambda: answers == [True], 60, "it is told")
    gate.java.open()
    assert gate.passed()
    threading.Thread(target=ask, daemon=True).start()
    wait_until(lambda: answers == [True, False], 60, "it is open: nobody will ever wait")


def test_that_every_query_is_held_is_said_of_what_has_passed_and_asks(gate: FreshGate) -> None:
    """A method of Spark that has another name by now would hold none."""
    gate.java.attend(True)
    assert "did not pass" in gate.java.why()
    getattr(gate.java, "pass")("start")
    assert "did not pass" in gate.java.why(), "the writer alone is not the place where each one passes"
    getattr(gate.java, "pass")(START)
    assert gate.java.why() == "StreamingContext.start is not as expected"
    gate._field("asking").get(None).add("org/apache/spark/streaming/StreamingContext.start")
    assert gate.java.why() == ""
