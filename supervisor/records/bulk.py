"""Decodes many records at once, by msgspec: a takeover or a ``list`` of 10,000 jobs decodes 30,000 of them.

``reading.seen_all`` calls it for long answers only, so that a shim and a short command never load msgspec. It
says of a record exactly what ``codec.decode`` says, or nothing: whatever is not plainly a record of the
current version with all its fields known and of the right type is left to ``codec`` (None), which upgrades an
older version, keeps what a newer one wrote and says what is wrong. ``tests/property/test_bulk_decoding.py``
checks that the two agree.
"""

from __future__ import annotations

import dataclasses
import types
import typing
from collections.abc import Callable, Iterator
from functools import cache
from typing import Annotated, Any, Literal, TypeVar

import msgspec

from supervisor.model.bounds import Within
from supervisor.records import codec
from supervisor.records.codec import kind_of

Record = TypeVar("Record")


@cache
def bulk_decoder(cls: type[Record]) -> Callable[[bytes], Record | None]:
    """Returns a function from the bytes of a znode to the record, or to None: then ``codec.decode`` is to be
    asked.

    It makes two passes: one that refuses every field that is not known, at every level, and one that builds
    the record itself.
    """
    plain = msgspec.json.Decoder(_strict_twin(cls, versioned=True))
    record = msgspec.json.Decoder(cls)

    def decode(data: bytes) -> Record | None:
        try:
            plain.decode(data)
            return record.decode(data)
        except (msgspec.MsgspecError, ValueError, RecursionError):
            return None

    return decode


def _strict_twin(cls: type[Any], *, versioned: bool = False) -> type[msgspec.Struct]:
    """Returns a type with the fields of the dataclass ``cls`` and room for nothing else."""
    hints = typing.get_type_hints(cls, include_extras=True)
    fields: list[tuple[str, Any] | tuple[str, Any, Any]] = []
    if versioned:
        fields.append(("v", Literal[tuple(_alike(cls.__name__))]))
    for field in dataclasses.fields(cls):
        if field.name == "extra":
            continue
        hint = _strict(hints[field.name])
        if field.default is not dataclasses.MISSING:
            fields.append((field.name, hint, field.default))
        elif field.default_factory is not dataclasses.MISSING:
            fields.append((field.name, hint, msgspec.field(default_factory=field.default_factory)))
        else:
            fields.append((field.name, hint))
    return msgspec.defstruct(f"Strict{cls.__name__}", fields, kw_only=True, forbid_unknown_fields=True)


def _alike(name: str) -> Iterator[int]:
    """Yields the versions that differ from the current one in nothing for this record. ``codec`` upgrades an
    older one."""
    for version in range(codec.VERSION, 0, -1):
        if (name, version) in codec.UPGRADES:
            return
        yield version


def _strict(hint: Any) -> Any:
    """Returns ``hint`` with the dataclasses in it replaced by their strict twins, and its bounds as msgspec
    knows them."""
    hint, rule = kind_of(hint)
    if isinstance(rule, Within):
        return Annotated[hint, msgspec.Meta(ge=hint(rule.low), le=hint(rule.high))]
    if rule is not None:
        return Annotated[hint, msgspec.Meta(pattern=rf"\A(?:{rule.pattern.pattern})\Z")]
    if dataclasses.is_dataclass(hint):
        return _strict_twin(typing.cast(type, hint))
    arguments = typing.get_args(hint)
    if typing.get_origin(hint) in (types.UnionType, typing.Union):
        return typing.Union[tuple(_strict(each) for each in arguments)]  # noqa: UP007 - made at run time
    if typing.get_origin(hint) is tuple:
        return tuple[_strict(arguments[0]), ...]  # type: ignore[misc]  # a type made at run time
    return hint
