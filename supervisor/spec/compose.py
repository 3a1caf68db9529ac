"""Puts the text of a spec together from several: a file that it ``extends``, and values given on the command line.

A spec with ``extends: base.yaml`` is that file with its own keys over it: sections are merged key by key, anything
else is replaced as a whole. The other file may extend a third one. Local files that it names are relative to its own
directory. Of what comes out, only the whole is checked, as if it stood in one file.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, Final

from supervisor.errors import InvalidInput
from supervisor.settings.yaml_text import read_value
from supervisor.spec.fields import is_local_path
from supervisor.spec.job import body_of, with_files

EXTENDS: Final = "extends"
EXTENDS_MAX: Final = 8
"""A spec may be put together from so many files."""
SET: Final = "--set"
KEY_MAX: Final = 200
ParsesSpec = Callable[[str, str], tuple[dict[str, Any], dict[str, int]]]
_TEXTS: Final = ("conf", "env", "labels")
"""The keys below these may hold dots, and their values are text."""
_WORDS: Final = ("spark",)
"""The values of these are text or null: 4.10 is no number."""


def composed(
    path: Path,
    read: Callable[[Path], str],
    changes: Iterable[str] = (),
    parse: ParsesSpec = body_of,
) -> tuple[dict[str, Any], dict[str, str]]:
    """Returns what the spec at ``path`` says with all that it extends, and by key path where it says so, as
    ``FILE:LINE``. ``read`` returns the text of a file. ``changes`` are ``KEY=VALUE``, over all of it. ``parse`` is
    ``spec.job.body_of``, or what remembers what that returned. Raises ``InvalidInput``."""
    body, origins = _whole(path, read, (), parse)
    body, of_changes = changed(body, changes)
    return body, {**origins, **of_changes}


def changed(body: dict[str, Any], changes: Iterable[str]) -> tuple[dict[str, Any], dict[str, str]]:
    """Returns ``body`` with ``changes`` (``KEY=VALUE``) over it, and by key path which of them says so. Raises
    ``InvalidInput``."""
    origins: dict[str, str] = {}
    for change in changes:
        key, value = _change(change)
        body = _merged(body, _nested(key, value))
        for depth in range(1, len(key) + 1):
            origins[".".join(key[:depth])] = f"{SET} {'.'.join(key)}"
    return body, origins


def _whole(
    path: Path, read: Callable[[Path], str], before: tuple[Path, ...], parse: ParsesSpec
) -> tuple[dict[str, Any], dict[str, str]]:
    parsed, lines = parse(read(path), str(path))
    body = dict(parsed)
    origins = {key: f"{path}:{line}" for key, line in lines.items()}
    if EXTENDS not in body:
        return body, origins
    base, where = body.pop(EXTENDS), origins.pop(EXTENDS)
    if not isinstance(base, str):
        raise InvalidInput(f"{where}: {EXTENDS} must be the name of one file")
    chain = (*before, path.absolute())
    found = path.parent / base
    if found.absolute() in chain:
        raise InvalidInput(f"{where}: {EXTENDS} leads back to {base}")
    if len(chain) >= EXTENDS_MAX:
        raise InvalidInput(f"{where}: {EXTENDS} leads to more than {EXTENDS_MAX} files")
    lower, lower_origins = _whole(found, read, chain, parse)
    lower = _with_moved_files(lower, os.path.relpath(found.parent, path.parent))
    return _merged(lower, body), {**lower_origins, **origins}


def _with_moved_files(body: dict[str, Any], directory: str) -> dict[str, Any]:
    """Returns ``body`` with its local files as seen from the directory of the spec that extends it."""

    def moved(given: str) -> str:
        return str(Path(directory) / given) if is_local_path(given) else given

    return with_files(body, moved)


def _merged(lower: Mapping[str, Any], upper: Mapping[str, Any]) -> dict[str, Any]:
    found = dict(lower)
    for key, value in upper.items():
        under = found.get(key)
        both = isinstance(value, Mapping) and isinstance(under, Mapping)
        found[key] = _merged(under, value) if both else value  # type: ignore[arg-type]
    return found


def _change(text: str) -> tuple[tuple[str, ...], Any]:
    name, equals, value = text.partition("=")
    first, _, rest = name.partition(".")
    key = (first, rest) if first in _TEXTS and rest else tuple(name.split("."))
    if not equals or not all(key):
        raise InvalidInput(f"{SET} {text[:80]!r} is not KEY=VALUE, like {SET} resources.memory=2g")
    if first == EXTENDS:
        raise InvalidInput(f"{SET} can't say what a spec {EXTENDS}; write that into the spec")
    if len(name) > KEY_MAX:
        raise InvalidInput(f"{SET}: the key {name[:80]!r}… is longer than {KEY_MAX} characters")
    is_text = (first in _TEXTS and rest) or (name in _WORDS and re.fullmatch(r"[0-9.]+", value))
    return key, value if is_text else read_value(value, f"{SET} {name}")


def _nested(key: tuple[str, ...], value: Any) -> dict[str, Any]:
    for part in reversed(key):
        value = {part: value}
    return dict(value)
