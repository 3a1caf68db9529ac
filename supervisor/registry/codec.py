"""Records to bytes and back: JSON with a version field ``v``, tolerant of newer minor additions, strict about the rest.

Called by everything in ``registry`` and by the shim (stdlib only). Decoding never guesses: wrong JSON, a wrong type, a
missing field or an unknown version raise ``Corrupt`` with the path, and that record's job alone is quarantined (I9).
Fields that this version does not know are kept in ``extra`` and written back, at every level (rolling upgrades, F59).
Golden files in ``tests/golden/records`` pin the format; one entry of ``UPGRADES`` leads from each version to the next.
"""

from __future__ import annotations

import dataclasses
import json
import types
import typing
from collections.abc import Callable, Mapping
from enum import StrEnum
from typing import Any, TypeVar

from supervisor.errors import Corrupt

VERSION = 1
MAX_RECORD_BYTES = 4096
MAX_LEVELS = 32

UPGRADES: Mapping[tuple[str, int], Callable[[dict[str, Any]], dict[str, Any]]] = {}
"""(record name, from version) → function to the next version. Empty until there is a version 2."""

Record = TypeVar("Record")


def encode(record: Any, max_bytes: int = MAX_RECORD_BYTES) -> bytes:
    """The record as canonical JSON (sorted keys, no spaces, UTF-8), with its version.

    Raises ValueError over ``max_bytes`` (4 KiB for whatever goes into ZooKeeper). Before that, the oldest
    entries of a history are given up: a tombstone that does not fit would make everybody wait for an attempt long dead.
    """
    body = {**_plain(record), "v": VERSION}
    data = _dumped(body)
    while len(data) > max_bytes and body.get("history"):
        body["history"] = body["history"][1:]
        data = _dumped(body)
    if len(data) > max_bytes:
        raise ValueError(f"{type(record).__name__} of {len(data)} bytes is larger than {max_bytes}")
    return data


def decode(cls: type[Record], data: bytes, path: str) -> Record:
    """The record in ``data``. ``path`` is only for the message. Raises ``Corrupt`` and nothing else.

    What is accepted can be written back: no NaN, no half surrogate pair, no bottomless nesting in a field kept for others.
    """
    try:
        body = json.loads(data)
        _dumped(body)
    except (ValueError, RecursionError) as error:
        raise Corrupt(f"{path} is not JSON ({error})") from None
    if not isinstance(body, dict) or _too_deep(body):
        raise Corrupt(f"{path} is not a JSON object of a few levels")
    body = _upgraded(cls.__name__, body, path)
    try:
        return typing.cast(Record, _build(cls, body))
    except (TypeError, ValueError, OverflowError) as error:
        raise Corrupt(f"{path} is not a valid {cls.__name__}: {error}") from None


def _dumped(body: Any) -> bytes:
    return json.dumps(body, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False).encode()


def _too_deep(body: Any) -> bool:
    """More than ``MAX_LEVELS``: json would take it here and fail where the stack is deeper, in the middle of a pass."""
    level = [body]
    for _ in range(MAX_LEVELS):
        level = [
            item for value in level if isinstance(value, dict | list)
            for item in (value.values() if isinstance(value, dict) else value)
        ]
        if not level:
            return False
    return True


def _upgraded(name: str, body: dict[str, Any], path: str) -> dict[str, Any]:
    version = body.pop("v", None)
    if type(version) is not int or not 1 <= version <= VERSION:
        raise Corrupt(f"{path} has version {version!r}; this software knows 1 to {VERSION}")
    for step in range(version, VERSION):
        upgrade = UPGRADES.get((name, step))
        body = upgrade(body) if upgrade else body
    return body


def _plain(value: Any) -> Any:
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        known = {f.name: _plain(getattr(value, f.name)) for f in dataclasses.fields(value) if f.name != "extra"}
        return {**getattr(value, "extra", {}), **known}
    if isinstance(value, StrEnum):
        return value.value
    if isinstance(value, tuple | list):
        return [_plain(item) for item in value]
    return value


_HINTS: dict[type, dict[str, Any]] = {}


def _hints(cls: type) -> dict[str, Any]:
    """Resolved once per record class: there are about twenty of them."""
    if cls not in _HINTS:
        _HINTS[cls] = typing.get_type_hints(cls)
    return _HINTS[cls]


def _build(cls: type[Any], body: Mapping[str, Any]) -> Any:
    hints = _hints(cls)
    known = {f.name: f for f in dataclasses.fields(cls) if f.name != "extra"}
    values = {name: _convert(hints[name], body[name], name) for name in known if name in body}
    for name, field in known.items():
        required = field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING
        if required and name not in values:
            raise ValueError(f"field {name} is missing")
    if "extra" in hints:
        values["extra"] = {name: value for name, value in body.items() if name not in known}
    return cls(**values)


def _convert(hint: Any, value: Any, name: str) -> Any:
    origin = typing.get_origin(hint)
    if origin in (types.UnionType, typing.Union):
        if value is None:
            return None
        (hint,) = (arg for arg in typing.get_args(hint) if arg is not type(None))
        return _convert(hint, value, name)
    if origin is tuple:
        return tuple(_convert(typing.get_args(hint)[0], item, name) for item in _expect(list, value, name))
    if origin is dict:
        return dict(_expect(dict, value, name))
    if dataclasses.is_dataclass(hint):
        return _build(typing.cast(type, hint), _expect(dict, value, name))
    if isinstance(hint, type) and issubclass(hint, StrEnum):
        return hint(_expect(str, value, name))
    if hint is float:
        return float(_expect((int, float), value, name))
    return _expect(hint, value, name)


def _expect(kind: Any, value: Any, name: str) -> Any:
    if not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool):
        raise ValueError(f"field {name} is {json.dumps(value)[:60]}")
    return value
