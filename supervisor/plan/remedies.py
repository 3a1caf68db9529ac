"""Says what a person can do about a job that does not run: the command to type, and what it does. It is pure.

``plan.explain`` uses it. A remedy is for a person: nothing of it is ever carried out by itself.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from supervisor.model.checkpoint_expectation import BEGINS_ANEW
from supervisor.model.policies import refused_policies
from supervisor.model.records import Cause, JobRef, Lease, Ownership, OwnState, Update
from supervisor.model.spark_session import MARK as UNSUPPORTED_SESSION
from supervisor.model.state import JobState, has_written_here, unnamed_of

PROGRAM = "spark-supervisor"
CORDONED_MAX: Final = 3
"""So many hosts are named that could be uncordoned."""


@dataclass(frozen=True, slots=True)
class Remedy:
    """Describes one remedy. ``command`` is to be typed as it stands, or is None where there is none; ``note``
    says when to use it, or what it does."""

    command: str | None
    note: str


MAKE_ROOM: Final = Remedy(
    None, "make room: suspend or cancel another job, raise supervisor.capacity, or add a supervisor"
)


@dataclass(frozen=True, slots=True)
class MissingHost:
    """Says what no host has of what a job requires: ``labels``, and the name of a Spark, or nothing if one has that.
    ``cordoned`` are the hosts that have all of it, and take nothing new."""

    labels: bool = False
    spark: str = ""
    cordoned: tuple[str, ...] = ()


RUNBOOKS: Final[Mapping[Cause, str]] = MappingProxyType(
    {
        Cause.BAD_CHECKPOINT: "checkpoint",
        Cause.CHECKPOINT_CONFLICT: "checkpoint",
        Cause.NO_ACCESS: "s3",
        Cause.OUT_OF_MEMORY: "oom",
        Cause.STALLED: "stalled",
        Cause.START_TIMED_OUT: "stalled",
        Cause.CLUSTER_TIMED_OUT: "cluster",
    }
)
"""It maps what ended the last attempt to the page of ``docs/runbooks`` that goes through it step by step."""

DAMAGED: Final = "zookeeper-restore"
"""It names the page about records that cannot be read."""


def runbook_of(cause: Cause | None, *, damaged: bool = False) -> tuple[Remedy, ...]:
    """Returns the runbook that fits, if there is one. ``damaged`` is True if a record of the job cannot be
    read, or is missing."""
    page = DAMAGED if damaged else RUNBOOKS.get(cause) if cause is not None else None
    return (
        () if page is None else (Remedy(f"{PROGRAM} docs runbooks/{page}", "goes through it step by step"),)
    )


def _registered_anew(name: str, job: JobRef | None) -> tuple[Remedy, ...]:
    """Returns how a job is registered anew. ``job`` is None if its reference can't be read."""
    cancel = f"{PROGRAM} cancel {name}"
    if job is None:
        kept = "its checkpoint is kept, unless its spec says checkpoint_on_cancel: delete"
        return (Remedy(cancel, f"then submit its spec again; {kept}"),)
    if job.terms.delete_checkpoint:
        return (
            Remedy(
                f"{PROGRAM} savepoint create {name}",
                "keeps a copy: a cancel deletes its checkpoint, as its spec asks",
            ),
            Remedy(cancel, "then submit its spec again, with --from-savepoint ID"),
        )
    return (Remedy(cancel, "then submit its spec again; its checkpoint is kept"),)


def _of_checkpoint(name: str, reason: str) -> tuple[Remedy, ...]:
    """Returns the remedies where the checkpoint is not the one that the job left, or the application does not go on with
    it."""
    if BEGINS_ANEW in reason:
        return (
            Remedy(
                f"{PROGRAM} apply SPEC.yaml",
                "with an application that gives each query the name or the place that it had",
            ),
            Remedy(
                f"{PROGRAM} checkpoint show {name}", "shows the directories of the queries that were there"
            ),
            Remedy(f"{PROGRAM} resume {name} --accept-fresh-start", "lets it begin from nothing, once"),
        )
    return (
        Remedy(f"{PROGRAM} checkpoint verify {name}", "shows what is there"),
        Remedy(f"{PROGRAM} resume {name}", "after putting the checkpoint back"),
        Remedy(
            f"{PROGRAM} resume {name} --from-savepoint ID",
            f"goes on from a copy of it: see savepoint list {name}",
        ),
        Remedy(f"{PROGRAM} resume {name} --accept-fresh-start", "starts with what is there, once"),
    )


