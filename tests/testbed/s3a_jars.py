"""The thin S3A jars for tests, by the same script that users run; fetched once and kept in the checkout's cache."""

from __future__ import annotations

import fcntl
import subprocess
from pathlib import Path

from supervisor.spark.toolchain import installed_spark_home, spark_version
from tests.testbed import requirements

ROOT = Path(__file__).parent.parent.parent
CACHE = ROOT / ".ci" / "cache" / "s3a-jars"
FETCH_MAX_S = 600


def s3a_jars(home: Path | None = None) -> Path:
    """The directory, for the installed Spark or the one at ``home``. Skips the test where there is no Maven, unless .ci/run
    asks for everything."""
    cache = CACHE if home is None else CACHE.with_name(f"{CACHE.name}-{spark_version(home)}")
    if not any(cache.glob("hadoop-aws-*.jar")):
        requirements.need("maven")
    fetch = ROOT / "deploy" / "s3a-jars" / "fetch"
    cache.parent.mkdir(parents=True, exist_ok=True)
    with (cache.parent / f"{cache.name}.lock").open("w") as lock:  # workers of one run do not fetch at once
        fcntl.flock(lock, fcntl.LOCK_EX)
        subprocess.run([fetch, cache, str(home or installed_spark_home())], check=True, timeout=FETCH_MAX_S)
    return cache
