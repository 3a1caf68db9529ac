"""Serves HTTP for a supervisor: ``/livez``, ``/readyz``, ``/metrics``, ``/api/status``. It is read-only,
loopback by default.

``daemon.process.assemble`` makes the server, and it runs beside the loops in threads of its own. Callables
give it its answers; it holds no state of the product. ``daemon.process.http_access`` decides who is answered, and
``daemon.process.host_names`` under which names.
No request can hold up the daemon: connections, threads and times are bounded.

``/livez`` and ``/readyz`` are answered whatever other clients do, because their clients may end this host's
drivers. Other paths are answered on ``OTHERS_MAX`` connections at once at most. ``daemon.process.bounded_http``
has the bounds of connections.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from supervisor.clock import boottime_s
from supervisor.daemon.process.bounded_http import JSON, TEXT, BoundedHandler, BoundedServer
from supervisor.daemon.process.host_names import HostNames
from supervisor.daemon.process.http_access import HttpAccess
from supervisor.errors import SupervisorError
from supervisor.logs import get_logger
from supervisor.metrics import CONTENT_TYPE

log = get_logger(__name__)

PROBES = ("/livez", "/readyz")
STATUS_MAX = 4
"""This many requests may wait for a status at once; the next gets 503, so that the other paths keep their
threads."""
STATUS_FRESH_S = 1.0
STATUS_WAIT_S = 10.0


@dataclass(frozen=True)
class Answers:
    """Holds what the daemon says of itself. ``live`` returns True while the watchdog is satisfied. ``ready``
    returns whether the host is ready and, if it is not, the reason.

    ``metrics`` returns the text for Prometheus. ``status`` returns the document of ``/api/status``; it may
    raise SupervisorError. ``leadership`` returns what this supervisor knows of it, which is only compared: a
    document from before a change is not shown after it.
    """

    live: Callable[[], bool]
    ready: Callable[[], tuple[bool, str]]
    metrics: Callable[[], bytes]
    status: Callable[[], dict[str, Any]]
    leadership: Callable[[], object] = lambda: None


class HttpServer(BoundedServer):
    """Answers on ``host`` and ``port`` from ``start`` on; port 0 lets the system choose (see ``address``).

    Without ``access`` everybody is answered, in plain text. ``names`` are those of ``http.hosts``.
    """

    def __init__(
        self,
        host: str,
        port: int,
        answers: Answers,
        access: HttpAccess | None = None,
        names: Sequence[str] | None = None,
    ) -> None:
        self._status = _Fresh(answers.status, STATUS_FRESH_S, answers.leadership)
        host_names = HostNames(names, host)
        held = {"answers": answers, "fresh_status": self._status, "access": access, "names": host_names}
        super().__init__("supervisor.http", host, port, type("Handler", (_Handler,), held), access)


class _Handler(BoundedHandler):
    """Answers one request."""

    answers: Answers
    fresh_status: _Fresh
    access: HttpAccess | None
    names: HostNames

    def do_GET(self) -> None:
        if not self.has_asked():
            return
        path = self.path.partition("?")[0]
        if path in PROBES:
            self.send(*self._answer_of(path))
        elif self.server.slots.others.acquire(blocking=False):
            try:
                if not self._is_refused():
                    self.send(*self._answer_of(path))
            finally:
                self.server.slots.others.release()
        else:
            self.refuse(503, "too many requests at once: try again")

    def _is_refused(self) -> bool:
        """Answers who may not ask, and returns whether that is so."""
        if not self.names.is_named(self.headers.get("Host")):
            self.refuse(421, "not under this name: http.hosts of supervisor.yaml has the names")
            return True
        if self.access is None:
            return False
        refusal = self.access.refusal(self.headers.get("Authorization"), self.shown_certificate())
        if refusal is None:
            return False
        challenge = {"WWW-Authenticate": refusal.challenge} if refusal.challenge else {}
        self.send(refusal.code, TEXT, refusal.text.encode(), challenge)
        return True

    def _answer_of(self, path: str) -> tuple[int, str, bytes]:
        answer = {
            "/livez": self._live,
            "/readyz": self._ready,
            "/metrics": self._metrics,
            "/api/status": self._api_status,
        }.get(path)
        try:
            return answer() if answer is not None else (404, TEXT, b"not found\n")
        except Exception:  # the edge of a request
            log.exception("http_answer_failed", path=path[:100])
            return 500, TEXT, b"internal error, see the log\n"

    do_HEAD = do_GET

    def _live(self) -> tuple[int, str, bytes]:
        return (200, TEXT, b"ok\n") if self.answers.live() else (503, TEXT, b"a loop is stuck\n")

    def _ready(self) -> tuple[int, str, bytes]:
        yes, reason = self.answers.ready()
        return 200 if yes else 503, TEXT, f"{reason or ('ok' if yes else 'not ready')}\n".encode()

    def _metrics(self) -> tuple[int, str, bytes]:
        return 200, CONTENT_TYPE, self.answers.metrics()

    def _api_status(self) -> tuple[int, str, bytes]:
        try:
            return 200, JSON, _json(self.fresh_status.get())
        except SupervisorError as error:
            return 503, JSON, _json({"error": str(error)})


class _Fresh:
    """Holds a document that is taken at most once per ``fresh_s`` while ``about`` stays as it is, by one
    request at a time.

    Its age and its ``about`` are those from before it was taken, so what changes meanwhile causes it to be
    taken again.
    """

    def __init__(
        self, take: Callable[[], dict[str, Any]], fresh_s: float, about: Callable[[], object]
    ) -> None:
        self._take = take
        self._about = about
        self._taken_about: object = None
        self._fresh_s = fresh_s
        self._turn = threading.Lock()
        self._waiting = threading.BoundedSemaphore(STATUS_MAX)
        self._taken_at_s = float("-inf")
        self._document: dict[str, Any] = {}

    def get(self) -> dict[str, Any]:
        """Returns the document. Raises SupervisorError if too many are waiting already, or what ``take``
        raises."""
        if not self._waiting.acquire(blocking=False):
            raise SupervisorError("too many requests for a status at once: try again")
        try:
            if not self._turn.acquire(timeout=STATUS_WAIT_S):
                raise SupervisorError("the status takes too long: try again")
            try:
                now_s, about = boottime_s(), self._about()
                if now_s - self._taken_at_s >= self._fresh_s or about != self._taken_about:
                    self._document = self._take()
                    self._taken_at_s, self._taken_about = now_s, about
                return self._document
            finally:
                self._turn.release()
        finally:
            self._waiting.release()


def _json(document: Any) -> bytes:
    return (json.dumps(document, indent=2) + "\n").encode()
