"""Reads YAML without surprises: the text of a configuration file or a spec becomes a plain mapping.

It is stricter than the safe loader on which it is based: a key given twice is refused (YAML keeps the last
one silently), aliases are refused (a few lines of them expand to gigabytes), and plain words mean what YAML
1.2 says: only ``true`` and ``false`` are booleans, ``on``, ``no`` and ``12:30`` are text. Numbers below a key
named in ``as_written`` keep their spelling, because Spark reads ``1.10`` as a version where a float would
turn it into ``1.1``. An error is ``InvalidInput`` with one sentence.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from typing import Any, ClassVar, Final

import yaml

from supervisor.errors import InvalidInput

BRACKETS_MAX: Final = 100
"""So many brackets and braces may be open at a place."""
_STR = "tag:yaml.org,2002:str"
_INT = "tag:yaml.org,2002:int"
_FLOAT = "tag:yaml.org,2002:float"
_BOOL = "tag:yaml.org,2002:bool"
_NULL = "tag:yaml.org,2002:null"


class _Loader(yaml.SafeLoader):
    """Is a SafeLoader with YAML 1.2's plain scalars and no tag beyond the seven of JSON."""

    yaml_implicit_resolvers: dict[Any, Any] = {}  # filled below, in PyYAML's own way
    yaml_constructors: ClassVar[dict[Any, Any]] = {}

    def fetch_flow_collection_start(self, token: Any) -> None:
        """Refuses brackets beyond ``BRACKETS_MAX`` at once: for each of them the reader looks at all that are open."""
        if self.flow_level >= BRACKETS_MAX:
            mark = self.get_mark()
            raise yaml.scanner.ScannerError(None, None, "it is nested too deeply", mark)
        super().fetch_flow_collection_start(token)

    def compose_node(self, parent: Any, index: Any) -> Any:
        if self.check_event(yaml.AliasEvent):
            mark = self.peek_event().start_mark  # type: ignore[no-untyped-call]
            raise yaml.composer.ComposerError(
                None, None, "an alias (*) is not supported, repeat the value", mark
            )
        return super().compose_node(parent, index)


def _text(loader: _Loader, node: yaml.ScalarNode) -> str:
    """Returns the text of a scalar. JSON writes characters beyond 16 bits as two escapes, and JSON is YAML:
    they are joined; a lone half is no character and is refused.
    """
    value = str(loader.construct_scalar(node))
    try:
        return value.encode("utf-16", "surrogatepass").decode("utf-16")
    except UnicodeDecodeError:
        raise yaml.constructor.ConstructorError(
            None, None, "half a surrogate pair is no text", node.start_mark
        ) from None


def _number(kind: type[int] | type[float]) -> Any:
    def construct(loader: _Loader, node: yaml.ScalarNode) -> int | float:
        try:
            return kind(str(loader.construct_scalar(node)))
        except (ValueError, OverflowError):
            raise yaml.constructor.ConstructorError(
                None, None, "not a usable number", node.start_mark
            ) from None

    return construct


def _boolean(loader: _Loader, node: yaml.ScalarNode) -> bool:
    return str(loader.construct_scalar(node)).lower() == "true"


def _mapping(loader: _Loader, node: yaml.MappingNode) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key, value in node.value:
        if not isinstance(key, yaml.ScalarNode) or key.tag == _NULL:
            raise yaml.constructor.ConstructorError(None, None, "a key must be a word", key.start_mark)
        name = _text(loader, key)
        if name in found:
            raise yaml.constructor.ConstructorError(
                None, None, f"key '{name}' is given twice", key.start_mark
            )
        found[name] = loader.construct_object(value, deep=True)
    return found


def _sequence(loader: _Loader, node: yaml.SequenceNode) -> list[Any]:
    return [loader.construct_object(item, deep=True) for item in node.value]


def _undefined(_: _Loader, node: yaml.Node) -> Any:
    raise yaml.constructor.ConstructorError(None, None, f"tag {node.tag} is not supported", node.start_mark)


