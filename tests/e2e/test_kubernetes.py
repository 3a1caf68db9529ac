"""A job whose executors are pods of a real Kubernetes, by the rights of deploy/kubernetes, and what happens to them.

The witness of the drivers is judged after each test: no two at once, no hole, no batch with another content.
"""

from __future__ import annotations

import signal
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from supervisor.clusters.kubernetes import KubernetesClient
from supervisor.demo.ensemble import EmbeddedEnsemble
from supervisor.model.executors import outlive_s
from supervisor.model.pod_labels import ATTEMPT_LABEL, UID_LABEL, pod_properties
from supervisor.settings.clusters import ClusterSettings
from supervisor.spec.job import JobSpec
from supervisor.spec.on_cluster import on_cluster
from tests.testbed import cluster_jobs
from tests.testbed.cluster_jobs import (
    LIGHT_EXECUTOR,
    assert_bound_in_lease,
    assert_doctor_finds_all_well,
    assert_went_on,
    end_as_of_nobody,
    outlast,
    restart_prepared,
    save_and_kill,
    unsupervised,
    wait_waiting,
)
from tests.testbed.fleet import SHIM
from tests.testbed.kubernetes import NAMESPACE, RIGHTS, KubernetesCluster, kubernetes_cluster
from tests.testbed.moto import AWS_ENV, MotoServer, S3Server
from tests.testbed.namespaces import Namespace
from tests.testbed.proxy import Proxy
from tests.testbed.spark_fleet import SparkFleet
from tests.waiting import wait_until

pytestmark = [
    pytest.mark.slow,
    pytest.mark.spark,
    pytest.mark.kubernetes,
    pytest.mark.timeout(2400),
    pytest.mark.usefixtures("judged"),
]

CONF = {
    "spark.executor.instances": "1",
    **LIGHT_EXECUTOR,
    "spark.kubernetes.executor.secretKeyRef.AWS_ACCESS_KEY_ID": "s3:id",
    "spark.kubernetes.executor.secretKeyRef.AWS_SECRET_ACCESS_KEY": "s3:key",
}
PATIENCE_S = 300.0
OUTAGE_S = 30.0
WAITING_S = 20.0
ABSENT_IMAGE = "localhost/not-there:test"
ZOMBIE_SPEC = {
    "name": "zombie",
    "application": "/a.py",
    "cluster": "k8s",
    "checkpoint": "file:///unused/zombie",
}


class SeenByPods(S3Server):
    """The same S3, at an address that pods reach, too."""

    def __init__(self, moto: MotoServer, proxy: Proxy) -> None:
        self.endpoint_url, self.env = f"http://{proxy.address}", moto.env


@pytest.fixture(scope="module")
def cluster() -> Iterator[KubernetesCluster]:
    with kubernetes_cluster() as made:
        keys = (
            f"--from-literal=id={AWS_ENV['AWS_ACCESS_KEY_ID']}",
            f"--from-literal=key={AWS_ENV['AWS_SECRET_ACCESS_KEY']}",
        )
        made.kubectl("-n", NAMESPACE, "create", "secret", "generic", "s3", *keys)
        yield made


