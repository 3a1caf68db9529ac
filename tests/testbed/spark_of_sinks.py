"""A Spark in a process of its own that writes to sinks and reads what is in them: ``tests/e2e/applications/returning.py``.

It is the one with the connectors for Delta and Iceberg, which are released for it and not for a newer one.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.testbed import requirements
from tests.testbed.maven import fetched_jars
from tests.testbed.other_spark import other_environment

DELTA = "io.delta:delta-spark_4.1_2.13:4.4.0"
ICEBERG = "org.apache.iceberg:iceberg-spark-runtime-4.1_2.13:1.11.0"
APPLICATION = Path(__file__).resolve().parents[1] / "e2e" / "applications" / "returning.py"
CLOSE_MAX_S = 120


@dataclass
class SparkOfSinks:
    process: subprocess.Popen[str]
    home: Path

    def ask(self, do: str, **order: Any) -> Any:
        assert self.process.stdin is not None and self.process.stdout is not None
        if do != "ready":
            self.process.stdin.write(json.dumps({"do": do, **order}) + "\n")
            self.process.stdin.flush()
        while line := self.process.stdout.readline():
            try:
                return json.loads(line)
            except ValueError:  # a word of Spark's own
                continue
        raise AssertionError(f"Spark ended: see {self.home}/log")


def delta_jars() -> list[Path]:
    return _jars("delta-4.4.0-spark-4.1", DELTA)


def iceberg_jars() -> list[Path]:
    return _jars("iceberg-1.11.0-spark-4.1", ICEBERG)


@contextmanager
def spark_of_sinks(home: Path, jars: list[Path]) -> Iterator[SparkOfSinks]:
    """Started; ended by closing its stdin. Skips the test where there is no Maven."""
    requirements.need("maven")
    _, python = other_environment()
    with (home / "log").open("w") as log:
        process = subprocess.Popen(
            [str(python), str(APPLICATION), str(home), ",".join(map(str, jars))],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
            cwd=home,
        )
    made = SparkOfSinks(process, home)
    try:
        assert made.ask("ready") == "ready"
        yield made
    finally:
        assert process.stdin is not None
        process.stdin.close()
        process.wait(CLOSE_MAX_S)


def _jars(name: str, artifact: str) -> list[Path]:
    home, _ = other_environment()
    return sorted(fetched_jars(name, artifact, present=home / "jars").glob("*.jar"))