_Loader.add_implicit_resolver(_BOOL, re.compile(r"(true|True|TRUE|false|False|FALSE)\Z"), list("tTfF"))
_Loader.add_implicit_resolver(_NULL, re.compile(r"(~|null|Null|NULL|)\Z"), ["~", "n", "N", ""])
_Loader.add_implicit_resolver(_INT, re.compile(r"[-+]?[0-9]+\Z"), list("-+0123456789"))
_Loader.add_implicit_resolver(
    _FLOAT,
    re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?\Z"),
    list("-+.0123456789"),
)
_Loader.add_constructor(_STR, _text)
_Loader.add_constructor(_INT, _number(int))
_Loader.add_constructor(_FLOAT, _number(float))
_Loader.add_constructor(_BOOL, _boolean)
_Loader.add_constructor(_NULL, lambda *_: None)
_Loader.add_constructor("tag:yaml.org,2002:map", _mapping)
_Loader.add_constructor("tag:yaml.org,2002:seq", _sequence)
_Loader.add_constructor(None, _undefined)


_KINDS = {list: "a list", bool: "true or false", int: "a number", float: "a number"}


def read_mapping(text: str, source: str, *, as_written: Collection[str] = ()) -> dict[str, Any]:
    """Returns the one mapping that ``text`` holds. ``source`` is the file name for messages. Raises
    ``InvalidInput``.
    """
    return read_numbered(text, source, as_written=as_written)[0]


def read_numbered(
    text: str, source: str, *, as_written: Collection[str] = ()
) -> tuple[dict[str, Any], dict[str, int]]:
    """Returns the mapping as ``read_mapping`` does, and the line, from 1, on which each key stands, by its path:
    ``restart.max``, ``args[1]``."""
    value, lines = _parsed(text, source, as_written)
    if value is None:
        raise InvalidInput(f"{source} is empty", "write 'key: value' lines into it")
    if not isinstance(value, dict):
        raise InvalidInput(f"{source} must hold 'key: value' lines, not {_KINDS.get(type(value), 'text')}")
    return value, lines


def read_value(text: str, source: str) -> Any:
    """Returns one value in YAML's notation, e.g. the override ``{strategy: fixed}`` in an environment
    variable.
    """
    return _parsed(text, source, ())[0]


def _parsed(text: str, source: str, as_written: Collection[str]) -> tuple[Any, dict[str, int]]:
    try:
        loader = _Loader(text)
        node = loader.get_single_node()
        if node is None:
            return None, {}
        _keep_spelling(node, as_written)
        return loader.construct_document(node), dict(_lines(node, ""))
    except yaml.MarkedYAMLError as error:
        line = f" in line {error.problem_mark.line + 1}" if error.problem_mark else ""
        raise InvalidInput(f"{source} is not usable YAML{line}: {_reason(error)}") from None
    except yaml.reader.ReaderError as error:
        raise InvalidInput(
            f"{source} holds the character {error.character!r}, which YAML does not allow"
        ) from None
    except (ValueError, OverflowError):
        raise InvalidInput(f"{source} holds an escape that stands for no character") from None
    except RecursionError:
        raise InvalidInput(f"{source} is nested too deeply") from None


def _lines(node: yaml.Node, path: str) -> Iterator[tuple[str, int]]:
    if isinstance(node, yaml.MappingNode):
        below = [(f"{path}.{key.value}" if path else str(key.value), key, value) for key, value in node.value]
    elif isinstance(node, yaml.SequenceNode):
        below = [(f"{path}[{number}]", item, item) for number, item in enumerate(node.value)]
    else:
        return
    for where, marked, value in below:
        yield where, marked.start_mark.line + 1
        yield from _lines(value, where)


def _reason(error: yaml.MarkedYAMLError) -> str:
    problem = error.problem or error.context or "it cannot be read"
    return "a tab, where only blanks may indent" if "'\\t'" in problem else problem


def _keep_spelling(node: yaml.Node, keys: Collection[str]) -> None:
    if not isinstance(node, yaml.MappingNode):
        return
    for key, value in node.value:
        if isinstance(value, yaml.MappingNode) and getattr(key, "value", None) in keys:
            for _, item in value.value:
                if item.tag in (_INT, _FLOAT):
                    item.tag = _STR
        else:
            _keep_spelling(value, keys)
