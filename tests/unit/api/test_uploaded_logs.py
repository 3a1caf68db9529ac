"""``/jobs/NAME/logs`` of what was uploaded: when the store is asked, what it gives, and what it may not hold."""

from __future__ import annotations

import gzip
import os
import socket
import threading
import time
from pathlib import Path
from typing import IO

import pytest

from supervisor.api import fetched_outputs, log_pieces
from supervisor.clients.store.base import Store
from supervisor.clients.store.files import FileStore
from supervisor.errors import Unreachable
from supervisor.model.records import OwnState, with_entry
from supervisor.operations import uploaded_output
from supervisor.operations.uploaded_output import UploadedLog, fetch_stored
from supervisor.registry.uploaded_logs import (
    OBJECT_MAX_BYTES,
    PIECE_OBJECT_MAX_BYTES,
    PieceKey,
    UploadedKey,
    UploadedLogs,
)
from tests.fakes.registry_bench import AT
from tests.unit.api.conftest import Fleet
from tests.unit.api.test_log_answers import following, fresh, got, output_of, pieces, uid

__all__ = ["fresh", "uid"]


def store_of(fleet: Fleet) -> FileStore:
    return FileStore(fleet.terminal.home / "store")


def uploaded(fleet: Fleet, uid: str, text: bytes, attempt: int = 1, at_s: float | None = None) -> str:
    """As the host of the attempt has uploaded it; returns the key."""
    work = fleet.terminal.home / "packed" / "a"
    work.mkdir(parents=True, exist_ok=True)
    path, packed = work / f"{uid}.{attempt}.log", work / "packed"
    path.write_bytes(text)
    if at_s is not None:
        os.utime(path, (at_s, at_s))
    with packed.open("wb") as target:
        assert uploaded_output.pack(path, target) == len(text)
    key = str(UploadedKey("a", uid, attempt, 5))
    store_of(fleet).create_from(key, packed)
    return key


def uploaded_while_it_runs(fleet: Fleet, uid: str, *texts: bytes, numbers: tuple[int, ...] = ()) -> list[str]:
    """As the host of the first attempt has uploaded it in pieces; returns their keys."""
    keys, of = [], UploadedKey("a", uid, 1, 5)
    for number, text in zip(numbers or range(1, len(texts) + 1), texts, strict=True):
        piece = PieceKey(of, number, len(text), f"1f.0123456789ab.{number}")
        UploadedLogs(store_of(fleet)).put_piece(piece, gzip.compress(text))
        keys.append(str(piece))
    return keys


def ended_here(fleet: Fleet, attempt: int = 1) -> None:
    host = socket.gethostname()
    fleet.terminal.bench.set_own("a", OwnState.EXITED, attempt=attempt, supervisor="host-a", host=host)


def ended_on_b(fleet: Fleet, api: str | None) -> None:
    """``api`` None: it is down."""
    bench = fleet.terminal.bench
    if api is not None:
        bench.join("host-b", host="host-b.example", log_dir="/var/log/b", api=api)
    bench.set_own("a", OwnState.EXITED, attempt=1, supervisor="host-b", host="host-b.example")


def test_what_its_host_no_longer_has_comes_from_the_store(empty: Fleet, uid: str) -> None:
    ended_here(empty)
    assert "the store has no output of it" in empty.error("/jobs/a/logs")[1]["error"]
    key = uploaded(empty, uid, b"1\n2\n3\n")
    response = empty.ask("/jobs/a/logs")
    assert got(response) == b"1\n2\n3\n" and "Link" not in response.headers
    assert (response.headers["Log-Source"], response.headers["Log-Path"]) == ("store", key)
    assert got(empty.ask("/jobs/a/logs?tail=1")) == b"3\n"
    output_of(empty, uid).write_bytes(b"all of it\n")
    response = empty.ask("/jobs/a/logs")
    assert got(response) == b"all of it\n" and response.headers["Log-Source"] == "host"
    assert got(empty.ask("/jobs/a/logs?source=store")) == b"1\n2\n3\n"


