"""Names the driver whose application a cluster holds: tags of registry, job and attempt (protocol §7.8). It is pure.

YARN takes at most 10 tags of 100 ASCII characters, and keeps them in lower case. A tag is matched as a whole, so each
question has one of its own: what is there of this registry, and what is there of this job. The third names the attempt.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from supervisor.model.launch import NO_ATTEMPT
from supervisor.model.master import ClusterKind
from supervisor.model.pod_labels import APPLICATION_ID, LABEL_PROPERTIES, NamedAttempt, pod_properties

YARN_TAGS: Final = "spark.yarn.tags"
OWN_TAGS_MAX: Final = 7
"""YARN takes 10 tags of an application, and three are needed here."""
PREFIX: Final = "spark-supervisor-"
_REGISTRY, _JOB, _ATTEMPT = f"{PREFIX}registry-", f"{PREFIX}job-", f"{PREFIX}attempt-"
_DIGITS_MAX: Final = 10


def registry_tag(registry: str) -> str:
    """Returns the tag of all applications of the registry whose id (``Cluster.id``) is ``registry``."""
    return f"{_REGISTRY}{registry}".lower()


def job_tag(uid: str) -> str:
    """Returns the tag of all applications of the job ``uid``."""
    return f"{_JOB}{uid}".lower()


def tags_of(registry: str, uid: str, attempt: int) -> tuple[str, ...]:
    """Returns the tags of the driver of this attempt."""
    return registry_tag(registry), job_tag(uid), f"{_ATTEMPT}{uid}-{attempt}".lower()


def tagged_attempt(tags: Iterable[str], registry: str) -> NamedAttempt | None:
    """Returns which attempt of ``registry`` has these tags, or None if they are not exactly those of one attempt."""
    ours = {tag.strip().lower() for tag in tags if tag.strip().lower().startswith(PREFIX)}
    attempts = [tag.removeprefix(_ATTEMPT) for tag in ours if tag.startswith(_ATTEMPT)]
    if len(attempts) != 1:
        return None
    uid, _, number = attempts[0].rpartition("-")
    if not uid or not number.isascii() or not number.isdecimal() or len(number) > _DIGITS_MAX:
        return None
    found = NamedAttempt(uid, int(number))
    return found if ours == set(tags_of(registry, *found)) and found.attempt > NO_ATTEMPT else None


def naming_properties(
    kind: ClusterKind | None, registry: str, uid: str, attempt: int, conf: Mapping[str, str]
) -> dict[str, str]:
    """Returns the properties by which a cluster of ``kind`` knows whose driver it serves. The job's own tags, in
    ``conf``, stay. There are none before there is an attempt: a prepared driver gets them when its barrier opens."""
    if attempt == NO_ATTEMPT or not registry:
        return {}
    if kind is ClusterKind.KUBERNETES:
        return pod_properties(registry, uid, attempt)
    if kind is not ClusterKind.YARN:
        return {}
    own = [tag.strip() for tag in conf.get(YARN_TAGS, "").split(",")]
    kept = [tag for tag in own if tag and not tag.lower().startswith(PREFIX)]
    return {YARN_TAGS: ",".join((*kept, *tags_of(registry, uid, attempt)))}


NAMING_KEYS: Final = (YARN_TAGS, *LABEL_PROPERTIES, APPLICATION_ID)
"""These properties name the attempt, so they differ between a prepared driver and the launch that is handed to it."""
