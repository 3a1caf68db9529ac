"""``daemon.process.api_server``: who may write, over real TLS, and what is refused before a body is read."""

from __future__ import annotations

import http.client
import json
import socket
import ssl
import threading
from collections.abc import Iterator
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs

from supervisor.api import write_routes
from supervisor.api import writes as writes_module
from supervisor.api.responses import ApiResponse
from supervisor.api.service import ApiService
from supervisor.api.shared_reads import SharedReads
from supervisor.api.tokens import TokenFiles
from supervisor.api.writes import ApiWrites, AskedOverApi
from supervisor.clock import boottime_s
from supervisor.daemon.process import api_server, bounded_http
from supervisor.daemon.process.api_server import ApiHttpServer
from supervisor.errors import InvalidInput
from supervisor.settings.api import ApiSettings
from tests.testbed.certificates import Authority
from tests.unit.daemon.process.test_http import read_all
from tests.waiting import wait_until

READER, OPERATOR = "r" * 40, "o" * 40
KEY = "k" * 16
CANCEL = "/api/v1/jobs/clicks/cancel"
APPLY = "/api/v1/apply"


class NoWrites:
    """Keeps what it was asked for, in place of ``ApiWrites``. ``held`` is whose bundle is held."""

    def __init__(self) -> None:
        self.asked: list[AskedOverApi] = []
        self.held: tuple[str, str] | None = None

    def take_bundle_slot(self, operator: str, key: str) -> ApiResponse | None:
        if self.held is not None:
            return ApiResponse(429, b'{"error": "nothing was done"}')
        self.held = operator, key
        return None

    def give_bundle_slot_back(self, operator: str, key: str) -> None:
        assert self.held == (operator, key)
        self.held = None

    def answer(self, asked: AskedOverApi) -> ApiResponse:
        self.asked.append(asked)
        return ApiResponse(200, b"{}")

    def close(self) -> None:
        pass


@dataclass
class WriteSite:
    server: ApiHttpServer
    writes: NoWrites
    authority: Authority
    events: list[Any] = field(default_factory=list)

    def connect(self) -> ssl.SSLSocket:
        host, port = self.server.address.rsplit(":", 1)
        context = ssl.create_default_context(cafile=self.authority.ca)
        return context.wrap_socket(
            socket.create_connection((host, int(port)), timeout=60), server_hostname="127.0.0.1"
        )

    def post(
        self, path: str = CANCEL, token: str | None = OPERATOR, body: bytes = b"{}", **headers: str | None
    ) -> tuple[int, dict[str, Any]]:
        host, port = self.server.address.rsplit(":", 1)
        context = ssl.create_default_context(cafile=self.authority.ca)
        connection = http.client.HTTPSConnection(host, int(port), timeout=60, context=context)
        sent = {"Content-Type": "application/json", "Idempotency-Key": KEY} | {
            name.replace("_", "-"): value for name, value in headers.items()
        }
        shown = {"Authorization": f"Bearer {token}"} if token else {}
        try:
            connection.request(
                "POST", path, body, {**shown, **{n: v for n, v in sent.items() if v is not None}}
            )
            answer = connection.getresponse()
            return answer.status, json.loads(answer.read())
        finally:
            connection.close()

    def send(self, data: bytes) -> bytes:
        with self.connect() as connection:
            connection.sendall(data)
            return read_all(connection)


def token_file(directory: Path, name: str, token: str) -> str:
    path = directory / name
    path.write_text(token)
    path.chmod(0o600)
    return str(path)


def settings(directory: Path, authority: Authority, **more: Any) -> ApiSettings:
    signed = authority.sign("api")
    values = {
        "listen": "127.0.0.1:0",
        "tls": {"cert": str(signed.cert), "key": str(signed.key)},
        "token_files": [token_file(directory, "grafana", READER)],
        "operator_token_files": [token_file(directory, "ann", OPERATOR)],
    }
    return ApiSettings.model_validate({**values, **more})


def never_opened() -> Any:
    raise AssertionError("nothing is read here")


@pytest.fixture
def site(tmp_path: Path) -> Iterator[WriteSite]:
    authority, writes = Authority(tmp_path), NoWrites()
    service = ApiService(SharedReads(never_opened), tmp_path)
    server = ApiHttpServer(settings(tmp_path, authority), service, writes)  # type: ignore[arg-type]
    server.start()
    with capture_logs() as events:
        yield WriteSite(server, writes, authority, events)
    server.stop()


