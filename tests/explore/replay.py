"""What makes code that blocks explorable: it runs from its beginning on answers that it got so far, up to where they end."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from supervisor.errors import OutcomeUnknown, SupervisorError
from supervisor.model.transaction import Committed, Node, Reads, Transaction


class Pending(BaseException):
    """It waits for the answer to this request."""

    def __init__(self, *request: Any) -> None:
        self.request = request


class Stored(NamedTuple):
    """The answer to a put: when it was made."""

    at_s: float


class Replay:
    """A client, the ``Sessions`` over it, and a store, that answer from ``replies``. ``stores``: blobs are put, and the clock goes."""

    def __init__(self, replies: tuple[Any, ...], now_s: float = 0.0, *, stores: bool = False) -> None:
        self._replies = replies
        self._next = 0
        self._now_s = now_s
        self.stores = stores

    def _answer(self, *request: Any) -> Any:
        if self._next == len(self._replies):
            raise Pending(*request)
        reply = self._replies[self._next]
        self._next += 1
        if isinstance(reply, SupervisorError):
            raise reply
        return reply

    def time(self) -> float:
        """BOOTTIME. What was committed, or may have been, was in time, whatever the time is by now."""
        if not self.stores:
            return 0.0
        stored_at_s: float = next(
            (reply.at_s for reply in self._replies if isinstance(reply, Stored)), self._now_s
        )
        sent = any(
            isinstance(reply, OutcomeUnknown) or _has_committed(reply)
            for reply in self._replies[self._next :]
        )
        return stored_at_s if sent or not self._next else self._now_s

    def sync(self) -> None:
        """The explorer's users read from the leader: what they read is the newest state anyway."""

    def read(self, path: str) -> Node | None:
        return self._answer("read", path)

    def children(self, path: str) -> tuple[str, ...] | None:
        return self._answer("children", path)

    def read_many(self, paths: Sequence[str]) -> Reads:
        return Reads(self._answer("read_many", tuple(paths)), 0.0, 0.0)

    def commit(self, tx: Transaction) -> Committed:
        return Committed(0.0, self._answer("commit", tx))

    def zoo(self) -> Replay:
        return self

    def resolve_outcome(self) -> Replay:
        self._answer("settle")
        return self

    def create(self, key: str, data: bytes) -> None:
        """Of the store."""
        self._answer("put", key)


def _has_committed(reply: Any) -> bool:
    return isinstance(reply, tuple) and any(isinstance(version, int) for version in reply)
