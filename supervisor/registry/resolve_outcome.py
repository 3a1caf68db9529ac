"""Commits a multi whose outcome must be known: resolves it by reading back, and only where reading back can
resolve it.

A write whose reply was lost may still be on its way. A read resolves the outcome on the same session (first
in, first out), or when the old session is known to be gone: it is closed by its id and password, then comes
``sync``, then the read (protocol §5). In all other cases it stays ``OutcomeUnknown``, and nothing is
acknowledged, nothing deleted. ``operations.jobs`` calls this.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from supervisor.errors import AccessDenied, OutcomeUnknown, Unreachable
from supervisor.model.transaction import Transaction
from supervisor.records.ports import ReplaceableSession, ZkSession

ASK_STATUS: Final = "status tells as soon as ZooKeeper answers, and the same command may be given again"


def commit_resolved(
    sessions: ReplaceableSession,
    zoo: ZkSession,
    tx: Transaction,
    committed: Callable[[ZkSession], bool | None],
    how_to_find_out: str = ASK_STATUS,
) -> bool:
    """Commits ``tx`` through ``zoo``, a client of ``sessions``, and finds out what came of it. Returns True
    if it was applied, and False if it certainly was not and may be tried again.

    ``committed(zoo)`` reads back, and returns True if it was applied, False if it certainly was not, and None
    if that can't be found out from what is there now. ``how_to_find_out`` says how a user finds out (REFERENCE.md:
    exit code 6). Raises GuardFailed, Unreachable (nothing was sent), or OutcomeUnknown.
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
    except (Unreachable, AccessDenied) as error:  # who may not read back does not know either
        why = error.complaint.what
        raise OutcomeUnknown(f"the outcome of {tx.what} is unknown: {why}", how_to_find_out) from lost
    if outcome is None:
        raise OutcomeUnknown(
            f"the outcome of {tx.what} is unknown: it was changed again meanwhile", how_to_find_out
        ) from lost
    return outcome
