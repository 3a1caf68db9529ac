"""The ZooKeeper client under real faults: nodes killed and stopped, connections cut, held and swallowed.

One embedded ensemble for the module; after each test all its nodes are up again.
"""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
import threading
import uuid
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from kazoo.exceptions import UnimplementedError

from supervisor.clients import zookeeper_reads
from supervisor.clients.zookeeper import Link, ZooClient, close_session
from supervisor.clock import boottime_s
from supervisor.demo.ensemble import EmbeddedEnsemble
from supervisor.errors import InvalidInput, NotSent, OutcomeUnknown, SupervisorError, Unreachable
from supervisor.model.transaction import ANY_VERSION, Create, Delete, SetData, Transaction
from tests.testbed.ensembles import repair
from tests.testbed.proxy import Action, Proxies, Proxy, zookeeper_request
from tests.testbed.secured_ensemble import ask_node, running
from tests.waiting import wait_until

SESSION_S = 6.0
REQUEST_S = 1.5
NODES = 3
PROJECT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def module_ensemble(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedEnsemble]:
    with running(tmp_path_factory.mktemp("zookeeper"), NODES) as ensemble:
        yield ensemble


@pytest.fixture
def ensemble(module_ensemble: EmbeddedEnsemble) -> Iterator[EmbeddedEnsemble]:
    yield module_ensemble
    repair(module_ensemble)


@pytest.fixture
def proxies(ensemble: EmbeddedEnsemble) -> Iterator[Proxies]:
    with Proxies(ensemble.hosts) as made:
        yield made


Connect = Callable[..., ZooClient]


@pytest.fixture
def connect(ensemble: EmbeddedEnsemble) -> Iterator[Connect]:
    clients: list[ZooClient] = []

    def make(hosts: str = "", session_s: float = SESSION_S, **arguments: Any) -> ZooClient:
        client = ZooClient(
            hosts or ensemble.hosts, session_s, **{"request_timeout_s": REQUEST_S, **arguments}
        )
        clients.append(client)
        client.start()
        client.wait_connected(30)
        return client

    yield make
    for client in clients:
        client.close(1)


def path() -> str:
    return f"/{uuid.uuid4().hex}"


def create(client: ZooClient, node: str, *, ephemeral: bool = False, data: bytes = b"") -> None:
    client.commit(Transaction("create", "1", (Create(node, data, ephemeral),)))


def connected(client: ZooClient) -> None:
    wait_until(lambda: client.link is Link.CONNECTED, 30, "the client to be connected")


def node_of(ensemble: EmbeddedEnsemble, client: ZooClient) -> int:
    """The node that serves the client, by what the nodes say."""
    assert client.session is not None
    for i in range(NODES):
        if f"sid=0x{client.session.id:x}," in ask_node(ensemble, i, "cons"):
            return i
    raise AssertionError("no node serves this client")


def session_threads() -> set[threading.Thread]:
    return {thread for thread in threading.enumerate() if thread.name == "zookeeper"}


