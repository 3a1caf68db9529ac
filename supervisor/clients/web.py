"""Gets a page over HTTP, within a time and a size, without redirects and proxies: what a cluster says of itself."""

from __future__ import annotations

import http.client
import socket
from concurrent.futures import TimeoutError as LateError
from contextlib import suppress
from urllib.parse import urlsplit

from supervisor.clients.threads import run_in_thread
from supervisor.errors import Unreachable
from supervisor.model.records import clip

SAID_MAX_BYTES = 200


def fetch(url: str, timeout_s: float, max_bytes: int) -> bytes:
    """Returns the body that ``url`` (http or https) answers with. It ends within about ``timeout_s`` seconds, however
    slowly the answer drips in. Raises Unreachable; its text names the address."""
    parts = urlsplit(url)
    make = http.client.HTTPSConnection if parts.scheme == "https" else http.client.HTTPConnection
    at = f"{parts.scheme}://{parts.netloc}"
    try:
        connection = make(parts.hostname or "", parts.port, timeout=timeout_s)
    except (ValueError, http.client.HTTPException) as error:
        raise Unreachable(f"{at} is no address: {error}") from None
    asked = run_in_thread("fetch", lambda: _get(connection, parts.path or "/", max_bytes))
    try:
        status, body = asked.result(timeout_s)
    except LateError:
        raise Unreachable(f"{at} does not answer within {timeout_s:.1f} s") from None
    except (OSError, http.client.HTTPException, ValueError) as error:
        why = getattr(error, "strerror", None) or str(error) or type(error).__name__
        raise Unreachable(f"{at} does not answer ({clip(why, SAID_MAX_BYTES)})") from None
    finally:
        _cut(connection)
    if status != 200:
        raise Unreachable(f"{at} answers {status}")
    if len(body) > max_bytes:
        raise Unreachable(f"{at} answers with more than {max_bytes} bytes")
    return body


def _get(connection: http.client.HTTPConnection, path: str, max_bytes: int) -> tuple[int, bytes]:
    connection.request("GET", path)
    answer = connection.getresponse()
    return answer.status, answer.read(max_bytes + 1)


def _cut(connection: http.client.HTTPConnection) -> None:
    """Ends the connection, so that a thread that still reads from it ends, too."""
    with suppress(OSError, AttributeError):
        connection.sock.shutdown(socket.SHUT_RDWR)
    with suppress(OSError):
        connection.close()
