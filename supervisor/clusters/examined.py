"""Examines a cluster for ``doctor``: what each kind of cluster is asked, and what comes of it, in the same words for all."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from supervisor.clusters.answers import count
from supervisor.clusters.kubernetes import KubernetesClient
from supervisor.clusters.standalone import StandaloneMasters, why_no_room
from supervisor.clusters.yarn import YarnClient
from supervisor.model.master import ClusterKind
from supervisor.model.phrases import counted, first_few
from supervisor.settings.clusters import ClusterSettings


@dataclass(frozen=True, slots=True)
class ClusterAnswer:
    """Is what a cluster says. ``answers`` is who answered, and which of them leads. ``leaderless`` is why none leads, and
    ``some_silent`` why some of those that should answer did not; both are empty if all is well. ``version`` is that of its
    Spark; None if it has none of its own, empty if it is not known. ``room`` is what it has, ``no_room`` why an executor
    gets nothing now."""

    answers: str = ""
    leaderless: str = ""
    some_silent: str = ""
    version: str | None = None
    room: str = ""
    no_room: str = ""


def of_standalone(_name: str, cluster: ClusterSettings, timeout_s: float) -> ClusterAnswer:
    """Asks the masters. Raises ClusterSilent."""
    until_at_s = time.monotonic() + timeout_s
    masters = StandaloneMasters(cluster.web_of_masters)
    state = masters.state(timeout_s / 2)
    leading, some_silent = state.leading, first_few(state.silent)
    statuses = ", ".join(f"{master.address} is {master.status or 'none'}" for master in state.masters)
    if leading is None:
        return ClusterAnswer(statuses, f"no master leads: {statuses}", some_silent, "")
    version = masters.version(max(0.1, until_at_s - time.monotonic()))
    workers = leading.workers
    cores, free = sum(each.cores for each in workers), sum(each.cores_free for each in workers)
    room = f"{counted(len(workers), 'worker')}, {free} of {counted(cores, 'core')} free"
    no_room = "" if free else why_no_room(leading, 0)
    return ClusterAnswer(statuses, "", some_silent, version, room, no_room)


def of_yarn(name: str, cluster: ClusterSettings, timeout_s: float) -> ClusterAnswer:
    """Asks the ResourceManager that leads. Raises ClusterSilent."""
    assert cluster.conf_dir is not None  # by the settings
    metrics = YarnClient(name, cluster.conf_dir, "", cluster.ca).metrics(timeout_s)
    nodes, free, total, free_mb = (
        count(metrics.get(key))
        for key in ("activeNodes", "availableVirtualCores", "totalVirtualCores", "availableMB")
    )
    room = f"{counted(nodes, 'node')}, {free} of {counted(total, 'core')} and {free_mb} MiB free"
    no_room = (
        "" if free and free_mb else ("no memory or no core is free" if nodes else "no NodeManager is active")
    )
    return ClusterAnswer("a ResourceManager leads", room=room, no_room=no_room)


def of_kubernetes(name: str, cluster: ClusterSettings, timeout_s: float) -> ClusterAnswer:
    """Asks the API server, by the token of the settings, for its version and for pods of the namespace. Raises
    ClusterSilent."""
    return ClusterAnswer(KubernetesClient(name, cluster, "").version_where_pods_are_listed(timeout_s))


EXAMINERS: Final[Mapping[ClusterKind, Callable[[str, ClusterSettings, float], ClusterAnswer]]] = {
    ClusterKind.STANDALONE: of_standalone,
    ClusterKind.YARN: of_yarn,
    ClusterKind.KUBERNETES: of_kubernetes,
}
"""Who examines a cluster, with its name, within so many seconds, by its kind. A kind that is not there is not examined."""
