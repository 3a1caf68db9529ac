"""Runs one ZooKeeper session over kazoo's connection handler: it decides what is sent, when it is refused and
how the session ends.

``zookeeper.ZooClient`` calls it, and ``kazoo_connection`` calls back. kazoo does the wire format,
reconnecting and pings; ``kazoo.client`` is not used, because most of what it adds would have to be undone.
This module never retries a request, never makes a second session, and never queues a request for later:

* A request is taken only while connected, and leaves at once or not at all: kazoo would queue it, give up on
  it, and carry it out seconds later, on reconnecting. Whether its first byte may have left is known of every
  request, so "refused" and "outcome unknown" are never mixed up.
* A request without an answer for ``request_timeout_s`` ends the *connection*, if nothing at all was received
  meanwhile: answers come in order, so every later request hangs too. The session lives on, at another server.
  (Pings don't detect this: kazoo sends none while requests are being sent.)
* A lost session is lost for good: the thread ends. kazoo would go on with a new session within 14 ms,
  unnoticed.
* There is one thread. Answers, watches and ``on_link`` run in it: they may set events and send further
  requests; a call that blocks there costs the session.
"""

from __future__ import annotations

import contextlib
import socket
import threading
from collections import defaultdict, deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from itertools import takewhile
from typing import Any

from supervisor.clients.connect_failure import ConnectFailure
from supervisor.clients.kazoo_connection import Connection, Handler, run_callback
from supervisor.clients.kazoo_parts import (
    CloseInstance,
    ConnectionDropped,
    KazooException,
    KeeperState,
    SessionExpiredError,
    int_struct,
)
from supervisor.clock import boottime_s
from supervisor.model.zookeeper_access import OPEN_ACCESS, ZooKeeperAccess

FRAME_MAX_BYTES = 0xFFFFF - 1024  # jute.maxbuffer; beyond it the server just drops the connection
QUEUE_MAX = 10_000


class Link(StrEnum):
    """Says how the client is connected. ``LOST`` and ``CLOSED`` are final: make a new client. While
    ``SUSPENDED``, it is not connected, but the session may live."""

    CONNECTED = "connected"
    SUSPENDED = "suspended"
    LOST = "lost"
    CLOSED = "closed"


@dataclass(frozen=True)
class Session:
    """Holds a session as granted; ``timeout_s`` is the negotiated one. Any process that has id and password
    can resume or close it."""

    id: int
    password: bytes = field(repr=False)
    timeout_s: float


class Unanswered(Exception):
    """Means that there is no answer and there will be none. If ``sent`` is False, no byte of the request has
    left, and none will."""

    def __init__(self, reason: str, *, sent: bool) -> None:
        super().__init__(reason)
        self.sent = sent


class Reply:
    """Receives the answer to one request. ``then`` is called exactly once; times are CLOCK_BOOTTIME seconds.

    kazoo calls ``set`` and ``set_exception``, in the connection thread. Everything else that resolves a reply
    runs there too, except a refusal by ``submit``.
    """

    __slots__ = (
        "deadline_at_s",
        "error",
        "heard_at_s",
        "queued_at_s",
        "sent_at_s",
        "resolved",
        "value",
        "_then",
    )

    def __init__(self, then: Callable[[Reply], None]) -> None:
        self.value: Any = None
        self.error: Exception | None = None
        self.queued_at_s = self.deadline_at_s = self.sent_at_s = self.heard_at_s = 0.0
        self.resolved = False
        self._then = then

    def set(self, value: Any = None) -> None:
        self._resolve(value, None)

    def set_exception(self, error: Exception) -> None:
        known = isinstance(error, KazooException | Unanswered)
        self._resolve(None, error if known else Unanswered(f"the reply made no sense: {error}", sent=True))

    def _resolve(self, value: Any, error: Exception | None) -> None:
        if self.resolved:
            return
        self.resolved = True
        self.value, self.error, self.heard_at_s = value, error, boottime_s()
        run_callback(self._then, self)


