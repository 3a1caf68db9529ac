"""A spec names a cluster of its host: what the driver gets, and where it is refused."""

from __future__ import annotations

from pathlib import Path

import pytest
from pydantic import ValidationError

from supervisor.errors import InvalidInput
from supervisor.model.executors import INTERVAL, TIMEOUT
from supervisor.model.records import PrepareLevel
from supervisor.settings.clusters import ClusterSettings
from supervisor.settings.policy import PolicySettings
from supervisor.spec.job import JobSpec, canonical_json, parse_spec
from supervisor.spec.on_cluster import ending_properties, on_cluster, why_not_here

PROD = ClusterSettings(
    master="spark://m1:7077,m2:7077", conf={"spark.cores.max": "4", "spark.eventLog.enabled": "true"}
)


def spec(text: str = "") -> JobSpec:
    return parse_spec(f"name: j\napplication: j.py\ncheckpoint: s3a://bucket/c\n{text}", "j.yaml")


def test_master_and_properties_are_those_of_the_cluster_and_the_jobs_own_come_first() -> None:
    given = spec("cluster: prod\nconf: {spark.cores.max: 2}\n")
    started = on_cluster(given, {"prod": PROD})
    assert started.master == "spark://m1:7077,m2:7077"
    assert started.conf == {"spark.cores.max": "2", "spark.eventLog.enabled": "true"}
    assert on_cluster(spec(), {"prod": PROD}) == spec()


def test_the_address_for_executors_is_that_of_the_host_unless_the_job_says() -> None:
    here = PROD.model_copy(update={"driver_host": "10.0.0.7"})
    assert on_cluster(spec("cluster: prod\n"), {"prod": here}).conf["spark.driver.host"] == "10.0.0.7"
    own = spec("cluster: prod\nconf: {spark.driver.host: edge}\n")
    assert on_cluster(own, {"prod": here}).conf["spark.driver.host"] == "edge"


def test_python_of_the_spec_comes_before_that_of_the_cluster() -> None:
    conf = {"spark.pyspark.python": "/c/python", "spark.pyspark.driver.python": "/c/driver", "spark.x": "1"}
    here = {"prod": PROD.model_copy(update={"conf": conf})}
    assert on_cluster(spec("cluster: prod\npython: {interpreter: /opt/python}\n"), here).conf == {
        "spark.x": "1"
    }
    assert on_cluster(spec("cluster: prod\n"), here).conf == conf


def test_a_host_without_it_says_which_it_has() -> None:
    given = spec("cluster: test\n")
    said = why_not_here(given, {"prod": PROD})
    assert said is not None
    assert said.what == "cluster: test is no cluster of this host's supervisor.yaml (it has prod)"
    assert "it has none" in str(why_not_here(given, {}))
    assert why_not_here(spec("cluster: prod\n"), {"prod": PROD}) is None
    assert why_not_here(spec(), {}) is None


@pytest.mark.parametrize(
    "text", ["cluster: prod\n", "master: spark://m1:7077\n", "master: local-cluster[1,1,512]\n"]
)
def test_executors_elsewhere_end_soon_after_their_driver(text: str) -> None:
    assert spec(text).executors_outlive_s() == 90.0
    assert ending_properties(spec(text))[INTERVAL] == "2s"


def test_a_local_job_has_none() -> None:
    assert spec().executors_outlive_s() == 0.0
    assert ending_properties(spec()) == {}


def test_a_prepared_driver_holds_no_executors() -> None:
    assert spec("update: {prepare: application}\n").prepare_level() is PrepareLevel.APPLICATION
    assert spec("cluster: prod\nupdate: {prepare: application}\n").prepare_level() is PrepareLevel.SESSION
    assert spec("cluster: prod\nupdate: {prepare: 'off'}\n").prepare_level() is None
    with pytest.raises(InvalidInput, match="application would hold executors"):
        spec("cluster: prod\nstandby: {level: application}\n")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("cluster: prod\nmaster: spark://m1:7077\n", "master and cluster are both given"),
        ("cluster: Prod\n", "cluster"),
        (
            "cluster: prod\nconf: {spark.executor.heartbeatInterval: 20s, spark.network.timeout: 15s}\n",
            "not above",
        ),
    ],
)
def test_what_cannot_be_is_refused_at_submit(text: str, words: str) -> None:
    with pytest.raises(InvalidInput, match=words):
        spec(text)


def test_a_spec_without_it_is_stored_as_before() -> None:
    assert "cluster" not in canonical_json(spec()).decode()
    assert '"cluster":"prod"' in canonical_json(spec("cluster: prod\n")).decode()


@pytest.mark.parametrize("key", [INTERVAL, TIMEOUT])
def test_a_host_does_not_change_the_bound(key: str) -> None:
    with pytest.raises(ValidationError, match="has to follow from the spec alone"):
        ClusterSettings(master="spark://m:7077", conf={key: "60s"})
    with pytest.raises(ValidationError, match="has to follow from the spec alone"):
        PolicySettings.model_validate({"conf": {"forced": {key: "60s"}}})


def test_a_host_moves_the_namespace_by_its_own_key_only() -> None:
    """Left-overs are looked for in the namespace of the cluster."""
    moved = {"spark.kubernetes.namespace": "elsewhere"}
    with pytest.raises(ValidationError, match="use namespace of the entry in clusters"):
        PolicySettings.model_validate({"conf": {"forced": moved}})
    with pytest.raises(ValidationError, match="use namespace of the entry in clusters"):
        ClusterSettings(master="k8s://https://x:1", conf=moved)


