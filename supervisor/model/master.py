"""Says which Spark masters a job may name, and where they listen. It is pure; ``submit`` and ``doctor`` use
it.
"""

from __future__ import annotations

import re
from enum import StrEnum
from typing import Final

_LOCAL: Final = re.compile(r"local(\[(\*|[1-9]\d{0,3})(,\s*\d{1,4})?\])?|local-cluster\[\d+,\d+,\d+\]")
_IN_PROCESS: Final = re.compile(r"local(\[[^\]]*\])?")
_HOST: Final = re.compile(r"([A-Za-z0-9_.-]+|\[[0-9A-Fa-f:.]+\]):(\d{1,5})")
_OTHERS: Final = ("mesos://", "spark-connect://", "sc://")
_STANDALONE: Final = "spark://"
_YARN: Final = "yarn"
_KUBERNETES: Final = re.compile(r"k8s://(https?)://([A-Za-z0-9_.-]+|\[[0-9A-Fa-f:.]+\]):(\d{1,5})")
PORT_MAX: Final = 65535


class ClusterKind(StrEnum):
    """Names what manages the executors of a cluster."""

    STANDALONE = "standalone"
    YARN = "yarn"
    KUBERNETES = "kubernetes"


def kind_of(master: str) -> ClusterKind | None:
    """Returns the kind of the cluster that ``master`` names, or None if it names none that is supported."""
    if addresses(master):
        return ClusterKind.STANDALONE
    if master == _YARN:
        return ClusterKind.YARN
    api = _KUBERNETES.fullmatch(master)
    return ClusterKind.KUBERNETES if api is not None and 0 < int(api[3]) <= PORT_MAX else None


def why_unsupported(master: str) -> str | None:
    """Returns why no driver is started with ``master``, or None if it is of a kind that is supported."""
    if _LOCAL.fullmatch(master) or addresses(master):
        return None
    known = "use local[N], local[*] or spark://HOST:PORT"
    if master.startswith(("yarn", "k8s://")):
        return (
            f"master: {master[:80]!r} needs settings of its own: name it in clusters of supervisor.yaml, and give "
            "cluster: NAME in place of master"
        )
    other = next((kind for kind in _OTHERS if master.startswith(kind)), None)
    if other is not None:
        return (
            f"master: {master[:80]!r} is of a kind that is not supported here ({other.rstrip(':/')}); {known}"
        )
    return f"master: {master[:80]!r} is no Spark master; {known}"


def why_no_cluster(master: str) -> str | None:
    """Returns why ``supervisor.yaml`` can't name ``master`` as a cluster, or None if it may."""
    if kind_of(master) is not None:
        return None
    return (
        f"{master[:80]!r} is no master of a cluster that is supported here; use spark://HOST:PORT[,HOST:PORT], yarn or "
        "k8s://https://HOST:PORT"
    )


def is_local(master: str) -> bool:
    """Returns whether a driver with ``master`` is all that there is: it holds no executors anywhere."""
    return _IN_PROCESS.fullmatch(master) is not None


def is_another(real: str, asked: str) -> bool:
    """Returns whether a session runs on another master than it was asked to. Spark writes the address of a Kubernetes API
    server anew, so two of these are taken for the same. False where one of the two is not known."""
    is_same = real == asked or (real.startswith("k8s://") and asked.startswith("k8s://"))
    return bool(real and asked) and not is_same


def addresses(master: str) -> tuple[tuple[str, int], ...]:
    """Returns host and port of each master of a standalone cluster. The result is empty if ``master`` names
    none, or if one of them is malformed.
    """
    if not master.startswith(_STANDALONE):
        return ()
    found = [_HOST.fullmatch(part) for part in master.removeprefix(_STANDALONE).split(",")]
    hosts = tuple((match[1].strip("[]"), int(match[2])) for match in found if match is not None)
    return hosts if len(hosts) == len(found) and all(0 < port <= PORT_MAX for _, port in hosts) else ()
