"""Defines the base of every pydantic section; only this module turns pydantic's errors into one sentence.

``settings.file`` and ``spec.job`` call it. A sentence names the key with its path, the file, and the remedy;
it never shows a whole value, because an environment variable or a spec may hold what should not be in a
terminal.
"""

from __future__ import annotations

import itertools
import types
import typing
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from pydantic import AfterValidator, BaseModel, ConfigDict, ValidationError
from pydantic.fields import FieldInfo
from pydantic_core import ErrorDetails

from supervisor.errors import InvalidInput
from supervisor.settings.nearest import suggestion
from supervisor.settings.units import format_duration

Model = TypeVar("Model", bound=BaseModel)

_KINDS: Mapping[type, str] = {
    bool: "true or false",
    int: "a number",
    float: "a number",
    str: "text",
    list: "a list",
    dict: "a mapping",
    type(None): "null",
}


class Section(BaseModel):
    """Is the base of a section. It is frozen; unknown keys and implicit conversions (``"yes"`` to true, 5 to
    ``"5"``) are errors.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, hide_input_in_errors=True)


@dataclass(frozen=True)
class Since:
    """Marks a key that version 0.1 does not know: ``key: Annotated[Type, Since("0.2")] = DEFAULT``. A default is not written
    to the stored form (``spoken``), so that the version before reads what does not use the key, and its digest stays."""

    version: str


def spoken(section: Section, body: Mapping[str, Any]) -> dict[str, Any]:
    """Returns ``body``, the document of ``section`` by its aliases, without the later keys that say their default."""
    kept: dict[str, Any] = {}
    keys = {field.alias or name: (name, field) for name, field in type(section).model_fields.items()}
    for key, written in body.items():
        name, field = keys[key]
        value = getattr(section, name)
        if is_later(field) and value == field.get_default(call_default_factory=True):
            continue
        kept[key] = spoken(value, written) if isinstance(value, Section) else written
    return kept


def is_later(field: FieldInfo) -> bool:
    """Says whether the key of ``field`` came after version 0.1."""
    return any(isinstance(each, Since) for each in field.metadata)


def between(low_s: float, high_s: float) -> AfterValidator:
    """Returns the check of a duration within these bounds, both included."""

    def check(value_s: float) -> float:
        if not low_s <= value_s <= high_s:
            allowed = f"{format_duration(low_s)} to {format_duration(high_s)}"
            raise ValueError(f"is {format_duration(value_s)}, outside of what is allowed ({allowed})")
        return value_s

    return AfterValidator(check)


def validated(model: type[Model], data: Any, source: str, sources: Mapping[str, str] | None = None) -> Model:
    """Returns ``data`` as an instance of ``model``. Raises ``InvalidInput`` with one sentence, and with those of all
    other errors in ``others``.

    ``source`` is the file, for the message. ``sources`` says by key path where a value came from if not from
    the file.
    """
    nul = _path_of_nul(data)
    if nul is not None:
        raise InvalidInput(
            f"{_origin(nul, source, sources)}: {nul or 'a key'} holds a NUL character", "remove it"
        )
    try:
        return model.model_validate(data)
    except ValidationError as error:
        # An unknown key often explains the missing one beside it, so it is told first.
        details = sorted(error.errors(include_url=False), key=lambda e: e["type"] != "extra_forbidden")
        sentences = tuple(dict.fromkeys(_sentence(model, each, source, sources) for each in details))
        raise InvalidInput(sentences[0], others=sentences[1:]) from None


def _sentence(
    model: type[BaseModel], error: ErrorDetails, source: str, sources: Mapping[str, str] | None
) -> str:
    where = dotted(error["loc"])
    origin = _origin(where, source, sources)
    if error["type"] == "extra_forbidden":
        origin = next((o for key, o in (sources or {}).items() if key.startswith(f"{where}.")), origin)
        parent = error["loc"][:-1]
        prefix = f"{dotted(parent)}." if parent else ""
        return f"unknown key '{where}' in {origin}{suggestion(str(error['loc'][-1]), known_keys(model, parent), prefix)}"
    return f"{origin}: {where} {_what(error)}" if where else f"{origin}: {_what(error)}"


def _what(error: ErrorDetails) -> str:
    kind, context, given = error["type"], error.get("ctx", {}), error["input"]
    if kind == "value_error":
        return str(context["error"])
    if kind == "missing":
        return "is missing; add it"
    if kind == "literal_error":
        hint = suggestion(given, _words(context["expected"])) if isinstance(given, str) else ""
        return f"must be {context['expected']}{hint if 'did you mean' in hint else ''}"
    if kind == "string_type":
        remedy = "; put it in quotes" if isinstance(given, int | float) else ""
        return f"must be text, not {_kind(given)}{remedy}"
    if kind == "int_type" and isinstance(given, float):
        return "must be a whole number"
    return _PLAIN.get(kind, "{message}").format(kind=_kind(given), message=_lower(error["msg"]), **context)


_PLAIN: Mapping[str, str] = {
    "bool_type": "must be true or false, not {kind}",
    "int_type": "must be a whole number, not {kind}",
    "int_from_float": "must be a whole number",
    "string_pattern_mismatch": "holds characters that are not allowed there",
    "float_type": "must be a number, not {kind}",
    "list_type": "must be a list, not {kind}",
    "tuple_type": "must be a list, not {kind}",
    "dict_type": "must be a mapping, not {kind}",
    "model_type": "must be a mapping, not {kind}",
    "model_attributes_type": "must be a mapping, not {kind}",
    "greater_than_equal": "must be at least {ge}",
    "greater_than": "must be more than {gt}",
    "less_than_equal": "must be at most {le}",
    "string_too_long": "is longer than {max_length} characters",
    "string_too_short": "is empty",
    "too_long": "has more than {max_length} entries",
}


def dotted(location: Sequence[str | int]) -> str:
    """Returns a path as text: ``("args", 1)`` → ``args[1]``, ``("restart", "max")`` → ``restart.max``."""
    path = ""
    for part in location:
        path += f"[{part}]" if isinstance(part, int) else f".{part}" if path else part
    return path


def known_keys(model: type[BaseModel], location: Sequence[str | int] = ()) -> tuple[str, ...]:
    """Returns the keys, as written in YAML, of the section at ``location`` below ``model``; none if it is no
    section.
    """
    section: Any = model
    for part, below in itertools.zip_longest(location, location[1:]):
        if isinstance(part, str):  # an entry of a list is what the list is of
            section = section_at(section, part, in_lists=isinstance(below, int)) if section else None
    if section is None:
        return ()
    return tuple(field.alias or name for name, field in section.model_fields.items())


def section_at(model: type[BaseModel], key: str | int, *, in_lists: bool = False) -> type[BaseModel] | None:
    """Returns the section that ``key`` of ``model`` holds, or None if it holds none; one of a list only ``in_lists``."""
    for name, field in model.model_fields.items():
        if (field.alias or name) == key:
            return _section_in(field.annotation, in_lists=in_lists)
    return None


def _section_in(annotation: Any, *, in_lists: bool) -> type[BaseModel] | None:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    if typing.get_origin(annotation) in (types.UnionType, typing.Union, *((list, tuple) if in_lists else ())):
        found = (_section_in(each, in_lists=in_lists) for each in typing.get_args(annotation))
        return next((section for section in found if section), None)
    return None


def _origin(path: str, source: str, sources: Mapping[str, str] | None) -> str:
    """Returns where the value at ``path`` came from, by the longest path in ``sources`` that leads to it."""
    leading = [key for key in sources or {} if path == key or path.startswith((f"{key}.", f"{key}["))]
    return (sources or {})[max(leading, key=len)] if leading else source


def _path_of_nul(value: Any, path: str = "") -> str | None:
    if isinstance(value, str):
        return path if "\0" in value else None
    if isinstance(value, Mapping):
        if any("\0" in str(key) for key in value):
            return path
        pairs = [(f"{path}.{key}" if path else str(key), item) for key, item in value.items()]
    elif isinstance(value, list | tuple):
        pairs = [(f"{path}[{index}]", item) for index, item in enumerate(value)]
    else:
        return None
    return next((found for below, item in pairs if (found := _path_of_nul(item, below)) is not None), None)


def _words(expected: str) -> list[str]:
    return [word.strip(" '") for word in expected.replace(" or ", ",").split(",")]


def _kind(value: Any) -> str:
    return _KINDS.get(type(value), "something else")


def _lower(message: str) -> str:
    return message[:1].lower() + message[1:]
