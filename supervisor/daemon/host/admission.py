"""Judges a job by the policy of this host, whatever the leader's says, before anything of it is started here.

Called by ``launcher``. A refusal by policy (``Cause.POLICY``) is one that each host with this policy would give
(``spec.policy_judge``); where a link of this host leads is this host's matter.
"""

from __future__ import annotations

import os

from supervisor.clients.signatures import Signers
from supervisor.model.location import normalise
from supervisor.model.records import Assignment, Cause
from supervisor.settings.file import Settings
from supervisor.settings.policy import PolicySettings
from supervisor.spark.refusal import Refused
from supervisor.spec.job import JobSpec
from supervisor.spec.on_cluster import on_cluster, why_not_here
from supervisor.spec.policy_judge import complaints, with_forced
from supervisor.spec.resource_bounds import bounded
from supervisor.spec.signed import signed_text
from supervisor.spec.site_policy import ANYWHERE, site_policy


def admitted(spec: JobSpec, settings: Settings, host: str) -> JobSpec:
    """Returns ``spec`` as it is started here: with the properties that the operator sets, and on the cluster that it names.
    Raises Refused."""
    policy = settings.policy
    found = complaints(spec, policy, settings.store, settings.spark.pythons)
    if found:
        more = f" (and {len(found) - 1} more)" if len(found) > 1 else ""
        raise Refused(Cause.POLICY, f"{found[0].what}{more} (on {host})", found[0].remedy)
    why = _why_no_directory(spec.checkpoint, policy)
    if why is not None:
        raise Refused(Cause.BAD_CHECKPOINT, f"{why} (on {host})")
    lacking = why_not_here(spec, settings.clusters)
    if lacking is not None:
        raise Refused(Cause.POLICY, f"{lacking.what} (on {host})", lacking.remedy)
    return as_started(spec, settings)


def as_started(spec: JobSpec, settings: Settings) -> JobSpec:
    """Returns ``spec`` with what this host gives it: the cluster that it names, the properties that the operator sets,
    and the limits of a job that asks for none. A host that no longer has the cluster gives it only those properties."""
    is_here = why_not_here(spec, settings.clusters) is None
    placed = on_cluster(spec, settings.clusters) if is_here else spec
    return bounded(with_forced(placed, settings.policy.conf), settings.policy.resources.max)


def require_signed(given: Assignment, cluster: str, signers: Signers, host: str) -> None:
    """Raises Refused if the policy asks for a signature, and none of its signers has signed that the job of this name in
    this cluster has this very spec. It is asked before anything of the spec is read."""
    why = signers.why_not(signed_text(cluster, given.name, given.spec.sha256), given.spec.signature)
    if why is not None:
        remedy = f"apply its spec with --sign-with, by a key of policy.submit_signers of {host}"
        raise Refused(
            Cause.POLICY, f"spec of {given.name}: policy.submit_signers refuses it: {why} (on {host})", remedy
        )


def _why_no_directory(location: str | None, policy: PolicySettings) -> str | None:
    """Returns why the directory at ``location``, by its real path, is no place for a checkpoint, or None."""
    if location is None or ANYWHERE in policy.checkpoints:
        return None
    place = normalise(location)
    if not place.startswith("file://"):
        return None
    return site_policy(policy).why_no_checkpoint(f"file://{os.path.realpath(place.removeprefix('file://'))}")
