"""Carries a request out for several jobs: those that are named, or those that have labels. Each is a write of its own.

Called by ``cli.change``. It says first which jobs it is about, and asks for a yes if there is more than
one. What was submitted after that is another job, whatever its name: it is not touched. What is done of each is told on a
line of its own, as soon as it is durable; what fails of one does not stop the rest.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Annotated, NamedTuple

import typer

from supervisor.cli.completion import job_names
from supervisor.cli.confirm import confirm_jobs
from supervisor.cli.gateway import Gateway
from supervisor.cli.narrator import Narrator
from supervisor.cli.options import Chosen
from supervisor.cli.output import notice, print_line
from supervisor.errors import Corrupt, InvalidInput, NotFound, OutcomeUnknown, SupervisorError, Unreachable
from supervisor.model.labels import Selector
from supervisor.model.phrases import counted
from supervisor.operations.context import CommandContext
from supervisor.operations.requests import JobRequest
from supervisor.operations.selection import Jobs, Selected, named, selector_of
from supervisor.operations.waiting import wait_gone, wait_running

if TYPE_CHECKING:
    from supervisor.operations.jobs import Done

SELECTOR = "--selector"

Names = Annotated[
    list[str] | None,
    typer.Argument(metavar="NAME", help="Names of jobs.", autocompletion=job_names, show_default=False),
]
SelectorOption = Annotated[
    list[str] | None,
    typer.Option(
        SELECTOR,
        "-l",
        metavar="LABEL",
        help="In place of names: jobs with this label, like team=web, tier!=1 or team; several must all hold.",
    ),
]

HINTS = {
    "already finished": "it had finished by itself: nothing to cancel",
    "already running": "it is running, or about to: nothing to do",
    "already there": "it runs there, or is about to: nothing to do",
    "already to be moved": "nothing was done; explain says what it waits for",
    "already rolled back": "nothing was done; to go on to another spec, apply it",
    "unchanged": "it has this spec already: nothing was done",
}


@dataclass(frozen=True)
class AskedJobs:
    """Holds which jobs a command was given."""

    names: tuple[str, ...]
    selector: tuple[str, ...] = ()
    yes: bool = False

    @classmethod
    def of(cls, names: list[str] | None, selector: list[str] | None, yes: bool) -> AskedJobs:
        """Returns what was given. Raises InvalidInput where that is nothing, or both."""
        if bool(names) == bool(selector):
            both = "give names of jobs, or -l with a label" + (", not both" if names else "")
            raise InvalidInput(both)
        return cls(tuple(dict.fromkeys(names or ())), tuple(selector or ()), yes)

    @property
    def one(self) -> str | None:
        """Returns the only name that was given, or None."""
        return self.names[0] if len(self.names) == 1 else None


@dataclass(frozen=True)
class SeveralChange:
    """Describes what is done with each job: ``request``, whose name is yet to be filled in. ``participle`` is a word for
    sentences. ``takes`` says whether it is for this one of the jobs that a selector finds, and ``takes_which`` which these
    are; ``why_left`` says why one of them is left alone, where that is to be told.
    With ``wait`` it is waited for at most ``timeout_s``; with ``gone`` until no driver is alive, else until it runs."""

    request: JobRequest
    participle: str
    takes: Callable[[Selected], bool]
    takes_which: str
    wait: bool
    timeout_s: float
    gone: bool
    why_left: Callable[[Selected], str] = lambda _: ""

    @property
    def verb(self) -> str:
        return self.request.verb


class PinnedJobs(NamedTuple):
    """Holds the jobs that a command is about, each with its submission, and by name the errors of those that have none."""

    jobs: Sequence[Selected]
    unknown: Mapping[str, SupervisorError] = MappingProxyType({})


@dataclass
class ChangedJob:
    """Holds what came of one job."""

    name: str
    done: Done | None = None
    error: SupervisorError | None = None

    def document(self) -> dict[str, str | int | None]:
        return {
            "name": self.name,
            "uid": self.done.uid if self.done is not None else None,
            "did": self.done.did.value if self.done is not None else None,
            "error": str(self.error) if self.error is not None else None,
            "exit_code": self.error.exit_code if self.error is not None else 0,
        }


def change_jobs(chosen: Chosen, gateway: Gateway, asked: AskedJobs, change: SeveralChange) -> int:
    """Carries out ``change`` of all jobs that ``asked`` is about, and returns the worst exit code."""
    waits_with = gateway.registry("--wait") if change.wait else None
    pinned = _pinned(gateway, asked, change)
    _confirm(pinned.jobs, asked, change)
    with gateway.together():
        changed = _carry_out_and_report(chosen, gateway, pinned, change)
    gateway.warn_of_pause(*(one.done for one in changed if one.done is not None))
    if waits_with is not None:
        _wait(waits_with, changed, change)
    return max(one.error.exit_code if one.error is not None else 0 for one in changed)


def _confirm(jobs: Sequence[Selected], asked: AskedJobs, change: SeveralChange) -> None:
    """Says which jobs ``change`` is about, and asks for a yes, if there is more than one. Raises as ``confirm``."""
    if len(jobs) > 1:
        names = [job.name for job in jobs]
        confirm_jobs(f"{change.verb} {counted(len(names), 'job')}", names, yes=asked.yes)


def _carry_out_and_report(
    chosen: Chosen, gateway: Gateway, pinned: PinnedJobs, change: SeveralChange
) -> list[ChangedJob]:
    """Carries ``change`` out job by job, and says of each what came of it as soon as it is durable."""
    changed: list[ChangedJob] = []
    for one in _carry_out(gateway, pinned, change):
        changed.append(one)
        if one.error is not None:
            notice(f"error: {one.error}")
        elif one.done is not None and not chosen.document:
            print_line(line_of(one.done))
    if chosen.document:
        chosen.print_document([one.document() for one in changed])
    return changed


def print_done(chosen: Chosen, done: Done) -> None:
    """Says what was done, at once: it is durable, whatever comes of a wait."""
    if chosen.document:
        chosen.print_document({"name": done.name, "uid": done.uid, "did": done.did.value})
        return
    print_line(line_of(done))


def line_of(done: Done) -> str:
    """Returns the line that says what was done."""
    hint = HINTS.get(done.did.value)
    return f"{done.name}: {done.did.value} ({done.uid})" + (f"; {hint}" if hint else "")


def _pinned(gateway: Gateway, asked: AskedJobs, change: SeveralChange) -> PinnedJobs:
    selector = selector_of(SELECTOR, list(asked.selector))
    if selector is not None:
        return PinnedJobs(_taken(gateway.labelled(selector), change, selector))
    jobs: list[Selected] = []
    unknown: dict[str, SupervisorError] = {}
    for name, found in zip(asked.names, gateway.newest(asked.names), strict=True):
        if isinstance(found, NotFound):
            unknown[name] = found
        elif not found.uid:  # nobody can say which submission was meant
            why = f"the records of {name} are unreadable: nothing was done"
            unknown[name] = Corrupt(why, f"{change.verb} {name} by itself")
        jobs.append(named(name) if isinstance(found, NotFound) else found)
    return PinnedJobs(jobs, unknown)


def _taken(jobs: Jobs, change: SeveralChange, selector: Selector) -> Sequence[Selected]:
    """Returns those of ``jobs``, which ``selector`` has chosen, that ``change`` is for, and says which can't be read. Raises
    NotFound if there is none."""
    for name in jobs.unreadable:
        notice(f"{name} is left out: its labels can't be read (see explain {name})")
    for job in jobs.found:
        if why := change.why_left(job):
            notice(f"{job.name} is left out: {why}")
    found = [job for job in jobs.found if change.takes(job)]
    if not found:
        raise NotFound(f"no {change.takes_which} has {selector}", "list -o wide shows the labels of jobs")
    return found


def _carry_out(gateway: Gateway, pinned: PinnedJobs, change: SeveralChange) -> Iterator[ChangedJob]:
    """Yields what came of each job. Of those of which no submission is known nothing is done, whatever was submitted
    since."""
    gone: SupervisorError | None = None
    for job in pinned.jobs:
        one = ChangedJob(job.name)
        try:
            if gone is not None:
                raise Unreachable(f"{job.name} was not {change.participle}: {gone}")
            if job.name in pinned.unknown:
                raise pinned.unknown[job.name]
            one.done = gateway.write(change.request.about(job))
        except SupervisorError as error:
            one.error = error
            gone = gone or (error if isinstance(error, Unreachable | OutcomeUnknown) else None)
        yield one


def _wait(context: CommandContext, changed: list[ChangedJob], change: SeveralChange) -> None:
    """Waits for all that was changed, beside each other."""
    uids = {one.name: one.done.uid for one in changed if one.done is not None}
    if not uids:
        return
    goal, wait = ("gone", wait_gone) if change.gone else ("running", wait_running)
    with Narrator(len(uids), goal) as narrator:
        outcomes = wait(context, uids, change.timeout_s, change.participle, narrator)
    for one in changed:
        error = outcomes.get(one.name)
        if error is not None:
            one.error = error
            notice(f"error: {error}")
