"""Many reads in one request: what an answer on the wire means. Real servers answer them in ``test_zookeeper_client``."""

from __future__ import annotations

import struct

import pytest

from supervisor.clients import kazoo_parts as kazoo
from supervisor.clients.zookeeper_reads import MultiRead
from supervisor.model.transaction import Node, Stat

HEADER_OF_THE_REPLY = b"sixteen bytes ..."
END = struct.pack("!iBi", -1, 1, -1)
STAT = struct.pack("!qqqqiiiqiiq", 3, 4, 1000, 2500, 5, 0, 0, 6, 0, 7, 0)


def found(data: bytes | None) -> bytes:
    return struct.pack("!iBii", 4, 0, 0, -1 if data is None else len(data)) + (data or b"") + STAT


def failed(code: int) -> bytes:
    return struct.pack("!iBii", -1, 0, code, code)


def answered(*parts: bytes) -> list[Node | None | Exception]:
    request = MultiRead([f"/n{number}" for number in range(len(parts))])
    return request.deserialize(HEADER_OF_THE_REPLY + b"".join(parts) + END, len(HEADER_OF_THE_REPLY))


def test_each_read_is_answered_for_itself() -> None:
    stat = Stat(version=5, mzxid=4, czxid=3, ephemeral_owner=6, children=7, modified_at_s=2.5)
    node, empty, without, absent, denied, last = answered(
        found(b"data"),
        found(b""),
        found(None),
        failed(-101),
        failed(-102),
        found(b"\0" * 70_000),
    )
    assert (
        node == Node(b"data", stat)
        and empty == without == Node(b"", stat)
        and last == Node(b"\0" * 70_000, stat)
    )
    assert absent is None and isinstance(denied, kazoo.errors.NoAuthError)


def test_no_read_at_all_has_an_answer_too() -> None:
    assert answered() == []


@pytest.mark.parametrize("count", [1, 3])
def test_more_or_fewer_answers_than_questions_make_no_sense(count: int) -> None:
    with pytest.raises((ValueError, struct.error)):
        MultiRead(["/a", "/b"]).deserialize(found(b"x") * count + END, 0)


def test_a_question_names_each_path() -> None:
    asked = MultiRead(["/a", "/ü"]).serialize()
    one = struct.pack("!iBii", 4, 0, -1, 2) + b"/a\0"
    other = struct.pack("!iBii", 4, 0, -1, 3) + "/ü".encode() + b"\0"
    assert asked == one + other + END
