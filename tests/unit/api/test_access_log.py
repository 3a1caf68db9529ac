"""``api.access_log``: a line for each request, which is bounded, and in which nothing that a client sends is obeyed."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from structlog.testing import capture_logs

from supervisor.api.access_log import BURST, PER_S, AccessLog, AskedRequest, shown

READ = AskedRequest("grafana", "10.0.0.7", "GET", "/api/v1/jobs", 200, 0.0123, True, False)


class Clock:
    now_s = 0.0

    def __call__(self) -> float:
        return self.now_s


def logged_of(log: AccessLog, asked: AskedRequest, times: int = 1) -> list[Any]:
    with capture_logs() as events:
        for _ in range(times):
            log.note(asked)
    return events


def test_a_line_says_who_asked_for_what_and_what_came_of_it() -> None:
    assert logged_of(AccessLog(Clock()), READ) == [
        {
            "event": "api_request",
            "log_level": "info",
            "token": "grafana",
            "address": "10.0.0.7",
            "method": "GET",
            "path": "/api/v1/jobs",
            "status": 200,
            "duration_s": 0.012,
            "whole": True,
        }
    ]


def test_who_has_no_token_has_no_name() -> None:
    [line] = logged_of(AccessLog(Clock()), replace(READ, token="", status=401))
    assert (line["token"], line["status"]) == (None, 401)


@pytest.mark.parametrize(
    ("sent", "written"),
    [
        ("/x\x1b[31m", r"/x\x1b[31m"),
        ("/x\r\nlevel=error", r"/x\r\nlevel=error"),
        ("/\u202e\xe9", r"/\u202e\xe9"),
        ("/a" * 200, "/a" * 100),
        ("\x00" * 300, "\\x00" * 49 + "\\x0…"),
        ("/jobs?token=secret", "/jobs"),
    ],
)
def test_what_a_client_sends_is_escaped_and_bounded_and_its_query_left_out(sent: str, written: str) -> None:
    [line] = logged_of(AccessLog(Clock()), replace(READ, path=sent))
    assert line["path"] == written
    assert len(shown(sent, 200)) <= 200 and shown(sent, 200).isprintable()


def test_so_many_lines_and_no_more_and_the_rest_is_counted() -> None:
    clock = Clock()
    log = AccessLog(clock)
    assert len(logged_of(log, READ, BURST + 7)) == BURST
    clock.now_s += 1 / PER_S
    omitted, line = logged_of(log, READ)
    assert (omitted["event"], omitted["count"], line["event"]) == (
        "api_requests_not_logged",
        7,
        "api_request",
    )


def test_a_write_is_always_logged() -> None:
    log = AccessLog(Clock())
    logged_of(log, READ, BURST)
    assert logged_of(log, READ) == []
    events = logged_of(log, replace(READ, method="POST", is_write=True), 3)
    assert [event["event"] for event in events] == ["api_requests_not_logged", *["api_request"] * 3]
