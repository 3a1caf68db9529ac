"""Chooses where the copy of a savepoint goes when a job resumes from it or is forked, and finds what of its spec would
not follow.

It is pure, and is called by ``savepoints.resume`` and ``bluegreen.fork``.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator
from typing import Final

from supervisor.spec.job import JobSpec

TAG_DIGITS: Final = 8
_MADE: Final = re.compile(rf"\.(?:from-[a-z0-9-]+-[0-9a-f]{{{TAG_DIGITS}}}|fork-[^/]+-[0-9a-f]{{4}})")


def fresh_location(checkpoint: str, savepoint: str, uid: str, revision: int) -> str:
    """Returns a location beside ``checkpoint``, or beside the one from which that was made in this way.
    ``revision`` is that of the job before the resume.

    The result is the same for the same job, revision and savepoint, so that a command that is given again
    goes on with its copy; it is never one where an earlier one has put another.
    """
    base = _base(checkpoint)
    tag = hashlib.sha256(f"{uid} {revision}".encode()).hexdigest()[:TAG_DIGITS]
    return f"{base}.from-{savepoint}-{tag}"


def fork_location(checkpoint: str, name: str, tag: str) -> str:
    """Returns a location for the fork ``name`` of a job, beside the ``checkpoint`` of that, or beside the one from
    which that was made in this way. ``tag`` are four hexadecimal digits that no fork before had."""
    return f"{_base(checkpoint)}.fork-{name}-{tag}"


def _base(checkpoint: str) -> str:
    base = checkpoint.rstrip("/")
    made = list(_MADE.finditer(base))
    return base[: made[-1].start()] if made and made[-1].end() == len(base) else base


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
