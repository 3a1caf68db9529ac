"""Gives a job the cluster of this host that its spec names. It is pure."""

from __future__ import annotations

from collections.abc import Mapping

from supervisor.errors import Complaint
from supervisor.model import executors
from supervisor.model.master import ClusterKind
from supervisor.model.phrases import first_few
from supervisor.settings.clusters import ClusterSettings
from supervisor.spec.job import JobSpec

DRIVER_HOST = "spark.driver.host"


def why_not_here(spec: JobSpec, clusters: Mapping[str, ClusterSettings]) -> Complaint | None:
    """Returns why a host with ``clusters`` does not start ``spec``, or None if it may."""
    if spec.cluster is None or spec.cluster in clusters:
        return None
    known = f"it has {first_few(sorted(clusters))}" if clusters else "it has none"
    return Complaint(
        f"cluster: {spec.cluster} is no cluster of this host's supervisor.yaml ({known})",
        f"add clusters.{spec.cluster} there, or correct cluster in the spec",
    )


def on_cluster(spec: JobSpec, clusters: Mapping[str, ClusterSettings]) -> JobSpec:
    """Returns ``spec`` with master and properties of its cluster; properties of the spec come before those, and so
    does its Python. A job that names no cluster is returned as it is."""
    if spec.cluster is None:
        return spec
    cluster = clusters[spec.cluster]
    conf = {**spec.python.over(cluster.conf), **_properties_of(cluster), **spec.conf}
    env = {**spec.env, **_environment_of(cluster)}
    return spec.model_copy(update={"master": cluster.master, "conf": conf, "env": env})


def _properties_of(cluster: ClusterSettings) -> dict[str, str]:
    said = {
        DRIVER_HOST: cluster.driver_host,
        "spark.yarn.queue": cluster.queue,
        "spark.kubernetes.namespace": cluster.namespace,
        "spark.kubernetes.container.image": cluster.image,
        "spark.kubernetes.authenticate.caCertFile": None if cluster.kind is ClusterKind.YARN else cluster.ca,
        "spark.kubernetes.authenticate.oauthTokenFile": cluster.token_file,
    }
    fixed = {"spark.yarn.maxAppAttempts": "1"} if cluster.kind is ClusterKind.YARN else {}
    return {**{key: str(value) for key, value in said.items() if value is not None}, **fixed}


def _environment_of(cluster: ClusterSettings) -> dict[str, str]:
    return {} if cluster.conf_dir is None else {"HADOOP_CONF_DIR": str(cluster.conf_dir)}


def master_of(spec: JobSpec, clusters: Mapping[str, ClusterSettings]) -> str:
    """Returns the master that the driver of ``spec`` is given on a host with ``clusters``; empty if that host lacks the
    cluster."""
    return on_cluster(spec, clusters).master if why_not_here(spec, clusters) is None else ""


def ending_properties(spec: JobSpec) -> dict[str, str]:
    """Returns the properties by which executors end soon after their driver (``model.executors``), as far as the job does
    not set them."""
    return executors.properties_for(spec.conf) if spec.holds_executors else {}
