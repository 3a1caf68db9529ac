"""An ensemble in memory, and clients of it with the methods of ``supervisor.clients.zookeeper.ZooClient``.

For tests of what is above the client: no process, no thread, no waiting. Everything happens in the calling thread, in
order: a commit is applied, watches of all clients fire, then its ``done`` is called. ``test_zookeeper_contract.py``
holds this fake and the real client to the same behaviour. No follower lags: a read always shows the newest state.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any, TypeVar

from supervisor.clients.zookeeper import Committed, Link, Reads, Session
from supervisor.clock import boottime_s
from supervisor.errors import InvalidInput, NotSent, OutcomeUnknown, SupervisorError, Unreachable
from supervisor.model.transaction import ANY_VERSION, Check, Create, Delete, Node, Op, SetData, Transaction
from tests.fakes.zookeeper_tree import Tree
from tests.fakes.zookeeper_tree import Tree as Saved

T = TypeVar("T")
Watch = Callable[[], None]

FRAME_MAX_BYTES = 0xFFFFF - 1024
_OP_BYTES = 45


@dataclass
class _Granted:
    session: Session
    client: MemoryClient | None


class MemoryZoo:
    """The ensemble. ``log`` holds every transaction that was applied, with the id of its session, oldest first.

    Session 0 is the ensemble itself (``put``, ephemerals that go with their session).
    """

    def __init__(self) -> None:
        self.log: list[tuple[int, Transaction]] = []
        self._lock = threading.RLock()
        self._tree = Tree()
        self._sessions: dict[int, _Granted] = {}
        self._sessions_made = 0
        self._data_watches: dict[str, dict[tuple[MemoryClient, Watch], None]] = {}
        self._child_watches: dict[str, dict[tuple[MemoryClient, Watch], None]] = {}
        self._callbacks = _Callbacks()

    @property
    def zxid(self) -> int:
        return self._tree.zxid

    @zxid.setter
    def zxid(self, value: int) -> None:
        self._tree.zxid = value

    # -- for tests -------------------------------------------------------------------------------------------------

    def client(self, **arguments: Any) -> MemoryClient:
        """A started client of this ensemble."""
        client = MemoryClient(self, **arguments)
        client.start()
        return client

    def disconnect(self, client: MemoryClient) -> None:
        """The client is SUSPENDED until ``reconnect``; what it holds back is lost. Its session stays."""
        with self._lock:
            client._reachable = False
            self._callbacks.run(client._suspend())

    def reconnect(self, client: MemoryClient) -> None:
        """The client is CONNECTED again, or LOST if its session is gone."""
        with self._lock:
            client._reachable = True
            self._callbacks.run(client._connect())

    def expire(self, client: MemoryClient) -> None:
        """Server-side: the session ends and its ephemerals go. A client that is cut off hears it on ``reconnect``."""
        assert client.session is not None, "it has no session"
        self._end(client.session.id)

    def close_session(self, session_id: int, password: bytes) -> None:
        """As ``supervisor.clients.zookeeper.close_session``."""
        granted = self._sessions.get(session_id)
        if granted is not None and granted.session.password == password:
            self._end(session_id)

    def tree(self) -> dict[str, bytes]:
        """Every znode but the root."""
        with self._lock:
            return {path: node.data for path, node in sorted(self._tree.nodes.items()) if path != "/"}

    def put(self, path: str, data: bytes) -> None:
        """Create or overwrite a persistent node, with its parents, behind everybody's back (leftovers, corruption)."""
        with self._lock:
            parts = path.strip("/").split("/")
            parents = ["/" + "/".join(parts[:depth]) for depth in range(1, len(parts))]
            ops: list[Op] = [Create(parent, b"") for parent in parents if parent not in self._tree.nodes]
            ops.append(SetData(path, data, ANY_VERSION) if path in self._tree.nodes else Create(path, data))
            self._apply(Transaction("put", "", tuple(ops)), 0)

    def remove(self, path: str) -> None:
        """Delete a node behind everybody's back."""
        with self._lock:
            self._apply(Transaction("remove", "", (Delete(path, ANY_VERSION),)), 0)

    def snapshot(self) -> Saved:
        """What ``restore`` can bring back."""
        with self._lock:
            return self._tree.copy()

    def restore(self, saved: Saved, zxid: int | None = None) -> None:
        """The servers come up with older data. ``zxid``: where they go on; a new ZooKeeper epoch may well be higher."""
        with self._lock:
            self._tree = saved.copy()
            if zxid is not None:
                self._tree.zxid = zxid

    def skip_zxids(self, unwanted: Callable[[int], bool]) -> None:
        """Transactions of nobody here, until the next zxid is a wanted one."""
        with self._lock:
            while unwanted(self._tree.zxid + 1):
                self._tree.zxid += 1

    # -- for clients -----------------------------------------------------------------------------------------------

    def _attach(
        self, client: MemoryClient, timeout_s: float, resume: tuple[int, bytes] | None
    ) -> Session | None:
        """The session of a client that connects; None: the one it asks for is gone."""
        if resume is None:
            self._sessions_made += 1
            number = self._sessions_made
            session = Session(0x1000000 + number, number.to_bytes(16, "big"), timeout_s)
            self._sessions[session.id] = _Granted(session, client)
            return session
        granted = self._sessions.get(resume[0])
        if granted is None or granted.session.password != resume[1]:
            return None
        if granted.client not in (None, client):
            assert granted.client is not None
            self._callbacks.run(granted.client._suspend())
        granted.client = client
        return granted.session

    def _end(self, session_id: int) -> None:
        with self._lock:
            granted = self._sessions.pop(session_id, None)
            if granted is None:
                return
            owned = self._tree.ephemerals(session_id)
            if owned:
                self._apply(
                    Transaction("end of session", "", tuple(Delete(path, ANY_VERSION) for path in owned)), 0
                )
            if granted.client is not None and granted.client._reachable:
                self._callbacks.run(granted.client._lose())

    def _apply(self, tx: Transaction, session_id: int) -> tuple[int | None, ...]:
        """``Tree.apply``, and what follows from it: the log, the watches."""
        versions = self._tree.apply(tx, session_id)
        self.log.append((session_id, tx))
        fired: dict[tuple[MemoryClient, Watch], None] = {}
        for op in tx.ops:
            fired.update(self._take_watches(op))
        self._callbacks.run([watch for _, watch in fired])
        return versions

    def _take_watches(self, op: Op) -> dict[tuple[MemoryClient, Watch], None]:
        taken: dict[tuple[MemoryClient, Watch], None] = {}
        if isinstance(op, Check):
            return taken
        taken.update(self._data_watches.pop(op.path, {}))
        if isinstance(op, Delete):
            taken.update(self._child_watches.pop(op.path, {}))
        if isinstance(op, Create | Delete):
            taken.update(self._child_watches.pop(op.path.rpartition("/")[0] or "/", {}))
        return taken

    def _forget_watches(self, client: MemoryClient) -> list[Watch]:
        """The watches of a connection that is gone; they fire once more, as hints to read again."""
        gone: dict[Watch, None] = {}
        for table in (self._data_watches, self._child_watches):
            for path, watches in list(table.items()):
                gone.update({watch: None for owner, watch in watches if owner is client})
                table[path] = {key: None for key in watches if key[0] is not client}
        return list(gone)


