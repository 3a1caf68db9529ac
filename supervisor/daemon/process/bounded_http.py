"""Takes connections for the HTTP servers of the daemon, and reads one request of each, so that no client can hold up
another or the daemon: connections, threads and times are bounded.

``daemon.process.http`` serves probes and metrics with it, ``daemon.process.api_server`` the API. Each derives a
handler, which is made for each connection, in a thread of its own.

Of the connections that have not sent their request yet, the oldest makes room for a new one. A header as a whole, not
each of its pieces, has one deadline and one limit of size; with TLS, the handshake has a deadline of the same length before
it, in the connection's own thread. An answer as a whole has a deadline, too.
"""

from __future__ import annotations

import contextlib
import io
import select
import socket
import socketserver
import ssl
import threading
from collections.abc import Callable, Iterable, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import MappingProxyType
from typing import Any, Final, Protocol

from supervisor.clients.threads import BackgroundThread
from supervisor.clock import boottime_s
from supervisor.errors import SupervisorError
from supervisor.logs import get_logger

log = get_logger(__name__)

CONNECTIONS_MAX = 32
OTHERS_MAX = 24
"""Requests that are no probes are answered on this many connections at once; the next gets 503."""
HEADER_TIMEOUT_S = 5.0
HEADER_BYTES_MAX = 64 * 1024
"""This is the limit of request line and headers together."""
LINGER_BYTES_MAX = 1024 * 1024
LINGER_BODY_BYTES_MAX = 48 * 1024 * 1024
"""So much of a body that was refused is read; it is the largest that any request may have, and more."""
MAKE_ROOM_S = 1.0

TEXT = "text/plain; charset=utf-8"
JSON = "application/json"
NO_MORE_HEADERS: Final[Mapping[str, str]] = MappingProxyType({})
_PIECE_BYTES = 64 * 1024


class TlsSource(Protocol):
    """Says what a new connection is wrapped with."""

    def tls_context(self) -> ssl.SSLContext | None: ...


