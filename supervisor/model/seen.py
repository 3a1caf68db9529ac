"""Defines what a read of a record can show: found, unreadable, or absent. What is unknown is never taken for
absent.

``None`` (absent) means that ZooKeeper answered that there is no such znode. A read that failed raises
instead.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Generic, TypeAlias, TypeVar

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Found(Generic[T]):
    """Holds a readable record with the version that guards changes of it and the mzxid that tells two states
    apart.
    """

    record: T
    version: int
    mzxid: int = 0


@dataclass(frozen=True, slots=True)
class Unreadable:
    """Says that the znode exists, but that its content cannot be believed (wrong JSON, schema or version)."""

    reason: str
    version: int
    mzxid: int = 0


Seen: TypeAlias = Found[T] | Unreadable | None
