"""Reads the tokens of the API from files, and says who has one. The server has a file for each client, a client its own.

A token is one line of 32 to 512 visible ASCII characters. Tokens are compared by their digests in constant time, and no
message shows one.
"""

from __future__ import annotations

import hashlib
import hmac
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

from supervisor.api.token_file import read_token
from supervisor.errors import InvalidInput
from supervisor.logs import get_logger

log = get_logger(__name__)

RECHECK_S: Final = 5.0
"""The files are read again when they were last read this long ago: a new token needs no restart."""


class TokenFiles:
    """Knows the tokens of ``files``. Raises InvalidInput if one can't be used at first; later the ones from before stay in
    force then, so that a half-written file neither opens nor closes the API. ``now_s`` is CLOCK_BOOTTIME. It may be used by
    many threads at once."""

    def __init__(self, files: Sequence[Path], now_s: Callable[[], float]) -> None:
        self._files = tuple(files)
        self._now_s = now_s
        self._lock = threading.Lock()
        self._digests = self._read()
        self._read_at_s = now_s()

    def admits(self, authorization: str | None) -> bool:
        """Says whether the value of the header Authorization has one of the tokens. Each of them is compared."""
        self._read_again()
        scheme, _, given = (authorization or "").strip().partition(" ")
        if scheme.lower() != "bearer":
            return False
        digest = _digest(given.strip())
        return sum(hmac.compare_digest(digest, known) for known in self._digests) > 0

    def _read(self) -> tuple[bytes, ...]:
        return tuple(_digest(read_token(path, "api.token_files")) for path in self._files)

    def _read_again(self) -> None:
        if self._now_s() - self._read_at_s < RECHECK_S or not self._lock.acquire(blocking=False):
            return
        try:
            self._read_at_s = self._now_s()
            self._digests = self._read()
        except InvalidInput as error:
            log.warning("http_access_kept", why=str(error), next="the one from before stays in force")
        finally:
            self._lock.release()


def _digest(token: str) -> bytes:
    return hashlib.sha256(token.encode()).digest()
