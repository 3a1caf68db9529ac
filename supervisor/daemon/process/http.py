"""Serves HTTP for a supervisor: ``/livez``, ``/readyz``, ``/metrics``, ``/api/status``. It is read-only,
loopback by default.

``daemon.process.assemble`` makes the server, and it runs beside the loops in threads of its own. Callables
give it its answers; it holds no state of the product. ``daemon.process.http_access`` decides who is answered.
No request can hold up the daemon: connections, threads and times are bounded.

``/livez`` and ``/readyz`` are answered whatever other clients do, because their clients may end this host's
drivers. Other paths are answered on ``OTHERS_MAX`` connections at once at most, and of the connections that
have not sent their request yet, the oldest makes room for a new one. A header as a whole, not each of its
pieces, has one deadline and one limit of size; with TLS, the handshake has a deadline of the same length before
it, in the connection's own thread.
"""

from __future__ import annotations

import contextlib
import io
import json
import socket
import socketserver
import ssl
import threading
from collections.abc import Callable
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from supervisor.clients.threads import BackgroundThread
from supervisor.clock import boottime_s
from supervisor.daemon.process.http_access import HttpAccess
from supervisor.errors import SupervisorError
from supervisor.logs import get_logger
from supervisor.metrics import CONTENT_TYPE

log = get_logger(__name__)

CONNECTIONS_MAX = 32
OTHERS_MAX = 24
"""Paths other than those of probes are answered on this many connections at once; the next gets 503."""
PROBES = ("/livez", "/readyz")
STATUS_MAX = 4
"""This many requests may wait for a status at once; the next gets 503, so that the other paths keep their
threads."""
HEADER_TIMEOUT_S = 5.0
HEADER_BYTES_MAX = 64 * 1024
"""This is the limit of request line and headers together."""
LINGER_BYTES_MAX = 1024 * 1024
MAKE_ROOM_S = 1.0
SOCKET_TIMEOUT_S = 5.0
"""This is the limit of each write of an answer."""
STATUS_FRESH_S = 1.0
STATUS_WAIT_S = 10.0

TEXT = "text/plain; charset=utf-8"
JSON = "application/json"


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


