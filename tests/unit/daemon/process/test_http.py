"""``daemon.process.http``: what is answered, and that no request holds up another."""

from __future__ import annotations

import json
import socket
import struct
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.client import HTTPConnection
from typing import Any

import pytest

from supervisor.clock import boottime_s
from supervisor.daemon.process import bounded_http, http
from supervisor.daemon.process.host_names import HostNames
from supervisor.daemon.process.http import Answers, HttpServer
from supervisor.errors import SupervisorError, Unreachable
from supervisor.metrics import Metrics
from tests.waiting import wait_until


@dataclass
class Daemon:
    """What the server is told; tests change it."""

    live: bool = True
    ready: tuple[bool, str] = (True, "")
    document: dict[str, Any] = field(default_factory=lambda: {"leader": None})
    error: Exception | None = None
    gate: threading.Event | None = None
    taken: int = 0
    epoch: int = 1
    metrics: Metrics = field(default_factory=lambda: Metrics(boottime_s))

    def status(self) -> dict[str, Any]:
        self.taken += 1
        if self.gate is not None:
            self.gate.wait(20)
        if self.error is not None:
            raise self.error
        return self.document


@dataclass
class Site:
    daemon: Daemon
    server: HttpServer

    def get(self, path: str) -> tuple[int, str, str]:
        """Code, content type, body."""
        try:
            with urllib.request.urlopen(f"http://{self.server.address}{path}", timeout=20) as answer:
                return answer.status, answer.headers["Content-Type"], answer.read().decode()
        except urllib.error.HTTPError as error:
            return error.code, error.headers["Content-Type"], error.read().decode()

    def connect(self) -> socket.socket:
        host, port = self.server.address.rsplit(":", 1)
        return socket.create_connection((host, int(port)), timeout=60)

    def send(self, *pieces: bytes) -> bytes:
        """All that is answered to these bytes, to the end of the connection."""
        with self.connect() as connection:
            for piece in pieces:
                connection.sendall(piece)
            return read_all(connection)

    @property
    def slots(self) -> Any:
        return self.server._server.slots


def read_all(connection: socket.socket) -> bytes:
    answer = b""
    while data := connection.recv(4096):
        answer += data
    return answer


class Tricklers:
    """Clients that send a header byte by byte without end; who is put out comes again a little later."""

    def __init__(self, site: Site, number: int) -> None:
        self._site = site
        self._over = threading.Event()
        self._threads = [threading.Thread(target=self._trickle) for _ in range(number)]
        self.connected: set[socket.socket] = set()

    def __enter__(self) -> Tricklers:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        for thread in self._threads:
            thread.join(60)

    def _trickle(self) -> None:
        while not self._over.is_set():
            try:
                with self._site.connect() as connection:
                    connection.sendall(b"GET /livez HTTP/1.1\r\nX-Trickle: ")
                    self.connected.add(connection)
                    while not self._over.wait(0.1):
                        connection.sendall(b"x")
            except OSError:
                self._over.wait(0.5)


@pytest.fixture
def site() -> Iterator[Site]:
    daemon = Daemon()
    answers = Answers(
        lambda: daemon.live,
        lambda: daemon.ready,
        daemon.metrics.exposition,
        daemon.status,
        lambda: daemon.epoch,
    )
    server = HttpServer("127.0.0.1", 0, answers)
    server.start()
    yield Site(daemon, server)
    server.stop()


def test_alive_and_ready(site: Site) -> None:
    assert site.get("/livez")[0] == site.get("/readyz?verbose")[0] == 200
    site.daemon.live, site.daemon.ready = False, (False, "ZooKeeper is not connected")
    assert site.get("/livez")[0] == 503
    code, _, body = site.get("/readyz")
    assert (code, body) == (503, "ZooKeeper is not connected\n")


