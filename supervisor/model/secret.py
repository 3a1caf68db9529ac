"""Reads references to secrets in ``env`` and ``conf`` of a job: the spec says where a secret is found, never what it
is.

``${env:NAME}`` is the environment variable NAME of the supervisor that starts the attempt, ``${file:/path}``
the content of a file on that host, without its last newline. Both are resolved on the agent's host at each
start, so the store, ZooKeeper and ``show`` never hold the secret. A reference is the whole value: parts of a
value are not replaced, because then nobody could tell a text with a dollar sign from a reference. This module
is pure; ``spark`` resolves the references.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, NamedTuple

from supervisor.errors import InvalidInput
from supervisor.model.secret_words import REDACTED, covered, is_secret_name, is_secret_value

_REFERENCE = re.compile(r"\$\{(env|file):(.*)\}", re.DOTALL)
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


class SecretSource(StrEnum):
    ENV = "env"
    FILE = "file"


@dataclass(frozen=True, slots=True)
class SecretRef:
    """Says where a secret is found: ``where`` is the name of a variable, or an absolute path."""

    source: SecretSource
    where: str


def secret_reference(value: str) -> SecretRef | None:
    """Returns the reference that ``value`` is, or None for plain text. Raises ``InvalidInput`` for a
    malformed reference.
    """
    match = _REFERENCE.fullmatch(value)
    if match is None:
        if "${env:" in value or "${file:" in value:
            raise InvalidInput(
                "a secret reference must be the whole value, like ${env:NAME} or ${file:/path}"
            )
        return None
    source, where = SecretSource(match[1]), match[2]
    if source is SecretSource.ENV and not _NAME.fullmatch(where):
        raise InvalidInput("a secret reference ${env:NAME} needs the name of an environment variable")
    if source is SecretSource.FILE and (not where.startswith("/") or not where.isprintable() or "}" in where):
        raise InvalidInput("a secret reference ${file:/path} needs an absolute path")
    return SecretRef(source, where)


def reference_in_conf(value: str, env: Mapping[str, str]) -> SecretRef | None:
    """Returns the reference that a value of ``conf`` is, or None for a text that Spark gets as it is. ``env`` is that of the
    job: Spark itself fills in its variables. Such a text stood in specs before references were known there, so a
    malformed one is no error."""
    try:
        reference = secret_reference(value)
    except InvalidInput:
        return None
    if reference is None or (reference.source is SecretSource.ENV and reference.where in env):
        return None
    return reference


def redacted(spec: Mapping[str, Any]) -> dict[str, Any]:
    """Returns ``spec`` (as JSON has it) for display: values that look like secrets are replaced, references
    to secrets are not.

    A value in ``conf`` is replaced as Spark's own pages do it (by key or value), one in ``env`` by its name, and one in
    ``args`` if it belongs to an option with such a name. In every other value the part is covered that looks like a secret.
    """
    shown = dict(spec)
    if isinstance(spec.get("conf"), Mapping):
        shown["conf"] = {k: _shown(k, v, by_value=True) for k, v in spec["conf"].items()}
    if isinstance(spec.get("env"), Mapping):
        shown["env"] = {k: _shown(k, v) for k, v in spec["env"].items()}
    if isinstance(spec.get("args"), Sequence) and not isinstance(spec["args"], str):
        shown["args"] = _redacted_args(spec["args"])
    return shown


class SpecSecrets(NamedTuple):
    """Holds what is secret in a spec: the values that ``redacted`` covers, and the references to others with the name of
    the variable or property that gets them."""

    values: tuple[str, ...]
    references: tuple[tuple[str, SecretRef], ...]


def secrets_in(spec: Mapping[str, Any]) -> SpecSecrets:
    """Returns what is secret in ``spec`` (as JSON has it)."""
    shown, values, references = redacted(spec), [], []
    for section in ("conf", "env"):
        given = spec.get(section)
        for name, value in given.items() if isinstance(given, Mapping) else ():
            if shown[section][name] != value:
                values.append(str(value))
            match = _REFERENCE.fullmatch(value) if isinstance(value, str) else None
            if match is not None:
                references.append((str(name), SecretRef(SecretSource(match[1]), match[2])))
    args = spec.get("args")
    if isinstance(args, Sequence) and not isinstance(args, str):
        for arg, covering in zip(args, shown["args"], strict=True):
            if arg != covering:
                values.append(
                    str(arg).partition("=")[2] if str(covering).endswith(f"={REDACTED}") else str(arg)
                )
    return SpecSecrets(tuple(values), tuple(references))


def _shown(name: object, value: object, by_value: bool = False) -> object:
    if not isinstance(value, str) or _REFERENCE.fullmatch(value):
        return REDACTED if not isinstance(value, str) and is_secret_name(str(name)) else value
    secret = is_secret_name(str(name)) or (by_value and is_secret_value(value))
    return REDACTED if secret else covered(value)


def _redacted_args(args: Sequence[Any]) -> list[Any]:
    shown: list[Any] = []
    covers = False
    for arg in args:
        option, equals, value = arg.partition("=") if isinstance(arg, str) else ("", "", "")
        named = option.startswith("-") and is_secret_name(option) and not _REFERENCE.fullmatch(value)
        if covers or (named and equals):
            shown.append(REDACTED if covers else f"{option}={REDACTED}")
        else:
            shown.append(covered(arg) if isinstance(arg, str) else arg)
        covers = named and not equals
    return shown
