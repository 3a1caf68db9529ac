"""Defines which savepoints of a job are made on a schedule. It is separate from ``savepoints.schedule``,
because every shim has it in its records.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from supervisor.model.bounds import Count, Seconds, SomeSeconds


@dataclass(frozen=True, slots=True, kw_only=True)
class SavepointPolicy:
    """Holds what the spec key ``savepoints`` asks for. One savepoint is made every ``every_s`` while the job
    runs; of these the newest ``keep`` stay, but none that is ``max_age_s`` older than the newest.
    """

    every_s: SomeSeconds
    keep: Count
    max_age_s: Seconds | None = None
    extra: dict[str, Any] = field(default_factory=dict, hash=False)
