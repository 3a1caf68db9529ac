"""Finds the output of an attempt's driver among the files of this host, and says where it is if it is not here.

The files are written by the shim (``shim.output``): ``<log_dir>/<name>/<uid>.<attempt>.log``, rotated to
``.1``, ``.2`` …, of which the highest number is the oldest. ``logs`` and ``show`` call it; nothing is asked of
another host.
"""

from __future__ import annotations

import socket
from dataclasses import dataclass
from pathlib import Path

from supervisor.errors import SupervisorError
from supervisor.model.records import PLANNED_CAUSES, Member, OwnState
from supervisor.model.seen import Found
from supervisor.model.state import history_of, last_exit_of
from supervisor.observe.listing import OneJob, read_job
from supervisor.operations.context import CommandContext
from supervisor.operations.history import entries_of
from supervisor.operations.log_tail import read_tail, tail_lines
from supervisor.records.reading import seen


@dataclass(frozen=True)
class AttemptOutput:
    """Says where the output of one attempt is: ``path`` and what was rotated away from it."""

    name: str
    uid: str
    attempt: int
    path: Path

    def files(self) -> list[Path]:
        """Returns the files that exist, oldest first."""
        numbered = []
        for file in self.path.parent.glob(f"{self.path.name}.*"):
            number = file.name.removeprefix(f"{self.path.name}.")
            if number.isdigit():
                numbered.append((int(number), file))
        older = [file for _, file in sorted(numbered, reverse=True)]
        return [*older, self.path] if self.path.exists() else older


def find_output(
    context: CommandContext, job: OneJob, attempt: int | None = None, *, may_come: bool = False
) -> AttemptOutput:
    """Returns the output of ``attempt``, else of the latest one.

    Raises SupervisorError, which says where it must be, if there are no files of it here; with ``may_come``
    only if the attempt did not run on this host either.
    """
    number = attempt or _latest_attempt(job)
    output = _output_of(context, job, number)
    if not output.files() and not (may_come and _place_of(context, job, number)[0]):
        raise _elsewhere(context, job, output)
    return output


# -- what comes after an attempt ----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Sequel:
    """Says how an attempt goes on: ``is_over`` if it writes nothing more, and ``job`` as it is then, if
    another attempt of it follows; else None."""

    is_over: bool
    job: OneJob | None = None


def sequel_of(context: CommandContext, output: AttemptOutput) -> Sequel:
    """Returns how the attempt of ``output`` goes on. Raises Unreachable."""
    job = read_job(context.zoo(), context.layout, output.name)
    if job is None or job.uid != output.uid or job.result is not None:
        return Sequel(is_over=True)
    own = job.own
    if own is None or own.uid != output.uid or own.attempt <= output.attempt:
        return Sequel(is_over=False)
    if own.state in (OwnState.ASSIGNED, OwnState.VACANT):
        return Sequel(is_over=False)
    return Sequel(is_over=True, job=job)


# -- how the output of a failure ends -----------------------------------------------------------------------------


@dataclass(frozen=True)
class FailureOutput:
    """Holds how the output of the last attempt that failed ends. ``lines`` are empty if it can't be read here:
    ``error`` says why, or ``where`` is the host that has it."""

    attempt: int
    lines: tuple[str, ...] = ()
    error: str = ""
    where: str = ""


def output_of_failure(context: CommandContext, job: OneJob) -> FailureOutput | None:
    """Returns how the output of the driver that failed last ends, if it is on this host; else where it is.
    None means that nothing failed, or that it wrote nothing."""
    ended = last_exit_of(entries_of(job))
    if ended is None or ended.event in PLANNED_CAUSES:
        return None
    try:
        lines = tail_lines(read_tail(_output_of(context, job, ended.attempt).files()))
    except OSError as error:
        return FailureOutput(ended.attempt, error=error.strerror or str(error))
    if lines:
        return FailureOutput(ended.attempt, tuple(lines))
    here, where = _place_of(context, job, ended.attempt)
    return None if here or not where else FailureOutput(ended.attempt, where=where)


