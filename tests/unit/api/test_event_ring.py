"""``api.event_ring``: each event is given once and in order, or the client is told to read everything. Hypothesis draws when the
cluster changes, when the client takes, and when it loses the connection, or the supervisor its watch."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from supervisor.api.event_ring import BEGIN, MISSED, EventRing, RingPosition, ServerEvent, position_of


def parsed(data: bytes) -> list[dict[str, Any]]:
    """Events as a client parses them: by the lines of the protocol, with nothing that it does not know."""
    found = []
    for block in data.decode("ascii").split("\n\n")[:-1]:
        if block.startswith(":"):
            continue
        lines = dict(line.split(": ", 1) for line in block.split("\n"))
        assert set(lines) == {"event", "id", "data"}
        found.append({**lines, "data": json.loads(lines["data"])})
    return found


@dataclass
class Client:
    """Keeps what it has got since it last had to read everything, and the id of the latest."""

    position: RingPosition = RingPosition()
    last_id: str | None = None
    numbers: list[int] = field(default_factory=list)
    known_from: int = 0
    """It knows everything up to this event without having got it: it has read it."""

    def take(self, ring: EventRing, happened: int, at_most: int) -> None:
        data, self.position = ring.take(self.position, at_most)
        for event in parsed(data):
            self.last_id = event["id"]
            if event["event"] == "reset":
                self.numbers, self.known_from = [], happened  # it reads everything now
            else:
                self.numbers.append(event["data"]["n"])

    def reconnect(self) -> None:
        self.position = position_of(self.last_id)


STEPS = st.one_of(
    st.tuples(st.just("add"), st.integers(1, 8)),
    st.tuples(st.just("take"), st.integers(1, 5)),
    st.tuples(st.just("reconnect"), st.just(0)),
    st.tuples(st.just("lose"), st.just(0)),
    st.tuples(st.just("restart"), st.just(0)),
)


@given(st.integers(1, 6), st.lists(STEPS, max_size=60))
def test_each_event_once_and_in_order_or_a_reset(keeps: int, steps: list[tuple[str, int]]) -> None:
    ring, watch, happened, client = EventRing("w0", keeps), 0, 0, Client()
    for step, count in steps:
        if step == "add":
            ring.add(ServerEvent("job", {"n": happened + n + 1}) for n in range(count))
            happened += count
        elif step == "take":
            client.take(ring, happened, count)
        elif step == "reconnect":
            client.reconnect()
        elif step == "lose":  # what was sent did not arrive: the id is that of the one before
            before = (client.last_id, client.numbers[:], client.known_from)
            client.take(ring, happened, 5)
            client.last_id, client.numbers, client.known_from = before
            client.reconnect()
        else:
            watch += 1
            ring = EventRing(f"w{watch}", keeps)
        assert client.numbers == list(
            range(client.known_from + 1, client.known_from + 1 + len(client.numbers))
        )
    for _ in range(keeps + 2):
        client.take(ring, happened, 5)
    assert client.known_from + len(client.numbers) == happened


def test_at_the_begin_everything_is_to_be_read() -> None:
    ring = EventRing("w")
    ring.add([ServerEvent("job", {})] * 3)
    data, position = ring.take(position_of(None))
    assert parsed(data) == [{"event": "reset", "id": "w-3", "data": {"why": BEGIN}}]
    assert ring.take(position) == (b"", position)


@pytest.mark.parametrize(
    "given_id", ["other-1", "w-4", "w-0", "w", "-", "w-x", "w-1\n", "é-1", "w-" + "9" * 400]
)
def test_an_id_that_is_not_kept_is_missed(given_id: str) -> None:
    ring = EventRing("w", keeps=2)
    ring.add([ServerEvent("job", {})] * 3)
    data, position = ring.take(position_of(given_id))
    assert parsed(data) == [{"event": "reset", "id": "w-3", "data": {"why": MISSED}}]
    assert ring.take(position)[0] == b""


def test_no_text_begins_an_event_of_its_own() -> None:
    ring = EventRing("w")
    hostile = "x\n\nevent: reset\ndata: {}\r\n\r\n\u2028\x00"
    ring.add([ServerEvent("job", {"reason": hostile})])
    (event,) = parsed(ring.take(RingPosition("w", 0))[0])
    assert event["event"] == "job" and event["data"]["reason"] == hostile
