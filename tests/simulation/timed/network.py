"""The network between the processes and the servers of ZooKeeper: connections, and what becomes of messages.

A message is late; it is held back by a cut (one way or both) and delivered when the cut is repaired, also after its client has
given up; or it goes down with its connection, before or after it took effect.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from supervisor.errors import SupervisorError
from supervisor.model.transaction import Node, Transaction
from tests.simulation.timed.ensemble import Ensemble, Granted, Server
from tests.simulation.timed.loop import Process, SimulatedLoop

if TYPE_CHECKING:
    from tests.simulation.timed.client import SimClient

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

    def __init__(self, loop: SimulatedLoop, ensemble: Ensemble, chunk: int) -> None:
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

    def repaired(self) -> None:
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
        self.busy_until_at_s = 0.0
        self.held_up: list[Callable[[], object]] = []
        self.held_down: list[Callable[[], object]] = []
        self._last_up_at_s = self._last_down_at_s = 0.0

    # -- messages --------------------------------------------------------------------------------------------------

    def up(self, what: Callable[[], object]) -> None:
        net, loop = self.net, self.net.loop
        if net.cables and net.is_cut(self.client.process, self.server, UP):
            self.held_up.append(what)
            net.hold(self)
            return
        self._last_up_at_s = max(self._last_up_at_s, loop.now_s + net.delay_s(self.client.process))
        loop.after(self._last_up_at_s - loop.now_s, lambda: self._arrive(what))

    def _arrive(self, what: Callable[[], object]) -> None:
        """At the server; what its session asked before is done first."""
        loop = self.net.loop
        if loop.now_s < self.busy_until_at_s:
            loop.after(self.busy_until_at_s - loop.now_s, lambda: self._arrive(what))
        else:
            what()

    def down(self, what: Callable[[], object]) -> None:
        net, loop = self.net, self.net.loop
        if net.cables and net.is_cut(self.client.process, self.server, DOWN):
            self.held_down.append(what)
            net.hold(self)
            return
        self._last_down_at_s = max(self._last_down_at_s, loop.now_s + net.delay_s(self.client.process))
        loop.after(self._last_down_at_s - loop.now_s, lambda: self._receive(what), self.client.process)

    def _receive(self, what: Callable[[], object]) -> None:
        if self.open_client:
            if self.session is not None:  # being turned away is no word from ZooKeeper
                self.client.heard_at_s = self.client.boot_s()
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
            ensemble.open_session(timeout_s, self)
            if resume is None
            else ensemble.resume_session(resume, self)
        )
        granted = None if self.session is None else self.session.session
        self.down(lambda: self.client.granted(self, granted))

    def serve(self, request: SimulatedRequest) -> None:
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
            pass  # its connections are about to be dropped
        elif request.tx is None:
            self._when_applied(lambda: self._answer(request, None))
        else:
            self._write(request, request.tx, granted)

    def _write(self, request: SimulatedRequest, tx: Transaction, granted: Granted) -> None:
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
        at_s = loop.now_s if server is self.net.ensemble.leader else server.last_apply_at_s
        if at_s <= loop.now_s:
            then()
        else:
            self.busy_until_at_s = at_s + 1e-9
            loop.after(at_s - loop.now_s, then)

    def _answer(self, request: SimulatedRequest, result: Any) -> None:
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
class SimulatedRequest:
    """``done``: gets the result or a SupervisorError, once. ``lost``: what it is when there is no answer."""

    what: str
    lost: type[SupervisorError]
    done: Callable[[Any], None]
    sent_at_s: float
    tx: Transaction | None = None
    read: Callable[[Conn], Any] | None = None
    is_sync: bool = False
    settled: bool = False
