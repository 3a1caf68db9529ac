"""Hands over at once when the supervisor crashes: closes its ZooKeeper sessions by id and password (protocol
§3, §6).

There are two sides in one file. The daemon uses ``SessionCloser``, which starts the child and tells it which
sessions are current, on a pipe (one JSON line each; a password never appears in argv, environment or log).
``main`` is the child, a ``companion``, which acts when the supervisor is dead.

The child may be wrong, but never harmful: closing the session of a live leader costs a change of leader, for
the epoch fences. It never touches a job. It is deaf to SIGTERM, SIGINT and SIGHUP (``Companion`` blocks them,
because whole groups get them when a supervisor is stopped). It ends as soon as the supervisor has ended, or,
if a session is left to close, after ``CLOSE_MAX_S`` at the latest.
"""

from __future__ import annotations

import json
import logging
import os
import sys
import threading
from dataclasses import asdict, dataclass, replace
from functools import partial

from supervisor.clients.companion import Companion, last_message
from supervisor.clients.kazoo_connection import load_for
from supervisor.clients.threads import BackgroundThread
from supervisor.clients.zookeeper import Session, close_session
from supervisor.errors import SupervisorError
from supervisor.model.zookeeper_access import OPEN_ACCESS, ZooKeeperAccess, access_from

log = logging.getLogger(__name__)

CLOSE_MAX_S = 10.0
_STOP_TIMEOUT_S = 2.0


@dataclass(frozen=True)
class Charge:
    """Describes a session to be closed, where, and how to connect for that."""

    hosts: str
    id: int
    password: bytes
    timeout_s: float
    access: ZooKeeperAccess = OPEN_ACCESS


def encode(charges: tuple[Charge, ...]) -> bytes:
    """Returns the line that names *all* sessions that are current now. How to connect stands there once, and without the
    ACL of new znodes: a line is short (``Companion.send``), and the child makes none."""
    entries = [
        {"hosts": c.hosts, "id": c.id, "password": c.password.hex(), "timeout_s": c.timeout_s}
        for c in charges
    ]
    access = replace(charges[0].access if charges else OPEN_ACCESS, admins=(), readers=())
    return json.dumps({"sessions": entries, "access": asdict(access)}).encode()


def decode(line: bytes) -> tuple[Charge, ...]:
    """Returns the sessions of such a line. Raises ValueError, KeyError or TypeError for another text."""
    body = json.loads(line)
    access = access_from(body["access"])
    return tuple(
        Charge(str(e["hosts"]), int(e["id"]), bytes.fromhex(e["password"]), float(e["timeout_s"]), access)
        for e in body["sessions"]
    )


class SessionCloser:
    """Is the daemon's side. ``publish_sessions`` may be called from any thread. Nothing here raises or blocks: without a
    session closer a crash is only noticed later, after the session time."""

    def __init__(self, hosts: str, access: ZooKeeperAccess = OPEN_ACCESS) -> None:
        self._hosts = hosts
        self._access = access
        self._lock = threading.Lock()
        self._published: dict[str, tuple[Session, ...]] = {}
        self._child: Companion | None = None
        self._stopped = False

    @property
    def pid(self) -> int | None:
        """Returns the pid of the child, or None while there is none."""
        child = self._child
        return child.pid if child is not None and child.alive else None

    def start(self) -> None:
        """Starts the child now, so that it has loaded everything long before it is needed."""
        self.check()

    def publish_sessions(self, sessions: tuple[Session, ...], of: str = "term") -> None:
        """Passes the sessions that ``of`` has now to the child; they replace those it had."""
        with self._lock:
            self._published[of] = sessions
            self._speak()

    def check(self) -> None:
        """Starts another child if it died. The daemon's main loop calls it."""
        with self._lock:
            if self._child is None or not self._child.alive:
                self._speak()

    def stop(self) -> None:
        """Ends the child. If a session could not be closed, the child stays until this process is dead, and
        closes it then."""
        with self._lock:
            self._stopped = True
            child = self._child
            if child is None or any(self._published.values()):
                return
            child.dismiss(_STOP_TIMEOUT_S)
            self._child = None

    def _speak(self) -> None:
        if self._stopped and self._child is None:
            return
        try:
            if self._child is None or not self._child.alive:
                self._child = Companion("supervisor.daemon.process.session_closer")
            charges = tuple(
                Charge(self._hosts, s.id, s.password, s.timeout_s, self._access)
                for published in self._published.values()
                for s in published
            )
            self._child.send(encode(charges))
        except SupervisorError as error:
            # the standard library's logger: the session closer itself is small
            log.warning("sentinel_not_told", exc_info=error)


def main() -> None:
    """Runs the child."""
    message = last_message(_prepare)
    if message:
        _close_all(decode(message))


def _prepare(message: bytes) -> None:
    """Loads what it takes to connect, while there is time: TLS takes a busy host longer than closing a session."""
    try:
        load_for(access_from(json.loads(message)["access"]))
    except (ValueError, KeyError, TypeError):
        return


def _close_all(charges: tuple[Charge, ...]) -> None:
    threads = [BackgroundThread("close", partial(_close, charge)).start() for charge in charges]
    for thread in threads:
        thread.join(CLOSE_MAX_S + 1)


def _close(charge: Charge) -> None:
    try:
        close_session(
            charge.hosts, charge.id, charge.password, min(charge.timeout_s, CLOSE_MAX_S), charge.access
        )
    except SupervisorError as error:
        sys.stderr.write(f"session closer: session {charge.id:#x} was not closed: {error}\n")


if __name__ == "__main__":
    main()
    sys.stderr.flush()
    os._exit(0)  # whatever a client left running has no say
