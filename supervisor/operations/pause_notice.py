"""Tells who changes a job that the cluster is paused: what was asked for is durable, and nothing comes of it yet.

Called after the change by the commands, and by the API.
"""

from __future__ import annotations

from contextlib import suppress
from typing import Final

from supervisor.errors import SupervisorError
from supervisor.model.records import Pause
from supervisor.model.seen import Found
from supervisor.operations.context import CommandContext
from supervisor.operations.jobs import Did, Done
from supervisor.records.reading import seen

WAITS: Final = frozenset(
    {
        Did.SUBMITTED,
        Did.RESUMED,
        Did.RESTARTED,
        Did.REGISTERED_AGAIN,
        Did.UPDATED,
        Did.UPDATE_WITHDRAWN,
        Did.ROLLED_BACK,
        Did.MOVE_ASKED,
    }
)
"""What comes of these is the leader's to do. A cancel and a suspend are obeyed by the job's own shim, also in a pause."""


def warn_of_pause(context: CommandContext, *changes: Done) -> None:
    """Warns once if the leader does not act on some of what was done. Raises nothing: the changes are made."""
    if not any(done.did in WAITS for done in changes):
        return
    with suppress(SupervisorError):
        found = seen(Pause, context.zoo().read(context.layout.pause), context.layout.pause)
        if found is None:
            return
        said = found.record.sentence if isinstance(found, Found) else "paused"
        context.warn(f"the cluster is {said}: nothing comes of this until spark-supervisor unpause")
