"""Makes the document of ``show NAME -o json``. The command line and the API call it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from supervisor.observe.listing import OneJob
from supervisor.operations.context import CommandContext
from supervisor.operations.history import diagnostics_document, entry_documents, exit_document, find_job
from supervisor.operations.job_view import JobView, view_of
from supervisor.operations.requests import DocumentRequest
from supervisor.savepoints.operations import ScheduleOfJob, schedule_of_job
from supervisor.settings.units import format_duration


@dataclass(frozen=True)
class JobDetailRequest(DocumentRequest):
    """Asks for the document of ``show NAME``."""

    operation = "job"
    path = "/jobs/{name}"
    summary = "One job, as show prints it."

    name: str

    def carry_out(self, context: CommandContext) -> dict[str, Any]:
        return job_document(context, find_job(context, self.name))


def job_document(context: CommandContext, job: OneJob) -> dict[str, Any]:
    """Returns the document of ``job``. A store that does not answer costs only what is read there. Raises Unreachable."""
    view = view_of(context, job)
    schedule = schedule_of_job(context, job.ref) if job.ref is not None and view.spec is not None else None
    return _document(view, schedule)


def _document(view: JobView, schedule: ScheduleOfJob | None) -> dict[str, Any]:
    return {
        **view.row.document(),
        "driver_memory": view.driver_memory,
        "queries": view.queries,
        "more_queries": view.more_queries,
        "stop_mode": view.stop_mode,
        "last_exit": exit_document(view.last_exit),
        "diagnostics": diagnostics_document(view.diagnostics),
        "start": view.start,
        "cluster_wait": view.cluster_wait,
        "update": view.update,
        "fork": view.fork,
        "promotion": view.promotion,
        "usage": view.usage,
        "starts_cold": view.starts_cold,
        "prepare_lowered": view.prepare_lowered,
        "env_ignored": view.env_ignored,
        "checkpoint_fence": view.checkpoint_fence,
        "class_archive": view.class_archive,
        "spark_ui": view.spark_ui,
        "user": view.user,
        "limits": view.limits,
        "savepoints": None if schedule is None else _savepoints(schedule),
        "history": entry_documents(view.history),
        "spec": view.spec,
        "spec_error": view.spec_error,
    }


def _savepoints(schedule: ScheduleOfJob) -> dict[str, Any]:
    policy = schedule.policy
    return {
        "every": format_duration(policy.every_s),
        "keep": policy.keep,
        "max_age": None if policy.max_age_s is None else format_duration(policy.max_age_s),
        "newest": schedule.newest,
        "next_due_at": schedule.next_due_at,
        "problem": schedule.problem,
    }
