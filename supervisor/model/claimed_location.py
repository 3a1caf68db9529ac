"""Describes the claim of a checkpoint location that is about to be written."""

from __future__ import annotations

from dataclasses import dataclass

from supervisor.model.records import CheckpointClaim
from supervisor.model.seen import Seen


@dataclass(frozen=True, slots=True)
class ClaimedLocation:
    """Describes a checkpoint location that is to be claimed; if ``path`` is empty, there is none.
    ``generation`` is the version of /checkpoints when overlaps were searched, and before the jobs were
    counted."""

    path: str
    location: str
    claim: Seen[CheckpointClaim]
    generation: int
