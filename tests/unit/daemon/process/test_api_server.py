"""``daemon.process.api_server``: who is answered, and that no client holds up another. Over real connections."""

from __future__ import annotations

import http.client
import json
import socket
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from supervisor.api import events
from supervisor.api.changes import ClusterReading
from supervisor.api.events import EventFeed
from supervisor.api.service import ApiResponse, ApiService
from supervisor.api.shared_reads import SharedReads
from supervisor.daemon.process import api_server, bounded_http
from supervisor.daemon.process.api_server import ApiHttpServer
from supervisor.errors import InvalidInput, SupervisorError
from supervisor.settings.api import ApiSettings
from tests.unit.daemon.process.test_http import read_all
from tests.waiting import wait_until

TOKEN = "t" * 40
PATH = "/api/v1/openapi.json"


@dataclass
class ApiSite:
    server: ApiHttpServer
    reads: SharedReads

    def ask(
        self, method: str = "GET", path: str = PATH, token: str | None = TOKEN, **headers: str
    ) -> tuple[int, dict[str, str], bytes]:
        host, port = self.server.address.rsplit(":", 1)
        connection = http.client.HTTPConnection(host, int(port), timeout=60)
        try:
            shown = {"Authorization": f"Bearer {token}"} if token else {}
            connection.request(
                method, path, headers={**shown, **{k.replace("_", "-"): v for k, v in headers.items()}}
            )
            answer = connection.getresponse()
            return answer.status, dict(answer.headers), answer.read()
        finally:
            connection.close()

    def connect(self) -> socket.socket:
        host, port = self.server.address.rsplit(":", 1)
        return socket.create_connection((host, int(port)), timeout=60)

    def send(self, data: bytes) -> bytes:
        with self.connect() as connection:
            connection.sendall(data)
            return read_all(connection)


def settings(tmp_path: Path, **more: Any) -> ApiSettings:
    token = tmp_path / "token"
    token.write_text(f"{TOKEN}\n")
    token.chmod(0o600)
    return ApiSettings.model_validate({"listen": "127.0.0.1:0", "token_files": [str(token)], **more})


def never_opened() -> Any:
    raise AssertionError("nothing is read here")


@pytest.fixture
def site(tmp_path: Path) -> Iterator[ApiSite]:
    reads = SharedReads(never_opened)
    server = ApiHttpServer(settings(tmp_path), ApiService(reads, tmp_path))
    server.start()
    yield ApiSite(server, reads)
    server.stop()


def test_who_has_a_token_is_answered(site: ApiSite) -> None:
    code, headers, body = site.ask()
    assert code == 200 and json.loads(body)["openapi"].startswith("3.1")
    assert headers["Content-Type"] == "application/json"
    assert headers["Cache-Control"] == "private, no-cache"
    assert headers["X-Content-Type-Options"] == "nosniff"


def test_who_has_none_is_not(site: ApiSite) -> None:
    for token in (None, "x" * 40, TOKEN[:-1], f"{TOKEN}t"):
        for method, path in (("GET", PATH), ("HEAD", PATH), ("GET", "/api/v1/nothing"), ("GET", "/x")):
            code, headers, body = site.ask(method, path, token)
            assert (code, headers["WWW-Authenticate"].split()[0]) == (401, "Bearer")
            if method == "GET":
                assert json.loads(body)["exit_code"] == 5 and TOKEN.encode() not in body


def test_it_is_said_whether_a_token_was_sent_and_nothing_of_those_that_count(site: ApiSite) -> None:
    for header, what in (
        (None, "no token was sent"),
        ("Basic YTpi", "the header Authorization has no token"),
        ("Bearer", "the header Authorization has no token"),
        ("Bearer " + "x" * 40, "the token that was sent does not count here"),
        (f"Bearer {TOKEN[:-1]}", "the token that was sent does not count here"),
    ):
        given = {} if header is None else {"Authorization": header}
        code, headers, body = site.ask(token=None, **given)
        assert code == 401 and json.loads(body)["error"] == what
        assert ("invalid_token" in headers["WWW-Authenticate"]) == ("does not count" in what)
        assert b"x" * 40 not in body and b"tttt" not in body


def test_the_page_needs_no_token_and_what_it_shows_does(site: ApiSite) -> None:
    for token in (None, TOKEN):
        code, headers, body = site.ask(path="/", token=token)
        assert (code, headers["Content-Type"]) == (200, "text/html; charset=utf-8")
        assert headers["Content-Security-Policy"].startswith("default-src 'none'; script-src 'self';")
        assert headers["X-Content-Type-Options"] == "nosniff"
        assert headers["Referrer-Policy"] == "no-referrer"
        assert b"/page/main.js" in body and TOKEN.encode() not in body
    code, headers, body = site.ask(path="/page/main.js", token=None)
    assert (code, headers["Content-Type"]) == (200, "text/javascript; charset=utf-8")
    assert site.ask(path="/page/main.js", token=None, If_None_Match=headers["ETag"])[::2] == (304, b"")
    assert site.ask("HEAD", "/", None)[::2] == (200, b"")
    assert site.ask("POST", "/", None)[0] == 405
    assert site.ask(path="/page/nothing.js", token=None)[0] == 401


