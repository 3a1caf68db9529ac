"""Finds the files with secrets that a configuration names, by the names of its keys, so that no section is forgotten."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from supervisor.model.secret_words import is_secret_file_name
from supervisor.settings.file import Settings

_TLS_KEY = "key"


def secret_files(settings: Settings) -> tuple[str, ...]:
    """Returns the paths of files with tokens, passwords and private keys."""
    named = named_texts(settings.model_dump(mode="json"))
    return tuple(dict.fromkeys(text for name, text in named if is_secret_file_name(name) or name == _TLS_KEY))


def named_texts(document: Any, name: str = "") -> Iterator[tuple[str, str]]:
    """Yields each text of a document (as JSON has it), after the key under which it stands."""
    if isinstance(document, Mapping):
        for key, each in document.items():
            yield from named_texts(each, str(key))
    elif isinstance(document, list):
        for each in document:
            yield from named_texts(each, name)
    elif isinstance(document, str):
        yield name, document
