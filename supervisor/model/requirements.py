"""Says what a job requires of its host, and what a host lacks of that. It is pure.

A job requires labels (``placement.require``) and perhaps a Spark by its name in ``spark.versions``. A host says in its
record which it has. One whose software knows of no versions says nothing, and has none.
"""

from __future__ import annotations

from collections.abc import Iterable

from supervisor.model.records import Member, SchedulingSpec


def required_of(terms: SchedulingSpec) -> tuple[str, ...]:
    """Returns what a host must have, each in words for people."""
    labels = terms.placement.require if terms.placement is not None else ()
    return (*labels, *([spark_in_words(terms.spark)] if terms.spark else []))


def lacked_by(member: Member, terms: SchedulingSpec) -> tuple[str, ...]:
    """Returns what ``member`` lacks of that."""
    labels = terms.placement.require if terms.placement is not None else ()
    lacks = tuple(label for label in labels if label not in member.labels)
    return lacks if has_spark(member, terms) else (*lacks, spark_in_words(terms.spark))


def lacked_by_all(members: Iterable[Member], terms: SchedulingSpec) -> tuple[str, ...]:
    """Returns what none of ``members`` has of that; all of it if each of the things is somewhere, but not together."""
    each_lacks = [set(lacked_by(member, terms)) for member in members]
    required = required_of(terms)
    return tuple(want for want in required if all(want in lacks for lacks in each_lacks)) or required


def has_spark(member: Member, terms: SchedulingSpec) -> bool:
    """Says whether ``member`` has the Spark that the job asks for. Every host has a default one, or refuses the job."""
    return not terms.spark or terms.spark in member.sparks


def spark_in_words(version: str) -> str:
    return f"spark {version} (spark.versions)"
