"""Takes what ``list`` shows: a row for each job, with the reason of each that is pending, and whether the
cluster is paused.

``cli`` calls it, for ``list --watch`` again and again. Each time it is a full and fresh read. Only where a
job is pending is the plan made, and the store asked whether the registry is to be trusted.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from supervisor.clock import wall_s
from supervisor.model.job_row import JobRow
from supervisor.model.state import Shown
from supervisor.observe.listing import OneJob, job_row, take_rows, with_reasons
from supervisor.operations.context import CommandContext
from supervisor.operations.job_list import JobList, WantedJobs, shared_hosts
from supervisor.operations.scene import EpochsInStore, scene_of_pending, take_view


class JobLister:
    """Takes the list as often as it is asked. With ``every_uid`` it has all that is kept; ``is_wanted`` says which rows
    it has."""

    def __init__(
        self,
        context: CommandContext,
        *,
        every_uid: bool = False,
        is_wanted: Callable[[JobRow], bool] = lambda _: True,
    ) -> None:
        self._context = context
        self._every_uid = every_uid
        self._is_wanted = is_wanted
        self._store = EpochsInStore(context)

    def take(self) -> JobList:
        """Returns the list as it is now. Raises Unreachable."""
        context = self._context
        if context.check() is None:
            return JobList([], is_bootstrapped=False)
        view = take_view(context)
        rows = take_rows(context.zoo(), context.layout, view, wall_s(), every_uid=self._every_uid)
        rows = [row for row in rows if self._is_wanted(row)]
        besides: dict[str, Shown] = {}

        def reasons() -> dict[str, Shown]:
            scene = scene_of_pending(context, view, self._store)
            if view.paused:
                besides.update(scene.pending_reasons(pause_is_shown=True))
            return scene.pending_reasons()

        rows = [
            replace(row, trouble=besides[row.name].reason)
            if row.state == "pending" and row.name in besides
            else row
            for row in with_reasons(rows, reasons)
        ]
        return JobList(
            rows, view.paused, view.pause, shared_hosts(each.host for each in view.members.values())
        )


@dataclass(frozen=True)
class JobsRequest:
    """Asks for the list of jobs, maybe again and again."""

    wanted: WantedJobs

    def lister(self, context: CommandContext) -> Callable[[], JobList]:
        """Returns what takes the list, as often as it is called."""
        return JobLister(context, every_uid=self.wanted.every_uid, is_wanted=self.wanted.chooses).take


def row_of_job(context: CommandContext, job: OneJob) -> JobRow:
    """Returns the row of one job, as the list has it. To say why a pending job waits takes a reading of the
    whole cluster. Raises Unreachable."""
    row = job_row(job, wall_s())
    if row.state != "pending":
        return row
    scene = scene_of_pending(context, take_view(context), EpochsInStore(context))
    return job_row(job, wall_s(), scene.pending_reasons().get(job.row.name))
