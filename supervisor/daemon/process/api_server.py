"""Serves the API of ``api.service`` and ``api.writes`` on an address of its own, to clients that show a token, and to
everybody the files of its page (``api.page``), which hold no data.

``daemon.process.assemble`` makes the server where ``api.listen`` is set. It has connections and threads of its own
(``daemon.process.bounded_http``): what clients of the API do reaches neither the probes nor the loops. What requests read is
bounded by ``api.shared_reads``, and what they write by ``api.bounded_writes``. Each request has a line in the log
(``api.access_log``).
"""

from __future__ import annotations

import itertools
import ssl
from collections.abc import Callable

from supervisor.api.access_log import AccessLog, AskedRequest
from supervisor.api.bounded_writes import RepeatedWrite, WriteOnce
from supervisor.api.page.files import PageFiles
from supervisor.api.paths import EVENT_STREAM, EVENTS_PATH
from supervisor.api.responses import ApiResponse, error_response, response_to
from supervisor.api.service import ApiService
from supervisor.api.shared_reads import AGAIN, BUSY
from supervisor.api.tokens import TokenFiles, TokenHolder, bearer_token
from supervisor.api.write_head import WriteHead, judge_write_head
from supervisor.api.write_routes import BODY_MAX_BYTES, WriteRoute, write_route_of
from supervisor.api.writes import ApiWrites, AskedOverApi, begun_digest
from supervisor.clock import boottime_s
from supervisor.daemon.process.bounded_http import BoundedHandler, BoundedServer
from supervisor.daemon.process.http_access import HttpAccess
from supervisor.errors import AccessDenied, InvalidInput, SupervisorError, Unreachable
from supervisor.settings.api import ApiSettings
from supervisor.settings.http import HttpSettings

ANSWER_TIMEOUT_S = 60.0
"""A list of many jobs is large, and a client may be far away."""
LINGER_S = 5.0
"""For so long what was sent and not read is read after the answer, so that this arrives."""
EVENT_TIMEOUT_S = 10.0
"""A client that does not take some events within this is left."""


class ApiHttpServer(BoundedServer):
    """Answers at ``settings.listen``, which is set; without ``writes`` nobody may write. Raises InvalidInput if a file
    can't be used, and SupervisorError if the address can't be."""

    def __init__(self, settings: ApiSettings, service: ApiService, writes: ApiWrites | None = None) -> None:
        host, _, port = (settings.listen or "").rpartition(":")
        access = HttpAccess(HttpSettings(tls=settings.tls), boottime_s, "api")
        tokens = TokenFiles(settings.token_files, boottime_s, settings.operator_token_files)
        self._service, self._writes = service, writes
        page = PageFiles() if settings.page else None
        held = {
            "service": service,
            "writes": writes,
            "access": access,
            "tokens": tokens,
            "page": page,
            "access_log": AccessLog(boottime_s),
        }
        super().__init__(
            "api.listen", host.strip("[]"), int(port), type("Handler", (_Handler,), held), access
        )

    def stop(self) -> None:
        """Stops listening, and ends the sessions. Requests under way end by themselves; nobody waits for them."""
        super().stop()
        self._service.close()
        if self._writes is not None:
            self._writes.close()


