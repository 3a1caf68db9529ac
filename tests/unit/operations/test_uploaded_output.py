"""What is packed for the store is unpacked as it was, and nothing that is odd or too large is."""

from __future__ import annotations

import gzip
import io
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from supervisor.clients.store.base import Store, StoreEntry
from supervisor.clients.store.files import FileStore
from supervisor.errors import Corrupt, NotFound
from supervisor.operations import uploaded_output
from supervisor.operations.log_parts import LogPosition, LogStart
from supervisor.operations.uploaded_output import find_stored, open_stored, pack
from supervisor.registry import uploaded_logs
from supervisor.registry.blob_sweep import GRACE_S, References
from supervisor.registry.uploaded_logs import (
    OBJECT_MAX_BYTES,
    LogSweeper,
    UploadedKey,
    UploadedLog,
    UploadedLogs,
    parse_log_key,
)

UID = "0123456789ab-89abcdef"
KEY = UploadedKey("a", UID, 7, 5)


def store_in(tmp_path: Path) -> Store:
    return FileStore(tmp_path / "store")


def put(store: Store, tmp_path: Path, data: bytes) -> UploadedLog:
    packed = tmp_path / "packed"
    packed.write_bytes(data)
    UploadedLogs(store).put(KEY, packed)
    found = find_stored(store, "a", UID, 7)
    assert found is not None
    return found


def output(tmp_path: Path, *parts: bytes) -> Path:
    path = tmp_path / "log" / "a" / f"{UID}.7.log"
    path.parent.mkdir(parents=True)
    for number, text in enumerate(reversed(parts)):
        (path if number == 0 else path.with_name(f"{path.name}.{number}")).write_bytes(text)
    return path


def packed_of(path: Path) -> tuple[int | None, bytes]:
    target = io.BytesIO()
    return pack(path, target), target.getvalue()


def test_it_is_read_as_it_was_written(tmp_path: Path) -> None:
    lines = [b"line %d\n" % number for number in range(9)]
    path = output(tmp_path, b"".join(lines[:4]), b"".join(lines[4:]))
    os.utime(path, (1_800_000_000.5, 1_800_000_000.5))
    size_bytes, data = packed_of(path)
    assert size_bytes == sum(map(len, lines)) and packed_of(path)[1] == data, "the same files, the same bytes"
    store = store_in(tmp_path)
    with open_stored(store, put(store, tmp_path, data)) as parts:
        assert b"".join(parts.pieces(parts.position(LogStart()))) == b"".join(lines)
        assert b"".join(parts.pieces(parts.position(LogStart(tail=2)))) == b"".join(lines[-2:])
        assert 0 < parts.modified_at_s - 1_800_000_000.5 < 1, "and never earlier than it was"
        cursor = parts.cursor(LogPosition(0, 9))
        assert parts.take_current() is None, "nothing comes any more"
    with open_stored(store, put(store, tmp_path, data)) as parts:
        assert parts.find(cursor) == LogPosition(0, 9), "it is good for the next time"


@pytest.mark.parametrize("parts", [(b"",), (b"no end",), (b"a\n", b""), (b"", b"b\n")])
def test_small_outputs(tmp_path: Path, parts: tuple[bytes, ...]) -> None:
    size_bytes, data = packed_of(output(tmp_path, *parts))
    assert (size_bytes, gzip.decompress(data)) == (len(b"".join(parts)), b"".join(parts))


def test_there_is_nothing(tmp_path: Path) -> None:
    assert packed_of(tmp_path / "log" / "a" / "x.log")[0] is None


@pytest.mark.parametrize("text", [b"0123456789\n" * 30, b"x" * 330, b"x" * 320 + b"\n" + b"y" * 9])
def test_of_much_output_the_end_is_packed_from_a_line_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: bytes
) -> None:
    monkeypatch.setattr(uploaded_output, "OUTPUT_MAX_BYTES", 100)
    _, data = packed_of(output(tmp_path, text))
    got = gzip.decompress(data)
    assert text.endswith(got) and len(got) <= 100
    assert got in (text[-100:], b"y" * 9) or text[: -len(got)].endswith(b"\n")


