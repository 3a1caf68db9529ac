"""Uploads of what drivers write, and their sweep: each rule undone, one at a time.

Nothing of it is a write to the registry, so the explorer sees none of it: ordinary tests do, and the histories of
``property/test_log_sweep``, which has defects of its own.
"""

from __future__ import annotations

from supervisor.daemon.host.log_uploads import LogUploads
from supervisor.daemon.host.running_uploads import RunningUploads
from supervisor.daemon.leader.sweeper import Sweeper
from supervisor.model import state
from supervisor.operations import uploaded_output
from supervisor.registry.uploaded_logs import UploadedLogs
from tests.explore.planting import text

WHOLE = "§4: an output is uploaded when nobody writes to it any more"
KEPT = "§4: what is to be uploaded is known until it is in the store"
TERM = "§6: cancel and await every task of the epoch"
BOUNDED = "§4: what a job has left, and what is in the store, may be anybody's: it is read within bounds"

LOST = "§4: of a host that is lost there is what it had uploaded until then"

DEFECTS = (
    text(
        "output-is-uploaded-before-the-tombstone",
        WHOLE,
        (LogUploads._attend, " or not is_attempt_over(own, key.uid, key.attempt)", ""),
    ),
    text(
        "an-attempt-that-the-registry-does-not-know-is-over",
        WHOLE,
        (state.is_attempt_over, "attempt < own.attempt or", "attempt != own.attempt or"),
    ),
    text(
        "an-assigned-attempt-is-over",
        WHOLE,
        (state.is_attempt_over, "attempt < own.attempt or", "attempt <= own.attempt or"),
    ),
    text(
        "name-goes-before-the-output-is-stored",
        KEPT,
        (LogUploads._upload, "self._logs.put(", "self._remove_name(key), self._logs.put("),
    ),
    text(
        "what-runs-is-not-noted",
        KEPT,
        (LogUploads._keep_names, "*filter(None, map(wanted_by, hosted.values()))", ""),
    ),
    text(
        "what-was-noted-goes-before-it-is-kept",
        KEPT,
        (
            LogUploads._keep_names,
            "    missing = set(wanted)",
            "    [(self._ended / _name_of(key)).unlink() for key in recorded]\n    missing = set(wanted)",
        ),
    ),
    text(
        "sweep-of-outputs-outlives-its-term",
        TERM,
        (
            Sweeper.sweep_once,
            "logs.scan(self._references, self._permission.may_go_on)",
            "logs.scan(self._references)",
        ),
    ),
    text(
        "an-output-that-grows-is-read-for-ever",
        BOUNDED,
        (uploaded_output._end_of, "while left > 0:", "while True:"),
        (uploaded_output._end_of, "min(_BLOCK_BYTES, left)", "_BLOCK_BYTES"),
        (
            uploaded_output._end_of,
            "left -= len(block)",
            "left -= len(block)\n        if left < -(2**24): return",
        ),
    ),
    text(
        "an-output-that-grows-holds-up-all-others",
        BOUNDED,
        (RunningUploads._put_next, "range(PASS_MAX)", "range(2 * PASS_MAX)"),
    ),
    text(
        "what-runs-waits-for-the-registry",
        LOST,
        (LogUploads.turn, "pieces = self._work_through(", "pieces = outputs and self._work_through("),
    ),
    text(
        "what-has-ended-waits-for-pieces",
        LOST,
        (
            LogUploads.turn,
            "    outputs = self._work_through(",
            "    outputs = all(self._try(PIECES, partial(self._running.upload, key)) for key in due)"
            " and self._work_through(",
        ),
    ),
    text(
        "an-output-that-is-refused-stays-first",
        LOST,
        (LogUploads._work_through, "self._refused[kind] = _name_of(key)", "pass"),
    ),
    text(
        "pieces-go-though-nothing-counts-in-place-of-them",
        KEPT,
        (UploadedLogs.drop_pieces_of, "if is_whole:", "if True:"),
    ),
    text(
        "a-piece-that-was-refused-waits-for-the-next-period",
        LOST,
        (RunningUploads.upload, "        output.due_at_s = begun_at_s\n", ""),
    ),
    text(
        "pieces-are-not-looked-for-again-after-an-error",
        LOST,
        (RunningUploads._upload, "output.pieces = output.pieces, None", "output.pieces = output.pieces, []"),
    ),
    text(
        "pieces-are-put-beside-the-whole-output",
        WHOLE,
        (
            RunningUploads._upload,
            "        return False\n    self._drop",
            "        pieces = []\n    self._drop",
        ),
    ),
    text(
        "a-piece-goes-that-counts",
        KEPT,
        (RunningUploads._upload, "if piece not in counting", "if piece is not counting[0]"),
    ),
    text(
        "a-bomb-is-unpacked",
        BOUNDED,
        (uploaded_output._unpack, "if left < 0:", "if False:"),
    ),
)
