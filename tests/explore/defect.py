"""A defect that the gate plants into production code for the time of one exploration, to see it caught."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass


@dataclass(frozen=True)
class Defect:
    """``patch``: makes a context manager within which production code has the defect; plain attribute patching will do.

    ``of``: the rule of docs/protocol.md that it breaks, with its section. ``scenarios``: names of those that catch it, the
    fastest first; the gate tries them in this order, and all the others after them. ``redundant_because``: None for a
    defect that must be caught; else why nothing can show it: the guard that covers it.
    """

    name: str
    of: str
    patch: Callable[[], AbstractContextManager[object]]
    scenarios: tuple[str, ...]
    redundant_because: str | None = None
