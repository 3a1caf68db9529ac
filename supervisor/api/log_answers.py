"""Answers what the driver of an attempt wrote, in pieces: each names the address of the next.

A supervisor gives what lies in its own log directory, and says of all else which host has it. It does not ask that host
itself: the token of a client need not count there, and a client that may ask there does so better without a second server on
the way. ``api.service`` calls it.

Files are read in the thread of the request, in few of them at once: a disk that hangs holds up nothing else of the API.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final, NamedTuple
from urllib.parse import quote, urlencode

from supervisor.api.responses import ApiResponse, RequestQuery
from supervisor.api.routes import (
    ATTEMPT_HEADER,
    FOLLOW_JOB,
    LOST_HEADER,
    PATH_HEADER,
    UID_HEADER,
    path_of_logs,
)
from supervisor.api.shared_reads import AGAIN, BUSY, SharedReads
from supervisor.clock import wall_s
from supervisor.errors import InvalidInput, SupervisorError, Unreachable
from supervisor.operations.history import find_job
from supervisor.operations.log_parts import LogParts, LogPosition, LogStart, open_parts
from supervisor.operations.logs import (
    AttemptOutput,
    OutputMissing,
    OwnOutput,
    Sequel,
    latest_attempt,
    missing,
    own_output,
    path_of_output,
    sequel_of,
)
from supervisor.settings.units import parse_duration_s

PIECE_MAX_BYTES: Final = 2**20
READERS_MAX: Final = 4
TEXT: Final = "text/plain; charset=utf-8"


class _Piece(NamedTuple):
    """Is a part of the output. ``cursor`` says where it ends, or is None if there are no files yet."""

    text: bytes
    cursor: str | None
    is_lost: bool = False

    @property
    def is_all(self) -> bool:
        """Says whether there was no more."""
        return len(self.text) < PIECE_MAX_BYTES


class LogAnswers:
    """Answers from the files below ``log_dir``, and from what ``reads`` reads. It may be used by many threads at once."""

    def __init__(self, reads: SharedReads, log_dir: Path) -> None:
        self._reads, self._log_dir = reads, log_dir
        self._readers = threading.BoundedSemaphore(READERS_MAX)

    def answer(self, query: RequestQuery, name: str) -> ApiResponse:
        """Returns a piece of the output of a job. Raises SupervisorError, among them OutputElsewhere."""
        _check_together(query)
        uid, attempt = query.text("uid"), query.text("attempt")
        given = None
        if uid is not None and attempt is not None:
            path = path_of_output(self._log_dir, name, uid, int(attempt))
            given = AttemptOutput(name, uid, int(attempt), path)
        start = _start(query)
        if given is not None:
            sequel = self._sequel(query, given)
            piece = self._piece(given, query, start)
            if piece is not None:
                return _response(query, given, piece, sequel)
        return self._located(query, name, start)

    def _located(self, query: RequestQuery, name: str, start: LogStart) -> ApiResponse:
        """Answers by what the records say of the attempt."""
        uid, attempt = query.text("uid"), query.text("attempt")
        number = None if attempt is None else int(attempt)
        found = self._reads.get(
            ("log", name, number), lambda context: own_output(context, find_job(context, name), number)
        )
        output, is_known = found.output, uid in (None, found.output.uid)
        sequel = self._sequel(query, output) if is_known else Sequel(is_over=True)
        piece = self._piece(output, query, start) if is_known else None
        if piece is None:
            if not is_known:
                raise OutputMissing(f"no output of the submission {uid} is kept here", "leave uid out")
            piece = _without_files(query, found, sequel)
            if piece is None:
                raise missing(found.job, output, found.place)
        return _response(query, output, piece, sequel)

    def _piece(self, output: AttemptOutput, query: RequestQuery, start: LogStart) -> _Piece | None:
        """Returns the piece that is asked for, or None if there are no files of the attempt."""
        with self._reader(), _errors_of(output.path), open_parts(output.path) as parts:
            if not parts:
                return None
            return _read(parts, query.text("offset"), start)

    def _sequel(self, query: RequestQuery, output: AttemptOutput) -> Sequel:
        """Returns how the attempt goes on, if that is asked for; it is asked before the files are read, so that they are
        whole when it is over. While ZooKeeper is away, it is assumed to go on."""
        if query.text("follow") is None:
            return Sequel(is_over=True)
        key = ("sequel", output.name, output.uid, output.attempt)
        try:
            return self._reads.get(key, lambda context: sequel_of(context, output))
        except Unreachable:
            return Sequel(is_over=False)

    @contextmanager
    def _reader(self) -> Iterator[None]:
        if not self._readers.acquire(blocking=False):
            raise Unreachable(BUSY, AGAIN)
        try:
            yield
        finally:
            self._readers.release()


def _without_files(query: RequestQuery, found: OwnOutput, sequel: Sequel) -> _Piece | None:
    """Returns an empty piece if a follow is to go on though there are no files here, else None. What lies on a host whose
    supervisor is down is waited for, until the attempt is over; then the follow goes on without it."""
    follow, place = query.text("follow"), found.place
    if follow is not None and place.is_here:
        return _Piece(b"", None)
    has_begun = "uid" in query.values
    if follow is None or not has_begun or place.is_up or not place.name:
        return None
    if not sequel.is_over:
        return _Piece(b"", None)
    return _Piece(b"", None, is_lost=True) if follow == FOLLOW_JOB and sequel.job is not None else None


def _read(parts: LogParts, cursor: str | None, start: LogStart) -> _Piece:
    position = parts.position(start) if cursor is None else parts.find(cursor)
    text, end = parts.read(position or LogPosition(0, 0), PIECE_MAX_BYTES)
    return _Piece(text, parts.cursor(end), is_lost=position is None)


def _response(query: RequestQuery, output: AttemptOutput, piece: _Piece, sequel: Sequel) -> ApiResponse:
    headers = {
        UID_HEADER: output.uid,
        ATTEMPT_HEADER: str(output.attempt),
        PATH_HEADER: quote(bytes(output.path)),
    }
    if piece.is_lost:
        headers[LOST_HEADER] = "true"
    following = _following(query, output, piece, sequel)
    if following is not None:
        target = f"{path_of_logs(output.name)}?{urlencode(following)}"
        headers["Link"] = f'<{target}>; rel="next"'
    return ApiResponse(200, piece.text, headers, TEXT)


def _following(
    query: RequestQuery, output: AttemptOutput, piece: _Piece, sequel: Sequel
) -> dict[str, str] | None:
    """Returns the parameters of what comes next, or None if nothing does."""
    follow = query.text("follow")
    asked = {"uid": output.uid, "attempt": str(output.attempt)} | (
        {} if follow is None else {"follow": follow}
    )
    if piece.is_all and sequel.is_over:
        if follow != FOLLOW_JOB or sequel.job is None:
            return None
        return {**asked, "attempt": str(latest_attempt(sequel.job))}
    if piece.cursor is not None:
        return {**asked, "offset": piece.cursor}
    return asked | {
        key: value for key in ("tail", "since", "offset") if (value := query.text(key)) is not None
    }


def _check_together(query: RequestQuery) -> None:
    given = query.values
    if "offset" in given and not ("uid" in given and "attempt" in given):
        raise InvalidInput("offset is of one attempt", "ask for the address in the header Link of an answer")
    if "offset" in given and ("tail" in given or "since" in given):
        raise InvalidInput(
            "offset says where the output begins, and so do tail and since", "give one of them"
        )


def _start(query: RequestQuery) -> LogStart:
    tail, since = query.text("tail"), query.text("since")
    return LogStart(
        tail=None if tail is None else int(tail),
        since_at_s=None if since is None else wall_s() - parse_duration_s(since),
    )


@contextmanager
def _errors_of(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise SupervisorError(f"{path} can't be read ({error.strerror or error})") from None
