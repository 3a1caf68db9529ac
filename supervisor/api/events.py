"""Tells clients what changes in the cluster while they listen: ``/api/v1/events``, as server-sent events.

One thread reads the list and the status again and again, with the readings that requests share (``api.shared_reads``), and
adds what has changed (``api.changes``) to a ring (``api.event_ring``), from which each stream takes what it has not sent.
It runs only while somebody listens, and ``LINGER_S`` longer, so that who was cut off misses nothing.

``daemon.process.api_server`` sends what a stream gives.
"""

from __future__ import annotations

import secrets
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final, TypeVar

from supervisor.api.changes import ClusterKnown, ClusterReading, changes, rows_by_name
from supervisor.api.event_ring import EventRing, RingPosition, position_of
from supervisor.api.readings import jobs_reading
from supervisor.api.shared_reads import SharedReads
from supervisor.clients.threads import BackgroundThread
from supervisor.clock import boottime_s, wall_iso
from supervisor.errors import SupervisorError, Unreachable
from supervisor.logs import get_logger
from supervisor.operations.cluster_status import StatusRequest

log = get_logger(__name__)

T = TypeVar("T")

STREAMS_MAX: Final = 12
"""So many may listen at once: half of the requests that the server answers at once are left for others."""
PERIOD_S: Final = 2.0
PERIOD_MAX_S: Final = 30.0
REST: Final = 5.0
"""A reading that takes long is for a large cluster: the time to the next is five times as long, ``PERIOD_MAX_S`` at most."""
LINGER_S: Final = 60.0
KEEP_ALIVE_S: Final = 15.0
STREAM_MAX_S: Final = 3600.0
"""A stream ends after this; the client goes on with the next, and shows its certificate again."""
WAKE_S: Final = 1.0
KEEP_ALIVE: Final = b": live\n\n"


class EventFeed:
    """Watches the cluster for those who listen. It may be used by many threads at once. ``read`` reads the cluster; it
    raises nothing but defects."""

    def __init__(self, read: Callable[[], ClusterReading]) -> None:
        self._read = read
        self._changed = threading.Condition()
        self._open = 0
        self._wanted_at_s = 0.0
        self._ring: EventRing | None = None
        """It is None until the cluster was read: who listens is told to read everything only after that."""
        self._is_watched = False
        self._is_closed = False

    @property
    def is_watched(self) -> bool:
        """Says whether the thread runs."""
        return self._is_watched

    def close(self) -> None:
        """Ends the streams and the thread; nobody waits for them."""
        with self._changed:
            self._is_closed = True
            self._changed.notify_all()

    @contextmanager
    def listen(self, last_id: str | None = None) -> Iterator[Iterator[bytes]]:
        """Yields a stream: pieces of bytes to send, of which an empty one comes about every second. ``last_id`` is the
        Last-Event-ID of the client. Raises Unreachable if too many listen."""
        self._enter()
        try:
            yield self._pieces(position_of(last_id))
        finally:
            with self._changed:
                self._open -= 1
                self._wanted_at_s = boottime_s()

    def _enter(self) -> None:
        with self._changed:
            if self._is_closed:
                raise Unreachable("this supervisor is stopping", "ask another one")
            if self._open >= STREAMS_MAX:
                raise Unreachable(
                    f"{STREAMS_MAX} clients listen already",
                    "ask for the documents with tags, or ask another supervisor",
                )
            if not self._is_watched:
                try:
                    BackgroundThread("api.events", self._watch).start()
                except RuntimeError:
                    raise Unreachable("no thread can be started", "try again in a moment") from None
                self._is_watched = True
            self._open += 1

    def _pieces(self, position: RingPosition) -> Iterator[bytes]:
        began_at_s = boottime_s()
        sent_at_s = began_at_s - KEEP_ALIVE_S  # who goes on is told at once that it does
        while (now_s := boottime_s()) - began_at_s < STREAM_MAX_S:
            taken = self._taken(position)
            if taken is None:
                return
            piece, position = taken
            if not piece and self._ring is not None and now_s - sent_at_s >= KEEP_ALIVE_S:
                piece = KEEP_ALIVE
            if piece:
                sent_at_s = now_s
            yield piece

    def _taken(self, position: RingPosition) -> tuple[bytes, RingPosition] | None:
        """Returns what is to be sent, for which it waits a second at most, or None if the supervisor stops."""
        with self._changed:
            piece = b""
            for wait_s in (WAKE_S, 0.0):
                if self._is_closed:
                    return None
                if self._ring is not None:
                    piece, position = self._ring.take(position)
                if piece or not wait_s:
                    break
                self._changed.wait(wait_s)
            return piece, position

    # -- the thread -----------------------------------------------------------------------------------------------

    def _watch(self) -> None:
        known: ClusterKnown | None = None
        while True:
            began_at_s = boottime_s()
            try:
                known = self._watch_once(known)
            except Exception:  # the edge of the loop: who listens reads everything anew
                log.exception("api_events_failed", next="whoever listens is told to read everything")
                with self._changed:
                    known, self._ring = None, None
            pause_s = min(PERIOD_MAX_S, max(PERIOD_S, REST * (boottime_s() - began_at_s)))
            if self._is_over(pause_s):
                return

    def _watch_once(self, known: ClusterKnown | None) -> ClusterKnown:
        seen = self._read()
        events = [] if known is None else changes(known, seen, wall_iso())
        with self._changed:
            if known is None or self._ring is None:
                self._ring = EventRing(secrets.token_hex(8))
            self._ring.add(events)
            self._changed.notify_all()
        return (known or ClusterKnown()).after(seen)

    def _is_over(self, pause_s: float) -> bool:
        """Waits until the next reading is due. Returns whether nobody has listened for ``LINGER_S``, or the supervisor
        stops; then the thread is forgotten."""
        with self._changed:
            self._changed.wait_for(lambda: self._is_closed, pause_s)
            is_left = not self._open and boottime_s() - self._wanted_at_s >= LINGER_S
            if not (is_left or self._is_closed):
                return False
            self._is_watched, self._ring = False, None
            return True


def read_cluster(reads: SharedReads) -> ClusterReading:
    """Reads the cluster, as requests do."""
    return ClusterReading(
        jobs=_unless_failed(lambda: rows_by_name(jobs_reading(every_uid=False).by(reads).rows)),
        status=_unless_failed(lambda: reads.read(StatusRequest())[0]),
    )


def _unless_failed(read: Callable[[], T]) -> T | None:
    try:
        return read()
    except SupervisorError:
        return None