@pytest.fixture(scope="module")
def fleet(
    embedded_ensemble: EmbeddedEnsemble,
    moto_server: MotoServer,
    cluster: KubernetesCluster,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[SparkFleet]:
    directory = tmp_path_factory.mktemp("on-kubernetes")
    clusters = {"k8s": cluster.settings(**CONF)}
    with Proxy(f"127.0.0.1:{moto_server.port}", cluster.address) as proxy:
        s3 = SeenByPods(moto_server, proxy)
        with SparkFleet.on_moto(embedded_ensemble, s3, directory, clusters=clusters) as made:
            yield made


def attempts(cluster: KubernetesCluster, uid: str) -> set[int]:
    """Those of which there is a pod, whatever its phase."""
    return {int(pod["metadata"]["labels"][ATTEMPT_LABEL]) for pod in cluster.pods(f"{UID_LABEL}={uid}")}


def wait_only(cluster: KubernetesCluster, uid: str, attempt: int) -> None:
    """Nothing of attempts before is left: no pod and no ConfigMap."""
    wait_until(
        lambda: attempts(cluster, uid) == {attempt}, PATIENCE_S, f"only pods of {attempt}", period_s=1.0
    )
    wait_until(lambda: len(cluster.config_maps()) == 1, PATIENCE_S, "only its ConfigMap", period_s=1.0)


def cancel(fleet: SparkFleet, cluster: KubernetesCluster, job: str) -> None:
    """Cancels the job; nothing of it is left on the cluster."""
    cluster_jobs.cancel(fleet, job, PATIENCE_S)
    wait_nothing_left(cluster)


def wait_nothing_left(cluster: KubernetesCluster) -> None:
    wait_until(lambda: not cluster.pods(), PATIENCE_S, "all pods to be removed", period_s=1.0)
    wait_until(lambda: not cluster.config_maps(), PATIENCE_S, "all ConfigMaps to be removed", period_s=1.0)


def uid_of(fleet: SparkFleet, job: str) -> str:
    return str(fleet.show(job)["uid"])


def test_its_life_from_submit_to_cancel(fleet: SparkFleet, cluster: KubernetesCluster) -> None:
    job = "life"
    fleet.submit(job, cluster="k8s")
    fleet.wait_batches(job)
    uid = uid_of(fleet, job)
    wait_only(cluster, uid, 1)
    restart_prepared(fleet, job)
    wait_only(cluster, uid, 2)
    save_and_kill(fleet, job)
    wait_only(cluster, uid, 3)
    cancel(fleet, cluster, job)


def test_a_lost_executor_or_api_server_is_not_the_drivers_end(
    fleet: SparkFleet, cluster: KubernetesCluster
) -> None:
    job = "losses"
    fleet.submit(job, cluster="k8s")
    fleet.wait_batches(job)
    before = set(cluster.running())
    assert before
    cluster.kill_executors()
    fleet.wait_batches(job, more=5, timeout_s=PATIENCE_S)
    wait_until(lambda: not before & set(cluster.running()), PATIENCE_S, "the lost pod to go", period_s=1.0)
    cluster.stop("apiserver")
    gone_at_s = time.monotonic()
    try:
        fleet.wait_batches(job, more=5, timeout_s=PATIENCE_S)
        wait_until(lambda: time.monotonic() - gone_at_s > OUTAGE_S, 2 * OUTAGE_S, "the outage", period_s=1.0)
        fleet.wait_batches(job, more=2, timeout_s=PATIENCE_S)
    finally:
        cluster.start("apiserver")
    cluster.wait_ready()
    fleet.wait_batches(job, more=3, timeout_s=PATIENCE_S)
    assert fleet.show(job)["attempt"] == 1
    cancel(fleet, cluster, job)


def test_a_driver_that_dies_with_its_shim_leaves_nothing_and_the_lease_says_the_bound(
    fleet: SparkFleet, cluster: KubernetesCluster
) -> None:
    job = "alone"
    fleet.submit(job, cluster="k8s")
    fleet.wait_batches(job)
    fleet.signal(fleet.process(job, SHIM), signal.SIGKILL)
    fleet.wait_batch_of(job, 2)
    wait_only(cluster, uid_of(fleet, job), 2)
    assert_bound_in_lease(fleet, job)
    cancel(fleet, cluster, job)


def test_pods_that_find_no_node_are_waited_for(fleet: SparkFleet, cluster: KubernetesCluster) -> None:
    job = "nodeless"
    with cluster.cordoned():
        fleet.submit(job, cluster="k8s")
        wait_waiting(fleet, job, "k8s", "Unschedulable: 0/1 nodes are available", PATIENCE_S)
        outlast(fleet, job, WAITING_S)
    assert_went_on(fleet, job)
    cancel(fleet, cluster, job)


def test_an_image_that_is_not_there_is_told(fleet: SparkFleet, cluster: KubernetesCluster) -> None:
    """No time mends that, but the words say what does; and a job that waits for good leaves nothing when it is cancelled."""
    job = "imageless"
    fleet.submit(job, cluster="k8s", conf={"spark.kubernetes.container.image": ABSENT_IMAGE})
    wait_waiting(fleet, job, "k8s", f'ErrImageNeverPull: Container image "{ABSENT_IMAGE}"', PATIENCE_S)
    outlast(fleet, job, WAITING_S)
    cancel(fleet, cluster, job)


def test_every_manifest_is_accepted(cluster: KubernetesCluster) -> None:
    for manifest in sorted(RIGHTS.parent.glob("*.yaml")):
        said = cluster.kubectl("-n", NAMESPACE, "apply", "--dry-run=server", "-f", str(manifest))
        assert said.count("(server dry run)") == manifest.read_text().count("\nkind: ")


def test_the_rights_are_the_least(cluster: KubernetesCluster) -> None:
    account = f"--as=system:serviceaccount:{NAMESPACE}:spark-driver"
    for words in (
        ("list", "secrets"),
        ("get", "configmaps"),
        ("patch", "pods"),
        ("create", "pods", "--subresource=exec"),
    ):
        assert cluster.can("-n", NAMESPACE, *words, account) == "no", words
    assert cluster.can("-n", "default", "list", "pods", account) == "no"
    assert cluster.can("-n", NAMESPACE, "deletecollection", "configmaps", account) == "yes"


def test_doctor_runs_a_tiny_application_there_and_leaves_nothing(
    fleet: SparkFleet, cluster: KubernetesCluster
) -> None:
    assert_doctor_finds_all_well(fleet)
    wait_nothing_left(cluster)


@pytest.mark.netns
def test_tasks_of_a_driver_whose_host_is_cut_off_end_within_the_bound_and_what_it_leaves_is_deleted(
    cluster: KubernetesCluster, tmp_path: Path
) -> None:
    """Pods and ConfigMap of a lost host stay for good, until somebody deletes them."""
    uid, api = "0000000000ab-0000cdef", cluster.master.removeprefix("k8s://https://")
    volume = "spark.kubernetes.executor.volumes.hostPath.beats"
    written = {f"{volume}.{what}.path": str(tmp_path) for what in ("mount", "options")}
    settings = cluster.settings(**CONF, **written)
    with Namespace() as lost, Proxy(api, cluster.address) as proxy:
        lost.reach(cluster.subnet)
        there = {**settings, "master": f"k8s://https://{proxy.address}", "driver_host": lost.address}
        clusters = {"k8s": ClusterSettings.model_validate(there)}
        spec = on_cluster(JobSpec.model_validate(ZOMBIE_SPEC), clusters)
        conf = {**spec.conf, **pod_properties("r1", uid, 1)}
        with unsupervised(tmp_path, spec.master, conf, lost=lost, timeout_s=PATIENCE_S) as beats:
            first = cluster.executor_pids(lost.address)
            lost.cut()
            cut_at_s = time.clock_gettime(time.CLOCK_BOOTTIME)
        assert first and first <= cluster.executor_pids(lost.address), "nobody told the executor"
        wait_until(
            lambda: not cluster.executor_pids(lost.address), 600.0, "the executor to end", period_s=0.5
        )
        gone_at_s = time.clock_gettime(time.CLOCK_BOOTTIME)
    last_at_s = float(beats.read_text().split()[-1])
    wait_until(lambda: not cluster.running(), PATIENCE_S, "the API server to know", period_s=0.5)
    left = Counter(pod["status"]["phase"] for pod in cluster.pods())
    print(
        f"last write {last_at_s - cut_at_s:.1f} s, executor gone {gone_at_s - cut_at_s:.1f} s after the cut; "
        f"left: pods {dict(left)}, {len(cluster.config_maps())} ConfigMap"
    )
    assert left and cluster.config_maps()
    assert last_at_s - cut_at_s <= outlive_s({})
    assert 0.0 < gone_at_s - cut_at_s <= outlive_s({})
    here = ClusterSettings.model_validate(settings)
    assert not KubernetesClient("k8s", here, "r2").living(30.0), "another registry's"
    client = KubernetesClient("k8s", here, "r1")
    end_as_of_nobody(client, uid, 1, lambda: wait_nothing_left(cluster))
