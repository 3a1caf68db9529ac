"""Lends the memory for one bundle (the files of an apply, which are large) at a time: from before its body is read until
it was carried out, whether or not its client waits so long.

Called by ``api.writes``.
"""

from __future__ import annotations

import threading


class BundleSlot:
    """Knows who has the slot: an operator and the key of his request, as ``name``. It may be used by many threads at
    once."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._holder: tuple[str, str] | None = None

    def take(self, name: tuple[str, str]) -> bool:
        """Takes it. Returns False if somebody has it already."""
        with self._lock:
            if self._holder is not None:
                return False
            self._holder = name
            return True

    def is_of(self, name: tuple[str, str]) -> bool:
        """Returns whether ``name`` has it."""
        with self._lock:
            return self._holder == name

    def give_back(self) -> None:
        """Frees it. Whoever has it calls this once."""
        with self._lock:
            self._holder = None
