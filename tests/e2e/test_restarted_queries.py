"""Real queries whose checkpoint the fence's manager reads with fewer requests: they count what they count without it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from supervisor.spark.fence.build import host_jar
from supervisor.spark.fence.choice import MANAGER, MANAGER_KEY
from supervisor.spark.properties import render_properties
from supervisor.spark.toolchain import installed_spark_home, java_of, spark_version
from tests.testbed.moto import MotoServer
from tests.testbed.s3a_jars import s3a_jars

pytestmark = [pytest.mark.spark, pytest.mark.timeout(600)]

DRIVER = Path(__file__).parent.parent / "testbed" / "restarted_queries.py"
ROUNDS = 4
STATE = "org.apache.spark.sql.execution.streaming.state"


@pytest.mark.parametrize("provider", ["HDFSBackedStateStoreProvider", "RocksDBStateStoreProvider"])
def test_a_query_goes_on_from_its_checkpoint_and_begins_anew_without_it(
    provider: str, moto_server: MotoServer, s3_bucket: str, tmp_path: Path
) -> None:
    """In one JVM, which remembers what it has seen; the checkpoint is deleted by somebody else in between."""
    home = installed_spark_home()
    assert home is not None
    built = host_jar(home, java_of(None, os.environ), spark_version(home) or "", tmp_path, os.environ)
    assert built.jar is not None, built.why
    properties = {
        "spark.master": "local[1]",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.log.level": "ERROR",
        "spark.sql.shuffle.partitions": "2",
        "spark.driver.memory": "512m",
        "spark.driver.extraClassPath": f"{s3a_jars()}/*:{built.jar}",
        "spark.hadoop.fs.s3a.endpoint": moto_server.endpoint_url,
        "spark.hadoop.fs.s3a.endpoint.region": "us-east-1",
        "spark.hadoop.fs.s3a.path.style.access": "true",
        "spark.sql.streaming.stateStore.providerClass": f"{STATE}.{provider}",
        "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true",
        MANAGER_KEY: MANAGER,
    }
    file = tmp_path / "spark.properties"
    file.write_text(render_properties(properties), encoding="ascii")
    checkpoint = f"s3a://{s3_bucket}/restarted/{provider}"
    done = subprocess.run(
        (
            str(home / "bin" / "spark-submit"),
            "--properties-file",
            str(file),
            str(DRIVER),
            checkpoint,
            str(ROUNDS),
        ),
        env={**os.environ, **moto_server.env, "PYSPARK_PYTHON": sys.executable},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=500,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    found = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("[")]
    once = [
        [batch, sorted(len(range(key, 10 * (batch + 1), 3)) for key in range(3))] for batch in range(ROUNDS)
    ]
    assert found == [*once, *once]
