"""ZooKeeper as an ensemble on virtual time: sessions that expire, followers that lag, a quorum that can be lost.

The tree, its versions and the multi are ``tests.fakes.zookeeper_tree``, which the contract suite holds to real ZooKeeper.
What is added here is time: each server shows the state it has applied by now; a watch fires when its server
applies the change; a session lives as long as its touches reach the quorum. A server that is cut off from the quorum
goes on answering pings and reads for a while (zookeeper.md M1), and what it forwards may be applied when it is back.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Protocol

from supervisor.clients.zookeeper import Session
from supervisor.model.transaction import ANY_VERSION, Check, Create, Delete, Node, Transaction
from tests.fakes.zookeeper_tree import Tree
from tests.simulation.timed.loop import SimulatedLoop

TICK_S = 1.0
KEPT = 40
LOST_S = float("inf")


class ServerConnection(Protocol):
    """A client's connection as its server sees it."""

    session: Granted | None

    def closed_by_server(self) -> None: ...
    def watch_fired(self, kind: str, path: str) -> None: ...


@dataclass(eq=False)
class Granted:
    """A session. ``early``: it may end so much before its time (zookeeper.md M2: 8.3 s after a write, of 10)."""

    session: Session
    touched_at_s: float
    early: float
    connection: ServerConnection | None = None
    over: bool = False


@dataclass(eq=False)
class Server:
    """``applies``: (when, number) of transactions on their way to it. ``lag_s``: how late they are."""

    number: int
    up: bool = True
    cut: bool = False  # from the quorum
    refuses: bool = False  # it has noticed, and serves nobody
    lag_s: float = 0.002
    applied: int = 0
    applies: list[tuple[float, int]] = field(default_factory=list)
    last_apply_at_s: float = 0.0
    held: list[Callable[[], object]] = field(default_factory=list)
    data: dict[str, dict[ServerConnection, None]] = field(default_factory=dict)
    kids: dict[str, dict[ServerConnection, None]] = field(default_factory=dict)
    connections: dict[ServerConnection, None] = field(default_factory=dict)


@dataclass(frozen=True)
class Snapshot:
    tree: Tree
    sessions: tuple[int, ...]
    doorbell_version: int