class SessionLink:
    """Is the ``client`` that kazoo's ConnectionHandler works for; attributes with kazoo's names are its
    contract.

    ``hosts`` are (host, port) pairs. ``resume`` is the id and the password of a session to take over instead
    of making one.
    """

    def __init__(
        self,
        hosts: Sequence[tuple[str, int]],
        session_timeout_s: float,
        request_timeout_s: float,
        on_link: Callable[[Link], None],
        resume: tuple[int, bytes] | None,
        access: ZooKeeperAccess = OPEN_ACCESS,
    ) -> None:
        self.access = access
        self.request_timeout_s = request_timeout_s
        self.link = Link.SUSPENDED
        self.connections = 0  # that were made so far; the present one has this number
        self.session: Session | None = None
        self.last_success_at_s = 0.0
        self.heard_at_s = 0.0
        self.failure: ConnectFailure | None = None  # why no server could be used in the newest round
        self._round_failure: ConnectFailure | None = None  # as failure, of the round under way
        self._on_link = on_link
        self._changed = threading.Condition()
        self._closing = False
        self._session_closed = False
        self._waiting: deque[tuple[bytes, Any, Reply | None]] = deque()
        self._thread_id: int | None = None
        self._speak_for_kazoo(hosts, session_timeout_s, resume)

    def _speak_for_kazoo(
        self, hosts: Sequence[tuple[str, int]], session_timeout_s: float, resume: tuple[int, bytes] | None
    ) -> None:
        self.hosts = list(hosts)
        self.randomize_hosts = True
        self.chroot = ""
        self.read_only = self.use_ssl = self.verify_certs = self.check_hostname = False
        self.certfile = self.keyfile = self.keyfile_password = self.ca = None
        self.auth_data: tuple[tuple[str, str], ...] = ()
        self.last_zxid = 0  # what the next handshake will claim to have seen: kazoo's
        # what the latest answer carried: it stays what it was while there is no connection
        self.answered_zxid = 0
        self._session_id: int | None = resume[0] if resume else None
        self._session_passwd = resume[1] if resume else bytes(16)
        self._session_timeout = int(session_timeout_s * 1000)
        self._stopped = threading.Event()
        self._pending: deque[tuple[Any, Reply | None, int]] = deque()
        self._data_watchers: defaultdict[str, set[Callable[[], None]]] = defaultdict(set)
        self._child_watchers: defaultdict[str, set[Callable[[], None]]] = defaultdict(set)
        self._state = KeeperState.CLOSED
        self.handler = Handler(self)
        self._connection = Connection(self)

    # -- what the client does --------------------------------------------------------------------------------------

    def start(self) -> None:
        """Starts the thread, which connects for ever, with pauses of at most about a second."""
        with self._changed:
            if self._thread_id is not None or self._stopped.is_set():
                return
            self._thread_id = -1
            self._connection.start()
            self._connection._write_sock.setblocking(False)
            self._connection._read_sock.setblocking(False)

    def wait(self, timeout_s: float) -> Link:
        """Returns the link after at most ``timeout_s``, and earlier as soon as it is anything but SUSPENDED, or
        somebody must correct something before it can be (``failure``)."""
        self.refuse_own_thread()
        with self._changed:
            self._changed.wait_for(
                lambda: self.link is not Link.SUSPENDED or self.failure_to_correct() is not None, timeout_s
            )
            return self.link

    def failure_to_correct(self) -> ConnectFailure | None:
        """Returns why no server lets us in, if waiting does not help; None if it may."""
        return self.failure if self.failure is not None and self.failure.needs_correction else None

    def refuse_own_thread(self) -> None:
        """Raises RuntimeError in the connection thread: a blocking call from a callback would wait for
        itself."""
        if threading.get_ident() == self._thread_id:
            raise RuntimeError("a callback of the ZooKeeper session must not call anything that blocks")

    def submit(self, request: Any, frame: bytes, reply: Reply, connection: int | None = None) -> None:
        """Sends the request now. Raises Unanswered(sent=False) when there is no connection: nothing is kept
        for later.

        With ``connection`` it is sent only on the connection of that number.
        """
        with self._changed:
            if self.link is not Link.CONNECTED or self._closing:
                raise Unanswered(self._why_refused(), sent=False)
            if connection not in (None, self.connections):
                raise Unanswered(f"connection {connection} to ZooKeeper is gone", sent=False)
            if len(self._waiting) >= QUEUE_MAX:
                raise Unanswered(f"{QUEUE_MAX} requests are waiting already", sent=False)
            reply.queued_at_s = boottime_s()
            reply.deadline_at_s = reply.queued_at_s + self.request_timeout_s
            self._waiting.append((frame, request, reply))
            self._wake()

    def close(self, timeout_s: float) -> bool:
        """Closes the session if that is possible in time, and returns whether the session is known to be
        gone; in any case this client has ended after ``timeout_s``."""
        self.refuse_own_thread()
        with self._changed:
            self._closing = True
            if self.link is Link.CONNECTED:
                self._send_close()
            if self._thread_id is not None and self._session_id is not None:
                self._changed.wait_for(self._ended, timeout_s)
            in_time = self._session_closed or self._session_id is None or self.link is Link.LOST
        if not self._ended():
            self._abandon()
        return in_time

    def _abandon(self) -> None:
        """Leaves at once. The thread resolves what is outstanding, and ends; the session expires by
        itself."""
        self._stopped.set()
        self._move_to(Link.CLOSED)
        sock = self._connection._socket
        if sock is not None:
            with contextlib.suppress(OSError):
                sock.shutdown(socket.SHUT_RDWR)

    def _why_refused(self) -> str:
        if self.link is Link.LOST:
            return "the ZooKeeper session is lost"
        if self.link is Link.CLOSED or self._closing:
            return "the ZooKeeper client is closed"
        return "there is no connection to ZooKeeper"

    def _ended(self) -> bool:
        return self.link in (Link.LOST, Link.CLOSED)

    def _wake(self) -> None:
        # A full pipe is fine: the thread has bytes to read, and takes everything that waits.
        with contextlib.suppress(BlockingIOError):
            self._connection._write_sock.send(b"\0")

    def _send_close(self) -> None:
        self._waiting.append((_frame(CloseInstance), CloseInstance, None))
        self._wake()

    # -- what the connection thread does ---------------------------------------------------------------------------

    def unchroot(self, path: str) -> str:
        return path

    def _session_callback(self, state: str) -> None:
        """Handles every change of state, which kazoo reports here."""
        if state == KeeperState.CONNECTED_RO:
            raise ConnectionDropped("the node has no quorum and offered read-only service")
        if state == KeeperState.CONNECTED and self.access.uses_sasl:
            return  # kazoo says so before SASL: see announce_authenticated
        self._enter(state)

    def announce_authenticated(self) -> None:
        """Reports a connection on which SASL is done: only now it may be used."""
        self._enter(KeeperState.CONNECTED)

    def _enter(self, state: str) -> None:
        with self._changed:
            self._state = state
        if state == KeeperState.CONNECTED:
            self._move_to(Link.CONNECTED)
        elif state == KeeperState.CONNECTING:
            self._move_to(Link.SUSPENDED)
            self._drain("the connection to ZooKeeper was lost")
        else:
            self._stopped.set()  # or kazoo would go on with a new session
            self._move_to(Link.CLOSED if state == KeeperState.CLOSED and self._closing else Link.LOST)
            self._drain("the ZooKeeper session has ended")

    def note_failure(self, failure: ConnectFailure) -> None:
        """Notes why one server could not be used, for the end of the round. What a person must correct counts more
        than what may pass."""
        before = self._round_failure
        if before is None or failure.needs_correction or not before.needs_correction:
            self._round_failure = failure

    def end_round(self) -> bool:
        """Reports that no server could be used in this round. Returns whether somebody must correct something."""
        with self._changed:
            self.failure, self._round_failure = self._round_failure, None
            self._changed.notify_all()
            return self.failure_to_correct() is not None

    def granted(self, asked_at_s: float, connect: Any, granted: Any) -> None:
        """Handles the server's answer to Connect. Raises SessionExpiredError for another session than the one
        asked for."""
        if granted.time_out <= 0:
            return  # kazoo sees to it
        if self._session_id and granted.session_id != connect.session_id:
            raise SessionExpiredError("the server answered with another session")
        self.session = Session(granted.session_id, granted.passwd, granted.time_out / 1000.0)
        self.last_success_at_s, self.heard_at_s = asked_at_s, boottime_s()

    def _move_to(self, link: Link) -> None:
        with self._changed:
            if self._ended() or link is self.link:
                return
            self.link = link
            if link is Link.CONNECTED:
                self.connections += 1
                self.failure = self._round_failure = None
            if link is Link.CONNECTED and self._closing:
                self._send_close()
            self._changed.notify_all()
        run_callback(self._on_link, link)

    def _drain(self, reason: str) -> None:
        with self._changed:
            outstanding = [(reply, True) for _, reply, _ in self._pending]
            outstanding += [(reply, False) for _, _, reply in self._waiting]
            self._pending.clear()
            self._waiting.clear()
        watches = set().union(*self._data_watchers.values(), *self._child_watchers.values())
        self._data_watchers.clear()
        self._child_watchers.clear()
        for reply, sent in outstanding:
            if reply is not None:
                reply.set_exception(Unanswered(reason, sent=sent))
        for watch in watches:  # the server forgets them with the connection, and kazoo can't set them again
            run_callback(watch)

    def take_waiting(self) -> Iterator[tuple[bytes, Any, Reply | None]]:
        """Yields what is to be sent now, in order. A request that waited longer than its time is dropped
        here, unsent."""
        while True:
            with self._changed:
                if not self._waiting:
                    return
                frame, request, reply = self._waiting.popleft()
            if reply is None or reply.deadline_at_s > boottime_s():
                yield frame, request, reply
            else:
                reply.set_exception(Unanswered("it could not be sent in time", sent=False))

    def has_waiting(self) -> bool:
        return bool(self._waiting)

    def answered(self, reply: Reply) -> None:
        """Notes that a reply was read. The caller's own deadlines count from the ``sent_at_s`` of the newest
        request that was answered."""
        self.last_success_at_s = max(self.last_success_at_s, reply.sent_at_s)

    def next_deadline_at_s(self) -> float | None:
        for _, reply, _ in self._pending:
            if reply is not None and not reply.resolved:
                return reply.deadline_at_s
        return None

    def resolve_overdue(self) -> None:
        """Resolves what has waited too long. Raises ConnectionDropped when nothing was received since it was
        sent."""
        now_s, reason = boottime_s(), f"no answer within {self.request_timeout_s:g} s"
        first_at_s = self.next_deadline_at_s()
        if first_at_s is None or first_at_s > now_s:
            return
        outstanding = [reply for _, reply, _ in self._pending if reply is not None and not reply.resolved]
        overdue = list(takewhile(lambda reply: reply.deadline_at_s <= now_s, outstanding))
        if any(self.heard_at_s < reply.sent_at_s for reply in overdue):
            raise ConnectionDropped(reason)  # that settles them, after the link was suspended
        for reply in overdue:
            reply.set_exception(Unanswered(reason, sent=True))

    def timeout_s(self) -> float:
        """Returns the session time: as negotiated, or as asked for."""
        return self.session.timeout_s if self.session is not None else self._session_timeout / 1000.0

    def ping_is_out(self) -> bool:
        return bool(self._connection.ping_outstanding.is_set())

    def session_closed(self) -> None:
        self._session_closed = True


def _frame(request: Any) -> bytes:
    """Returns type and body of a request as on the wire, without length and xid."""
    return bytes(int_struct.pack(request.type) + request.serialize())
