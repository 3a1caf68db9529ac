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

from supervisor.api.token_file import is_without_token, read_token
from supervisor.clients.reread_files import RereadFiles
from supervisor.errors import InvalidInput
from supervisor.logs import get_logger

log = get_logger(__name__)

READERS_KEY: Final = "api.token_files"
OPERATORS_KEY: Final = "api.operator_token_files"


class TokenHolder(NamedTuple):
    """Says who has shown a token: ``name`` is the name of its file, and ``may_write`` says whether it is an operator's."""

    name: str
    may_write: bool


class TokenFiles:
    """Knows the tokens of ``readers`` and ``operators``, which are read again when they change (``clients.reread_files``).

    Each file counts by itself. One that is empty or not there is nobody's: that withdraws its token. One that holds no
    token, or that everybody may read, keeps the token that it had before; raises InvalidInput if there was none. ``now_s``
    is CLOCK_BOOTTIME. It may be used by many threads at once."""

    def __init__(
        self, readers: Sequence[Path], now_s: Callable[[], float], operators: Sequence[Path] = ()
    ) -> None:
        self._files = {path: TokenHolder(path.name, path in operators) for path in (*readers, *operators)}
        self._digests: dict[Path, bytes | None] = {}
        self._holders = RereadFiles(list(self._files), self._read, now_s)

    def holder(self, authorization: str | None) -> TokenHolder | None:
        """Returns whose token the value of the header Authorization has, or None. Each of them is compared."""
        known = self._holders.get()
        given = bearer_token(authorization or "")
        if given is None:
            return None
        digest = _digest(given)
        found = [holder for each, holder in known.items() if hmac.compare_digest(digest, each)]
        return found[0] if found else None

    def _read(self) -> Mapping[bytes, TokenHolder]:
        """Returns who holds the token of each digest."""
        digests: dict[Path, bytes | None] = {}
        for path, holder in self._files.items():
            try:
                digests[path] = self._digest_in(path, holder, digests)
            except InvalidInput as error:
                if path not in self._digests:
                    raise
                former = self._digests[path]
                digests[path] = None if former in digests.values() else former
                log.warning("http_access_kept", why=str(error), next="its token from before stays in force")
        self._digests = digests
        return {digest: self._files[path] for path, digest in digests.items() if digest is not None}

    def _digest_in(
        self, path: Path, holder: TokenHolder, others: Mapping[Path, bytes | None]
    ) -> bytes | None:
        """Returns the digest of the token in a file, or None if it is nobody's. Raises InvalidInput, also for an operator's
        token that another file has: it could not be said who asked for a write."""
        if is_without_token(path):
            return None
        digest = _digest(read_token(path, OPERATORS_KEY if holder.may_write else READERS_KEY))
        same = next((other for other, taken in others.items() if taken == digest), None)
        if same is not None and holder.may_write:
            raise InvalidInput(
                f"{OPERATORS_KEY}: {path} has the token of {same.name}, too",
                "give each client a token of its own",
            )
        return digest


def bearer_token(authorization: str) -> str | None:
    """Returns the token in the value of the header Authorization, or None if it holds none."""
    scheme, _, given = authorization.strip().partition(" ")
    return given.strip() or None if scheme.lower() == "bearer" else None


def unused_files(readers: Sequence[Path], operators: Sequence[Path]) -> list[Path]:
    """Returns the files that hold no token because they are empty or not there."""
    return [path for path in (*readers, *operators) if is_without_token(path)]


def _digest(token: str) -> bytes:
    return hashlib.sha256(token.encode()).digest()