class _Handler(BoundedHandler):
    """Answers one request with a document, also where something is wrong."""

    service: ApiService
    writes: ApiWrites | None
    access: HttpAccess
    tokens: TokenFiles
    page: PageFiles | None
    access_log: AccessLog
    answer_timeout_s = ANSWER_TIMEOUT_S

    holder: TokenHolder | None = None
    status: int | None = None
    is_whole = False
    is_write = False
    has_unread_body = False
    began_at_s: float | None = None
    answered_at_s: float | None = None

    def handle(self) -> None:
        """Handles the request, and logs it if anything was answered or was to be."""
        try:
            super().handle()
        finally:
            if self.status is not None or self.began_at_s is not None:
                self.access_log.note(self._asked_request())

    def do_GET(self) -> None:
        self._in_slot(self._answer)

    do_HEAD = do_GET

    def do_POST(self) -> None:
        self._in_slot(self._answer_post)
        if self.has_unread_body:  # not in a slot of those who are answered
            self.linger(LINGER_S)

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:
        """Answers what the standard library can't parse, and methods that are not there."""
        if code == 501:
            self._respond(self.service.answer(self.command, self.path))
        else:
            self.refuse(code, message or explain or "the request can't be read")

    def refuse(self, code: int, why: str) -> None:
        self._respond(error_response(code, InvalidInput(why)))

    def _in_slot(self, answer: Callable[[], None]) -> None:
        """Calls ``answer`` if there is room for one more request."""
        if not self.has_asked():
            return
        self.began_at_s = boottime_s()
        if not self.server.slots.others.acquire(blocking=False):
            self.has_unread_body = self.command == "POST"
            self._respond(error_response(503, Unreachable(BUSY, AGAIN)))
            return
        try:
            answer()
        finally:
            self.server.slots.others.release()

    def _answer(self) -> None:
        """Sends a file of the page, or a document to who has a token."""
        refusal, known = self._access_refusal(), self.headers.get("If-None-Match")
        file = self.page.answer(self.path, known) if self.page is not None and refusal is None else None
        if file is None:
            refusal = refusal or self._token_refusal() or self._method_refusal()
        if file is None and refusal is None and self.command == "GET" and self._asks_for_events():
            self._send_events()
            return
        accepts = self.headers.get("Accept-Encoding")
        self._respond(file or refusal or self.service.answer(self.command, self.path, known, accepts))

    def _asks_for_events(self) -> bool:
        path, _, query = self.path.partition("?")
        return path == EVENTS_PATH and not query

    def _send_events(self) -> None:
        """Sends what changes, for as long as the client takes it and its token counts."""
        try:
            with self.service.events.listen(self.headers.get("Last-Event-ID")) as pieces:
                self.status = 200
                admitted = itertools.takewhile(lambda _piece: self._token_refusal() is None, pieces)
                self.send_stream(EVENT_STREAM, admitted, EVENT_TIMEOUT_S)
                self.is_whole = True
        except SupervisorError as error:
            self._respond(response_to(error))

    def _access_refusal(self) -> ApiResponse | None:
        """Returns the answer to who shows no certificate where one is needed, or None."""
        refusal = self.access.refusal(None, self.shown_certificate())
        return None if refusal is None else error_response(refusal.code, AccessDenied(refusal.text.strip()))

    def _token_refusal(self) -> ApiResponse | None:
        """Returns the answer to who has no token, or None; then ``holder`` is who has it."""
        given = self.headers.get("Authorization")
        self.holder = self.tokens.holder(given)
        if self.holder is not None:
            return None
        challenge = 'Bearer realm="spark-supervisor"'
        if given is None:
            denied = AccessDenied(
                "no token was sent", "send Authorization: Bearer TOKEN, of a file in api.token_files"
            )
        elif bearer_token(given) is None:
            denied = AccessDenied("the header Authorization has no token", "send Authorization: Bearer TOKEN")
        else:
            challenge += ', error="invalid_token"'
            denied = AccessDenied(
                "the token that was sent does not count here",
                "it was withdrawn, or is another cluster's; api.token_files of this host must name a file that has it",
            )
        return error_response(401, denied, {"WWW-Authenticate": challenge})

    def _method_refusal(self) -> ApiResponse | None:
        """Returns the answer to who would read where one writes only, or None."""
        if write_route_of(self.path.partition("?")[0]) is None:
            return None
        return error_response(
            405, InvalidInput(f"the method {self.command} is not allowed", "use POST"), {"Allow": "POST"}
        )

    # -- writes -------------------------------------------------------------------------------------------------------

    def _answer_post(self) -> None:
        """Answers a write. Whatever is refused is so before its body is read."""
        path, mark, _ = self.path.partition("?")
        found = write_route_of(path)
        if found is None:
            self._refuse_unread(self.service.answer(self.command, self.path))
            return
        route, name = found
        refusal = self._access_refusal() or self._token_refusal() or self._role_refusal()
        if refusal is None and mark:
            refusal = error_response(400, InvalidInput("a write takes no parameters in its address"))
        head = refusal or judge_write_head(
            lambda header: self.headers.get_all(header) or (), route.body_max_bytes
        )
        if isinstance(head, ApiResponse):
            self._refuse_unread(head)
        else:
            self._take_body(route, name, head)

    def _role_refusal(self) -> ApiResponse | None:
        """Returns the answer to ``holder`` if he may only read, or if his token came in the clear, or None."""
        assert self.holder is not None
        has_tls = isinstance(self.connection, ssl.SSLSocket)
        if self.holder.may_write and has_tls and self.writes is not None:
            self.is_write = True
            return None
        denied = AccessDenied(
            f"the token of {self.holder.name} may only read",
            "api.operator_token_files names those of who may write, over TLS",
        )
        return error_response(403, denied)

    def _take_body(self, route: WriteRoute, name: str, head: WriteHead) -> None:
        """Reads the body and sends what came of it. A large one is held for one request at a time; of one that was sent
        before nothing is held."""
        assert self.writes is not None and self.holder is not None
        operator = self.holder.name
        if route.body_max_bytes <= BODY_MAX_BYTES:
            self._read_and_answer(route, name, head)
            return
        taken = self.writes.take_bundle_slot(operator, head.key)
        if isinstance(taken, ApiResponse):
            self._refuse_unread(taken)
        elif taken is not None:
            self._answer_again(route, name, head, taken)
        else:
            try:
                self._read_and_answer(route, name, head)
            finally:
                self.writes.give_bundle_slot_back(operator, head.key)

    def _read_and_answer(self, route: WriteRoute, name: str, head: WriteHead) -> None:
        assert self.writes is not None and self.holder is not None
        body = bytearray()
        if not self.read_body(head.length, route.body_s, body.extend):
            self._refuse_late(route)
            return
        operator, address = self.holder.name, str(self.client_address[0])
        self._respond(self.writes.answer(AskedOverApi(route, name, body, head.key, operator, address)))

    def _answer_again(self, route: WriteRoute, name: str, head: WriteHead, repeated: RepeatedWrite) -> None:
        assert self.writes is not None and self.holder is not None
        said = begun_digest(route, name)
        if not self.read_body(head.length, route.body_s, said.update):
            self._refuse_late(route)
            return
        once = WriteOnce(self.holder.name, head.key, said.digest())
        self._respond(self.writes.answer_again(repeated, route, once))

    def _refuse_late(self, route: WriteRoute) -> None:
        late = f"the body did not come within {route.body_s:g} s: this request has done nothing"
        self._refuse_unread(
            error_response(408, InvalidInput(late, "send it again, with the same Idempotency-Key"))
        )

    def _refuse_unread(self, response: ApiResponse) -> None:
        """Sends an answer to a request whose body was not read."""
        self.has_unread_body = True
        self._respond(response)

    # -- answers ------------------------------------------------------------------------------------------------------

    def _respond(self, response: ApiResponse) -> None:
        self.status = response.code
        headers = {"X-Content-Type-Options": "nosniff", **response.headers}
        try:
            self.send(response.code, response.kind, response.body, headers)
            self.is_whole = True
        finally:
            self.answered_at_s = boottime_s()

    def _asked_request(self) -> AskedRequest:
        ended_at_s = boottime_s() if self.answered_at_s is None else self.answered_at_s
        return AskedRequest(
            token=self.holder.name if self.holder is not None else "",
            address=str(self.client_address[0]),
            method=getattr(self, "command", "") or "",
            path=getattr(self, "path", "") or "",
            status=self.status,
            duration_s=0.0 if self.began_at_s is None else ended_at_s - self.began_at_s,
            is_whole=self.is_whole,
            is_write=self.is_write,
        )
