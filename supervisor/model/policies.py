"""Says which supervisors judge jobs by which policy, and which of them have refused a job. It is pure.

A policy is known by ``Member.policy_sha256``. A version of the software that judges by none leaves that empty: it is not
counted here.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from supervisor.model.records import POLICY_DIGITS, Cause, JobRef, Member, Ownership, version_of
from supervisor.model.requirements import required_of

_SHOWN_DIGITS = 8


def by_policy(members: Iterable[Member]) -> dict[str, list[str]]:
    """Returns the ids of the supervisors by the policy that they have."""
    found: dict[str, list[str]] = {}
    for member in sorted(members, key=lambda each: each.id):
        if member.policy_sha256:
            found.setdefault(member.policy_sha256, []).append(member.id)
    return found


def policies_text(hosts: Mapping[str, list[str]]) -> str:
    """Returns who has which policy, for people."""
    return "; ".join(f"{policy[:_SHOWN_DIGITS]} on {', '.join(ids)}" for policy, ids in sorted(hosts.items()))


def refused_policies(job: JobRef, own: Ownership) -> tuple[str, ...]:
    """Returns the policies that refuse ``job`` as it is now. A new revision, ``restart`` and ``resume`` begin anew; ``move``
    does not."""
    moves = job.move_in_force is not None and (own.uid, own.revision) == (job.uid, job.revision)
    is_of = own.refused_of == version_of(job) or (moves and own.refused_of == version_of(own))
    return own.refused_by if is_of else ()


def refuses(member: Member, job: JobRef, own: Ownership) -> bool:
    """Says whether the policy that ``member`` has now has refused ``job`` as it is now."""
    digits = member.policy_sha256[:POLICY_DIGITS]
    return bool(digits) and digits in refused_policies(job, own)


def why_refused_everywhere(job: JobRef, own: Ownership, members: Iterable[Member]) -> str | None:
    """Returns key and rule, as far as they are still known, if the policy of each of ``members`` has refused ``job``; else
    None, also if there are none. ``members`` are those that have what it requires. It is judged anew at each look: a
    host with another policy ends it."""
    if not refused_policies(job, own):
        return None
    there = tuple(members)
    if not there or not all(refuses(member, job, own) for member in there):
        return None
    said = (entry.detail for entry in reversed(own.history) if entry.event == Cause.POLICY.value)
    why = own.reason if own.cause is Cause.POLICY and own.reason else next(said, "see its history")
    required = required_of(job.terms)
    which = f" where {', '.join(required)} is" if required else ""
    return f"refused by the policy of every host{which}: {why}"
