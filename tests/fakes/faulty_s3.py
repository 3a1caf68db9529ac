"""An S3 endpoint that misbehaves: relays to a real S3 API server, and does to each request what the test has asked for.

Unlike the TCP proxy of the test bed it speaks HTTP, so it can answer with S3's own errors and break off in a body.
"""

from __future__ import annotations

import contextlib
import http.client
import re
import socket
import struct
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

SLICE_BYTES = 256 * 1024

Answer = tuple[int, list[tuple[str, str]], bytes]


class FaultyS3:
    """``endpoint_url`` to give to the store under test. ``faults``: one per request to come, then all are relayed;
    ``always``: for every request, while set; ``aim``: only for requests of one kind. ``requests``: methods and paths that
    arrived; ``headers``: theirs, names in lower case."""

    def __init__(self, backend_port: int) -> None:
        self.backend_port = backend_port
        self.faults: list[Fault] = []
        self.always: Fault | None = None
        self.requests: list[str] = []
        self.headers: list[dict[str, str]] = []
        self._aimed: list[tuple[re.Pattern[str], list[Fault] | Fault]] = []
        self.released = threading.Event()
        self._lock = threading.Lock()
        faulty = self

        class Bound(Handler):
            owner = faulty

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Bound)
        self._server.daemon_threads = True
        # Connections inherit it: little of a slow upload shall hide in the kernel.
        self._server.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, SLICE_BYTES // 2)
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True)
        self._thread.start()
        self.endpoint_url = f"http://127.0.0.1:{self._server.server_port}"

    def aim(self, kind: str, fault: Fault | list[Fault]) -> None:
        """``kind``: a pattern that ``COMMAND path`` of the request begins with; a copy's command is COPY. A list: one for
        each of the first requests of this kind; else for all of them."""
        self._aimed.append((re.compile(kind), fault))

    def next_fault(self, request: str, headers: dict[str, str]) -> Fault:
        if "x-amz-copy-source" in headers:
            request = request.replace("PUT", "COPY", 1)
        with self._lock:
            self.requests.append(request)
            self.headers.append(headers)
            if self.always is not None:
                return self.always
            for kind, fault in self._aimed:
                if kind.match(request) and fault:
                    return fault.pop(0) if isinstance(fault, list) else fault
            return self.faults.pop(0) if self.faults else relay

    def reset(self) -> None:
        """No faults, nothing seen. What hangs must have been let go before."""
        self.faults, self.always, self.requests, self.headers, self._aimed = [], None, [], [], []
        self.released = threading.Event()

    def stop(self) -> None:
        """Let everything that hangs go, and close."""
        self.released.set()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join(10)


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    owner: FaultyS3

    def handle_one_request(self) -> None:
        with contextlib.suppress(OSError):
            super().handle_one_request()
            return
        self.close_connection = True

    def do_any(self) -> None:
        headers = {name.lower(): value for name, value in self.headers.items()}
        fault = self.owner.next_fault(f"{self.command} {self.path}", headers)
        fault(self)

    do_GET = do_PUT = do_DELETE = do_HEAD = do_POST = do_any

    def log_message(self, format: str, *args: object) -> None:
        """Silence."""

    def body(self) -> bytes:
        return self.rfile.read(int(self.headers.get("Content-Length") or 0))

    def ask_backend(self, body: bytes | None = None) -> Answer:
        backend = http.client.HTTPConnection("127.0.0.1", self.owner.backend_port, timeout=30)
        headers = {name: value for name, value in self.headers.items() if name.lower() != "expect"}
        with contextlib.closing(backend):
            backend.request(self.command, self.path, self.body() if body is None else body, headers)
            answer = backend.getresponse()
            return answer.status, answer.getheaders(), answer.read()

    def answer(
        self, status: int, headers: list[tuple[str, str]], body: bytes, announced: int | None = None
    ) -> None:
        """Headers for ``announced`` bytes (default: all), then ``body``."""
        self.send_response_only(status)
        for name, value in headers:
            if name.lower() not in ("content-length", "connection", "transfer-encoding"):
                self.send_header(name, value)
        if self.command == "HEAD":
            of_get = [value for name, value in headers if name.lower() == "content-length"]
            self.send_header("Content-Length", of_get[0] if of_get else "0")
        elif status != 204:
            self.send_header("Content-Length", str(len(body) if announced is None else announced))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)
            self.wfile.flush()

    def reset(self) -> None:
        """End the connection with a TCP reset."""
        self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.close_connection = True
        self.connection.close()


Fault = Callable[[Handler], None]


def relay(handler: Handler) -> None:
    """No fault."""
    handler.answer(*handler.ask_backend())