def test_what_can_not_be_compressed_fits(tmp_path: Path) -> None:
    path = output(tmp_path, os.urandom(uploaded_output.OUTPUT_MAX_BYTES + 10))
    assert len(packed_of(path)[1]) <= OBJECT_MAX_BYTES


def test_what_no_supervisor_has_uploaded_is_not_unpacked(tmp_path: Path) -> None:
    store = store_in(tmp_path)
    found = put(store, tmp_path, gzip.compress(b"\0" * (uploaded_output.OUTPUT_MAX_BYTES + 1)))
    with pytest.raises(Corrupt), open_stored(store, found):
        pass
    store.delete(str(KEY))
    with pytest.raises(NotFound), open_stored(store, found):
        pass


def test_what_is_larger_than_any_that_was_uploaded_is_not_even_fetched(tmp_path: Path) -> None:
    """It would fill the disk of who asks."""
    store = store_in(tmp_path)
    put(store, tmp_path, gzip.compress(b"fine\n"))
    with open_stored(store, UploadedLog(KEY, OBJECT_MAX_BYTES)) as parts:
        assert parts
    with pytest.raises(Corrupt), open_stored(store, UploadedLog(KEY, OBJECT_MAX_BYTES + 1)):
        pass


def test_keys() -> None:
    assert parse_log_key(str(KEY)) == KEY and str(KEY) == f"logs/a/{UID}/7-5.log.gz"
    for odd in (
        "",
        "logs/a/b/0-1.log.gz",
        "logs/a/b/1-0.log.gz",
        "logs/a/b/1.log.gz",
        "xlogs/a/b/1-1.log.gz",
        "logs/a/b/c/1-1.log.gz",
    ):
        assert parse_log_key(odd) is None


def test_another_attempt_that_begins_with_the_same_digit_is_not_found(tmp_path: Path) -> None:
    store = store_in(tmp_path)
    store.create(str(UploadedKey("a", UID, 71, 5)), b"x")
    store.create(f"logs/a/{UID}/7-x", b"x")
    assert find_stored(store, "a", UID, 7) is None


class Crowded:
    """A store in which somebody has put very many objects beside what was uploaded. ``listed``: those that were asked for."""

    listed = 0

    def entries(self, prefix: str) -> Iterator[StoreEntry]:
        for _ in range(10_000):
            self.listed += 1
            yield StoreEntry(f"{prefix}{self.listed}", 1, 0.0)


def test_of_a_crowded_place_so_much_is_listed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(uploaded_logs, "_LISTED_MAX", 20)
    store: Any = Crowded()
    logs = UploadedLogs(store)
    assert (logs.find("a", UID, 7), store.listed) == (None, 20)
    assert (logs.pieces_of(KEY), store.listed) == ([], 40)


def test_an_output_that_was_away_in_between_is_swept_as_if_it_were_new(tmp_path: Path) -> None:
    """Nothing was uploaded when it was looked for: what was known before counts no more."""
    store, now_s = FileStore(tmp_path / "store"), [0.0]
    sweeper = LogSweeper(store, clock=lambda: now_s[0])
    path = tmp_path / "store" / str(KEY)
    for away in (False, True, False, False):
        if away:
            path.unlink()
        elif not path.exists():
            store.create(str(KEY), b"x")
            os.utime(path, (1_000.0, 1_000.0))
        swept = sweeper.scan(lambda: References(frozenset({"another"})))
        assert (swept, sweeper.orphans) == ((), int(not away))
        now_s[0] += GRACE_S - 1.0
    assert sweeper.scan(lambda: References(frozenset({"another"}))) == (str(KEY),)
