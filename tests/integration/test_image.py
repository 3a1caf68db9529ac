"""The project's own Dockerfile, really built, and what comes out of it: the command and its tools, as non-root."""

from __future__ import annotations

import subprocess

import pytest

from tests.testbed.product_image import BUILD_MAX_S, product_image

CHECK = """
set -e
test "$(id -u)" != 0
spark-supervisor --help
spark-supervisor run --help > /dev/null
tini --version
ls "$SPARK_SUPERVISOR__SPARK__S3A_JARS" | grep -c '\\.jar$'
test -z "$(ls "$SPARK_SUPERVISOR__SPARK__S3A_JARS" | grep -E 'bundle|netty-(common|buffer)|slf4j')"
touch /run/spark-supervisor/x /var/log/spark-supervisor/x
python3 - <<'END'
import os
from supervisor.spark.toolchain import find_toolchain
found = find_toolchain(
    home=None, java_home=None, s3a_jars=__import__("pathlib").Path(os.environ["SPARK_SUPERVISOR__SPARK__S3A_JARS"]),
    job_env={}, environ=os.environ,
)
assert found.s3a_jars and found.version, found
print("spark", found.version)
END
"""


@pytest.mark.docker
@pytest.mark.timeout(BUILD_MAX_S + 120)
def test_the_image_builds_and_runs_as_nobody_special() -> None:
    run = ["docker", "run", "--rm", "--network", "none", "--entrypoint", "sh", product_image(), "-c", CHECK]
    done = subprocess.run(run, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    assert "submit" in done.stdout
    assert "spark 4." in done.stdout
