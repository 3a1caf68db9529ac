"""``/jobs/NAME/logs``: pieces and what follows them, where the output is, and what a request or a job may try."""

from __future__ import annotations

import json
import os
import re
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from supervisor.api import log_pieces
from supervisor.api.log_answers import LogAnswers
from supervisor.api.responses import ApiResponse, RequestQuery
from supervisor.errors import Unreachable
from supervisor.model.records import OwnState, with_entry
from tests.fakes.registry_bench import AT
from tests.unit.api.conftest import Fleet
from tests.unit.api.test_service import down


@pytest.fixture(autouse=True)
def fresh(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each request reads the records anew."""
    monkeypatch.setattr("supervisor.api.shared_reads.FRESH_S", 0.0)


@pytest.fixture
def uid(empty: Fleet) -> str:
    """The first attempt of the job ``a`` runs here."""
    uid = empty.terminal.submit("a")
    empty.terminal.bench.run("a")
    return uid


def output_of(fleet: Fleet, uid: str, attempt: int = 1) -> Path:
    path = fleet.terminal.home / "log" / "a" / f"{uid}.{attempt}.log"
    path.parent.mkdir(parents=True, exist_ok=True)
    return path


def following(response: ApiResponse) -> str | None:
    link = response.headers.get("Link")
    if link is None:
        return None
    found = re.fullmatch(r'</api/v1(/jobs/a/logs\?[^>]*)>; rel="next"', link)
    assert found, link
    return found[1]


def got(response: ApiResponse) -> bytes:
    assert response.code == 200, response.body
    assert response.kind == "text/plain; charset=utf-8"
    return response.body


def pieces(fleet: Fleet, path: str) -> Iterator[bytes]:
    target: str | None = path
    while target is not None:
        response = fleet.ask(target)
        yield got(response)
        target = following(response)


# -- pieces -----------------------------------------------------------------------------------------------------------


def test_the_bytes_are_as_the_driver_wrote_them(empty: Fleet, uid: str) -> None:
    wrote = b"gr\xc3\xbc\xc3\x9fe \xff \x1b[2J\n"
    output_of(empty, uid).write_bytes(wrote)
    response = empty.ask("/jobs/a/logs")
    assert got(response) == wrote and "Link" not in response.headers
    said = {key: value for key, value in response.headers.items() if key.startswith("Log-")}
    path = str(output_of(empty, uid))
    assert said == {"Log-Uid": uid, "Log-Attempt": "1", "Log-Path": path, "Log-Source": "host"}
    assert "ETag" not in response.headers, "nothing of it is kept"


def test_an_answer_is_bounded_and_names_the_next(empty: Fleet, uid: str) -> None:
    whole = b"".join(b"line %08d\n" % number for number in range(200_000))
    output_of(empty, uid).with_suffix(".log.1").write_bytes(whole[:2_000_000])
    output_of(empty, uid).write_bytes(whole[2_000_000:])
    got_pieces = list(pieces(empty, "/jobs/a/logs"))
    assert b"".join(got_pieces) == whole
    assert max(map(len, got_pieces)) == log_pieces.PIECE_MAX_BYTES and len(got_pieces) == 3
    assert b"".join(pieces(empty, "/jobs/a/logs?tail=99999")) == whole[-99_999 * 14 :]


def test_an_earlier_attempt_and_since(empty: Fleet, uid: str) -> None:
    output_of(empty, uid, 1).write_bytes(b"old\n")
    os.utime(output_of(empty, uid, 1), (1000, 1000))
    output_of(empty, uid, 2).write_bytes(b"new\n")
    empty.terminal.bench.set_own("a", OwnState.CLAIMED, attempt=2)
    assert got(empty.ask("/jobs/a/logs")) == b"new\n"
    assert got(empty.ask("/jobs/a/logs?since=10m")) == b"new\n"
    assert got(empty.ask("/jobs/a/logs?attempt=1")) == b"old\n"
    assert got(empty.ask("/jobs/a/logs?attempt=1&since=10m")) == b""


def test_head_has_the_same_headers(empty: Fleet, uid: str) -> None:
    output_of(empty, uid).write_bytes(b"x")
    assert empty.ask("/jobs/a/logs", "HEAD").headers == empty.ask("/jobs/a/logs").headers


# -- following --------------------------------------------------------------------------------------------------------


def test_following_goes_on_to_the_next_attempt_and_ends_with_the_job(empty: Fleet, uid: str) -> None:
    path = output_of(empty, uid)
    response = empty.ask("/jobs/a/logs?follow=job&tail=1")
    assert got(response) == b"" and "tail=1" in str(following(response)), "nothing was written yet"
    path.write_bytes(b"0\n1\n")
    response = empty.ask(str(following(response)))
    assert got(response) == b"1\n"
    os.replace(path, f"{path}.1")
    path.write_bytes(b"2\n")
    response = empty.ask(str(following(response)))
    assert got(response) == b"2\n" and "Log-Lost" not in response.headers
    response = empty.ask(str(following(response)))
    assert got(response) == b"" and following(response) is not None
    output_of(empty, uid, 2).write_bytes(b"second\n")
    empty.terminal.bench.set_own("a", OwnState.CLAIMED, attempt=2)
    with path.open("ab") as file:
        file.write(b"last words\n")
    response = empty.ask(str(following(response)))
    assert got(response) == b"last words\n"
    response = empty.ask(str(following(response)))
    assert got(response) == b"second\n" and response.headers["Log-Attempt"] == "2"
    assert empty.terminal.run("cancel", "a").code == 0
    response = empty.ask(str(following(response)))
    assert got(response) == b"" and following(response) is None


def test_following_one_attempt_ends_with_it(empty: Fleet, uid: str) -> None:
    output_of(empty, uid).write_bytes(b"1\n")
    response = empty.ask("/jobs/a/logs?follow=attempt&attempt=1")
    assert got(response) == b"1\n" and following(response) is not None
    empty.terminal.bench.set_own("a", OwnState.CLAIMED, attempt=2)
    response = empty.ask(str(following(response)))
    assert got(response) == b"" and following(response) is None


def test_what_is_followed_is_the_submission_that_was_asked_for(empty: Fleet, uid: str) -> None:
    output_of(empty, uid).write_bytes(b"1\n")
    first = empty.ask("/jobs/a/logs?follow=job")
    assert empty.terminal.run("cancel", "a").code == 0
    again = empty.terminal.submit("a")
    empty.terminal.bench.run("a")
    output_of(empty, again).write_bytes(b"another\n")
    response = empty.ask(str(following(first)))
    assert got(response) == b"" and following(response) is None
    assert got(empty.ask("/jobs/a/logs")) == b"another\n"


def test_while_zookeeper_is_away_the_output_still_comes(
    empty: Fleet, uid: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    output_of(empty, uid).write_bytes(b"1\n")
    first = empty.ask("/jobs/a/logs?follow=job")
    with monkeypatch.context() as patch:
        down(empty, patch)
        assert empty.ask("/jobs/a/logs").code == 503
        output_of(empty, uid).write_bytes(b"1\n2\n")
        response = empty.ask(str(following(first)))
    assert got(response) == b"2\n" and following(response) is not None


def test_what_was_rotated_away_is_said(empty: Fleet, uid: str) -> None:
    output_of(empty, uid).write_bytes(b"1\n")
    first = empty.ask("/jobs/a/logs?follow=job")
    output_of(empty, uid).write_bytes(b"new\n")
    response = empty.ask(str(following(first)))
    assert got(response) == b"new\n" and response.headers["Log-Lost"] == "true"


# -- where it is ------------------------------------------------------------------------------------------------------


def elsewhere(
    fleet: Fleet, host: str = "host-b.example", log_dir: str = "/var/log/there", api: str = ""
) -> None:
    """``host-b`` runs the job now."""
    bench = fleet.terminal.bench
    bench.join("host-b", host=host, log_dir=log_dir, api=api)
    bench.set_own("a", OwnState.CLAIMED, attempt=2, supervisor="host-b", host=host)


def test_another_host_is_named_with_the_address_of_its_api(empty: Fleet, uid: str) -> None:
    elsewhere(empty, api="https://host-b.example:8781")
    code, error = empty.error("/jobs/a/logs")
    assert code == 421
    assert (error["host"], error["server"]) == ("host-b.example", "https://host-b.example:8781")
    assert error["exit_code"] == 1
    for words in (
        "attempt 2 of a runs on host-b.example",
        f"/var/log/there/a/{uid}.2.log",
        "ssh host-b.example spark-supervisor logs a --attempt 2",
        "spark-supervisor logs a --attempt 2 --server https://host-b.example:8781",
    ):
        assert words in error["error"], words


def test_an_address_in_a_record_is_one_word_of_the_command_that_is_shown(empty: Fleet, uid: str) -> None:
    elsewhere(empty, api="https://host-b:1; touch /tmp/x")
    _, error = empty.error("/jobs/a/logs")
    assert "--server 'https://host-b:1; touch /tmp/x'" in error["error"]


def test_another_host_without_an_api_and_one_that_is_down(empty: Fleet, uid: str) -> None:
    elsewhere(empty)
    code, error = empty.error("/jobs/a/logs?follow=job")
    assert (code, error["host"], error["server"]) == (421, "host-b.example", None)
    history = with_entry((), AT, "claimed", 1, "host-z")
    empty.terminal.bench.set_own("a", OwnState.CLAIMED, attempt=2, history=history)
    code, error = empty.error("/jobs/a/logs?attempt=1")
    assert (code, error["host"], error["server"]) == (421, None, None) and "ran on host-z" in error["error"]


def test_a_follow_waits_for_a_host_that_is_down_and_then_goes_on_without_it(empty: Fleet, uid: str) -> None:
    elsewhere(empty, api="https://host-b.example:8781")
    bench, cursor = empty.terminal.bench, f"1.{'0' * 12}.7"
    there = f"/jobs/a/logs?uid={uid}&attempt=2&follow=job&offset={cursor}"
    assert empty.ask(there).code == 421
    bench.zoo.remove(bench.layout.supervisor("host-b"))
    for follow in ("attempt", "job"):
        response = empty.ask(there.replace("=job", f"={follow}"))
        assert got(response) == b"" and "Log-Lost" not in response.headers
        assert cursor in str(following(response)), "nothing is read twice"
    history = with_entry((), AT, "claimed", 2, "host-b")
    output_of(empty, uid, 3).write_bytes(b"third\n")
    bench.set_own("a", OwnState.CLAIMED, attempt=3, history=history)
    assert empty.ask(there.replace("=job", "=attempt")).code == 421
    response = empty.ask(there)
    assert got(response) == b"" and response.headers["Log-Lost"] == "true"
    response = empty.ask(str(following(response)))
    assert got(response) == b"third\n" and response.headers["Log-Attempt"] == "3"


def test_another_supervisor_of_this_host_is_asked_itself(empty: Fleet, uid: str, tmp_path: Path) -> None:
    """What a record names as its directory is not read: it could be any."""
    other = tmp_path / "other" / "a"
    other.mkdir(parents=True)
    (other / f"{uid}.2.log").write_text("not ours")
    elsewhere(empty, socket.gethostname(), str(other.parent), "https://localhost:1")
    code, error = empty.error("/jobs/a/logs")
    assert (code, error["server"]) == (421, "https://localhost:1")


def test_what_lies_here_is_given_whoever_ran_it(empty: Fleet, uid: str) -> None:
    elsewhere(empty)
    output_of(empty, uid, 2).write_bytes(b"a directory that hosts share\n")
    assert got(empty.ask("/jobs/a/logs")) == b"a directory that hosts share\n"


def test_nothing_is_there(empty: Fleet) -> None:
    empty.terminal.submit("a")
    code, error = empty.error("/jobs/a/logs")
    assert (code, error["exit_code"]) == (404, 1) and "has had no attempt yet" in error["error"]
    empty.terminal.bench.run("a")
    code, error = empty.error("/jobs/a/logs")
    assert code == 404 and "has written nothing yet" in error["error"]
    code, error = empty.error("/jobs/a/logs?uid=0123456789ab-01234567&attempt=1")
    assert code == 404 and "no output of the submission" in error["error"]
    assert empty.error("/jobs/nobody/logs")[0] == 404


# -- what is wrong ----------------------------------------------------------------------------------------------------

WRONG = (
    "attempt=0",
    "attempt=-1",
    "attempt=1e3",
    "attempt=1&attempt=2",
    "uid=..",
    "uid=../../etc",
    "uid=a%2fb",
    "uid=A",
    "tail=-1",
    "tail=100000",
    "tail=x",
    "since=10",
    "since=-1m",
    "since=9999999999d",
    "offset=1",
    "offset=1.0123456789ab.5",
    "uid=a&attempt=1&offset=1.0123456789ab.5&tail=1",
    "uid=a&attempt=1&offset=../../x",
    "follow=true",
    "host=b",
)


@pytest.mark.parametrize("query", WRONG)
def test_what_is_no_request(empty: Fleet, uid: str, query: str) -> None:
    code, error = empty.error(f"/jobs/a/logs?{query}")
    assert (code, error["exit_code"]) == (400, 2), error


def test_a_cursor_of_somebody_else_leads_to_no_other_file(empty: Fleet, uid: str, tmp_path: Path) -> None:
    output_of(empty, uid).write_bytes(b"ours\n")
    other = tmp_path / "secret"
    other.write_bytes(b"hunter2\n")
    cursor = f"{other.stat().st_ino:x}.e3b0c44298fc.0"
    response = empty.ask(f"/jobs/a/logs?uid={uid}&attempt=1&offset={cursor}")
    assert got(response) == b"ours\n" and response.headers["Log-Lost"] == "true"


@pytest.mark.parametrize("rotated", ["", ".1"])
def test_a_link_to_a_file_of_the_supervisor_is_not_followed(
    empty: Fleet, uid: str, rotated: str, tmp_path: Path
) -> None:
    secret = tmp_path / "token"
    secret.write_text("hunter2")
    output_of(empty, uid).write_text("fine\n")
    link = Path(f"{output_of(empty, uid)}{rotated}")
    link.unlink(missing_ok=True)
    link.symlink_to(secret)
    code, error = empty.error("/jobs/a/logs")
    assert code == 500 and "is not read" in error["error"] and "hunter2" not in json.dumps(error)


def test_a_fifo_does_not_hold_the_server_up(empty: Fleet, uid: str) -> None:
    os.mkfifo(output_of(empty, uid))
    code, error = empty.error("/jobs/a/logs")
    assert code == 500 and "no regular file" in error["error"]


def test_readers_are_few(empty: Fleet, uid: str) -> None:
    output_of(empty, uid).write_text("x")
    answers = LogAnswers(empty.reads, empty.terminal.home / "log")
    for _ in range(log_pieces.READERS_MAX):
        assert answers._pieces._readers.acquire(blocking=False)
    with pytest.raises(Unreachable, match="too many requests"):
        answers.answer(RequestQuery({}), "a")


def test_a_reader_that_fails_makes_room(empty: Fleet, uid: str) -> None:
    os.mkfifo(output_of(empty, uid))
    for _ in range(log_pieces.READERS_MAX + 1):
        assert empty.error("/jobs/a/logs")[0] == 500
