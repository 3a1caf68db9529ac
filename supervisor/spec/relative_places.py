"""Finds in a spec what names a place in the working directory, which one host has and no other. Pure.

What an application makes of its arguments only it knows: an argument counts if it says by itself that it is a relative path
(``./out``), or if it is relative and its option is named for a place (``--output out``, ``checkpoint=ck``).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from supervisor.errors import Complaint
from supervisor.spec.job import CHECKPOINT_PLACEHOLDER, JobSpec

PLACES: Final = ("spark.sql.warehouse.dir", "spark.sql.streaming.checkpointLocation")
_RELATIVE: Final = re.compile(r"\.{1,2}/")
_PATH: Final = re.compile(r"[\w.-]+(/[\w.-]+)+/?")
_OPTION: Final = re.compile(r"--?[\w-]*(?:checkpoint|output|sink|warehouse)[\w-]*", re.IGNORECASE)
REMEDY: Final = "name a place that every host reaches"


def relative_places(spec: JobSpec) -> tuple[Complaint, ...]:
    """Returns a complaint for each place of the spec that is in the working directory."""
    return tuple(
        Complaint(
            f"{where} is relative: it lies in the working directory, which only the host has that runs the driver",
            REMEDY,
        )
        for where in (*_of_conf(spec), *_of_args(spec.args))
    )


def _of_conf(spec: JobSpec) -> Iterator[str]:
    for name in PLACES:
        value = spec.conf.get(name, "/")
        if value and not value.startswith("/") and ":" not in value and "$" not in value:
            yield f"conf {name} {value[:80]!r}"


def _of_args(args: tuple[str, ...]) -> Iterator[str]:
    before = ""
    for arg in args:
        option, _, value = arg.partition("=") if "=" in arg else (before, "", arg)
        is_named = _OPTION.fullmatch(option) or _OPTION.fullmatch(f"-{option}")
        if _RELATIVE.match(value) or (
            is_named and _PATH.fullmatch(value) and CHECKPOINT_PLACEHOLDER not in value
        ):
            yield f"args: {arg[:80]!r}"
        before = arg
