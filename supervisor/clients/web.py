"""Asks an HTTP server once, within a bounded time and a bounded size. It follows no redirect and no proxy.

``urllib`` bounds each read, not the whole: a server that sends a byte a second would hold its caller for hours. Here each
read gets what is left of the time. The look-up of a name by the system's resolver has no time-out: so all of it is done in a
thread that nobody waits for longer.
"""

from __future__ import annotations

import contextlib
import http.client
import io
import json
import socket
import ssl
import time
from collections.abc import Mapping
from functools import partial
from types import MappingProxyType
from typing import Any, NamedTuple
from urllib.parse import SplitResult, urlsplit

from supervisor.clients.threads import run_in_thread
from supervisor.errors import NotSent, Unreachable
from supervisor.model.records import clip

ANSWER_MAX_BYTES = 8 * 2**20
SAID_MAX_BYTES = 200
NO_HEADERS: Mapping[str, str] = MappingProxyType({})
_CHUNK_BYTES = 65536
_READ_MIN_S = 0.001


class WebAnswer(NamedTuple):
    """Is what came back: the status, the body as it is, and the headers by their names in small letters."""

    status: int
    body: bytes
    headers: Mapping[str, str] = NO_HEADERS


class JsonAnswer(NamedTuple):
    """Is what came back: the status, and the body if it was JSON, else None."""

    status: int
    body: Any


class WebRequest(NamedTuple):
    """Is what is asked. ``headers`` may hold a secret, and must be valid: no error shows them. Without ``reads_body`` the
    body of the answer is left unread, and is empty."""

    method: str = "GET"
    body: bytes | None = None
    headers: Mapping[str, str] = NO_HEADERS
    tls: ssl.SSLContext | None = None
    reads_body: bool = True


PLAIN = WebRequest()


def fetch(url: str, timeout_s: float, max_bytes: int) -> bytes:
    """Returns the body that ``url`` (http or https) answers with. Raises Unreachable as ``ask`` does, and for any status but
    200."""
    answer = ask(url, timeout_s, max_bytes)
    if answer.status != 200:
        raise Unreachable(f"{_named(urlsplit(url))} answers {answer.status}")
    return answer.body


def ask_json(
    url: str,
    timeout_s: float,
    *,
    method: str = "GET",
    body: Any = None,
    tls: ssl.SSLContext | None = None,
    more_headers: Mapping[str, str] = NO_HEADERS,
) -> JsonAnswer:
    """Returns the answer to one request. ``body`` is sent as JSON if it is not None. ``more_headers`` may hold a secret.
    Raises Unreachable as ``ask`` does."""
    data = None if body is None else json.dumps(body).encode()
    headers = {"Accept": "application/json", "Content-Type": "application/json", **more_headers}
    answer = ask(url, timeout_s, ANSWER_MAX_BYTES, WebRequest(method, data, headers, tls))
    return JsonAnswer(answer.status, parsed_json(answer.body))


def ask(url: str, timeout_s: float, max_bytes: int, request: WebRequest = PLAIN) -> WebAnswer:
    """Returns the answer to one request. Raises Unreachable, with a text that names the address, if there is no complete
    answer within ``timeout_s`` seconds, or if it is larger than ``max_bytes``; NotSent if no connection came about, so that
    nothing can have come of it. Their ``__cause__`` is the error of the connection."""
    parts = urlsplit(url)
    at, until_at_s = _named(parts), time.monotonic() + timeout_s
    asked = run_in_thread("fetch", partial(_exchange, parts, request, until_at_s, max_bytes))
    try:
        answer = asked.result(timeout_s)
    except TimeoutError:
        raise Unreachable(f"{at} does not answer within {timeout_s:.1f} s (timed out)") from None
    except _NotConnectedError as error:
        raise NotSent(_silent(at, error.why)) from error.why
    except (OSError, http.client.HTTPException, ValueError) as error:
        raise Unreachable(_silent(at, error)) from error
    if len(answer.body) > max_bytes:
        raise Unreachable(f"{at} answers with more than {max_bytes} bytes")
    return answer


