"""Asks the API server of a Kubernetes cluster, over HTTPS with a token and the cluster's authority; stdlib only.

Each request has a connection of its own, follows no redirect, uses no proxy, and ends by its deadline whatever the other
side does: names are resolved on a thread that is left behind, and each read gets what is left of the time. The token is
read anew for each request, because a cluster rotates it, and never stands in an error. Over plain HTTP none is sent.
"""

from __future__ import annotations

import contextlib
import http.client
import io
import json
import socket
import ssl
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlencode, urlsplit

from supervisor.clients.threads import run_in_thread
from supervisor.errors import Unreachable

ANSWER_MAX_BYTES: Final = 16 * 2**20
TOKEN_MAX_BYTES: Final = 65536
PAGE: Final = 250
PAGES_MAX: Final = 80
SAID_MAX: Final = 300
JSON: Final = "application/json"
METADATA_ONLY: Final = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"
"""Of each object of a list comes only its metadata: a ConfigMap may hold a megabyte."""


@dataclass(frozen=True, slots=True)
class ApiServer:
    """``url`` is ``https://HOST:PORT``. ``ca`` is a file with the authority of the server; without it those of the system
    count. ``token_file`` has the token of a service account; without it requests are anonymous."""

    url: str
    ca: Path | None = None
    token_file: Path | None = None

    def items(
        self, path: str, selector: str, deadline_at_s: float, accept: str = JSON
    ) -> Iterator[Mapping[str, Any]]:
        """Yields the objects below ``path`` that have the labels of ``selector``, page by page. ``deadline_at_s`` is of the
        monotonic clock. Raises Unreachable."""
        query = {"labelSelector": selector, "limit": str(PAGE)}
        for _ in range(PAGES_MAX):
            body = self.ask("GET", path, query, deadline_at_s, accept)
            items, metadata = body.get("items"), body.get("metadata")
            if not isinstance(items, list) or not isinstance(metadata, dict):
                raise Unreachable(f"{self.url} answers something else than a list of Kubernetes")
            yield from (item for item in items if isinstance(item, dict))
            more = metadata.get("continue")
            if not more:
                return
            query["continue"] = str(more)
        raise Unreachable(f"{self.url} has more than {PAGE * PAGES_MAX} objects at {path}")

    def delete_all(self, path: str, selector: str, deadline_at_s: float) -> None:
        """Deletes the objects below ``path`` that have the labels of ``selector``, which must not be empty. Raises
        Unreachable."""
        if not selector:
            raise ValueError("a deletion needs a selector")
        self.ask("DELETE", path, {"labelSelector": selector}, deadline_at_s)

    def ask(
        self, method: str, path: str, query: Mapping[str, str], deadline_at_s: float, accept: str = JSON
    ) -> dict[str, Any]:
        """Returns the answer to one request. Raises Unreachable if there is none by ``deadline_at_s`` (monotonic clock), if
        it is a refusal, or no JSON object."""
        token = self._token()
        headers = {"Accept": accept, "Connection": "close"}
        if token:
            headers["Authorization"] = f"Bearer {token}"
        try:
            with self._connection(deadline_at_s) as connection:
                connection.request(method, f"{path}?{urlencode(query)}", headers=headers)
                answer = connection.getresponse()
                data = answer.read(ANSWER_MAX_BYTES + 1)
        except (OSError, http.client.HTTPException, ValueError) as error:
            raise Unreachable(f"{self.url} does not answer ({_why(error)})") from None
        if len(data) > ANSWER_MAX_BYTES:
            raise Unreachable(f"{self.url} answers more than {ANSWER_MAX_BYTES // 2**20} MiB")
        body = _object(data)
        if not 200 <= answer.status < 300:
            said = _printable(str(body.get("message", "")), token)
            raise Unreachable(
                f"{self.url} refuses {method} {path} ({answer.status}{': ' if said else ''}{said})",
                "give the token's service account the rights of deploy/kubernetes"
                if answer.status in (401, 403)
                else "",
            )
        if not body:
            raise Unreachable(f"{self.url} answers something else than Kubernetes does")
        return body

    def _token(self) -> str:
        if self.token_file is None or not self.url.startswith("https://"):
            return ""
        try:
            with self.token_file.open("rb") as file:
                token = file.read(TOKEN_MAX_BYTES + 1).decode("ascii").strip()
        except (OSError, UnicodeDecodeError) as error:
            why = getattr(error, "strerror", None) or "it is no text"
            raise Unreachable(
                f"token_file {self.token_file} can't be read ({why})", "repair it, or correct token_file"
            ) from None
        if not token.isprintable() or " " in token or not 0 < len(token) <= TOKEN_MAX_BYTES:
            raise Unreachable(f"token_file {self.token_file} holds no token", "write the token into it")
        return token

    def _context(self) -> ssl.SSLContext:
        try:
            context = ssl.create_default_context(cafile=None if self.ca is None else str(self.ca))
        except OSError as error:  # of which ssl.SSLError is one
            why = error.strerror or "it holds no certificate"
            raise Unreachable(f"ca {self.ca} can't be read ({why})", "repair it, or correct ca") from None
        # Authorities of clusters in use lack extensions that OpenSSL then asks for; chain and name are verified as ever.
        context.verify_flags &= ~getattr(ssl, "VERIFY_X509_STRICT", 0)
        return context

    @contextlib.contextmanager
    def _connection(self, deadline_at_s: float) -> Iterator[http.client.HTTPConnection]:
        parts = urlsplit(self.url)
        host, port = parts.hostname or "", parts.port or 443
        context = self._context() if parts.scheme == "https" else None
        connection = http.client.HTTPConnection(host, port)
        with contextlib.closing(connection), _connected(host, port, deadline_at_s) as plain:
            link = plain
            if context is not None:
                plain.settimeout(_left_s(deadline_at_s))
                link = context.wrap_socket(plain, server_hostname=host)
            with link:
                connection.sock = _TimedLink(link, deadline_at_s)
                yield connection


