"""The project's own Dockerfile, really built, and what comes out of it: the command and its tools, as non-root."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent.parent
IMAGE = "spark-supervisor-test/product"
STAND_IN = "spark-supervisor-test/debian:bookworm-slim"
BUILD_MAX_S = 1500

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


def base_image() -> str:
    """BASE_IMAGE if set; else the stand-in, built here where its tools are; else the public one."""
    named = os.environ.get("BASE_IMAGE")
    if named:
        return named
    known = subprocess.run(["docker", "image", "inspect", STAND_IN], capture_output=True, timeout=60, check=False)
    if known.returncode and shutil.which("mmdebstrap"):
        subprocess.run([ROOT / "tests" / "testbed" / "build_base_image.sh", STAND_IN], check=True, timeout=300)
        return STAND_IN
    return "debian:bookworm-slim" if known.returncode else STAND_IN


@pytest.mark.docker
@pytest.mark.timeout(BUILD_MAX_S + 120)
def test_the_image_builds_and_runs_as_nobody_special() -> None:
    build = ["docker", "build", "--network", "host", "--build-arg", f"BASE={base_image()}", "-t", IMAGE, str(ROOT)]
    env = {**os.environ, "DOCKER_BUILDKIT": "0"}
    built = subprocess.run(build, env=env, capture_output=True, text=True, timeout=BUILD_MAX_S, check=False)
    assert built.returncode == 0, built.stdout[-4000:] + built.stderr[-2000:]
    run = ["docker", "run", "--rm", "--network", "none", "--entrypoint", "sh", IMAGE, "-c", CHECK]
    done = subprocess.run(run, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    assert "submit" in done.stdout
    assert "spark 4." in done.stdout
