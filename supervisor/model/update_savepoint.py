"""Names the savepoints that the leader makes before the hand-over of an update (``update.rollback: savepoint``), and says
how long it waits for them and for their copies. It is pure.
"""

from __future__ import annotations

import hashlib
import re
from typing import Final

PREFIX: Final = "update-"
_ID: Final = re.compile(r"update-(\d+)-[0-9a-f]{8}")
RESTORE_MIN_S: Final = 900.0


def savepoint_id(uid: str, target: int, own_version: int, job_version: int, epoch: int = 0) -> str:
    """Returns the id of the savepoint for the update of ``uid`` to the revision ``target``, such as ``update-7-0a1b2c3d``.

    ``own_version`` is that of /own while the revision before is claimed. It never recurs, so a savepoint with this id holds
    nothing that another attempt has committed. ``job_version`` is that of the reference, which changes whenever a savepoint
    is kept or dropped, and ``epoch`` that of the leader: so none is found again that was made for a hand-over of long ago.
    """
    tag = hashlib.sha256(f"{uid} {own_version} {job_version} {epoch}".encode()).hexdigest()[:8]
    return f"{PREFIX}{target}-{tag}"


def target_of(savepoint: str) -> int | None:
    """Returns the revision before whose hand-over a savepoint was made, or None if its id says that it is none of these."""
    match = _ID.fullmatch(savepoint)
    return None if match is None else int(match[1])


def restore_max_s(start_timeout_s: float) -> float:
    """Returns for how long a leader tries to restore such a savepoint, and the job waits for it. Making it has taken
    ``start_timeout`` at most."""
    return max(RESTORE_MIN_S, 3 * start_timeout_s)
