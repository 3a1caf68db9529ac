"""Reads all that ``show`` prints of one job, the live uid or else the newest, except its scheduled savepoints
(``savepoints.operations``) and its output (``operations.logs``)."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from typing import Any

from supervisor.clock import wall_s
from supervisor.errors import Corrupt, SupervisorError
from supervisor.model import driver_memory
from supervisor.model.host_tools import why_ignored
from supervisor.model.job_row import JobRow
from supervisor.model.records import (
    LEASED,
    BlobRef,
    DriverDiagnostics,
    HistoryEntry,
    JobRef,
    Lease,
    Ownership,
    SchedulingSpec,
)
from supervisor.model.secret import redacted
from supervisor.model.seen import Found
from supervisor.model.state import last_exit_of, update_state, why_of_update
from supervisor.model.web_address import web_address
from supervisor.observe.listing import OneJob
from supervisor.observe.prepared import prepared_by_uid
from supervisor.observe.queries import queries_of
from supervisor.observe.start import start_of
from supervisor.observe.usage import usage_document, usage_of
from supervisor.operations.context import CommandContext
from supervisor.operations.history import entries_of
from supervisor.operations.listing import row_of_job
from supervisor.operations.scene import take_hosts
from supervisor.spark.fence.choice import why_not_wanted
from supervisor.spec.job import JobSpec, from_canonical


@dataclass(frozen=True)
class JobView:
    """Holds what ``show`` prints of one job. None means that a value is unknown, or that there is none.

    ``driver_memory`` is to what it was raised. ``queries`` has a document for each query, and
    ``more_queries`` how many are left out. ``start`` has the seconds of each phase of the start.
    ``env_ignored`` says what of the spec's env does not count, and why. ``starts_cold`` says why no
    driver of it is prepared before it is needed. ``spec`` is the stored one, with what looks like a secret
    covered; ``spec_error`` says why it can't be shown. ``prepare_lowered`` says how far a prepared driver goes, and why it
    does not go as far as the spec says. ``update`` is the document of the newest update, ``fork``
    that of the job of which it is a fork, ``promotion`` that of the job whose place it takes or has. ``cluster_wait``
    is that of the wait for executors, while the driver has none. ``diagnostics`` is what is known of the end of the latest
    attempt that left any.
    is that of the wait for executors, while the driver has none; ``usage`` that of what the attempt takes, or took.
    """

    row: JobRow
    driver_memory: str | None
    queries: list[dict[str, Any]]
    more_queries: int
    stop_mode: str | None
    last_exit: HistoryEntry | None
    diagnostics: DriverDiagnostics | None
    start: dict[str, float] | None
    cluster_wait: dict[str, Any] | None
    env_ignored: str | None
    checkpoint_fence: str | None
    class_archive: str | None
    spark_ui: str | None
    user: str | None
    limits: str | None
    update: dict[str, Any] | None
    fork: dict[str, Any] | None
    promotion: dict[str, Any] | None
    usage: dict[str, Any] | None
    history: tuple[HistoryEntry, ...]
    starts_cold: str | None
    prepare_lowered: str | None
    spec: dict[str, Any] | None
    spec_error: str | None


def view_of(context: CommandContext, job: OneJob) -> JobView:
    """Returns what ``show`` prints of ``job``. A store that does not answer costs only the spec. Raises
    Unreachable."""
    result = job.result.record if isinstance(job.result, Found) else None
    queries, more = queries_of(job, wall_s())
    history = entries_of(job)
    ref = job.ref.spec if job.ref is not None else result.spec if result is not None else None
    spec, why_not = _spec(context, ref)
    parsed, terms = _parsed(ref, spec), job.ref.terms if job.ref is not None else None
    raised = (
        driver_memory.raise_of_memory(job.ref, job.own)
        if job.ref is not None and job.own is not None
        else None
    )
    return JobView(
        row=_with_prepared(context, job, row_of_job(context, job)),
        driver_memory=raised,
        queries=queries,
        more_queries=more,
        stop_mode=job.own.stop_mode if job.own is not None and job.own.uid == job.uid else None,
        last_exit=last_exit_of(history),
        diagnostics=job.own.diagnostics if job.own is not None and job.own.uid == job.uid else None,
        start=start_of(job.row),
        cluster_wait=_cluster_wait(job.own, job.row.lease_of_owner),
        env_ignored=_env_ignored(spec),
        checkpoint_fence=_fence(spec, job.row.lease_of_owner),
        class_archive=_class_archive(job.row.lease_of_owner),
        spark_ui=_spark_ui(job.row.lease_of_owner),
        user=_user(spec, job.row.lease_of_owner),
        limits=_limits(spec, job.row.lease_of_owner),
        update=_update(job.ref, job.own),
        fork=_fork(job.ref),
        promotion=_promotion(job.ref),
        usage=usage_document(usage_of(job.row, job.uid), _heap(job.own, parsed)),
        history=history,
        starts_cold=_why_cold(parsed, terms),
        prepare_lowered=_why_lowered(parsed, terms),
        spec=None if spec is None else redacted(spec),
        spec_error=why_not,
    )


def _spec(context: CommandContext, ref: BlobRef | None) -> tuple[dict[str, Any] | None, str | None]:
    """Returns the stored spec, or None and why it can't be shown: that must not hide the rest."""
    if ref is None:
        return None, "its records do not say where the spec is"
    try:
        spec = json.loads(context.blobs().read_spec(ref))
        if not isinstance(spec, dict):
            raise Corrupt(f"{ref.key} is no spec")
        return spec, None
    except ValueError:
        return None, f"{ref.key} is not JSON"
    except SupervisorError as error:
        return None, str(error)


