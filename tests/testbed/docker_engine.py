"""Is there a Docker engine, and a ZooKeeper image on it? Sweeping of what killed runs left behind.

Everything of ours on the engine carries the label ``spark-supervisor-test`` with the identity of the test process that
made it; a later run removes what belongs to processes that are gone, and nothing else. That is also why testcontainers'
own reaper container is not needed: it is switched off, so that no second image must be had.
"""

from __future__ import annotations

import os
from functools import lru_cache
from pathlib import Path
from typing import Any

os.environ.setdefault("TESTCONTAINERS_RYUK_DISABLED", "true")  # read by testcontainers when it is imported

import docker
import docker.errors
import requests

LABEL = "spark-supervisor-test"
OWN_IMAGE = "spark-supervisor-test/zookeeper:3.9"
PUBLIC_IMAGE = "zookeeper:3.9"


@lru_cache(maxsize=1)
def client() -> Any:
    """The engine of DOCKER_HOST, else of the default socket. Raises DockerException if there is none."""
    return docker.from_env(timeout=60)


def missing() -> str | None:
    """None if a ZooKeeper ensemble can be run here, else what is missing."""
    try:
        client().ping()
    except (docker.errors.DockerException, requests.RequestException):
        return f"no Docker engine answers at {os.environ.get('DOCKER_HOST', 'its default socket')}"
    name = zookeeper_image()
    try:
        client().images.get(name)
    except docker.errors.ImageNotFound:
        try:
            client().images.pull(name)
        except docker.errors.APIError as error:
            return f"there is no image {name}, and it cannot be pulled ({str(error)[:120]})"
    return None


@lru_cache(maxsize=1)
def zookeeper_image() -> str:
    """ZOOKEEPER_IMAGE if set; else our own if it was built here; else the public one."""
    named = os.environ.get("ZOOKEEPER_IMAGE")
    if named:
        return named
    try:
        client().images.get(OWN_IMAGE)
        return OWN_IMAGE
    except docker.errors.ImageNotFound:
        return PUBLIC_IMAGE


def owner() -> str:
    """Identity of this process: pid namespace, pid and start time."""
    return f"{_pid_namespace()}.{os.getpid()}.{_start_time(os.getpid())}"


def sweep() -> None:
    """Remove containers and networks of test processes that are gone."""
    for container in client().containers.list(all=True, filters={"label": LABEL}, ignore_removed=True):
        if _is_gone(container.labels[LABEL]):
            _ignoring_absence(container.remove, force=True, v=True)
    for network in client().networks.list(filters={"label": LABEL}):
        if _is_gone(network.attrs["Labels"][LABEL]):
            _ignoring_absence(network.remove)


def _ignoring_absence(remove: Any, **how: Any) -> None:
    try:
        remove(**how)
    except docker.errors.NotFound:
        pass  # another run sweeps too
    except docker.errors.APIError as error:
        if error.status_code != 409:  # its removal is under way already
            raise


def _is_gone(label: str) -> bool:
    namespace, pid, started = label.split(".")
    # A process of another pid namespace cannot be looked for from here: its things are left alone.
    return namespace == _pid_namespace() and _start_time(int(pid)) != started


def _pid_namespace() -> str:
    return "".join(c for c in os.readlink("/proc/self/ns/pid") if c.isdigit())


def _start_time(pid: int) -> str:
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return "gone"
    return stat.rpartition(")")[2].split()[19]
