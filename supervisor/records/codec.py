"""Turns records into bytes and back: JSON with a version field ``v``, tolerant of newer minor additions,
strict about the rest.

Everything in ``registry`` calls it, and so does the shim (stdlib only). Decoding never guesses: wrong JSON, a
wrong type, a value out of its bounds (``model.bounds``), a missing field or an unknown version raise
``Corrupt`` with the path, and the job of that record alone is quarantined (I9). Fields that this version does
not know are kept in ``extra`` and written back, at every level (rolling upgrades, F59). Golden files in
``tests/golden/records`` pin the format; one entry of ``UPGRADES`` leads from each version to the next.
"""

from __future__ import annotations

import dataclasses
import json
import types
import typing
from collections.abc import Callable, Mapping
from enum import StrEnum
from functools import cache
from typing import Annotated, Any, TypeVar

from supervisor.errors import Corrupt
from supervisor.model.bounds import FLOAT, INT, Like, Within

VERSION = 1
MAX_RECORD_BYTES = 4096
MAX_LEVELS = 32
PLAIN_FIRST = 3
"""This many entries of a history count more than all that is packed: they say what happened last."""

UPGRADES: Mapping[tuple[str, int], Callable[[dict[str, Any]], dict[str, Any]]] = {}
"""It maps (record name, from version) to the function to the next version. It is empty until there is a
version 2."""

Record = TypeVar("Record")


def encode(record: Any, max_bytes: int = MAX_RECORD_BYTES) -> bytes:
    """Returns the record as canonical JSON (sorted keys, no spaces, UTF-8), with its version.

    Raises ValueError over ``max_bytes`` (4 KiB for whatever goes into ZooKeeper). Before that, the oldest
    entries of a history are given up, and what was packed of it: a tombstone that does not fit would make
    everybody wait for an attempt long dead.
    """
    body = {**_plain(record), "v": VERSION}
    data = _dumped(body)
    while len(data) > max_bytes and (body.get("history") or body.get("earlier")):
        if body.get("earlier") and len(body["history"]) <= PLAIN_FIRST:
            body["earlier"] = ""
        else:
            body["history"] = body["history"][1:]
        data = _dumped(body)
    if len(data) > max_bytes:
        raise ValueError(f"{type(record).__name__} of {len(data)} bytes is larger than {max_bytes}")
    return data


def decode(cls: type[Record], data: bytes, path: str) -> Record:
    """Returns the record in ``data``. ``path`` is for the message only. Raises ``Corrupt`` and nothing else.

    What is accepted can be written back: there is no NaN, no half surrogate pair, no bottomless nesting in a
    field kept for others.
    """
    try:
        body = _DECODER.decode(data.decode())
        if b"\\u" in data:  # only an escape can be half of a surrogate pair
            _dumped(body)
    except (ValueError, RecursionError) as error:
        raise Corrupt(f"{path} is not JSON ({error})") from None
    # else it cannot be deep, and need not be walked
    crowded = data.count(b"[") + data.count(b"{") > MAX_LEVELS
    if not isinstance(body, dict) or (crowded and _too_deep(body)):
        raise Corrupt(f"{path} is not a JSON object of a few levels")
    body = _upgraded(cls.__name__, body, path)
    try:
        return typing.cast(Record, _build(cls, body))
    except (TypeError, ValueError, OverflowError) as error:
        raise Corrupt(f"{path} is not a valid {cls.__name__}: {error}") from None


def _refused(constant: str) -> None:
    raise ValueError(f"{constant} is no number")


def _finite(text: str) -> float:
    number = float(text)
    if number - number != 0.0:
        raise ValueError(f"{text} is too large")
    return number


_DECODER = json.JSONDecoder(parse_constant=_refused, parse_float=_finite)


def _dumped(body: Any) -> bytes:
    return json.dumps(
        body, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False
    ).encode()


