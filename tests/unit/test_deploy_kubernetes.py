"""The manifests of deploy/kubernetes: the rights are the least, and what they say of the product is true."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from supervisor.settings.file import Settings
from supervisor.settings.sections import validated

PLACE = Path(__file__).parents[2] / "deploy" / "kubernetes"


def documents(name: str) -> list[dict[str, Any]]:
    return [each for each in yaml.safe_load_all((PLACE / name).read_text()) if each]


def one(name: str, kind: str) -> dict[str, Any]:
    (found,) = (each for each in documents(name) if each["kind"] == kind)
    return found


def test_drivers_may_do_nothing_but_with_pods_and_config_maps_of_their_namespace() -> None:
    kinds = [each["kind"] for each in documents("executors.yaml")]
    assert kinds == ["ServiceAccount", "Secret", "Role", "RoleBinding"]
    rules = one("executors.yaml", "Role")["rules"]
    assert [(rule["apiGroups"], rule["resources"], set(rule["verbs"])) for rule in rules] == [
        ([""], ["pods"], {"create", "get", "list", "watch", "delete", "deletecollection"}),
        ([""], ["configmaps"], {"create", "list", "delete", "deletecollection"}),
    ]
    account = one("executors.yaml", "ServiceAccount")["metadata"]["name"]
    assert one("executors.yaml", "RoleBinding")["subjects"] == [{"kind": "ServiceAccount", "name": account}]
    annotations = one("executors.yaml", "Secret")["metadata"]["annotations"]
    assert annotations == {"kubernetes.io/service-account.name": account}


def test_the_settings_in_the_manifest_are_valid() -> None:
    body = yaml.safe_load(one("supervisors.yaml", "ConfigMap")["data"]["supervisor.yaml"])
    settings = validated(Settings, body, "supervisors.yaml")
    assert settings.clusters["here"].kind == "kubernetes"


def test_a_pod_has_the_time_to_stop_its_drivers_and_fits_its_budget() -> None:
    stateful = one("supervisors.yaml", "StatefulSet")["spec"]
    labels = stateful["template"]["metadata"]["labels"]
    assert stateful["selector"]["matchLabels"] == labels
    assert one("supervisors.yaml", "Service")["spec"]["selector"] == labels
    budget = one("supervisors.yaml", "PodDisruptionBudget")["spec"]
    assert budget == {"maxUnavailable": 1, "selector": {"matchLabels": labels}}
    pod = stateful["template"]["spec"]
    assert pod["terminationGracePeriodSeconds"] >= 30 + 15
    assert pod["serviceAccountName"] == one("executors.yaml", "ServiceAccount")["metadata"]["name"]
    assert stateful["serviceName"] == one("supervisors.yaml", "Service")["metadata"]["name"]


@pytest.mark.parametrize("name", ["executors.yaml", "supervisors.yaml"])
def test_no_namespace_and_no_registry_is_fixed(name: str) -> None:
    assert all("namespace" not in each["metadata"] for each in documents(name))
    pods = [each["spec"]["template"]["spec"] for each in documents(name) if each["kind"] == "StatefulSet"]
    images = [container["image"] for pod in pods for container in pod["containers"]]
    assert all("/" not in image and ":" not in image for image in images)
