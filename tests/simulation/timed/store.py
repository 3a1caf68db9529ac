"""The store on virtual time: objects that are never overwritten, a store that is slow, or down, or answers too late."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

from supervisor.clients.store.base import StoreEntry
from supervisor.errors import Conflict, Corrupt, NotFound, Unreachable
from tests.simulation.timed.loop import SimulatedLoop

DEADLINE_S = 10.0


class SimStore:
    """``supervisor.clients.store.base.Store``. ``down``: how many faults keep it from answering; ``late_s``: each answer."""

    url = "s3://simulated/store"

    def __init__(self, loop: SimulatedLoop) -> None:
        self.loop = loop
        self.objects: dict[str, tuple[bytes, float]] = {}
        self.down = 0
        self.late_s = 0.0
        self.calls = 0
        self._random = random.Random(loop.seed * 7 + 2)

    def _ask(self) -> bool:
        """Wait for the answer. Raises Unreachable; False: the request will have its effect, but nobody is told."""
        self.calls += 1
        lots = self._random
        if self.down:
            self.loop.sleep(lots.choice([0.01, DEADLINE_S]))
            if lots.random() < 0.8:
                raise Unreachable("the store did not answer")
            return False
        self.loop.sleep(0.002 + 0.02 * lots.random() + self.late_s * lots.random())
        return True

    def create(self, key: str, data: bytes) -> None:
        answered = self._ask()
        known = self.objects.setdefault(key, (data, self.loop.now_s))
        if not answered:
            raise Unreachable("the store did not answer")
        if known[0] != data:
            raise Conflict(f"{key} is taken")

    def create_from(self, key: str, source: Path, sha256: str | None = None) -> None:
        raise NotImplementedError

    def read(self, key: str, max_bytes: int) -> bytes:
        self._answer()
        if key not in self.objects:
            raise NotFound(key)
        data = self.objects[key][0]
        if len(data) > max_bytes:
            raise Corrupt(key)
        return data

    def read_to(self, key: str, target: Path) -> str:
        raise NotImplementedError

    def entries(self, prefix: str, after: str = "") -> Iterator[StoreEntry]:
        self._answer()
        for key in sorted(key for key in self.objects if key.startswith(prefix) and key > after):
            data, at_s = self.objects[key]
            yield StoreEntry(key, len(data), at_s)

    def delete(self, key: str) -> None:
        answered = self._ask()
        self.objects.pop(key, None)
        if not answered:
            raise Unreachable("the store did not answer")

    def check(self) -> None:
        self._answer()

    def _answer(self) -> None:
        if not self._ask():
            raise Unreachable("the store did not answer")
