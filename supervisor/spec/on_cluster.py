"""Gives a job the cluster of this host that its spec names. It is pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from supervisor.errors import Complaint
from supervisor.model import executors
from supervisor.model.application_tag import OWN_TAGS_MAX, YARN_TAGS
from supervisor.model.master import ClusterKind
from supervisor.model.phrases import first_few
from supervisor.settings.clusters import DEFAULT_NAMESPACE, ClusterSettings
from supervisor.settings.spark_conf import NAMESPACE
from supervisor.spec.job import JobSpec

DRIVER_HOST: Final = "spark.driver.host"

OF_KIND: Final[Mapping[ClusterKind, Mapping[str, str]]] = {
    ClusterKind.STANDALONE: {},
    ClusterKind.YARN: {"spark.yarn.maxAppAttempts": "1"},
    ClusterKind.KUBERNETES: {
        "spark.kubernetes.executor.useDriverPodIP": "false",
        "spark.kubernetes.driver.service.deleteOnTermination": "false",
        "spark.kubernetes.driver.ownPersistentVolumeClaim": "false",
    },
}
"""What each driver on a cluster of this kind is given, whatever ``conf`` of the cluster says. On Kubernetes executors would
else connect to ``spark.driver.bindAddress``, which another machine may not reach, instead of ``spark.driver.host`` (S30); a
driver without a pod would ask to delete services and claims, which it has not and may not."""

UNLESS_GIVEN: Final = {"spark.executor.failuresValidityInterval": "1h"}
"""What drivers on YARN and Kubernetes are given where ``conf`` of the cluster says nothing else; they would end after a few
executors that were lost in all of their life (S31)."""


def why_not_here(spec: JobSpec, clusters: Mapping[str, ClusterSettings]) -> Complaint | None:
    """Returns why a host with ``clusters`` does not start ``spec``, or None if it may."""
    if spec.cluster is None:
        return None
    if spec.cluster in clusters:
        return _why_not_on(spec, clusters[spec.cluster])
    known = f"it has {first_few(sorted(clusters))}" if clusters else "it has none"
    return Complaint(
        f"cluster: {spec.cluster} is no cluster of this host's supervisor.yaml ({known})",
        f"add clusters.{spec.cluster} there, or correct cluster in the spec",
    )


def _why_not_on(spec: JobSpec, cluster: ClusterSettings) -> Complaint | None:
    """Returns why ``spec`` is not started on ``cluster``: what it leaves is looked for in the cluster's own namespace, or by
    tags, of which YARN takes ten."""
    own_tags = {**cluster.conf, **spec.conf}.get(YARN_TAGS, "").split(",")
    if cluster.kind is ClusterKind.YARN and len(own_tags) > OWN_TAGS_MAX:
        return Complaint(
            f"conf {YARN_TAGS} has {len(own_tags)} tags; YARN takes 10, of which 3 are the supervisor's",
            f"keep {OWN_TAGS_MAX} of them",
        )
    asked, given = spec.conf.get(NAMESPACE), _namespace_of(cluster)
    if given is None or asked is None or asked == given:
        return None
    return Complaint(
        f"conf {NAMESPACE}: {asked[:80]} is not the namespace of cluster {spec.cluster} on this host ({given})",
        "remove it, or add a cluster with that namespace to supervisor.yaml",
    )


def on_cluster(spec: JobSpec, clusters: Mapping[str, ClusterSettings]) -> JobSpec:
    """Returns ``spec`` with master and properties of its cluster; properties of the spec come before those, and so
    does its Python. A job that names no cluster is returned as it is."""
    if spec.cluster is None:
        return spec
    cluster = clusters[spec.cluster]
    defaults = {} if cluster.kind is ClusterKind.STANDALONE else UNLESS_GIVEN
    conf = {**defaults, **spec.python.over(cluster.conf), **_properties_of(cluster), **spec.conf}
    env = {**spec.env, **_environment_of(cluster)}
    return spec.model_copy(update={"master": cluster.master, "conf": conf, "env": env})


def _properties_of(cluster: ClusterSettings) -> dict[str, str]:
    said = {
        DRIVER_HOST: cluster.driver_host,
        "spark.yarn.queue": cluster.queue,
        NAMESPACE: _namespace_of(cluster),
        "spark.kubernetes.container.image": cluster.image,
        "spark.kubernetes.authenticate.caCertFile": None if cluster.kind is ClusterKind.YARN else cluster.ca,
        "spark.kubernetes.authenticate.oauthTokenFile": cluster.token_file,
    }
    return {**OF_KIND[cluster.kind], **{key: str(value) for key, value in said.items() if value is not None}}


def _namespace_of(cluster: ClusterSettings) -> str | None:
    """Returns the namespace in which executors are, or None for a cluster that is not of Kubernetes."""
    return (cluster.namespace or DEFAULT_NAMESPACE) if cluster.kind is ClusterKind.KUBERNETES else None


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
