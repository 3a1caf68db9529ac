"""Asks the API server of a Kubernetes cluster, over HTTPS with a token and the cluster's authority; stdlib only.

Each request has a connection of its own, follows no redirect, uses no proxy, and is bounded in time and size
(``web``). The token is read anew for each request, because a cluster rotates it, and never stands in an error. Over
plain HTTP none is sent.
"""

from __future__ import annotations

import ssl
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlencode

from supervisor.clients.web import ask_json
from supervisor.errors import Unreachable
from supervisor.model.records import clip

TOKEN_MAX_BYTES: Final = 65536
PAGE: Final = 100
PAGES_MAX: Final = 200
SAID_MAX_BYTES: Final = 300
JSON: Final = "application/json"
RIGHTS: Final = "give the token's service account the rights of deploy/kubernetes/executors.yaml"
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
            if items is None and "items" in body:  # an empty list of metadata only
                items = []
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
        self.ask("DELETE", path, {"labelSelector": selector}, deadline_at_s, METADATA_ONLY)

    def ask(
        self, method: str, path: str, query: Mapping[str, str], deadline_at_s: float, accept: str = JSON
    ) -> dict[str, Any]:
        """Returns the answer to one request. Raises Unreachable if there is none by ``deadline_at_s`` (monotonic clock), if
        it is a refusal, or no JSON object."""
        token = self._token()
        headers = {"Accept": accept, **({"Authorization": f"Bearer {token}"} if token else {})}
        left_s = deadline_at_s - time.monotonic()
        if left_s <= 0:
            raise Unreachable(f"{self.url} has not answered in time")
        answer = ask_json(
            f"{self.url}{path}?{urlencode(query)}",
            left_s,
            method=method,
            tls=self._context(),
            more_headers=headers,
        )
        body = answer.body if isinstance(answer.body, dict) else {}
        if not 200 <= answer.status < 300:
            said = _printable(str(body.get("message", "")), token)
            raise Unreachable(
                f"{self.url} refuses {method} {path} ({answer.status}{': ' if said else ''}{said})",
                RIGHTS if answer.status in (401, 403) else "",
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

    def _context(self) -> ssl.SSLContext | None:
        if not self.url.startswith("https://"):
            return None
        try:
            context = ssl.create_default_context(cafile=None if self.ca is None else str(self.ca))
        except OSError as error:  # of which ssl.SSLError is one
            why = error.strerror or "it holds no certificate"
            raise Unreachable(f"ca {self.ca} can't be read ({why})", "repair it, or correct ca") from None
        # Authorities of clusters in use lack extensions that OpenSSL then asks for; chain and name are verified as ever.
        context.verify_flags &= ~getattr(ssl, "VERIFY_X509_STRICT", 0)
        return context


def _printable(text: str, token: str) -> str:
    """Returns what a server says as one line for a log, without the token."""
    return clip(text.replace(token, "<token>") if token else text, SAID_MAX_BYTES)
