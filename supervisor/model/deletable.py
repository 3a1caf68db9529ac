"""Says which checkpoint locations may be deleted with all that is below them. It is pure.

It is called at submit (for a spec with ``checkpoint_on_cancel: delete``) and again by the leader before it
deletes.
"""

from __future__ import annotations

from typing import Final

from supervisor.errors import InvalidInput
from supervisor.model.location import normalise, overlaps

BESIDE: Final = ".savepoints"
"""The name of a directory that holds savepoints beside a checkpoint ends like this."""

STORE_DIRECTORIES: Final = ("artifacts", "audit", "checks", "epochs", "logs", "savepoints", "specs")
"""All that the store has, by the first part of its keys."""


def why_not_deletable(location: str | None, store: str | None = None) -> str | None:
    """Returns why the location may not be deleted; None if it may be. ``store`` is the URL of the cluster's
    store, whose content is never deleted with a checkpoint."""
    if location is None:
        return "there is no checkpoint"
    try:
        place = normalise(location)
    except InvalidInput as error:
        return str(error)
    scheme, _, path = place.partition("://")
    if scheme not in ("file", "s3"):
        return f"only Spark can reach {place}"
    if scheme == "file" and path.count("/") < 2:
        return f"{place} is a directory at the root of a file system"
    if holds_savepoints(path):
        return f"{place} is where savepoints are"
    inside = [f"{store}/{name}" for name in STORE_DIRECTORIES] if store is not None else []
    taken = next((each for each in inside if overlaps(place, each)), None)
    return f"{place} overlaps {taken}, where the store keeps its own" if taken is not None else None


def holds_savepoints(key: str) -> bool:
    """Returns whether ``key``, or a directory above it, is a directory of savepoints."""
    return any(part.endswith(BESIDE) for part in key.split("/"))
