"""What every ZooKeeper client here does: the real one on a real ensemble, and the fake on its memory, in one suite."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from typing import Any, Protocol

import pytest

from supervisor.clients.zookeeper import Committed, Link, Reads, ZooClient, close_session
from supervisor.clock import boottime_s
from supervisor.errors import GuardFailed, InvalidInput, NotSent, SupervisorError, Unreachable
from supervisor.model.transaction import ANY_VERSION, Check, Create, Delete, Op, SetData, Transaction
from tests.fakes.zookeeper import MemoryClient, MemoryZoo
from tests.waiting import wait_until

Client = ZooClient | MemoryClient


class Zoo(Protocol):
    """Where clients come from. ``connect`` gives a connected one, closed at the end of the test.

    ``sever``: once its connection is gone, the client never comes back, as one whose process has died.
    """

    def connect(self, **arguments: Any) -> Client: ...
    def close_session(self, session_id: int, password: bytes) -> None: ...
    def sever(self, client: Any) -> None: ...
    def close(self) -> None: ...


class RealZoo:
    def __init__(self, hosts: str) -> None:
        self._hosts = hosts
        self._clients: list[ZooClient] = []

    def connect(self, **arguments: Any) -> ZooClient:
        nodes = self._hosts.split(",")
        # one each: it knows no other way back
        client = ZooClient(nodes[len(self._clients) % len(nodes)], 10.0, **arguments)
        self._clients.append(client)
        client.start()
        client.wait_connected(20)
        return client

    def close_session(self, session_id: int, password: bytes) -> None:
        close_session(self._hosts, session_id, password, 10)

    def sever(self, client: Any) -> None:
        # nobody listens there; read when it has tried all that it knew
        client._session.hosts = [("127.0.0.1", 1)]

    def close(self) -> None:
        for client in self._clients:
            client.close()


class FakeZoo:
    def __init__(self) -> None:
        self._zoo = MemoryZoo()
        self.close_session = self._zoo.close_session

    def connect(self, **arguments: Any) -> MemoryClient:
        client = self._zoo.client(**arguments)
        client.wait_connected(1)
        return client

    def sever(self, client: Any) -> None:
        self._zoo.disconnect(client)

    def close(self) -> None:
        """Nothing outlives the test."""


@pytest.fixture(params=["memory", "embedded"])
def zoo(request: pytest.FixtureRequest) -> Iterator[Zoo]:
    made: Zoo = (
        FakeZoo()
        if request.param == "memory"
        else RealZoo(request.getfixturevalue("embedded_ensemble").hosts)
    )
    yield made
    made.close()


@pytest.fixture
def client(zoo: Zoo) -> Client:
    return zoo.connect()


@pytest.fixture
def root(client: Client, zk_root: str) -> str:
    client.commit(Transaction("root", "0", (Create(zk_root, b""),)))
    return zk_root


def commit(client: Client, *ops: Op) -> Committed:
    return client.commit(Transaction("test", "1", ops))


class TestMulti:
    def test_versions_are_returned(self, client: Client, root: str) -> None:
        path = f"{root}/a"
        before_at_s = boottime_s()
        done = commit(
            client,
            Create(path, b"0"),
            SetData(path, b"1", 0),
            SetData(path, b"2", ANY_VERSION),
            Check(path, 2),
        )
        assert done.versions == (0, 1, 2, None)
        assert before_at_s <= done.sent_at_s <= boottime_s()
        assert commit(client, SetData(path, b"3", 2), Delete(path, 3)).versions == (3, None)
        assert client.read(path) is None

    def test_create_and_delete_of_one_path(self, client: Client, root: str) -> None:
        assert commit(client, Create(f"{root}/x", b""), Delete(f"{root}/x", 0)).versions == (0, None)
        assert client.children(root) == ()
        commit(client, Create(f"{root}/x", b"there"))
        with pytest.raises(GuardFailed) as failed:
            commit(client, Create(f"{root}/x", b""), Delete(f"{root}/x", ANY_VERSION))
        assert (failed.value.path, failed.value.kind, failed.value.index) == (f"{root}/x", "node_exists", 0)
        assert commit(client, Delete(f"{root}/x", 0), Create(f"{root}/x", b"again")).versions == (None, 0)

    @pytest.mark.parametrize(
        ("ops", "path", "kind", "index"),
        [
            ((Check("/full", 1),), "/full", "bad_version", 0),
            ((Check("/full", 0), SetData("/full", b"", 7)), "/full", "bad_version", 1),
            ((Create("/new", b""), Check("/full", 0), Delete("/empty", 3)), "/empty", "bad_version", 2),
            ((Check("/none", 0), Create("/new", b"")), "/none", "no_node", 0),
            ((Create("/new", b""), SetData("/none", b"", ANY_VERSION)), "/none", "no_node", 1),
            ((Create("/new", b""), Delete("/none", ANY_VERSION)), "/none", "no_node", 1),
            ((Create("/new", b""), Create("/none/child", b"")), "/none/child", "no_node", 1),
            ((Create("/new", b""), Create("/full", b"")), "/full", "node_exists", 1),
            ((SetData("/full", b"!", 0), Check("/full", 0)), "/full", "bad_version", 1),
            ((Create("/new", b""), Check("/empty", 0), Delete("/full", 0)), "/full", "not_empty", 2),
            ((Check("/none", 0), Check("/full", 9), Create("/full", b"")), "/none", "no_node", 0),
        ],
    )
    def test_failed_guard(
        self, client: Client, root: str, ops: tuple[Op, ...], path: str, kind: str, index: int
    ) -> None:
        """The first operation that fails is named, and nothing at all was applied."""
        commit(
            client,
            Create(f"{root}/full", b"data"),
            Create(f"{root}/full/child", b""),
            Create(f"{root}/empty", b""),
        )
        below = [below_root(op, root) for op in ops]
        with pytest.raises(GuardFailed) as failed:
            commit(client, *below)
        assert (failed.value.path, failed.value.kind, failed.value.index) == (root + path, kind, index)
        assert sorted(client.children(root) or ()) == ["empty", "full"]
        full = client.read(f"{root}/full")
        assert full is not None
        assert (full.data, full.stat.version, full.stat.children) == (b"data", 0, 1)

    def test_deleted_and_created_again_starts_at_version_0(self, client: Client, root: str) -> None:
        path = f"{root}/a"
        commit(client, Create(path, b""), SetData(path, b"", 0))
        first = client.read(path)
        commit(client, Delete(path, 1))
        commit(client, Create(path, b""))
        second = client.read(path)
        assert first is not None and second is not None
        assert second.stat.version == 0
        assert second.stat.mzxid == second.stat.czxid > first.stat.mzxid > 0

    def test_a_thousand_operations(self, client: Client, root: str) -> None:
        commit(client, *(Create(f"{root}/{i}", b"") for i in range(1000)))
        assert set(client.children(root) or ()) == {str(i) for i in range(1000)}

    def test_too_large(self, client: Client, root: str) -> None:
        """Refused here: ZooKeeper would drop the connection, and again at each retry."""
        with pytest.raises(InvalidInput, match="bytes"):
            commit(client, Create(f"{root}/big", bytes(1024 * 1024 + 10)))
        with pytest.raises(InvalidInput, match="bytes"):
            commit(client, *(Create(f"{root}/{i}", bytes(4096)) for i in range(260)))
        assert client.link is Link.CONNECTED
        commit(client, Create(f"{root}/large", bytes(1_000_000)))
        assert client.children(root) == ("large",)

    def test_senseless_requests(self, client: Client, root: str) -> None:
        with pytest.raises(InvalidInput):
            commit(client)
        with pytest.raises(InvalidInput):
            commit(client, Create(f"{root}/", b""))
        commit(client, Create(f"{root}/mortal", b"", ephemeral=True))
        with pytest.raises(InvalidInput):
            commit(client, Create(f"{root}/mortal/child", b""))
        assert client.link is Link.CONNECTED

    def test_one_winner(self, zoo: Zoo, client: Client, root: str) -> None:
        """Guarded increments from several threads and sessions: none is lost, none is counted twice."""
        path, each = f"{root}/count", 20
        commit(client, Create(path, b"0"))
        rivals = [client, zoo.connect(), zoo.connect()]

        def count(rival: Client) -> None:
            wins = 0
            while wins < each:
                rival.sync()
                node = rival.read(path)
                assert node is not None
                try:
                    commit(rival, SetData(path, str(int(node.data) + 1).encode(), node.stat.version))
                    wins += 1
                except GuardFailed:
                    continue

        threads = [threading.Thread(target=count, args=(rival,)) for rival in rivals for _ in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
        client.sync()
        node = client.read(path)
        assert node is not None
        assert (int(node.data), node.stat.version) == (6 * each, 6 * each)


def below_root(op: Op, root: str) -> Op:
    match op:
        case Create(path, data, ephemeral):
            return Create(root + path, data, ephemeral)
        case SetData(path, data, version):
            return SetData(root + path, data, version)
        case Delete(path, version):
            return Delete(root + path, version)
        case Check(path, version):
            return Check(root + path, version)


class TestReads:
    def test_absent(self, client: Client, root: str) -> None:
        assert client.read(f"{root}/none") is None
        assert client.children(f"{root}/none") is None
        assert client.children(root) == ()

    def test_node(self, client: Client, root: str) -> None:
        commit(
            client,
            Create(f"{root}/a", b"\x00\xff"),
            Create(f"{root}/a/b", b""),
            Create(f"{root}/mine", b"", True),
        )
        commit(client, SetData(f"{root}/a", b"", 0))
        node, mine = client.read(f"{root}/a"), client.read(f"{root}/mine")
        assert node is not None and mine is not None and client.session is not None
        assert (node.data, node.stat.version, node.stat.children, node.stat.ephemeral_owner) == (b"", 1, 1, 0)
        assert node.stat.czxid < node.stat.mzxid <= client.last_zxid
        assert mine.stat.ephemeral_owner == client.session.id

    def test_a_thousand_in_order(self, client: Client, root: str) -> None:
        commit(client, *(Create(f"{root}/{i}", str(i).encode()) for i in range(0, 1000, 2)))
        before_at_s = boottime_s()
        reads = client.read_many([f"{root}/{i}" for i in range(1000)])
        assert before_at_s <= reads.sent_at_s <= reads.received_at_s <= boottime_s()
        data = [None if node is None else int(node.data) for node in reads.nodes]
        assert data == [i if i % 2 == 0 else None for i in range(1000)]

    def test_none_at_all(self, client: Client) -> None:
        reads = client.read_many([])
        assert reads.nodes == ()
        assert reads.sent_at_s <= reads.received_at_s

    def test_sees_what_others_committed(self, zoo: Zoo, client: Client, root: str) -> None:
        other = zoo.connect()
        for i in range(20):
            commit(client, Create(f"{root}/{i}", b""))
            other.sync()
            assert other.read(f"{root}/{i}") is not None

    def test_last_success_is_the_sending(self, client: Client, root: str) -> None:
        before_at_s = boottime_s()
        zxid = client.last_zxid
        done = commit(client, SetData(root, b"x", 0))
        assert before_at_s <= client.last_success_at_s <= boottime_s()
        assert client.last_success_at_s >= done.sent_at_s
        assert client.last_zxid > zxid


class TestWatches:
    def test_fire_once(self, zoo: Zoo, client: Client, root: str) -> None:
        other = zoo.connect()
        other.sync()
        fired: list[str] = []
        other.read(root, lambda: fired.append("data"))
        other.children(root, lambda: fired.append("children"))
        commit(client, SetData(root, b"1", ANY_VERSION))
        wait_until(lambda: fired == ["data"])
        commit(client, Create(f"{root}/a", b""))
        wait_until(lambda: fired == ["data", "children"])
        commit(client, SetData(root, b"2", ANY_VERSION), Create(f"{root}/b", b""), Delete(f"{root}/a", 0))
        other.sync()
        assert fired == ["data", "children"]

    def test_creation_and_deletion(self, client: Client, root: str) -> None:
        path = f"{root}/later"
        fired: list[str] = []
        assert client.watch_exists(path, lambda: fired.append("created")) is None
        commit(client, Create(path, b"here"))
        wait_until(lambda: fired == ["created"])
        node = client.watch_exists(path, lambda: fired.append("deleted"))
        assert node is not None and node.data == b"here"
        commit(client, Delete(path, 0))
        wait_until(lambda: fired == ["created", "deleted"])

    def test_the_same_watch_set_twice_fires_once(self, client: Client, root: str) -> None:
        fired: list[int] = []

        def watch() -> None:
            fired.append(1)

        for _ in range(5):
            client.read(root, watch)
        commit(client, SetData(root, b"", ANY_VERSION))
        wait_until(lambda: bool(fired))
        client.sync()
        assert fired == [1]

    def test_absent_node_sets_no_watch(self, client: Client, root: str) -> None:
        fired: list[int] = []
        client.read(f"{root}/none", lambda: fired.append(1))
        commit(client, Create(f"{root}/none", b""), SetData(f"{root}/none", b"", 0))
        client.sync()
        assert fired == []

    def test_set_again_from_itself(self, client: Client, root: str) -> None:
        """The way a loop uses them: the watch sets an event, the loop reads and watches again."""
        seen: list[bytes] = []
        wake = threading.Event()
        for i in range(5):
            node = client.read(root, wake.set)
            assert node is not None
            seen.append(node.data)
            commit(client, SetData(root, str(i).encode(), ANY_VERSION))
            assert wake.wait(10)
            wake.clear()
        assert seen == [b"", b"0", b"1", b"2", b"3"]


class TestAsync:
    def test_each_done_once_and_in_order(self, client: Client, root: str) -> None:
        results: list[Committed | SupervisorError] = []
        commit(client, Create(f"{root}/a", b""))
        for i in range(50):
            client.commit_async(Transaction("set", str(i), (SetData(f"{root}/a", b"", i),)), results.append)
        client.commit_async(Transaction("set", "x", (SetData(f"{root}/a", b"", 0),)), results.append)
        wait_until(lambda: len(results) == 51)
        assert [r.versions for r in results if isinstance(r, Committed)] == [(i + 1,) for i in range(50)]
        assert isinstance(results[50], GuardFailed)
        client.sync()
        assert len(results) == 51

    def test_reads(self, client: Client, root: str) -> None:
        results: list[Reads | SupervisorError] = []
        client.read_many_async([root, f"{root}/none"], results.append)
        client.read_many_async([], results.append)
        wait_until(lambda: len(results) == 2)
        sizes = sorted(len(result.nodes) for result in results if isinstance(result, Reads))
        assert sizes == [0, 2]

    def test_many_reads_are_answered_in_their_order(self, client: Client, root: str) -> None:
        """More than go into one request; the absent among the present, the empty, the ephemeral."""
        for at in range(0, 200, 2):
            commit(client, Create(f"{root}/{at}", str(at).encode() if at % 4 else b"", ephemeral=at % 3 == 0))
        commit(client, SetData(f"{root}/2", b"again", 0))
        paths = [f"{root}/{at}" for at in range(200)]
        reads = client.read_many(paths)
        assert reads.nodes == tuple(client.read(path) for path in paths)
        assert [node is not None for node in reads.nodes] == [at % 2 == 0 for at in range(200)]
        assert reads.nodes[2] is not None and (reads.nodes[2].data, reads.nodes[2].stat.version) == (
            b"again",
            1,
        )
        assert reads.sent_at_s <= reads.received_at_s

    def test_more_requests_from_done(self, client: Client, root: str) -> None:
        results: list[object] = []

        def more(result: Committed | SupervisorError) -> None:
            results.append(result)
            if len(results) < 5:
                again()

        def again() -> None:
            client.commit_async(Transaction("set", "", (SetData(root, b"", len(results)),)), more)

        again()
        wait_until(lambda: len(results) == 5)
        assert all(isinstance(result, Committed) for result in results)

    def test_blocking_calls_are_refused_in_callbacks(self, client: Client, root: str) -> None:
        """They would wait for the thread that they are in."""
        errors: list[BaseException] = []

        def wrong(_result: object = None) -> None:
            calls: tuple[Callable[[], object], ...] = (
                lambda: client.read(root),
                client.sync,
                client.close,
                lambda: client.wait_connected(1),
            )
            for call in calls:
                try:
                    call()
                except RuntimeError as error:
                    errors.append(error)

        client.commit_async(Transaction("set", "", (SetData(root, b"", 0),)), wrong)
        wait_until(lambda: len(errors) == 4)
        assert client.read(root) is not None


class TestSession:
    def test_links_of_a_life(self, zoo: Zoo) -> None:
        links: list[Link] = []
        client = zoo.connect(on_link=links.append)
        assert client.link is Link.CONNECTED
        session = client.session
        assert session is not None and session.timeout_s == 10.0
        assert repr(session.password) not in repr(session)
        assert client.close() is True
        assert client.close() is True
        assert links == [Link.CONNECTED, Link.CLOSED]
        assert client.session == session

    def test_closed_client_refuses(self, client: Client, root: str) -> None:
        client.close()
        refused(client, root)
        assert client.link is Link.CLOSED

    def test_ephemerals_vanish_at_close(self, zoo: Zoo, client: Client, root: str) -> None:
        other = zoo.connect()
        commit(other, Create(f"{root}/mortal", b"", ephemeral=True), Create(f"{root}/stays", b""))
        client.sync()
        assert set(client.children(root) or ()) == {"mortal", "stays"}
        assert other.close() is True
        client.sync()
        assert client.children(root) == ("stays",)

    def test_resume(self, zoo: Zoo, client: Client, root: str) -> None:
        """Who has id and password goes on with the session, ephemerals included, and may close it."""
        first = zoo.connect()
        assert first.session is not None
        commit(first, Create(f"{root}/mortal", b"", ephemeral=True))
        # or the two would take the session from each other for ever: the server keeps the newest connection
        zoo.sever(first)
        second = zoo.connect(resume=(first.session.id, first.session.password))
        assert second.session is not None and second.session.id == first.session.id
        assert second.session.password == first.session.password
        second.sync()
        assert second.read(f"{root}/mortal") is not None
        second.close()
        client.sync()
        assert client.read(f"{root}/mortal") is None

    def test_resume_of_what_is_gone(self, zoo: Zoo, client: Client) -> None:
        other = zoo.connect()
        session = other.session
        assert session is not None
        other.close()
        links: list[Link] = []
        with pytest.raises(Unreachable):
            zoo.connect(resume=(session.id, session.password), on_link=links.append)
        assert links == [Link.LOST]

    def test_lost_is_latched(self, zoo: Zoo, client: Client, root: str) -> None:
        """After the server has ended the session, this client never works again: no new session in its place."""
        links: list[Link] = []
        other = zoo.connect(on_link=links.append)
        session = other.session
        assert session is not None
        commit(other, Create(f"{root}/mortal", b"", ephemeral=True))
        zoo.close_session(session.id, session.password)
        wait_until(lambda: other.link is Link.LOST)
        client.sync()
        assert client.read(f"{root}/mortal") is None
        refused(other, root)
        with pytest.raises(Unreachable):
            other.wait_connected(0.1)
        assert other.session == session
        assert other.close() is True
        assert other.link is Link.LOST
        assert links[-1] is Link.LOST and links.count(Link.LOST) == 1

    def test_closing_a_session_twice_is_fine(self, zoo: Zoo, client: Client) -> None:
        other = zoo.connect()
        assert other.session is not None
        for _ in range(2):
            zoo.close_session(other.session.id, other.session.password)

    def test_watches_fire_when_the_session_ends(self, zoo: Zoo, client: Client, root: str) -> None:
        """A hint to read again: the server has forgotten them."""
        other = zoo.connect()
        assert other.session is not None
        other.sync()
        fired: list[int] = []
        other.read(root, lambda: fired.append(1))
        zoo.close_session(other.session.id, other.session.password)
        wait_until(lambda: fired == [1])


def refused(client: Client, root: str) -> None:
    """Every request is refused as one that was never sent."""
    results: list[object] = []
    calls: tuple[Callable[[], object], ...] = (
        lambda: commit(client, SetData(root, b"never", ANY_VERSION)),
        lambda: client.read(root),
        lambda: client.children(root),
        lambda: client.watch_exists(root, lambda: None),
        lambda: client.read_many([root]),
        client.sync,
    )
    for call in calls:
        with pytest.raises(NotSent):
            call()
    client.commit_async(Transaction("test", "1", (SetData(root, b"never", ANY_VERSION),)), results.append)
    client.read_many_async([root] * 100, results.append)
    assert [type(result) for result in results] == [NotSent, NotSent]