class _Callbacks:
    """Runs callbacks, and knows of a thread that it is in one: there the real client refuses calls that block."""

    def __init__(self) -> None:
        self._depth = threading.local()

    def run(self, callbacks: Sequence[Callable[[], object]]) -> None:
        with self._inside():
            for callback in callbacks:
                callback()

    def refuse(self) -> None:
        if getattr(self._depth, "value", 0):
            raise RuntimeError("a callback of the ZooKeeper session must not call anything that blocks")

    @contextmanager
    def _inside(self) -> Iterator[None]:
        self._depth.value = getattr(self._depth, "value", 0) + 1
        try:
            yield
        finally:
            self._depth.value -= 1


@dataclass(eq=False)
class _Held:
    """A request under way: ``carry_out`` at the server, then ``resolve_outcome`` with its result or error."""

    carry_out: Callable[[], Any]
    resolve_outcome: Callable[[Any], None]
    lost: type[SupervisorError]
    what: str
    resolved: bool = field(default=False)


class MemoryClient:
    """The face of ZooClient, on a MemoryZoo; and knobs that make it fail."""

    def __init__(
        self,
        zoo: MemoryZoo,
        session_timeout_s: float = 10.0,
        *,
        on_link: Callable[[Link], None] | None = None,
        request_timeout_s: float = 5.0,
        resume: tuple[int, bytes] | None = None,
    ) -> None:
        self.link = Link.SUSPENDED
        self.session: Session | None = None
        self.connections = 0
        self.last_success_at_s = 0.0
        self.last_zxid = 0
        self._zoo = zoo
        self._timeout_s = session_timeout_s
        self._request_timeout_s = request_timeout_s
        self._on_link = on_link
        self._resume = resume
        self._reachable = True
        self._started = False
        self._holding = False
        self._held: list[_Held] = []
        self._fail_commit: str | None = None
        self._stay_cut = False
        self._before_commit: Callable[[], object] | None = None

    # -- knobs -----------------------------------------------------------------------------------------------------

    def lose_next_reply(self, *, reconnect: bool = True) -> None:
        """The next commit is applied, but its answer is lost with the connection. ``reconnect``: at once."""
        self._fail_commit, self._stay_cut = "after", not reconnect

    def fail_next_commit_before(self, *, reconnect: bool = True) -> None:
        """The connection goes before the next commit reaches the server: not applied, but the client can't know."""
        self._fail_commit, self._stay_cut = "before", not reconnect

    def before_next_commit(self, action: Callable[[], object]) -> None:
        """``action`` (of other clients, say) happens after the next commit was sent and before it is applied."""
        self._before_commit = action

    def hold(self) -> None:
        """Requests are on their way, and no answer comes: blocking calls give up after their time, async ones hang."""
        self._holding = True

    def release(self) -> None:
        """What was held is carried out now, in order, also what its caller has given up."""
        with self._zoo._lock:
            self._holding = False
            held, self._held = self._held, []
            for each in held:
                self._carry_out(each)

    # -- as ZooClient ----------------------------------------------------------------------------------------------

    def start(self) -> None:
        with self._zoo._lock:
            if not self._started and self.link is Link.SUSPENDED:
                self._started = True
                self._zoo._callbacks.run(self._connect())

    def wait_connected(self, timeout_s: float) -> None:
        self._zoo._callbacks.refuse()
        if self.link is not Link.CONNECTED:
            raise Unreachable(f"ZooKeeper did not answer within {timeout_s:g} s ({self.link})")

    def close(self, timeout_s: float = 2.0) -> bool:
        self._zoo._callbacks.refuse()
        with self._zoo._lock:
            if self.link in (Link.LOST, Link.CLOSED):
                return (
                    self.link is Link.LOST
                    or self.session is None
                    or self.session.id not in self._zoo._sessions
                )
            connected = self.link is Link.CONNECTED
            if connected and self.session is not None:
                self._zoo._sessions[self.session.id].client = None
                self._zoo._end(self.session.id)
            self._zoo._callbacks.run(self._leave(Link.CLOSED))
            return connected or self.session is None

    def sync(self) -> None:
        self._ask_and_wait(lambda: None, "sync", Unreachable)

    def read(self, path: str, watch: Watch | None = None) -> Node | None:
        def read() -> Node | None:
            node = self._zoo._tree.read(path)
            if node is not None and watch is not None:
                self._zoo._data_watches.setdefault(path, {})[(self, watch)] = None
            return node

        return self._ask_and_wait(read, path, Unreachable)

    def watch_exists(self, path: str, watch: Watch) -> Node | None:
        def read() -> Node | None:
            self._zoo._data_watches.setdefault(path, {})[(self, watch)] = None
            return self._zoo._tree.read(path)

        return self._ask_and_wait(read, path, Unreachable)

    def children(self, path: str, watch: Watch | None = None) -> tuple[str, ...] | None:
        def read() -> tuple[str, ...] | None:
            names = self._zoo._tree.children(path)
            if names is not None and watch is not None:
                self._zoo._child_watches.setdefault(path, {})[(self, watch)] = None
            return names

        return self._ask_and_wait(read, path, Unreachable)

    def read_many(self, paths: Sequence[str]) -> Reads:
        return self._ask_and_wait(partial(self._read_all, tuple(paths), boottime_s()), "reads", Unreachable)

    def read_many_async(self, paths: Sequence[str], done: Callable[[Reads | SupervisorError], None]) -> None:
        self._ask(partial(self._read_all, tuple(paths), boottime_s()), "reads", Unreachable, done)

    def commit(self, tx: Transaction, connection: int | None = None) -> Committed:
        if connection not in (None, self.connections):
            raise NotSent(f"connection {connection} is gone")
        return self._ask_and_wait(
            partial(self._commit, tx, boottime_s()), tx.what, OutcomeUnknown, _refused(tx)
        )

    def commit_async(self, tx: Transaction, done: Callable[[Committed | SupervisorError], None]) -> None:
        self._ask(partial(self._commit, tx, boottime_s()), tx.what, OutcomeUnknown, done, _refused(tx))

    # -- plumbing --------------------------------------------------------------------------------------------------

    def _read_all(self, paths: tuple[str, ...], sent_at_s: float) -> Reads:
        return Reads(tuple(map(self._zoo._tree.read, paths)), sent_at_s, boottime_s())

    def _commit(self, tx: Transaction, sent_at_s: float) -> Committed:
        action, self._before_commit = self._before_commit, None
        if action is not None:
            action()
        assert self.session is not None
        if self.link is not Link.CONNECTED or self.session.id not in self._zoo._sessions:
            raise OutcomeUnknown(f"{tx.what} may or may not have been applied (the connection was lost)")
        failure, self._fail_commit = self._fail_commit, None
        if failure is None:
            return Committed(sent_at_s, self._zoo._apply(tx, self.session.id))
        if failure == "after":
            self._zoo._apply(tx, self.session.id)
        self._zoo._callbacks.run(self._suspend())
        if self._stay_cut:
            self._reachable = False
        else:
            self._zoo._callbacks.run(self._connect())
        raise OutcomeUnknown(f"{tx.what} may or may not have been applied (its answer was lost)")

    def _ask(
        self,
        carry_out: Callable[[], T],
        what: str,
        lost: type[SupervisorError],
        done: Callable[[T | SupervisorError], None],
        refused: SupervisorError | None = None,
    ) -> None:
        with self._zoo._lock:
            if refused is None and self.link is not Link.CONNECTED:
                refused = NotSent(f"{what} was not sent: the ZooKeeper session is {self.link}")
            if refused is not None:
                self._zoo._callbacks.run([partial(done, refused)])
                return
            request = _Held(carry_out, done, lost, what)
            if self._holding:
                self._held.append(request)
            else:
                self._carry_out(request)

    def _carry_out(self, request: _Held) -> None:
        sent_at_s = boottime_s()
        try:
            result: Any = request.carry_out()
        except SupervisorError as error:
            result = error
        if not isinstance(result, OutcomeUnknown):
            self.last_success_at_s, self.last_zxid = sent_at_s, self._zoo.zxid
        if not request.resolved:
            request.resolved = True
            self._zoo._callbacks.run([partial(request.resolve_outcome, result)])

    def _ask_and_wait(
        self,
        carry_out: Callable[[], T],
        what: str,
        lost: type[SupervisorError],
        refused: SupervisorError | None = None,
    ) -> T:
        self._zoo._callbacks.refuse()
        results: list[T | SupervisorError] = []
        resolved = threading.Event()

        def done(result: T | SupervisorError) -> None:
            results.append(result)
            resolved.set()

        self._ask(carry_out, what, lost, done, refused)
        if not resolved.wait(self._request_timeout_s):
            raise lost(f"no answer to {what} within {self._request_timeout_s:g} s")
        result = results[0]
        if isinstance(result, SupervisorError):
            raise result
        return result

    # Each of these changes the state at once, and returns what is to be called because of it.

    def _connect(self) -> list[Callable[[], object]]:
        if not (self._started and self._reachable) or self.link is not Link.SUSPENDED:
            return []
        known = (self.session.id, self.session.password) if self.session is not None else self._resume
        session = self._zoo._attach(self, self._timeout_s, known)
        if session is None:
            return self._lose()
        self.session = session
        self.last_success_at_s, self.last_zxid = boottime_s(), self._zoo.zxid
        self.connections += 1
        return self._move_to(Link.CONNECTED)

    def _suspend(self) -> list[Callable[[], object]]:
        return self._leave(Link.SUSPENDED) if self.link is Link.CONNECTED else []

    def _lose(self) -> list[Callable[[], object]]:
        return [] if self.link is Link.CLOSED else self._leave(Link.LOST)

    def _leave(self, link: Link) -> list[Callable[[], object]]:
        announced = self._move_to(link)
        held, self._held = self._held, []
        resolved: list[Callable[[], object]] = []
        for each in held:
            each.resolved = True
            resolved.append(
                partial(each.resolve_outcome, each.lost(f"no answer to {each.what}: the connection was lost"))
            )
        return [*resolved, *self._zoo._forget_watches(self), *announced]

    def _move_to(self, link: Link) -> list[Callable[[], object]]:
        if self.link is link:
            return []
        self.link = link
        return [] if self._on_link is None else [partial(self._on_link, link)]


def _refused(tx: Transaction) -> InvalidInput | None:
    if not tx.ops:
        return InvalidInput(f"the transaction {tx.what} has no operations")
    size = sum(len(op.path.encode()) + len(getattr(op, "data", b"")) + _OP_BYTES for op in tx.ops)
    if size > FRAME_MAX_BYTES:
        return InvalidInput(f"the request {tx.what} has {size} bytes, more than ZooKeeper accepts")
    return None
