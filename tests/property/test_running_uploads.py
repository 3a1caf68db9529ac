"""Of ``daemon.host.running_uploads``: whatever is written, rotated and truncated, and wherever a host, its supervisor or the store
fails, the store has what was there when the last upload began, in order, and says where something is missing.

A history of one attempt on one host, with the rotation of a shim. In between, outputs are uploaded; a request of the store
may fail before or after it has an effect, and so may the process that sends it.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from unittest import mock

import pytest
from hypothesis import given
from hypothesis import strategies as st

from supervisor.clients.store.base import StoreEntry
from supervisor.daemon.host import running_uploads
from supervisor.daemon.host.running_uploads import RunningUploads
from supervisor.errors import NotFound, Unreachable
from supervisor.operations import uploaded_output
from supervisor.operations.log_parts import LogParts
from supervisor.operations.uploaded_output import find_stored, open_stored
from supervisor.registry import uploaded_logs
from supervisor.registry.uploaded_logs import PieceKey, UploadedKey, UploadedLogs
from supervisor.shim.output import RotatedFile
from tests.explore.planting import Edit, edited
from tests.property.histories import always_the_same

UID = "0123456789ab-89abcdef"
KEY = UploadedKey("a", UID, 1, 5)
PIECE_BYTES, OUTPUT_BYTES, PASS = 64, 256, 5
FILE_BYTES, FILES = 150, 4

Step = tuple[str, int]


class KilledNow(BaseException):
    """The supervisor is killed at this request."""


@dataclass
class CopyWorld:
    """It is the host, the store and the judge of one attempt. ``trouble`` says by the number of a request what happens to it."""

    directory: Path
    trouble: dict[int, str] = field(default_factory=dict)
    objects: dict[str, bytes] = field(default_factory=dict)
    written: bytes = b""
    had_on_disk: int = 0
    is_whole: bool = True
    was_truncated: bool = False
    requests: int = 0
    uploaded_to: int = 0
    finished: int = 0
    now_s: float = 0.0

    def __post_init__(self) -> None:
        self.path = self.directory / "a" / f"{UID}.1.log"
        self.file = RotatedFile(str(self.path), FILE_BYTES, FILES)
        self.start()

    def start(self) -> None:
        logs = UploadedLogs(self)  # type: ignore[arg-type]
        self.uploads = RunningUploads(self.directory, logs, clock=lambda: self.now_s)
        self.finished = 0

    # -- what happens ---------------------------------------------------------------------------------------------

    def play(self, history: Sequence[Step]) -> None:
        steps: dict[str, Callable[[int], None]] = {
            "write": self.write,
            "truncate": self.truncate,
            "upload": self.upload,
            "restart": lambda _: self.start(),
        }
        for verb, number in history:
            steps[verb](number)
            self.judge()

    def write(self, lines: int) -> None:
        at_once = lines % 4 + 1
        for _ in range(0, lines, at_once):
            begin = len(self.written) // 6
            text = b"".join(b"%05d\n" % number for number in range(begin, begin + at_once))
            self.file.write(text)
            self.written += text
        self.had_on_disk = len(self.written)
        self.is_whole = self.is_whole and len(self.written) <= min(OUTPUT_BYTES, FILE_BYTES * (FILES - 1))

    def truncate(self, _: int) -> None:
        """An operator empties the file: what nobody has uploaded is gone, and what is left of it may be uploaded again."""
        if self.path.exists():
            os.truncate(self.path, 0)
            self.had_on_disk = self.uploaded_to = 0
            self.is_whole, self.was_truncated = False, True

    def upload(self, wait_s: int) -> None:
        self.now_s += wait_s
        there = self.had_on_disk
        try:
            for key in self.uploads.take({KEY: 60.0}):
                self.uploads.upload(key)
                self.uploaded_to = max(self.uploaded_to, there)
                self.finished += 1
        except Unreachable:
            self.finished = 0
        except KilledNow:
            self.start()

    # -- the store ------------------------------------------------------------------------------------------------

    @contextmanager
    def _request(self) -> Iterator[None]:
        self.requests += 1
        what = self.trouble.get(self.requests, "")
        failure = KilledNow() if what.startswith("kill") else Unreachable("no answer")
        if what.endswith("before"):
            raise failure
        yield
        if what:
            raise failure

    def create(self, key: str, data: bytes) -> None:
        with self._request():
            assert key not in self.objects, "what is there is not sent again"
            self.objects[key] = data

    def delete(self, key: str) -> None:
        with self._request():
            self.objects.pop(key, None)

    def entries(self, prefix: str) -> Iterator[StoreEntry]:
        with self._request():
            found = [
                StoreEntry(key, len(data), self.now_s)
                for key, data in self.objects.items()
                if key.startswith(prefix)
            ]
        yield from sorted(found, key=lambda entry: entry.key)

    def read(self, key: str, max_bytes: int) -> bytes:
        if key not in self.objects:
            raise NotFound("it is gone")
        return self.objects[key][:max_bytes]

    # -- the judge ------------------------------------------------------------------------------------------------

    def judge(self) -> None:
        trouble, self.trouble = self.trouble, {}
        found = find_stored(self, "a", UID, 1)  # type: ignore[arg-type]
        self.trouble = trouble
        self.requests -= 1
        pieces = () if found is None else found.pieces
        text = b""
        if found is not None:
            with open_stored(self, found) as parts:  # type: ignore[arg-type]
                text = b"".join(parts.pieces(parts.before_end(1 << 30)))
        self._judge_pieces(text, pieces)
        if self.is_whole:
            assert self.written.startswith(text), "it is a copy from the begin on"
        if found is not None:
            assert len(pieces) <= uploaded_logs.PIECES_MAX and len(text) < OUTPUT_BYTES + PIECE_BYTES
        if self.finished >= 2:
            assert len(self.objects) <= len(pieces) + PASS + 1, "what does not count goes"

    def _judge_pieces(self, text: bytes, pieces: Sequence[PieceKey]) -> None:
        """Each is a part of what was written, and follows on the one before, or leaves out a number."""
        begin = 0
        places: list[tuple[int, int, int]] = []
        for piece in pieces:
            one, begin = text[begin : begin + piece.bytes], begin + piece.bytes
            if self.was_truncated:
                assert set(one.split(b"\n")[1:-1]) <= set(self.written.split(b"\n"))
                continue
            end = places[-1][2] if places else 0
            at = end if self.written.startswith(one, end) else self.written.find(one)
            assert at >= 0 and len(one) == piece.bytes, "nobody has written that"
            places.append((piece.number, at, at + len(one)))
        for (number, begin, end), (following, at, _) in pairwise(places):
            assert end - begin == PIECE_BYTES or not self.is_whole, "only the newest is not full"
            assert at == end or following > number + 1, "it does not follow, and that is not said"
        newest = self.written[max(0, self.uploaded_to - 6) : self.uploaded_to]
        assert newest in text, "what was there when the last upload began is missing"


writes = st.tuples(st.just("write"), st.sampled_from((1, 2, 3, 11, 30, 75)))
turns = st.tuples(st.just("upload"), st.sampled_from((0, 60, 90)))
others = st.sampled_from((("truncate", 0), ("restart", 0)))
histories = st.lists(st.one_of(writes, writes, turns, turns, turns, others), max_size=14)
troubles = st.dictionaries(
    st.integers(1, 30),
    st.sampled_from(("refuse before", "refuse after", "kill before", "kill after")),
    max_size=4,
)


def play(history: Sequence[Step], trouble: dict[int, str]) -> None:
    with ExitStack() as stack:
        for of, name, value in (
            (uploaded_output, "PIECE_MAX_BYTES", PIECE_BYTES),
            (uploaded_output, "OUTPUT_MAX_BYTES", OUTPUT_BYTES),
            (uploaded_logs, "OUTPUT_MAX_BYTES", OUTPUT_BYTES),
            (running_uploads, "PASS_MAX", PASS),
        ):
            stack.enter_context(mock.patch.object(of, name, value))
        world = CopyWorld(Path(stack.enter_context(tempfile.TemporaryDirectory())), dict(trouble))
        stack.callback(world.file.close)
        world.play(history)
        world.trouble = {}
        world.upload(60)
        world.upload(60)
        world.judge()
        assert world.finished >= 2, "it goes on when the store does"


def explored(examples: int) -> None:
    """Plays so many histories, always the same."""
    always = always_the_same(examples)
    always(given(histories, troubles)(play))()


def test_what_is_in_the_store_is_a_copy_that_lacks_the_last_period_at_most() -> None:
    explored(300)


DEFECTS = (
    (uploaded_output.next_piece, "len(text) <= had_bytes", "len(text) < had_bytes"),
    (uploaded_output._begin_of_next, "last.number + 2, newest", "last.number + 1, newest"),
    (uploaded_output._begin_of_next, "end is None or end < newest", "end is None"),
    (uploaded_output._begin_of_next, "last.bytes < PIECE_MAX_BYTES", "False"),
    (uploaded_output._begin_of_next, "last.bytes < PIECE_MAX_BYTES", "True"),
    (uploaded_output._begin_of_next, "(last.number, begin, last.bytes)", "(last.number, end, 0)"),
    (uploaded_output._begin_of_next, "(last.number + 1, end, 0)", "(last.number + 1, newest, 0)"),
    (LogParts.back, "offset = self._parts[part].size", "offset = self._parts[0].size"),
    (
        RunningUploads._upload,
        "output.pieces = output.pieces, None",
        "output.pieces = output.pieces, output.pieces or []",
    ),
    (RunningUploads._upload, "if piece not in counting", "if piece in counting"),
    (RunningUploads._upload, "if piece not in counting", "if False"),
    (RunningUploads._put_next, "pieces.append(piece)", "pass"),
)


@pytest.mark.parametrize("defect", DEFECTS, ids=lambda defect: defect[2])
def test_it_fails_while_a_defect_is_planted(defect: tuple[object, str, str]) -> None:
    with edited(Edit(*defect)), pytest.raises((AssertionError, NotFound)):
        explored(300)
