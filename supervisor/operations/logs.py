"""Finds the output of an attempt's driver among the files of this host, and says where it is if it is not here.

The files are written by the shim (``shim.output``): ``<log_dir>/<name>/<uid>.<attempt>.log``, rotated to
``.1``, ``.2`` …, of which the highest number is the oldest. ``logs``, ``show`` and the API call it; nothing is asked of
another host. The files are read by ``operations.log_parts``.
"""

from __future__ import annotations

import os
import re
import shlex
import socket
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Final

from supervisor.errors import Complaint, NotFound, SupervisorError
from supervisor.model.phrases import counted
from supervisor.model.records import PLANNED_CAUSES, Member, OwnState
from supervisor.model.seen import Found
from supervisor.model.state import history_of, is_attempt_over, last_exit_of
from supervisor.observe.listing import OneJob, read_job
from supervisor.operations.context import CommandContext
from supervisor.operations.history import entries_of, find_job
from supervisor.operations.log_parts import OutputUnusable, has_parts
from supervisor.operations.log_tail import read_tail, tail_lines
from supervisor.operations.requests import LocalRequest
from supervisor.records.reading import seen

KEPT_SHOWN: Final = 8
"""An error names so many attempts of which there is output."""
FILES_MAX: Final = 10_000


class OutputMissing(SupervisorError):
    """The job has had no such attempt, or there is no output of it here."""

    def add(self, why: str) -> None:
        """Adds a clause to what is wrong, if there is one."""
        if not why:
            return
        self.complaint = Complaint(f"{self.complaint.what}; {why}", self.complaint.remedy)
        self.args = (str(self.complaint),)


class NoSuchAttempt(OutputMissing):
    """The submission has had fewer attempts."""

    exit_code = NotFound.exit_code


class OutputElsewhere(OutputMissing):
    """The attempt ran on another host: on ``host``, or at least under ``supervisor``. ``server`` is the address of the API
    there, or empty if none is known. ``is_up`` says whether its supervisor is registered."""

    def __init__(self, what: str, remedy: str, place: OutputPlace) -> None:
        super().__init__(what, remedy)
        self.host, self.supervisor, self.server = place.host, place.supervisor, place.server
        self.is_up = place.is_up


@dataclass(frozen=True)
class OutputPlace:
    """Says where an attempt ran, as far as the records show, and which file its output is there. ``is_here`` says that it
    was this host, ``is_up`` that its supervisor is registered. ``server`` is the address of the API of its supervisor, or
    empty."""

    host: str
    supervisor: str
    is_here: bool
    is_up: bool
    path: Path
    server: str

    @property
    def name(self) -> str:
        """Returns the name of the host, or at least of its supervisor."""
        return self.host or self.supervisor

    def ways_of(self, command: str) -> list[str]:
        """Returns how ``command`` is given there. Without a host only its supervisor's id is known, which need not be a
        host's name."""
        ways = [f"ssh {self.host} {command}"] if self.host else []
        return ways + ([f"{command} --server {shlex.quote(self.server)}"] if self.server else [])


@dataclass(frozen=True)
class AttemptOutput:
    """Says where the output of one attempt is: ``path`` and what was rotated away from it (``log_parts``)."""

    name: str
    uid: str
    attempt: int
    path: Path


def find_output(
    context: CommandContext, job: OneJob, attempt: int | None = None, *, may_come: bool = False
) -> AttemptOutput:
    """Returns the output of ``attempt``, else of the latest one.

    Raises OutputMissing, which says where it must be, if there are no files of it here; with ``may_come``
    only if the attempt did not run on this host either.
    """
    number = attempt or latest_attempt(job)
    place = _place_of(context, job, number)
    output = AttemptOutput(job.row.name, job.uid, number, place.path)
    if not has_parts(output.path) and not (may_come and place.is_here):
        raise missing(job, output, place)
    return output


@dataclass(frozen=True)
class OwnOutput:
    """Says where the output of an attempt is if it ran under this supervisor, and where it did run. No file was looked
    at."""

    output: AttemptOutput
    place: OutputPlace
    job: OneJob


def own_output(context: CommandContext, job: OneJob, attempt: int | None) -> OwnOutput:
    """Returns the output of ``attempt``, else of the latest one. Another supervisor of this host counts as elsewhere. Raises
    OutputMissing if there was no attempt."""
    number, settings = attempt or latest_attempt(job), context.settings.supervisor
    place = _place_of(context, job, number)
    path = path_of_output(settings.log_dir, job.row.name, job.uid, number)
    output = AttemptOutput(job.row.name, job.uid, number, path)
    return OwnOutput(output, replace(place, is_here=place.supervisor == settings.id), job)


def path_of_output(log_dir: Path, name: str, uid: str, attempt: int) -> Path:
    """Returns the file that the shim of an attempt writes."""
    return log_dir / name / f"{uid}.{attempt}.log"


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


def has_ended(job: OneJob, attempt: int) -> bool:
    """Returns whether an attempt of the job writes nothing more, by its records as they were read."""
    return job.result is not None or (job.own is not None and is_attempt_over(job.own, job.uid, attempt))


# -- how the output of a failure ends -----------------------------------------------------------------------------


