"""References to secrets in a job's ``env``: the spec says where a secret is found, never what it is.

``${env:NAME}`` is the environment variable NAME of the supervisor that starts the attempt, ``${file:/path}`` the content
of a file on that host, without its last newline. Both are resolved on the agent's host at each start, so the store,
ZooKeeper and ``show`` never hold the secret. A reference is the whole value: parts of a value are not replaced, because
then nobody could tell a text with a dollar sign from a reference. Pure; resolving is ``spark``'s business.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum

from supervisor.errors import InvalidInput

_REFERENCE = re.compile(r"\$\{(env|file):(.*)\}", re.DOTALL)
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


class SecretSource(StrEnum):
    ENV = "env"
    FILE = "file"


@dataclass(frozen=True, slots=True)
class SecretRef:
    """``where``: a variable's name, or an absolute path."""

    source: SecretSource
    where: str


def secret_reference(value: str) -> SecretRef | None:
    """The reference that ``value`` is, or None for plain text. Raises ``InvalidInput`` for a malformed reference."""
    match = _REFERENCE.fullmatch(value)
    if match is None:
        if "${env:" in value or "${file:" in value:
            raise InvalidInput("a secret reference must be the whole value, like ${env:NAME} or ${file:/path}")
        return None
    source, where = SecretSource(match[1]), match[2]
    if source is SecretSource.ENV and not _NAME.fullmatch(where):
        raise InvalidInput("a secret reference ${env:NAME} needs the name of an environment variable")
    if source is SecretSource.FILE and (not where.startswith("/") or not where.isprintable() or "}" in where):
        raise InvalidInput("a secret reference ${file:/path} needs an absolute path")
    return SecretRef(source, where)