def test_an_operator_writes_and_is_known_by_his_file_and_the_address_of_his_connection(
    site: WriteSite,
) -> None:
    forged = {"X_Forwarded_For": "10.9.9.9", "Forwarded": "for=10.9.9.9", "From": "root", "By": "root"}
    assert site.post(body=b'{"uid": "u"}', **forged)[0] == 200
    [asked] = site.writes.asked
    assert (asked.operator, asked.address, asked.name, asked.key) == ("ann", "127.0.0.1", "clicks", KEY)
    assert (asked.route.operation, bytes(asked.body)) == ("cancel", b'{"uid": "u"}')


def test_a_reader_may_not_write(site: WriteSite) -> None:
    for path in (CANCEL, APPLY):
        code, document = site.post(path, READER)
        assert code == 403 and "the token of grafana may only read" in document["error"]
    assert site.writes.asked == []


def test_who_has_no_token_may_not_write(site: WriteSite) -> None:
    for token in (None, "x" * 40, OPERATOR[:-1]):
        assert site.post(token=token)[0] == 401
    assert site.writes.asked == []


def test_an_operator_may_read(site: WriteSite) -> None:
    answer = site.send(
        f"GET /api/v1/openapi.json HTTP/1.1\r\nAuthorization: Bearer {OPERATOR}\r\n\r\n".encode()
    )
    assert answer.startswith(b"HTTP/1.0 200 ")


def test_an_operators_token_without_tls_may_only_read(tmp_path: Path) -> None:
    """No settings lead there; the server asks the connection itself, too."""
    writes = NoWrites()
    service = ApiService(SharedReads(never_opened), tmp_path)
    plain = ApiSettings.model_validate(
        {"listen": "127.0.0.1:0", "token_files": [token_file(tmp_path, "grafana", READER)]}
    )
    server = ApiHttpServer(plain, service, writes)  # type: ignore[arg-type]
    operators = [Path(token_file(tmp_path, "ann", OPERATOR))]
    server._server.RequestHandlerClass.tokens = TokenFiles([], boottime_s, operators)  # type: ignore[attr-defined]
    server.start()
    try:
        host, port = server.address.rsplit(":", 1)
        connection = http.client.HTTPConnection(host, int(port), timeout=60)
        headers = {
            "Authorization": f"Bearer {OPERATOR}",
            "Content-Type": "application/json",
            "Idempotency-Key": KEY,
        }
        connection.request("POST", CANCEL, b"{}", headers)
        assert connection.getresponse().status == 403
        connection.close()
    finally:
        server.stop()
    assert writes.asked == []


@pytest.mark.parametrize("listen", ["127.0.0.1:0", "localhost:8781", "[::1]:8781", None])
def test_settings_with_operators_and_without_tls_are_refused(tmp_path: Path, listen: str | None) -> None:
    with pytest.raises(ValueError, match="writes are taken over TLS only, on 127.0.0.1, too"):
        settings(tmp_path, Authority(tmp_path), listen=listen, tls={})


def test_settings_in_which_it_could_not_be_said_who_asked_are_refused(tmp_path: Path) -> None:
    authority, ann = Authority(tmp_path), token_file(tmp_path, "ann", OPERATOR)
    (tmp_path / "other").mkdir()
    another = token_file(tmp_path / "other", "ann", "p" * 40)
    for operators, why in (
        ([ann, another], "two files ann"),
        ([f"{tmp_path}/a@b"], "its name says who asked"),
        ([f"{tmp_path}/{'a' * 29}"], "its name says who asked"),
        ([f"{tmp_path}/grafana"], "in token_files and operator_token_files"),
    ):
        with pytest.raises(ValueError, match=why):
            settings(tmp_path, authority, operator_token_files=operators)
    same = token_file(tmp_path, "bob", READER)
    service = ApiService(SharedReads(never_opened), tmp_path)
    with pytest.raises(InvalidInput, match="bob has the token of grafana, too"):
        ApiHttpServer(settings(tmp_path, authority, operator_token_files=[same]), service)


def test_operators_alone_are_enough(tmp_path: Path) -> None:
    assert settings(tmp_path, Authority(tmp_path), token_files=[]).operator_token_files


