"""The face of ``ZooClient`` on the simulated network.

What is modelled is what ``clients/zookeeper_session.py`` promises: a request leaves at once or not at all; one that is not
answered in time ends the connection if nothing else was heard; a lost session is lost for good; answers come in order.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from supervisor.clients.zookeeper import Committed, Link, Reads, Session
from supervisor.errors import InvalidInput, NotSent, OutcomeUnknown, SupervisorError, Unreachable
from supervisor.model.transaction import Node, Transaction
from supervisor.model.zookeeper_access import OPEN_ACCESS, ZooKeeperAccess
from tests.simulation.timed.ensemble import Server
from tests.simulation.timed.loop import Fiber, Process
from tests.simulation.timed.network import UP, Conn, Network, SimulatedRequest


class SimClient:
    """As ``supervisor.clients.zookeeper.ZooClient``; made by the process that is running just now."""

    def __init__(
        self,
        net: Network,
        hosts: str,
        session_timeout_s: float,
        *,
        on_link: Callable[[Link], None] | None = None,
        request_timeout_s: float = 5.0,
        resume: tuple[int, bytes] | None = None,
        access: ZooKeeperAccess = OPEN_ACCESS,
    ) -> None:
        assert access == OPEN_ACCESS  # the simulated servers ask for no credentials
        self.net = net
        self.loop = net.loop
        self.process: Process = net.loop.process
        self.link = Link.SUSPENDED
        self.connections = 0
        self.session: Session | None = None
        self.last_success_at_s = 0.0
        self.last_zxid = self._claimed_zxid = 0
        self.heard_at_s = 0.0
        self._timeout_s = session_timeout_s
        self._request_timeout_s = request_timeout_s
        self._on_link = on_link
        self._resume = resume
        self._conn: Conn | None = None
        self._trying: Conn | None = None
        self._order: list[Server] = []
        self._started = self._closing = self._closed_in_order = False
        self._asked_at_s = self._sent_at_s = 0.0
        self._pending: dict[SimulatedRequest, None] = {}
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
        until_at_s = self.boot_s() + timeout_s
        while self.link is Link.SUSPENDED:
            left_s = until_at_s - self.boot_s()
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
        until_at_s = self.boot_s() + timeout_s
        while self._started and self.session is not None and self.link not in (Link.LOST, Link.CLOSED):
            left_s = until_at_s - self.boot_s()
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
        node: Node | None = self._wait(
            lambda done: self._ask(path, Unreachable, done, read=read), path, Unreachable
        )
        if node is None and watch is not None:
            self._watches.get(("data", path), {}).pop(watch, None)
        return node

    def watch_exists(self, path: str, watch: Callable[[], None]) -> Node | None:
        def read(conn: Conn) -> Node | None:
            self.net.ensemble.watch(conn.server, "data", path, conn)
            return self.net.ensemble.read(conn.server, path)

        self._watches.setdefault(("data", path), {})[watch] = None
        node: Node | None = self._wait(
            lambda done: self._ask(path, Unreachable, done, read=read), path, Unreachable
        )
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
            lambda done: self._ask(path, Unreachable, done, read=read),
            path,
            Unreachable,
        )
        return names

    def read_many(self, paths: Sequence[str]) -> Reads:
        reads: Reads = self._wait(lambda done: self.read_many_async(paths, done), "reads", Unreachable)
        return reads

    def read_many_async(self, paths: Sequence[str], done: Callable[[Reads | SupervisorError], None]) -> None:
        """In requests of a few paths, which may be answered from different moments."""
        sent_at_s = self.boot_s()
        if not paths:
            done(Reads((), sent_at_s, sent_at_s))
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
                done(Reads(tuple(found), sent_at_s, self.boot_s()))

        for chunk in chunks:
            self._ask("reads", Unreachable, answered, read=partial(self._read_chunk, chunk))

    def _read_chunk(self, paths: tuple[str, ...], conn: Conn) -> list[Node | None]:
        read, server = self.net.ensemble.read, conn.server
        return [read(server, path) for path in paths]

    # -- writes ----------------------------------------------------------------------------------------------------

    def commit(self, tx: Transaction, connection: int | None = None) -> Committed:
        committed: Committed = self._wait(
            lambda done: self.commit_async(tx, done, connection), tx.what, OutcomeUnknown
        )
        return committed

    def commit_async(
        self,
        tx: Transaction,
        done: Callable[[Committed | SupervisorError], None],
        connection: int | None = None,
    ) -> None:
        if not tx.ops:
            done(InvalidInput(f"the transaction {tx.what} has no operations"))
            return
        if connection not in (None, self.connections):
            done(NotSent(f"connection {connection} is gone"))
            return
        sent_at_s = self.boot_s()

        def answered(result: Any) -> None:
            done(Committed(sent_at_s, result) if isinstance(result, tuple) else result)

        self._ask(tx.what, OutcomeUnknown, answered, tx=tx)

    # -- requests --------------------------------------------------------------------------------------------------

    def _ask(
        self,
        what: str,
        lost: type[SupervisorError],
        done: Callable[[Any], None],
        *,
        tx: Transaction | None = None,
        read: Callable[[Conn], Any] | None = None,
        is_sync: bool = False,
    ) -> None:
        conn = self._conn
        if self.link is not Link.CONNECTED or self._closing or conn is None:
            done(NotSent(f"{what} was not sent: the ZooKeeper session is {self.link}"))
            return
        request = SimulatedRequest(what, lost, done, self.boot_s(), tx, read, is_sync)
        self._pending[request] = None
        self._sent_at_s = request.sent_at_s
        conn.up(lambda: conn.serve(request))
        self.loop.after(self._request_timeout_s, lambda: self._overdue(request), self.process)

    def answered(self, conn: Conn, request: SimulatedRequest, result: Any, zxid: int) -> None:
        self.last_zxid = self._claimed_zxid = zxid
        self.last_success_at_s = max(self.last_success_at_s, request.sent_at_s)
        self._resolve(request, result)

    def _resolve(self, request: SimulatedRequest, result: Any) -> None:
        self._pending.pop(request, None)
        if not request.settled:
            request.settled = True
            request.done(result)

    def _overdue(self, request: SimulatedRequest) -> None:
        if request.settled:
            return
        if self.heard_at_s < request.sent_at_s and self._conn is not None:
            self._drop()
        else:
            self._resolve(
                request, request.lost(f"no answer to {request.what} within {self._request_timeout_s:g} s")
            )

    def _wait(
        self, start: Callable[[Callable[[Any], None]], None], what: str, too_late: type[SupervisorError]
    ) -> Any:
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
        self._asked_at_s = self.boot_s()
        if self.session is not None and self._asked_at_s - self.heard_at_s > self.session.timeout_s:
            self._claimed_zxid = 0
        claimed = self._claimed_zxid
        conn.up(lambda: conn.handshake(resume, self._timeout_s, claimed))
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
        self.last_success_at_s, self._sent_at_s = self._asked_at_s, self.boot_s()
        self.link = Link.CONNECTED
        self.connections += 1
        if self._closing:
            self._send_close()
        self._announce()
        self._keep_alive(conn)

    def _keep_alive(self, conn: Conn) -> None:
        """Pings, and the read time-out of two thirds of the session time."""
        if conn is not self._conn or self.session is None:
            return
        now_s, third_s = self.boot_s(), self.session.timeout_s / 3
        if now_s - self.heard_at_s >= 2 * third_s - 1e-6:
            self._drop()
            return
        if now_s - self._sent_at_s >= third_s - 1e-6:
            self._sent_at_s = now_s

            def ping() -> None:
                granted = conn.session
                if conn.open_server and granted is not None and granted.connection is conn:
                    self.net.ensemble.touch(conn.server, granted)
                    conn.down(lambda: None)

            conn.up(ping)
        due_at_s = min(self._sent_at_s + third_s, self.heard_at_s + 2 * third_s)
        self.loop.after(max(0.01, due_at_s - now_s), lambda: self._keep_alive(conn), self.process)

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
            self._resolve(request, request.lost(f"no answer to {request.what}: the connection was lost"))
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