class Ensemble:
    """``on_commit(session, transaction)`` is told of everything that was applied, in order."""

    def __init__(
        self, loop: SimulatedLoop, servers: int, on_commit: Callable[[int, Transaction], None]
    ) -> None:
        self.loop = loop
        self.tree = Tree()
        self.servers = [Server(number) for number in range(servers)]
        self.leader = self.servers[0]
        self.electing = False
        self.leaderless: list[list[float]] = []  # from, to; the last one may have no end yet
        self.sessions: dict[int, Granted] = {}
        self.number = 0  # of the latest transaction; never goes back, unlike the zxid
        self.commits = 0
        self._zxids = [0]
        self._on_commit = on_commit
        self._nodes: dict[str, list[tuple[int, Node | None]]] = {}
        self._names: dict[str, list[tuple[int, tuple[str, ...] | None]]] = {}
        self._made = 0

    # -- what is there ---------------------------------------------------------------------------------------------

    @property
    def quorum(self) -> bool:
        working = sum(1 for server in self.servers if server.up and not server.cut)
        return not self.electing and working * 2 > len(self.servers)

    def serves(self, server: Server) -> bool:
        """Would it take a new connection?"""
        return server.up and not server.cut and self.quorum

    def read(self, server: Server, path: str) -> Node | None:
        self._apply_due(server)
        found = _as_of(self._nodes, path, server.applied)
        node: Node | None = found
        return node

    def children(self, server: Server, path: str) -> tuple[str, ...] | None:
        self._apply_due(server)
        names: tuple[str, ...] | None = _as_of(self._names, path, server.applied)
        return names

    def zxid(self, server: Server) -> int:
        """Of the newest transaction that the server has applied."""
        self._apply_due(server)
        return self._zxids[server.applied]

    # -- writes ----------------------------------------------------------------------------------------------------

    def commit(self, granted: Granted, tx: Transaction) -> tuple[int | None, ...]:
        """At the leader, now. Raises GuardFailed."""
        return self._apply(granted.session.id, tx)

    def found(self, tx: Transaction) -> None:
        """Written before the world begins, or by hand."""
        self._apply(0, tx)

    def _apply(self, session: int, tx: Transaction) -> tuple[int | None, ...]:
        versions = self.tree.apply(tx, session)
        self.number += 1
        self._zxids.append(self.tree.zxid)
        self.commits += 1
        touched = self._record(tx)
        self._on_commit(session, tx)
        self._send_to_servers(touched)
        return versions

    def _record(self, tx: Transaction) -> tuple[dict[str, None], dict[str, None]]:
        paths: dict[str, None] = {}
        parents: dict[str, None] = {}
        for op in tx.ops:
            if isinstance(op, Check):
                continue
            paths[op.path] = None
            if isinstance(op, Create | Delete):
                parents[op.path.rpartition("/")[0] or "/"] = None
        changed: dict[str, None] = {}
        listed: dict[str, None] = {}
        for path in paths:
            node = self.tree.read(path)
            if _newest(self._nodes, path) is None and node is None:
                continue  # made and deleted at once: nobody sees it
            self._keep(self._nodes, path, node)
            changed[path] = None
            if node is None:
                self._keep(self._names, path, None)
            elif path not in self._names or _newest(self._names, path) is None:
                self._keep(self._names, path, ())
        for parent in parents:
            if parent == "/":
                continue
            names = self.tree.children(parent)
            if names != _newest(self._names, parent):
                self._keep(self._names, parent, names)
                self._keep(self._nodes, parent, self.tree.read(parent))
                listed[parent] = None
        return changed, listed

    def _keep(self, table: dict[str, list[tuple[int, Any]]], path: str, value: Any) -> None:
        kept = table.setdefault(path, [])
        kept.append((self.number, value))
        if len(kept) > KEPT:
            oldest = (
                min(server.applied for server in self.servers if server.up)
                if any(s.up for s in self.servers)
                else 0
            )
            first = 0
            while first + 1 < len(kept) and kept[first + 1][0] <= oldest:
                first += 1
            del kept[:first]

    def _send_to_servers(self, touched: tuple[dict[str, None], dict[str, None]]) -> None:
        now_s, number = self.loop.now_s, self.number
        for server in self.servers:
            if not server.up:
                continue
            if server is self.leader:
                self._apply_due(server)
                server.applied, server.last_apply_at_s = number, now_s
            else:
                at_s = LOST_S if server.cut else max(server.last_apply_at_s, now_s + server.lag_s)
                if not server.cut:
                    server.last_apply_at_s = at_s
                server.applies.append((at_s, number))
            self._fire(server, touched, 0.0 if server is self.leader else server.last_apply_at_s - now_s)

    def _apply_due(self, server: Server) -> None:
        now_s, applies = self.loop.now_s, server.applies
        done = 0
        while done < len(applies) and applies[done][0] <= now_s:
            server.applied = applies[done][1]
            done += 1
        if done:
            del applies[:done]

    # -- watches ---------------------------------------------------------------------------------------------------

    def watch(self, server: Server, kind: str, path: str, connection: ServerConnection) -> None:
        """``kind``: data or kids. Fires once, when the server applies a change."""
        (server.data if kind == "data" else server.kids).setdefault(path, {})[connection] = None

    def _fire(self, server: Server, touched: tuple[dict[str, None], dict[str, None]], after_s: float) -> None:
        changed, listed = touched
        fired: list[tuple[ServerConnection, str, str]] = []
        for path in changed:
            if path in server.data:
                fired += [(connection, "data", path) for connection in server.data.pop(path)]
        for path in {**listed, **changed}:
            if path in server.kids and (path in listed or _newest(self._names, path) is None):
                fired += [(connection, "kids", path) for connection in server.kids.pop(path)]
        if not fired:
            return

        def deliver() -> None:
            for connection, kind, path in fired:
                if connection in server.connections:
                    connection.watch_fired(kind, path)

        if server.cut:
            server.held.append(deliver)
        else:
            self.loop.after(max(0.0, after_s), deliver)

    # -- sessions --------------------------------------------------------------------------------------------------

    def open_session(self, timeout_s: float, connection: ServerConnection) -> Granted:
        self._made += 1
        session = Session(0x1000000 + self._made, self._made.to_bytes(16, "big"), timeout_s)
        early = self.loop.random.choice([0.0, 0.0, self.loop.random.uniform(0.0, 0.17)])
        granted = Granted(session, self.loop.now_s, early, connection)
        self.sessions[session.id] = granted
        self._expect(granted)
        return granted

    def resume_session(self, resume: tuple[int, bytes], connection: ServerConnection) -> Granted | None:
        """None: it is gone. Whoever had it before is cut off."""
        granted = self.sessions.get(resume[0])
        if granted is None or granted.over or granted.session.password != resume[1]:
            return None
        before, granted.connection = granted.connection, connection
        if before is not None and before is not connection:
            before.closed_by_server()
        granted.touched_at_s = self.loop.now_s
        return granted

    def end_session(self, granted: Granted) -> None:
        if granted.over:
            return
        granted.over = True
        self._forget(granted.session.id)
        self.loop.note(f"session {granted.session.id:x} is over")
        if granted.connection is not None:
            granted.connection.closed_by_server()

    def touch(self, server: Server, granted: Granted) -> None:
        """A follower tells the leader of its sessions once a tick, which ``early`` stands for."""
        if not server.cut:
            granted.touched_at_s = self.loop.now_s

    def _expect(self, granted: Granted) -> None:
        due_at_s = granted.touched_at_s + granted.session.timeout_s * (1 - granted.early)
        if due_at_s > self.loop.now_s:
            self.loop.after(due_at_s - self.loop.now_s + 1e-6, lambda: self._check(granted))
        else:
            self.end_session(granted)

    def _check(self, granted: Granted) -> None:
        if granted.over:
            return
        if not self.quorum:
            granted.touched_at_s = self.loop.now_s
        self._expect(granted)

    def _give_everybody_time(self) -> None:
        for granted in self.sessions.values():
            granted.touched_at_s = self.loop.now_s

    # -- faults ----------------------------------------------------------------------------------------------------

    def take_down(self, server: Server) -> None:
        """It crashes, or is stopped for good."""
        if not server.up:
            return
        server.up = False
        self._drop_connections(server)
        self._reelect(server)

    def bring_up(self, server: Server) -> None:
        server.up = True
        self._catch_up(server)

    def cut_off(self, server: Server) -> None:
        """From its peers, not from its clients. It notices only after a while."""
        if server.cut:
            return
        server.cut = True
        patience_s = self.loop.random.uniform(1.0, 5.0) * TICK_S

        def notice() -> None:
            if server.cut and server.up:
                server.refuses = True
                self._drop_connections(server)

        self.loop.after(patience_s, notice)
        self._reelect(server)

    def repair(self, server: Server) -> None:
        server.cut = False
        noticed, server.refuses = server.refuses, False
        held, server.held = server.held, []
        self._catch_up(server)
        if noticed:
            return
        for number, what in enumerate(held):  # what it had been asked, and what it has to tell
            self.loop.after(0.001 * (number + 1), what)

    def set_lag(self, server: Server, lag_s: float) -> None:
        server.lag_s = lag_s

    def _catch_up(self, server: Server) -> None:
        server.applies = [(self.loop.now_s + 0.001, self.number)]
        server.last_apply_at_s = self.loop.now_s + 0.001
        if not self.serves(self.leader) or server is not self.leader and not self.leader.up:
            self._reelect(self.leader)

    def _drop_connections(self, server: Server) -> None:
        server.data.clear()
        server.kids.clear()
        connections, server.connections = server.connections, {}
        for connection in connections:
            connection.closed_by_server()

    def _reelect(self, lost: Server) -> None:
        """Without its leader the ensemble drops every client and votes; the new leader gives each session its full time."""
        if lost is not self.leader and sum(1 for s in self.servers if s.up and not s.cut) * 2 > len(
            self.servers
        ):
            return
        if self.electing:
            return
        self._stop_leading()
        for server in self.servers:
            if server is not lost or not server.up:
                self.loop.after(self.loop.random.uniform(0.0, 0.3), partial(self._drop_if_voting, server))
        self.loop.after(self.loop.random.uniform(0.2, 1.5), self._vote)

    def _stop_leading(self) -> None:
        self.electing = True
        self.leaderless.append([self.loop.now_s, LOST_S])

    def _drop_if_voting(self, server: Server) -> None:
        if self.electing:
            self._drop_connections(server)

    def _vote(self) -> None:
        able = [server for server in self.servers if server.up and not server.cut]
        if len(able) * 2 <= len(self.servers):
            self.loop.after(0.3, self._vote)
            return
        self.electing = False
        self.leaderless[-1][1] = self.loop.now_s
        for server in able:
            self._drop_connections(server)
            server.applied, server.applies, server.last_apply_at_s = self.number, [], self.loop.now_s
        self.leader = self.loop.random.choice(able)
        self._give_everybody_time()
        self.loop.note(f"ZooKeeper server {self.leader.number} leads")

    # -- restore ---------------------------------------------------------------------------------------------------

    def take_snapshot(self, doorbell_version: int) -> Snapshot:
        """``doorbell_version``: version of the doorbell then."""
        alive = tuple(number for number, granted in self.sessions.items() if not granted.over)
        return Snapshot(self.tree.copy(), alive, doorbell_version)

    def restore(self, snapshot: Snapshot, higher: bool) -> None:
        """Every server comes up with older data. ``higher``: and goes on with zxids above all that anybody has seen.

        Sessions that the snapshot knows live on; those whose clients are gone run out.
        """
        for server in self.servers:
            self._drop_connections(server)
            server.up, server.cut, server.refuses = True, False, False
            server.held.clear()
        known = set(snapshot.sessions)
        for number, granted in self.sessions.items():
            granted.over |= number not in known
        zxid = self.tree.zxid + (1 << 32) if higher else snapshot.tree.zxid + 1
        self.tree = snapshot.tree.copy()
        self.tree.zxid = zxid
        self.number += 1
        self._zxids.append(zxid)
        for path in {**self._nodes, **self.tree.nodes}:
            self._keep(self._nodes, path, self.tree.read(path))
            self._keep(self._names, path, self.tree.children(path))
        if not self.electing:
            self._stop_leading()
        self._vote()
        for number in sorted({node.owner for node in self.tree.nodes.values() if node.owner}):
            if self.sessions[number].over:
                timeout_s = self.sessions[number].session.timeout_s
                self.loop.after(timeout_s, lambda number=number: self._forget(number))  # type: ignore[misc]

    def _forget(self, session: int) -> None:
        """Its ephemerals go."""
        owned = self.tree.ephemerals(session)
        if owned:
            self._apply(
                0, Transaction("end of session", "", tuple(Delete(path, ANY_VERSION) for path in owned))
            )


def _newest(table: dict[str, list[tuple[int, Any]]], path: str) -> Any:
    kept = table.get(path)
    return kept[-1][1] if kept else None


def _as_of(table: dict[str, list[tuple[int, Any]]], path: str, number: int) -> Any:
    kept = table.get(path)
    if kept is None:
        return None
    for at, value in reversed(kept):
        if at <= number:
            return value
    return None


__all__ = ["Ensemble", "Granted", "Server", "ServerConnection", "Snapshot"]
