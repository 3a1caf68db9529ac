"""The HTTP server of a supervisor: ``/livez``, ``/readyz``, ``/metrics``, ``/api/status``. Read-only, loopback by default.

Made by ``wiring`` and run beside the loops in threads of its own. It is told by callables what to answer and holds no
state of the product. No request can hold up the daemon: connections, threads and times are bounded, and ``/livez`` is
answered also while ``/api/status`` waits for ZooKeeper.
"""

from __future__ import annotations

import json
import socket
import socketserver
import threading
from collections.abc import Callable
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from supervisor.clock import boottime_s
from supervisor.errors import SupervisorError
from supervisor.logs import get_logger
from supervisor.metrics import CONTENT_TYPE

log = get_logger(__name__)

CONNECTIONS_MAX = 32
STATUS_MAX = 4
"""Requests that may wait for a status at once; the next gets 503, so that the other paths keep their threads."""
SOCKET_TIMEOUT_S = 5.0
STATUS_FRESH_S = 1.0
STATUS_WAIT_S = 10.0

TEXT = "text/plain; charset=utf-8"
JSON = "application/json"


@dataclass(frozen=True)
class Answers:
    """What the daemon says of itself. ``live``: the watchdog is satisfied. ``ready``: (yes, or no with the reason).

    ``metrics``: the text for Prometheus. ``status``: the document of ``/api/status``; may raise SupervisorError.
    """

    live: Callable[[], bool]
    ready: Callable[[], tuple[bool, str]]
    metrics: Callable[[], bytes]
    status: Callable[[], dict[str, Any]]


class HttpServer:
    """``host``, ``port``: where to listen; port 0 lets the system choose (see ``address``). Listens from ``start`` on."""

    def __init__(self, host: str, port: int, answers: Answers) -> None:
        self._status = _Fresh(answers.status, STATUS_FRESH_S)
        handler = type("Handler", (_Handler,), {"answers": answers, "fresh_status": self._status})
        try:
            self._server = _Server((host, port), handler, socket.AF_INET6 if ":" in host else socket.AF_INET)
        except OSError as error:
            reason = error.strerror or str(error)
            raise SupervisorError(f"supervisor.http {host}:{port} can't be used ({reason}): choose another") from None
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.2,), name="http", daemon=True)

    @property
    def address(self) -> str:
        """``host:port`` as bound."""
        host, port = self._server.server_address[:2]
        text = host.decode() if isinstance(host, bytes | bytearray) else str(host)
        return f"[{text}]:{port}" if ":" in text else f"{text}:{port}"

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Stop listening. Requests under way end by themselves; nobody waits for them."""
        if self._thread.is_alive():
            self._server.shutdown()
        self._server.server_close()


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False
    request_queue_size = CONNECTIONS_MAX

    def __init__(self, address: tuple[str, int], handler: type[BaseHTTPRequestHandler], family: int) -> None:
        self.address_family = family
        self._free = threading.BoundedSemaphore(CONNECTIONS_MAX)
        super().__init__(address, handler)

    def server_bind(self) -> None:
        """Without the name look-up of the standard library, which a broken resolver would hold up."""
        socketserver.TCPServer.server_bind(self)
        self.server_name, self.server_port = "supervisor", self.server_address[1]

    def process_request(self, request: Any, client_address: Any) -> None:
        if not self._free.acquire(blocking=False):
            self.shutdown_request(request)
            return
        try:
            super().process_request(request, client_address)
        except BaseException:
            self._free.release()
            raise

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._free.release()

    def handle_error(self, request: Any, client_address: Any) -> None:  # noqa: ARG002
        log.debug("http_request_failed", client=str(client_address), exc_info=True)


class _Handler(BaseHTTPRequestHandler):
    answers: Answers
    fresh_status: _Fresh
    timeout = SOCKET_TIMEOUT_S
    server_version = "spark-supervisor"
    sys_version = ""

    def do_GET(self) -> None:
        path = self.path.partition("?")[0]
        answer = {
            "/livez": self._live, "/readyz": self._ready, "/metrics": self._metrics, "/api/status": self._api_status,
        }.get(path)
        try:
            code, kind, body = answer() if answer is not None else (404, TEXT, b"not found\n")
        except Exception:  # the edge of a request
            log.exception("http_answer_failed", path=path[:100])
            code, kind, body = 500, TEXT, b"internal error, see the log\n"
        self.send_response(code)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Cache-Control", "no-store")
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    do_HEAD = do_GET

    def log_message(self, format: str, *args: Any) -> None:
        """Probes come every few seconds: they are no events."""

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
    """A document that is asked for at most once per ``fresh_s``, by one request at a time."""

    def __init__(self, take: Callable[[], dict[str, Any]], fresh_s: float) -> None:
        self._take = take
        self._fresh_s = fresh_s
        self._turn = threading.Lock()
        self._waiting = threading.BoundedSemaphore(STATUS_MAX)
        self._taken_s = float("-inf")
        self._document: dict[str, Any] = {}

    def get(self) -> dict[str, Any]:
        """Raises SupervisorError: too many are waiting already, or what ``take`` raises."""
        if not self._waiting.acquire(blocking=False):
            raise SupervisorError("too many requests for a status at once: try again")
        try:
            if not self._turn.acquire(timeout=STATUS_WAIT_S):
                raise SupervisorError("the status takes too long: try again")
            try:
                if boottime_s() - self._taken_s >= self._fresh_s:
                    self._document = self._take()
                    self._taken_s = boottime_s()
                return self._document
            finally:
                self._turn.release()
        finally:
            self._waiting.release()


def _json(document: Any) -> bytes:
    return (json.dumps(document, indent=2) + "\n").encode()
