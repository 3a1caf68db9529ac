"""Says how a prepared driver is started with the gate of queries. Pure; called by ``prepare`` and ``daemon.host.handover``.

Only a driver that is prepared up to its first query has it. It is a word among the options of the driver's JVM; a cold
start, with which a prepared driver is compared before an attempt is handed to it, has none.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

from supervisor.spark.fence.build import JavaSources

SOURCES: Final = JavaSources.beside(
    __file__, "query-gate", ("Premain-Class: supervisor.spark.gate.QueryGate",)
)
_MARK: Final = f"/{SOURCES.name}-"


def with_agent(options: str, jar: Path, opening: Path) -> str:
    """Returns the options of a JVM with the gate. Where no bootstrap opens it, the file ``opening`` does. Raises ValueError
    for a path that the options of a JVM cannot hold."""
    word = f"-javaagent:{jar}={opening}"
    if any(char.isspace() or char in "\"'\\" for char in word) or "=" in str(jar):
        raise ValueError(f"a path holds a space, a quote or an equals sign: {word}")
    return " ".join(filter(None, (options, word)))


def without_agent(options: str) -> str:
    """Returns the options without the gate."""
    before, found, rest = options.rpartition("-javaagent:")
    return before.rstrip() if found and _MARK in rest.partition("=")[0] else options
