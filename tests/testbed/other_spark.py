"""A Spark that is not the supervisor's own: PySpark 4.1.1 in an environment of its own, with its connector for Kafka.

The connector is released for this version and does not run on a newer Spark. The environment is made once, and kept in
the checkout's cache.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import kafka

from tests.testbed.maven import CACHE, cached, fetched_jars
from tests.testbed.s3a_jars import s3a_jars

VERSION = "4.1.1"
CONNECTOR = f"org.apache.spark:spark-sql-kafka-0-10_2.13:{VERSION}"
INSTALL_MAX_S = 1200
VARIABLE = "SPARK_SUPERVISOR_TEST_SPARK"
"""With this version as its value, the fleets of the e2e tests run on that Spark."""


@dataclass(frozen=True)
class OtherSpark:
    """``home`` and ``s3a_jars`` are for supervisor.yaml. ``python`` has the PySpark of that version, and nothing else."""

    home: Path
    python: Path
    s3a_jars: Path


def other_environment() -> tuple[Path, Path]:
    """The home of that Spark and its Python; fetching them takes minutes the first time."""
    place = CACHE / f"pyspark-{VERSION}"
    with cached(place) as missing:
        if missing:
            subprocess.run([sys.executable, "-m", "venv", place], check=True, timeout=INSTALL_MAX_S)
            subprocess.run(
                [place / "bin" / "pip", "install", "--quiet", f"pyspark=={VERSION}"],
                check=True,
                timeout=INSTALL_MAX_S,
            )
    (home,) = place.glob("lib/python3*/site-packages/pyspark")
    return home, place / "bin" / "python"


def other_spark() -> OtherSpark:
    """The same, with what it needs for S3A."""
    home, python = other_environment()
    return OtherSpark(home, python, s3a_jars(home))


def kafka_connector() -> list[Path]:
    """The jars that let that Spark read and write Kafka, without those that it has itself."""
    directory = fetched_jars(f"kafka-connector-{VERSION}", CONNECTOR, present=other_spark().home / "jars")
    return sorted(directory.glob("*.jar"))


def kafka_python() -> Path:
    """The Kafka client of this environment, for the ``py_files`` of a job."""
    package = Path(kafka.__file__).parent
    place = CACHE / f"kafka-python-{kafka.__version__}"
    with cached(place) as missing:
        if missing:
            shutil.make_archive(str(place / "kafka-python"), "zip", package.parent, package.name)
    return place / "kafka-python.zip"


def chosen_spark() -> OtherSpark | None:
    """What ``VARIABLE`` asks for; None stands for the supervisor's own Spark."""
    wanted = os.environ.get(VARIABLE)
    assert wanted in (None, "", VERSION), f"{VARIABLE} is {wanted}, but only {VERSION} can be had"
    return other_spark() if wanted else None