def remedies_of_quarantined(
    name: str, own: Ownership | None, job: JobRef | None = None
) -> tuple[Remedy, ...]:
    """Returns the remedies of a quarantined job. ``own`` and ``job`` are None if they can't be read."""
    if own is not None and job is not None and refused_policies(job, own):
        return (
            Remedy(f"{PROGRAM} apply SPEC.yaml", "with a spec that keeps the rule which the reason names"),
            Remedy(
                None,
                "change policy of supervisor.yaml on a host and restart its supervisor: it starts then",
            ),
            Remedy(f"{PROGRAM} restart {name}", "asks every host again"),
        )
    if own is None or own.state is not OwnState.EXITED or not own.permanent:
        return _registered_anew(name, job)
    if own.cause is Cause.BAD_CHECKPOINT:
        return _of_checkpoint(name, own.reason)
    if UNSUPPORTED_SESSION in own.reason:
        return (
            Remedy(
                f"{PROGRAM} apply SPEC.yaml", "with a spec and an application that ask for no such session"
            ),
        )
    where = f" on {own.host}" if own.host and own.cause is not Cause.BAD_ARTIFACT else ""
    resume = Remedy(f"{PROGRAM} resume {name}", f"after repairing{where} what the reason names")
    if own.cause is Cause.BAD_ARTIFACT:
        return (
            resume,
            Remedy(
                f"{PROGRAM} cancel {name}",
                "if its spec or files are damaged in the store: then submit it again",
            ),
        )
    return (resume,)


def remedies_of_broken_update(name: str, update: Update | None) -> tuple[Remedy, ...]:
    """Returns what undoes ``update`` of the job ``name``, whose target has failed and is not rolled back; None is no such
    update."""
    if update is None:
        return ()
    goes_on = f"revision {update.before.revision} goes on"
    if update.savepoint:
        return (
            Remedy(f"{PROGRAM} suspend {name} --wait", "then the next one"),
            Remedy(
                f"{PROGRAM} rollback {name} --from-savepoint {update.savepoint}",
                f"{goes_on} as it was before the update, from a copy",
            ),
        )
    return (Remedy(f"{PROGRAM} rollback {name}", f"{goes_on} from the same checkpoint"),)


def remedies_of_state(
    name: str,
    state: JobState,
    *,
    paused: bool,
    alone: bool,
    full: bool,
    half: bool = False,
    held: bool = False,
    conflict: bool = False,
    delayed: bool = False,
    unplaceable: MissingHost | None = None,
    cordoned: tuple[str, ...] = (),
) -> tuple[Remedy, ...]:
    """Returns the remedies by ``state``. ``alone`` means that no supervisor is up, ``full`` that none of them
    has room for the job, ``half`` that a query of it has failed, and ``held`` that the leader would do something now.

    ``conflict`` means that its last attempt lost the checkpoint to another writer, ``delayed`` that its host
    can't start it yet, ``unplaceable`` what no host has of what it requires, ``cordoned`` which hosts it could have if
    they were not cordoned.
    """
    logs = Remedy(f"{PROGRAM} logs {name}", "shows what its driver wrote")
    if state is JobState.SUSPENDED:
        return (Remedy(f"{PROGRAM} resume {name}", "runs it again, from its checkpoint"),)
    if unplaceable is not None and not alone and not paused:
        return remedies_of_unplaceable(unplaceable)
    if state is JobState.RUNNING and half:
        return (
            Remedy(f"{PROGRAM} restart {name}", "starts all its queries again, from their checkpoints"),
            logs,
        )
    if paused and (held or state not in (JobState.RUNNING, JobState.STOPPING)):
        return (Remedy(f"{PROGRAM} unpause", "lets the leader act again"),)
    if state in (JobState.RUNNING, JobState.STOPPING):
        return ()
    if alone:
        return (Remedy(f"{PROGRAM} run", "on a host of this cluster: starts a supervisor"),)
    if full:
        return (*remedies_of_cordoned(cordoned), MAKE_ROOM)
    if state is JobState.BACKOFF and conflict:
        other = "find the other driver on its checkpoint (the reason names it, if the storage fence knew it) and stop it"
        return (Remedy(None, f"{other}: the next attempt would race with it"), logs)
    if state is JobState.BACKOFF:
        return (Remedy(f"{PROGRAM} restart {name}", "starts it now, and forgets its failures"), logs)
    if state is JobState.STARTING and delayed:
        return (Remedy(None, "see to what the reason names; it starts by itself then"),)
    if state is JobState.STARTING:
        return (logs,)
    return ()


