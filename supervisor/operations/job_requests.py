"""Defines the writes that a person asks for about one job: cancel, suspend, resume and restart."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Final, Literal

from pydantic import Field

from supervisor.model.going_back import Said
from supervisor.model.sinks import SinkMemory
from supervisor.operations.going_back import resume_asked
from supervisor.operations.requests import JobRequest

if TYPE_CHECKING:
    from supervisor.operations.context import CommandContext
    from supervisor.operations.jobs import Done


@dataclass(frozen=True)
class CancelRequest(JobRequest):
    """Cancels a job."""

    verb = "cancel"
    summary = "Cancels a job, as cancel does."

    def carry_out(self, context: CommandContext) -> Done:
        return context.commands.cancel(self.name, only_uid=self.uid)


@dataclass(frozen=True)
class SuspendRequest(JobRequest):
    """Suspends a job."""

    verb = "suspend"
    summary = "Stops a job and keeps it registered, as suspend does."

    def carry_out(self, context: CommandContext) -> Done:
        return context.commands.suspend(self.name, only_uid=self.uid)


@dataclass(frozen=True)
class ResumeRequest(JobRequest):
    """Resumes a job."""

    verb = "resume"
    summary = "Runs a suspended, failed or quarantined job again, as resume does."

    accept_fresh_start: Annotated[
        bool, Field(description="Whether to start once with the checkpoint as it is, or with none.")
    ] = False
    sink: Annotated[
        Literal["repeats", "transactional", "remembers"] | None,
        Field(description="What the sink remembers of batches, as savepoints.sink of the spec says it."),
    ] = None
    sink_rolled_back: Annotated[
        bool, Field(description="Whether the sink has nothing after what lies at the checkpoint.")
    ] = False

    def carry_out(self, context: CommandContext) -> Done:
        said = Said(SinkMemory(self.sink) if self.sink else None, self.sink_rolled_back)
        return resume_asked(context, self.name, said, self.uid, fresh_start=self.accept_fresh_start)


@dataclass(frozen=True)
class RestartRequest(JobRequest):
    """Restarts a job."""

    verb = "restart"
    summary = "Starts a new attempt, as restart does."

    cold: Annotated[
        bool,
        Field(description="Whether the present driver is stopped at once, and no prepared one is used."),
    ] = False

    def carry_out(self, context: CommandContext) -> Done:
        return context.commands.restart(self.name, cold=self.cold, only_uid=self.uid)


JOB_REQUESTS: Final[tuple[type[JobRequest], ...]] = (
    CancelRequest,
    SuspendRequest,
    ResumeRequest,
    RestartRequest,
)
"""All of them, in the order in which the API describes them."""
