"""Implements the ``logs NAME`` command: prints the output of an attempt's driver, from the files of this
host.

``-f`` goes on from attempt to attempt. The files are written by the shim (``shim.output``):
``<log_dir>/<name>/<uid>.<attempt>.log``, rotated to ``.1``, ``.2`` …, of which the highest number is the
oldest. In a pipe they come byte by byte as they are, on a terminal without escape sequences. Another host's
files are not reached from here; the error says where they are.
"""

from __future__ import annotations

import codecs
import os
import socket
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Annotated, NoReturn

import typer

from supervisor.cli.options import Chosen, Name, command, known_name
from supervisor.cli.output import notice
from supervisor.errors import InvalidInput, SupervisorError, Unreachable
from supervisor.model.records import Member, OwnState
from supervisor.model.seen import Found
from supervisor.model.state import history_of
from supervisor.observe.listing import OneJob, read_job
from supervisor.operations.context import CommandContext, open_commands
from supervisor.operations.names import no_job
from supervisor.records.reading import seen

CHUNK_BYTES = 64 * 1024
PERIOD_S = 0.3
ASK_EVERY_S = 2.0

Follow = Annotated[
    bool, typer.Option("--follow", "-f", help="Go on as output comes, also with the next attempts.")
]
Attempt = Annotated[
    int | None, typer.Option("--attempt", min=1, metavar="N", help="Of this attempt; else the latest.")
]


@dataclass(frozen=True)
class AttemptOutput:
    """Finds the output of one attempt: ``path`` and what was rotated away from it."""

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


@command
def logs(chosen: Chosen, name: Name, follow: Follow = False, attempt: Attempt = None) -> int:
    """Print what the driver of a job wrote, if it ran on this host; else say where it is.

    Of the latest attempt; older ones are kept for a while. With -f it goes on with the next attempts, until the job
    ends or moves to another host.

    \b
    Examples:
      spark-supervisor logs clicks | tail -50
      spark-supervisor logs -f clicks
      spark-supervisor logs clicks --attempt 3
    """
    known_name(name)
    if follow and chosen.document:
        raise InvalidInput("-f has no end, so it can't be one JSON document: leave out -o json")
    settings = chosen.settings()
    with open_commands(settings) as context:
        job = _job(context, name)
        number = attempt or _latest_attempt(job)
        output = output_of(context, job, number)
        if not output.files() and not (follow and is_here(context, job, number)[0]):
            _elsewhere(context, job, number, output.path)
        if chosen.document:
            text = b"".join(file.read_bytes() for file in output.files()).decode("utf-8", "replace")
            chosen.print_document(
                {"name": name, "uid": job.uid, "attempt": number, "path": str(output.path), "output": text}
            )
        elif follow:
            _follow(context, name, output, job.uid, number, stay=attempt is not None)
        else:
            _write(piece for file in output.files() for piece in _pieces(file))
    return 0


def _job(context: CommandContext, name: str) -> OneJob:
    job = read_job(context.zoo(), context.layout, name) if context.check() is not None else None
    if job is None:
        raise no_job(context.zoo(), context.layout, name)
    return job


def _latest_attempt(job: OneJob) -> int:
    if isinstance(job.result, Found) and job.result.record.attempt:
        return job.result.record.attempt
    if job.own is not None and job.own.uid == job.uid and job.own.attempt:
        return job.own.attempt
    raise SupervisorError(f"{job.row.name} has had no attempt yet: see spark-supervisor show {job.row.name}")


def output_of(context: CommandContext, job: OneJob, number: int) -> AttemptOutput:
    """Returns where the output of an attempt is, if it ran on this host."""
    return AttemptOutput(_log_dir(context, job, number) / job.row.name / f"{job.uid}.{number}.log")


def _log_dir(context: CommandContext, job: OneJob, number: int) -> Path:
    """Returns the log directory of the supervisor that ran the attempt: several may share this host.

    While that supervisor is down, it is the directory configured here.
    """
    settings, supervisor = context.settings.supervisor, _where(job, number)[1]
    if not supervisor or supervisor == settings.id:
        return settings.log_dir
    path = context.layout.supervisor(supervisor)
    member = seen(Member, context.zoo().read(path), path)
    return (
        Path(member.record.log_dir)
        if isinstance(member, Found) and member.record.log_dir
        else settings.log_dir
    )


def _elsewhere(context: CommandContext, job: OneJob, number: int, path: Path) -> NoReturn:
    """Raises an error that says where the output must be, as far as the records tell."""
    here, where = is_here(context, job, number)
    which = f"attempt {number} of {job.row.name}"
    if here:
        lack = (
            "has written nothing yet" if number == _latest_attempt(job) else "has left nothing that is kept"
        )
        raise SupervisorError(f"{which} {lack}: {path} does not exist; {_kept(path, job.uid)}")
    if not where:
        raise SupervisorError(
            f"{which} is not known, and {path} does not exist on this host; {_kept(path, job.uid)}"
        )
    # empty: only its supervisor's id is known, which need not be a host's name
    host = _where(job, number)[0]
    there = (
        f"ssh {host} spark-supervisor logs {job.row.name} --attempt {number}, or read {path} there"
        if host
        else (f"read {path} there")
    )
    raise SupervisorError(f"{which} ran on {where}: {there}; {_kept(path, job.uid)}")


