"""What a test needs beyond Python and Java, and what is done where that is missing: a *loud* skip.

Called by tests/conftest.py. A marker stands for a requirement; where it is not met the marked tests are skipped, and
the end of the run says in red how many, why, and what to do. With SPARK_SUPERVISOR_REQUIRE_DOCKER=1 (``.ci/run``) they
fail instead.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

import pytest


@dataclass(frozen=True)
class Requirement:
    """``missing()`` is None if met, else one clause that says what is missing."""

    marker: str
    missing: Callable[[], str | None]
    remedy: str
    required_by: str


@lru_cache(maxsize=1)
def missing_docker() -> str | None:
    from tests.testbed import docker_engine

    return docker_engine.missing()


@lru_cache(maxsize=1)
def missing_namespaces() -> str | None:
    if os.geteuid() != 0:
        return "not root"
    for tool in ("ip", "iptables", "nsenter"):
        if shutil.which(tool) is None:
            return f"no {tool}"
    return None


@lru_cache(maxsize=1)
def missing_systemd_analyze() -> str | None:
    """Of the version that judges a unit file which is not loaded (``--offline``)."""
    if shutil.which("systemd-analyze") is None:
        return "no systemd-analyze to judge the units"
    version_text = subprocess.run(
        ["systemd-analyze", "--version"], capture_output=True, text=True, timeout=30, check=False
    ).stdout
    version = re.match(r"systemd (\d+)", version_text)
    return (
        None if version and int(version[1]) >= 250 else "systemd-analyze is older than 250, or doesn't start"
    )


@lru_cache(maxsize=1)
def missing_compose() -> str | None:
    from tests.testbed import compose

    return None if compose.command() else "no docker-compose"


@lru_cache(maxsize=1)
def missing_cgroup() -> str | None:
    from supervisor.clients.containment import find_cgroup_parent, find_own_cgroup

    parent = find_cgroup_parent(find_own_cgroup(), f"probe-{os.getpid()}")
    if parent is None:
        return "no writable cgroup v2: containment is tested by scan only"
    os.rmdir(parent)
    return None


def missing_kdc() -> str | None:
    from tests.testbed import kerberos

    return kerberos.missing()


@lru_cache(maxsize=1)
def missing_users() -> str | None:
    """Root, which may become any user, and a cgroup to keep their processes in."""
    if os.geteuid() != 0:
        return "not root: no process can become another user"
    if shutil.which("setpriv") is None:
        return "no setpriv"
    from tests.testbed import shared_python

    if shared_python.find() is None:
        return "no Python that another user may execute"
    return missing_cgroup()


@lru_cache(maxsize=1)
def missing_limits() -> str | None:
    """Controllers of version 2: on a host with version 1 for them there are none."""
    from supervisor.clients.containment import find_own_cgroup
    from supervisor.clients.controllers import would_lack

    own = find_own_cgroup()
    lacking = would_lack(own)
    if os.geteuid() != 0:
        return "not root"
    return "; ".join(f"{name}: {why}" for name, why in lacking.items()) or None


def missing_kubernetes() -> str | None:
    from tests.testbed import kubernetes

    return kubernetes.missing()


def missing_prometheus() -> str | None:
    from tests.testbed import prometheus

    return prometheus.missing()


@lru_cache(maxsize=1)
def missing_memory_limit() -> str | None:
    from tests.testbed import memory_limits

    return memory_limits.missing()


REQUIREMENTS = (
    Requirement(
        "docker",
        missing_docker,
        "start Docker, or as root: tests/testbed/dockerd.sh start (Debian: docker.io, iptables); the image: "
        "tests/testbed/build_zookeeper_image.sh, or ZOOKEEPER_IMAGE=<one that can be pulled>",
        "SPARK_SUPERVISOR_REQUIRE_DOCKER",
    ),
    Requirement(
        "netns",
        missing_namespaces,
        "run the tests as root with iproute2, iptables and util-linux installed",
        "SPARK_SUPERVISOR_REQUIRE_DOCKER",
    ),
    Requirement(
        "maven",
        lambda: None if shutil.which("mvn") else "no mvn to fetch the jars that read s3a://",
        "install Maven (Debian: maven)",
        "SPARK_SUPERVISOR_REQUIRE_DOCKER",
    ),
    Requirement(
        "jdk",
        lambda: (
            None
            if shutil.which("javac") and shutil.which("jar")
            else "no javac or jar to build a JVM application"
        ),
        "install a JDK (Debian: openjdk-17-jdk-headless)",
        "SPARK_SUPERVISOR_REQUIRE_DOCKER",
    ),
    Requirement(
        "cc",
        lambda: (
            None if shutil.which("cc") else "no C compiler to build what sets the wall clock of a process"
        ),
        "install one (Debian: gcc, libc6-dev)",
        "SPARK_SUPERVISOR_REQUIRE_DOCKER",
    ),
    Requirement(
        "mount",
        lambda: None if os.geteuid() == 0 and shutil.which("mount") else "not root: nothing can be mounted",
        "run the tests as root",
        "SPARK_SUPERVISOR_REQUIRE_DOCKER",
    ),
    Requirement(
        "kubernetes",
        missing_kubernetes,
        "run the tests as root with Go, iproute2 and iptables installed (Debian: containerd and the rest are fetched)",
        "SPARK_SUPERVISOR_REQUIRE_DOCKER",
    ),
    Requirement(
        "kerberos",
        missing_kdc,
        "tests/testbed/unpack_kdc.sh DIRECTORY (Debian; installs nothing), then SPARK_SUPERVISOR_TEST_KDC=DIRECTORY",
        "SPARK_SUPERVISOR_REQUIRE_DOCKER",
    ),
    Requirement(
        "systemd_analyze",
        missing_systemd_analyze,
        "install systemd 250 or newer (Debian: systemd); it need not run",
        "SPARK_SUPERVISOR_REQUIRE_DOCKER",
    ),
    Requirement(
        "compose",
        missing_compose,
        "install docker-compose (Debian) or Docker's compose plugin",
        "SPARK_SUPERVISOR_REQUIRE_DOCKER",
    ),
    Requirement(
        "browser",
        lambda: (
            None
            if shutil.which("chromium") and shutil.which("chromedriver")
            else "no chromium or chromedriver to show the page in"
        ),
        "install them (Debian: chromium, chromium-driver)",
        "SPARK_SUPERVISOR_REQUIRE_DOCKER",
    ),
    Requirement(
        "prometheus",
        missing_prometheus,
        "put prometheus and promtool on the PATH (both are in Debian's package prometheus)",
        "SPARK_SUPERVISOR_REQUIRE_PROMETHEUS",
    ),
    Requirement(
        "cgroup",
        missing_cgroup,
        "run the tests as root, or with a delegated cgroup v2 (systemd-run --scope -p Delegate=yes)",
        "SPARK_SUPERVISOR_REQUIRE_DOCKER",
    ),
    Requirement(
        "users",
        missing_users,
        "run the tests as root, with util-linux, a writable cgroup v2 and a Python outside of /root",
        "SPARK_SUPERVISOR_REQUIRE_DOCKER",
    ),
    Requirement(
        "limits",
        missing_limits,
        "run the tests as root, outside of a service, where cgroup v2 has the controllers memory, cpu and pids",
        "SPARK_SUPERVISOR_REQUIRE_LIMITS",
    ),
    Requirement(
        "memory_limit",
        missing_memory_limit,
        "run the tests as root where cgroups have the memory controller",
        "SPARK_SUPERVISOR_REQUIRE_MEMORY_LIMIT",
    ),
)


def need(marker: str) -> None:
    """For a fixture: skip or fail the test that asked for it if ``marker`` is not met here."""
    (requirement,) = (one for one in REQUIREMENTS if one.marker == marker)
    _enforce(requirement)


def check(item: pytest.Item) -> None:
    """Skip or fail ``item`` if a marker of it stands for something that is not here."""
    for requirement in REQUIREMENTS:
        if item.get_closest_marker(requirement.marker) is not None:
            _enforce(requirement)


def _enforce(requirement: Requirement) -> None:
    reason = requirement.missing()
    if reason is None:
        return
    if os.environ.get(requirement.required_by) == "1":
        pytest.fail(f"{requirement.marker} is required here: {reason}; {requirement.remedy}", pytrace=False)
    pytest.skip(f"{_prefix(requirement)}{reason}")


def summary(skipped_reasons: list[str]) -> list[str]:
    """Lines for the end of the run, given the reasons of all skipped tests."""
    lines = []
    for requirement in REQUIREMENTS:
        reasons = [text for text in skipped_reasons if _prefix(requirement) in text]
        if reasons:
            why = reasons[0].split(_prefix(requirement), 1)[1].removesuffix("')")
            lines.append(f"{len(reasons)} tests SKIPPED, they need {requirement.marker}: {why}")
            lines.append(f"    to run them: {requirement.remedy}")
    return lines


def _prefix(requirement: Requirement) -> str:
    return f"needs {requirement.marker}: "
