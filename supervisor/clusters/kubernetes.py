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
from supervisor.clusters.answers import mapping, mappings
from supervisor.clusters.application import Application, ApplicationStage, ClusterSilent
from supervisor.errors import Unreachable
from supervisor.model.pod_labels import (
    APPLICATION_LABEL,
    ATTEMPT_LABEL,
    EXECUTOR_ROLE,
    REGISTRY_LABEL,
    ROLE_LABEL,
    UID_LABEL,
    NamedAttempt,
    application_id,
    attempt_of_application,
    attempt_of_labels,
    is_value,
)
from supervisor.model.records import clip
from supervisor.settings.clusters import DEFAULT_NAMESPACE, ClusterSettings

MASTER_PREFIX: Final = "k8s://"
SAYS_MAX_BYTES: Final = 300
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
    """Asks one namespace of the cluster ``name``, with the token and the authority of its settings, for drivers of the
    registry whose id is ``registry``."""

    def __init__(self, name: str, cluster: ClusterSettings, registry: str) -> None:
        self._name, self._registry = name, registry
        self._api = ApiServer(cluster.master.removeprefix(MASTER_PREFIX), cluster.ca, cluster.token_file)
        base = f"/api/v1/namespaces/{cluster.namespace or DEFAULT_NAMESPACE}"
        self._pods, self._config_maps = f"{base}/pods", f"{base}/configmaps"

    def applications(self, uid: str, timeout_s: float) -> Sequence[Application]:
        """Returns what is there of attempts of the job ``uid``, the oldest attempt first: pods that wait, run or have ended,
        and ConfigMaps. Raises ClusterSilent."""
        if not is_value(uid):  # no label has it
            return ()
        return self._found(f",{UID_LABEL}={uid.lower()}", uid.lower(), timeout_s)

    def living(self, timeout_s: float) -> Sequence[Application]:
        """Returns the same of all jobs of this registry. Raises ClusterSilent."""
        return self._found("", None, timeout_s)

    def end(self, application: Application, timeout_s: float) -> None:
        """Deletes the pods of this attempt, with the grace that each pod has, and its ConfigMaps. Raises ClusterSilent."""
        uid, attempt = application.uid, application.attempt
        if not is_value(uid) or attempt < 1:
            raise ClusterSilent(f"Kubernetes {self._name}: {application.id[:100]!r} is of no attempt")
        deadline_at_s = time.monotonic() + timeout_s
        labels = f"{REGISTRY_LABEL}={self._registry},{UID_LABEL}={uid},{ATTEMPT_LABEL}={attempt}"
        own_id = application_id(
            self._registry, uid, attempt
        )  # never another: other attempts may have that, too
        with self._named_silence():
            self._api.delete_all(self._pods, labels, deadline_at_s)
            of_executors = f"{ROLE_LABEL}={EXECUTOR_ROLE},{APPLICATION_LABEL}={own_id}"
            self._api.delete_all(self._config_maps, of_executors, deadline_at_s)

    def version_where_pods_are_listed(self, timeout_s: float) -> str:
        """Returns the version of the cluster, in words, if its token may list pods. Raises ClusterSilent."""
        deadline_at_s = time.monotonic() + timeout_s
        with self._named_silence():
            version = str(self._api.ask("GET", "/version", {}, deadline_at_s).get("gitVersion", ""))[:40]
            self._api.ask("GET", self._pods, {"limit": "1"}, deadline_at_s, METADATA_ONLY)
        return f"Kubernetes {version} answers, and its token may list pods"

    def _found(self, more: str, uid: str | None, timeout_s: float) -> Sequence[Application]:
        """Returns what is there of the job ``uid``, or of all jobs if it is None. ``more`` is added to the selector of
        pods."""
        found: dict[NamedAttempt, _Held] = {}
        deadline_at_s = time.monotonic() + timeout_s
        with self._named_silence():
            pods = f"{REGISTRY_LABEL}={self._registry}{more}"
            for pod in self._api.items(self._pods, pods, deadline_at_s):
                owner = attempt_of_labels(_labels(pod), self._registry)
                if owner is not None and uid in (None, owner.uid):
                    _add_pod(found.setdefault(owner, _Held()), pod)
            of_executors = f"{ROLE_LABEL}={EXECUTOR_ROLE}"
            for each in self._api.items(self._config_maps, of_executors, deadline_at_s, METADATA_ONLY):
                owner = attempt_of_application(_labels(each).get(APPLICATION_LABEL, ""), self._registry)
                if owner is not None and uid in (None, owner.uid):
                    found.setdefault(owner, _Held()).left.append(f"configmap/{_name(each)}")
        return tuple(self._application(owner, found[owner]) for owner in sorted(found))

    def _application(self, owner: NamedAttempt, held: _Held) -> Application:
        """Puts together what was found. A pod whose phase is not known is taken for one that runs."""
        living = [phase for phase in held.phases if phase not in ENDED_PHASES]
        stage = ApplicationStage.ENDED
        if living:
            stage = (
                ApplicationStage.WAITING
                if all(phase == "Pending" for phase in living)
                else ApplicationStage.RUNNING
            )
        return Application(
            id=held.application or application_id(self._registry, *owner),
            uid=owner.uid,
            attempt=owner.attempt,
            stage=stage,
            says=held.says if stage is ApplicationStage.WAITING else "",
            left=tuple(sorted(held.left)),
        )

    @contextmanager
    def _named_silence(self) -> Iterator[None]:
        try:
            yield
        except Unreachable as error:
            what, remedy = error.complaint
            raise ClusterSilent(f"Kubernetes {self._name}: {what}", remedy) from None


def _add_pod(held: _Held, pod: Mapping[str, Any]) -> None:
    held.left.append(f"pod/{_name(pod)}")
    held.application = held.application or _labels(pod).get(APPLICATION_LABEL, "")
    status = mapping(pod.get("status"))
    phase = str(status.get("phase", ""))
    held.phases.append(phase)
    if phase not in (*ENDED_PHASES, "Running"):
        held.says = held.says or _why_waiting(status)


def _why_waiting(status: Mapping[str, Any]) -> str:
    """Returns why a pod does not run yet, in the words of the cluster: what its scheduler or its kubelet says."""
    for condition in mappings(status.get("conditions")):
        if condition.get("type") == "PodScheduled" and condition.get("status") == "False":
            return _said(condition)
    for container in mappings(status.get("containerStatuses")):
        waiting = mapping(mapping(container.get("state")).get("waiting"))
        if waiting and waiting.get("reason") not in UNREMARKABLE:
            return _said(waiting)
    return ""


def _said(words: Mapping[str, Any]) -> str:
    reason, message = str(words.get("reason") or ""), str(words.get("message") or "")
    return clip(": ".join(filter(None, (reason, message))), SAYS_MAX_BYTES)


def _name(item: Mapping[str, Any]) -> str:
    return str(mapping(item.get("metadata")).get("name", ""))[:253]


def _labels(item: Mapping[str, Any]) -> dict[str, str]:
    labels = mapping(mapping(item.get("metadata")).get("labels"))
    return {str(name): str(value) for name, value in labels.items()}
