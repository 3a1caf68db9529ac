"""Says by what the pods and ConfigMaps of one attempt are found on Kubernetes. It is pure.

Spark puts the labels of ``spark.kubernetes.executor.label.*`` on executor pods only. Their ConfigMap has just the
application id (label ``spark-app-selector``), and it stays when a driver is killed. So the application id of an attempt is
given, by ``spark.app.id``, and says whose it is: then a ConfigMap is found whose pods are gone.
"""

from __future__ import annotations

import re
from typing import Final

UID_LABEL: Final = "spark-supervisor/job-uid"
ATTEMPT_LABEL: Final = "spark-supervisor/attempt"
APPLICATION_LABEL: Final = "spark-app-selector"
ROLE_LABEL: Final = "spark-role"
EXECUTOR_ROLE: Final = "executor"
APPLICATION_ID: Final = "spark.app.id"
LABEL_PROPERTY: Final = "spark.kubernetes.executor.label."

_VALUE: Final = re.compile(r"[A-Za-z0-9]([A-Za-z0-9_.-]{0,61}[A-Za-z0-9])?")
_APPLICATION: Final = re.compile(r"spark-([a-z0-9]+-[0-9a-f]+)-([1-9]\d{0,9})")
_ATTEMPT: Final = re.compile(r"[1-9]\d{0,9}")


def tag_properties(uid: str, attempt: int) -> dict[str, str]:
    """Returns the properties by which what a driver of this attempt makes on Kubernetes is found again."""
    return {
        f"{LABEL_PROPERTY}{UID_LABEL}": uid,
        f"{LABEL_PROPERTY}{ATTEMPT_LABEL}": str(attempt),
        APPLICATION_ID: application_id(uid, attempt),
    }


def application_id(uid: str, attempt: int) -> str:
    """Returns the application id of an attempt; Spark makes a label's value of it, which has at most 63 characters."""
    return f"spark-{uid}-{attempt}"


def attempt_of_application(application: str) -> tuple[str, int] | None:
    """Returns uid and attempt of an application id that ``application_id`` has made, or None for any other."""
    match = _APPLICATION.fullmatch(application)
    return None if match is None else (match[1], int(match[2]))


def attempt_of_labels(labels: dict[str, str]) -> tuple[str, int] | None:
    """Returns uid and attempt of a pod with ``labels``, or None if it is of no attempt."""
    uid, attempt = labels.get(UID_LABEL, ""), labels.get(ATTEMPT_LABEL, "")
    return (uid, int(attempt)) if uid and _ATTEMPT.fullmatch(attempt) else None


def is_value(text: str) -> bool:
    """Returns whether ``text`` can be the value of a label, so that a selector with it is what was meant."""
    return _VALUE.fullmatch(text) is not None
