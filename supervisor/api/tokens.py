"""Reads the tokens of the API from files, and says who has one. The server has a file for each client, a client its own.

A token is one line of 32 to 512 visible ASCII characters. Tokens are compared by their digests in constant time, and no
message shows one.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Callable, Sequence
from pathlib import Path

from supervisor.api.token_file import read_token
from supervisor.clients.reread_files import RereadFiles


class TokenFiles:
    """Knows the tokens of ``files``, which are read again when they change (``clients.reread_files``). Raises InvalidInput
    if one can't be used at first. ``now_s`` is CLOCK_BOOTTIME. It may be used by many threads at once."""

    def __init__(self, files: Sequence[Path], now_s: Callable[[], float]) -> None:
        self._digests = RereadFiles(files, lambda: _digests_of(files), now_s)

    def admits(self, authorization: str | None) -> bool:
        """Says whether the value of the header Authorization has one of the tokens. Each of them is compared."""
        known = self._digests.get()
        scheme, _, given = (authorization or "").strip().partition(" ")
        if scheme.lower() != "bearer":
            return False
        digest = _digest(given.strip())
        return sum(hmac.compare_digest(digest, each) for each in known) > 0


def _digests_of(files: Sequence[Path]) -> tuple[bytes, ...]:
    return tuple(_digest(read_token(path, "api.token_files")) for path in files)


def _digest(token: str) -> bytes:
    return hashlib.sha256(token.encode()).digest()
