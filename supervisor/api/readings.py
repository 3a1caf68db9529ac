"""Reads the documents that more than one part of the API needs, under one key each: who asks for the same at the same time
gets one reading (``api.shared_reads``)."""

from __future__ import annotations

from typing import Any

from supervisor.api.shared_reads import SharedReads
from supervisor.errors import SupervisorError
from supervisor.operations.cluster_status import status_of
from supervisor.operations.job_list import JobList
from supervisor.operations.listing import JobLister


def read_jobs(reads: SharedReads, *, every_uid: bool) -> JobList:
    """Returns the list. Raises SupervisorError."""
    return reads.get(("jobs", every_uid), lambda context: JobLister(context, every_uid=every_uid).take())


def read_status(reads: SharedReads) -> tuple[dict[str, Any], SupervisorError | None]:
    """Returns the document of ``status``, and the error if ZooKeeper did not answer. Raises SupervisorError."""
    return reads.get("status", status_of)
