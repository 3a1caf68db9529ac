"""Implements the ``logs NAME`` command: prints the output of an attempt's driver, from the files of this
host, or from the API of the host that has them (``--server``).

``-f`` goes on from attempt to attempt. What a terminal would obey is escaped, in a pipe too; with ``--raw`` the output comes
byte by byte as it is. Where the files are, ``operations.logs`` says; ``operations.log_parts`` reads them.
"""

from __future__ import annotations

import codecs
import os
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import IO, Annotated

import typer

from supervisor.api.log_client import LogClient, LogPiece, WantedLog
from supervisor.api.paths import FOLLOW_ATTEMPT, FOLLOW_JOB, SOURCE_HOST, SOURCE_STORE
from supervisor.cli.api_client import api_of
from supervisor.cli.options import Chosen, Name, command, over_api, seconds
from supervisor.cli.output import notice
from supervisor.clock import wall_iso, wall_s
from supervisor.errors import InvalidInput, Unreachable
from supervisor.operations.context import CommandContext, open_commands
from supervisor.operations.history import find_job
from supervisor.operations.log_parts import LogStart, open_current, open_parts
from supervisor.operations.logs import (
    AttemptOutput,
    OutputElsewhere,
    OutputMissing,
    Sequel,
    find_output,
    sequel_of,
)
from supervisor.operations.names import known_name
from supervisor.operations.uploaded_output import UploadedLog, find_uploaded, open_stored

CHUNK_BYTES = 64 * 1024
PERIOD_S = 0.3
ASK_EVERY_S = 2.0
FETCH_EVERY_S = 1.0
"""A server reads the records no more often."""
TAIL_MAX_LINES = 99_999
LOST = "some output is missing here: its file was rotated away, or its host is down"

Follow = Annotated[
    bool, typer.Option("--follow", "-f", help="Go on as output comes, also with the next attempts.")
]
Attempt = Annotated[
    int | None, typer.Option("--attempt", min=1, metavar="N", help="Of this attempt; else the latest.")
]


Since = Annotated[
    str | None,
    typer.Option("--since", metavar="TIME", help="Only what was written within this time, like 10m or 2h."),
]
Tail = Annotated[
    int | None,
    typer.Option(
        "--tail", "-n", min=0, max=TAIL_MAX_LINES, metavar="LINES", help="Only the last so many lines."
    ),
]


Raw = Annotated[
    bool, typer.Option("--raw", help="The bytes as they are, with what a terminal obeys; else it is escaped.")
]
Write = Callable[[Iterator[bytes]], None]


@command
@over_api
def logs(
    chosen: Chosen,
    name: Name,
    follow: Follow = False,
    attempt: Attempt = None,
    since: Since = None,
    tail: Tail = None,
    raw: Raw = False,
) -> int:
    """Print what the driver of a job wrote, if it ran on this host or was uploaded; else say where it is.

    Shows the latest attempt; files of older attempts are kept for a while. With -f it goes on with the next
    attempts, until the job ends or moves to another host. With --server the output is fetched from the host that has it.

    --since begins at the first line whose time stamp is new enough, in the first file that was written to since. A stamp is
    one at the begin of a line, like 26/11/21 10:00:00 or 2026-11-21T10:00:00Z; without a zone it is the host's local time.
    If no line of that file has a stamp, all of it is printed.

    \b
    Examples:
      spark-supervisor logs clicks --tail 50
      spark-supervisor logs -f clicks --since 10m
      spark-supervisor logs clicks --attempt 3
    """
    known_name(name)
    if follow and chosen.document:
        raise InvalidInput("-f has no end, so it can't be one JSON document: leave out -o json")
    since_s = None if since is None else seconds("--since", since)
    write = partial(write_output, raw=raw)
    api = api_of(chosen)
    if api is not None:
        of = None if not follow else FOLLOW_JOB if attempt is None else FOLLOW_ATTEMPT
        _print_fetched(chosen, LogClient(api, name), WantedLog(name, attempt, tail, since, of), write)
        return 0
    start = LogStart(tail, None if since_s is None else wall_s() - since_s)
    with open_commands(chosen.settings()) as context:
        job = find_job(context, name)
        try:
            output = find_output(context, job, attempt, may_come=follow)
        except OutputMissing as missing:
            if follow:
                raise
            uploaded = find_uploaded(context, job, attempt, missing)
            host = missing.host if isinstance(missing, OutputElsewhere) else ""
            _print_uploaded(chosen, context, uploaded, start, host, write)
            return 0
        if chosen.document:
            _print_document(chosen, name, output, b"".join(_kept(output, start)))
        elif follow:
            _follow(context, output, start, write, stay=attempt is not None)
        else:
            write(_kept(output, start))
    return 0


def _kept(output: AttemptOutput, start: LogStart) -> Iterator[bytes]:
    """Yields what there is from ``start`` on."""
    with open_parts(output.path) as parts:
        yield from parts.pieces(parts.position(start))