def _kept(path: Path, uid: str) -> str:
    """Returns a clause that says of which attempts there is output beside ``path``."""
    numbers = {file.name.removeprefix(f"{uid}.").split(".")[0] for file in path.parent.glob(f"{uid}.*.log*")}
    kept = ", ".join(map(str, sorted(int(number) for number in numbers if number.isdigit())))
    return f"kept here is that of attempt {kept}" if kept else "nothing of this job is kept here"


def is_here(context: CommandContext, job: OneJob, number: int) -> tuple[bool, str]:
    """Returns whether the attempt ran on this host, and the name of its host, or at least its supervisor."""
    host, supervisor = _where(job, number)
    return supervisor == context.settings.supervisor.id or host == socket.gethostname(), host or supervisor


def _where(job: OneJob, number: int) -> tuple[str, str]:
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


def _pieces(file: Path) -> Iterator[bytes]:
    with suppress(FileNotFoundError), file.open("rb") as stream:  # rotated away meanwhile
        while piece := stream.read(CHUNK_BYTES):
            yield piece


def _write(pieces: Iterator[bytes]) -> None:
    """Writes bytes as the driver wrote them into a pipe or file, and ``harmless`` text on a terminal."""
    sys.stdout.flush()
    if sys.stdout.isatty():
        for text in harmless(pieces):
            sys.stdout.write(text)
        sys.stdout.flush()
        return
    for piece in pieces:
        sys.stdout.buffer.write(piece)
    sys.stdout.buffer.flush()


def harmless(pieces: Iterable[bytes]) -> Iterator[str]:
    """Yields the text of ``pieces`` without what a terminal obeys.

    All but printable characters, line ends and tabs is escaped.
    """
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    for piece in pieces:
        yield _escaped(decoder.decode(piece))
    yield _escaped(decoder.decode(b"", final=True))


def _escaped(text: str) -> str:
    return "".join(char if char.isprintable() or char in "\n\t" else ascii(char)[1:-1] for char in text)


def _follow(
    context: CommandContext, name: str, output: AttemptOutput, uid: str, number: int, *, stay: bool
) -> None:
    """Follows the attempt until it ends and no other follows here; its successors too unless ``stay``."""
    while True:
        _write(piece for file in output.files() if file != output.path for piece in _pieces(file))
        watch = _Attempts(context, name, uid, number)
        _write(_tail(output.path, watch.is_over))
        job = watch.next_attempt
        if stay or job is None:
            return
        number = _latest_attempt(job)
        output = output_of(context, job, number)
        if not output.files() and not is_here(context, job, number)[0]:
            _elsewhere(context, job, number, output.path)
        notice(f"==> attempt {number} <==")


class _Attempts:
    """Asks now and then whether the attempt goes on; while ZooKeeper is away, it is assumed to."""

    def __init__(self, context: CommandContext, name: str, uid: str, number: int) -> None:
        self.next_attempt: OneJob | None = None
        self._office = context
        self._name = name
        self._uid = uid
        self._number = number
        self._asked_at_s = 0.0

    def is_over(self) -> bool:
        if time.monotonic() - self._asked_at_s < ASK_EVERY_S:
            return False
        self._asked_at_s = time.monotonic()
        try:
            return self._ask()
        except Unreachable as error:
            notice(f"{error}; following on")
            return False

    def _ask(self) -> bool:
        job = read_job(self._office.zoo(), self._office.layout, self._name)
        if job is None or job.uid != self._uid or job.result is not None:
            return True
        own = job.own
        if own is None or own.uid != self._uid:
            return False
        if own.attempt > self._number:
            if own.state in (OwnState.ASSIGNED, OwnState.VACANT):
                return False
            self.next_attempt = job
            return True
        return False


def _tail(path: Path, is_over: Callable[[], bool]) -> Iterator[bytes]:
    """Yields what is in ``path`` and what comes, over rotations, until ``is_over`` and all is read."""
    stream: IO[bytes] | None = None
    try:
        while True:
            if stream is None:
                with suppress(FileNotFoundError):
                    stream = path.open("rb")
            over = is_over()
            yield from _rest(stream)
            if stream is not None and _was_rotated(stream, path):
                yield from _rest(stream)
                stream.close()
                stream = None
                continue
            if over:
                return
            sys.stdout.flush()
            time.sleep(PERIOD_S)
    finally:
        if stream is not None:
            stream.close()


def _rest(stream: IO[bytes] | None) -> Iterator[bytes]:
    while stream is not None and (piece := stream.read(CHUNK_BYTES)):
        yield piece


def _was_rotated(stream: IO[bytes], path: Path) -> bool:
    """Returns whether another file has the name now. If none has it yet, the shim is between two files."""
    try:
        there = path.stat()
    except FileNotFoundError:
        return False
    mine = os.fstat(stream.fileno())
    return (there.st_dev, there.st_ino) != (mine.st_dev, mine.st_ino)