class BoundedServer:
    """Answers on ``host`` and ``port`` from ``start`` on, with a ``handler`` for each connection; port 0 lets the
    system choose (see ``address``).

    ``key`` is the key of supervisor.yaml that names the address. Without ``access`` it speaks plain text. Raises
    SupervisorError if the address can't be used.
    """

    def __init__(
        self, key: str, host: str, port: int, handler: type[BaseHTTPRequestHandler], access: TlsSource | None
    ) -> None:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        try:
            self._server = _Server((host, port), handler, family, access)
        except OSError as error:
            reason = error.strerror or str(error)
            raise SupervisorError(f"{key} {host}:{port} can't be used ({reason}): choose another") from None
        self._thread = BackgroundThread(
            key.replace("supervisor.", ""),
            lambda: self._server.serve_forever(0.2),
            ask=self._server.shutdown,
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

    def may_be_put_out(self, connection: socket.socket) -> None:
        """Notes that the connection was answered, and may make room for a new one."""
        with self._changed:
            self._silent[connection] = None

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
        access: TlsSource | None,
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


class BoundedHandler(BaseHTTPRequestHandler):
    """Handles one request of one connection (HTTP/1.0): it reads the header to its end, and then the standard
    library parses it. A subclass has ``do_GET`` and its like, and calls ``has_asked`` first.

    ``answer_timeout_s`` is the limit of sending an answer.
    """

    server: _Server
    server_version = "spark-supervisor"
    sys_version = ""
    answer_timeout_s = 5.0

    def handle(self) -> None:
        self.close_connection = True
        self._asked = False
        if not self._has_shaken_hands():
            return
        self._until_at_s = boottime_s() + HEADER_TIMEOUT_S
        header = self._read_header()
        if header is None:
            return
        self.connection.settimeout(self.answer_timeout_s)
        if len(header) > HEADER_BYTES_MAX:
            self.command, self.requestline, self.request_version = "", "", self.protocol_version
            self.refuse(431, "the header of the request is too large")
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
            return bytes(self.connection.recv(min(bytes_max, _PIECE_BYTES)))
        except OSError:
            return b""

    def _linger(self, bytes_max: int = LINGER_BYTES_MAX) -> None:
        """Reads the rest: what was sent and not read would reset the connection when it is closed, and the
        answer might not arrive."""
        with contextlib.suppress(OSError):
            self.connection.shutdown(socket.SHUT_WR)
        left = bytes_max
        while left > 0 and (data := self._receive(left)):
            left -= len(data)

    def read_body(self, length: int, timeout_s: float, take: Callable[[bytes], object]) -> bool:
        """Calls ``take`` with the ``length`` bytes that follow the header, piece by piece. Returns False if they have not
        all come within ``timeout_s``."""
        self._until_at_s = boottime_s() + timeout_s
        piece = self.rfile.read(length)  # what came with the header
        left = length - len(piece)
        take(piece)
        while left > 0:
            piece = self._receive(left)
            if not piece:
                return False
            left -= len(piece)
            take(piece)
        return True

    def linger(self, timeout_s: float) -> None:
        """Reads what is left of a body, for ``timeout_s`` at most, after an answer that did not wait for it. Meanwhile the
        connection makes room for others."""
        self._until_at_s = boottime_s() + timeout_s
        self.server.slots.may_be_put_out(self.connection)
        self._linger(LINGER_BODY_BYTES_MAX)

    def has_asked(self) -> bool:
        """Notes that a whole request was read. Returns False if the connection was put out meanwhile: nobody is to be
        answered."""
        if not self.server.slots.has_asked(self.connection):
            return False
        self._asked = True
        return True

    def shown_certificate(self) -> bool:
        """Returns whether the client has shown a certificate that counts."""
        return isinstance(self.connection, ssl.SSLSocket) and bool(self.connection.getpeercert())

    def refuse(self, code: int, why: str) -> None:
        """Answers a request that could not be read, or not be taken."""
        self.send(code, TEXT, f"{why}\n".encode())

    def send(
        self, code: int, kind: str, body: bytes, more_headers: Mapping[str, str] = NO_MORE_HEADERS
    ) -> None:
        """Sends an answer, without its body to HEAD. Raises OSError if it is not taken within ``answer_timeout_s``."""
        until_at_s = boottime_s() + self.answer_timeout_s
        self.send_response(code)
        for name, value in {"Cache-Control": "no-store", **more_headers}.items():
            self.send_header(name, value)
        if code != 304:  # which is about a body that the client has
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command == "HEAD":
            return
        for start in range(0, len(body), _PIECE_BYTES):
            left_s = until_at_s - boottime_s()
            if left_s <= 0:
                raise TimeoutError("the client does not take its answer")
            self.connection.settimeout(left_s)
            self.wfile.write(body[start : start + _PIECE_BYTES])

    def send_stream(self, kind: str, pieces: Iterable[bytes], write_timeout_s: float) -> None:
        """Sends an answer whose end is not known: ``pieces`` as they come. An empty piece sends nothing; at each piece it
        is seen whether the client has left. Raises OSError if a piece is not taken within ``write_timeout_s``."""
        self.send_response(200)
        for name, value in {"Content-Type": kind, "Cache-Control": "no-store"}.items():
            self.send_header(name, value)
        self.send_header("X-Content-Type-Options", "nosniff")
        self.send_header("X-Accel-Buffering", "no")  # a proxy that would collect it all
        self.end_headers()
        self.connection.settimeout(write_timeout_s)
        watched = select.poll()
        watched.register(self.connection, select.POLLIN)
        for piece in pieces:
            if watched.poll(0):  # the end, or more than one request: with HTTP/1.0 nothing else comes
                return
            if piece:
                self.wfile.write(piece)

    def log_message(self, format: str, *args: Any) -> None:
        """Logs nothing: probes come every few seconds and are no events."""
