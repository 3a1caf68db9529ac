"""Attends the gate of queries in a prepared driver's JVM (``gate/QueryGate.java``, protocol §9.1).

``barrier`` loads it, under whatever Python the job has (3.9 and later); it uses the standard library only. The JVM holds
each query that anybody starts there. Here it is proved that this JVM does, and one thread, unknown to ``threading``, waits
for the first query that comes to the gate: so that a query which the application starts past Python is told of, too.
"""

from __future__ import annotations

import _thread
from collections.abc import Callable
from typing import Any

ARRIVAL_MS = 2000
"""So long waits each call of the thread, in the JVM."""


class QueryGate:
    """Is the gate in the JVM of ``gateway``."""

    def __init__(self, gateway: Any) -> None:
        self._gateway = gateway

    @property
    def _gate(self) -> Any:
        return self._gateway.jvm.supervisor.spark.gate.QueryGate

    def let_own_pass(self) -> None:
        """Lets the queries of the warm-up pass. Without the agent, nothing happens."""
        try:
            self._gate.attend(True)
        except Exception:  # noqa: BLE001 - there is no such class: ``why_not_held`` says it
            pass

    def why_not_held(self) -> str:
        """Closes the gate, and returns why this JVM does not hold every query; empty if it does. The warm-up's query must
        have passed."""
        try:
            self._gate.attend(False)
            return str(self._gate.why())
        except Exception as error:  # noqa: BLE001 - whatever it is, nothing is held then
            return f"the JVM has no gate for them ({type(error).__name__})"

    def tell_arrival(self, arrived: Callable[[], None]) -> None:
        """Calls ``arrived`` once, in a thread of its own, when a query waits in the JVM. It never returns where the gate is
        opened before."""

        def watch() -> None:
            while not self._gate.awaitArrival(ARRIVAL_MS):
                if self._gate.isOpen():
                    return
            arrived()

        _thread.start_new_thread(watch, ())

    def open(self) -> None:
        self._gate.open()
