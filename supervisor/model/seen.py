"""What a read of a record showed: found, unreadable, or absent. Unknown is a value of its own, never "absent".

``None`` (absent) means that ZooKeeper answered that there is no such znode. A read that failed raises instead.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Generic, TypeAlias, TypeVar

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Found(Generic[T]):
    """A readable record with the version that guards changes of it and the mzxid that tells two states apart."""

    record: T
    version: int
    mzxid: int = 0


@dataclass(frozen=True, slots=True)
class Unreadable:
    """The znode is there, but what it holds cannot be believed (wrong JSON, schema or version)."""

    reason: str
    version: int
    mzxid: int = 0


Seen: TypeAlias = Found[T] | Unreadable | None
