"""``api.write_head``: what is refused by its headers, before a byte of the body is read."""

from __future__ import annotations

import json

import pytest

from supervisor.api.responses import ApiResponse
from supervisor.api.write_head import WriteHead, judge_write_head

GOOD = {"Content-Type": ["application/json"], "Content-Length": ["2"], "Idempotency-Key": ["k" * 16]}


def judged(**changes: list[str]) -> WriteHead | ApiResponse:
    headers = GOOD | {name.replace("_", "-"): values for name, values in changes.items()}
    return judge_write_head(lambda name: headers.get(name, []), 100)


def test_what_is_right_is_read() -> None:
    assert judged() == WriteHead(2, "k" * 16)
    assert judged(Content_Type=["Application/JSON; charset=utf-8"], Content_Length=["100"]) == WriteHead(
        100, "k" * 16
    )


@pytest.mark.parametrize(
    ("code", "name", "values"),
    [
        *(
            (415, "Content_Type", values)
            for values in ([], ["text/plain"], ["application/x-www-form-urlencoded"])
        ),
        (415, "Content_Type", ["multipart/form-data; boundary=x"]),
        (415, "Content_Type", ["application/json", "text/plain"]),
        *(
            (411, "Content_Length", [text])
            for text in ("", "-1", "+2", "2,2", "0x2", "2 2", "\u0662", "9" * 11)
        ),
        (411, "Content_Length", []),
        (411, "Content_Length", ["2", "3"]),
        (411, "Transfer_Encoding", ["chunked"]),
        (411, "Content_Encoding", ["gzip"]),
        (413, "Content_Length", ["101"]),
        *(
            (400, "Idempotency_Key", [text])
            for text in ("", "k" * 15, "k" * 65, "k" * 16 + "\x1b", "../" * 8)
        ),
        (400, "Idempotency_Key", []),
        (400, "Idempotency_Key", ["k" * 16, "l" * 16]),
    ],
)
def test_what_is_wrong_is_refused(code: int, name: str, values: list[str]) -> None:
    response = judged(**{name: values})
    assert isinstance(response, ApiResponse) and response.code == code
    document = json.loads(response.body)
    assert document["exit_code"] == 2 and document["remedy"]
