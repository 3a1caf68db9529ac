"""Committing a multi whose outcome must be known: settle by reading back, and only where reading back can settle it.

A write whose reply was lost may still be on its way. Reading settles it on the same session (first in, first out), or
when the old session is known to be gone: closed by its id and password, then ``sync``, then read (protocol §5). Anything
else stays ``OutcomeUnknown``: nothing is acknowledged, nothing deleted. Called by ``operations.jobs``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Protocol

from supervisor.errors import OutcomeUnknown, Unreachable
from supervisor.model.transaction import Transaction
from supervisor.records.ports import ZkSession

ASK_STATUS: Final = "status tells as soon as ZooKeeper answers, and the same command may be given again"


class ReplaceableSession(Protocol):
    """A ZooKeeper session that can be relied upon, or replaced."""

    def zoo(self) -> ZkSession:
        """The present client, connected. Raises Unreachable."""

    def resolve_outcome(self) -> ZkSession:
        """A client on which a read shows the outcome of every earlier write: the same session, reconnected, or a new
        one after the old was closed for certain. Raises Unreachable."""


def commit_resolved(
    sessions: ReplaceableSession,
    zoo: ZkSession,
    tx: Transaction,
    committed: Callable[[ZkSession], bool | None],
    how_to_find_out: str = ASK_STATUS,
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
        why = error.complaint.what
        raise OutcomeUnknown(f"the outcome of {tx.what} is unknown: {why}", how_to_find_out) from lost
    if outcome is None:
        raise OutcomeUnknown(
            f"the outcome of {tx.what} is unknown: it was changed again meanwhile", how_to_find_out
        ) from lost
    return outcome
