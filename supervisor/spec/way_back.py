"""Finds in a spec that a failed update could not go back to its savepoint (``update.rollback: savepoint``). Pure."""

from __future__ import annotations

from collections.abc import Iterable

from supervisor.errors import Complaint
from supervisor.model.reported_sinks import why_no_way_back
from supervisor.model.sinks import NamedSink
from supervisor.spec.job import JobSpec


def why_spec_has_no_way_back(spec: JobSpec, sinks: Iterable[NamedSink] = ()) -> Complaint:
    """Returns why not, with the remedy; it is false if it could, or shall not. ``sinks`` are those that the job was seen to
    write to. Without any, the driver of a Python application has yet to name them; that of a JVM application never does."""
    known = [*sinks]
    memory = spec.savepoints.memory
    if not spec.goes_back_to_savepoint or not (known or memory is not None or not spec.is_python):
        return Complaint()
    return why_no_way_back(known or [None], memory)
