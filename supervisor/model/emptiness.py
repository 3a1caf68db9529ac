"""Defines what is known about a driver tree after a kill. "Dead" means ``EMPTY`` (protocol §7.4), and only
that is a proof.
"""

from __future__ import annotations

from enum import StrEnum


class Emptiness(StrEnum):
    """Is what a check of the tree found. After ``UNPROVABLE`` nothing was seen, or nothing can be known; a
    leader that waits for the tree has to wait the full time."""

    EMPTY = "empty"
    POPULATED = "populated"
    UNPROVABLE = "unprovable"
