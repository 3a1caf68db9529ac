"""Is the ZooKeeper client: reads, guarded multis, watches and one session, with bounded waits and exact
outcomes.

``registry``, ``coord``, the daemon and the shim (which it must keep small: stdlib and a part of kazoo) call
it. It never retries a request, never queues one for later, and never goes on with another session: its caller
decides how to handle a failure.

The errors of a write mean strictly this. ``NotSent`` means that no byte of it left or that the server refused
to process it: it has had no effect and will have none. ``GuardFailed`` means that it was rejected as a whole.
``OutcomeUnknown`` means anything else, also that the session ended meanwhile. On the *same* session a
``sync`` and a read resolve an unknown outcome, also after a reconnect, because ZooKeeper rejects what an old
connection delivers after the session has moved. On another session they do so only after the old one was
closed (``close_session``). An answer proves neither a quorum nor a longer session: a server that is cut off
from the quorum answers reads for seconds, and a committed write does not lengthen the session (protocol
§7.1).
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, TypeVar

from supervisor.clients import kazoo_parts as kazoo
from supervisor.clients.zookeeper_answers import (
    acl_of_reply,
    children_of,
    node_of,
    nodes_of,
    nothing_of,
    outcome_of,
    read_of,
    request_of,
    set_acl_request,
)
from supervisor.clients.zookeeper_reads import MultiRead, WhoAmI
from supervisor.clients.zookeeper_session import (
    FRAME_MAX_BYTES,
    Link,
    Reply,
    Session,
    SessionLink,
    Unanswered,
)
from supervisor.clock import boottime_s
from supervisor.errors import AccessDenied, InvalidInput, OutcomeUnknown, SupervisorError, Unreachable
from supervisor.model.transaction import Committed, Node, Reads, Transaction
from supervisor.model.zookeeper_access import OPEN_ACCESS, Acl, ZooKeeperAccess

__all__ = ["Committed", "Link", "Reads", "Session", "ZooClient", "close_session", "parse_hosts"]

T = TypeVar("T")

READ_WINDOW = 128  # reads of one ``read_many`` under way at once
READ_CHUNK = 64  # of them in one request
# beyond the request time: only a connection thread that hangs in a callback is later than that
_THREAD_MARGIN_S = 1.0
_DEFAULT_PORT = 2181


class ZooClient:
    """Holds one session with the ensemble ``hosts`` (``h1:p1,h2:p2``); once it is LOST or CLOSED, make
    another client.

    ``on_link`` (called on each change of ``link``), watches and ``done`` callbacks run in the connection
    thread (``done`` of a request that is refused at once, in the caller's): they may set events and use the
    ``_async`` methods; a call that would block there is refused (RuntimeError). Watches are hints: each fires
    at most once, also when the connection is lost, for then ZooKeeper forgets it. ``resume`` is the id and
    the password of a session to take over. ``access`` says how to connect, and which ACL a new znode gets. The client
    is thread-safe.
    """

    def __init__(
        self,
        hosts: str,
        session_timeout_s: float,
        *,
        on_link: Callable[[Link], None] | None = None,
        request_timeout_s: float = 5.0,
        resume: tuple[int, bytes] | None = None,
        access: ZooKeeperAccess = OPEN_ACCESS,
    ) -> None:
        self._hosts = hosts
        self._acl = access.acl
        self._request_timeout_s = request_timeout_s
        self._reads_one_by_one = False
        self._session = SessionLink(
            parse_hosts(hosts),
            session_timeout_s,
            request_timeout_s,
            on_link or (lambda _link: None),
            resume,
            access,
        )

    # -- the session -----------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Connects in the background, for ever, with at most about a second between two rounds. Never
        blocks."""
        self._session.start()

    def wait_connected(self, timeout_s: float) -> None:
        """Waits for the connection. Raises Unreachable (after ``timeout_s``, or at once if this client can
        never connect again), AccessDenied (as soon as no server lets us in until somebody corrects something; the
        client goes on trying)."""
        link = self._session.wait(timeout_s)
        if link is Link.CONNECTED:
            return
        failure = self._session.failure
        if link is Link.SUSPENDED and failure is not None:
            kind = AccessDenied if failure.needs_correction else Unreachable
            raise kind(f"no connection to ZooKeeper: {failure.complaint.what}", failure.complaint.remedy)
        if link is Link.SUSPENDED:
            raise Unreachable(
                f"ZooKeeper at {self._hosts} did not answer within {timeout_s:g} s", "is it running?"
            )
        raise Unreachable(f"the session with ZooKeeper at {self._hosts} is {link}")

    def close(self, timeout_s: float = 2.0) -> bool:
        """Ends the session and this client, within ``timeout_s``. Returns True if the session is known to be
        gone."""
        return self._session.close(timeout_s)

    @property
    def link(self) -> Link:
        return self._session.link

    @property
    def session(self) -> Session | None:
        """Returns the session, also after it was lost; None before it was granted."""
        return self._session.session

    @property
    def connections(self) -> int:
        """Returns how many connections there were so far, which is the number of the present or latest
        one."""
        return self._session.connections

    @property
    def last_success_at_s(self) -> float:
        """Returns the BOOTTIME of *sending* the last request that was answered, connecting included; 0.0 if
        there was none."""
        return self._session.last_success_at_s

    @property
    def last_zxid(self) -> int:
        """Returns the zxid that the latest answer to this client carried; 0 before the first."""
        return self._session.answered_zxid

    # -- reads -----------------------------------------------------------------------------------------------------

    def sync(self) -> None:
        """Makes sure that what is read next is at least as new as all that was committed before. Raises
        Unreachable."""
        self._ask_and_wait(kazoo.Sync("/"), "sync", nothing_of)

    def read(self, path: str, watch: Callable[[], None] | None = None) -> Node | None:
        """Returns the node, or None if ZooKeeper answered that there is none (then the watch is not set: see
        ``watch_exists``)."""
        return self._ask_and_wait(kazoo.GetData(path, watch), path, node_of)

    def watch_exists(self, path: str, watch: Callable[[], None]) -> Node | None:
        """Does as ``read``, but ``watch`` is set in any case and also fires when the node is created."""
        self._ask_and_wait(kazoo.Exists(path, watch), path, nothing_of)
        return self.read(path)

    def children(self, path: str, watch: Callable[[], None] | None = None) -> tuple[str, ...] | None:
        """Returns the names (unsorted) of the children; None if ``path`` itself is absent. Raises
        Unreachable."""
        return self._ask_and_wait(kazoo.GetChildren(path, watch), path, children_of)

    def read_many(self, paths: Sequence[str]) -> Reads:
        """Reads all ``paths``, in order, without waiting for one answer before the next request. Raises
        Unreachable."""
        batch = _Batch(self, paths)
        return self._wait(batch.start, "reads", Unreachable, batch.answered)

    def read_many_async(self, paths: Sequence[str], done: Callable[[Reads | SupervisorError], None]) -> None:
        """Does as ``read_many``; ``done`` is called exactly once, within the request time of the last
        answer."""
        _Batch(self, paths).start(done)

    # -- access control --------------------------------------------------------------------------------------------

    def read_acl(self, path: str) -> Acl | None:
        """Returns the ACL of ``path``; None if there is no such node. Raises Unreachable, AccessDenied."""
        return self._ask_and_wait(kazoo.GetACL(path), path, acl_of_reply)

    def set_acl(self, path: str, acl: Acl) -> bool:
        """Replaces the ACL of ``path``, and returns False if there is no such node. Raises Unreachable (it may have been
        replaced: to do it again is harmless), AccessDenied, InvalidInput (the servers do not know such an id)."""
        return self._ask_and_wait(set_acl_request(path, acl), path, lambda reply: reply.error is None)

    def who_am_i(self) -> tuple[str, ...] | None:
        """Returns as whom ZooKeeper knows this connection (``sasl:name``, ``x509:CN=…``); None if the server is too old
        to say (before 3.7). Raises Unreachable."""
        try:
            return self._ask_and_wait(WhoAmI(), "who we are", lambda reply: tuple(reply.value))
        except InvalidInput:
            return None

    # -- writes ----------------------------------------------------------------------------------------------------

    def commit(self, tx: Transaction, connection: int | None = None) -> Committed:
        """Applies ``tx`` as a whole. Raises GuardFailed, NotSent, OutcomeUnknown, AccessDenied, InvalidInput
        (too large).

        With ``connection`` it is sent on the connection of that number (the first is 1) or not at all.

        When it raises GuardFailed, NotSent, AccessDenied or InvalidInput, nothing of a guarded multi was
        applied.
        """

        def start(done: Callable[[Committed | SupervisorError], None]) -> None:
            self.commit_async(tx, done, connection)

        return self._wait(start, tx.what, OutcomeUnknown)

    def commit_async(
        self,
        tx: Transaction,
        done: Callable[[Committed | SupervisorError], None],
        connection: int | None = None,
    ) -> None:
        """Does as ``commit``; ``done`` is called exactly once, at the latest when the request time is
        over."""
        if not tx.ops:
            done(InvalidInput(f"the transaction {tx.what} has no operations"))
            return
        request = kazoo.Transaction([request_of(op, self._acl) for op in tx.ops])
        self._ask(request, tx.what, partial(outcome_of, tx), done, connection)

    # -- plumbing --------------------------------------------------------------------------------------------------

    def _ask(
        self,
        request: Any,
        what: str,
        read_reply: Callable[[Reply], T],
        done: Callable[[T | SupervisorError], None],
        connection: int | None = None,
    ) -> None:
        """Sends ``request``; ``done`` gets what ``read_reply`` makes of the answer, or the SupervisorError
        that it raises."""

        def resolve(reply: Reply) -> None:
            try:
                result: T | SupervisorError = read_reply(reply)
            except SupervisorError as error:
                result = error
            done(result)

        reply = Reply(resolve)
        frame = bytes(kazoo.int_struct.pack(request.type) + request.serialize())
        if len(frame) > FRAME_MAX_BYTES:
            limit = f"{len(frame)} bytes, more than the {FRAME_MAX_BYTES} that ZooKeeper accepts"
            done(InvalidInput(f"the request {what} has {limit}"))
            return
        try:
            self._session.submit(request, frame, reply, connection)
        except Unanswered as refused:
            reply.set_exception(refused)

    def _ask_and_wait(self, request: Any, what: str, read_reply: Callable[[Reply], T]) -> T:
        def start(done: Callable[[T | SupervisorError], None]) -> None:
            self._ask(request, what, partial(read_of, what, read_reply), done)

        return self._wait(start, what, Unreachable)

    def _wait(
        self,
        start: Callable[[Callable[[T | SupervisorError], None]], None],
        what: str,
        too_late: type[SupervisorError],
        answered: Callable[[], int] = lambda: 0,
    ) -> T:
        """Returns the result of an asynchronous call. Its session resolves it in time; the limit here is for
        a session that hangs.

        ``answered`` returns how many parts of it were answered so far; while that grows it may take longer.
        """
        self._session.refuse_own_thread()
        results: list[T | SupervisorError] = []
        resolved = threading.Event()

        def done(result: T | SupervisorError) -> None:
            results.append(result)
            resolved.set()

        start(done)
        before = 0
        while not resolved.wait(self._request_timeout_s + _THREAD_MARGIN_S):
            before, last = answered(), before
            if before == last:
                raise too_late(f"ZooKeeper did not answer {what} in time")
        result = results[0]
        if isinstance(result, SupervisorError):
            raise result
        return result


class _Batch:
    """Carries out one ``read_many``, with at most READ_WINDOW reads under way; it ends with the first failure
    or the last answer.

    A server older than 3.6 takes only one read per request; the client remembers that.
    """

    def __init__(self, client: ZooClient, paths: Sequence[str]) -> None:
        self._client = client
        self._paths = paths
        self._nodes: list[Node | None] = [None] * len(paths)
        self._lock = threading.Lock()
        self._asked = self._answered = 0
        self._sent_at_s: float | None = None
        self._done: Callable[[Reads | SupervisorError], None] | None = None

    def answered(self) -> int:
        return self._answered

    def start(self, done: Callable[[Reads | SupervisorError], None]) -> None:
        if not self._paths:
            now_s = boottime_s()
            done(Reads((), now_s, now_s))
            return
        self._done = done
        for _ in range(READ_WINDOW // self._chunk):
            self._ask_next()

    @property
    def _chunk(self) -> int:
        return 1 if self._client._reads_one_by_one else READ_CHUNK

    def _ask_next(self) -> None:
        with self._lock:
            begin, chunk = self._asked, self._chunk
            if begin >= len(self._paths) or self._done is None:
                return
            paths = self._paths[begin : begin + chunk]
            self._asked += len(paths)
        what = paths[0] if len(paths) == 1 else f"{paths[0]} and {len(paths) - 1} more"
        request = kazoo.GetData(paths[0], None) if len(paths) == 1 else MultiRead(paths)
        read = self._read_one if len(paths) == 1 else self._read_chunk
        self._client._ask(request, what, partial(read, what, begin), partial(self._advance, len(paths)))

    def _read_one(self, what: str, begin: int, reply: Reply) -> float:
        self._store(begin, [read_of(what, node_of, reply)], reply)
        return reply.heard_at_s

    def _read_chunk(self, what: str, begin: int, reply: Reply) -> float | None:
        """Stores the answer to one chunk. Returns None if the server does not know such requests."""
        if isinstance(reply.error, kazoo.errors.UnimplementedError):
            return None
        self._store(begin, read_of(what, partial(nodes_of, what), reply), reply)
        return reply.heard_at_s

    def _store(self, begin: int, nodes: Sequence[Node | None], reply: Reply) -> None:
        self._nodes[begin : begin + len(nodes)] = nodes
        with self._lock:
            self._sent_at_s = (
                reply.sent_at_s if self._sent_at_s is None else min(self._sent_at_s, reply.sent_at_s)
            )

    def _advance(self, count: int, heard_at_s: float | SupervisorError | None) -> None:
        if heard_at_s is None:
            self._begin_again()
            return
        done: Callable[[Reads | SupervisorError], None] | None = None
        result: Reads | SupervisorError | None = (
            heard_at_s if isinstance(heard_at_s, SupervisorError) else None
        )
        with self._lock:
            self._answered += count
            if result is None and self._answered == len(self._paths):
                assert not isinstance(heard_at_s, SupervisorError) and self._sent_at_s is not None
                result = Reads(tuple(self._nodes), self._sent_at_s, heard_at_s)
            if result is not None:
                done, self._done = self._done, None
        if result is None:
            self._ask_next()
        elif done is not None:
            done(result)

    def _begin_again(self) -> None:
        """Begins again with one read per request. Answers to other chunks of this batch are ignored."""
        with self._lock:
            done, self._done = self._done, None
        self._client._reads_one_by_one = True
        if done is not None:
            _Batch(self._client, self._paths).start(done)


def close_session(
    hosts: str,
    session_id: int,
    password: bytes,
    timeout_s: float,
    access: ZooKeeperAccess = OPEN_ACCESS,
) -> None:
    """Closes a session of any process, for the session closer and to resolve what a lost session wrote. It
    may be gone already.

    After this returns nothing of that session can be applied any more. ZooKeeper reports a wrong password
    like a session that is gone. Raises Unreachable if it could not be done within ``timeout_s``, AccessDenied if no
    server lets us in.
    """
    deadline_at_s = boottime_s() + timeout_s
    client = ZooClient(hosts, 10.0, request_timeout_s=timeout_s, resume=(session_id, password), access=access)
    client.start()
    closed = False
    try:
        client.wait_connected(timeout_s)
    except Unreachable:
        if client.link is not Link.LOST:
            raise
    finally:
        closed = client.close(max(0.0, deadline_at_s - boottime_s()))
    if not closed:
        raise Unreachable(
            f"ZooKeeper at {hosts} did not confirm in {timeout_s:g} s that the session is closed"
        )


def parse_hosts(hosts: str) -> list[tuple[str, int]]:
    """Returns ``h1:2181,[::1]:2182,h3`` as (host, port) pairs. Raises InvalidInput."""
    found = []
    for part in hosts.split(","):
        host, colon, port = part.strip().rpartition(":")
        if not colon or port.endswith("]"):
            host, port = part.strip(), str(_DEFAULT_PORT)
        host = host.removeprefix("[").removesuffix("]")
        if not host or "/" in part or not port.isascii() or not port.isdigit() or not 0 < int(port) < 65536:
            hint = "a path belongs into zookeeper.root"
            raise InvalidInput(f"zookeeper.hosts: {part.strip()!r} is not host:port ({hint})")
        found.append((host, int(port)))
    return found
