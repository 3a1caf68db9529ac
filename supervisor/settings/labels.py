"""Defines the labels that a spec or ``supervisor.yaml`` gives, and their bounds.

Each check raises ValueError with the rest of a sentence that begins with the key (see ``settings.sections``).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import AfterValidator, BeforeValidator

from supervisor.model.labels import (
    KEY,
    KEY_RULE,
    LABELS_MAX,
    LABELS_MAX_CHARACTERS,
    VALUE,
    VALUE_RULE,
    packed,
)


def _label_key(key: str) -> str:
    if not KEY.fullmatch(key):
        raise ValueError(f"{key[:80]!r} is no key of a label: that has {KEY_RULE}")
    return key


def _label_value(value: str) -> str:
    if not VALUE.fullmatch(value):
        raise ValueError(f"{value[:80]!r} must be {VALUE_RULE}")
    return value


def _keys(value: Any) -> Any:
    """Checks the keys before the values: the sentence about a value begins with its key."""
    if isinstance(value, Mapping):
        for key in value:
            if not KEY.fullmatch(str(key)):
                raise ValueError(f"holds {str(key)[:80]!r}, which is no key of a label: that has {KEY_RULE}")
    return value


def _bounded(labels: dict[str, str]) -> dict[str, str]:
    if len(labels) > LABELS_MAX:
        raise ValueError(f"has {len(labels)} labels, and {LABELS_MAX} are the most")
    size = sum(map(len, packed(labels)))
    if size > LABELS_MAX_CHARACTERS:
        raise ValueError(f"has {size} characters of labels, and {LABELS_MAX_CHARACTERS} are the most")
    return labels


LabelKey = Annotated[str, AfterValidator(_label_key)]
Labels = Annotated[
    dict[str, Annotated[str, AfterValidator(_label_value)]], BeforeValidator(_keys), AfterValidator(_bounded)
]
