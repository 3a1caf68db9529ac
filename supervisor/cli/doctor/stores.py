"""Checks the store and the job's checkpoint: writes, lists, reads, writes under a condition, and cleans
up."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Final
from urllib.parse import unquote, urlsplit

from supervisor.cli.doctor.findings import (
    CheckGroup,
    CheckVerdict,
    DoctorCheck,
    DoctorFinding,
    ok,
    problem,
    problem_of,
    skipped,
    warning,
)
from supervisor.cli.doctor.phrases import NO_SPEC
from supervisor.cli.doctor.subject import Subject
from supervisor.clients.store.base import Store
from supervisor.clients.store.files import FileStore
from supervisor.clients.store.open import open_store
from supervisor.clients.store.probe import StoreProbe, probe_directory, probe_store
from supervisor.errors import Complaint, InvalidInput, SupervisorError
from supervisor.model.location import normalise
from supervisor.registry.blobs import Blobs
from supervisor.spec.s3a import PREFIX, asked, bucket_of, for_store

STEP_S: Final = 5.0
"""Limits one step; the first that fails ends the trial, but for removing what may have been written."""

SLOW_MS: Final = 2000.0
SKEW_WARNED_S: Final = 60.0
SKEW_REFUSED_S: Final = 15 * 60.0
"""S3 answers 403 RequestTimeTooSkewed to requests of a clock that is further away."""


@dataclass(frozen=True, slots=True)
class StoreFacts:
    """Holds what was found. ``owner`` is the root and name of the cluster that has marked the store, None if
    nobody has; ``expected`` is the configured one.

    ``versions`` says whether the bucket keeps older versions, and whether for ever; None means no bucket, or
    no answer.
    """

    url: str
    probe: StoreProbe
    owner: tuple[str, str] | None = None
    owner_error: Complaint = Complaint()
    expected: tuple[str, str] = ("", "")
    versions: tuple[bool, bool] | None = None


@dataclass(frozen=True, slots=True)
class CheckpointFacts:
    """Holds what was found. If ``probe`` is None, nothing was tried, because of ``why``, or because it may
    not be (``refused``).

    If ``keys`` is True, the job brings credentials that were not used here.
    """

    location: str = ""
    why: str = ""
    probe: StoreProbe | None = None
    keys: bool = False
    local: bool = False
    refused: Complaint = Complaint()


def collect_store(subject: Subject) -> StoreFacts:
    settings = subject.settings
    within_s, access = STEP_S * subject.patience, subject.store_access
    store = open_store(settings.store.url, access.endpoint_url, access.region, within_s, asked(access))
    probe = probe_store(store)
    owner, owner_error = None, Complaint()
    if not probe.failed:
        try:
            mark = Blobs(store).read_cluster()
            owner = None if mark is None else (mark.root, mark.name)
        except SupervisorError as error:
            owner_error = error.complaint
    expected = (settings.zookeeper.root, settings.cluster)
    return StoreFacts(
        store.url, probe, owner, owner_error, expected, None if probe.failed else _versions(store)
    )


def _versions(store: Store) -> tuple[bool, bool] | None:
    if isinstance(store, FileStore):
        return None
    from supervisor.clients.store.s3 import S3Store  # here: boto3 is slow to import

    try:
        return store.keeps_versions() if isinstance(store, S3Store) else None
    except SupervisorError:
        return None


def collect_checkpoint(subject: Subject) -> CheckpointFacts:
    spec = subject.spec
    if spec is None:
        return CheckpointFacts(why=NO_SPEC)
    if spec.checkpoint is None:
        return CheckpointFacts(why="the job has no checkpoint")
    location = normalise(spec.checkpoint)
    bucket = bucket_of(location)
    if bucket is not None:
        try:
            access = subject.access_to(bucket)
        except InvalidInput as error:
            return CheckpointFacts(location, refused=error.complaint)
        within_s = STEP_S * subject.patience
        probe = probe_store(
            open_store(for_store(location), access.endpoint_url, access.region, within_s, asked(access))
        )
        keys = (
            any(name.startswith(PREFIX) and "key" in name for name in spec.conf)
            or "AWS_ACCESS_KEY_ID" in spec.env
        )
        return CheckpointFacts(location, "", probe, keys)
    parts = urlsplit(location)
    if parts.scheme != "file":
        return CheckpointFacts(
            location, f"there is no client for {parts.scheme}: here; try it with hdfs dfs or the like"
        )
    return CheckpointFacts(
        location, "", probe_directory(Path(unquote(location.removeprefix("file://")))), local=True
    )


# -- judges -------------------------------------------------------------------------------------------------------


def judge_probe(what: str, key: str, probe: StoreProbe) -> DoctorFinding:
    if probe.left:
        return problem(
            f"{what}: what was written cannot be deleted: {probe.error}",
            f"grant deleting, and remove {probe.left}",
        )
    if probe.failed:
        remedy = probe.error.remedy or f"see that this host reaches it and may use it ({key})"
        return problem(f"{what}: {probe.failed} failed: {probe.error.what}", remedy)
    step, ms = probe.slowest
    if ms > SLOW_MS:
        return warning(
            f"{what} {probe.where}: {step} took {ms:.0f} ms",
            "look at the network and the server: starts wait for it",
        )
    steps = ", ".join(f"{name} {took:.0f}" for name, took in probe.ms)
    return ok(f"{probe.where}: {steps} ms, deleted again")


def judge_store(facts: StoreFacts) -> DoctorFinding:
    return judge_probe("store", "store.url, store.endpoint_url", facts.probe)


def judge_exclusive(what: str, probe: StoreProbe) -> DoctorFinding:
    if probe.exclusive is None:
        return skipped(f"{what} could not be written to")
    if not probe.exclusive:
        return problem(
            f"{what} {probe.where} ignores If-None-Match: a second create of one key was accepted",
            "use a server that honours it (AWS S3, MinIO, Ceph): without it two writers overwrite each other",
        )
    return ok(f"{what} refuses a second create of one key")


def judge_store_exclusive(facts: StoreFacts) -> DoctorFinding:
    return judge_exclusive("store", facts.probe)


def judge_owner(facts: StoreFacts) -> DoctorFinding:
    if facts.owner_error:
        return problem_of(facts.owner_error)
    if facts.probe.failed:
        return skipped("the store could not be written to")
    if facts.owner is None:
        return ok("the store belongs to nobody yet: the first submit or supervisor founds the cluster")
    root, name = facts.owner
    if (root, name) != facts.expected:
        return problem(
            f"{facts.url} belongs to cluster {name} at ZooKeeper root {root}, configured are {facts.expected[1]} and "
            f"{facts.expected[0]}",
            "give this cluster a store.url of its own, or correct cluster and zookeeper.root",
        )
    return ok(f"the store belongs to cluster {name} at {root}, as configured")


def judge_skew(what: str, skew_s: float | None, *, refused: bool) -> DoctorFinding:
    """Judges a clock. If ``refused`` is True, requests with a wrong clock are answered 403 there."""
    if skew_s is None:
        return skipped(f"the clock of {what} is not known")
    way = "ahead of" if skew_s > 0 else "behind"
    sentence = f"the clock of {what} is {abs(skew_s):.0f} s {way} that of this host"
    remedy = "synchronise the clocks (chrony or ntp)"
    if abs(skew_s) > SKEW_REFUSED_S and refused:
        return problem(f"{sentence}: S3 refuses requests above 15 min", remedy)
    if abs(skew_s) > SKEW_WARNED_S:
        return warning(f"{sentence}; no decision rests on it, but logs and S3 signatures do", remedy)
    return ok(f"the clock of {what} agrees with that of this host ({skew_s:+.1f} s)")


def judge_clock(facts: StoreFacts) -> DoctorFinding:
    return judge_skew("the store", facts.probe.skew_s, refused=facts.url.startswith("s3://"))


def judge_versioning(facts: StoreFacts) -> DoctorFinding:
    if not facts.url.startswith("s3://"):
        return ok("a directory keeps no older versions")
    if facts.probe.failed:
        return skipped("the store could not be written to")
    if facts.versions is None:
        return skipped("the bucket does not tell (s3:GetBucketVersioning, s3:GetLifecycleConfiguration)")
    kept, forever = facts.versions
    if forever:
        return warning(
            "the bucket keeps all that is deleted or overwritten, and no lifecycle rule ends it: it only grows",
            "add a lifecycle rule with NoncurrentVersionExpiration to the bucket, or suspend versioning",
        )
    return ok(
        f"the bucket keeps {'older versions until its lifecycle rule ends them' if kept else 'no older versions'}"
    )


def judge_checkpoint(facts: CheckpointFacts) -> DoctorFinding:
    if facts.refused:
        return problem_of(facts.refused, "list the endpoint in policy.endpoints")
    if facts.probe is None:
        return skipped(facts.why)
    found = judge_probe("checkpoint", "conf spark.hadoop.fs.s3a.endpoint, or store.endpoint_url", facts.probe)
    if found.verdict is CheckVerdict.OK and facts.local:
        return warning(
            f"{facts.location} is a directory of this host ({found.found})",
            "use a place that every host reaches, unless it is mounted on all of them",
        )
    if facts.keys:
        note = "tried with the supervisor's credentials, not with those that the job brings"
        return DoctorFinding(found.verdict, f"{found.found} ({note})", found.remedy)
    return found


def judge_checkpoint_exclusive(facts: CheckpointFacts) -> DoctorFinding:
    if facts.probe is None:
        return skipped(facts.why)
    found = judge_exclusive("checkpoint", facts.probe)
    if found.verdict is CheckVerdict.PROBLEM and not facts.local:
        return problem(f"{found.found}: the storage fence holds nobody off there", found.remedy)
    return found


STORE = CheckGroup(
    "store",
    collect_store,
    (
        DoctorCheck("store", "the store takes a write, a listing, a read and a delete", judge_store),
        DoctorCheck(
            "store-conditional",
            "the store refuses a second create of one key (If-None-Match)",
            judge_store_exclusive,
        ),
        DoctorCheck("store-owner", "the store belongs to this cluster, or to nobody", judge_owner),
        DoctorCheck(
            "store-versioning",
            "the store's bucket ends what is deleted, also if it is versioned",
            judge_versioning,
        ),
        DoctorCheck(
            "store-clock",
            "the store's clock against this host's: S3 refuses more than 15 minutes",
            judge_clock,
        ),
    ),
)

CHECKPOINT = CheckGroup(
    "checkpoint",
    collect_checkpoint,
    (
        DoctorCheck(
            "checkpoint",
            "the job's checkpoint bucket or directory takes a write, a listing, a read and a delete",
            judge_checkpoint,
        ),
        DoctorCheck(
            "checkpoint-conditional",
            "the checkpoint's bucket refuses a second create of one key",
            judge_checkpoint_exclusive,
        ),
    ),
)
