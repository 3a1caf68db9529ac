"""Gives a spec another checkpoint, and finds what of it would not follow. It is pure.

It is called where a job goes on with a copy of its checkpoint: by ``savepoints.resume``, ``bluegreen.fork`` and the leader
(``daemon.leader.update_savepoint_task``), and by ``operations.apply`` for a job that the leader has moved.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from supervisor.errors import InvalidInput
from supervisor.settings.sections import validated
from supervisor.spec.job import JobSpec


def moved_spec(spec: JobSpec, checkpoint: str, given_as: str = "checkpoint") -> JobSpec:
    """Returns ``spec`` with another checkpoint. ``given_as`` is where that was named, for messages. Raises InvalidInput
    if its application would go on with the old one, or the location is none."""
    stays = would_not_follow(spec)
    if stays is not None:
        raise InvalidInput(
            f"{stays} of {spec.name} names {spec.checkpoint} itself, where its application would go on: write "
            f"{{checkpoint}} there",
            f"cancel {spec.name}, then submit it with --from-savepoint and another checkpoint",
        )
    return validated(
        JobSpec, {**spec.model_dump(mode="json", by_alias=True), "checkpoint": checkpoint}, given_as
    )


def would_not_follow(spec: JobSpec) -> str | None:
    """Returns what names the checkpoint itself rather than ``{checkpoint}``, or None: the application would
    go on with the old one there."""
    place = re.escape((spec.checkpoint or "").rstrip("/"))
    names_it = re.compile(rf"{place}(?![A-Za-z0-9._-])")
    return next((what for what, text in _texts(spec) if names_it.search(text)), None)


def _texts(spec: JobSpec) -> Iterator[tuple[str, str]]:
    for arg in spec.args:
        yield "args", arg
    for name, value in spec.env.items():
        yield f"env {name}", value
    for name, value in spec.conf.items():
        yield f"conf {name}", value