def _too_deep(body: Any) -> bool:
    """Says whether ``body`` has more than ``MAX_LEVELS`` levels: json would take it here and fail where the
    stack is deeper, in the middle of a pass."""
    level = [body]
    for _ in range(MAX_LEVELS):
        level = [
            item
            for value in level
            if isinstance(value, dict | list)
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
        known = {
            f.name: _plain(item)
            for f in dataclasses.fields(value)
            if f.name != "extra"
            and ((item := getattr(value, f.name)) != f.default or "omitted" not in f.metadata)
        }
        return {**getattr(value, "extra", {}), **known}
    if isinstance(value, StrEnum):
        return value.value
    if isinstance(value, tuple | list):
        return [_plain(item) for item in value]
    return value


Convert = Callable[[Any, str], Any]
PLAIN = (str, int, bool, float)


@cache
def _reader(
    cls: type[Any],
) -> tuple[tuple[tuple[str, type | None, float, float, Convert, bool], ...], frozenset[str], bool]:
    """Returns (name, type, least, most, converter, required) of every field, the names, and whether unknown
    fields are kept.

    A value of exactly that type within these bounds needs no converter. It is worked out once per class: a
    takeover of 10,000 jobs decodes 30,000 records.
    """
    hints = typing.get_type_hints(cls, include_extras=True)
    fields = [field for field in dataclasses.fields(cls) if field.name != "extra"]
    plan = tuple(
        (
            f.name,
            *_plain_type(hints[f.name]),
            _converter(hints[f.name]),
            f.default is dataclasses.MISSING and f.default_factory is dataclasses.MISSING,
        )
        for f in fields
    )
    return plan, frozenset(f.name for f in fields), "extra" in hints


def _build(cls: type[Any], body: Mapping[str, Any]) -> Any:
    plan, known, keeps_unknown = _reader(cls)  # type: ignore[arg-type]  # mypy: a class with fields is not Hashable
    values: dict[str, Any] = {}
    for name, plain, least, most, convert, required in plan:
        if name in body:
            value = body[name]
            kind = type(value)
            if kind is plain and (kind is str or least <= value <= most):
                values[name] = value
            else:
                values[name] = convert(value, name)
        elif required:
            raise ValueError(f"field {name} is missing")
    if keeps_unknown:
        values["extra"] = (
            {} if body.keys() <= known else {name: body[name] for name in body if name not in known}
        )
    return cls(**values)


def kind_of(hint: Any) -> tuple[Any, Within | Like | None]:
    """Returns the type of ``hint`` and its bounds, which are None if it has none."""
    rules: tuple[Any, ...] = ()
    if typing.get_origin(hint) is Annotated:
        hint, *rest = typing.get_args(hint)
        rules = tuple(rest)
    stated = next((rule for rule in rules if isinstance(rule, Within | Like)), None)
    return hint, stated or (INT if hint is int else FLOAT if hint is float else None)


def _plain_type(hint: Any) -> tuple[type | None, float, float]:
    """Returns the plain type, which is ``str`` for ``str`` and for ``str | None``, with the bounds of a
    number; the type is None where there is more to a value."""
    union = typing.get_origin(hint) in (types.UnionType, typing.Union)
    kinds = [arg for arg in (typing.get_args(hint) if union else (hint,)) if arg is not type(None)]
    kind, rule = kind_of(kinds[0]) if len(kinds) == 1 else (None, None)
    if kind not in PLAIN or isinstance(rule, Like):
        return None, 0, 0
    return kind, *(rule or (0, 1))  # False and True are numbers, too


def _converter(hint: Any) -> Convert:
    """Returns the function from a JSON value to the type ``hint``. It raises ValueError naming the field."""
    hint, rule = kind_of(hint)
    origin = typing.get_origin(hint)
    if origin in (types.UnionType, typing.Union):
        (kind,) = (arg for arg in typing.get_args(hint) if arg is not type(None))
        if _is_row(kind):
            return lambda value, _: _row(kind, value)
        inner = _converter(kind)
        return lambda value, name: None if value is None else inner(value, name)
    if origin is tuple:
        kind = typing.get_args(hint)[0]
        if _is_row(kind):
            return lambda value, _: _rows(kind, value)
        item = _converter(kind)
        return lambda value, name: tuple([item(each, name) for each in _expect(list, value, name)])
    if origin is dict:
        each_of = _converter(typing.get_args(hint)[1])
        return lambda value, name: {
            key: each_of(each, name) for key, each in _expect(dict, value, name).items()
        }
    if dataclasses.is_dataclass(hint):
        return lambda value, name: _build(typing.cast(type, hint), _expect(dict, value, name))
    if isinstance(hint, type) and issubclass(hint, StrEnum):
        words = {member.value: member for member in hint}
        return lambda value, name: (
            (words.get(value) if type(value) is str else None) or hint(_expect(str, value, name))
        )
    if isinstance(rule, Like):
        whole = rule.pattern.fullmatch
        return lambda value, name: value if whole(_expect(str, value, name)) else _odd(value, name)
    if isinstance(rule, Within):
        low, high = rule
        accepted, made = ((int, float), float) if hint is float else (int, int)
        return lambda value, name: (
            made(value) if low <= _expect(accepted, value, name) <= high else _odd(value, name)
        )
    return lambda value, name: _expect(hint, value, name)


def _is_row(kind: Any) -> bool:
    """Says whether ``kind`` is a named tuple, which is a list in JSON."""
    return isinstance(kind, type) and issubclass(kind, tuple) and hasattr(kind, "_fields")


def _row(kind: Any, value: Any) -> Any:
    """Returns the named tuple that ``value`` is, or None where it cannot be read."""
    hints = typing.get_type_hints(kind, include_extras=True)
    if not isinstance(value, list) or len(value) != len(hints):
        return None
    try:
        return kind(
            *(_converter(hint)(item, name) for (name, hint), item in zip(hints.items(), value, strict=True))
        )
    except ValueError:
        return None


def _rows(kind: Any, value: Any) -> tuple[Any, ...]:
    """Returns the named tuples in ``value`` that can be read."""
    found = (_row(kind, item) for item in (value if isinstance(value, list) else ()))
    return tuple(row for row in found if row is not None)


def _expect(kind: Any, value: Any, name: str) -> Any:
    if not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool):
        raise ValueError(f"field {name} is {json.dumps(value)[:60]}")
    return value


def _odd(value: Any, name: str) -> Any:
    raise ValueError(f"field {name} is {json.dumps(value)[:60]}, which it can't be")