def test_metrics_are_the_registry_given(site: Site) -> None:
    site.daemon.metrics.leading(7)
    code, kind, body = site.get("/metrics")
    assert code == 200 and kind.startswith("text/plain")
    assert "spark_supervisor_epoch 7.0" in body


def test_status_is_the_document(site: Site) -> None:
    code, kind, body = site.get("/api/status")
    assert (code, kind, json.loads(body)) == (200, "application/json", {"leader": None})


def test_status_is_not_taken_for_every_request(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    for _ in range(5):
        site.get("/api/status")
    assert site.daemon.taken < 5


def test_trouble_is_said(site: Site) -> None:
    site.daemon.error = Unreachable("ZooKeeper does not answer")
    code, kind, body = site.get("/api/status")
    assert (code, kind, json.loads(body)) == (503, "application/json", {"error": "ZooKeeper does not answer"})
    site.daemon.error = ValueError("a defect")
    assert site.get("/api/status")[0] == 500
    site.daemon.error = None
    assert site.get("/api/status")[0] == 200


def test_other_paths_and_methods(site: Site) -> None:
    assert site.get("/")[0] == site.get("/../etc/passwd")[0] == 404
    request = urllib.request.Request(f"http://{site.server.address}/livez", method="POST", data=b"x")
    with pytest.raises(urllib.error.HTTPError) as refused:
        urllib.request.urlopen(request, timeout=20)
    assert refused.value.code == 501
    head = urllib.request.Request(f"http://{site.server.address}/livez", method="HEAD")
    with urllib.request.urlopen(head, timeout=20) as answer:
        assert answer.status == 200 and answer.read() == b""


def test_livez_is_answered_while_statuses_hang(site: Site) -> None:
    site.daemon.gate = threading.Event()
    codes: list[int] = []
    asking = [threading.Thread(target=lambda: codes.append(site.get("/api/status")[0])) for _ in range(8)]
    for thread in asking:
        thread.start()
    wait_until(lambda: len(codes) == 8 - http.STATUS_MAX, what="the statuses beyond the limit")
    assert set(codes) == {503}
    assert site.get("/livez")[0] == 200
    site.daemon.gate.set()
    for thread in asking:
        thread.join(20)
    assert sorted(codes) == [200] * http.STATUS_MAX + [503] * (8 - http.STATUS_MAX)


def test_silent_clients_are_bounded_and_dropped(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bounded_http, "HEADER_TIMEOUT_S", 0.2)
    silent = [site.connect() for _ in range(bounded_http.CONNECTIONS_MAX + 5)]
    try:
        for each in silent:
            each.settimeout(20)
            assert each.recv(1) == b""
        assert site.get("/livez")[0] == 200
    finally:
        for each in silent:
            each.close()


def test_probes_are_answered_while_clients_trickle_headers(site: Site) -> None:
    with Tricklers(site, bounded_http.CONNECTIONS_MAX + 8) as tricklers:
        wait_until(
            lambda: len(tricklers.connected) >= bounded_http.CONNECTIONS_MAX,
            what="more tricklers than there are slots",
        )
        for _ in range(8):
            assert site.get("/livez") == (200, bounded_http.TEXT, "ok\n")
            assert site.get("/readyz")[0] == 200
    assert site.get("/metrics")[0] == 200


def test_the_whole_header_has_one_deadline_however_often_it_moves(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bounded_http, "HEADER_TIMEOUT_S", 0.5)
    with site.connect() as connection:
        connection.sendall(b"GET /livez HTTP/1.1\r\nX-Trickle: ")

        def put_out() -> bool:
            try:
                connection.sendall(b"x")
            except OSError:
                return True
            return False

        wait_until(put_out, 60, "the end of a connection that sends a byte far within each time limit")


def test_the_oldest_unfinished_header_makes_room(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bounded_http, "HEADER_TIMEOUT_S", 600.0)
    connections = [site.connect() for _ in range(bounded_http.CONNECTIONS_MAX)]
    try:
        wait_until(lambda: site.slots.taken == bounded_http.CONNECTIONS_MAX)
        assert site.get("/livez")[0] == 200
        assert connections[0].recv(1) == b"", "the oldest is put out"
        connections[1].sendall(b"GET /livez HTTP/1.0\r\n\r\n")
        assert read_all(connections[1]).startswith(b"HTTP/1.0 200 "), "the second oldest is served"
    finally:
        for each in connections:
            each.close()


def test_other_paths_leave_slots_to_the_probes(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    gate = threading.Event()
    begun = threading.Semaphore(0)

    def metrics() -> bytes:
        begun.release()
        gate.wait(60)
        return b"a 1\n"

    monkeypatch.setattr(site.daemon.metrics, "exposition", metrics)
    answers = Answers(lambda: True, lambda: (True, ""), metrics, site.daemon.status)
    server = HttpServer("127.0.0.1", 0, answers)
    server.start()
    busy = Site(site.daemon, server)
    codes: list[int] = []
    asking = [
        threading.Thread(target=lambda: codes.append(busy.get("/metrics")[0]))
        for _ in range(bounded_http.OTHERS_MAX)
    ]
    try:
        for thread in asking:
            thread.start()
        for _ in asking:
            assert begun.acquire(timeout=60)
        assert busy.get("/metrics")[0] == busy.get("/elsewhere")[0] == 503
        with Tricklers(busy, bounded_http.CONNECTIONS_MAX) as tricklers:
            wait_until(
                lambda: len(tricklers.connected) >= bounded_http.CONNECTIONS_MAX - bounded_http.OTHERS_MAX
            )
            assert busy.get("/livez")[0] == busy.get("/readyz")[0] == 200
        gate.set()
        for thread in asking:
            thread.join(60)
        assert codes == [200] * bounded_http.OTHERS_MAX
        assert busy.get("/elsewhere")[0] == 404
    finally:
        gate.set()
        server.stop()


def test_a_header_that_is_too_large_is_refused(site: Site) -> None:
    line = b"X-Large: " + b"x" * 1000 + b"\r\n"
    answer = site.send(b"GET /livez HTTP/1.1\r\n", line * (bounded_http.HEADER_BYTES_MAX // len(line) + 1))
    assert answer.startswith(b"HTTP/1.0 431 ")
    assert site.send(b"GET /" + b"x" * bounded_http.HEADER_BYTES_MAX + b" HTTP/1.1\r\n\r\n").startswith(
        b"HTTP/1.0 431 "
    )
    fitting = b"GET /livez HTTP/1.1\r\nX-Large: %s\r\n\r\n"
    fill = bounded_http.HEADER_BYTES_MAX - len(fitting) + 2
    assert site.send(fitting % (b"x" * fill)).startswith(b"HTTP/1.0 200 ")
    assert site.send(fitting % (b"x" * (fill + 1))).startswith(b"HTTP/1.0 431 ")


def test_a_header_may_come_in_pieces(site: Site) -> None:
    assert site.send(*(bytes((byte,)) for byte in b"GET /livez HTTP/1.1\r\nHost: here\r\n\r\n")).endswith(
        b"\r\n\r\nok\n"
    )
    assert site.send(b"GET /livez HTTP/1.0\n\n").endswith(b"\r\n\r\nok\n")
    assert site.send(b"GET /livez HTTP/1.1\r\n\r\nGET /livez HTTP/1.1\r\n\r\n").count(b"HTTP/1.0 200 ") == 1


def test_slots_are_free_again_when_clients_vanish(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bounded_http, "HEADER_TIMEOUT_S", 600.0)
    connections = [site.connect() for _ in range(bounded_http.CONNECTIONS_MAX)]
    wait_until(lambda: site.slots.taken == bounded_http.CONNECTIONS_MAX)
    for index, each in enumerate(connections):
        if index % 2:
            each.sendall(b"GET /metr")
        if index % 4 == 3:
            each.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))  # a reset
        each.close()
    wait_until(lambda: site.slots.taken == 0, what="free slots")
    assert b"400" in site.send(b"nonsense\r\n\r\n")
    wait_until(lambda: site.slots.taken == 0, what="free slots")


def test_a_port_in_use_is_named(site: Site) -> None:
    host, port = site.server.address.rsplit(":", 1)
    with pytest.raises(SupervisorError, match=f"supervisor.http 127.0.0.1:{port} can't be used"):
        HttpServer(host, int(port), Answers(lambda: True, lambda: (True, ""), bytes, dict))


def test_ipv6_addresses_are_written_with_brackets() -> None:
    try:
        server = HttpServer("::1", 0, Answers(lambda: True, lambda: (True, ""), bytes, dict))
    except SupervisorError:
        pytest.skip("this host has no IPv6 loopback")
    assert server.address.startswith("[::1]:")
    server.stop()


def test_a_status_from_before_a_change_of_leader_is_not_shown_after_it(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(site.server._status, "_fresh_s", 1000.0)
    assert json.loads(site.get("/api/status")[2]) == {"leader": None}
    site.daemon.document = {"leader": "s2"}
    assert json.loads(site.get("/api/status")[2]) == {"leader": None}, "asked for a moment ago"
    site.daemon.epoch = 2
    assert json.loads(site.get("/api/status")[2]) == {"leader": "s2"}
    assert site.get("/api/status")[0] == 200 and site.daemon.taken == 2


def test_a_change_of_leader_while_a_status_is_taken_has_it_taken_again(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(site.server._status, "_fresh_s", 1000.0)
    site.daemon.gate = threading.Event()
    asked = threading.Thread(target=site.get, args=("/api/status",))
    asked.start()
    wait_until(lambda: site.daemon.taken == 1)
    site.daemon.epoch = 2
    site.daemon.gate.set()
    asked.join()
    site.get("/api/status")
    assert site.daemon.taken == 2


def asked_as(server: HttpServer, path: str, host: str | None) -> int:
    address, _, port = server.address.rpartition(":")
    connection = HTTPConnection(address.strip("[]"), int(port), timeout=20)
    connection.putrequest("GET", path, skip_host=True)
    if host is not None:
        connection.putheader("Host", host)
    connection.endheaders()
    return connection.getresponse().status


@pytest.mark.parametrize(
    ("names", "host", "code"),
    [
        (None, "127.0.0.1:8780", 200),
        (None, "[::1]:8780", 200),
        (None, "localhost:8780", 200),
        (None, None, 200),
        (None, socket.gethostname(), 200),
        (None, "evil.example:8780", 421),
        (None, "127.0.0.1.evil.example", 421),
        (("monitor.example", "*.prod.example"), "MONITOR.example:80", 200),
        (("monitor.example", "*.prod.example"), "host1.prod.example", 200),
        (("monitor.example",), "evil.example", 421),
        (("*",), "any.example", 200),
    ],
)
def test_a_page_under_another_name_reads_nothing(
    names: tuple[str, ...] | None, host: str | None, code: int
) -> None:
    """DNS rebinding: a page of evil.example, in a browser here, got metrics and status of all jobs."""
    server = HttpServer("127.0.0.1", 0, Answers(lambda: True, lambda: (True, ""), bytes, dict), names=names)
    server.start()
    try:
        assert asked_as(server, "/metrics", host) == asked_as(server, "/api/status", host) == code
        assert asked_as(server, "/livez", host) == asked_as(server, "/readyz", host) == 200
    finally:
        server.stop()


def test_by_which_names_others_reach_it_a_server_of_the_network_can_not_know() -> None:
    assert HostNames(None, "0.0.0.0").is_named("host1.prod.example:8780")
    assert not HostNames(("a",), "0.0.0.0").is_named("host1.prod.example:8780")
