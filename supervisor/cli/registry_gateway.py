"""Carries out requests from here: in ZooKeeper and the store, which ``supervisor.yaml`` names."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING

from supervisor.cli.gateway import Gateway
from supervisor.errors import NotFound
from supervisor.model.labels import Selector
from supervisor.operations.context import CommandContext, require_submitted
from supervisor.operations.job_list import JobList
from supervisor.operations.jobs import Done
from supervisor.operations.names import is_name, known_name, no_job
from supervisor.operations.pause_notice import warn_of_pause
from supervisor.operations.requests import Answer, JobRequest, LocalRequest, ReadRequest
from supervisor.operations.selection import Jobs, Selected, jobs_and_failed, named, named_jobs

if TYPE_CHECKING:
    from supervisor.operations.listing import JobsRequest


class RegistryGateway(Gateway):
    """Carries out requests with ``context``."""

    def __init__(self, context: CommandContext) -> None:
        self._context = context

    def read(self, request: ReadRequest[Answer]) -> Answer:
        return request.carry_out(self._context)

    def job_lister(self, request: JobsRequest, *, with_pause: bool) -> Callable[[], JobList]:  # noqa: ARG002 - it is read anyway
        return request.lister(self._context)

    def read_here(self, request: LocalRequest[Answer]) -> Answer | None:
        return request.carry_out(self._context)

    def write(self, request: JobRequest) -> Done:
        if request.uid is None:  # else the registry was read
            require_submitted(self._context, request.name)
        return request.carry_out(self._context)

    def together(self) -> AbstractContextManager[None]:
        return self._context.auditor.together()

    def warn_of_pause(self, *changes: Done) -> None:
        warn_of_pause(self._context, *changes)

    def newest(self, names: Sequence[str]) -> list[Selected | NotFound]:
        self._require_jobs()
        zoo, layout = self._context.zoo(), self._context.layout
        jobs = named_jobs(zoo, layout, [name for name in names if is_name(name)])
        known = {job.name: job for job in jobs.found} | {name: named(name) for name in jobs.unreadable}

        def newest_of(name: str) -> Selected | NotFound:
            try:
                return known.get(known_name(name)) or no_job(zoo, layout, name)
            except NotFound as error:
                return error

        return [newest_of(name) for name in names]

    def labelled(self, selector: Selector) -> Jobs:
        self._require_jobs()
        return jobs_and_failed(self._context.zoo(), self._context.layout).selected(selector)

    def registry(self, _option: str) -> CommandContext:
        return self._context

    def _require_jobs(self) -> None:
        if self._context.check() is None:
            root = self._context.settings.zookeeper.root
            raise NotFound(f"there is no job: nothing was ever submitted at {root}")