class _NotConnectedError(Exception):
    def __init__(self, why: Exception) -> None:
        super().__init__(str(why))
        self.why = why


def _silent(at: str, error: Exception) -> str:
    why = getattr(error, "strerror", None) or str(error) or type(error).__name__
    return f"{at} does not answer ({clip(why, SAID_MAX_BYTES)})"


def _named(parts: SplitResult) -> str:
    return f"{parts.scheme}://{parts.netloc}"


def _exchange(parts: SplitResult, request: WebRequest, until_at_s: float, max_bytes: int) -> WebAnswer:
    timeout_s = _left_s(until_at_s)
    connection: http.client.HTTPConnection
    if parts.scheme == "https":
        tls = request.tls or ssl.create_default_context()
        connection = http.client.HTTPSConnection(parts.netloc, timeout=timeout_s, context=tls)
    else:
        connection = http.client.HTTPConnection(parts.netloc, timeout=timeout_s)
    target = f"{parts.path or '/'}?{parts.query}" if parts.query else parts.path or "/"
    with contextlib.closing(connection):
        try:
            connection.connect()
        except (OSError, ValueError) as error:
            raise _NotConnectedError(error) from None
        with connection.sock as inner:
            connection.sock = _BoundedSocket(inner, until_at_s)
            response = _response(connection, request, target)
            headers = {name.lower(): value for name, value in response.getheaders()}
            body = _read(response, max_bytes) if request.reads_body else b""
            return WebAnswer(response.status, body, headers)


def _response(
    connection: http.client.HTTPConnection, request: WebRequest, target: str
) -> http.client.HTTPResponse:
    """Sends a request and returns the response. A server that refuses a large body by its header may have answered and
    closed before it has all: then the answer counts, not that the rest could not be sent."""
    try:
        connection.request(request.method, target, request.body, dict(request.headers))
    except TimeoutError:
        raise
    except OSError as error:
        try:
            return connection.getresponse()
        except (OSError, http.client.HTTPException):
            raise error from None
    return connection.getresponse()


def _read(response: http.client.HTTPResponse, max_bytes: int) -> bytes:
    """Returns the body, or one that is too large as soon as it is."""
    text = io.BytesIO()
    while text.tell() <= max_bytes and (chunk := response.read(_CHUNK_BYTES)):
        text.write(chunk)
    return text.getvalue()


def parsed_json(text: bytes) -> Any:
    """Returns what the text is as JSON, or None if it is none."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


class _BoundedReader(io.RawIOBase):
    """Reads from a socket until an instant of the monotonic clock."""

    def __init__(self, inner: socket.socket, until_at_s: float) -> None:
        self._inner, self._until_at_s = inner, until_at_s

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        self._inner.settimeout(_left_s(self._until_at_s))
        return self._inner.recv_into(buffer)


class _BoundedSocket:
    """Is a socket as far as ``http.client`` uses one; no call outlasts the instant."""

    def __init__(self, inner: socket.socket, until_at_s: float) -> None:
        self._inner, self._until_at_s = inner, until_at_s

    def sendall(self, data: bytes) -> None:
        self._inner.settimeout(_left_s(self._until_at_s))
        self._inner.sendall(data)

    def makefile(self, _mode: str) -> io.BufferedReader:
        return io.BufferedReader(_BoundedReader(self._inner, self._until_at_s))

    def close(self) -> None:
        """Does nothing: ``http.client`` calls it when the server is going to close, before it has read the answer. Whoever
        made the socket closes it."""


def _left_s(until_at_s: float) -> float:
    left_s = until_at_s - time.monotonic()
    if left_s <= 0:
        raise TimeoutError("timed out")
    return max(left_s, _READ_MIN_S)