@dataclass(frozen=True)
class FailureOutput:
    """Holds how the output of the last attempt that failed ends. ``lines`` are empty if it can't be read here:
    ``error`` says why, or ``where`` is the host that has it."""

    attempt: int
    lines: tuple[str, ...] = ()
    error: str = ""
    where: str = ""


@dataclass(frozen=True)
class FailureOutputRequest(LocalRequest[FailureOutput | None]):
    """Asks how the output of the driver of a job that failed last ends."""

    name: str

    def carry_out(self, context: CommandContext) -> FailureOutput | None:
        return _output_of_failure(context, find_job(context, self.name))


def _output_of_failure(context: CommandContext, job: OneJob) -> FailureOutput | None:
    """Returns how the output of the driver that failed last ends, if it is on this host; else where it is.
    None means that nothing failed, or that it wrote nothing."""
    ended = last_exit_of(entries_of(job))
    if ended is None or ended.event in PLANNED_CAUSES:
        return None
    try:
        place = _place_of(context, job, ended.attempt)
        lines = tail_lines(read_tail(place.path))
    except OSError as error:
        return FailureOutput(ended.attempt, error=error.strerror or str(error))
    except OutputUnusable as error:
        return FailureOutput(ended.attempt, error=error.complaint.what)
    if lines:
        return FailureOutput(ended.attempt, tuple(lines))
    return None if place.is_here or not place.name else FailureOutput(ended.attempt, where=place.name)


# -- where it is --------------------------------------------------------------------------------------------------


def latest_attempt(job: OneJob) -> int:
    """Returns the number of the latest attempt. Raises OutputMissing if there was none yet."""
    if isinstance(job.result, Found) and job.result.record.attempt:
        return job.result.record.attempt
    if job.own is not None and job.own.uid == job.uid and job.own.attempt:
        return job.own.attempt
    raise OutputMissing(f"{job.row.name} has had no attempt yet: see spark-supervisor show {job.row.name}")


def _member_of(context: CommandContext, supervisor: str) -> Member | None:
    """Returns what a supervisor says of itself, or None while it is down."""
    path = context.layout.supervisor(supervisor)
    member = seen(Member, context.zoo().read(path), path)
    return member.record if isinstance(member, Found) else None


def missing(job: OneJob, output: AttemptOutput, place: OutputPlace) -> OutputMissing:
    """Returns an error that says where the output must be, as far as the records show."""
    path, number = place.path, output.attempt
    which = f"attempt {number} of {job.row.name}"
    if not place.name and number > latest_attempt(job):
        return NoSuchAttempt(
            f"{job.row.name} has had no attempt {number}: its latest is {latest_attempt(job)}; {_kept(output)}"
        )
    if not place.name:
        return OutputMissing(f"{which} is not known, and {path} does not exist on this host; {_kept(output)}")
    if place.is_here:
        lack = "has written nothing yet" if number == latest_attempt(job) else "has left nothing that is kept"
        return OutputMissing(f"{which} {lack}: {path} does not exist; {_kept(output)}")
    command = f"spark-supervisor logs {job.row.name} --attempt {number}"
    read = f"read {path} there" if place.is_up else f"read {path} there, if its log_dir is that of this host"
    there = f"{', or '.join([*place.ways_of(command), read])}; {_kept(output)}"
    ran = "ran" if has_ended(job, number) else "runs"
    absent = "" if place.is_up else f", whose supervisor {place.supervisor} is not connected"
    return OutputElsewhere(f"{which} {ran} on {place.name}{absent}: {there}", "", place)


def _kept(output: AttemptOutput) -> str:
    """Returns a clause that says of which attempts of the submission there is output on this host."""
    kept = sorted(_attempts_in(output.path.parent, output.uid), reverse=True)
    if not kept:
        return "nothing of this job is kept here"
    shown = ", ".join(map(str, reversed(kept[:KEPT_SHOWN])))
    more = f", and of {counted(len(kept) - KEPT_SHOWN, 'earlier one')}" if len(kept) > KEPT_SHOWN else ""
    return f"kept here is that of attempt {shown}{more}"


def _attempts_in(directory: Path, uid: str) -> set[int]:
    """Returns of which attempts of a submission there are files. A job that runs as the user of the supervisor may have put
    any number of files there, with any names: at most ``FILES_MAX`` are read."""
    named = re.compile(rf"{re.escape(uid)}\.([0-9]{{1,9}})\.log(?:\..*)?", re.DOTALL)
    try:
        with os.scandir(directory) as entries:
            found = [named.fullmatch(entry.name) for entry in islice(entries, FILES_MAX)]
    except OSError:
        return set()
    return {int(each[1]) for each in found if each is not None}


def _place_of(context: CommandContext, job: OneJob, number: int) -> OutputPlace:
    """Returns where an attempt ran. Each supervisor has its log directory, also if several share a host; while one is down,
    the directory configured here is taken for its."""
    settings, (host, supervisor) = context.settings.supervisor, _host_and_supervisor(job, number)
    member = None if supervisor in ("", settings.id) else _member_of(context, supervisor)
    log_dir = Path(member.log_dir) if member is not None and member.log_dir else settings.log_dir
    return OutputPlace(
        host,
        supervisor,
        is_here=supervisor == settings.id or host == socket.gethostname(),
        is_up=supervisor == settings.id or member is not None,
        path=path_of_output(log_dir, job.row.name, job.uid, number),
        server="" if member is None else member.api,
    )


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
