"""Chooses where the copy of a savepoint goes when a job resumes from it, is rolled back to it or is forked.

It is pure, and is called by ``savepoints.resume``, ``bluegreen.fork`` and the leader
(``daemon.leader.update_savepoint_task``).
"""

from __future__ import annotations

import hashlib
import re
from typing import Final

TAG_DIGITS: Final = 8
_MADE: Final = re.compile(rf"\.(?:from-[a-z0-9-]+-[0-9a-f]{{{TAG_DIGITS}}}|fork-[^/]+-[0-9a-f]{{4}})")


def fresh_location(checkpoint: str, savepoint: str, uid: str, revision: int, epoch: int = 0) -> str:
    """Returns a location beside ``checkpoint``, or beside the one from which that was made in this way.
    ``revision`` is that of the job before the resume. ``epoch`` is that of the leader that copies, or 0 for a command.

    The result is the same for the same job, revision and savepoint, so that a command that is given again
    goes on with its copy; it is never one where an earlier one has put another. A leader that was deposed may still be
    copying when its successor has begun: so each term has a location of its own.
    """
    base = _base(checkpoint)
    of = f"{uid} {revision} {epoch}" if epoch else f"{uid} {revision}"
    tag = hashlib.sha256(of.encode()).hexdigest()[:TAG_DIGITS]
    return f"{base}.from-{savepoint}-{tag}"


def fork_location(checkpoint: str, name: str, tag: str) -> str:
    """Returns a location for the fork ``name`` of a job, beside the ``checkpoint`` of that, or beside the one from
    which that was made in this way. ``tag`` are four hexadecimal digits that no fork before had."""
    return f"{_base(checkpoint)}.fork-{name}-{tag}"


def _base(checkpoint: str) -> str:
    base = checkpoint.rstrip("/")
    made = list(_MADE.finditer(base))
    return base[: made[-1].start()] if made and made[-1].end() == len(base) else base
