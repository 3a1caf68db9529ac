"""The face of ``ZooClient`` on the simulated ensemble, and the network between the two.

What is modelled is what ``clients/zookeeper_session.py`` promises: a request leaves at once or not at all; one that is not
answered in time ends the connection if nothing else was heard; a lost session is lost for good; answers come in order.
What the network does to a message: it is late, it is held back by a cut (one way or both) and delivered when the cut is
mended, also after its client has given up, or it goes down with its connection before or after it took effect.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from supervisor.clients.zookeeper import Committed, Link, Reads, Session
from supervisor.errors import GuardFailed, InvalidInput, NotSent, OutcomeUnknown, SupervisorError, Unreachable
from supervisor.model.transaction import Node, Transaction
from tests.simulation.timed.ensemble import Ensemble, Granted, Server
from tests.simulation.timed.loop import Fiber, Loop, Process

UP, DOWN = "up", "down"


@dataclass
class Cable:
    """What lies between a process or a host and the servers. ``cuts``: how many cuts there are, by server and direction.

    ``late_s``: extra delay; ``spoils``: the share of writes that lose their connection.
    """

    cuts: Counter[tuple[int, str]] = field(default_factory=Counter)
    late_s: float = 0.0
    spoils: float = 0.0


class Network:
    """``cables``: by process or host. ``chunk``: how many reads go into one request."""

    def __init__(self, loop: Loop, ensemble: Ensemble, chunk: int) -> None:
        self.loop = loop
        self.ensemble = ensemble
        self.chunk = chunk
        self.random = random.Random(loop.seed * 7 + 1)
        self.cables: dict[str, Cable] = {}
        self.hosts: dict[Process, str] = {}
        self.on_read: Callable[[Process, Sequence[str], Sequence[Node | None]], None] | None = None
        self._held: dict[Conn, None] = {}

    def cable(self, name: str) -> Cable:
        return self.cables.setdefault(name, Cable())

    def cables_of(self, process: Process) -> list[Cable]:
        names = (process.name, self.hosts.get(process, ""))
        return [self.cables[name] for name in names if name in self.cables]

    def is_cut(self, process: Process, server: Server, way: str) -> bool:
        return any(cable.cuts[server.number, way] > 0 for cable in self.cables_of(process))

    def delay_s(self, process: Process) -> float:
        base_s = 0.0003 + 0.002 * self.random.random()
        if not self.cables:
            return base_s
        late_s = sum(cable.late_s for cable in self.cables_of(process))
        return base_s + late_s * self.random.random() if late_s else base_s

    def spoils(self, process: Process) -> bool:
        share = max((cable.spoils for cable in self.cables_of(process)), default=0.0)
        return share > 0 and self.random.random() < share

    def hold(self, conn: Conn) -> None:
        self._held[conn] = None

    def mended(self) -> None:
        """A cut has ended: what was held goes on, also what its client has given up, if the other end still listens."""
        for conn in list(self._held):
            process, server = conn.client.process, conn.server
            if not self.is_cut(process, server, UP):
                up, conn.held_up = conn.held_up, []
                if conn.open_client or self.random.random() < 0.5:
                    for what in up:
                        conn.up(what)
                if not conn.open_client:
                    conn.up(conn.gone)
            if not self.is_cut(process, server, DOWN):
                down, conn.held_down = conn.held_down, []
                for what in down:
                    conn.down(what)
            if not (conn.held_up or conn.held_down):
                self._held.pop(conn, None)


class Conn:
    """One TCP connection. Each side may think that it is open when the other knows better."""

    def __init__(self, client: SimClient, server: Server) -> None:
        self.client = client
        self.server = server
        self.net = client.net
        self.session: Granted | None = None
        self.open_client = True
        self.open_server = False
        self.busy_until_s = 0.0
        self.held_up: list[Callable[[], object]] = []
        self.held_down: list[Callable[[], object]] = []
        self._last_up_s = self._last_down_s = 0.0

    # -- messages --------------------------------------------------------------------------------------------------

    def up(self, what: Callable[[], object]) -> None:
        net, loop = self.net, self.net.loop
        if net.cables and net.is_cut(self.client.process, self.server, UP):
            self.held_up.append(what)
            net.hold(self)
            return
        self._last_up_s = max(self._last_up_s, loop.now_s + net.delay_s(self.client.process))
        loop.after(self._last_up_s - loop.now_s, lambda: self._arrive(what))

    def _arrive(self, what: Callable[[], object]) -> None:
        """At the server; what its session asked before is done first."""
        loop = self.net.loop
        if loop.now_s < self.busy_until_s:
            loop.after(self.busy_until_s - loop.now_s, lambda: self._arrive(what))
        else:
            what()

    def down(self, what: Callable[[], object]) -> None:
        net, loop = self.net, self.net.loop
        if net.cables and net.is_cut(self.client.process, self.server, DOWN):
            self.held_down.append(what)
            net.hold(self)
            return
        self._last_down_s = max(self._last_down_s, loop.now_s + net.delay_s(self.client.process))
        loop.after(self._last_down_s - loop.now_s, lambda: self._receive(what), self.client.process)

    def _receive(self, what: Callable[[], object]) -> None:
        if self.open_client:
            self.client.heard_s = self.client.boot_s()
            what()

    # -- the server's side -----------------------------------------------------------------------------------------

    def handshake(self, resume: tuple[int, bytes] | None, timeout_s: float, last_zxid: int) -> None:
        ensemble = self.net.ensemble
        if not self.open_client:
            return
        if not ensemble.serves(self.server) or ensemble.zxid(self.server) < last_zxid:
            self.down(lambda: self.client.refused(self))
            return
        self.open_server = True
        self.server.connections[self] = None
        self.session = (
            ensemble.open_session(timeout_s, self) if resume is None else ensemble.resume_session(resume, self)
        )
        granted = None if self.session is None else self.session.session
        self.down(lambda: self.client.granted(self, granted))

    def serve(self, request: Request) -> None:
        """Requests of a connection that was closed, or whose session has moved, come to nothing."""
        granted, ensemble = self.session, self.net.ensemble
        if not self.open_server or granted is None or granted.over or granted.connection is not self:
            return
        ensemble.touch(self.server, granted)
        if request.tx is None and not request.is_sync:
            self._answer(request, request.read(self) if request.read is not None else None)
        elif self.server.cut:
            self.server.held.append(lambda: self.serve(request))
        elif not ensemble.quorum:
            pass                                 # its connections are about to be dropped
        elif request.tx is None:
            self._when_applied(lambda: self._answer(request, None))
        else:
            self._write(request, request.tx, granted)

    def _write(self, request: Request, tx: Transaction, granted: Granted) -> None:
        spoilt = bool(self.net.cables) and self.net.spoils(self.client.process)
        if spoilt and self.net.random.random() < 0.5:
            self.closed_by_server()
            return
        try:
            result: Any = self.net.ensemble.commit(granted, tx)
        except SupervisorError as error:
            result = error
        if spoilt:
            self.closed_by_server()
            return
        self._when_applied(lambda: self._answer(request, result))

    def _when_applied(self, then: Callable[[], object]) -> None:
        """Once this server has applied all that was committed up to now."""
        loop, server = self.net.loop, self.server
        at_s = loop.now_s if server is self.net.ensemble.leader else server.last_apply_s
        if at_s <= loop.now_s:
            then()
        else:
            self.busy_until_s = at_s + 1e-9
            loop.after(at_s - loop.now_s, then)

    def _answer(self, request: Request, result: Any) -> None:
        zxid = self.net.ensemble.zxid(self.server)
        self.down(lambda: self.client.answered(self, request, result, zxid))

    def gone(self) -> None:
        """The client has left."""
        if self.open_server:
            self.open_server = False
            self.server.connections.pop(self, None)
            if self.session is not None and self.session.connection is self:
                self.session.connection = None

    def closed_by_server(self) -> None:
        was_open = self.open_server
        self.gone()
        if was_open:
            self.down(lambda: self.client.dropped(self))

    def watch_fired(self, kind: str, path: str) -> None:
        self.down(lambda: self.client.fire(kind, path))


@dataclass(eq=False)
class Request:
    """``done``: gets the result or a SupervisorError, once. ``lost``: what it is when there is no answer."""

    what: str
    lost: type[SupervisorError]
    done: Callable[[Any], None]
    sent_s: float
    tx: Transaction | None = None
    read: Callable[[Conn], Any] | None = None
    is_sync: bool = False
    settled: bool = False


class SimClient:
    """As ``supervisor.clients.zookeeper.ZooClient``; made by the process that is running just now."""

    def __init__(
        self, net: Network, hosts: str, session_timeout_s: float, *, on_link: Callable[[Link], None] | None = None,
        request_timeout_s: float = 5.0, resume: tuple[int, bytes] | None = None,
    ) -> None:
        self.net = net
        self.loop = net.loop
        self.process: Process = net.loop.process
        self.link = Link.SUSPENDED
        self.session: Session | None = None
        self.last_success_s = 0.0
        self.last_zxid = 0
        self.heard_s = 0.0
        self._timeout_s = session_timeout_s
        self._request_timeout_s = request_timeout_s
        self._on_link = on_link
        self._resume = resume
        self._conn: Conn | None = None
        self._trying: Conn | None = None
        self._order: list[Server] = []
        self._started = self._closing = self._closed_in_order = False
        self._asked_s = self._sent_s = 0.0
        self._pending: dict[Request, None] = {}
        self._watches: dict[tuple[str, str], dict[Callable[[], None], None]] = {}
        self._waiting: list[tuple[Fiber, int]] = []

    def boot_s(self) -> float:
        return self.process.clock.boottime_s(self.loop.now_s)

    # -- the session -----------------------------------------------------------------------------------------------

    def start(self) -> None:
        if not self._started and self.link is Link.SUSPENDED:
            self._started = True
            self._try_next()

    def wait_connected(self, timeout_s: float) -> None:
        until_s = self.boot_s() + timeout_s
        while self.link is Link.SUSPENDED:
            left_s = until_s - self.boot_s()
            if left_s <= 0:
                raise Unreachable(f"ZooKeeper did not answer within {timeout_s:g} s")
            self._waiting.append(self.loop.ticket())
            self.loop.wait(left_s)
        if self.link is not Link.CONNECTED:
            raise Unreachable(f"the session with ZooKeeper is {self.link}")

    def close(self, timeout_s: float = 2.0) -> bool:
        self._closing = True
        if self.link is Link.CONNECTED:
            self._send_close()
        until_s = self.boot_s() + timeout_s
        while self._started and self.session is not None and self.link not in (Link.LOST, Link.CLOSED):
            left_s = until_s - self.boot_s()
            if left_s <= 0:
                break
            self._waiting.append(self.loop.ticket())
            self.loop.wait(left_s)
        known = self._resume is not None or self.session is not None
        in_time = self._closed_in_order or not known or self.link is Link.LOST
        if self.link not in (Link.LOST, Link.CLOSED):
            self._leave(Link.CLOSED)
        return in_time

    def _send_close(self) -> None:
        conn = self._conn
        assert conn is not None

        def end() -> None:
            granted = conn.session
            if granted is None or granted.connection is not conn or not conn.open_server:
                return
            ensemble = self.net.ensemble
            if conn.server.cut or not ensemble.quorum:
                return
            granted.connection = None
            ensemble.end_session(granted)
            conn.down(self._closed)

        conn.up(end)

    def _closed(self) -> None:
        self._closed_in_order = True
        self._leave(Link.CLOSED)

    # -- reads -----------------------------------------------------------------------------------------------------

    def sync(self) -> None:
        self._wait(lambda done: self._ask("sync", Unreachable, done, is_sync=True), "sync", Unreachable)

    def read(self, path: str, watch: Callable[[], None] | None = None) -> Node | None:
        def read(conn: Conn) -> Node | None:
            node = self.net.ensemble.read(conn.server, path)
            if node is not None and watch is not None:
                self.net.ensemble.watch(conn.server, "data", path, conn)
            return node

        if watch is not None:
            self._watches.setdefault(("data", path), {})[watch] = None
        node: Node | None = self._wait(lambda done: self._ask(path, Unreachable, done, read=read), path, Unreachable)
        if node is None and watch is not None:
            self._watches.get(("data", path), {}).pop(watch, None)
        return node

    def watch_exists(self, path: str, watch: Callable[[], None]) -> Node | None:
        def read(conn: Conn) -> Node | None:
            self.net.ensemble.watch(conn.server, "data", path, conn)
            return self.net.ensemble.read(conn.server, path)

        self._watches.setdefault(("data", path), {})[watch] = None
        node: Node | None = self._wait(lambda done: self._ask(path, Unreachable, done, read=read), path, Unreachable)
        return node

    def children(self, path: str, watch: Callable[[], None] | None = None) -> tuple[str, ...] | None:
        def read(conn: Conn) -> tuple[str, ...] | None:
            names = self.net.ensemble.children(conn.server, path)
            if names is not None and watch is not None:
                self.net.ensemble.watch(conn.server, "kids", path, conn)
            return names

        if watch is not None:
            self._watches.setdefault(("kids", path), {})[watch] = None
        names: tuple[str, ...] | None = self._wait(
            lambda done: self._ask(path, Unreachable, done, read=read), path, Unreachable,
        )
        return names

    def read_many(self, paths: Sequence[str]) -> Reads:
        reads: Reads = self._wait(lambda done: self.read_many_async(paths, done), "reads", Unreachable)
        return reads

    def read_many_async(self, paths: Sequence[str], done: Callable[[Reads | SupervisorError], None]) -> None:
        """In requests of a few paths, which may be answered from different moments."""
        sent_s = self.boot_s()
        if not paths:
            done(Reads((), sent_s, sent_s))
            return
        size = self.net.chunk
        chunks = [tuple(paths[first : first + size]) for first in range(0, len(paths), size)]
        found: list[Node | None] = []
        left = [len(chunks)]

        def answered(nodes: Any) -> None:
            if left[0] <= 0:
                return
            if isinstance(nodes, SupervisorError):
                left[0] = 0
                done(nodes)
                return
            found.extend(nodes)
            left[0] -= 1
            if left[0] == 0:
                if self.net.on_read is not None:
                    self.net.on_read(self.process, paths, found)
                done(Reads(tuple(found), sent_s, self.boot_s()))

        for chunk in chunks:
            self._ask("reads", Unreachable, answered, read=partial(self._read_chunk, chunk))

    def _read_chunk(self, paths: tuple[str, ...], conn: Conn) -> list[Node | None]:
        read, server = self.net.ensemble.read, conn.server
        return [read(server, path) for path in paths]

    # -- writes ----------------------------------------------------------------------------------------------------

    def commit(self, tx: Transaction) -> Committed:
        committed: Committed = self._wait(lambda done: self.commit_async(tx, done), tx.what, OutcomeUnknown)
        return committed

    def commit_async(self, tx: Transaction, done: Callable[[Committed | SupervisorError], None]) -> None:
        if not tx.ops:
            done(InvalidInput(f"the transaction {tx.what} has no operations"))
            return
        sent_s = self.boot_s()

        def answered(result: Any) -> None:
            done(Committed(sent_s, result) if isinstance(result, tuple) else result)

        self._ask(tx.what, OutcomeUnknown, answered, tx=tx)

    # -- requests --------------------------------------------------------------------------------------------------

    def _ask(
        self, what: str, lost: type[SupervisorError], done: Callable[[Any], None], *, tx: Transaction | None = None,
        read: Callable[[Conn], Any] | None = None, is_sync: bool = False,
    ) -> None:
        conn = self._conn
        if self.link is not Link.CONNECTED or self._closing or conn is None:
            done(NotSent(f"{what} was not sent: the ZooKeeper session is {self.link}"))
            return
        request = Request(what, lost, done, self.boot_s(), tx, read, is_sync)
        self._pending[request] = None
        self._sent_s = request.sent_s
        conn.up(lambda: conn.serve(request))
        self.loop.after(self._request_timeout_s, lambda: self._overdue(request), self.process)

    def answered(self, conn: Conn, request: Request, result: Any, zxid: int) -> None:
        self.last_zxid = max(self.last_zxid, zxid)
        self.last_success_s = max(self.last_success_s, request.sent_s)
        self._settle(request, result)

    def _settle(self, request: Request, result: Any) -> None:
        self._pending.pop(request, None)
        if not request.settled:
            request.settled = True
            request.done(result)

    def _overdue(self, request: Request) -> None:
        if request.settled:
            return
        if self.heard_s < request.sent_s and self._conn is not None:
            self._drop()
        else:
            self._settle(request, request.lost(f"no answer to {request.what} within {self._request_timeout_s:g} s"))

    def _wait(self, start: Callable[[Callable[[Any], None]], None], what: str, too_late: type[SupervisorError]) -> Any:
        results: list[Any] = []
        ticket = self.loop.ticket()
        waits = [False]

        def done(result: Any) -> None:
            results.append(result)
            if waits[0]:
                self.loop.wake(ticket)

        start(done)
        if not results:
            waits[0] = True
            self.loop.wait(self._request_timeout_s * 2 + 1.0)
        if not results:
            raise too_late(f"ZooKeeper did not answer {what} in time")
        if isinstance(results[0], SupervisorError):
            raise results[0]
        return results[0]

    # -- the connection --------------------------------------------------------------------------------------------

    def _try_next(self) -> None:
        if self.link is not Link.SUSPENDED or self._trying is not None:
            return
        if not self._order:
            self._order = list(self.net.ensemble.servers)
            self.net.random.shuffle(self._order)
        server = self._order.pop()
        conn = self._trying = Conn(self, server)
        if not server.up:
            self.loop.after(0.002, lambda: self.refused(conn), self.process)
            return
        resume = (self.session.id, self.session.password) if self.session is not None else self._resume
        self._asked_s = self.boot_s()
        last_zxid = self.last_zxid
        conn.up(lambda: conn.handshake(resume, self._timeout_s, last_zxid))
        self.loop.after(max(0.5, self._timeout_s / 10), lambda: self.refused(conn), self.process)

    def refused(self, conn: Conn) -> None:
        """Or no answer in time."""
        if conn is not self._trying:
            return
        self._trying = None
        self._abandon(conn)
        pause_s = 0.01 if self._order else self.net.random.uniform(0.1, 1.0)
        self.loop.after(pause_s, self._try_next, self.process)

    def granted(self, conn: Conn, session: Session | None) -> None:
        if conn is not self._trying:
            return
        self._trying, self._order = None, []
        if session is None:
            self._abandon(conn)
            self._leave(Link.LOST)
            return
        self._conn = conn
        self.session = session
        self.last_success_s, self._sent_s = self._asked_s, self.boot_s()
        self.link = Link.CONNECTED
        if self._closing:
            self._send_close()
        self._announce()
        self._look_after(conn)

    def _look_after(self, conn: Conn) -> None:
        """Pings, and the read time-out of two thirds of the session time."""
        if conn is not self._conn or self.session is None:
            return
        now_s, third_s = self.boot_s(), self.session.timeout_s / 3
        if now_s - self.heard_s >= 2 * third_s - 1e-6:
            self._drop()
            return
        if now_s - self._sent_s >= third_s - 1e-6:
            self._sent_s = now_s

            def ping() -> None:
                granted = conn.session
                if conn.open_server and granted is not None and granted.connection is conn:
                    self.net.ensemble.touch(conn.server, granted)
                    conn.down(lambda: None)

            conn.up(ping)
        due_s = min(self._sent_s + third_s, self.heard_s + 2 * third_s)
        self.loop.after(max(0.01, due_s - now_s), lambda: self._look_after(conn), self.process)

    def dropped(self, conn: Conn) -> None:
        """The server has closed the connection."""
        if conn is self._conn:
            self._drop()
        elif conn is self._trying:
            self.refused(conn)

    def _drop(self) -> None:
        conn, self._conn = self._conn, None
        if conn is not None:
            self._abandon(conn)
        if self.link is Link.CONNECTED:
            self.link = Link.SUSPENDED
            self._drain()
            self._announce()
            self.loop.after(self.net.random.uniform(0.001, 0.1), self._try_next, self.process)

    def _abandon(self, conn: Conn) -> None:
        conn.open_client = False
        if conn.open_server and not self.net.is_cut(self.process, conn.server, UP):
            conn.up(conn.gone)
        elif conn.open_server:
            self.net.hold(conn)

    def _leave(self, link: Link) -> None:
        if self.link in (Link.LOST, Link.CLOSED):
            return
        self.link = link
        for conn in (self._conn, self._trying):
            if conn is not None:
                self._abandon(conn)
        self._conn = self._trying = None
        self._drain()
        self._announce()

    def _drain(self) -> None:
        pending, self._pending = self._pending, {}
        watches, self._watches = self._watches, {}
        for request in pending:
            self._settle(request, request.lost(f"no answer to {request.what}: the connection was lost"))
        for callbacks in watches.values():
            for watch in callbacks:
                watch()

    def fire(self, kind: str, path: str) -> None:
        for watch in self._watches.pop((kind, path), {}):
            watch()

    def _announce(self) -> None:
        if self._on_link is not None:
            self._on_link(self.link)
        waiting, self._waiting = self._waiting, []
        for ticket in waiting:
            self.loop.wake(ticket)

    def process_died(self) -> None:
        """The kernel closes its sockets."""
        for conn in (self._conn, self._trying):
            if conn is not None:
                self._abandon(conn)
        self._conn = self._trying = None


__all__ = ["Cable", "Conn", "GuardFailed", "Network", "SimClient"]
