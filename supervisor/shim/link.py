"""Carries on the shim's conversation with ZooKeeper: one thread does one request after the other, and reports
the outcome of each.

The main loop never waits for ZooKeeper: it hands requests over here and gets events back. Requests are served
first in, first out, so a read that resolves an outcome is made after everything that was requested before.
This module decides nothing. Called by ``runner``.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable
from functools import partial

from supervisor.clients.zookeeper import Link, ZooClient, close_session
from supervisor.errors import Conflict, Corrupt, GuardFailed, OutcomeUnknown, SupervisorError
from supervisor.model import lease_terms
from supervisor.model.launch import Launch
from supervisor.model.records import Ownership
from supervisor.model.seen import Found, Seen, Unreadable
from supervisor.model.transaction import Node, SetData, Transaction
from supervisor.records.codec import decode
from supervisor.records.layout import Layout
from supervisor.shim import state as shim
from supervisor.shim.state import Event

Request = shim.Read | shim.Commit | shim.NewClient | shim.CloseSession

FIRST_CONNECTION = 1
_SESSIONS_KEPT = 16
_CLOSE_S = 5.0


class RegistryLink:
    """Does the requests in a thread of its own. ``post_event`` takes events and ``log`` takes lines for the
    log; both may be called from any thread and do not block."""

    def __init__(
        self, launch: Launch, layout: Layout, post_event: Callable[[Event], None], log: Callable[..., None]
    ) -> None:
        self._launch = launch
        self._layout = layout
        self._post_event = post_event
        self._log = log
        self._requests: queue.SimpleQueue[Request | None] = queue.SimpleQueue()
        self._passwords: dict[int, bytes] = {}
        self._generation = 0
        self._client = self._new_client()
        self._thread = threading.Thread(target=self._work, name="registry", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def submit(self, request: Request) -> None:
        self._requests.put(request)

    def close(self, timeout_s: float) -> None:
        """Ends the thread and the session, within about ``timeout_s`` each."""
        self._requests.put(None)
        self._thread.join(timeout_s)
        self._client.close(timeout_s)

    def _new_client(self) -> ZooClient:
        """Makes a client. Its request time-out is such that a hanging request costs no more than one renewal."""
        self._generation += 1
        client = ZooClient(
            self._launch.hosts,
            self._launch.session_timeout_s,
            request_timeout_s=lease_terms.request_timeout_s(self._launch.lease_s),
            on_link=partial(self._on_link, self._generation),
            access=self._launch.access,
        )
        self._client = client
        client.start()
        return client

    def _on_link(self, generation: int, link: Link) -> None:
        """Handles a change of the link. It is called in the connection thread."""
        if generation != self._generation:
            return
        session = self._client.session
        if link is Link.CONNECTED and session is not None:
            self._passwords[session.id] = session.password
            for old in list(self._passwords)[:-_SESSIONS_KEPT]:
                del self._passwords[old]
            self._post_event(shim.Connected(session.id))
        else:
            self._post_event(shim.Disconnected() if link is Link.SUSPENDED else shim.SessionLost())

    def _work(self) -> None:
        while True:
            request = self._requests.get()
            if request is None:
                return
            try:
                self._do(request)
            except Exception as error:  # noqa: BLE001 - the edge of this thread: each request must be answered
                self._post_event(_failure(request))
                self._log("shim_request_failed", "error", why=repr(error))

    def _do(self, request: Request) -> None:
        match request:
            case shim.Read(token):
                self._post_event(self._read(token))
            case shim.Commit(transaction, first):
                self._post_event(self._commit(transaction, FIRST_CONNECTION if first else None))
            case shim.NewClient():
                old, self._generation = self._client, self._generation + 1
                old.close(0.5)
                self._new_client()
            case shim.CloseSession(session):
                self._post_event(self._close_session(session))

    def _read(self, token: int) -> Event:
        entry = self._launch.assignment
        own_path = self._layout.own(entry.name)
        try:
            self._client.sync()
            node = self._client.read(own_path, self._own_changed)
            paths = (self._layout.lease(entry.name), self._layout.live(entry.uid, entry.attempt))
            lease, live = self._client.read_many(paths).nodes
        except SupervisorError:
            return shim.ReadFailed(token)
        return shim.OwnRead(
            token,
            _ownership(node, own_path),
            None if lease is None else lease.stat.version,
            None if live is None else live.stat.ephemeral_owner,
        )

    def _own_changed(self) -> None:
        """Handles the watch on /own. It is always this same function, because the client takes a watcher that
        is set again while it waits for the same one."""
        self._post_event(shim.OwnChanged())

    def _commit(self, transaction: Transaction, connection: int | None) -> Event:
        own_path = self._layout.own(self._launch.assignment.name)
        try:
            done = self._client.commit(transaction, connection)
        except GuardFailed as error:
            return shim.WriteRejected(transaction.id, error.path, error.kind)
        except Conflict:
            return shim.WriteRejected(transaction.id, "", "unknown")
        except OutcomeUnknown:
            return shim.WriteOutcomeUnknown(transaction.id)
        except SupervisorError:  # not sent, not permitted, not accepted: without effect
            return shim.WriteNotSent(transaction.id)
        versions = zip(transaction.ops, done.versions, strict=True)
        own = next(
            (version for op, version in versions if isinstance(op, SetData) and op.path == own_path), None
        )
        return shim.WriteCommitted(transaction.id, done.sent_at_s, own)

    def _close_session(self, session: int) -> Event:
        password = self._passwords.get(session)
        if password is None:
            return shim.CloseFailed()
        try:
            close_session(self._launch.hosts, session, password, _CLOSE_S, self._launch.access)
        except SupervisorError:
            return shim.CloseFailed()
        return shim.SessionClosed()


def _ownership(node: Node | None, path: str) -> Seen[Ownership]:
    if node is None:
        return None
    try:
        return Found(decode(Ownership, node.data, path), node.stat.version, node.stat.mzxid)
    except Corrupt as error:
        return Unreadable(str(error), node.stat.version, node.stat.mzxid)


def _failure(request: Request) -> Event:
    match request:
        case shim.Read(token):
            return shim.ReadFailed(token)
        case shim.Commit(transaction):
            return shim.WriteOutcomeUnknown(transaction.id)
        case shim.CloseSession():
            return shim.CloseFailed()
        case shim.NewClient():
            return shim.SessionLost()
