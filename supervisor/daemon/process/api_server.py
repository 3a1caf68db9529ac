"""Serves the API of ``api.service`` on an address of its own, to clients that show a token, and to everybody the files of
its page (``api.page``), which hold no data.

``daemon.process.assemble`` makes the server where ``api.listen`` is set. It has connections and threads of its own
(``daemon.process.bounded_http``): what clients of the API do reaches neither the probes nor the loops. What requests read is
bounded by ``api.shared_reads``.
"""

from __future__ import annotations

import itertools

from supervisor.api.page.files import PageFiles
from supervisor.api.responses import ApiResponse, error_response, response_to
from supervisor.api.routes import EVENT_STREAM, EVENTS_PATH
from supervisor.api.service import ApiService
from supervisor.api.shared_reads import AGAIN, BUSY
from supervisor.api.tokens import TokenFiles
from supervisor.clock import boottime_s
from supervisor.daemon.process.bounded_http import BoundedHandler, BoundedServer
from supervisor.daemon.process.http_access import HttpAccess
from supervisor.errors import AccessDenied, InvalidInput, SupervisorError, Unreachable
from supervisor.settings.api import ApiSettings
from supervisor.settings.http import HttpSettings

ANSWER_TIMEOUT_S = 60.0
"""A list of many jobs is large, and a client may be far away."""
EVENT_TIMEOUT_S = 10.0
"""A client that does not take some events within this is left."""


class ApiHttpServer(BoundedServer):
    """Answers at ``settings.listen``, which is set. Raises InvalidInput if a file can't be used, and SupervisorError if the
    address can't be."""

    def __init__(self, settings: ApiSettings, service: ApiService) -> None:
        host, _, port = (settings.listen or "").rpartition(":")
        access = HttpAccess(HttpSettings(tls=settings.tls), boottime_s, "api")
        tokens = TokenFiles(settings.token_files, boottime_s)
        self._service = service
        page = PageFiles() if settings.page else None
        held = {"service": service, "access": access, "tokens": tokens, "page": page}
        super().__init__(
            "api.listen", host.strip("[]"), int(port), type("Handler", (_Handler,), held), access
        )

    def stop(self) -> None:
        """Stops listening, and ends the sessions. Requests under way end by themselves; nobody waits for them."""
        super().stop()
        self._service.close()


class _Handler(BoundedHandler):
    """Answers one request with a document, also where something is wrong."""

    service: ApiService
    access: HttpAccess
    tokens: TokenFiles
    page: PageFiles | None
    answer_timeout_s = ANSWER_TIMEOUT_S

    def do_GET(self) -> None:
        if not self.has_asked():
            return
        if not self.server.slots.others.acquire(blocking=False):
            self._respond(error_response(503, Unreachable(BUSY, AGAIN)))
            return
        try:
            self._answer()
        finally:
            self.server.slots.others.release()

    do_HEAD = do_GET

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:
        """Answers what the standard library can't parse, and methods that are not there."""
        if code == 501:
            self._respond(self.service.answer(self.command, self.path))
        else:
            self.refuse(code, message or explain or "the request can't be read")

    def refuse(self, code: int, why: str) -> None:
        self._respond(error_response(code, InvalidInput(why)))

    def _answer(self) -> None:
        """Sends a file of the page, or a document to who has a token."""
        refusal, known = self._access_refusal(), self.headers.get("If-None-Match")
        file = self.page.answer(self.path, known) if self.page is not None and refusal is None else None
        if file is None:
            refusal = refusal or self._token_refusal()
        if file is None and refusal is None and self.command == "GET" and self.path == EVENTS_PATH:
            self._send_events()
        else:
            self._respond(file or refusal or self.service.answer(self.command, self.path, known))

    def _send_events(self) -> None:
        """Sends what changes, for as long as the client takes it and its token counts."""
        try:
            with self.service.events.listen(self.headers.get("Last-Event-ID")) as pieces:
                admitted = itertools.takewhile(lambda _piece: self._token_refusal() is None, pieces)
                self.send_stream(EVENT_STREAM, admitted, EVENT_TIMEOUT_S)
        except SupervisorError as error:
            self._respond(response_to(error))

    def _access_refusal(self) -> ApiResponse | None:
        """Returns the answer to who shows no certificate where one is needed, or None."""
        refusal = self.access.refusal(None, self.shown_certificate())
        return None if refusal is None else error_response(refusal.code, AccessDenied(refusal.text.strip()))

    def _token_refusal(self) -> ApiResponse | None:
        """Returns the answer to who has no token, or None."""
        if self.tokens.admits(self.headers.get("Authorization")):
            return None
        denied = AccessDenied(
            "a token is needed", "send Authorization: Bearer TOKEN, of a file in api.token_files"
        )
        return error_response(401, denied, {"WWW-Authenticate": 'Bearer realm="spark-supervisor"'})

    def _respond(self, response: ApiResponse) -> None:
        headers = {"X-Content-Type-Options": "nosniff", **response.headers}
        self.send(response.code, response.kind, response.body, headers)
