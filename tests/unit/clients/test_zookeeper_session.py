"""What a session tells of its requests: sent or not, and when. Without a server: the connection's events are played."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from supervisor.clients import kazoo_parts as kazoo
from supervisor.clients import zookeeper_session as module
from supervisor.clients.zookeeper_session import Link, Reply, SessionLink, Unanswered

REQUEST_S = 5.0


class Clock:
    """BOOTTIME that goes on by a second at each look."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        from supervisor.clients import kazoo_connection

        self.now_s = 100.0
        for each in (module, kazoo_connection):
            monkeypatch.setattr(each, "boottime_s", self.tick_s)

    def tick_s(self) -> float:
        self.now_s += 1.0
        return self.now_s


def link_of(session: int | None = None) -> SessionLink:
    made = SessionLink(
        [("localhost", 1)], 6.0, REQUEST_S, lambda _link: None, None if session is None else (session, b"p")
    )
    made._connection._write_sock = SimpleNamespace(send=lambda _data: 1)
    made._connection._read_sock = SimpleNamespace(recv=lambda _size: b"")
    return made


def connected() -> SessionLink:
    made = link_of()
    made._session_callback(kazoo.KeeperState.CONNECTED)
    return made


def sent_on(link: SessionLink, request: Any = "r") -> Reply:
    """A request of which bytes have left."""
    reply = Reply(lambda _reply: None)
    link.submit(request, b"", reply)
    link._waiting.clear()
    link._pending.append((request, reply, 1))
    return reply


def outcome(reply: Reply) -> bool:
    """Whether its outcome is unknown, rather than that it was not sent."""
    assert reply.resolved and isinstance(reply.error, Unanswered)
    return reply.error.sent


def test_what_is_under_way_when_the_connection_goes_is_unknown_and_what_waits_was_not_sent() -> None:
    link = connected()
    first, second = sent_on(link), Reply(lambda _reply: None)
    link.submit("s", b"", second)
    link._session_callback(kazoo.KeeperState.CONNECTING)
    assert (outcome(first), outcome(second)) == (True, False)


def test_every_watch_is_told_when_the_connection_goes() -> None:
    """The server forgets them, so what changes from then on would not be seen."""
    link, notified = connected(), list[str]()
    link._data_watchers["/a"].add(lambda: notified.append("/a"))
    link._child_watchers["/b"].add(lambda: notified.append("/b"))
    link._session_callback(kazoo.KeeperState.CONNECTING)
    assert sorted(notified) == ["/a", "/b"]


def test_nothing_is_kept_for_another_connection() -> None:
    link = link_of()
    for connection, refused in ((None, True), (None, False), (1, False), (2, True)):
        if link.link is Link.SUSPENDED and not refused:
            link._session_callback(kazoo.KeeperState.CONNECTED)
        try:
            link.submit("r", b"", Reply(lambda _reply: None), connection)
        except Unanswered as error:
            assert refused and not error.sent
        else:
            assert not refused
    assert len(link._waiting) == 2


def test_what_could_not_be_sent_in_time_is_not_sent_later(monkeypatch: pytest.MonkeyPatch) -> None:
    clock, link, reply = Clock(monkeypatch), connected(), Reply(lambda _reply: None)
    link.submit("r", b"", reply)
    clock.now_s += REQUEST_S
    assert list(link.take_waiting()) == [] and not outcome(reply)


def test_what_has_no_answer_in_time_is_unknown_and_ends_a_silent_connection(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    clock, link = Clock(monkeypatch), connected()
    reply = sent_on(link)
    reply.sent_at_s = clock.tick_s()
    clock.now_s += REQUEST_S
    with pytest.raises(kazoo.ConnectionDropped):
        link.resolve_overdue()
    link.heard_at_s = clock.tick_s()
    link.resolve_overdue()
    assert outcome(reply)


def test_a_reply_that_makes_no_sense_leaves_the_outcome_unknown() -> None:
    reply = Reply(lambda _reply: None)
    reply.set_exception(ValueError("not jute"))
    assert outcome(reply)


def test_the_session_counts_from_the_sending_of_what_was_answered(monkeypatch: pytest.MonkeyPatch) -> None:
    """The leader's own deadline counts from it: the server may have counted from no earlier."""
    Clock(monkeypatch)
    link = connected()
    link.granted(
        50.0, SimpleNamespace(session_id=0), SimpleNamespace(time_out=6000, session_id=7, passwd=b"p")
    )
    assert link.last_success_at_s == 50.0
    reply = sent_on(link)
    reply.sent_at_s = 60.0
    link.answered(reply)
    assert link.last_success_at_s == 60.0


def test_another_session_than_the_one_asked_for_is_none_of_ours() -> None:
    link = link_of(session=7)
    with pytest.raises(kazoo.SessionExpiredError):
        link.granted(
            1.0, SimpleNamespace(session_id=7), SimpleNamespace(time_out=6000, session_id=8, passwd=b"p")
        )


def test_a_lost_session_has_no_successor() -> None:
    link = connected()
    link._session_callback(kazoo.KeeperState.EXPIRED_SESSION)
    assert link.link is Link.LOST and link._stopped.is_set()


def test_a_node_without_a_quorum_is_left() -> None:
    link = link_of()
    with pytest.raises(kazoo.ConnectionDropped):
        link._session_callback(kazoo.KeeperState.CONNECTED_RO)
    assert link.link is Link.SUSPENDED


def test_a_session_that_nobody_has_heard_close_is_not_told_closed() -> None:
    link = link_of(session=7)
    link._thread_id = -1
    assert not link.close(0.01)
    assert link.link is Link.CLOSED


def test_a_request_is_pending_with_its_time_before_a_byte_of_it_leaves(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    clock, link, reply = Clock(monkeypatch), connected(), Reply(lambda _reply: None)
    left_s: list[float] = []

    def write(_message: bytes, _timeout_s: float) -> None:
        assert [each for _, each, _ in link._pending] == [reply], "what is cut from now on is unknown"
        left_s.append(clock.tick_s())

    link._connection._write = write
    link.submit("r", b"frame", reply)
    link._connection._send_request(1.0, 1.0)
    assert 0.0 < reply.sent_at_s < left_s[0]
