"""``daemon.http``: what is answered, and that no request holds up another."""

from __future__ import annotations

import json
import socket
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest

from supervisor.clock import boottime_s
from supervisor.daemon import http
from supervisor.daemon.http import Answers, HttpServer
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


@pytest.fixture
def site() -> Iterator[Site]:
    daemon = Daemon()
    answers = Answers(lambda: daemon.live, lambda: daemon.ready, daemon.metrics.exposition, daemon.status)
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
    monkeypatch.setattr(http._Handler, "timeout", 0.2)
    host, port = site.server.address.rsplit(":", 1)
    silent = [socket.create_connection((host, int(port))) for _ in range(http.CONNECTIONS_MAX + 5)]
    try:
        for each in silent:
            each.settimeout(20)
            assert each.recv(1) == b""
        assert site.get("/livez")[0] == 200
    finally:
        for each in silent:
            each.close()


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