class HttpServer:
    """Answers on ``host`` and ``port`` from ``start`` on; port 0 lets the system choose (see ``address``).

    Without ``access`` everybody is answered, in plain text.
    """

    def __init__(self, host: str, port: int, answers: Answers, access: HttpAccess | None = None) -> None:
        self._status = _Fresh(answers.status, STATUS_FRESH_S, answers.leadership)
        held = {"answers": answers, "fresh_status": self._status, "access": access}
        handler = type("Handler", (_Handler,), held)
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        try:
            self._server = _Server((host, port), handler, family, access)
        except OSError as error:
            reason = error.strerror or str(error)
            raise SupervisorError(
                f"supervisor.http {host}:{port} can't be used ({reason}): choose another"
            ) from None
        self._thread = BackgroundThread(
            "http", lambda: self._server.serve_forever(0.2), ask=self._server.shutdown
        )

    @property
    def address(self) -> str:
        """Returns ``host:port`` as bound."""
        host, port = self._server.server_address[:2]
        text = host.decode() if isinstance(host, bytes | bytearray) else str(host)
        return f"[{text}]:{port}" if ":" in text else f"{text}:{port}"

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Stops listening. Requests under way end by themselves; nobody waits for them."""
        if self._thread.is_alive():
            self._thread.stop()
        self._server.server_close()


class _Slots:
    """Counts who is connected, and knows which connections have not asked for anything yet.

    Such a connection is put out by shutting its socket down, which ends its thread; its slot is free when the
    thread has left it. So threads are bounded, too.
    """

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._silent: dict[socket.socket, None] = {}
        """It lists the connections in the order in which they came."""
        self.taken = 0
        self.others = threading.BoundedSemaphore(OTHERS_MAX)

    def enter(self, connection: socket.socket) -> bool:
        """Takes a slot. Returns False if there is no room and no connection to put out."""
        with self._changed:
            if self.taken >= CONNECTIONS_MAX and self._silent:
                oldest = next(iter(self._silent))
                del self._silent[oldest]
                with contextlib.suppress(OSError):
                    # Not that of an SSLSocket, which would read plain text from then on.
                    socket.socket.shutdown(oldest, socket.SHUT_RDWR)
                self._changed.wait_for(lambda: self.taken < CONNECTIONS_MAX, MAKE_ROOM_S)
            if self.taken >= CONNECTIONS_MAX:
                return False
            self.taken += 1
            self._silent[connection] = None
            return True

    def has_asked(self, connection: socket.socket) -> bool:
        """Notes that the connection has asked, after which it stays. Returns False if it was put out."""
        with self._changed:
            if connection not in self._silent:
                return False
            del self._silent[connection]
            return True

    def leave(self, connection: socket.socket) -> None:
        """Frees the slot, before the connection is closed: a closed socket's number may be another's when it
        is shut down."""
        with self._changed:
            self._silent.pop(connection, None)
            self.taken -= 1
            self._changed.notify_all()


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False
    request_queue_size = 128

    def __init__(
        self,
        address: tuple[str, int],
        handler: type[BaseHTTPRequestHandler],
        family: int,
        access: HttpAccess | None,
    ) -> None:
        self.address_family = family
        self._access = access
        self.slots = _Slots()
        super().__init__(address, handler)

    def server_bind(self) -> None:
        """Binds without the name look-up of the standard library, which a broken resolver would hold up."""
        socketserver.TCPServer.server_bind(self)
        self.server_name, self.server_port = "supervisor", self.server_address[1]

    def get_request(self) -> tuple[socket.socket, Any]:
        """Returns the next connection; with TLS nothing is read or written for it yet."""
        connection, client = super().get_request()
        context = self._access.tls_context() if self._access is not None else None
        if context is None:
            return connection, client
        return context.wrap_socket(connection, server_side=True, do_handshake_on_connect=False), client

    def process_request(self, request: Any, client_address: Any) -> None:
        if not self.slots.enter(request):
            self.shutdown_request(request)
            return
        try:
            super().process_request(request, client_address)
        except BaseException:
            self.slots.leave(request)
            raise

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        try:
            self.finish_request(request, client_address)
        except Exception:  # noqa: BLE001 - the edge of a connection
            self.handle_error(request, client_address)
        finally:
            self.slots.leave(request)
            self.shutdown_request(request)

    def handle_error(self, request: Any, client_address: Any) -> None:  # noqa: ARG002
        log.debug("http_request_failed", client=str(client_address), exc_info=True)


class _Handler(BaseHTTPRequestHandler):
    """Handles one request of one connection (HTTP/1.0): it reads the header to its end, and then the standard
    library parses it."""

    server: _Server
    answers: Answers
    fresh_status: _Fresh
    access: HttpAccess | None
    server_version = "spark-supervisor"
    sys_version = ""

    def handle(self) -> None:
        self.close_connection = True
        self._asked = False
        if not self._has_shaken_hands():
            return
        self._until_at_s = boottime_s() + HEADER_TIMEOUT_S
        header = self._read_header()
        if header is None:
            return
        self.connection.settimeout(SOCKET_TIMEOUT_S)
        if len(header) > HEADER_BYTES_MAX:
            self.command, self.requestline, self.request_version = "", "", self.protocol_version
            self._answer(431, TEXT, b"the header of the request is too large\n")
        else:
            self.rfile = io.BytesIO(header)
            self.handle_one_request()
        if not self._asked:
            self._linger()

    def _has_shaken_hands(self) -> bool:
        """Does the handshake of TLS, if it is spoken. Returns False if that fails."""
        if not isinstance(self.connection, ssl.SSLSocket):
            return True
        self.connection.settimeout(HEADER_TIMEOUT_S)
        try:
            self.connection.do_handshake()
        except (OSError, ValueError) as error:  # ValueError: it was put out meanwhile
            log.debug("http_request_failed", client=str(self.client_address), why=str(error))
            return False
        return True

    def _read_header(self) -> bytes | None:
        """Reads to the empty line at least, or more than ``HEADER_BYTES_MAX`` bytes. Returns None if neither
        came."""
        header = bytearray()
        while len(header) <= HEADER_BYTES_MAX:
            data = self._receive(HEADER_BYTES_MAX + 1 - len(header))
            if not data:
                return None
            before = max(0, len(header) - 2)  # an end may have begun there
            header += data
            if header.find(b"\n\r\n", before) >= 0 or header.find(b"\n\n", before) >= 0:
                break
        return bytes(header)

    def _receive(self, bytes_max: int) -> bytes:
        """Returns what comes next. It is empty if nothing comes any more, or not in time, or if the
        connection was put out."""
        left_s = self._until_at_s - boottime_s()
        if left_s <= 0:
            return b""
        self.connection.settimeout(left_s)
        try:
            return bytes(self.connection.recv(min(bytes_max, 8192)))
        except OSError:
            return b""

    def _linger(self) -> None:
        """Reads the rest: what was sent and not read would reset the connection when it is closed, and the
        answer might not arrive."""
        with contextlib.suppress(OSError):
            self.connection.shutdown(socket.SHUT_WR)
        left = LINGER_BYTES_MAX
        while left > 0 and (data := self._receive(left)):
            left -= len(data)

    def do_GET(self) -> None:
        if not self.server.slots.has_asked(self.connection):
            return
        self._asked = True
        path = self.path.partition("?")[0]
        if path in PROBES:
            self._answer(*self._answer_of(path))
        elif self.server.slots.others.acquire(blocking=False):
            try:
                if not self._is_refused():
                    self._answer(*self._answer_of(path))
            finally:
                self.server.slots.others.release()
        else:
            self._answer(503, TEXT, b"too many requests at once: try again\n")

    def _is_refused(self) -> bool:
        """Answers who may not ask, and returns whether that is so."""
        if self.access is None:
            return False
        shown = self.connection.getpeercert() if isinstance(self.connection, ssl.SSLSocket) else None
        refusal = self.access.refusal(self.headers.get("Authorization"), bool(shown))
        if refusal is None:
            return False
        self._answer(refusal.code, TEXT, refusal.text.encode(), challenge=refusal.challenge)
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

    def _answer(self, code: int, kind: str, body: bytes, *, challenge: str = "") -> None:
        self.send_response(code)
        if challenge:
            self.send_header("WWW-Authenticate", challenge)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Cache-Control", "no-store")
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    do_HEAD = do_GET

    def log_message(self, format: str, *args: Any) -> None:
        """Logs nothing: probes come every few seconds and are no events."""

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
