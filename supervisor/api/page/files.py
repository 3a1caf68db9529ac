"""Answers requests for the files of the page: ``/``, and what is below ``/page/``.

``daemon.process.api_server`` asks it first. The files are read when it is made, and a path is only ever compared with
their names: none leads to any other file.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib import resources
from types import MappingProxyType
from typing import Final

from supervisor.api.responses import ApiResponse, unless_known, with_tag

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


class PageFiles:
    """Holds the files of the page. It may be used by many threads at once."""

    def __init__(self) -> None:
        self._files: dict[str, ApiResponse] = {}
        for each in (resources.files(__package__) / "static").iterdir():
            kind = KINDS.get(each.name[each.name.rfind(".") :])
            if kind is None:
                continue
            file = ApiResponse(200, each.read_bytes(), HEADERS, kind)
            self._files["/" if each.name == INDEX else f"{BELOW}{each.name}"] = with_tag(file)

    @property
    def paths(self) -> frozenset[str]:
        """Returns the paths that are answered."""
        return frozenset(self._files)

    def answer(self, target: str, if_none_match: str | None = None) -> ApiResponse | None:
        """Returns the answer to a request for ``target``, path and query as they were sent, or None if that is no file of
        the page."""
        found = self._files.get(target.partition("?")[0])
        return None if found is None else unless_known(found, if_none_match)
