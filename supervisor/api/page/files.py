"""Answers requests for the files of the page: ``/``, and what is below ``/page/``.

``daemon.process.api_server`` asks it first. The files are read when it is made, and a path is only ever compared with
their names: none leads to any other file.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import resources
from types import MappingProxyType
from typing import Final

INDEX: Final = "index.html"
BELOW: Final = "/page/"
KINDS: Final[Mapping[str, str]] = MappingProxyType(
    {
        ".html": "text/html; charset=utf-8",
        ".css": "text/css; charset=utf-8",
        ".js": "text/javascript; charset=utf-8",
        ".svg": "image/svg+xml",
    }
)
"""It maps the ends of names to types. A file of another kind is not served."""

CONTENT_POLICY: Final = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "connect-src 'self'",
        "img-src 'self' data:",
        "base-uri 'none'",
        "form-action 'none'",
        "frame-ancestors 'none'",
        "require-trusted-types-for 'script'",
        "trusted-types 'none'",
    )
)
"""The last two make a browser refuse every call that would read text as HTML or as a script."""

HEADERS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "Content-Security-Policy": CONTENT_POLICY,
        "Referrer-Policy": "no-referrer",
        "X-Frame-Options": "DENY",
        "Cross-Origin-Opener-Policy": "same-origin",
        "Cross-Origin-Resource-Policy": "same-origin",
        "Cache-Control": "no-cache",
    }
)
_TAG: Final = re.compile(r'"[^"]*"')


@dataclass(frozen=True)
class PageFile:
    """Is one file as it is sent. ``tag`` is its ETag."""

    kind: str
    body: bytes
    tag: str


@dataclass(frozen=True)
class PageAnswer:
    """Is the answer to a request for a file; it is 304 and has no body if the client has the file already."""

    code: int
    kind: str
    body: bytes
    headers: Mapping[str, str]


class PageFiles:
    """Holds the files of the page. It may be used by many threads at once."""

    def __init__(self) -> None:
        self._files: dict[str, PageFile] = {}
        for each in (resources.files(__package__) / "static").iterdir():
            kind = KINDS.get(each.name[each.name.rfind(".") :])
            if kind is None:
                continue
            body = each.read_bytes()
            tag = f'"{hashlib.sha256(body).hexdigest()[:32]}"'
            self._files["/" if each.name == INDEX else f"{BELOW}{each.name}"] = PageFile(kind, body, tag)

    @property
    def paths(self) -> frozenset[str]:
        """Returns the paths that are answered."""
        return frozenset(self._files)

    def answer(self, target: str, if_none_match: str | None = None) -> PageAnswer | None:
        """Returns the answer to a request for ``target``, path and query as they were sent, or None if that is no file of
        the page."""
        found = self._files.get(target.partition("?")[0])
        if found is None:
            return None
        headers = {**HEADERS, "ETag": found.tag}
        if found.tag in _TAG.findall(if_none_match or ""):
            return PageAnswer(304, found.kind, b"", headers)
        return PageAnswer(200, found.kind, found.body, headers)
