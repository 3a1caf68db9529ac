"""Defines the row of ``list`` and ``show``, with the keys that scripts rely on.

``observe.listing`` makes rows from the records.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from supervisor.model.labels import packed, unpacked
from supervisor.model.records import Progress
from supervisor.model.state import JobState


@dataclass(frozen=True, slots=True)
class JobRow:
    """Is one object of ``list -o json``, in a fixed order. None means that a value is unknown, or that there
    is none. Times are in ISO 8601, UTC.
    """

    name: str | None
    uid: str | None = None
    revision: int | None = None
    desired: str | None = None
    state: str = JobState.QUARANTINED.value
    reason: str = ""
    attempt: int | None = None
    supervisor: str | None = None
    host: str | None = None
    driver_pid: int | None = None
    shim_pid: int | None = None
    started_at: str | None = None
    since: str | None = None
    restarts: int | None = None
    failures: int | None = None
    next_attempt_at: str | None = None
    checkpoint: str | None = None
    progress: Progress | None = None
    prepared: tuple[dict[str, Any], ...] = ()
    labels: tuple[str, ...] = ()
    """In the form of ``model.labels``; the document has them by key."""
    in_place_of: dict[str, str] | None = None
    """The job whose place it has by a promotion, by ``name`` and ``uid``."""
    sinks: tuple[dict[str, Any], ...] = ()
    """Where its driver writes, as ``model.reported_sinks.sink_documents`` has them."""
    trouble: str | None = None
    """What is not well, in its shortest form, which a table shows in place of the reason: it is empty if all is well. None
    means the reason itself.
    """

    def document(self) -> dict[str, Any]:
        """Returns the row as JSON has it, without what a newer version wrote beside it."""
        document = {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}
        document["prepared"] = list(self.prepared)
        document["sinks"] = list(self.sinks)
        document["labels"] = unpacked(self.labels)
        if self.progress is not None:
            document["progress"] = dataclasses.asdict(self.progress)
            del document["progress"]["extra"]
        return document


def row_of_document(document: Mapping[str, Any]) -> JobRow:
    """Returns the row of which ``document`` is the document; keys that a newer version wrote are left out. Raises
    ValueError, TypeError or AttributeError for what is no such document."""
    known = {field.name for field in dataclasses.fields(JobRow)}
    values = {key: value for key, value in document.items() if key in known}
    progress = values.get("progress")
    if progress is not None:
        names = {field.name for field in dataclasses.fields(Progress)} - {"extra"}
        values["progress"] = Progress(**{key: value for key, value in progress.items() if key in names})
    for key in ("prepared", "sinks"):
        values[key] = tuple(values.get(key) or ())
    values["labels"] = packed(values.get("labels") or {})
    return JobRow(**values)
