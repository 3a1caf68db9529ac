"""The failure knobs of the ensemble in memory; what it shares with the real client is in the contract suite."""

from __future__ import annotations

import threading

import pytest

from supervisor.clients.zookeeper import Link
from supervisor.errors import GuardFailed, NotSent, OutcomeUnknown, Unreachable
from supervisor.model.transaction import Check, Create, SetData, Transaction
from tests.fakes.zookeeper import MemoryClient, MemoryZoo


def create(path: str, *, ephemeral: bool = False) -> Transaction:
    return Transaction("create", path, (Create(path, b"", ephemeral),))


@pytest.fixture
def zoo() -> MemoryZoo:
    return MemoryZoo()


@pytest.fixture
def links() -> list[Link]:
    return []


@pytest.fixture
def client(zoo: MemoryZoo, links: list[Link]) -> MemoryClient:
    return zoo.client(on_link=links.append, request_timeout_s=0.05)


def test_lost_reply(zoo: MemoryZoo, client: MemoryClient, links: list[Link]) -> None:
    session = client.session
    client.lose_next_reply()
    with pytest.raises(OutcomeUnknown):
        client.commit(create("/a"))
    assert "/a" in zoo.tree()
    assert (client.link, client.session) == (Link.CONNECTED, session)
    assert links == [Link.CONNECTED, Link.SUSPENDED, Link.CONNECTED]
    client.commit(create("/b"))


def test_lost_reply_and_cut_off(zoo: MemoryZoo, client: MemoryClient) -> None:
    client.lose_next_reply(reconnect=False)
    with pytest.raises(OutcomeUnknown):
        client.commit(create("/a"))
    assert client.link is Link.SUSPENDED
    zoo.reconnect(client)
    assert client.read("/a") is not None


def test_fails_before(zoo: MemoryZoo, client: MemoryClient) -> None:
    client.fail_next_commit_before()
    with pytest.raises(OutcomeUnknown):
        client.commit(create("/a"))
    assert zoo.tree() == {}
    assert client.link is Link.CONNECTED


def test_disconnect(zoo: MemoryZoo, client: MemoryClient) -> None:
    fired: list[int] = []
    client.commit(create("/mine", ephemeral=True))
    client.read("/mine", lambda: fired.append(1))
    zoo.disconnect(client)
    assert (client.link, fired) == (Link.SUSPENDED, [1])
    with pytest.raises(NotSent):
        client.commit(create("/a"))
    assert client.close() is False
    assert "/mine" in zoo.tree()


def test_expired_while_cut_off(zoo: MemoryZoo, client: MemoryClient, links: list[Link]) -> None:
    client.commit(create("/mine", ephemeral=True))
    zoo.disconnect(client)
    zoo.expire(client)
    assert zoo.tree() == {}
    assert client.link is Link.SUSPENDED
    zoo.reconnect(client)
    zoo.reconnect(client)
    assert links == [Link.CONNECTED, Link.SUSPENDED, Link.LOST]


def test_held_requests_come_late(zoo: MemoryZoo, client: MemoryClient) -> None:
    results: list[object] = []
    client.hold()
    with pytest.raises(OutcomeUnknown):
        client.commit(create("/a"))
    with pytest.raises(Unreachable):
        client.read("/a")
    client.commit_async(create("/b"), results.append)
    assert (zoo.tree(), results) == ({}, [])
    client.release()
    assert list(zoo.tree()) == ["/a", "/b"]
    assert len(results) == 1


def test_held_requests_are_lost_with_the_connection(zoo: MemoryZoo, client: MemoryClient) -> None:
    results: list[object] = []
    client.hold()
    client.commit_async(create("/a"), results.append)
    zoo.disconnect(client)
    zoo.reconnect(client)
    client.release()
    assert zoo.tree() == {}
    assert [type(result) for result in results] == [OutcomeUnknown]


def test_something_happens_between_read_and_write(zoo: MemoryZoo, client: MemoryClient) -> None:
    other = zoo.client()
    client.commit(create("/a"))
    client.before_next_commit(lambda: other.commit(Transaction("set", "1", (SetData("/a", b"", 0),))))
    with pytest.raises(GuardFailed):
        client.commit(Transaction("guarded", "2", (Check("/a", 0), Create("/b", b""))))
    assert list(zoo.tree()) == ["/a"]


def test_session_ends_under_a_commit(zoo: MemoryZoo, client: MemoryClient) -> None:
    client.before_next_commit(lambda: zoo.expire(client))
    with pytest.raises(OutcomeUnknown):
        client.commit(create("/a"))
    assert (client.link, zoo.tree()) == (Link.LOST, {})


def test_log_and_put(zoo: MemoryZoo, client: MemoryClient) -> None:
    assert client.session is not None
    zoo.put("/deep/down/there", b"1")
    zoo.put("/deep/down/there", b"2")
    tx = Transaction("set", "1", (SetData("/deep/down/there", b"3", 1),))
    client.commit(tx)
    assert zoo.tree()["/deep/down/there"] == b"3"
    assert zoo.log[-1] == (client.session.id, tx)


def test_many_threads(zoo: MemoryZoo, client: MemoryClient) -> None:
    client.commit(create("/all"))
    clients = [zoo.client() for _ in range(4)]

    def run(number: int) -> None:
        for i in range(100):
            clients[number].commit(create(f"/all/{number}-{i}"))

    threads = [threading.Thread(target=run, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert len(client.children("/all") or ()) == 400
