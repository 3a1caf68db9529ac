"""Asks an HTTP server for JSON, once, within a bounded time and a bounded size. It follows no redirect and no proxy.

``urllib`` bounds each read, not the whole: a server that sends a byte a second would hold its caller for hours. Here each
read gets what is left of the time. Only the look-up of the name by the system's resolver has a time of its own.
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
from types import MappingProxyType
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from supervisor.errors import Unreachable

ANSWER_MAX_BYTES = 8 * 2**20
NO_HEADERS: Mapping[str, str] = MappingProxyType({})
_CHUNK_BYTES = 65536
_READ_MIN_S = 0.001


class JsonAnswer(NamedTuple):
    """Is what came back: the status, and the body if it was JSON, else None."""

    status: int
    body: Any


def ask_json(
    url: str,
    timeout_s: float,
    *,
    method: str = "GET",
    body: Any = None,
    tls: ssl.SSLContext | None = None,
    more_headers: Mapping[str, str] = NO_HEADERS,
) -> JsonAnswer:
    """Returns the answer to one request. ``body`` is sent as JSON if it is not None. ``more_headers`` may hold a secret, and
    must be valid: no error shows them. Raises Unreachable if there is no complete answer within ``timeout_s`` seconds, or if
    it is larger than ``ANSWER_MAX_BYTES``."""
    until_at_s = time.monotonic() + timeout_s
    parts = urlsplit(url)
    where = parts.netloc
    connection: http.client.HTTPConnection
    try:
        if parts.scheme == "https":
            context = tls or ssl.create_default_context()
            connection = http.client.HTTPSConnection(where, timeout=timeout_s, context=context)
        else:
            connection = http.client.HTTPConnection(where, timeout=timeout_s)
        with contextlib.closing(connection):
            connection.connect()
            with connection.sock as inner:
                connection.sock = _BoundedSocket(inner, until_at_s)
                data = None if body is None else json.dumps(body).encode()
                headers = {"Accept": "application/json", "Content-Type": "application/json", **more_headers}
                target = f"{parts.path}?{parts.query}" if parts.query else parts.path
                connection.request(method, target, data, headers)
                response = connection.getresponse()
                text = _read(response, where)
    except (OSError, http.client.HTTPException, ValueError) as error:
        why = getattr(error, "strerror", None) or str(error) or type(error).__name__
        raise Unreachable(f"{where} does not answer ({why[:200]})") from None
    return JsonAnswer(response.status, _parsed(text))


def _read(response: http.client.HTTPResponse, where: str) -> bytes:
    text = io.BytesIO()
    while chunk := response.read(_CHUNK_BYTES):
        text.write(chunk)
        if text.tell() > ANSWER_MAX_BYTES:
            raise Unreachable(f"{where} answers with more than {ANSWER_MAX_BYTES} bytes")
    return text.getvalue()


def _parsed(text: bytes) -> Any:
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
