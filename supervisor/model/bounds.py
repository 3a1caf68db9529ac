"""Defines what a value of a persisted record may be, beside its type: the type of the field says it,
``records.codec`` enforces it.

A record is written by a shim, a command or a version of the software that is not this one, or by hand. A
number without a bound makes arithmetic raise wherever it is met, and a name with a slash in it leads a path
out of its directory. So a record with a value out of its bounds is no record at all: it is ``Corrupt``, and
affects only its own job (I9). The bounds are far beyond whatever is written in earnest, because an ownership
that can't be believed stops its driver. A number without bounds of its own is within those of a signed 64-bit
integer, or finite and below 10^18. The module imports the standard library only, because a shim imports it.
"""

from __future__ import annotations

import re
from typing import Annotated, Final, NamedTuple, TypeAlias

YEARS_10_S: Final = 3650 * 86_400.0

OMITTED: Final = {"omitted": True}
"""This metadata marks a field that is not written while it has its default."""


class Within(NamedTuple):
    """Bounds a number; both ends are included."""

    low: float
    high: float


class Like(NamedTuple):
    """Bounds a text: the regular expression matches the whole of it."""

    pattern: re.Pattern[str]


INT: Final = Within(-(2**63), 2**63 - 1)
FLOAT: Final = Within(-1e18, 1e18)

Count: TypeAlias = Annotated[int, Within(0, 2**53)]
Bytes: TypeAlias = Annotated[int, Within(0, 2**60)]
Seconds: TypeAlias = Annotated[float, Within(0.0, YEARS_10_S)]
SomeSeconds: TypeAlias = Annotated[float, Within(0.001, YEARS_10_S)]
"""This is the type of a period: with a period of 0 the work would be repeated at once for ever."""
Factor: TypeAlias = Annotated[float, Within(0.0, 1000.0)]

_NAME: Final = "[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?"
_UID: Final = "[A-Za-z0-9][A-Za-z0-9_-]{0,63}"
_SUPERVISOR: Final = "[A-Za-z0-9][A-Za-z0-9._-]{0,126}"

JobName: TypeAlias = Annotated[str, Like(re.compile(_NAME))]
"""It has the form of ``spec.fields.Name``: it is a directory of logs, a part of keys in the store, and a path
in ZooKeeper.
"""
Uid: TypeAlias = Annotated[str, Like(re.compile(_UID))]
"""With the number of the attempt it is the name of a run directory."""
SupervisorId: TypeAlias = Annotated[str, Like(re.compile(_SUPERVISOR))]
"""It has the form of ``settings.addresses.PlainName``."""

UidOrNone: TypeAlias = Annotated[str, Like(re.compile(f"(?:{_UID})?"))]
SupervisorIdOrNone: TypeAlias = Annotated[str, Like(re.compile(f"(?:{_SUPERVISOR})?"))]
"""It is empty if there is none."""
