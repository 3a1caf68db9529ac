"""The project's own Dockerfile, really built, and what comes out of it: the command and its tools, as non-root."""

from __future__ import annotations

import json
import subprocess

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.testbed.product_image import BUILD_MAX_S, ROOT, base_image, build_image, product_image

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
from supervisor.settings.spark import SparkSettings
from supervisor.spark.toolchain import find_toolchain
settings = SparkSettings(s3a_jars=os.environ["SPARK_SUPERVISOR__SPARK__S3A_JARS"])
found = find_toolchain(settings, job_env={}, environ=os.environ)
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


@pytest.mark.docker
@pytest.mark.timeout(BUILD_MAX_S + 120)
def test_the_image_has_the_versions_of_the_locks() -> None:
    freeze = [
        "docker",
        "run",
        "--rm",
        "--network",
        "none",
        "--entrypoint",
        "/opt/spark-supervisor/bin/pip",
        product_image(),
        "freeze",
        "--all",
    ]
    done = subprocess.run(freeze, capture_output=True, text=True, timeout=120, check=True)
    own = {"pip", "spark-supervisor"}
    there = {line for line in map(pinned, done.stdout.splitlines()) if line.partition("==")[0] not in own}
    locks = "".join(
        (ROOT / "deploy" / name).read_text() for name in ("requirements.lock", "build-requirements.lock")
    )
    entries = [
        Requirement(line.rstrip("\\ "))
        for line in locks.splitlines()
        if "==" in line and not line.lstrip().startswith(("#", "-"))
    ]
    assert there == {
        pinned(f"{one.name}{one.specifier}") for one in entries if one.marker is None or one.marker.evaluate()
    }


@pytest.mark.docker
@pytest.mark.timeout(BUILD_MAX_S + 120)
def test_the_image_says_what_is_in_it() -> None:
    cat = ["docker", "run", "--rm", "--network", "none", "--entrypoint", "cat", product_image()]
    done = subprocess.run(
        [*cat, "/opt/spark-supervisor/sbom.cdx.json"], capture_output=True, text=True, timeout=120, check=True
    )
    listed = {each["purl"].partition("@")[0] for each in json.loads(done.stdout)["components"]}
    for purl in (
        "pypi/kazoo",
        "pypi/spark-supervisor",
        "maven/org.apache.hadoop/hadoop-aws",
        "deb/debian/tini",
    ):
        assert f"pkg:{purl}" in listed
    assert sum(purl.startswith("pkg:maven/org.apache.spark/spark-core") for purl in listed) == 1


def pinned(line: str) -> str:
    name, _, version = line.partition("==")
    return f"{canonicalize_name(name.partition(' @ ')[0])}=={version}"


@pytest.mark.docker
@pytest.mark.timeout(BUILD_MAX_S + 120)
def test_a_base_that_has_not_the_digest_is_not_built_on() -> None:
    with pytest.raises(AssertionError, match="sha256:0{64}|manifest|dial tcp|pull access|not found"):
        build_image("spark-supervisor-test/other-base", ROOT, base_image(), BASE_DIGEST="sha256:" + "0" * 64)
