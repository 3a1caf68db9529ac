"""Carries a submission from its reference (/jobs) to its result (/results), and back.

A job that ends leaves its reference and gets a result, and a failed one that is registered again takes the same way back.
Both ways carry every field that the two records share, by name. So a field that a later version adds to both can't be lost
on one of several ways: a fork that lost its mark was cancelled by ``apply --prune``. What only one record has stands below,
with the reason; a test fails for a field that nobody has decided upon. Called by the builders of ``registry`` and by
``operations.jobs``.
"""

from __future__ import annotations

from dataclasses import fields
from typing import Any, Final

from supervisor.model.records import JobRef, Result

OF_EACH: Final = {"op": "it is the id of the multi that wrote this very record"}
"""Fields of both records that are not carried."""

ONLY_IN_REFERENCE: Final = {
    "desired": "nothing is desired of a job that has ended; one that is registered again shall run",
    "changed": "the history of the result has it",
    "fresh_start": "it was for one start; a resume is given it anew",
    "begins_with": "it was for the first start, which has been",
    "left_by": "it was for the first start, which has been",
    "cold_restart": "it counts beside the restart nonce of its request only",
    "move": "it counts beside the restart nonce of its request only",
}
ONLY_IN_RESULT: Final = {
    "outcome": "of the end",
    "state": "of what is left to be cleaned",
    "attempt": "of /own, which stays",
    "claims": "of /own, which stays",
    "reason": "of the end",
    "at": "of the end",
    "failures": "of /own; a job that is registered again begins without",
    "checkpoint_state": "of the end",
    "history": "of /own, which stays",
    "earlier": "of /own, which stays",
    "wrote": "of the clean-up",
}

SHARED: Final = tuple(
    field.name
    for field in fields(JobRef)
    if field.name in {other.name for other in fields(Result)} and field.name not in OF_EACH
)


def result_of(job: JobRef, **of_the_end: Any) -> Result:
    """Returns the result of ``job``, with ``of_the_end`` in place of what is carried, or beside it."""
    return Result(**{**_shared(job), **of_the_end})


def reference_of(result: Result, **of_the_return: Any) -> JobRef:
    """Returns the reference with which the submission of ``result`` comes back, with ``of_the_return`` in place of what is
    carried, or beside it. The spec and the terms of ``result`` are known."""
    return JobRef(**{**_shared(result), **of_the_return})


def _shared(record: JobRef | Result) -> dict[str, Any]:
    return {name: getattr(record, name) for name in SHARED}