def _print_document(
    chosen: Chosen,
    name: str,
    output: AttemptOutput | LogPiece,
    text: bytes,
    source: str = SOURCE_HOST,
    until: str = "",
) -> None:
    found = {"name": name, "uid": output.uid, "attempt": output.attempt, "path": str(output.path)}
    found |= {"source": source, "uploaded_until": until or None}
    chosen.print_document({**found, "output": text.decode("utf-8", "replace")})


# -- the store ----------------------------------------------------------------------------------------------------


def _print_uploaded(
    chosen: Chosen,
    context: CommandContext,
    found: UploadedLog,
    start: LogStart,
    host: str,
    write: Write,
) -> None:
    key, until = found.key, wall_iso(found.until_s) if found.pieces else ""
    with open_stored(context.store(), found) as parts:
        pieces = parts.pieces(parts.position(start))
        if chosen.document:
            output = AttemptOutput(key.name, key.uid, key.attempt, Path(found.names[-1]))
            _print_document(chosen, key.name, output, b"".join(pieces), SOURCE_STORE, until)
        else:
            _print_source(key.attempt, until, host)
            if found.has_gaps:
                notice(LOST)
            write(pieces)


def _print_source(attempt: int, until: str = "", host: str = "") -> None:
    what = f"from the store: the end of what attempt {attempt} wrote"
    if until:
        rest = (
            f"; what came later is on its host {host} only"
            if host
            else "; what came later is on its host only"
        )
        notice(f"{what}, uploaded until {until}{rest}")
    else:
        notice(f"{what}, uploaded when it had ended")


# -- over the API -------------------------------------------------------------------------------------------------


def _print_fetched(chosen: Chosen, client: LogClient, wanted: WantedLog, write: Write) -> None:
    if not chosen.document:
        write(_fetched(client, wanted))
        return
    piece = client.get(wanted.target())
    text = [piece.text]
    while piece.following is not None:
        piece = client.get(piece.following)
        text.append(piece.text)
    _print_document(chosen, wanted.name, piece, b"".join(text), piece.source, piece.uploaded_until)


def _fetched(client: LogClient, wanted: WantedLog) -> Iterator[bytes]:
    """Yields the output as its host gives it; with ``wanted.follow`` also what comes. A server that does not answer
    meanwhile is asked again."""
    target: str | None = wanted.target()
    before: int | None = None
    while target is not None:
        try:
            piece = client.get(target)
        except Unreachable as error:
            if before is None or wanted.follow is None:
                raise
            notice(f"{error}; following on")
            time.sleep(ASK_EVERY_S)
            continue
        if piece.attempt != before and before is not None:
            sys.stdout.flush()
            notice(f"==> attempt {piece.attempt} <==")
        if piece.source == SOURCE_STORE and piece.attempt != before:
            _print_source(piece.attempt, piece.uploaded_until, piece.host)
        if piece.is_lost:
            notice(LOST)
        yield piece.text
        sys.stdout.flush()
        if piece.is_waiting:
            time.sleep(FETCH_EVERY_S)
        target, before = piece.following, piece.attempt


# -- the files of this host ---------------------------------------------------------------------------------------


def write_output(pieces: Iterator[bytes], raw: bool = False) -> None:
    """Writes ``harmless`` text, or with ``raw`` the bytes as the driver wrote them. A pipe gets no other text than a
    terminal: behind it is one, most often."""
    sys.stdout.flush()
    for piece in pieces if raw else (text.encode() for text in harmless(pieces)):
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
    context: CommandContext, output: AttemptOutput, start: LogStart, write: Write, *, stay: bool
) -> None:
    """Follows the attempt until it ends and no other follows here; its successors too unless ``stay``."""
    while True:
        with open_parts(output.path) as parts:
            write(parts.pieces(parts.position(start)))
            current = parts.take_current()
        watch = _AttemptWatch(context, output)
        write(_tail(output.path, watch.is_over, current))
        job = watch.sequel.job
        if stay or job is None:
            return
        output, start = find_output(context, job, may_come=True), LogStart()
        notice(f"==> attempt {output.attempt} <==")


class _AttemptWatch:
    """Asks now and then whether the attempt goes on; while ZooKeeper is away, it is assumed to."""

    def __init__(self, context: CommandContext, output: AttemptOutput) -> None:
        self.sequel = Sequel(is_over=False)
        self._context = context
        self._output = output
        self._asked_at_s = 0.0

    def is_over(self) -> bool:
        if time.monotonic() - self._asked_at_s < ASK_EVERY_S:
            return False
        self._asked_at_s = time.monotonic()
        try:
            self.sequel = sequel_of(self._context, self._output)
        except Unreachable as error:
            notice(f"{error}; following on")
            return False
        return self.sequel.is_over


def _tail(path: Path, is_over: Callable[[], bool], stream: IO[bytes] | None = None) -> Iterator[bytes]:
    """Yields what comes into ``path``, over rotations, until ``is_over`` and all is read. ``stream`` is the file as it was
    opened before, read to where this goes on."""
    try:
        while True:
            if stream is None:
                stream = open_current(path)
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
        there = path.lstat()
    except FileNotFoundError:
        return False
    mine = os.fstat(stream.fileno())
    return (there.st_dev, there.st_ino) != (mine.st_dev, mine.st_ino)
