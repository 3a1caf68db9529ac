"""Says by what the pods and ConfigMaps of one attempt are found on Kubernetes. It is pure.

Spark puts the labels of ``spark.kubernetes.executor.label.*`` on executor pods only. Their ConfigMap has just the
application id (label ``spark-app-selector``), and it stays when a driver is killed. So the application id of an attempt is
given, by ``spark.app.id``, and says whose it is: then a ConfigMap is found whose pods are gone. It takes the place of one in
the job's ``conf``, which all attempts would share, and so their ConfigMaps.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final, NamedTuple

REGISTRY_LABEL: Final = "spark-supervisor/registry"
UID_LABEL: Final = "spark-supervisor/job-uid"
ATTEMPT_LABEL: Final = "spark-supervisor/attempt"
APPLICATION_LABEL: Final = "spark-app-selector"
ROLE_LABEL: Final = "spark-role"
EXECUTOR_ROLE: Final = "executor"

APPLICATION_ID: Final = "spark.app.id"
_PROPERTY: Final = "spark.kubernetes.executor.label."
LABEL_PROPERTIES: Final = tuple(f"{_PROPERTY}{label}" for label in (REGISTRY_LABEL, UID_LABEL, ATTEMPT_LABEL))

_VALUE: Final = re.compile(r"[A-Za-z0-9]([A-Za-z0-9_.-]{0,61}[A-Za-z0-9])?")
_APPLICATION: Final = re.compile(r"spark-([a-z0-9]{1,16})-([a-z0-9][a-z0-9-]{0,30})-([1-9]\d{0,9})")
_ATTEMPT: Final = re.compile(r"[1-9]\d{0,9}")
_REGISTRY_IN_ID: Final = 16
"""A label's value has 63 characters at most: so many of the registry's id fit into an application id."""


class NamedAttempt(NamedTuple):
    """Names an attempt as labels and tags on a cluster do: ``uid`` is in lower case."""

    uid: str
    attempt: int


def pod_properties(registry: str, uid: str, attempt: int) -> dict[str, str]:
    """Returns the properties by which what a driver of this attempt makes on Kubernetes is found again. ``registry`` is the
    id of the registry (``Cluster.id``)."""
    labels = dict(zip(LABEL_PROPERTIES, (registry, uid.lower(), str(attempt)), strict=True))
    return {**labels, APPLICATION_ID: application_id(registry, uid, attempt)}


def application_id(registry: str, uid: str, attempt: int) -> str:
    """Returns the application id of an attempt, which is the value of a label."""
    return f"spark-{registry[:_REGISTRY_IN_ID]}-{uid.lower()}-{attempt}"


def attempt_of_application(application: str, registry: str) -> NamedAttempt | None:
    """Returns the attempt of ``registry`` whose application id this is, or None if it is of none."""
    match = _APPLICATION.fullmatch(application)
    if match is None or match[1] != registry[:_REGISTRY_IN_ID]:
        return None
    return NamedAttempt(match[2], int(match[3]))


def attempt_of_labels(labels: Mapping[str, str], registry: str) -> NamedAttempt | None:
    """Returns the attempt of ``registry`` to which a pod with ``labels`` belongs, or None if it is of none."""
    uid, attempt = labels.get(UID_LABEL, ""), labels.get(ATTEMPT_LABEL, "")
    if labels.get(REGISTRY_LABEL) != registry or not uid or _ATTEMPT.fullmatch(attempt) is None:
        return None
    return NamedAttempt(uid, int(attempt))


def is_value(text: str) -> bool:
    """Returns whether ``text`` can be the value of a label, so that a selector with it is what was meant."""
    return _VALUE.fullmatch(text) is not None
