"""Makes the client of each cluster that a host's settings name."""

from __future__ import annotations

from collections.abc import Mapping

from supervisor.clusters.application import ClusterClient
from supervisor.clusters.kubernetes import KubernetesClient
from supervisor.clusters.yarn import YarnClient
from supervisor.model.master import ClusterKind
from supervisor.settings.clusters import ClusterSettings


def client_of(name: str, cluster: ClusterSettings, registry: str) -> ClusterClient | None:
    """Returns the client of the cluster ``name``, for the drivers of the registry whose id is ``registry``; None if its kind
    needs none: the workers of a standalone cluster end the executors of a driver that is gone."""
    if not registry:
        return None  # nothing has its tag
    if cluster.kind is ClusterKind.YARN and cluster.conf_dir is not None:
        return YarnClient(name, cluster.conf_dir, registry, cluster.ca)
    if cluster.kind is ClusterKind.KUBERNETES:
        return KubernetesClient(name, cluster, registry)
    return None


def clients_of(clusters: Mapping[str, ClusterSettings], registry: str) -> dict[str, ClusterClient]:
    """Returns the clients by the names of the clusters."""
    made = {name: client_of(name, cluster, registry) for name, cluster in clusters.items()}
    return {name: client for name, client in made.items() if client is not None}