def test_a_host_that_is_up_comes_first_and_one_that_is_down_does_not(empty: Fleet, uid: str) -> None:
    uploaded(empty, uid, b"from the store\n")
    ended_on_b(empty, "https://host-b.example:8781")
    code, error = empty.error("/jobs/a/logs")
    assert (code, error["server"]) == (421, "https://host-b.example:8781")
    assert got(empty.ask("/jobs/a/logs?source=store")) == b"from the store\n"
    empty.terminal.bench.zoo.remove(empty.terminal.bench.layout.supervisor("host-b"))
    for query in ("", "?follow=job", "?follow=attempt", f"?uid={uid}&attempt=1"):
        assert got(empty.ask(f"/jobs/a/logs{query}")) == b"from the store\n", query


RUNNING = (OwnState.ASSIGNED, OwnState.CLAIMED, OwnState.DRAINING, OwnState.REVOKED)


@pytest.mark.parametrize("state", RUNNING)
def test_an_attempt_that_runs_is_not_looked_for_while_its_host_is_up_or_a_follow_waits_for_it(
    empty: Fleet, uid: str, monkeypatch: pytest.MonkeyPatch, state: OwnState
) -> None:
    monkeypatch.setattr(log_pieces, "find_stored", lambda *_: pytest.fail("the store was asked"))
    empty.terminal.bench.set_own("a", state, attempt=1, supervisor="host-b", host="host-b.example")
    assert empty.error("/jobs/a/logs?follow=job")[0] == 421
    assert empty.error("/jobs/a/logs?follow=job&source=store")[0] == 421
    assert got(empty.ask(f"/jobs/a/logs?follow=job&uid={uid}&attempt=1")) == b""
    empty.terminal.bench.join("host-b", host="host-b.example", log_dir="/var/log/b", api="https://b:1")
    assert empty.error("/jobs/a/logs")[0] == 421


@pytest.mark.parametrize("state", RUNNING)
def test_of_a_host_that_is_lost_there_is_what_it_had_uploaded_until_then(
    empty: Fleet, uid: str, state: OwnState
) -> None:
    keys = uploaded_while_it_runs(empty, uid, b"one\ntw", b"o\n")
    empty.terminal.bench.set_own("a", state, attempt=1, supervisor="host-b", host="host-b.example")
    for query in ("", "?source=store"):
        response = empty.ask(f"/jobs/a/logs{query}")
        assert got(response) == b"one\ntwo\n" and "Link" not in response.headers
        said = response.headers
        assert (said["Log-Source"], said["Log-Path"], said["Log-Host"]) == (
            "store",
            keys[-1],
            "host-b.example",
        )
        assert said["Log-Uploaded-Until"].endswith("Z") and "Log-Lost" not in said
    assert got(empty.ask("/jobs/a/logs?tail=1")) == b"two\n"
    empty.terminal.bench.set_own("a", OwnState.EXITED, attempt=1, supervisor="host-b", host="host-b.example")
    assert got(empty.ask("/jobs/a/logs?follow=attempt")) == b"one\ntwo\n", "it is over, and its host is gone"
    uploaded(empty, uid, b"one\ntwo\nthree\n")
    response = empty.ask("/jobs/a/logs")
    assert got(response) == b"one\ntwo\nthree\n", "the whole counts in place of pieces"
    assert "Log-Uploaded-Until" not in response.headers


def test_what_is_missing_between_pieces_is_said(
    empty: Fleet, uid: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log_pieces, "PIECE_MAX_BYTES", 5)
    uploaded_while_it_runs(empty, uid, b"one\n", b"three\n", numbers=(1, 3))
    ended_on_b(empty, None)
    first = empty.ask("/jobs/a/logs")
    assert first.headers["Log-Lost"] == "true"
    second = empty.ask(str(following(first)))
    assert got(first) + got(second) == b"one\nthree\n" and "Log-Lost" not in second.headers


