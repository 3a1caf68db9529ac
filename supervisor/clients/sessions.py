"""Keeps one ZooKeeper session for a command: connects within a bound, and replaces the session only when it
is known to be gone.

It is the ``ReplaceableSession`` of ``records.ports``. ``operations.context`` makes it for the
command line and for loops that run commands. After a write whose reply was lost, ``resolve_outcome`` returns
a client on which reading back shows the outcome: the same session once it is connected again (first in, first
out), or a new one after the old was closed by its id and password. It never goes on with another session
silently, and never waits without a bound: exit code 5 must come within 15 s of the start of the process
(REFERENCE.md), also on a host so busy that loading the command took seconds of them.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Generic, Protocol, TypeVar

from supervisor.clients.zookeeper import Link, Session, ZooClient, close_session
from supervisor.clock import boottime_s
from supervisor.errors import Unreachable
from supervisor.model.zookeeper_access import OPEN_ACCESS, ZooKeeperAccess

ANSWER_S = 15.0
CONNECT_S = 7.0
CONNECT_MIN_S = 4.0
_SPARE_S = 1.0
RESOLVE_S = 12.0
REQUEST_S = 5.0
_PAUSE_S = 0.05


class Client(Protocol):
    """Defines what is needed of a ZooKeeper client to keep its session."""

    @property
    def link(self) -> Link: ...
    @property
    def session(self) -> Session | None: ...
    def start(self) -> None: ...
    def wait_connected(self, timeout_s: float) -> None: ...
    def sync(self) -> None: ...
    def close(self, timeout_s: float = 2.0) -> bool: ...


C = TypeVar("C", bound=Client)


class KeptSession(Generic[C]):
    """Keeps the present client. ``make_client`` returns a new client, not yet started. ``end_session`` closes
    a session for certain, within seconds. ``check`` is called once for each client, as soon as it is connected; what it
    raises is raised to whoever asked for that client, until it passes.

    It is not thread-safe. ``close`` must be called in the end.
    """

    def __init__(
        self,
        make_client: Callable[[], C],
        end_session: Callable[[Session], None],
        connect_s: float = CONNECT_S,
        resolve_s: float = RESOLVE_S,
        check: Callable[[C], None] | None = None,
    ) -> None:
        self._make_client = make_client
        self._end_session = end_session
        self._connect_s = connect_s
        self._resolve_s = resolve_s
        self._check = check
        self._client: C | None = None
        self._checked: C | None = None

    def zoo(self) -> C:
        """Returns the present client, connected; a new one if its session is lost. Raises Unreachable within
        ``connect_s``."""
        client = self._client
        if client is None or client.link in (Link.LOST, Link.CLOSED):
            client = self._renewed()
        client.wait_connected(self._connect_s)
        if self._check is not None and self._checked is not client:
            self._check(client)
            self._checked = client
        return client

    def resolve_outcome(self) -> C:
        """Returns a client that shows the outcome of every earlier write. Raises Unreachable when nothing can
        be known yet."""
        deadline_at_s = boottime_s() + self._resolve_s
        client = self._client
        while client is not None and client.link not in (Link.LOST, Link.CLOSED):
            try:
                client.wait_connected(max(0.0, deadline_at_s - boottime_s()))
                client.sync()
                return client
            except Unreachable:
                if boottime_s() >= deadline_at_s:
                    raise
                time.sleep(_PAUSE_S)
        if client is not None and client.session is not None:
            self._end_session(client.session)
        return self.zoo()

    def close(self) -> None:
        """Ends the session, in bounded time; if ZooKeeper is unreachable, the session expires by itself."""
        if self._client is not None:
            self._client.close()
            self._client = None

    def _renewed(self) -> C:
        if self._client is not None:
            self._client.close()
        self._client = self._make_client()
        self._client.start()
        return self._client


def keep_session(
    hosts: str,
    session_timeout_s: float,
    connect_s: float = CONNECT_S,
    *,
    access: ZooKeeperAccess = OPEN_ACCESS,
    check: Callable[[ZooClient], None] | None = None,
) -> KeptSession[ZooClient]:
    """Returns a session with the ensemble ``hosts`` that is opened at the first use. ``check`` is as in
    ``KeptSession``."""
    return KeptSession(
        lambda: ZooClient(hosts, session_timeout_s, request_timeout_s=REQUEST_S, access=access),
        lambda old: close_session(hosts, old.id, old.password, REQUEST_S, access),
        connect_s,
        check=check,
    )


def connect_within_s(spent_s: float) -> float:
    """Returns for how long a command that began ``spent_s`` ago may try to connect. Its exit may take as long
    as its start took.

    A process older than the promised time has been at work, not at loading: it gets the whole time.
    """
    if spent_s >= ANSWER_S:
        return CONNECT_S
    return max(CONNECT_MIN_S, min(CONNECT_S, ANSWER_S - _SPARE_S - 2 * spent_s))
