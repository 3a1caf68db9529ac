"""A spec, an assignment, settings and a toolchain for the tests of ``supervisor.spark``."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from supervisor.model.records import Assignment, BlobRef
from supervisor.settings.file import Settings
from supervisor.settings.sections import validated
from supervisor.spark.toolchain import Toolchain
from supervisor.spec.job import JobSpec

MakeSpec = Callable[..., JobSpec]


@pytest.fixture
def make_spec() -> MakeSpec:
    def make(**keys: Any) -> JobSpec:
        body = {"name": "clicks", "application": "store:k/app.py", "checkpoint": "file:///ck", **keys}
        return validated(
            JobSpec, {key: value for key, value in body.items() if value is not None}, "spec.yaml"
        )

    return make


@pytest.fixture
def assignment() -> Assignment:
    return Assignment(
        name="clicks",
        uid="u1",
        attempt=3,
        revision=2,
        job_version=0,
        own_version=1,
        spec=BlobRef(key="specs/x", sha256="00", bytes=2),
        memory=1024,
    )


@pytest.fixture
def toolchain() -> Toolchain:
    return Toolchain(Path("/opt/spark"), Path("/usr/bin/python3"), Path("/opt/java"), "4.3.0")


@pytest.fixture
def spark_home(tmp_path: Path) -> Path:
    """A Spark home as far as it is looked at."""
    home = tmp_path / "spark"
    (home / "bin").mkdir(parents=True)
    (home / "jars").mkdir()
    submit = home / "bin" / "spark-submit"
    submit.write_text("#!/bin/sh\n")
    submit.chmod(0o755)
    (home / "jars" / "spark-core_2.13-4.1.2.jar").touch()
    return home


@pytest.fixture
def java_home(tmp_path: Path) -> Path:
    home = tmp_path / "java"
    (home / "bin").mkdir(parents=True)
    (home / "bin" / "java").write_text("#!/bin/sh\n")
    (home / "bin" / "java").chmod(0o755)
    (home / "release").write_text('IMPLEMENTOR="x"\nJAVA_VERSION="17.0.15"\n')
    return home


@pytest.fixture
def environ() -> dict[str, str]:
    return {
        "PATH": "/usr/bin:/bin",
        "PYSPARK_PYTHON": sys.executable,
        "AWS_ACCESS_KEY_ID": "k",
        "LANG": "en_US.UTF-8",
    }


@pytest.fixture
def settings(tmp_path: Path, spark_home: Path, java_home: Path) -> Settings:
    body = {
        "cluster": "test",
        "zookeeper": {"hosts": "zk1:2181"},
        "store": {"url": f"file://{tmp_path}/store"},
        "supervisor": {"id": "s1"},
        "spark": {"home": str(spark_home), "java_home": str(java_home)},
    }
    return validated(Settings, body, "supervisor.yaml")
