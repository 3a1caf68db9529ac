"""The shim's link: what it asks of ZooKeeper, and what it tells of the answer."""

from __future__ import annotations

import queue
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from supervisor.clients.zookeeper import Committed, Link, Session, ZooClient
from supervisor.errors import (
    AccessDenied,
    Conflict,
    GuardFailed,
    NotSent,
    OutcomeUnknown,
    SupervisorError,
    Unreachable,
)
from supervisor.model.launch import Launch
from supervisor.model.records import Assignment, BlobRef
from supervisor.model.seen import Found, Unreadable
from supervisor.model.transaction import Check, Create, Node, Op, Reads, SetData, Stat, Transaction
from supervisor.records.codec import encode
from supervisor.records.layout import Layout
from supervisor.shim import link as module
from supervisor.shim import state as shim
from supervisor.shim.link import FIRST_CONNECTION, RegistryLink
from tests.unit.shim.world import ASSIGNED

ENTRY = Assignment(
    name="j",
    uid="u",
    attempt=1,
    revision=1,
    job_version=0,
    own_version=0,
    spec=BlobRef(key="k", sha256="0", bytes=1),
    memory=1,
)
LAUNCH = Launch(
    cluster="t",
    hosts="h:1",
    root="/r",
    session_timeout_s=6.0,
    supervisor="s",
    host="h",
    assignment=ENTRY,
    lease_s=12.0,
    stop_grace_s=5.0,
    start_timeout_s=60.0,
    stall_timeout_s=60.0,
    unbounded=True,
    reports=True,
    argv=("true",),
    env={},
    cwd="/",
    log_path="/log",
)


class Watched:
    """Keeps watches as the client does: in a set, until they fire."""

    def __init__(self, *args: Any, **options: Any) -> None:
        self.watches: set[Callable[[], None]] = set()

    def start(self) -> None: ...
    def sync(self) -> None: ...

    def read(self, path: str, watch: Callable[[], None]) -> Node:
        self.watches.add(watch)
        return Node(b"{not json", Stat(1, 1, 1, 0, 0, 0))

    def read_many(self, paths: Sequence[str]) -> Reads:
        return Reads(tuple(None for _ in paths), 0.0, 0.0)


def test_an_unreadable_record_is_watched_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "ZooClient", Watched)
    reported: list[shim.Event] = []
    link = RegistryLink(LAUNCH, Layout("/r"), reported.append, lambda _line: None)
    for token in range(100):
        assert isinstance(link._read(token), shim.OwnRead)
    client: ZooClient | Watched = link._client
    assert isinstance(client, Watched)
    (watch,) = client.watches
    watch()
    assert reported == [shim.OwnChanged()]


LAYOUT = Layout("/r")
OWN = LAYOUT.own("j")
OPS: tuple[Op, ...] = (
    Check("/r/job", 1),
    SetData(LAYOUT.lease("j"), b"", 4),
    SetData(OWN, b"", 8),
    Create("/r/live", b""),
)
TX = Transaction("claim", "op-1", OPS)


class Client:
    """Does as it is told: ``answer`` to a commit, ``node`` at /own, ``down``: no read is answered."""

    made: list[Client] = []

    def __init__(self, *_hosts: Any, on_link: Callable[[Link], None], **_times: Any) -> None:
        self.on_link, self.asked, self.closed = on_link, list[Any](), False
        self.session: Session | None = None
        self.answer: Committed | Exception = Committed(12.5, (None, 5, 9, 0))
        self.node: Node | None = None
        self.down = False
        self.made.append(self)

    def start(self) -> None: ...

    def close(self, timeout_s: float = 2.0) -> bool:
        self.closed = True
        self.on_link(Link.CLOSED)
        return True

    def sync(self) -> None:
        self._ask("sync")

    def read(self, path: str, watch: Callable[[], None] | None = None) -> Node | None:
        self._ask(path)
        return self.node

    def read_many(self, paths: Sequence[str]) -> Reads:
        self._ask("leases")
        return Reads(tuple(None for _ in paths), 0.0, 0.0)

    def commit(self, tx: Transaction, connection: int | None = None) -> Committed:
        self.asked.append(connection)
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer

    def connect(self, session: int) -> None:
        self.session = Session(session, b"%d" % session, 6.0)
        self.on_link(Link.CONNECTED)

    def _ask(self, what: str) -> None:
        if self.down:
            raise Unreachable("down")
        self.asked.append(what)


def made(monkeypatch: pytest.MonkeyPatch) -> tuple[RegistryLink, Client, queue.SimpleQueue[shim.Event]]:
    monkeypatch.setattr(module, "ZooClient", Client)
    Client.made = []
    reported: queue.SimpleQueue[shim.Event] = queue.SimpleQueue()
    link = RegistryLink(LAUNCH, LAYOUT, reported.put, lambda *_line, **_fields: None)
    return link, Client.made[0], reported