def test_the_page_can_be_turned_off(tmp_path: Path) -> None:
    server = ApiHttpServer(settings(tmp_path, page=False), ApiService(SharedReads(never_opened), tmp_path))
    server.start()
    try:
        site = ApiSite(server, SharedReads(never_opened))
        assert [site.ask(path=path)[0] for path in ("/", "/page/main.js")] == [404, 404]
    finally:
        server.stop()


def test_head_and_tags(site: ApiSite) -> None:
    _, got, body = site.ask()
    code, headers, nothing = site.ask("HEAD")
    assert (code, nothing, headers["ETag"]) == (200, b"", got["ETag"])
    assert int(headers["Content-Length"]) == len(body)
    code, headers, nothing = site.ask(If_None_Match=got["ETag"])
    assert (code, nothing, headers["ETag"]) == (304, b"", got["ETag"])


def test_other_methods_and_what_is_no_request(site: ApiSite) -> None:
    for method in ("POST", "DELETE", "OPTIONS"):
        code, headers, body = site.ask(method)
        assert (code, headers["Allow"], json.loads(body)["exit_code"]) == (405, "GET, HEAD", 2)
    for odd in (b"nonsense\r\n\r\n", b"GET / HTTP/9.9\r\n\r\n", b"\r\n\r\n", b"GET\r\n\r\n"):
        answer = site.send(odd)
        assert b"Traceback" not in answer and b"<html" not in answer.lower(), odd
    large = b"GET / HTTP/1.1\r\nX: " + b"x" * bounded_http.HEADER_BYTES_MAX + b"\r\n\r\n"
    head, _, body = site.send(large).partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.0 431 ") and json.loads(body)["exit_code"] == 2


def test_too_many_at_once_are_sent_away_with_the_time_to_come_again(
    site: ApiSite, monkeypatch: pytest.MonkeyPatch
) -> None:
    gate, begun = threading.Event(), threading.Semaphore(0)

    def slow(*_: object) -> ApiResponse:
        begun.release()
        gate.wait(60)
        return ApiResponse(200, b"{}")

    monkeypatch.setattr(site.server._service, "answer", slow)
    threads = [threading.Thread(target=site.send, args=(request(),)) for _ in range(bounded_http.OTHERS_MAX)]
    for thread in threads:
        thread.start()
    for _ in threads:
        assert begun.acquire(timeout=60)
    code, headers, body = site.ask()
    assert (code, headers["Retry-After"], json.loads(body)["exit_code"]) == (503, "1", 5)
    gate.set()
    for thread in threads:
        thread.join(60)


def request(path: str = PATH) -> bytes:
    return f"GET {path} HTTP/1.1\r\nAuthorization: Bearer {TOKEN}\r\n\r\n".encode()