def remedies_of_risk(lease: Lease) -> tuple[Remedy, ...]:
    """Returns what helps a job that runs, and whose next start is refused or may be without what it has now."""
    found = []
    if unnamed_of(lease):
        found.append(
            Remedy(f"{PROGRAM} apply SPEC.yaml", "with an application that gives each query a queryName")
        )
        found.append(Remedy(f"{PROGRAM} docs jobs-python", "says how it goes on where it was then"))
    if has_written_here(lease):
        places = "with sinks, warehouse and checkpoints in places that every host reaches"
        found.append(Remedy(f"{PROGRAM} apply SPEC.yaml", places))
    return tuple(found)


def remedies_of_unplaceable(missing: MissingHost) -> tuple[Remedy, ...]:
    """Returns what helps a job that no host may have."""
    if missing.cordoned:
        return remedies_of_cordoned(missing.cordoned)
    restart, found = "(then restart that supervisor)", []
    if missing.spark:
        what = (
            f"spark.versions.{missing.spark} in the supervisor.yaml of a host gives it that Spark {restart}"
        )
        found.append(Remedy(None, f"{what}; or correct spark in the spec, and apply it"))
    if missing.labels:
        what = f"supervisor.labels in the supervisor.yaml of a host gives it labels {restart}"
        found.append(Remedy(None, f"{what}; or correct placement.require in the spec, and apply it"))
    return tuple(found)


def remedies_of_cordoned(hosts: tuple[str, ...]) -> tuple[Remedy, ...]:
    """Returns what makes the first of ``hosts``, which are cordoned, take jobs again."""
    return tuple(
        Remedy(f"{PROGRAM} uncordon {host}", "lets that host take jobs again")
        for host in hosts[:CORDONED_MAX]
    )


def remedies_of_copied(name: str, of: str) -> tuple[Remedy, ...]:
    """Returns what helps the fork ``name`` of the job ``of``, whose checkpoint is not copied yet: a resume is refused."""
    return (
        Remedy(f"{PROGRAM} fork {of} {name}", "as it was given: goes on with the copy, then starts it"),
        Remedy(f"{PROGRAM} cancel {name}", "gives it up"),
    )


def remedies_of_waiting_for_cluster(name: str, cluster: str) -> tuple[Remedy, ...]:
    """Returns what helps a job whose driver has no executor of ``cluster``."""
    of = f"cluster {cluster}" if cluster else "its cluster"
    return (
        Remedy(
            None,
            f"mend what {of} says, or give it room: workers, cores, memory, a place in its queue; it goes on by itself",
        ),
        Remedy(f"{PROGRAM} doctor", "on the host of its driver: looks at each cluster of supervisor.yaml"),
        Remedy(f"{PROGRAM} suspend {name}", "gives up waiting; resume runs it again"),
        Remedy(f"{PROGRAM} docs runbooks/cluster", "goes through it step by step"),
    )


def remedies_of_held(name: str) -> tuple[Remedy, ...]:
    """Returns what helps a job that is to leave its host, and for which no other host has room."""
    return (
        Remedy(None, "make room on another host (uncordon one, suspend another job), or add a supervisor"),
        Remedy(f"{PROGRAM} suspend {name}", "stops it, so that its host can go down; resume runs it again"),
    )


def remedies_of_ended(
    name: str, state: JobState, checkpoint: str | None, broken: Update | None = None
) -> tuple[Remedy, ...]:
    """Returns what it takes for an ended job to run again. ``broken`` is as for ``remedies_of_broken_update``."""
    place = f", and goes on from {checkpoint}" if checkpoint else ""
    if state is JobState.FAILED:
        return (
            *remedies_of_broken_update(name, broken),
            Remedy(f"{PROGRAM} resume {name}", f"registers it again without failures{place}"),
            Remedy(f"{PROGRAM} logs {name}", "shows what its driver wrote"),
        )
    return (Remedy(f"{PROGRAM} submit SPEC.yaml", f"submits it anew{place}"),)