def heard(reported: queue.SimpleQueue[shim.Event]) -> list[shim.Event]:
    return [reported.get() for _ in range(reported.qsize())]


def test_a_deadline_counts_from_the_sending_and_the_fence_is_the_version_of_own(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    link, _, reported = made(monkeypatch)
    link._do(shim.Commit(TX))
    assert heard(reported) == [shim.WriteCommitted("op-1", 12.5, 9)]


def test_what_is_for_the_first_connection_goes_out_on_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    link, client, _ = made(monkeypatch)
    link._do(shim.Commit(TX, first=True))
    link._do(shim.Commit(TX))
    assert client.asked == [FIRST_CONNECTION, None]


@pytest.mark.parametrize(
    ("error", "event"),
    [
        (OutcomeUnknown("cut"), shim.WriteOutcomeUnknown("op-1")),
        (NotSent("suspended"), shim.WriteNotSent("op-1")),
        (AccessDenied("acl"), shim.WriteNotSent("op-1")),
        (Conflict("strange"), shim.WriteRejected("op-1", "", "unknown")),
        (GuardFailed(OWN, "bad_version", 2), shim.WriteRejected("op-1", OWN, "bad_version")),
    ],
)
def test_each_failure_of_a_write_is_told_as_what_it_is(
    monkeypatch: pytest.MonkeyPatch,
    error: SupervisorError,
    event: shim.Event,
) -> None:
    link, client, reported = made(monkeypatch)
    client.answer = error
    link._do(shim.Commit(TX))
    assert heard(reported) == [event]


def test_a_defect_leaves_no_request_unanswered_and_no_write_for_not_sent(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    link, client, reported = made(monkeypatch)
    client.answer = KeyError("a defect")
    link.start()
    link.submit(shim.Commit(TX))
    assert reported.get(timeout=10) == shim.WriteOutcomeUnknown("op-1")
    link.close(1.0)


def test_what_is_read_is_read_after_a_sync(monkeypatch: pytest.MonkeyPatch) -> None:
    """A server that lags would show what was before the write that is to be settled."""
    link, client, reported = made(monkeypatch)
    link._do(shim.Read(3))
    assert client.asked == ["sync", OWN, "leases"]
    assert heard(reported) == [shim.OwnRead(3, None)]


def test_what_could_not_be_read_is_neither_absent_nor_unreadable(monkeypatch: pytest.MonkeyPatch) -> None:
    link, client, reported = made(monkeypatch)
    client.down = True
    link._do(shim.Read(3))
    client.down, client.node = False, Node(b"{torn", Stat(7, 70))
    link._do(shim.Read(4))
    client.node = Node(encode(ASSIGNED), Stat(8, 80))
    link._do(shim.Read(5))
    failed, unreadable, found = heard(reported)
    assert failed == shim.ReadFailed(3)
    assert isinstance(unreadable, shim.OwnRead) and unreadable.token == 4
    assert isinstance(unreadable.own, Unreadable) and unreadable.own.version == 7
    assert found == shim.OwnRead(5, Found(ASSIGNED, 8, 80))


def test_a_suspended_session_is_not_lost_and_a_lost_one_is(monkeypatch: pytest.MonkeyPatch) -> None:
    _, client, reported = made(monkeypatch)
    client.connect(7)
    client.on_link(Link.SUSPENDED)
    client.on_link(Link.LOST)
    assert heard(reported) == [shim.Connected(7), shim.Disconnected(), shim.SessionLost()]


def test_of_a_client_that_was_replaced_nothing_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not even that it was closed, which would be taken for the end of the new session."""
    link, old, reported = made(monkeypatch)
    link._do(shim.NewClient())
    _, new = Client.made
    assert old.closed
    new.connect(8)
    old.connect(7)
    old.on_link(Link.LOST)
    assert heard(reported) == [shim.Connected(8)]


def test_a_session_is_told_closed_when_it_was_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    closed: list[tuple[int, bytes]] = []

    def close(_hosts: str, session: int, password: bytes, _timeout_s: float, _access: object) -> None:
        if session == 7:
            raise Unreachable("down")
        closed.append((session, password))

    link, client, reported = made(monkeypatch)
    monkeypatch.setattr(module, "close_session", close)
    client.connect(7)
    client.connect(8)
    heard(reported)
    for session in (7, 8, 9):  # 9: nobody knows its password
        link._do(shim.CloseSession(session))
    assert heard(reported) == [shim.CloseFailed(), shim.SessionClosed(), shim.CloseFailed()]
    assert closed == [(8, b"8")]


def test_the_newest_sessions_can_be_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    link, client, reported = made(monkeypatch)
    monkeypatch.setattr(module, "close_session", lambda *_session: None)
    for session in range(40):
        client.connect(session)
    heard(reported)
    link._do(shim.CloseSession(39))
    assert heard(reported) == [shim.SessionClosed()] and len(link._passwords) < 40
