"""Provides a tree whose first answer is awaited for a short time, and all later ones for a long time.

It is for people who examine a checkpoint of a hundred thousand objects: a store that is down is to be
reported within seconds, but one that has answered and is slow is not down. ``operations.checkpoints`` makes
it; a start that waits for its preflight has no use for it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TypeVar

from supervisor.clients.store.base import StoreEntry
from supervisor.clients.store.tree import Level, Tree

T = TypeVar("T")


class PatientTree:
    """Is a ``Tree``. ``quick`` and ``patient`` are the same location, with a short and a long deadline for
    each request."""

    def __init__(self, quick: Tree, patient: Tree) -> None:
        self.location = quick.location
        self._quick = quick
        self._patient = patient
        self._answered = False

    @property
    def requests(self) -> int:
        return self._quick.requests + self._patient.requests

    @requests.setter
    def requests(self, count: int) -> None:
        self._quick.requests, self._patient.requests = count, 0

    def level(self, folder: str) -> Level:
        return self._ask(lambda tree: tree.level(folder))

    def entries(self, folder: str, after: str = "", at_once: int = 1000) -> Iterator[StoreEntry]:
        return (self._patient if self._answered else self._quick).entries(folder, after, at_once)

    def read(self, key: str, max_bytes: int) -> bytes:
        return self._ask(lambda tree: tree.read(key, max_bytes))

    def _ask(self, ask: Callable[[Tree], T]) -> T:
        if self._answered:
            return ask(self._patient)
        answer = ask(self._quick)
        self._answered = True
        return answer
