"""Collects what happened to a job, as its records have it: of one submission of the name, or of all that are
kept."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Annotated, Any

from supervisor.clock import wall_s
from supervisor.errors import InvalidInput, NotFound
from supervisor.model.history import Series
from supervisor.model.records import DriverDiagnostics, HistoryEntry
from supervisor.model.seen import Found
from supervisor.model.state import history_of
from supervisor.observe.listing import OneJob, job_row, read_ended, read_job
from supervisor.operations.context import CommandContext
from supervisor.operations.names import no_job
from supervisor.operations.requests import BOOLEAN, DocumentRequest, QueryParameter


@dataclass(frozen=True)
class JobStory:
    """Describes one submission. ``headline`` is the reason in its shortest form; ``uid`` is empty if no record
    names one; ``entries`` are oldest first."""

    uid: str
    state: str
    reason: str
    headline: str
    entries: tuple[HistoryEntry, ...]


def find_job(context: CommandContext, name: str) -> OneJob:
    """Returns the records of the live uid of ``name``, else of its newest. Raises NotFound."""
    job = read_job(context.zoo(), context.layout, name) if context.check() is not None else None
    if job is None:
        raise no_job(context.zoo(), context.layout, name)
    return job


def stories_of(
    context: CommandContext, name: str, uid: str | None = None, *, every_uid: bool = False
) -> list[JobStory]:
    """Returns the story of the live submission, else of the newest; with ``uid``, of that one; with
    ``every_uid``, of every one that is kept, oldest first. Raises NotFound."""
    newest = find_job(context, name)
    if uid is None and not every_uid:
        return [_story(newest)]
    ended = read_ended(context.zoo(), context.layout, newest.row)
    jobs = [*(job for job in ended if job.uid != newest.uid), newest]
    if uid is None:
        return [_story(job) for job in jobs]
    stories = [_story(job) for job in jobs if job.uid == uid]
    if not stories:
        raise NotFound(
            f"{name} has no submission {uid} that is kept: see spark-supervisor history {name} --all"
        )
    return stories


def _story(job: OneJob) -> JobStory:
    row = job_row(job, wall_s())
    return JobStory(job.uid, row.state, row.reason, row.trouble or row.reason, entries_of(job))


def entries_of(job: OneJob) -> tuple[HistoryEntry, ...]:
    """Returns what happened to the uid of ``job``, oldest first."""
    result = job.result.record if isinstance(job.result, Found) else None
    ref = job.ref if job.ref is not None and job.ref.uid == job.uid else None
    return history_of(ref, job.own, result, job.uid)


@dataclass(frozen=True)
class HistoryRequest(DocumentRequest):
    """Asks for the document of ``history``: of the submission ``uid``, of every one, or of the live or newest one."""

    operation = "history"
    path = "/jobs/{name}/history"
    summary = "What happened to a job, newest last, as history prints it."

    name: str
    every_uid: Annotated[
        bool,
        QueryParameter("all", "Whether every submission that is kept is listed: true or false.", BOOLEAN),
    ] = False
    uid: Annotated[
        str | None, QueryParameter("uid", "Of this submission; else of the live one, or of the newest.")
    ] = None

    def __post_init__(self) -> None:
        if self.uid is not None and self.every_uid:
            raise InvalidInput("uid names one submission and all means every one", "give one of the two")

    def carry_out(self, context: CommandContext) -> dict[str, Any]:
        stories = stories_of(context, self.name, self.uid, every_uid=self.every_uid)
        return {"name": self.name, "uids": [_document(story) for story in stories]}


def _document(story: JobStory) -> dict[str, Any]:
    return {
        "uid": story.uid or None,
        "state": story.state,
        "reason": story.reason,
        "headline": story.headline,
        "history": entry_documents(story.entries),
    }


def diagnostics_document(known: DriverDiagnostics | None) -> dict[str, Any] | None:
    """Returns the document of what is known of the end of an attempt."""
    if known is None:
        return None
    return {
        "attempt": known.attempt,
        "host": known.host,
        "path": known.path or None,
        "memory": known.memory or None,
    }


def exit_document(ended: HistoryEntry | None) -> dict[str, Any] | None:
    """Returns how an attempt ended as a document, or None if none has."""
    if ended is None:
        return None
    return {"cause": ended.event, "attempt": ended.attempt, "at": ended.at, "why": ended.detail}


def entry_documents(entries: Iterable[HistoryEntry]) -> list[dict[str, Any]]:
    """Returns the entries as documents. ``attempt`` is null for what is about none; ``memory_max``, in bytes, is there if it
    is known.

    A series also has how many there were, the last one, and how many entries are left out.
    """
    documents: list[dict[str, Any]] = []
    for entry in entries:
        each: dict[str, Any] = {"at": entry.at, "event": entry.event, "attempt": entry.attempt or None}
        each |= {"detail": entry.detail, "by": entry.by or None}
        if entry.memory_max:
            each["memory_max"] = entry.memory_max
        if isinstance(entry, Series):
            each |= {"count": entry.count, "last_at": entry.last_at or entry.at}
            each |= {"last_attempt": entry.last_attempt or entry.attempt, "omitted": entry.omitted}
        documents.append(each)
    return documents