def test_without_operators_nobody_may_write(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    service = ApiService(SharedReads(never_opened), tmp_path)
    server = ApiHttpServer(settings(tmp_path, authority, operator_token_files=[]), service)
    server.start()
    try:
        site = WriteSite(server, NoWrites(), authority)
        with capture_logs():
            assert [site.post(path, READER)[0] for path in (CANCEL, APPLY)] == [403, 403]
    finally:
        server.stop()


def test_what_a_page_of_another_site_could_send_is_refused(site: WriteSite) -> None:
    for kind in ("text/plain", "application/x-www-form-urlencoded", "multipart/form-data", None):
        assert site.post(Content_Type=kind)[0] == 415
    assert site.post(token=None, Cookie=f"token={OPERATOR}")[0] == 401, "no cookie counts"
    assert site.post(Idempotency_Key=None)[0] == 400
    assert site.writes.asked == []


def test_a_body_that_is_too_large_is_refused_unread(site: WriteSite) -> None:
    large = b"x" * (write_routes.BODY_MAX_BYTES + 1)
    assert site.post(body=large)[0] == 413
    head = f"POST {APPLY} HTTP/1.1\r\nAuthorization: Bearer {OPERATOR}\r\nContent-Type: application/json\r\n"
    head += f"Idempotency-Key: {KEY}\r\nContent-Length: {write_routes.WRITE_ROUTES[-1].body_max_bytes + 1}\r\n\r\n"
    assert site.send(head.encode()).startswith(b"HTTP/1.0 413 ")
    assert site.writes.asked == []


@pytest.mark.parametrize(
    ("token", "path", "code"), [("x" * 40, APPLY, 401), (READER, APPLY, 403), (OPERATOR, CANCEL, 413)]
)
def test_who_sends_a_large_body_that_is_refused_unread_gets_the_answer(
    site: WriteSite, token: str, path: str, code: int
) -> None:
    """A client that reads nothing before it has sent everything, and does not forgive that it can't."""
    large = b"x" * (8 * 2**20)
    assert site.post(path, token=token, body=large)[0] == code


def test_who_sends_a_large_body_when_too_much_is_asked_gets_the_answer(site: WriteSite) -> None:
    slots = site.server._server.slots.others
    taken = 0
    while slots.acquire(blocking=False):
        taken += 1
    assert site.post(APPLY, body=b"x" * (8 * 2**20))[0] == 503
    for _ in range(taken):
        slots.release()


def test_a_connection_whose_rest_is_read_makes_room_for_others(
    site: WriteSite, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(api_server, "LINGER_S", 600.0)
    head = f"POST {APPLY} HTTP/1.1\r\nContent-Length: 1000000\r\n\r\n".encode()
    lingering = [site.connect() for _ in range(bounded_http.CONNECTIONS_MAX)]
    for connection in lingering:
        connection.sendall(head)
        assert connection.recv(9) == b"HTTP/1.0 "
    assert site.post()[0] == 200
    for connection in lingering:
        connection.close()


def test_a_body_that_does_not_come_is_given_up_and_nothing_is_done(
    site: WriteSite, monkeypatch: pytest.MonkeyPatch
) -> None:
    quick = replace(write_routes.WRITE_ROUTES[0], body_s=0.3)
    monkeypatch.setattr(api_server, "write_route_of", lambda _path: (quick, "clicks"))
    head = f"POST {CANCEL} HTTP/1.1\r\nAuthorization: Bearer {OPERATOR}\r\nContent-Type: application/json\r\n"
    head += f"Idempotency-Key: {KEY}\r\nContent-Length: 20\r\n\r\n"
    with site.connect() as connection:
        connection.sendall(head.encode() + b"{")
        assert read_all(connection).startswith(b"HTTP/1.0 408 ")
    assert site.writes.asked == []


def test_a_body_in_pieces_is_whole(site: WriteSite) -> None:
    head = f"POST {CANCEL} HTTP/1.1\r\nAuthorization: Bearer {OPERATOR}\r\nContent-Type: application/json\r\n"
    head += f"Idempotency-Key: {KEY}\r\nContent-Length: 12\r\n\r\n"
    with site.connect() as connection:
        for piece in (head.encode() + b'{"ui', b'd": ', b'"u"}', b"and more that is not of it"):
            connection.sendall(piece)
        assert read_all(connection).startswith(b"HTTP/1.0 200 ")
    assert bytes(site.writes.asked[0].body) == b'{"uid": "u"}'


def test_one_bundle_is_held_at_once(site: WriteSite) -> None:
    site.writes.held = "bob", KEY
    code, document = site.post(APPLY)
    assert code == 429 and "nothing was done" in document["error"]
    assert site.post()[0] == 200, "what stops a job waits for no bundle"
    site.writes.held = None
    assert [site.post(APPLY)[0] for _ in range(2)] == [200, 200]


@dataclass
class SlowApply:
    """Real writes, of which an apply lasts while ``gate`` is closed. ``begun`` has what was carried out."""

    gate: threading.Event = field(default_factory=threading.Event)
    begun: list[str] = field(default_factory=list)

    def result_of(self, asked: AskedOverApi, _request: Any, _context: Any) -> ApiResponse:
        self.begun.append(asked.key)
        assert self.gate.wait(60)
        return ApiResponse(200, json.dumps({"did": len(self.begun)}).encode())


@pytest.fixture
def slow(site: WriteSite, monkeypatch: pytest.MonkeyPatch) -> Iterator[SlowApply]:
    slow, writes = SlowApply(), ApiWrites(nullcontext)  # type: ignore[arg-type]
    monkeypatch.setattr(writes_module, "_result_of", slow.result_of)
    handler: Any = site.server._server.RequestHandlerClass
    handler.writes = writes
    yield slow
    slow.gate.set()
    writes.close()


BUNDLE = b'{"specs": ["a.yaml"], "files": []}'
OTHER_KEY = "l" * 16


def posted(site: WriteSite, answers: list[Any], body: bytes = BUNDLE) -> threading.Thread:
    thread = threading.Thread(target=lambda: answers.append(site.post(APPLY, body=body)))
    thread.start()
    return thread


def test_an_apply_that_is_sent_again_while_it_is_carried_out_gets_the_answer_of_the_first(
    site: WriteSite, slow: SlowApply
) -> None:
    answers: list[Any] = []
    threads = [posted(site, answers)]
    wait_until(lambda: slow.begun == [KEY], what="the first")
    code, document = site.post(APPLY, body=BUNDLE + b" ")
    assert code == 409 and "sent with another request before" in document["error"]
    threads.append(posted(site, answers))
    code, document = site.post(APPLY, body=BUNDLE, Idempotency_Key=OTHER_KEY)
    assert code == 429 and "nothing was done" in document["error"], "another apply waits"
    slow.gate.set()
    for thread in threads:
        thread.join(60)
    assert answers == [(200, {"did": 1})] * 2 and slow.begun == [KEY]
    assert site.post(APPLY, body=BUNDLE, Idempotency_Key=OTHER_KEY) == (200, {"did": 2})


def test_an_apply_that_is_sent_again_and_again_takes_no_slots_of_those_who_are_answered(
    site: WriteSite, slow: SlowApply
) -> None:
    answers: list[Any] = []
    threads = [posted(site, answers)]
    wait_until(lambda: slow.begun == [KEY], what="the first")
    repeated = site.server._server.RequestHandlerClass.writes.take_bundle_slot("ann", KEY)  # type: ignore[attr-defined]
    threads.append(posted(site, answers))
    wait_until(repeated.has_enough_waiters, what="the second")
    head = f"POST {APPLY} HTTP/1.1\r\nAuthorization: Bearer {OPERATOR}\r\nContent-Type: application/json\r\n"
    head += f"Idempotency-Key: {KEY}\r\nContent-Length: {len(BUNDLE)}\r\n\r\n"
    for _ in range(3):
        with site.connect() as connection:
            connection.sendall(head.encode())  # its body never comes
            answer = read_all(connection)
        assert answer.startswith(b"HTTP/1.0 409 ") and b"\r\nRetry-After: 1\r\n" in answer
        assert b"the same request is being received or carried out" in answer
    slow.gate.set()
    for thread in threads:
        thread.join(60)
    assert answers == [(200, {"did": 1})] * 2 and slow.begun == [KEY]
    assert site.post(APPLY, body=BUNDLE) == (200, {"did": 1})


def test_an_apply_that_is_sent_again_while_the_first_is_received_is_told_so(
    site: WriteSite, slow: SlowApply
) -> None:
    slow.gate.set()
    head = f"POST {APPLY} HTTP/1.1\r\nAuthorization: Bearer {OPERATOR}\r\nContent-Type: application/json\r\n"
    head += f"Idempotency-Key: {KEY}\r\nContent-Length: {len(BUNDLE)}\r\n\r\n"
    with site.connect() as connection:
        connection.sendall(head.encode() + BUNDLE[:5])
        again: list[Any] = []
        wait_until(
            lambda: again.append(site.post(APPLY, body=BUNDLE[:-1])) or again[-1][0] == 409, what="409"
        )
        assert "the same request is being received" in again[-1][1]["error"]
        connection.sendall(BUNDLE[5:])
        assert read_all(connection).startswith(b"HTTP/1.0 200 ")
    assert site.post(APPLY, body=BUNDLE) == (200, {"did": 1}) and slow.begun == [KEY]


def test_a_bundle_is_held_until_it_was_carried_out_and_not_only_until_it_was_answered(
    site: WriteSite, slow: SlowApply, monkeypatch: pytest.MonkeyPatch
) -> None:
    quick = replace(write_routes.WRITE_ROUTES[-1], answer_s=0.3)
    monkeypatch.setattr(api_server, "write_route_of", lambda _path: (quick, ""))
    code, document = site.post(APPLY, body=BUNDLE)
    assert code == 504 and "the outcome is unknown" in document["error"]
    assert site.post(APPLY, body=BUNDLE, Idempotency_Key=OTHER_KEY)[0] == 429
    slow.gate.set()
    wait_until(
        lambda: site.post(APPLY, body=BUNDLE, Idempotency_Key=OTHER_KEY)[0] == 200, what="room for another"
    )
    assert site.post(APPLY, body=BUNDLE) == (200, {"did": 1})


def test_methods_and_parameters(site: WriteSite) -> None:
    answer = site.send(f"GET {CANCEL} HTTP/1.1\r\nAuthorization: Bearer {OPERATOR}\r\n\r\n".encode())
    assert answer.startswith(b"HTTP/1.0 405 ") and b"\r\nAllow: POST\r\n" in answer
    assert site.post(f"{CANCEL}?cold=true")[0] == 400
    assert site.post("/api/v1/jobs")[0] == 405
    assert site.post("/api/v1/jobs/clicks/drain")[0] == 404  # there is no such write
    assert site.writes.asked == []


def test_each_request_has_a_line_without_its_token(site: WriteSite) -> None:
    site.post()
    site.post(token=READER)
    site.post(token=None)
    site.send(b"GET /x%1b[31m\x1b[31m HTTP/1.1\r\n\r\n")
    site.send(b"nonsense\r\n\r\n")
    site.server.stop()
    lines = [event for event in site.events if event["event"] == "api_request"]
    assert [(line["token"], line["method"], line["path"], line["status"]) for line in lines] == [
        ("ann", "POST", CANCEL, 200),
        ("grafana", "POST", CANCEL, 403),
        (None, "POST", CANCEL, 401),
        (None, "GET", "/x%1b[31m\\x1b[31m", 401),
        (None, "", "", 400),
    ]
    assert {line["address"] for line in lines} == {"127.0.0.1"}
    assert all(token not in str(site.events) for token in (READER, OPERATOR))


def test_a_client_that_takes_no_answer_is_said_to_have_taken_none(
    site: WriteSite, monkeypatch: pytest.MonkeyPatch
) -> None:
    def left(*_: object) -> None:
        raise TimeoutError("the client does not take its answer")

    monkeypatch.setattr(api_server._Handler, "send", left)
    site.send(f"GET /api/v1/openapi.json HTTP/1.1\r\nAuthorization: Bearer {READER}\r\n\r\n".encode())
    [line] = [event for event in site.events if event["event"] == "api_request"]
    assert (line["token"], line["status"], line["whole"]) == ("grafana", 200, False)


def test_how_long_it_took_is_until_the_answer_and_not_until_the_rest_of_a_body_was_read(
    site: WriteSite, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = [100.0]
    monkeypatch.setattr(api_server, "boottime_s", lambda: clock[0])

    def linger(_handler: Any, timeout_s: float) -> None:
        clock[0] += timeout_s

    monkeypatch.setattr(api_server._Handler, "linger", linger)
    site.post(token=None, body=b"")
    wait_until(lambda: any(event["event"] == "api_request" for event in site.events), what="its line")
    [line] = [event for event in site.events if event["event"] == "api_request"]
    assert clock[0] > 100.0 and line["duration_s"] == 0.0
