"""Uploads the output of attempts that run on this host in pieces, as often as their spec asks for it (``logs: {every:
5m}``).

``daemon.host.log_uploads`` calls it from its thread, in turns. The host keeps no record of what it has uploaded: the key of
the newest piece in the store says where it ends here. So the first turn after a start or an error lists the pieces of an
attempt, and goes on from there; a piece is created or left as it is, and what was cut off is done again.

One turn takes each attempt that is due once, those that wait longest first, and of each at most ``PASS_MAX`` pieces: an
output that grows faster than that leaves a gap. A piece that a later one counts in place of is removed one turn after that,
so that who has listed them just before can still read it. When the whole output of an attempt is in the store, all its
pieces are, ``DROP_AFTER_S`` later, for the same reason. What is left over, the leader sweeps.

An attempt that begins is due after its period, so that a short one leaves no pieces. What runs already at the first turn of
a process is due at once: nobody knows how long ago the last one has uploaded.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import structlog

from supervisor.clock import boottime_s
from supervisor.errors import AccessDenied, Unreachable
from supervisor.operations.log_parts import OutputUnusable
from supervisor.operations.logs import path_of_output
from supervisor.operations.uploaded_output import next_piece
from supervisor.registry.uploaded_logs import (
    OUTPUT_MAX_BYTES,
    PIECE_MAX_BYTES,
    PieceKey,
    UploadedKey,
    UploadedLogs,
    pieces_that_count,
)

log = structlog.get_logger(__name__)

PASS_MAX: Final = OUTPUT_MAX_BYTES // PIECE_MAX_BYTES + 1
DROP_AFTER_S: Final = 60.0
"""So long after the whole output was stored, a reader that has listed the pieces can still read them."""


@dataclass
class _RunningOutput:
    """Is the output of one attempt, which was up to date in the store ``done_at_s``, or began to run then. ``pieces`` are
    those in the store, or None while that is not known; ``is_closed`` says that no more are put there."""

    every_s: float
    due_at_s: float
    done_at_s: float
    pieces: list[PieceKey] | None = None
    is_closed: bool = False
    unwanted: list[PieceKey] = field(default_factory=list)


def log_missing(key: UploadedKey, why: str, following: str) -> None:
    """Logs that the store has not all of an output, and what comes of that."""
    log.warning("log_not_uploaded", job=key.name, uid=key.uid, attempt=key.attempt, why=why, next=following)


class RunningUploads:
    """Is used by one thread. ``go_on`` is asked before each piece."""

    def __init__(
        self,
        log_dir: Path,
        logs: UploadedLogs,
        go_on: Callable[[], bool] = lambda: True,
        clock: Callable[[], float] = boottime_s,
    ) -> None:
        self._log_dir, self._logs = log_dir, logs
        self._go_on, self._clock = go_on, clock
        self._running: dict[UploadedKey, _RunningOutput] = {}
        self._is_first = True
        self._whole_at_s: dict[UploadedKey, float] = {}

    def take(self, periods_s: Mapping[UploadedKey, float]) -> list[UploadedKey]:
        """Takes what runs now, with the period of each, and returns what is due."""
        now_s, is_first, self._is_first = self._clock(), self._is_first, False
        self._running = {
            key: self._running.get(key) or _RunningOutput(every_s, now_s + every_s * (not is_first), now_s)
            for key, every_s in periods_s.items()
        }
        due = [
            key for key, output in self._running.items() if output.due_at_s <= now_s and not output.is_closed
        ]
        return sorted(due, key=lambda key: self._running[key].due_at_s)

    def overdue(self) -> int:
        """Returns of how many attempts no upload has succeeded for two periods."""
        now_s = self._clock()
        running = (output for output in self._running.values() if not output.is_closed)
        return sum(now_s - output.done_at_s >= 2 * output.every_s for output in running)

    def shortest_s(self) -> float:
        """Returns the shortest period of what runs, in seconds; infinity if nothing is uploaded while it runs."""
        return min((output.every_s for output in self._running.values()), default=float("inf"))

    def whole(self, key: UploadedKey) -> None:
        """Is told that the whole output of an attempt is in the store, so that its pieces need not stay."""
        self._whole_at_s[key] = self._clock()

    def superseded(self) -> list[UploadedKey]:
        """Returns of which attempts all pieces are to be removed now."""
        before_at_s = self._clock() - DROP_AFTER_S
        return [key for key, at_s in self._whole_at_s.items() if at_s <= before_at_s]

    def drop(self, key: UploadedKey) -> None:
        """Removes the pieces of one of ``superseded``. If that is refused, they are left to the leader. Raises Unreachable,
        after which it is to be done still."""
        at_s = self._whole_at_s.pop(key)
        try:
            with suppress(AccessDenied):
                self._logs.drop_pieces_of(key)
        except Unreachable:
            self._whole_at_s[key] = at_s
            raise

    def upload(self, key: UploadedKey) -> None:
        """Uploads what came since the last time. Raises Unreachable and AccessDenied, after which it is due still; OSError
        of the disk."""
        output, begun_at_s = self._running[key], self._clock()
        output.due_at_s = begun_at_s + output.every_s
        try:
            is_done = self._upload(key, output)
        except (Unreachable, AccessDenied):
            output.due_at_s = begun_at_s
            raise
        if is_done:
            output.done_at_s = begun_at_s

    def _upload(self, key: UploadedKey, output: _RunningOutput) -> bool:
        """Returns whether the store has now what there was when it began."""
        pieces, output.pieces = output.pieces, None  # not known, if anything of this fails
        if pieces is None:
            pieces = self._logs.pieces_of(key)
        if pieces is None:
            self._close(key, "the store has an output of an attempt of the same number, which stays")
            return False
        self._drop(output)
        try:
            is_done = self._put_next(key, pieces)
        except OutputUnusable as error:
            self._close(key, str(error))
            return False
        counting = pieces_that_count(pieces)
        output.unwanted = [piece for piece in pieces if piece not in counting]
        output.pieces = list(counting)
        return is_done

    def _put_next(self, key: UploadedKey, pieces: list[PieceKey]) -> bool:
        """Puts what came since the newest of ``pieces``, and adds it to them. Returns False if it was to stop before it was
        through."""
        path = path_of_output(self._log_dir, key.name, key.uid, key.attempt)
        for _ in range(PASS_MAX):
            if not self._go_on():
                return False
            last = max(pieces, key=lambda piece: (piece.number, piece.bytes, piece.end), default=None)
            found = next_piece(path, key, last)
            if found is None:
                return True
            piece, compressed = found
            self._logs.put_piece(piece, compressed)
            pieces.append(piece)
        return True

    def _drop(self, output: _RunningOutput) -> None:
        """Removes what did not count when the last turn had ended. If that is refused, it is left to the leader."""
        unwanted, output.unwanted = output.unwanted, []
        with suppress(AccessDenied):
            self._logs.drop(unwanted)

    def _close(self, key: UploadedKey, why: str) -> None:
        self._running[key].is_closed = True
        log_missing(key, why, "nothing more of it is uploaded while it runs")