def test_a_client_that_takes_no_answer_is_left_and_holds_up_no_other(
    site: ApiSite, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("supervisor.api.service.encoded", lambda document: b"x" * 64 * 2**20)
    monkeypatch.setattr(api_server._Handler, "answer_timeout_s", 0.5)
    with site.connect() as slow:
        slow.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        slow.sendall(request())
        wait_until(lambda: site.server._server.slots.taken == 1, what="the slow client")
        assert site.ask("HEAD")[0] == 200
        wait_until(lambda: site.server._server.slots.taken == 0, 60, what="the end of the slow client")


def test_beyond_this_machine_tls_is_needed(tmp_path: Path) -> None:
    for listen in ("0.0.0.0:0", "10.0.0.1:8781", "[::]:8781", "host-1:8781"):
        with pytest.raises(
            ValueError, match="without TLS.*set api.tls.cert and api.tls.key, or listen on 127.0.0.1"
        ):
            settings(tmp_path, listen=listen)
    for listen in ("127.0.0.1:0", "localhost:8781", "[::1]:8781"):
        assert settings(tmp_path, listen=listen).listen == listen


def test_a_token_is_needed(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="has no token_files.*openssl rand -hex 32"):
        settings(tmp_path, token_files=[])
    (tmp_path / "empty").write_text("short")
    (tmp_path / "empty").chmod(0o600)
    broken = settings(tmp_path, token_files=[str(tmp_path / "empty")])
    with pytest.raises(InvalidInput, match="api.token_files: .*holds no token"):
        ApiHttpServer(broken, ApiService(SharedReads(never_opened), tmp_path))


def test_a_port_in_use_and_a_certificate_that_is_none_are_named(site: ApiSite, tmp_path: Path) -> None:
    service = ApiService(SharedReads(never_opened), tmp_path)
    with pytest.raises(SupervisorError, match=f"api.listen {site.server.address} can't be used"):
        ApiHttpServer(settings(tmp_path, listen=site.server.address), service)
    odd = settings(tmp_path, tls={"cert": str(tmp_path / "token"), "key": str(tmp_path / "token")})
    with pytest.raises(InvalidInput, match="api.tls.cert"):
        ApiHttpServer(odd, service)


# -- events ---------------------------------------------------------------------------------------------------------------


@pytest.fixture
def eventful(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ApiSite]:
    """A cluster in which nothing happens. Streams look once in 20 ms whether their client is there."""
    monkeypatch.setattr(events, "WAKE_S", 0.02)
    reads = SharedReads(never_opened)
    service = ApiService(reads, tmp_path)
    service.events = EventFeed(lambda: ClusterReading({}, {}))
    server = ApiHttpServer(settings(tmp_path), service)
    server.start()
    yield ApiSite(server, reads)
    server.stop()


EVENTS = "/api/v1/events"
LISTEN = f"GET {EVENTS} HTTP/1.1\r\nAuthorization: Bearer {TOKEN}\r\n\r\n".encode()


def heard(connection: socket.socket, word: bytes) -> bytes:
    """What comes, until ``word`` is in it or nothing comes any more."""
    data = b""
    while word not in data and (piece := connection.recv(4096)):
        data += piece
    return data


def test_a_stream_begins_with_a_reset_and_ends_with_the_supervisor(eventful: ApiSite) -> None:
    with eventful.connect() as connection:
        connection.sendall(LISTEN)
        data = heard(connection, b'"begin"')
        assert data.startswith(b"HTTP/1.0 200 ") and b"Content-Type: text/event-stream\r\n" in data
        assert b"Content-Length" not in data and b"event: reset\nid: " in data
        eventful.server.stop()
        assert heard(connection, b"never") == b""


def test_events_need_a_token_and_take_no_parameter(eventful: ApiSite) -> None:
    assert eventful.ask(path=EVENTS, token=None)[0] == 401
    assert eventful.ask(path=f"{EVENTS}?token={TOKEN}", token=None)[0] == 401
    code, _, body = eventful.ask(path=f"{EVENTS}?after=1")
    assert code == 400 and b"unknown parameter" in body
    code, headers, body = eventful.ask("HEAD", EVENTS)
    assert (code, headers["Content-Type"], body) == (200, "text/event-stream", b"")
    assert eventful.ask("POST", EVENTS)[0] == 405


def test_an_empty_query_is_none(eventful: ApiSite) -> None:
    with eventful.connect() as connection:
        connection.sendall(LISTEN.replace(EVENTS.encode(), f"{EVENTS}?".encode()))
        assert b'"begin"' in heard(connection, b'"begin"')


def test_a_client_that_leaves_makes_room(eventful: ApiSite) -> None:
    listening = [eventful.connect() for _ in range(events.STREAMS_MAX)]
    for connection in listening:
        connection.sendall(LISTEN)
        heard(connection, b'"begin"')
    code, headers, _ = eventful.ask(path=EVENTS)
    assert code == 503 and headers["Retry-After"]
    assert eventful.ask()[0] == 200, "other requests are answered meanwhile"
    for connection in listening:
        connection.close()
    wait_until(lambda: begins(eventful), 60, "room for a stream")


def begins(site: ApiSite) -> bool:
    with site.connect() as connection:
        connection.sendall(LISTEN)
        return b'"begin"' in heard(connection, b'"begin"')


def test_a_token_that_counts_no_more_ends_the_stream(eventful: ApiSite, tmp_path: Path) -> None:
    with eventful.connect() as connection:
        connection.sendall(LISTEN)
        heard(connection, b'"begin"')
        (tmp_path / "token").write_text("u" * 40 + "\n")
        assert heard(connection, b"never") == b""


def test_a_client_that_takes_nothing_is_left(eventful: ApiSite, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(api_server, "EVENT_TIMEOUT_S", 0.05)
    monkeypatch.setattr(events, "KEEP_ALIVE_S", 0.0)
    monkeypatch.setattr(events, "KEEP_ALIVE", b": " + b"x" * 2**20 + b"\n\n")
    with eventful.connect() as connection:
        connection.sendall(LISTEN)
        wait_until(lambda: eventful.server._service.events._open == 1, 60, "the stream")
        wait_until(lambda: eventful.server._service.events._open == 0, 60, "its end")
