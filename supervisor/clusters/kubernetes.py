"""Asks a Kubernetes cluster for the executor pods of attempts, and deletes those that a driver has left.

Pods are found by the labels of ``model.pod_labels``, ConfigMaps by their application id, which says whose they are: so they
are found, too, if their pods are gone. A pod that is being deleted counts as what it was until the cluster has removed it:
on a node that does not answer it goes on running.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Final

from supervisor.clients.kubernetes_api import METADATA_ONLY, ApiServer
from supervisor.clusters.application import Application, ClusterSilent, Stage
from supervisor.errors import Unreachable
from supervisor.model.pod_labels import (
    APPLICATION_LABEL,
    ATTEMPT_LABEL,
    EXECUTOR_ROLE,
    ROLE_LABEL,
    UID_LABEL,
    application_id,
    attempt_of_application,
    attempt_of_labels,
    is_value,
)
from supervisor.settings.clusters import DEFAULT_NAMESPACE, ClusterSettings

MASTER_PREFIX: Final = "k8s://"
SAYS_MAX: Final = 300
ENDED_PHASES: Final = ("Succeeded", "Failed")
UNREMARKABLE: Final = ("ContainerCreating", "PodInitializing")
"""Reasons for which every container waits for a moment."""


@dataclass(slots=True)
class _Held:
    """Collects what is found of one attempt."""

    application: str = ""
    phases: list[str] = field(default_factory=list)
    says: str = ""
    left: list[str] = field(default_factory=list)


class KubernetesClient:
    """Asks one namespace of one cluster, with the token and the authority of its settings."""

    def __init__(self, cluster: ClusterSettings) -> None:
        self._api = ApiServer(cluster.master.removeprefix(MASTER_PREFIX), cluster.ca, cluster.token_file)
        base = f"/api/v1/namespaces/{cluster.namespace or DEFAULT_NAMESPACE}"
        self._pods, self._config_maps = f"{base}/pods", f"{base}/configmaps"

    def applications(self, uid: str, timeout_s: float) -> Sequence[Application]:
        """Returns what is there of attempts of the job ``uid``, the oldest attempt first: pods that wait, run or have ended,
        and ConfigMaps. Raises ClusterSilent."""
        if not is_value(uid):  # no label has it
            return ()
        found: dict[int, _Held] = {}
        deadline_at_s = time.monotonic() + timeout_s
        with _silence_told():
            for pod in self._api.items(self._pods, f"{UID_LABEL}={uid}", deadline_at_s):
                owner = attempt_of_labels(_labels(pod))
                if owner is not None and owner[0] == uid:
                    _add_pod(found.setdefault(owner[1], _Held()), pod)
            role = f"{ROLE_LABEL}={EXECUTOR_ROLE}"
            for each in self._api.items(self._config_maps, role, deadline_at_s, METADATA_ONLY):
                owner = attempt_of_application(_labels(each).get(APPLICATION_LABEL, ""))
                if owner is not None and owner[0] == uid:
                    found.setdefault(owner[1], _Held()).left.append(f"configmap/{_name(each)}")
        return tuple(_application(uid, attempt, found[attempt]) for attempt in sorted(found))

    def end(self, application: Application, timeout_s: float) -> None:
        """Deletes the pods of this attempt, with the grace that each pod has, and its ConfigMaps. Raises ClusterSilent."""
        if not is_value(application.uid) or application.attempt < 1:
            raise ValueError("an application without a job is not ended")
        deadline_at_s = time.monotonic() + timeout_s
        labels = f"{UID_LABEL}={application.uid},{ATTEMPT_LABEL}={application.attempt}"
        ids = {application_id(application.uid, application.attempt), application.id}
        chosen = ",".join(sorted(filter(is_value, ids)))
        with _silence_told():
            self._api.delete_all(self._pods, labels, deadline_at_s)
            role = f"{ROLE_LABEL}={EXECUTOR_ROLE}"
            self._api.delete_all(
                self._config_maps, f"{role},{APPLICATION_LABEL} in ({chosen})", deadline_at_s
            )


@contextmanager
def _silence_told() -> Iterator[None]:
    try:
        yield
    except Unreachable as error:
        raise ClusterSilent(*error.complaint) from None


def _add_pod(held: _Held, pod: Mapping[str, Any]) -> None:
    held.left.append(f"pod/{_name(pod)}")
    held.application = held.application or _labels(pod).get(APPLICATION_LABEL, "")
    status = _mapping(pod.get("status"))
    phase = str(status.get("phase", ""))
    held.phases.append(phase)
    if phase not in (*ENDED_PHASES, "Running"):
        held.says = held.says or _why_waiting(status)


def _application(uid: str, attempt: int, held: _Held) -> Application:
    """Puts together what was found. A pod whose phase is not known is taken for one that runs."""
    living = [phase for phase in held.phases if phase not in ENDED_PHASES]
    stage = Stage.ENDED
    if living:
        stage = Stage.WAITING if all(phase == "Pending" for phase in living) else Stage.RUNNING
    return Application(
        id=held.application or application_id(uid, attempt),
        uid=uid,
        attempt=attempt,
        stage=stage,
        says=held.says if stage is Stage.WAITING else "",
        left=tuple(sorted(held.left)),
    )


def _why_waiting(status: Mapping[str, Any]) -> str:
    """Returns why a pod does not run yet, in the words of the cluster: what its scheduler or its kubelet says."""
    for condition in _mappings(status.get("conditions")):
        if condition.get("type") == "PodScheduled" and condition.get("status") == "False":
            return _said(condition)
    for container in _mappings(status.get("containerStatuses")):
        waiting = _mapping(_mapping(container.get("state")).get("waiting"))
        if waiting and waiting.get("reason") not in UNREMARKABLE:
            return _said(waiting)
    return ""


def _said(words: Mapping[str, Any]) -> str:
    reason, message = str(words.get("reason") or ""), str(words.get("message") or "")
    text = ": ".join(filter(None, (reason, message)))
    return "".join(each if each.isprintable() else " " for each in text)[:SAYS_MAX]


def _name(item: Mapping[str, Any]) -> str:
    return str(_mapping(item.get("metadata")).get("name", ""))[:253]


def _labels(item: Mapping[str, Any]) -> dict[str, str]:
    labels = _mapping(_mapping(item.get("metadata")).get("labels"))
    return {str(name): str(value) for name, value in labels.items()}


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}


def _mappings(value: Any) -> list[Mapping[str, Any]]:
    return [each for each in value if isinstance(each, dict)] if isinstance(value, list) else []