# -- where it is --------------------------------------------------------------------------------------------------


def _latest_attempt(job: OneJob) -> int:
    if isinstance(job.result, Found) and job.result.record.attempt:
        return job.result.record.attempt
    if job.own is not None and job.own.uid == job.uid and job.own.attempt:
        return job.own.attempt
    raise SupervisorError(f"{job.row.name} has had no attempt yet: see spark-supervisor show {job.row.name}")


def _output_of(context: CommandContext, job: OneJob, number: int) -> AttemptOutput:
    """Returns where the output of an attempt is, if it ran on this host."""
    path = _log_dir(context, job, number) / job.row.name / f"{job.uid}.{number}.log"
    return AttemptOutput(job.row.name, job.uid, number, path)


def _log_dir(context: CommandContext, job: OneJob, number: int) -> Path:
    """Returns the log directory of the supervisor that ran the attempt: several may share this host.

    While that supervisor is down, it is the directory configured here.
    """
    settings, supervisor = context.settings.supervisor, _host_and_supervisor(job, number)[1]
    if not supervisor or supervisor == settings.id:
        return settings.log_dir
    path = context.layout.supervisor(supervisor)
    member = seen(Member, context.zoo().read(path), path)
    return (
        Path(member.record.log_dir)
        if isinstance(member, Found) and member.record.log_dir
        else settings.log_dir
    )


def _elsewhere(context: CommandContext, job: OneJob, output: AttemptOutput) -> SupervisorError:
    """Returns an error that says where the output must be, as far as the records show."""
    path, number = output.path, output.attempt
    here, where = _place_of(context, job, number)
    which = f"attempt {number} of {job.row.name}"
    if here:
        lack = (
            "has written nothing yet" if number == _latest_attempt(job) else "has left nothing that is kept"
        )
        return SupervisorError(f"{which} {lack}: {path} does not exist; {_kept(output)}")
    if not where:
        return SupervisorError(
            f"{which} is not known, and {path} does not exist on this host; {_kept(output)}"
        )
    # empty: only its supervisor's id is known, which need not be a host's name
    host = _host_and_supervisor(job, number)[0]
    there = (
        f"ssh {host} spark-supervisor logs {job.row.name} --attempt {number}, or read {path} there"
        if host
        else (f"read {path} there")
    )
    return SupervisorError(f"{which} ran on {where}: {there}; {_kept(output)}")


def _kept(output: AttemptOutput) -> str:
    """Returns a clause that says of which attempts of the submission there is output on this host."""
    files = output.path.parent.glob(f"{output.uid}.*.log*")
    numbers = {file.name.removeprefix(f"{output.uid}.").split(".")[0] for file in files}
    kept = ", ".join(map(str, sorted(int(number) for number in numbers if number.isdigit())))
    return f"kept here is that of attempt {kept}" if kept else "nothing of this job is kept here"


def _place_of(context: CommandContext, job: OneJob, number: int) -> tuple[bool, str]:
    """Returns whether the attempt ran on this host, and the name of its host, or at least its supervisor."""
    host, supervisor = _host_and_supervisor(job, number)
    return supervisor == context.settings.supervisor.id or host == socket.gethostname(), host or supervisor


def _host_and_supervisor(job: OneJob, number: int) -> tuple[str, str]:
    """Returns the host and the supervisor of an attempt, as far as they are known."""
    own = job.own
    if own is not None and own.uid == job.uid and own.attempt == number:
        return own.host, own.supervisor
    return "", _supervisor_of(job, number)


def _supervisor_of(job: OneJob, number: int) -> str:
    """Returns the supervisor of an earlier attempt, which the history names once the attempt was claimed; else ``""``."""
    result = job.result.record if isinstance(job.result, Found) else None
    for entry in reversed(history_of(job.ref, job.own, result, job.uid)):
        if entry.event == "claimed" and entry.attempt == number:
            return entry.detail
    return ""