class _TimedLink:
    """Is what ``http.client`` uses of a socket; each call gets what is left of the time."""

    def __init__(self, link: socket.socket, deadline_at_s: float) -> None:
        self._link, self._deadline_at_s = link, deadline_at_s

    def sendall(self, data: bytes) -> None:
        self._link.settimeout(_left_s(self._deadline_at_s))
        self._link.sendall(data)

    def makefile(self, _mode: str) -> io.BufferedReader:
        return io.BufferedReader(_TimedReader(self._link, self._deadline_at_s))

    def close(self) -> None:
        """Does nothing: ``http.client`` calls it before it has read the answer, and whoever made the socket closes it."""


class _TimedReader(io.RawIOBase):
    """Reads from a socket until a deadline."""

    def __init__(self, link: socket.socket, deadline_at_s: float) -> None:
        self._link, self._deadline_at_s = link, deadline_at_s

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        self._link.settimeout(_left_s(self._deadline_at_s))
        return self._link.recv_into(buffer)


def _left_s(deadline_at_s: float) -> float:
    """Returns the seconds that are left. Raises TimeoutError if there are none."""
    left_s = deadline_at_s - time.monotonic()
    if left_s <= 0:
        raise TimeoutError("timed out")
    return left_s


def _connected(host: str, port: int, deadline_at_s: float) -> socket.socket:
    """Returns a connection to the first address that answers. Raises OSError."""
    found = run_in_thread(
        "kubernetes-name", lambda: socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    ).result(_left_s(deadline_at_s))
    failed: OSError = ConnectionRefusedError("no address")
    for family, kind, protocol, _, address in found:
        link = socket.socket(family, kind, protocol)
        try:
            link.settimeout(_left_s(deadline_at_s))
            link.connect(address)
        except OSError as error:
            link.close()
            failed = error
        else:
            return link
    raise failed


def _object(data: bytes) -> dict[str, Any]:
    """Returns the JSON object that ``data`` is, or an empty one."""
    try:
        body = json.loads(data)
    except (ValueError, RecursionError):
        return {}
    return body if isinstance(body, dict) else {}


def _why(error: Exception) -> str:
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"its certificate is not accepted: {error.verify_message}"
    if isinstance(error, TimeoutError):
        return "no answer in time"
    if isinstance(error, http.client.HTTPException | ValueError):
        return "its answer is no HTTP"
    return _printable(str(getattr(error, "strerror", None) or type(error).__name__), "")


def _printable(text: str, token: str) -> str:
    """Returns what a server says as one line for a log, without the token."""
    told = text.replace(token, "<token>") if token else text
    return "".join(each if each.isprintable() else " " for each in told)[:SAID_MAX].strip()