def within(timeout_s: float, call: Callable[[], object]) -> SupervisorError | object:
    """The result or the error of a call that must come back."""
    results: list[object] = []

    def run() -> None:
        try:
            results.append(call())
        except SupervisorError as error:
            results.append(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join(timeout_s)
    assert results, f"the call was still waiting after {timeout_s:g} s"
    return results[0]


class TestManyReads:
    def test_a_server_that_does_not_know_such_requests_is_asked_one_by_one(
        self, ensemble: EmbeddedEnsemble, connect: Connect, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """As one older than 3.6: it answers "unimplemented", and the session goes on."""
        client, node = connect(ensemble.hosts), path()
        create(client, node, data=b"here")
        session, asked = client.session, []
        real = zookeeper_reads.MultiRead.deserialize

        def unknown(self: zookeeper_reads.MultiRead, buffer: bytes, offset: int) -> object:
            asked.append(len(self.paths))
            raise UnimplementedError

        monkeypatch.setattr(zookeeper_reads.MultiRead, "deserialize", unknown)
        for _ in range(2):
            nodes = client.read_many([node, path(), *[node] * 200]).nodes
            assert [one is not None for one in nodes] == [True, False, *[True] * 200]
        assert 1 <= len(asked) <= 2, "and is not asked so again"
        monkeypatch.setattr(zookeeper_reads.MultiRead, "deserialize", real)
        assert client.session == session


class TestRefusal:
    def test_request_while_suspended_never_happens(self, proxies: Proxies, connect: Connect) -> None:
        """kazoo queues it, lets the caller give up, and carries it out after reconnecting (zookeeper.md M6)."""
        client, never = connect(proxies.hosts), path()
        proxies.refuse()
        wait_until(lambda: client.link is Link.SUSPENDED)
        session = client.session
        results: list[object] = []
        with pytest.raises(NotSent):
            create(client, never)
        client.commit_async(Transaction("create", "1", (Create(never, b""),)), results.append)
        client.read_many_async([never], results.append)
        assert [type(result) for result in results] == [NotSent, NotSent]
        proxies.each(Proxy.heal)
        connected(client)
        assert client.session == session
        client.sync()
        assert client.read(never) is None
        assert len(results) == 2

    def test_what_is_for_one_connection_is_not_sent_on_the_next(
        self, proxies: Proxies, connect: Connect
    ) -> None:
        """A shim's claim: whoever hands it over may not have heard yet that there is another connection."""
        client, first, never = connect(proxies.hosts), path(), path()
        connected(client)
        before = client.connections
        client.commit(Transaction("create", "1", (Create(first, b""),)), before)
        session = client.session
        proxies.refuse()
        wait_until(lambda: client.link is Link.SUSPENDED)
        proxies.each(Proxy.heal)
        connected(client)
        assert client.session == session
        with pytest.raises(NotSent):
            client.commit(Transaction("create", "2", (Create(never, b""),)), before)
        # Not "the second": while they were shut one after the other, one that was still open may have been the second.
        client.commit(Transaction("delete", "3", (Delete(first, ANY_VERSION),)), client.connections)
        assert client.read(never) is None

    def test_while_connecting(self, proxies: Proxies, connect: Connect) -> None:
        """The connection is accepted, but the session is not confirmed yet."""
        client, never = connect(proxies.hosts), path()
        proxies.each(Proxy.hold)
        proxies.each(Proxy.cut)
        wait_until(lambda: client.link is Link.SUSPENDED)
        with pytest.raises(NotSent):
            create(client, never)
        proxies.each(Proxy.release)
        connected(client)
        client.sync()
        assert client.read(never) is None

    def test_race_with_the_loss_of_the_connection(self, proxies: Proxies, connect: Connect) -> None:
        """Each write is refused, unknown or done; what was refused is never found, what was done always is."""
        client, root = connect(proxies.hosts), path()
        create(client, root)
        outcomes: dict[str, type] = {}
        stop = threading.Event()

        def write(writer: int) -> None:
            count = 0
            while not stop.is_set():
                name = f"{writer}-{count}"
                count += 1
                try:
                    create(client, f"{root}/{name}")
                    outcomes[name] = bool
                except SupervisorError as error:
                    outcomes[name] = type(error)
                    stop.wait(0.001)

        threads = [threading.Thread(target=write, args=(i,)) for i in range(4)]
        for thread in threads:
            thread.start()

        def progress(since: int) -> bool:
            return client.link is Link.CONNECTED and len(outcomes) > since + 100

        for _ in range(8):
            wait_until(partial(progress, len(outcomes)))
            proxies.each(Proxy.cut)
        stop.set()
        for thread in threads:
            thread.join(30)
        wait_until(partial(committed, client), 30, "the client to be over the last cut")
        client.sync()
        found = set(client.children(root) or ())
        assert set(outcomes.values()) <= {bool, NotSent, OutcomeUnknown}
        assert {name for name, kind in outcomes.items() if kind is bool} <= found
        assert not found & {name for name, kind in outcomes.items() if kind is NotSent}


class TestUnknown:
    def test_answer_cut_off(self, proxies: Proxies, connect: Connect) -> None:
        client, node = connect(proxies.hosts), path()
        traps = proxies.each(lambda proxy: proxy.on_request(zookeeper_request(node), Action.CUT_AFTER))
        with pytest.raises(OutcomeUnknown):
            create(client, node)
        assert sum(trap.sprung for trap in traps) == 1
        session = client.session
        proxies.each(Proxy.heal)
        connected(client)
        assert client.session == session
        client.sync()
        assert client.read(node) is not None

    def test_cut_before_the_server_saw_it(self, proxies: Proxies, connect: Connect) -> None:
        client, node = connect(proxies.hosts), path()
        proxies.each(lambda proxy: proxy.on_request(zookeeper_request(node), Action.CUT_BEFORE))
        with pytest.raises(OutcomeUnknown):
            create(client, node)
        proxies.each(Proxy.heal)
        connected(client)
        client.sync()
        assert client.read(node) is None

    def test_answer_to_a_read_cut_off(self, proxies: Proxies, connect: Connect) -> None:
        client, node = connect(proxies.hosts), path()
        for read in (lambda: client.read(node), lambda: client.read_many([node] * 10)):
            proxies.each(lambda proxy: proxy.on_request(zookeeper_request(node), Action.CUT_AFTER))
            with pytest.raises(Unreachable) as failed:
                read()
            assert not isinstance(failed.value, NotSent)
            proxies.each(Proxy.heal)
            connected(client)

    def test_what_was_held_back_is_void_once_the_session_has_moved(
        self, proxies: Proxies, connect: Connect
    ) -> None:
        """So a read on the same session settles an unknown outcome, although the bytes may still be under way."""
        client, node = connect(proxies.hosts), path()
        (here,) = (proxy for proxy in (proxies[i] for i in range(NODES)) if proxy.accepted)
        trap = here.on_request(zookeeper_request(node), Action.HOLD)
        with pytest.raises(OutcomeUnknown):
            create(client, node)
        trap.wait()
        connected(client)
        client.sync()
        assert client.read(node) is None
        here.heal()
        for _ in range(20):
            create(client, path())
        client.sync()
        assert client.read(node) is None

    def test_silent_node_under_steady_requests(self, proxies: Proxies, connect: Connect) -> None:
        """Pings would not notice: kazoo sends none while there are requests. The time of the requests does."""
        client, node = connect(proxies.hosts), path()
        create(client, node)
        session = client.session
        (here,) = (proxy for proxy in (proxies[i] for i in range(NODES)) if proxy.accepted)
        results: list[object] = []
        here.drop()
        for i in range(20):
            client.commit_async(
                Transaction("set", str(i), (SetData(node, b"", ANY_VERSION),)), results.append
            )
        wait_until(lambda: len(results) == 20)
        assert {type(result) for result in results} == {OutcomeUnknown}
        connected(client)
        assert client.session == session
        create(client, path())
        assert len(results) == 20


class TestNodes:
    @pytest.mark.parametrize("fault", [EmbeddedEnsemble.pause, EmbeddedEnsemble.kill])
    @pytest.mark.parametrize("leader", [False, True])
    def test_our_node_fails(
        self,
        ensemble: EmbeddedEnsemble,
        connect: Connect,
        fault: Callable[[EmbeddedEnsemble, int], None],
        leader: bool,
    ) -> None:
        """The session goes on at another node, and what it owns stays (M10)."""
        the_leader = ensemble.leader()
        links: list[Link] = []
        for _ in range(30):
            client = connect(on_link=links.append)
            here = node_of(ensemble, client)
            if (here == the_leader) == leader:
                break
            client.close()
            links.clear()
        node = path()
        create(client, node, ephemeral=True)
        session = client.session
        fault(ensemble, here)
        wait_until(lambda: Link.SUSPENDED in links)
        connected(client)
        assert client.session == session
        assert node_of_others(ensemble, client, here) != here
        wait_until(lambda: committed(client, node), 30)
        assert Link.LOST not in links

    def test_two_of_three_swallow_everything(self, proxies: Proxies, connect: Connect) -> None:
        for _ in range(3):
            client = connect(proxies.hosts)
            session, before = client.session, [proxies[i].accepted for i in range(NODES)]
            here = [i for i in range(NODES) if proxies[i].accepted == max(before)][0]
            proxies[here].drop()
            proxies[(here + 1) % NODES].drop()
            connected(client)
            wait_until(partial(committed, client), 30)
            assert client.session == session
            proxies.each(Proxy.heal)

    def test_all_nodes_stopped(self, ensemble: EmbeddedEnsemble, connect: Connect) -> None:
        """Every call comes back with what is true: unknown or not sent."""
        client, node = connect(), path()
        create(client, node)
        for i in range(NODES):
            ensemble.pause(i)
        first = within(20, lambda: client.commit(Transaction("set", "1", (SetData(node, b"", ANY_VERSION),))))
        assert isinstance(first, OutcomeUnknown)
        for call in (client.sync, lambda: client.read(node), lambda: client.read_many([node] * 500)):
            assert isinstance(within(20, call), Unreachable)
        assert isinstance(within(20, lambda: client.wait_connected(0.5)), Unreachable)
        assert client.link is Link.SUSPENDED

    def test_close_while_all_nodes_are_stopped(self, ensemble: EmbeddedEnsemble, connect: Connect) -> None:
        """kazoo took 8.4 s (M16). The thread goes too."""
        others = session_threads()
        client = connect()
        for i in range(NODES):
            ensemble.pause(i)
        assert within(10, lambda: client.close(0.5)) is False
        assert client.link is Link.CLOSED
        wait_until(lambda: session_threads() <= others)
        with pytest.raises(NotSent):
            client.sync()

    def test_close_resolves_what_is_under_way(self, proxies: Proxies, connect: Connect) -> None:
        client, node = connect(proxies.hosts, request_timeout_s=60), path()
        results: list[object] = []
        proxies.each(Proxy.drop)
        client.commit_async(Transaction("create", "1", (Create(node, b""),)), results.append)
        assert client.close(0.2) is False
        wait_until(lambda: len(results) == 1)
        assert isinstance(results[0], OutcomeUnknown)

    def test_quorum_back_after_more_than_the_session_time(
        self, ensemble: EmbeddedEnsemble, connect: Connect
    ) -> None:
        """A restarted ensemble gives every session its full time again, and we are back before that is over (M9)."""
        client, node = connect(), path()
        create(client, node, ephemeral=True)
        session = client.session
        for i in range(NODES):
            ensemble.kill(i)
        wait_until(lambda: client.link is Link.SUSPENDED)
        assert not threading.Event().wait(SESSION_S + 2)  # the fault itself: nobody is there for so long
        for i in range(NODES):
            ensemble.restart(i)
        connected(client)
        assert client.session == session
        wait_until(lambda: committed(client, node), 30)

    def test_slow_network(self, proxies: Proxies, connect: Connect) -> None:
        """Answers that take a quarter of the session time: impatient at first, but neither for ever nor once known.

        Not a third: what a busy machine adds to that is a lost connection, and rightly.
        """
        proxies.each(lambda proxy: proxy.delay(SESSION_S / 8))
        links: list[Link] = []
        client = connect(proxies.hosts, request_timeout_s=10, on_link=links.append)
        session = client.session
        for _ in range(3):
            create(client, path())
        links.clear()
        proxies.each(Proxy.cut)
        wait_until(lambda: Link.SUSPENDED in links, 30, "the cut to be noticed")
        connected(client)
        assert client.session == session
        links.clear()
        assert not threading.Event().wait(SESSION_S)  # idle: only pings
        assert links == []
        create(client, path())


def committed(client: ZooClient, node: str | None = None) -> bool:
    """Whether a write commits now; an own ephemeral, if given, must be there."""
    try:
        if node is not None:
            client.sync()
            found = client.read(node)
            assert found is not None and client.session is not None
            assert found.stat.ephemeral_owner == client.session.id
        create(client, path())
    except (Unreachable, OutcomeUnknown):
        return False
    return True


def node_of_others(ensemble: EmbeddedEnsemble, client: ZooClient, without: int) -> int:
    """As ``node_of``, not asking a node that can't answer."""
    assert client.session is not None
    for i in set(range(NODES)) - {without}:
        with (
            contextlib.suppress(OSError),
            socket.create_connection(("127.0.0.1", ensemble.node(i).client_port), 5) as sock,
        ):
            sock.sendall(b"cons")
            if f"sid=0x{client.session.id:x},".encode() in b"".join(iter(lambda: sock.recv(65536), b"")):
                return i
    return -1


class TestSession:
    def test_expired_is_lost_for_good(
        self, ensemble: EmbeddedEnsemble, proxies: Proxies, connect: Connect
    ) -> None:
        """kazoo goes on with a new session at once (M3)."""
        links: list[Link] = []
        witness, node = connect(), path()
        others = session_threads()
        client = connect(proxies.hosts, 2.0, on_link=links.append)
        create(client, node, ephemeral=True)
        proxies.refuse()
        wait_until(lambda: witness.read(node) is None, 30)
        assert client.link is Link.SUSPENDED
        session = client.session
        proxies.each(Proxy.heal)
        wait_until(lambda: client.link is Link.LOST)
        with pytest.raises(NotSent):
            create(client, path())
        with pytest.raises(Unreachable):
            client.wait_connected(2)
        wait_until(lambda: session_threads() <= others, what="the end of the lost client's thread")
        assert (client.link, client.session) == (Link.LOST, session)
        # A session of two seconds may blink on a busy machine before all that.
        assert (
            links[0] is Link.CONNECTED
            and links[-2:] == [Link.SUSPENDED, Link.LOST]
            and links.count(Link.LOST) == 1
        )
        assert client.close() is True

    def test_stopped_process_never_writes_under_another_session(
        self, ensemble: EmbeddedEnsemble, connect: Connect
    ) -> None:
        """Stopped for longer than its session, then continued: what it does next is refused or unknown (M3)."""
        witness, node = connect(), path()
        create(witness, node)
        writer = subprocess.Popen(
            [sys.executable, "-c", WRITER, ensemble.hosts, node],
            stdout=subprocess.PIPE,
            text=True,
            cwd=PROJECT,
        )
        assert writer.stdout is not None
        try:
            session_id = int(writer.stdout.readline())
            assert writer.stdout.readline() == "Committed\n"
            os.kill(writer.pid, signal.SIGSTOP)
            wait_until(lambda: witness.read(f"{node}/mine") is None, 30)
            version = written(witness, node)
            os.kill(writer.pid, signal.SIGCONT)
            output, _ = writer.communicate(timeout=30)
        finally:
            writer.kill()
            writer.wait()
        outcomes = output.split()
        assert outcomes[-1] == f"lost-{session_id}"
        assert set(outcomes[outcomes.index("NotSent") : -1]) == {"NotSent"}
        witness.sync()
        assert written(witness, node) == version

    def test_session_closed_by_another_while_its_owner_is_stopped(
        self, ensemble: EmbeddedEnsemble, connect: Connect
    ) -> None:
        """What the session closer does: the ephemerals go at once, not after the session time."""
        client, witness, node = connect(session_s=30.0), connect(), path()
        create(client, node, ephemeral=True)
        assert client.session is not None
        close_session(ensemble.hosts, client.session.id, client.session.password, 10)
        witness.sync()
        assert witness.read(node) is None
        wait_until(lambda: client.link is Link.LOST)

    def test_close_session_without_an_ensemble(self) -> None:
        with socket.socket() as nobody:
            nobody.bind(("127.0.0.1", 0))
            hosts = f"127.0.0.1:{nobody.getsockname()[1]}"
            assert isinstance(within(15, lambda: close_session(hosts, 1, bytes(16), 0.5)), Unreachable)

    def test_starts_without_an_ensemble(self, proxies: Proxies) -> None:
        """``start`` does not wait, and trying goes on until somebody is there."""
        proxies.refuse()
        client = ZooClient(f"no-such-host.invalid:1,not..even.a.name,{proxies.hosts}", SESSION_S)
        client.start()
        assert isinstance(within(15, lambda: client.wait_connected(1)), Unreachable)
        proxies.each(Proxy.heal)
        connected(client)
        assert client.close()

    def test_server_that_talks_nonsense(self, ensemble: EmbeddedEnsemble) -> None:
        """It costs an attempt, not the client."""
        with socket.create_server(("127.0.0.1", 0)) as server:
            heard = threading.Event()

            def babble() -> None:
                with contextlib.suppress(OSError):
                    while True:
                        sock, _ = server.accept()
                        with sock:
                            sock.recv(1024)
                            sock.sendall(b"\0\0\0\x04HTTP")
                            heard.set()

            threading.Thread(target=babble, daemon=True).start()
            client = ZooClient(f"127.0.0.1:{server.getsockname()[1]}", SESSION_S)
            client.start()
            assert heard.wait(10)
            heard.clear()
            assert heard.wait(10), "it did not try again"
            assert client.link is Link.SUSPENDED
            client.close()

    @pytest.mark.parametrize("hosts", ["", "a:b", "a:1,,b:1", "a:0", "a:99999", "a:1/chroot", ":2181"])
    def test_bad_hosts(self, hosts: str) -> None:
        with pytest.raises(InvalidInput, match="zookeeper.hosts"):
            ZooClient(hosts, 10.0)


WRITER = """
import sys, time
from tests.testbed.secured_ensemble import use_what_the_parent_uses
from supervisor.clients.zookeeper import Link, ZooClient
from supervisor.errors import SupervisorError
from supervisor.model.transaction import Create, SetData, Transaction
use_what_the_parent_uses()
hosts, node = sys.argv[1:]
client = ZooClient(hosts, 2.0, request_timeout_s=1.0)
client.start()
client.wait_connected(30)
print(client.session.id, flush=True)
client.commit(Transaction("mine", "1", (Create(node + "/mine", b"", ephemeral=True),)))
after = 0
while after < 20:
    try:
        outcome = type(client.commit(Transaction("set", "1", (SetData(node, b"", -1),)))).__name__
    except SupervisorError as error:
        outcome = type(error).__name__
        time.sleep(0.01)
    after += client.link is Link.LOST
    print(outcome, flush=True)
print(f"{client.link}-{client.session.id}")
"""


def written(client: ZooClient, node: str) -> int:
    found = client.read(node)
    assert found is not None
    return found.stat.version


class Deaf:
    """A server that takes connections and says nothing (``refuses``: that ends them at once), and counts them."""

    def __init__(self, *, refuses: bool) -> None:
        self._server = socket.create_server(("127.0.0.1", 0), backlog=128)
        self._kept: list[socket.socket] = []
        self._refuses = refuses
        self.accepted = 0
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                link, _ = self._server.accept()
                self.accepted += 1
                link.close() if self._refuses else self._kept.append(link)

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self._server.getsockname()[1]}"

    def close(self) -> None:
        for link in self._kept:
            link.close()
        self._server.close()


class TestSilence:
    """The leader of the ensemble is stopped, and the others have not yet elected another: they refuse, at once."""

    @pytest.fixture
    def servers(self) -> Iterator[list[Deaf]]:
        made = [Deaf(refuses=False), Deaf(refuses=True), Deaf(refuses=True)]
        yield made
        for server in made:
            server.close()

    @pytest.fixture
    def client(self, servers: list[Deaf]) -> Iterator[ZooClient]:
        """Its session time is long, so that a wait for silence that is a share of it would show."""
        client = ZooClient(",".join(server.address for server in servers), 120.0)
        client._session.randomize_hosts = False
        client._session._connection._answer_took_s = 0.01  # as after a while of quick answers
        yield client
        client.close(1)

    def test_the_silent_one_costs_little_while_the_others_speak(
        self, client: ZooClient, servers: list[Deaf]
    ) -> None:
        """Who waits for it in each round finds the new leader seconds late, and a lease may end meanwhile."""
        client.start()
        silent, *refusing = servers
        wait_until(lambda: min(server.accepted for server in refusing) >= 15, 60, "fifteen rounds")
        assert 1 <= silent.accepted <= 5

    def test_a_ping_of_the_connection_before_does_not_prolong_the_wait(
        self, client: ZooClient, servers: list[Deaf]
    ) -> None:
        """kazoo keeps it as outstanding until the next connection is there; our patience with pings is 0.6 of the session."""
        client._session.heard_at_s = boottime_s()
        client._session._connection.ping_outstanding.set()
        client.start()
        wait_until(lambda: servers[1].accepted >= 1, 60, "the next server, long before 72 s are over")