def _with_prepared(context: CommandContext, job: OneJob, row: JobRow) -> JobRow:
    """Returns ``row`` with what is prepared of a registered job; for one that can't be, nothing is read."""
    if job.ref is None or (job.ref.terms.prepare is None and job.ref.terms.standby is None):
        return row
    return replace(row, prepared=prepared_by_uid(take_hosts(context)).get(job.uid, ()))


def _update(ref: JobRef | None, own: Ownership | None) -> dict[str, Any] | None:
    state = update_state(ref, own) if ref is not None else None
    if ref is None or ref.update is None or state is None:
        return None
    update = ref.update
    return {
        "state": state.value,
        "target": update.target,
        "stable": update.before.revision,
        "why": why_of_update(ref, own) or None,
        "savepoint": update.savepoint or None,
        "at": update.at,
        "by": update.by,
    }


def _cluster_wait(own: Ownership | None, lease: Lease | None) -> dict[str, Any] | None:
    """Returns the wait of a driver that may be alive; the lease of one that is gone stays as it was."""
    if own is None or own.state not in LEASED or lease is None or lease.cluster_wait is None:
        return None
    wait = lease.cluster_wait
    return {
        "cluster": wait.cluster or None,
        "since": wait.since,
        "application": wait.application or None,
        "says": wait.says or None,
    }


def _fork(ref: JobRef | None) -> dict[str, Any] | None:
    if ref is None or ref.fork is None:
        return None
    return {
        "of": ref.fork.of,
        "uid": ref.fork.uid,
        "savepoint": ref.fork.savepoint,
        "copying": ref.fork.copying,
    }


def _promotion(ref: JobRef | None) -> dict[str, Any] | None:
    if ref is None or ref.promotion is None:
        return None
    promotion = ref.promotion
    state = "done" if promotion.done else "waiting"
    return {
        "state": state,
        "over": promotion.over,
        "uid": promotion.uid,
        "at": promotion.at,
        "by": promotion.by,
    }


def _parsed(ref: BlobRef | None, spec: dict[str, Any] | None) -> JobSpec | None:
    if ref is None or spec is None:
        return None
    try:
        return from_canonical(json.dumps(spec).encode(), ref.key)
    except Corrupt:
        return None


def _why_cold(spec: JobSpec | None, terms: SchedulingSpec | None) -> str | None:
    """Returns why no driver of the job is prepared before it is needed. The leader goes by ``terms`` of a job that is
    registered; they stay as the version that registered it made them."""
    if spec is None or (terms is not None and terms.prepare is not None):
        return None
    older = "a version registered it that prepares no driver for such a job: apply a changed spec of it"
    return spec.why_not_prepared() or (older if terms is not None else None)


def _why_lowered(spec: JobSpec | None, terms: SchedulingSpec | None) -> str | None:
    if spec is None or terms is None or terms.prepare is None or terms.prepare.value == spec.update.prepare:
        return None
    why = "two drivers would hold its executors at once" if spec.holds_executors else "as it was registered"
    return f"{terms.prepare.value}, though its spec says {spec.update.prepare}: {why}"


def _env_ignored(spec: dict[str, Any] | None) -> str | None:
    """Returns what of the spec's env does not count, and why: an older version registered it.

    None means that all of it counts.
    """
    env = spec.get("env") if spec is not None else None
    return why_ignored(env) if isinstance(env, dict) else None


def _heap(own: Ownership | None, spec: JobSpec | None) -> int | None:
    """Returns the heap of the driver in bytes as far as it is configured, else None."""
    if own is not None and own.driver_memory:
        return own.driver_memory
    configured = spec.conf.get(driver_memory.PROPERTY) if spec is not None else None
    return None if configured is None else driver_memory.spark_size_bytes(configured)


def _class_archive(lease: Lease | None) -> str | None:
    """Returns which class-data archive the driver was started with, or ``off:`` and why it has none.

    None means that no driver is there, or that a version before started it.
    """
    return lease.class_archive or None if lease is not None else None


def _spark_ui(lease: Lease | None) -> str | None:
    """Returns the address of Spark's UI of the driver that runs; None if it has none, or did not say, or says nonsense."""
    return web_address(lease.spark_ui) or None if lease is not None else None


def _user(spec: dict[str, Any] | None, lease: Lease | None) -> str | None:
    """Returns the Unix user of the driver, or the one that the spec names; None means the supervisor's own, or that of the
    host's policy."""
    if lease is not None and lease.user:
        return lease.user
    run_as = spec.get("run_as") if spec is not None else None
    return run_as if isinstance(run_as, str) else None


def _limits(spec: dict[str, Any] | None, lease: Lease | None) -> str | None:
    """Returns what the kernel enforces on the driver, or ``off:`` and why it does not enforce all of what the spec asks
    for. None means that it asks for nothing."""
    if lease is not None and lease.not_limited:
        return f"off: {lease.not_limited}"
    resources = spec.get("resources") if spec is not None else None
    asked = resources if isinstance(resources, dict) else {}
    limits = [f"{key} {asked[key]}" for key in ("memory_limit", "cpu", "tasks") if asked.get(key) is not None]
    return ", ".join(limits) or None


def _fence(spec: dict[str, Any] | None, lease: Lease | None) -> str | None:
    """Returns why the running driver has no storage fence; else, as far as the spec says, ``auto`` or why
    not.

    None means that there is no checkpoint on S3.
    """
    if lease is not None and lease.not_fenced:
        return f"off: {lease.not_fenced}"
    conf, place = (spec.get(key) for key in ("conf", "checkpoint")) if spec is not None else (None, None)
    if spec is None or not isinstance(conf, dict) or not isinstance(place, str):
        return None
    why = why_not_wanted(place, str(spec.get("checkpoint_fence", "auto")), conf)
    return f"off: {why}" if why else None if why is None else "auto"
