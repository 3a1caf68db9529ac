"""Keeps the newest events of ``api.events``, each with an id, so that who lost the connection goes on where it was. It is
pure.

An id has the name of the watch and the number of the event in it. The name is drawn anew whenever the cluster begins to be
watched, so that an id of another supervisor, or of before a pause in which nobody watched, is never taken for one of these.
"""

from __future__ import annotations

import json
import re
from collections import deque
from collections.abc import Iterable, Mapping
from typing import Any, Final, NamedTuple

RING_MAX: Final = 1000
"""So many events are kept."""
TAKEN_MAX: Final = 100
"""So many are given at once."""
BEGIN, MISSED, MANY = "begin", "missed", "many"
_ID: Final = re.compile(r"([0-9a-z]{1,32})-([0-9]{1,15})")


class ServerEvent(NamedTuple):
    """Is an event: ``kind`` is its name, ``data`` what it says, which JSON can have."""

    kind: str
    data: Mapping[str, Any]


class RingPosition(NamedTuple):
    """Says how far a client has come: it has the events of ``watch`` up to ``number``. Without a watch it has none;
    ``why`` is what it is told when it has to read everything."""

    watch: str = ""
    number: int = 0
    why: str = BEGIN


class EventRing:
    """Holds the events of one watch, the newest ``keeps`` of them."""

    def __init__(self, watch: str, keeps: int = RING_MAX) -> None:
        self.watch = watch
        self._last = 0
        self._kept: deque[tuple[int, ServerEvent]] = deque(maxlen=keeps)

    def add(self, events: Iterable[ServerEvent]) -> None:
        """Adds events, each with the next number."""
        for event in events:
            self._last += 1
            self._kept.append((self._last, event))

    def take(self, position: RingPosition, at_most: int = TAKEN_MAX) -> tuple[bytes, RingPosition]:
        """Returns what to send to who is at ``position``, and where it is then: the events after it, or one ``reset`` if
        they are not kept any more. It is empty if there is nothing new."""
        first = self._last - len(self._kept)
        if position.watch != self.watch or not first <= position.number <= self._last:
            now = RingPosition(self.watch, self._last, MISSED)
            return self._written(self._last, ServerEvent("reset", {"why": position.why})), now
        missing = self._last - position.number
        offset = len(self._kept) - missing
        found = [self._kept[offset + n] for n in range(min(missing, at_most))]
        sent = b"".join(self._written(number, event) for number, event in found)
        return sent, position._replace(number=position.number + len(found))

    def _written(self, number: int, event: ServerEvent) -> bytes:
        """Returns an event as it is sent. JSON in ASCII has no line ends of its own: no text can begin another event."""
        data = json.dumps(event.data, separators=(",", ":"))
        return f"event: {event.kind}\nid: {self.watch}-{number}\ndata: {data}\n\n".encode()


def position_of(last_id: str | None) -> RingPosition:
    """Returns the position of a client that sent ``last_id`` as Last-Event-ID. What is no id of ours counts as
    an old one."""
    if not last_id:
        return RingPosition()
    found = _ID.fullmatch(last_id)
    return RingPosition(found[1], int(found[2]), MISSED) if found else RingPosition(why=MISSED)
