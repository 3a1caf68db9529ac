"""Defines labels of jobs and hosts, and the selectors that choose by them. It is pure.

In records a label is the text ``key=value``, and labels are sorted: so they can be hashed and compared. A selector is
written as in kubectl: ``key=value``, ``key!=value``, or ``key`` alone; a comma joins several, all of which must hold.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

LABELS_MAX: Final = 16
"""A job, and a host, has at most so many labels ..."""
LABELS_MAX_CHARACTERS: Final = 512
"""... which have at most so many characters together, since each record has to have room for them."""

KEY: Final = re.compile(r"[A-Za-z0-9]([A-Za-z0-9._/-]{0,61}[A-Za-z0-9])?")
VALUE: Final = re.compile(r"[A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?")
KEY_RULE: Final = (
    "1 to 63 letters, digits, dots, dashes, underscores and slashes, and a letter or digit at both ends"
)
VALUE_RULE: Final = (
    "1 to 63 letters, digits, dots, dashes and underscores, and have a letter or digit at both ends"
)


def packed(labels: Mapping[str, str]) -> tuple[str, ...]:
    """Returns labels in the form in which records have them."""
    return tuple(sorted(f"{key}={value}" for key, value in labels.items()))


def unpacked(labels: Iterable[str]) -> dict[str, str]:
    """Returns by key the labels that a record has."""
    pairs = (each.partition("=") for each in labels)
    return {key: value for key, _, value in pairs}


@dataclass(frozen=True, slots=True)
class LabelRequirement:
    """Is one condition on labels. If ``value`` is None, any value of ``key`` will do; with ``differs``, ``key`` must not
    have this value, and may be missing."""

    key: str
    value: str | None = None
    differs: bool = False

    def __str__(self) -> str:
        return self.key if self.value is None else f"{self.key}{'!=' if self.differs else '='}{self.value}"

    def holds(self, labels: Mapping[str, str]) -> bool:
        """Says whether ``labels`` meet it."""
        if self.value is None:
            return self.key in labels
        return (labels.get(self.key) == self.value) is not self.differs


@dataclass(frozen=True, slots=True)
class Selector:
    """Chooses by labels: all of ``requirements`` must hold."""

    requirements: tuple[LabelRequirement, ...]

    def __str__(self) -> str:
        return ",".join(map(str, self.requirements))

    def selects(self, labels: Iterable[str]) -> bool:
        """Says whether it chooses who has ``labels``, which are in the form of records."""
        found = unpacked(labels)
        return all(each.holds(found) for each in self.requirements)


def parsed_selector(texts: Sequence[str]) -> Selector:
    """Returns the selector that ``texts`` are together. Raises ValueError with the rest of a sentence."""
    parts = [part.strip() for text in texts for part in text.split(",")]
    return Selector(tuple(_requirement(part) for part in parts))


def _requirement(text: str) -> LabelRequirement:
    key, equals, value = text.partition("=")
    differs = bool(equals) and key.endswith("!")
    key = key.removesuffix("!") if differs else key
    if not KEY.fullmatch(key) or (equals and not VALUE.fullmatch(value)):
        raise ValueError(f"{text[:80]!r} is none of key=value, key!=value and key, like team=web")
    return LabelRequirement(key, value if equals else None, differs)
