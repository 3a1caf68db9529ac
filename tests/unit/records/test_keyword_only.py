"""A record that is kept is built by the names of its fields: one more field moves nothing to another field's place."""

from __future__ import annotations

import dataclasses
import importlib
import inspect
import typing
from pathlib import Path
from typing import Any

import supervisor
from supervisor.coord.trust import Memory
from supervisor.model.checkpoint_expectation import CheckpointExpectation
from supervisor.model.launch import Launch
from supervisor.model.records import HistoryEntry, Ownership
from supervisor.registry.blobs import ClusterMark
from supervisor.savepoints.manifest import Begun, Manifest, SavedQuery

ROOT = Path(supervisor.__file__).parent
KEEPS_UNKNOWN = "    extra: dict[str, Any] = field("
OF_OTHER_FORMS = {Begun, Manifest, SavedQuery, Memory}
"""These are written as JSON too, but not by ``records.codec``."""


def encoded() -> set[type[Any]]:
    """Every dataclass that ``records.codec`` encodes or decodes: those that keep unknown fields, and their parts."""
    found: set[type[Any]] = set()
    for path in ROOT.rglob("*.py"):
        if KEEPS_UNKNOWN in path.read_text():
            name = ".".join(("supervisor", *path.relative_to(ROOT).with_suffix("").parts))
            for _, cls in inspect.getmembers(importlib.import_module(name), inspect.isclass):
                if not dataclasses.is_dataclass(cls):
                    continue
                if "extra" in {field.name for field in dataclasses.fields(cls)}:
                    found |= with_parts(typing.cast(type, cls))
    return found


def with_parts(cls: type[Any]) -> set[type[Any]]:
    """The class, and every dataclass within its fields, at any depth."""
    found = {cls}
    waiting = list(typing.get_type_hints(cls).values())
    while waiting:
        hint = waiting.pop()
        waiting += typing.get_args(hint)
        if dataclasses.is_dataclass(hint):
            found |= with_parts(typing.cast(type, hint))
    return found


def positional(cls: type[Any]) -> list[str]:
    return [field.name for field in dataclasses.fields(cls) if field.init and not field.kw_only]


def test_every_record_is_built_by_the_names_of_its_fields() -> None:
    assert {
        cls.__qualname__: fields for cls in encoded() | OF_OTHER_FORMS if (fields := positional(cls))
    } == {}


def test_the_search_finds_records_and_their_parts_in_every_module() -> None:
    found = encoded()
    assert {Ownership, HistoryEntry, Launch, CheckpointExpectation, ClusterMark} <= found
    assert len(found) == sum(path.read_text().count(KEEPS_UNKNOWN) for path in ROOT.rglob("*.py"))
