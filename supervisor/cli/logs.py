"""Implements the ``logs NAME`` command: prints the output of an attempt's driver, from the files of this
host.

``-f`` goes on from attempt to attempt. In a pipe the output comes byte by byte as it is, on a terminal
without escape sequences. Where the files are, ``operations.logs`` says.
"""

from __future__ import annotations

import codecs
import os
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import IO, Annotated

import typer

from supervisor.cli.options import Chosen, Name, command
from supervisor.cli.output import notice
from supervisor.errors import InvalidInput, Unreachable
from supervisor.operations.context import CommandContext, open_commands
from supervisor.operations.history import find_job
from supervisor.operations.logs import AttemptOutput, Sequel, find_output, sequel_of
from supervisor.operations.names import known_name

CHUNK_BYTES = 64 * 1024
PERIOD_S = 0.3
ASK_EVERY_S = 2.0

Follow = Annotated[
    bool, typer.Option("--follow", "-f", help="Go on as output comes, also with the next attempts.")
]
Attempt = Annotated[
    int | None, typer.Option("--attempt", min=1, metavar="N", help="Of this attempt; else the latest.")
]


@command
def logs(chosen: Chosen, name: Name, follow: Follow = False, attempt: Attempt = None) -> int:
    """Print what the driver of a job wrote, if it ran on this host; else say where it is.

    Shows the latest attempt; files of older attempts are kept for a while. With -f it goes on with the next
    attempts, until the job ends or moves to another host.

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
        output = find_output(context, find_job(context, name), attempt, may_come=follow)
        if chosen.document:
            text = b"".join(file.read_bytes() for file in output.files()).decode("utf-8", "replace")
            found = {"name": name, "uid": output.uid, "attempt": output.attempt, "path": str(output.path)}
            chosen.print_document({**found, "output": text})
        elif follow:
            _follow(context, output, stay=attempt is not None)
        else:
            _write(piece for file in output.files() for piece in _pieces(file))
    return 0


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


def _follow(context: CommandContext, output: AttemptOutput, *, stay: bool) -> None:
    """Follows the attempt until it ends and no other follows here; its successors too unless ``stay``."""
    while True:
        _write(piece for file in output.files() if file != output.path for piece in _pieces(file))
        watch = _AttemptWatch(context, output)
        _write(_tail(output.path, watch.is_over))
        job = watch.sequel.job
        if stay or job is None:
            return
        output = find_output(context, job, may_come=True)
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
