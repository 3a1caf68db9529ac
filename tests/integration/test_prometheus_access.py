"""A real Prometheus scrapes a supervisor's HTTP server over TLS, with a client certificate and a password."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import bcrypt
import pytest

from supervisor.clock import boottime_s
from supervisor.daemon.process.http import Answers, HttpServer
from supervisor.daemon.process.http_access import HttpAccess
from supervisor.metrics import Metrics
from supervisor.settings.http import HttpSettings, HttpTlsSettings
from tests.testbed.certificates import Authority
from tests.testbed.prometheus import running_prometheus
from tests.waiting import wait_until

pytestmark = pytest.mark.prometheus


@pytest.fixture
def scrape(tmp_path: Path) -> dict[str, Any]:
    """What the shipped ``prometheus.yml`` says is to be added, for a server that asks for both."""
    authority = Authority(tmp_path)
    client = authority.sign("prometheus")
    (tmp_path / "password").write_text("s3cret")
    return {
        "scheme": "https",
        "tls_config": {
            "ca_file": str(authority.ca),
            "cert_file": str(client.cert),
            "key_file": str(client.key),
        },
        "basic_auth": {"username": "prometheus", "password_file": str(tmp_path / "password")},
        "authority": authority,
    }


@pytest.fixture
def server(tmp_path: Path, scrape: dict[str, Any]) -> Iterator[HttpServer]:
    authority: Authority = scrape.pop("authority")
    mine = authority.sign("host")
    users = tmp_path / "users.yaml"
    hashed = bcrypt.hashpw(b"s3cret", bcrypt.gensalt(4)).decode()
    users.write_text(f"basic_auth_users: {{prometheus: {hashed}}}\n")
    tls = HttpTlsSettings(cert=mine.cert, key=mine.key, client_ca=authority.ca)
    access = HttpAccess(HttpSettings(tls=tls, users_file=users), boottime_s)
    metrics = Metrics(boottime_s)
    answers = Answers(lambda: True, lambda: (True, ""), metrics.exposition, lambda: {})
    made = HttpServer("127.0.0.1", 0, answers, access)
    made.start()
    yield made
    made.stop()


def test_prometheus_scrapes_with_certificate_and_password(
    server: HttpServer, scrape: dict[str, Any], tmp_path: Path
) -> None:
    with running_prometheus(tmp_path, **scrape) as prometheus:
        prometheus.scrape([server.address])  # waits until it is up


@pytest.mark.parametrize("left_out", ["basic_auth", "tls_config.cert_file"])
def test_and_fails_without_either(
    server: HttpServer, scrape: dict[str, Any], tmp_path: Path, left_out: str
) -> None:
    if left_out == "basic_auth":
        del scrape["basic_auth"]
    else:
        del scrape["tls_config"]["cert_file"], scrape["tls_config"]["key_file"]
    with running_prometheus(tmp_path, **scrape) as prometheus:
        prometheus.aim_at([server.address])
        assert wait_until(lambda: prometheus.query("up == 0"), 30, "a scrape that failed")
