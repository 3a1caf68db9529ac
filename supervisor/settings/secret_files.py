"""Finds the files with secrets that a configuration names, by the names of its keys, so that no section is forgotten."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from supervisor.model.secret_words import is_secret_file_name
from supervisor.settings.file import Settings

_TLS_KEY = "key"


def secret_files(settings: Settings) -> tuple[str, ...]:
    """Returns the paths of files with tokens, passwords and private keys."""
    return tuple(dict.fromkeys(_named_in(settings.model_dump(mode="json"))))


def _named_in(document: Any, name: str = "") -> Iterator[str]:
    if isinstance(document, Mapping):
        for key, each in document.items():
            yield from _named_in(each, str(key))
    elif isinstance(document, list):
        for each in document:
            yield from _named_in(each, name)
    elif isinstance(document, str) and (is_secret_file_name(name) or name == _TLS_KEY):
        yield document
