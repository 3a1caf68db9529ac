"""``clients.sessions``: a session is kept, or replaced only when it is known to be gone."""

from __future__ import annotations

import pytest

from supervisor.clients.sessions import ANSWER_S, CONNECT_MIN_S, CONNECT_S, KeptSession, connect_within_s
from supervisor.clients.zookeeper import Link
from supervisor.errors import OutcomeUnknown, Unreachable
from supervisor.model.transaction import Create, Transaction
from tests.fakes.zookeeper import MemoryClient, MemoryZoo


class Rig:
    """A kept session on an ensemble in memory. ``ended``: ids of the sessions that were closed for certain."""

    def __init__(self) -> None:
        self.zoo = MemoryZoo()
        self.ended: list[int] = []
        self.cannot_end = False
        self.kept = KeptSession(lambda: MemoryClient(self.zoo), self._end, connect_s=0.1, resolve_s=0.2)

    def _end(self, old) -> None:  # type: ignore[no-untyped-def]
        if self.cannot_end:
            raise Unreachable("no answer")
        self.ended.append(old.id)
        self.zoo.close_session(old.id, old.password)


@pytest.fixture
def rig() -> Rig:
    return Rig()


TX = Transaction("test", "id", (Create("/a", b""),))


def test_the_same_client_is_given_again(rig: Rig) -> None:
    assert rig.kept.zoo() is rig.kept.zoo()


def test_a_client_that_is_cut_off_is_unreachable(rig: Rig) -> None:
    rig.zoo.disconnect(rig.kept.zoo())
    with pytest.raises(Unreachable):
        rig.kept.zoo()


def test_a_lost_session_is_replaced(rig: Rig) -> None:
    old = rig.kept.zoo()
    rig.zoo.expire(old)
    assert rig.kept.zoo() is not old
    assert rig.kept.zoo().link is Link.CONNECTED


def test_resolving_on_a_session_that_lives_keeps_it(rig: Rig) -> None:
    client = rig.kept.zoo()
    client.lose_next_reply()
    with pytest.raises(OutcomeUnknown):
        client.commit(TX)
    assert rig.kept.resolve_outcome() is client
    assert rig.ended == []


def test_resolving_closes_a_lost_session_before_it_goes_on_with_another(rig: Rig) -> None:
    client = rig.kept.zoo()
    client.lose_next_reply(reconnect=False)
    with pytest.raises(OutcomeUnknown):
        client.commit(TX)
    rig.zoo.expire(client)
    rig.zoo.reconnect(client)
    assert client.session is not None and client.link is Link.LOST
    resolved = rig.kept.resolve_outcome()
    assert resolved is not client and resolved.read("/a") is not None
    assert rig.ended == [client.session.id]


def test_resolving_gives_up_while_the_session_may_live(rig: Rig) -> None:
    rig.zoo.disconnect(rig.kept.zoo())
    with pytest.raises(Unreachable):
        rig.kept.resolve_outcome()
    assert rig.ended == []


def test_resolving_gives_up_if_the_old_session_cannot_be_closed(rig: Rig) -> None:
    client = rig.kept.zoo()
    rig.zoo.expire(client)
    rig.cannot_end = True
    with pytest.raises(Unreachable):
        rig.kept.resolve_outcome()
    rig.cannot_end = False
    assert rig.kept.resolve_outcome() is not client


def test_close_ends_the_session_and_may_be_called_twice(rig: Rig) -> None:
    client = rig.kept.zoo()
    rig.kept.close()
    rig.kept.close()
    assert client.link is Link.CLOSED


@pytest.mark.parametrize("load_s", [0.2, 1.0, 3.0, 4.5, 5.0])
def test_an_unreachable_zookeeper_is_told_in_time_on_a_host_where_loading_takes_long(load_s: float) -> None:
    """5 comes within 15 s of the start of the command: loading, connecting, and as long as the loading to say so."""
    assert load_s + connect_within_s(load_s) + load_s <= ANSWER_S


def test_who_may_try_for_how_long() -> None:
    assert connect_within_s(0.2) == CONNECT_S, "a quick start leaves the whole time"
    assert connect_within_s(14.0) == CONNECT_MIN_S, "a short try is better than none"
    assert connect_within_s(600.0) == CONNECT_S, "a command that has worked for long was not slow to load"


def test_resolving_reads_nothing_that_a_lagging_server_would_show() -> None:
    """A sync on the session that wrote: what comes after it shows every earlier write."""
    rig, synced = Rig(), list[bool]()
    client = rig.kept.zoo()
    real = client.sync
    client.sync = lambda: (synced.append(True), real())[1]  # type: ignore[method-assign,func-returns-value]
    assert rig.kept.resolve_outcome() is client and synced == [True]


def test_each_client_is_checked_before_it_is_used() -> None:
    rig = Rig()
    checked: list[MemoryClient] = []
    kept = KeptSession(lambda: MemoryClient(rig.zoo), rig._end, connect_s=0.1, check=checked.append)
    first = kept.zoo()
    assert kept.zoo() is first and checked == [first]
    rig.zoo.expire(first)
    assert kept.zoo() is not first and checked == [first, kept.zoo()]


def test_a_client_that_failed_its_check_is_checked_again(rig: Rig) -> None:
    answers = [Unreachable("no answer"), None]

    def check(_client: MemoryClient) -> None:
        if (error := answers.pop(0)) is not None:
            raise error

    kept = KeptSession(lambda: MemoryClient(rig.zoo), rig._end, connect_s=0.1, check=check)
    with pytest.raises(Unreachable):
        kept.zoo()
    assert kept.zoo().link is Link.CONNECTED and answers == []