def refuse(status: int, code: str, **headers: str) -> Fault:
    """S3's own way of saying no. With status 200: that of a copy which fails when its answer has begun."""

    def fault(handler: Handler) -> None:
        handler.body()
        text = f"<?xml version='1.0'?><Error><Code>{code}</Code><Message>{code}, on purpose</Message></Error>"
        named = [(name.replace("_", "-"), value) for name, value in headers.items()]
        handler.answer(status, [("Content-Type", "application/xml"), *named], text.encode())

    return fault


def refuse_keys(valid: Callable[[str], bool]) -> Fault:
    """403 InvalidAccessKeyId for requests whose access key is not valid (any more)."""

    def fault(handler: Handler) -> None:
        found = re.search(r"Credential=([^/]+)/", handler.headers.get("Authorization", ""))
        (relay if found and valid(found[1]) else refuse(403, "InvalidAccessKeyId"))(handler)

    return fault


def web_page(status: int) -> Fault:
    """What a server says that is no S3."""

    def fault(handler: Handler) -> None:
        handler.body()
        handler.answer(status, [("Content-Type", "text/html")], b"<!DOCTYPE html><p>Welcome<br></p>")

    return fault


def hang(handler: Handler) -> None:
    """Take the request and say nothing."""
    released = handler.owner.released
    handler.body()
    released.wait(120)
    handler.reset()


def hang_after_carrying_out(handler: Handler) -> None:
    """The request has its effect, but nobody hears of it."""
    released = handler.owner.released
    handler.ask_backend()
    released.wait(120)
    handler.reset()


def lose_reply(handler: Handler) -> None:
    """The request has its effect; the connection is reset instead of an answer."""
    handler.ask_backend()
    handler.reset()


def reset_before(handler: Handler) -> None:
    """The request has no effect; the connection is reset."""
    handler.reset()


def reset_in_body(handler: Handler) -> None:
    """Half of the answer's body, then a reset."""
    status, headers, body = handler.ask_backend()
    handler.answer(status, headers, body[: len(body) // 2], announced=len(body))
    handler.reset()


def truncate_body(handler: Handler) -> None:
    """Half of the answer's body, then an orderly close."""
    status, headers, body = handler.ask_backend()
    handler.answer(status, headers, body[: len(body) // 2], announced=len(body))
    handler.close_connection = True


def chunks_cut(handler: Handler) -> None:
    """Half of the answer's body in a chunk without a length of all, then an orderly close instead of the last chunk."""
    _in_chunks(handler, whole=False)


def in_chunks(handler: Handler) -> None:
    """The answer without ``Content-Length``, as some proxies send it."""
    _in_chunks(handler, whole=True)


def _in_chunks(handler: Handler, *, whole: bool) -> None:
    status, headers, body = handler.ask_backend()
    handler.send_response_only(status)
    for name, value in headers:
        if name.lower() not in ("content-length", "connection", "transfer-encoding"):
            handler.send_header(name, value)
    handler.send_header("Transfer-Encoding", "chunked")
    handler.end_headers()
    part = body if whole else body[: len(body) // 2]
    handler.wfile.write(f"{len(part):x}\r\n".encode() + part + b"\r\n" + (b"0\r\n\r\n" if whole else b""))
    handler.close_connection = not whole


def another_tag(handler: Handler) -> None:
    """Carried out, and answered as a server does that gives a copy an ETag of its own."""
    status, headers, body = handler.ask_backend()
    handler.answer(status, headers, re.sub(rb"(<ETag>)(?:&quot;|\")?[0-9a-f]+", rb"\1another", body))


def without_tag(handler: Handler) -> None:
    """Carried out, and answered as Ceph 16 does when a copy in parts is complete."""
    status, headers, body = handler.ask_backend()
    handler.answer(status, headers, re.sub(rb"<ETag>.*</ETag>", b"<ETag></ETag>", body))


def trickle(handler: Handler) -> None:
    """A byte now and then, never enough: no socket time-out ever notices."""
    released = handler.owner.released
    handler.body()
    handler.wfile.write(b"HTTP/1.1 200 OK\r\nX-Padding: ")
    while not released.wait(0.05):
        handler.wfile.write(b"x")
        handler.wfile.flush()
    handler.reset()


def slow_download(pause_s: float) -> Fault:
    """The whole answer, a slice at a time."""

    def fault(handler: Handler) -> None:
        status, headers, body = handler.ask_backend()
        handler.answer(status, headers, b"", announced=len(body))
        for start in range(0, len(body), SLICE_BYTES):
            handler.owner.released.wait(pause_s)
            handler.wfile.write(body[start : start + SLICE_BYTES])

    return fault


def slow_upload(pause_s: float) -> Fault:
    """Takes the request's body a slice at a time, then relays it."""

    def fault(handler: Handler) -> None:
        left = int(handler.headers.get("Content-Length") or 0)
        slices = []
        while left > 0:
            handler.owner.released.wait(pause_s)
            slices.append(handler.rfile.read(min(left, SLICE_BYTES)))
            left -= len(slices[-1])
        handler.answer(*handler.ask_backend(b"".join(slices)))

    return fault