@pytest.mark.parametrize("master", ["yarn-client", "local[2]", "k8s://https://x", "spark://m", "mesos://m:1"])
def test_only_masters_that_are_supported_are_clusters(master: str) -> None:
    with pytest.raises(ValidationError, match="is no master of a cluster that is supported here"):
        ClusterSettings(master=master)


def test_a_driver_on_yarn_finds_its_cluster_and_its_queue_and_is_tried_once() -> None:
    yarn = ClusterSettings(master="yarn", conf_dir=Path("/etc/hadoop/conf"), queue="streaming")
    started = on_cluster(spec("cluster: y\nenv: {TZ: UTC}\n"), {"y": yarn})
    assert started.env == {"TZ": "UTC", "HADOOP_CONF_DIR": "/etc/hadoop/conf"}
    assert started.conf == {
        "spark.yarn.queue": "streaming",
        "spark.yarn.maxAppAttempts": "1",
        "spark.executor.failuresValidityInterval": "1h",
    }


def test_a_driver_on_kubernetes_has_namespace_image_and_credentials() -> None:
    pods = ClusterSettings(
        master="k8s://https://api:6443",
        namespace="spark",
        image="registry/spark:4",
        ca="/ca.crt",
        token_file="/t",
    )
    started = on_cluster(spec("cluster: k\n"), {"k": pods})
    assert started.conf == {
        "spark.kubernetes.namespace": "spark",
        "spark.kubernetes.container.image": "registry/spark:4",
        "spark.kubernetes.authenticate.caCertFile": "/ca.crt",
        "spark.kubernetes.authenticate.oauthTokenFile": "/t",
        "spark.kubernetes.executor.useDriverPodIP": "false",
        "spark.kubernetes.driver.service.deleteOnTermination": "false",
        "spark.kubernetes.driver.ownPersistentVolumeClaim": "false",
        "spark.executor.failuresValidityInterval": "1h",
    }


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"master": "yarn"}, "conf_dir is missing"),
        ({"master": "yarn", "conf_dir": "etc"}, "must be an absolute path"),
        ({"master": "yarn", "conf_dir": "/etc", "image": "x"}, "image is for a cluster of kind kubernetes"),
        ({"master": "spark://m:7077", "queue": "x"}, "queue is for a cluster of kind yarn"),
    ],
)
def test_keys_of_a_cluster_are_of_its_kind(given: dict[str, str], words: str) -> None:
    with pytest.raises(ValidationError, match=words):
        ClusterSettings.model_validate(given)


PODS = ClusterSettings(master="k8s://https://api:6443", namespace="spark", driver_host="10.0.0.7")


def test_on_kubernetes_executors_are_told_the_drivers_host_and_old_losses_are_forgotten() -> None:
    conf = on_cluster(spec("cluster: pods\n"), {"pods": PODS}).conf
    assert conf["spark.driver.host"] == "10.0.0.7"
    assert conf["spark.kubernetes.executor.useDriverPodIP"] == "false"
    assert conf["spark.executor.failuresValidityInterval"] == "1h"
    assert conf["spark.kubernetes.namespace"] == "spark"
    own = spec("cluster: pods\nconf: {spark.executor.failuresValidityInterval: 2h}\n")
    assert on_cluster(own, {"pods": PODS}).conf["spark.executor.failuresValidityInterval"] == "2h"
    of_cluster = PODS.model_copy(update={"conf": {"spark.executor.failuresValidityInterval": "3h"}})
    assert (
        on_cluster(spec("cluster: pods\n"), {"pods": of_cluster}).conf[
            "spark.executor.failuresValidityInterval"
        ]
        == "3h"
    )


def test_a_job_in_another_namespace_than_its_clusters_is_refused() -> None:
    elsewhere = spec("cluster: pods\nconf: {spark.kubernetes.namespace: mine}\n")
    said = why_not_here(elsewhere, {"pods": PODS})
    assert said is not None
    assert (
        said.what
        == "conf spark.kubernetes.namespace: mine is not the namespace of cluster pods on this host (spark)"
    )
    unnamed = PODS.model_copy(update={"namespace": None})
    assert "(default)" in str(why_not_here(elsewhere, {"pods": unnamed}))
    same = spec("cluster: pods\nconf: {spark.kubernetes.namespace: spark}\n")
    assert why_not_here(same, {"pods": PODS}) is None
    assert why_not_here(elsewhere.model_copy(update={"cluster": "prod"}), {"prod": PROD}) is None


def test_tags_that_yarn_would_not_take_are_refused() -> None:
    yarn = {"y": ClusterSettings(master="yarn", conf_dir=Path("/etc/hadoop/conf"))}
    assert (
        why_not_here(spec(f"cluster: y\nconf: {{spark.yarn.tags: '{','.join('abcdefg')}'}}\n"), yarn) is None
    )
    refused = why_not_here(spec(f"cluster: y\nconf: {{spark.yarn.tags: '{','.join('abcdefgh')}'}}\n"), yarn)
    assert refused is not None
    assert refused.what == "conf spark.yarn.tags has 8 tags; YARN takes 10, of which 3 are the supervisor's"