def test_an_output_is_fetched_once_for_all_of_its_pieces(
    empty: Fleet, uid: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    fetched: list[tuple[str, ...]] = []

    def fetch(store: Store, found: UploadedLog, target: IO[bytes]) -> float:
        fetched.append(found.names)
        return fetch_stored(store, found, target)

    monkeypatch.setattr(fetched_outputs, "fetch_stored", fetch)
    monkeypatch.setattr(log_pieces, "PIECE_MAX_BYTES", 1000)
    texts = [b"".join(b"%d %05d\n" % (number, line) for line in range(500)) for number in (1, 2, 3)]
    first, second = uploaded_while_it_runs(empty, uid, *texts[:2])
    ended_here(empty)
    for _ in range(2):
        assert b"".join(pieces(empty, "/jobs/a/logs")) == texts[0] + texts[1]
    assert fetched == [(first, second)]
    keys = uploaded_while_it_runs(empty, uid, *texts)
    assert b"".join(pieces(empty, "/jobs/a/logs")) == b"".join(texts), "it has grown"
    assert fetched == [(first, second), tuple(keys)]
    for attempt in range(2, 5):
        uploaded(empty, uid, b"other\n", attempt)
        ended_here(empty, attempt)
        assert got(empty.ask("/jobs/a/logs")) == b"other\n"
    assert b"".join(pieces(empty, "/jobs/a/logs?attempt=1")) == b"".join(texts)
    assert len(fetched) == 6, "few are kept"
    monkeypatch.setattr(fetched_outputs, "KEPT_S", -1.0)
    assert got(empty.ask("/jobs/a/logs?attempt=1&tail=1")) == b"3 00499\n"
    assert len(fetched) == 7, "and not for long"


def test_an_earlier_attempt_and_an_earlier_submission(empty: Fleet, uid: str) -> None:
    uploaded(empty, uid, b"first\n", 1)
    history = with_entry((), AT, "claimed", 1, "host-z")
    empty.terminal.bench.set_own("a", OwnState.CLAIMED, attempt=2, history=history)
    assert got(empty.ask("/jobs/a/logs?attempt=1")) == b"first\n"
    assert empty.terminal.run("cancel", "a").code == 0
    assert got(empty.ask("/jobs/a/logs?attempt=1")) == b"first\n", "its result is kept"
    other = empty.terminal.submit("a")
    empty.terminal.bench.run("a")
    assert other != uid
    assert got(empty.ask(f"/jobs/a/logs?attempt=1&uid={uid}")) == b"first\n"
    code, error = empty.error(f"/jobs/a/logs?attempt=2&uid={uid}")
    assert code == 404 and "the store has no output of it" in error["error"]


def test_pieces_of_the_store_lead_on_in_the_store(
    empty: Fleet, uid: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log_pieces, "PIECE_MAX_BYTES", 1000)
    text = b"".join(b"%07d\n" % number for number in range(400))
    uploaded(empty, uid, text)
    ended_here(empty)
    found = pieces(empty, "/jobs/a/logs")
    first = next(found)
    output_of(empty, uid).write_bytes(b"the host has it again\n")
    assert first + b"".join(found) == text


def test_a_client_within_the_files_of_a_host_is_told_that_they_are_gone(empty: Fleet, uid: str) -> None:
    """Where it was in the output can't be found in what was uploaded: nothing is given twice."""
    uploaded(empty, uid, b"from the store\n")
    ended_on_b(empty, None)
    code, error = empty.error(f"/jobs/a/logs?uid={uid}&attempt=1&offset=1.0123456789ab.5")
    assert code == 421 and "the store" not in error["error"]


def test_since_is_by_the_time_at_which_it_was_written(empty: Fleet, uid: str) -> None:
    """It may be uploaded days later, when a host is back."""
    now_s = time.time()
    uploaded(empty, uid, b"old\n", 1, now_s - 7200)
    uploaded(empty, uid, b"new\n", 2, now_s - 60)
    ended_here(empty, 2)
    assert got(empty.ask("/jobs/a/logs?attempt=1&since=1h")) == b""
    assert got(empty.ask("/jobs/a/logs?attempt=2&since=1h")) == b"new\n"


def test_a_store_that_does_not_answer_hides_nothing_else(
    empty: Fleet, uid: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def down(*_: object) -> None:
        raise Unreachable("it is down")

    monkeypatch.setattr(log_pieces, "find_stored", down)
    ended_on_b(empty, None)
    code, error = empty.error("/jobs/a/logs")
    assert code == 421 and "ran on host-b" in error["error"]
    assert "the store can't be asked for it (it is down)" in error["error"]


ODD = {
    "no gzip": b"hunter2",
    "cut": gzip.compress(b"x" * 100_000)[:-9],
    "a bomb": gzip.compress(b"\0" * (16 * 2**20 + 1)),
    "broken within": gzip.compress(os.urandom(1000))[:500] + b"\0" * 300,
    "too large": b"\0" * (OBJECT_MAX_BYTES + 1),
}


@pytest.mark.parametrize("kind", ODD)
def test_what_no_supervisor_has_uploaded_is_not_given(empty: Fleet, uid: str, kind: str) -> None:
    store_of(empty).create(str(UploadedKey("a", uid, 1, 5)), ODD[kind])
    ended_here(empty)
    code, error = empty.error("/jobs/a/logs")
    assert code >= 400 and "is no output that a supervisor has uploaded" in error["error"]


ODD_PIECES = {
    "no gzip": (b"hunter2", 7),
    "a bomb": (gzip.compress(b"\0" * (2**20 + 1)), 2**20),
    "not what its key says": (gzip.compress(b"12"), 3),
    "too large": (b"\0" * (PIECE_OBJECT_MAX_BYTES + 1), 9),
}


@pytest.mark.parametrize("kind", ODD_PIECES)
def test_a_piece_that_no_supervisor_has_uploaded_is_not_given(empty: Fleet, uid: str, kind: str) -> None:
    data, size_bytes = ODD_PIECES[kind]
    piece = PieceKey(UploadedKey("a", uid, 1, 5), 1, size_bytes, "1f.0123456789ab.9")
    store_of(empty).create(str(piece), data)
    ended_here(empty)
    code, error = empty.error("/jobs/a/logs")
    assert code >= 400 and (
        "no output that a supervisor" in error["error"] or "larger than" in error["error"]
    )


def test_few_read_from_the_store_at_once_and_nobody_else_waits(
    empty: Fleet, uid: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    uploaded(empty, uid, b"x\n")
    ended_here(empty)
    hangs, begun = threading.Event(), threading.Semaphore(0)

    def slow(*_: object) -> None:
        begun.release()
        hangs.wait(30)

    monkeypatch.setattr(log_pieces, "find_stored", slow)
    threads = [
        threading.Thread(target=empty.ask, args=("/jobs/a/logs",)) for _ in range(log_pieces.FETCHERS_MAX)
    ]
    for thread in threads:
        thread.start()
        begun.acquire()
    assert empty.error("/jobs/a/logs")[0] == 503
    output_of(empty, uid).write_bytes(b"here\n")
    assert got(empty.ask("/jobs/a/logs")) == b"here\n"
    hangs.set()
    for thread in threads:
        thread.join()


def test_nothing_is_left_of_what_was_fetched(
    empty: Fleet, uid: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    before = set(os.listdir(tmp_path))
    uploaded(empty, uid, b"x\n")
    ended_here(empty)
    descriptors = len(os.listdir("/proc/self/fd"))
    for _ in range(3):
        assert got(empty.ask("/jobs/a/logs")) == b"x\n"
    assert set(os.listdir(tmp_path)) <= before | {"packed"}
    assert len(os.listdir("/proc/self/fd")) <= descriptors + 2, "one is kept"
