"""Makes the documents of prepared drivers, as ``list``, ``show`` and ``status`` print them. It is for display only."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from supervisor.model.records import Member, Preparation, PreparedDriver
from supervisor.model.seen import Found
from supervisor.model.view import View


def prepared_by_uid(view: View) -> dict[str, tuple[dict[str, Any], ...]]:
    """Returns what is prepared, or to be prepared, of each uid: what the hosts say, and the requests to which none has
    said anything yet."""
    found: dict[str, dict[tuple[str, int], dict[str, Any]]] = {}
    for member in view.members.values():
        for driver in member.prepared:
            found.setdefault(driver.uid, {})[member.id, driver.revision] = document(member.id, driver)
    for request in view.preparations:
        if isinstance(request.seen, Found):
            record = request.seen.record
            there = found.setdefault(record.uid, {})
            there.setdefault((request.supervisor, record.revision), _asked(request.supervisor, record))
    return {uid: tuple(those[key] for key in sorted(those)) for uid, those in found.items()}


def document(host: str, driver: PreparedDriver) -> dict[str, Any]:
    """Returns the document of one prepared driver. Without ``ready_at`` and ``why`` it is being brought up."""
    ready_at = driver.ready_at or None
    return {
        "host": host,
        "level": driver.level.value,
        "ready": driver.ready,
        "ready_at": ready_at if driver.ready else None,
        "why": driver.why or None,
        "lacks": driver.lacks or None,
    }


def _asked(host: str, record: Preparation) -> dict[str, Any]:
    return {
        "host": host,
        "level": record.level.value,
        "ready": False,
        "ready_at": None,
        "why": None,
        "lacks": None,
    }


def ready_counts(members: Iterable[Member]) -> Mapping[tuple[str, bool], int]:
    """Returns how many prepared drivers there are, by level and whether they are ready."""
    counts: dict[tuple[str, bool], int] = {}
    for member in members:
        for driver in member.prepared:
            key = driver.level.value, driver.ready
            counts[key] = counts.get(key, 0) + 1
    return counts
