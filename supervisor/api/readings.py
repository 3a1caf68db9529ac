"""Reads the documents that more than one part of the API needs, under one key each: who asks for the same at the same time
gets one reading (``api.shared_reads``)."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import Generic, TypeVar

from supervisor.api.shared_reads import SharedReads
from supervisor.operations.context import CommandContext
from supervisor.operations.job_list import JobList
from supervisor.operations.listing import JobLister

T = TypeVar("T")


@dataclass(frozen=True)
class SharedReading(Generic[T]):
    """Says how a document is read, and the ``key`` by which requests share that."""

    key: Hashable
    read: Callable[[CommandContext], T]

    def by(self, reads: SharedReads) -> T:
        """Returns what is read now, or was a moment ago. Raises SupervisorError."""
        return reads.get(self.key, self.read)


def jobs_reading(*, every_uid: bool) -> SharedReading[JobList]:
    """Returns how the list is read."""
    return SharedReading(("jobs", every_uid), lambda context: JobLister(context, every_uid=every_uid).take())
