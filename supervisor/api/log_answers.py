"""Answers what the driver of an attempt wrote, in pieces: each names the address of the next.

A supervisor gives what lies in its own log directory, and says of all else which host has it, as long as that is up; else
it gives what was uploaded to the store. It does not ask the other host itself: the token of a client need not count there,
and a client that may ask there does so better without a second server on the way. ``api.service`` calls it.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final
from urllib.parse import quote, urlencode

from supervisor.api.log_pieces import OutputPiece, OutputPieces
from supervisor.api.paths import (
    ATTEMPT_HEADER,
    FOLLOW_JOB,
    HOST_HEADER,
    LOST_HEADER,
    PATH_HEADER,
    SOURCE_HEADER,
    SOURCE_HOST,
    SOURCE_STORE,
    UID_HEADER,
    UNTIL_HEADER,
    path_of_logs,
)
from supervisor.api.responses import ApiResponse, RequestQuery
from supervisor.api.shared_reads import SharedReads
from supervisor.clock import wall_iso
from supervisor.errors import InvalidInput, Unreachable
from supervisor.operations.history import find_job
from supervisor.operations.logs import (
    AttemptOutput,
    OutputMissing,
    OwnOutput,
    Sequel,
    has_ended,
    latest_attempt,
    missing,
    own_output,
    path_of_output,
    sequel_of,
)

TEXT: Final = "text/plain; charset=utf-8"


class LogAnswers:
    """Answers from the files below ``log_dir``, and from what ``reads`` reads. It may be used by many threads at once."""

    def __init__(self, reads: SharedReads, log_dir: Path) -> None:
        self._reads, self._log_dir = reads, log_dir
        self._pieces = OutputPieces(reads)

    def answer(self, query: RequestQuery, name: str) -> ApiResponse:
        """Returns a piece of the output of a job. Raises SupervisorError, among them OutputElsewhere."""
        _check_together(query)
        uid, attempt = query.text("uid"), query.text("attempt")
        given = None
        if uid is not None and attempt is not None:
            path = path_of_output(self._log_dir, name, uid, int(attempt))
            given = AttemptOutput(name, uid, int(attempt), path)
        if given is not None and not _is_of_store(query):
            sequel = self._sequel(query, given)
            piece = self._pieces.of_files(given, query)
            if piece is not None:
                return _response(query, given, piece, sequel)
        return self._located(query, name)

    def _located(self, query: RequestQuery, name: str) -> ApiResponse:
        """Answers by what the records say of the attempt."""
        uid, attempt = query.text("uid"), query.text("attempt")
        number = None if attempt is None else int(attempt)
        found = self._reads.get(
            ("log", name, number), lambda context: own_output(context, find_job(context, name), number)
        )
        if uid not in (None, found.output.uid):
            return self._of_another(query, name)
        output, sequel = found.output, self._sequel(query, found.output)
        piece = None if _is_of_store(query) else self._pieces.of_files(output, query)
        piece = piece or self._without_files(query, found, sequel)
        return _response(query, output, piece, sequel, found.place.name)

    def _of_another(self, query: RequestQuery, name: str) -> ApiResponse:
        """Answers for an earlier submission, of which only what was uploaded can be there."""
        uid, attempt = query.text("uid") or "", query.text("attempt")
        error = OutputMissing(f"no output of the submission {uid} is kept here", "leave uid out")
        if attempt is None:
            raise error
        output = AttemptOutput(
            name, uid, int(attempt), path_of_output(self._log_dir, name, uid, int(attempt))
        )
        piece, why = self._pieces.of_store(output, query)
        if piece is None:
            error.add(why)
            raise error
        return _response(query, output, piece, Sequel(is_over=True))

    def _without_files(self, query: RequestQuery, found: OwnOutput, sequel: Sequel) -> OutputPiece:
        """Returns what there is though there are no files here. Raises OutputMissing, also if the host that has them is up:
        it comes first."""
        output, place, is_of_store = found.output, found.place, _is_of_store(query)
        piece, why = None, ""
        if _may_be_stored(query, found):
            piece, why = self._pieces.of_store(output, query)
        if piece is None and not is_of_store:
            piece = _empty(query, found, sequel)
        if piece is None:
            error = missing(found.job, output, place)
            error.add(why)
            raise error
        return piece

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


def _is_of_store(query: RequestQuery) -> bool:
    """Says whether only what was uploaded is asked for."""
    return query.text("source") == SOURCE_STORE


def _may_be_stored(query: RequestQuery, found: OwnOutput) -> bool:
    """Says whether to look in the store. A follow waits for the host of an attempt that goes on; who only wants what there
    is gets what a lost host has uploaded until then."""
    place, is_asked = found.place, _is_of_store(query)
    if has_ended(found.job, found.output.attempt):
        return is_asked or place.is_here or not place.is_up
    return query.text("follow") is None and (is_asked or not place.is_up)


def _empty(query: RequestQuery, found: OwnOutput, sequel: Sequel) -> OutputPiece | None:
    """Returns an empty piece if a follow is to go on though there are no files here, else None. What lies on a host whose
    supervisor is down is waited for, until the attempt is over; then the follow goes on without it."""
    follow, place = query.text("follow"), found.place
    if follow is not None and place.is_here:
        return OutputPiece(b"", None)
    has_begun = "uid" in query.values
    if follow is None or not has_begun or place.is_up or not place.name:
        return None
    if not sequel.is_over:
        return OutputPiece(b"", None)
    return OutputPiece(b"", None, is_lost=True) if follow == FOLLOW_JOB and sequel.job is not None else None


def _response(
    query: RequestQuery, output: AttemptOutput, piece: OutputPiece, sequel: Sequel, host: str = ""
) -> ApiResponse:
    headers = {
        UID_HEADER: output.uid,
        ATTEMPT_HEADER: str(output.attempt),
        PATH_HEADER: quote(piece.key or bytes(output.path)),
        SOURCE_HEADER: SOURCE_STORE if piece.key else SOURCE_HOST,
    }
    if piece.is_lost:
        headers[LOST_HEADER] = "true"
    if piece.until_s:
        headers[UNTIL_HEADER] = wall_iso(piece.until_s)
        headers |= {HOST_HEADER: quote(host)} if host else {}
    following = _following(query, output, piece, sequel)
    if following is not None:
        target = f"{path_of_logs(output.name)}?{urlencode(following)}"
        headers["Link"] = f'<{target}>; rel="next"'
    return ApiResponse(200, piece.text, headers, TEXT)


def _following(
    query: RequestQuery, output: AttemptOutput, piece: OutputPiece, sequel: Sequel
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
        of_store = {"source": SOURCE_STORE} if piece.key else {}
        return {**asked, **of_store, "offset": piece.cursor}
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
