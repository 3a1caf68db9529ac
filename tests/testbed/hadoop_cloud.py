"""Spark's own module with the checkpoint manager that its documentation recommends for S3: fetched once, for comparison."""

from __future__ import annotations

import subprocess
from pathlib import Path

from supervisor.spark.toolchain import installed_spark_home, spark_version
from tests.testbed import requirements

CACHE = Path(__file__).parent.parent.parent / ".ci" / "cache" / "hadoop-cloud"
RECOMMENDED = "org.apache.spark.internal.io.cloud.AbortableStreamBasedCheckpointFileManager"
NEWEST_KNOWN = "4.1.1"
FETCH_MAX_S = 300


def hadoop_cloud_jar() -> Path:
    """Of the Spark at hand, else the newest that is known to be in Maven Central; it is small and stands alone."""
    known = sorted(CACHE.glob("spark-hadoop-cloud_*.jar"))
    if known:
        return known[-1]
    requirements.need("maven")
    home = installed_spark_home()
    for version in (spark_version(home) if home is not None else None, NEWEST_KNOWN):
        artifact = f"org.apache.spark:spark-hadoop-cloud_2.13:{version}"
        got = subprocess.run(
            [
                "mvn",
                "-C",
                "--batch-mode",
                "--quiet",
                "dependency:copy",
                f"-Dartifact={artifact}",
                f"-DoutputDirectory={CACHE}",
            ],
            timeout=FETCH_MAX_S,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            stdin=subprocess.DEVNULL,
            check=False,
        )
        if got.returncode == 0:
            return next(CACHE.glob("spark-hadoop-cloud_*.jar"))
    raise AssertionError("Maven has no spark-hadoop-cloud")
