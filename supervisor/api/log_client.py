"""Fetches what a driver wrote from the API, piece by piece, for ``cli.logs``: from the host that has it.

Each answer names the address of the next. If the host that has it can't be asked, the first server gives what was uploaded
to the store.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final
from urllib.parse import parse_qs, unquote, urlencode, urlsplit

from supervisor.api.client import ApiClient
from supervisor.api.host_client import HostClient
from supervisor.api.paths import (
    ATTEMPT_HEADER,
    HOST_HEADER,
    LOST_HEADER,
    PATH_HEADER,
    SOURCE_HEADER,
    SOURCE_HOST,
    SOURCE_STORE,
    UID_HEADER,
    UNTIL_HEADER,
    path_of_logs,
)
from supervisor.clients.web import WebAnswer
from supervisor.errors import SupervisorError, Unreachable

_NEXT: Final = re.compile(r'<([^<>\s]{1,2000})>; rel="next"')


@dataclass(frozen=True)
class WantedLog:
    """Says what is asked for: of which job, and the parameters of the request; those that are None are left out."""

    name: str
    attempt: int | None = None
    tail: int | None = None
    since: str | None = None
    follow: str | None = None

    def target(self) -> str:
        """Returns the first address, path and query."""
        every = {"attempt": self.attempt, "tail": self.tail, "since": self.since, "follow": self.follow}
        query = urlencode({key: value for key, value in every.items() if value is not None})
        return f"{path_of_logs(self.name)}{'?' if query else ''}{query}"


@dataclass(frozen=True)
class LogPiece:
    """Is a part of the output of an attempt. ``following`` is the address of the next, or None; ``is_lost`` says that some
    output before this piece is gone. ``path`` is the file on its host, or the key in the store: ``source`` says which. If
    the store has only what was uploaded until some time, that is ``uploaded_until``, else empty; ``host`` has the rest."""

    uid: str
    attempt: int
    path: str
    text: bytes
    following: str | None
    is_lost: bool
    source: str
    uploaded_until: str = ""
    host: str = ""

    @property
    def is_waiting(self) -> bool:
        """Says whether nothing came, and more of the same attempt may come later."""
        asked = parse_qs(urlsplit(self.following or "").query).get("attempt")
        return not self.text and asked == [str(self.attempt)]


class LogClient(HostClient):
    """Asks ``api``, and the servers that it names, for what the drivers of the job ``name`` wrote."""

    def __init__(self, api: ApiClient, name: str) -> None:
        super().__init__(api)
        self._name = name

    def get(self, target: str) -> LogPiece:
        """Returns the piece at ``target``. Raises SupervisorError. After Unreachable the first server is asked again: it
        knows whether the host that had the output is still there."""
        try:
            return self._piece(self.answer(target))
        except Unreachable:
            self._asked = self._api
            raise

    def _without_host(self, target: str, error: SupervisorError) -> WebAnswer:
        """Returns what was uploaded, from the first server. Raises ``error``, for which it is asked, if there is nothing."""
        of_store = urlencode({"source": SOURCE_STORE})
        try:
            return self._api.get_text(f"{target}{'&' if '?' in target else '?'}{of_store}")
        except SupervisorError:
            raise error from None

    def _piece(self, answer: WebAnswer) -> LogPiece:
        said = answer.headers
        following = _NEXT.fullmatch(said.get("link", ""))
        target = None if following is None else following[1]
        try:
            attempt = int(said[ATTEMPT_HEADER.lower()])
            is_ours = target is None or target.startswith(f"{path_of_logs(self._name)}?")
        except (KeyError, ValueError):
            is_ours = False
        if not is_ours:
            raise Unreachable(
                "this is not the answer of the API of a supervisor", "it may be of another version"
            )
        return LogPiece(
            uid=said.get(UID_HEADER.lower(), ""),
            attempt=attempt,
            path=unquote(said.get(PATH_HEADER.lower(), "")),
            text=answer.body,
            following=target,
            is_lost=LOST_HEADER.lower() in said,
            source=said.get(SOURCE_HEADER.lower(), SOURCE_HOST),
            uploaded_until=said.get(UNTIL_HEADER.lower(), ""),
            host=unquote(said.get(HOST_HEADER.lower(), "")),
        )
