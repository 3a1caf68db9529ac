"""Signs texts, and knows who may. What signs is loaded only where a key is configured or given: ``cryptography`` takes
a while, and memory."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

from supervisor.errors import InvalidInput


def sign(key: Path, text: bytes) -> str:
    """Returns the signature of ``text`` in base64. ``key`` is a PEM file with a private Ed25519 key. Raises InvalidInput."""
    return base64.b64encode(_ed25519().sign(key, text)).decode()


class Signers:
    """Holds the public keys in the PEM files ``paths``, as they were read first. One that can't be read makes all that is
    signed refused: it may be the one that counts."""

    def __init__(self, paths: Sequence[Path]) -> None:
        self._keys: list[Any] = []
        self._flaw = ""
        self.asked = bool(paths)
        try:
            self._keys = [_ed25519().signer(path) for path in paths]
        except InvalidInput as error:
            self._flaw = str(error)

    @property
    def digest(self) -> str:
        """Returns what tells these signers from others; it is empty if there are none."""
        if not self.asked:
            return ""
        known = [self._flaw, *sorted(_ed25519().identity(key) for key in self._keys)]
        return hashlib.sha256("\n".join(known).encode()).hexdigest()

    def why_not(self, text: bytes, signature: str) -> str | None:
        """Returns why ``signature`` is none of ``text`` by one of the signers, or None if it is, or if there are none."""
        if not self.asked:
            return None
        if self._flaw:
            return f"its signers are not known: {self._flaw}"
        if not signature:
            return "it is not signed"
        try:
            raw = base64.b64decode(signature, validate=True)
        except ValueError:
            return "its signature can't be read"
        if any(_ed25519().has_signed(key, raw, text) for key in self._keys):
            return None
        return "its signature is by none of the signers, or of another job, cluster or spec"


def _ed25519() -> ModuleType:
    # cryptography takes time and memory: only who signs or verifies loads it
    from supervisor.clients import ed25519

    return ed25519
