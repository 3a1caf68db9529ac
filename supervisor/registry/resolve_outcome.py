"""Committing a multi whose outcome must be known: settle by reading back, and only where reading back can settle it.

A write whose reply was lost may still be on its way. Reading settles it on the same session (first in, first out), or
when the old session is known to be gone: closed by its id and password, then ``sync``, then read (protocol §5). Anything
else stays ``OutcomeUnknown``: nothing is acknowledged, nothing deleted. Called by ``operations.jobs``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, Protocol

from supervisor.errors import OutcomeUnknown, Unreachable
from supervisor.model.transaction import Committed, Node, Reads, Transaction

LOOK: Final = "status tells as soon as ZooKeeper answers, and the same command may be given again"


class Zoo(Protocol):
    """What the registry needs of a connected ZooKeeper client."""

    def sync(self) -> None: ...
    def read(self, path: str) -> Node | None: ...
    def read_many(self, paths: Sequence[str]) -> Reads: ...
    def children(self, path: str) -> tuple[str, ...] | None: ...
    def commit(self, tx: Transaction) -> Committed: ...


class ReplaceableSession(Protocol):
    """A ZooKeeper session that can be relied upon, or replaced."""

    def zoo(self) -> Zoo:
        """The present client, connected. Raises Unreachable."""

    def resolve_outcome(self) -> Zoo:
        """A client on which a read shows the outcome of every earlier write: the same session, reconnected, or a new
        one after the old was closed for certain. Raises Unreachable."""


def commit_resolved(
    sessions: ReplaceableSession,
    zoo: Zoo,
    tx: Transaction,
    committed: Callable[[Zoo], bool | None],
    look: str = LOOK,
) -> bool:
    """Commit ``tx`` through ``zoo``, a client of ``sessions``, and know what came of it.

    ``committed(zoo)`` reads back: True it was applied, False it certainly was not, None it can't be told from what is
    there now. ``look``: how a user finds out (REFERENCE.md: exit code 6). Returns True if applied, False if it certainly was
    not and may be tried again. Raises GuardFailed, Unreachable (nothing was sent), or OutcomeUnknown.
    """
    try:
        zoo.commit(tx)
        return True
    except OutcomeUnknown as unknown:
        lost = unknown
    try:
        resolved = sessions.resolve_outcome()
        resolved.sync()
        outcome = committed(resolved)
    except Unreachable as error:
        why = str(error).partition("; ")[0]
        raise OutcomeUnknown(f"the outcome of {tx.what} is unknown: {why}; {look}") from lost
    if outcome is None:
        raise OutcomeUnknown(
            f"the outcome of {tx.what} is unknown: it was changed again meanwhile; {look}"
        ) from lost
    return outcome
