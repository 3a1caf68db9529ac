"""Reads the tokens of the API from files, and says who has one. The server has a file for each client, a client its own.

A token is one line of 32 to 512 visible ASCII characters. Tokens are compared by their digests in constant time, and no
message shows one.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from supervisor.api.token_file import read_token
from supervisor.clients.reread_files import RereadFiles
from supervisor.errors import InvalidInput

READERS_KEY: Final = "api.token_files"
OPERATORS_KEY: Final = "api.operator_token_files"


class TokenHolder(NamedTuple):
    """Says who has shown a token: ``name`` is the name of its file, and ``may_write`` says whether it is an operator's."""

    name: str
    may_write: bool


class TokenFiles:
    """Knows the tokens of ``readers`` and ``operators``, which are read again when they change (``clients.reread_files``).
    Raises InvalidInput if one can't be used at first. ``now_s`` is CLOCK_BOOTTIME. It may be used by many threads at
    once."""

    def __init__(
        self, readers: Sequence[Path], now_s: Callable[[], float], operators: Sequence[Path] = ()
    ) -> None:
        read = lambda: _holders(readers, operators)  # noqa: E731
        self._holders = RereadFiles([*readers, *operators], read, now_s)

    def holder(self, authorization: str | None) -> TokenHolder | None:
        """Returns whose token the value of the header Authorization has, or None. Each of them is compared."""
        known = self._holders.get()
        given = bearer_token(authorization or "")
        if given is None:
            return None
        digest = _digest(given)
        found = [holder for each, holder in known.items() if hmac.compare_digest(digest, each)]
        return found[0] if found else None


def bearer_token(authorization: str) -> str | None:
    """Returns the token in the value of the header Authorization, or None if it holds none."""
    scheme, _, given = authorization.strip().partition(" ")
    return given.strip() or None if scheme.lower() == "bearer" else None


def _holders(readers: Sequence[Path], operators: Sequence[Path]) -> Mapping[bytes, TokenHolder]:
    """Returns who holds the token of each digest. Raises InvalidInput, also for an operator's token that another file has:
    it could not be said who asked for a write."""
    found = {_digest(read_token(path, READERS_KEY)): TokenHolder(path.name, False) for path in readers}
    for path in operators:
        digest = _digest(read_token(path, OPERATORS_KEY))
        if digest in found:
            raise InvalidInput(
                f"{OPERATORS_KEY}: {path} has the token of {found[digest].name}, too",
                "give each client a token of its own",
            )
        found[digest] = TokenHolder(path.name, True)
    return found


def _digest(token: str) -> bytes:
    return hashlib.sha256(token.encode()).digest()
