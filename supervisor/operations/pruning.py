"""Decides which registered jobs ``apply --prune`` cancels, and cancels exactly those.

Called by ``cli.apply``. A selector of labels draws the line: what is applied must carry these labels, and only jobs that
carry them are cancelled. So two folders with different labels never touch each other's jobs. A fork has the labels of the
job that it is of, and is in no file of anybody: it is left alone unless ``--prune-forks`` asks for it. What is judged is a
uid at one version of its reference: a job that was changed or submitted anew since then is left alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from supervisor.errors import Conflict, InvalidInput, OutcomeUnknown, SupervisorError, Unreachable
from supervisor.model.labels import Selector, packed
from supervisor.model.phrases import counted
from supervisor.operations.apply import Applied, AppliedAction
from supervisor.operations.context import CommandContext
from supervisor.operations.jobs import ChosenJob
from supervisor.operations.selection import Jobs, Selected, registered_jobs

IN_NO_FILE = "it is in no file"


@dataclass(frozen=True, slots=True)
class PruneWish:
    """Holds what a person asked for. ``everything`` says that it is meant if none of the jobs with these labels is left,
    ``forks`` that forks and jobs in the place of others are cancelled, too."""

    selector: Selector
    everything: bool = False
    forks: bool = False


@dataclass(slots=True)
class Pruned:
    """Holds what became of a job that is in no file, or with a dry run, what would."""

    job: Selected
    action: AppliedAction = AppliedAction.PRUNED
    why: str = IN_NO_FILE
    error: SupervisorError | None = None

    @property
    def name(self) -> str:
        return self.job.name

    @property
    def described(self) -> str:
        """Returns the name, with what the job is to another one."""
        return f"{self.name} ({self.job.relation})" if self.job.relation else self.name

    @property
    def deletes_checkpoint(self) -> bool:
        """Says whether the spec of the job asks for the deletion of its checkpoint when it is cancelled."""
        return self.job.terms is not None and self.job.terms.delete_checkpoint

    def refuse(self, error: SupervisorError) -> None:
        self.error, self.action, self.why = error, AppliedAction.REFUSED, str(error)

    def document(self) -> dict[str, Any]:
        return {
            "file": None,
            "name": self.name,
            "action": self.action.value,
            "revision": None,
            "why": self.why,
            "exit_code": self.error.exit_code if self.error is not None else 0,
        }


def require_prunable(selector: Selector) -> None:
    """Raises InvalidInput for a selector that chooses by what a job does not have: it would reach jobs that nobody has
    labelled."""
    lacking = next((each for each in selector.requirements if each.differs), None)
    if lacking is not None:
        raise InvalidInput(
            f"--selector {lacking} also chooses jobs without any label: --prune takes key=value, or key"
        )


def judge_prune(context: CommandContext, applied: Iterable[Applied], wish: PruneWish) -> list[Pruned]:
    """Returns the jobs that are to be cancelled, and as unchanged the forks that are in no file. Refuses of ``applied`` what
    is not of the selector. Nothing is written. Raises Conflict if no job of the selector would be left but forks, and
    nobody has said that this is meant."""
    selector = wish.selector
    applied = list(applied)
    jobs = registered_jobs(context.zoo(), context.layout) if context.check() is not None else Jobs(())
    registered = {job.name: job for job in jobs.found}
    for one in applied:
        if one.error is None and one.prepared is not None:
            _require_of_selector(one, selector, registered.get(one.prepared.name))
    # the command refuses all then; what deletes does not rely on it
    if any(one.error is not None for one in applied):
        return []
    names = {one.name for one in applied}
    chosen = jobs.selected(selector).found
    in_no_file = [job for job in chosen if job.name not in names]
    left = [job for job in in_no_file if job.is_beside_another and not wish.forks]
    pruned = [_to_cancel(job) for job in in_no_file if job not in left]
    if pruned and len(in_no_file) == len(chosen) and not wish.everything:
        raise Conflict(
            f"--prune would leave none of the {counted(len(pruned), 'registered job')} with {selector}, since no file is "
            "about one of them: nothing was done",
            "if this is not the wrong folder, and they shall all be cancelled, give --prune-all, too",
        )
    return [*pruned, *(_left_alone(job) for job in left)]


def _to_cancel(job: Selected) -> Pruned:
    return Pruned(job, why=f"{IN_NO_FILE}; it is {job.relation}" if job.relation else IN_NO_FILE)


def _left_alone(job: Selected) -> Pruned:
    """Returns a fork that is in no file, which only its user can judge: it may have the place of the other job by now."""
    why = f"{IN_NO_FILE}, but {job.relation}: left alone; cancel {job.name} or --prune-forks cancels it"
    return Pruned(job, AppliedAction.UNCHANGED, why)


def _require_of_selector(one: Applied, selector: Selector, registered: Selected | None) -> None:
    assert one.prepared is not None
    if not selector.selects(packed(one.prepared.spec.labels)):
        one.refuse(
            InvalidInput(
                f"{one.source}: its labels do not have {selector}, by which --prune knows the jobs of these files",
                "add that to its labels",
            )
        )
    elif registered is not None and not selector.selects(registered.labels):
        one.refuse(
            Conflict(
                f"{one.name} is registered, and is not of {selector}: somebody else may apply it",
                "if it is yours, apply it without --prune first",
            )
        )


def prune(context: CommandContext, pruned: Iterable[Pruned]) -> Iterator[Pruned]:
    """Cancels what was judged, one by one, and yields each when that is durable. Once ZooKeeper does not answer, the rest
    is refused: nothing of it was done."""
    gone: SupervisorError | None = None
    for one in pruned:
        if one.action is AppliedAction.UNCHANGED:
            yield one
            continue
        try:
            if gone is not None:
                raise Unreachable(f"{one.name} was not cancelled: {gone}")
            context.commands.cancel(one.name, chosen=ChosenJob(one.job.uid, one.job.version))
        except SupervisorError as error:
            gone = gone or (error if isinstance(error, Unreachable | OutcomeUnknown) else None)
            one.refuse(error)
        yield one


def leave_all(pruned: Iterable[Pruned]) -> None:
    """Refuses all of ``pruned``, since something of what was applied has failed."""
    for one in pruned:
        if one.action is not AppliedAction.UNCHANGED:
            one.refuse(Conflict(f"{one.name} was not cancelled: not all that was applied has succeeded"))
