"""``cli.doctor.api``: what is collected of a real API, with real certificates and files; no token is sent."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml

from supervisor.api.service import ApiService
from supervisor.api.shared_reads import SharedReads
from supervisor.api.tokens import TokenFiles
from supervisor.cli.doctor import api
from supervisor.cli.doctor.subject import Subject
from supervisor.clients.web import WebAnswer
from supervisor.daemon.process.api_server import ApiHttpServer
from supervisor.settings.api import ApiSettings
from supervisor.settings.file import load_settings
from tests.testbed.certificates import Authority
from tests.testbed.radosgw import free_port
from tests.unit.cli.conftest import Terminal, terminal

__all__ = ["terminal"]


class Site:
    def __init__(self, terminal: Terminal, patch: pytest.MonkeyPatch) -> None:
        self.terminal, self.patch = terminal, patch
        self.authority = Authority(terminal.home)
        self.token = terminal.home / "grafana"
        self.token.write_text("t" * 40)
        self.token.chmod(0o600)

    def subject(self, *, days: float = 30, hosts: tuple[str, ...] = ("localhost",), **more: Any) -> Subject:
        signed = self.authority.sign("api", days=days, hosts=hosts)
        port = free_port()
        values = {
            "listen": f"127.0.0.1:{port}",
            "url": f"https://localhost:{port}",
            "tls": {"cert": str(signed.cert), "key": str(signed.key)},
            "token_files": [str(self.token)],
        }
        config = self.terminal.config
        document = {**yaml.safe_load(config.read_text()), "api": {**values, **more}}
        config.write_text(yaml.safe_dump(document))
        return Subject(load_settings(None, os.environ), os.environ)

    def runs(self) -> None:
        """As if a supervisor ran here."""
        self.patch.setattr(api.host_probe, "lock_holder", lambda _path: os.getpid())


@pytest.fixture
def site(terminal: Terminal, monkeypatch: pytest.MonkeyPatch) -> Site:
    return Site(terminal, monkeypatch)


def never_opened() -> Any:
    raise AssertionError("nothing is read here")


@contextmanager
def served(settings: ApiSettings, directory: Path) -> Iterator[None]:
    server = ApiHttpServer(settings, ApiService(SharedReads(never_opened), directory))
    server.start()
    try:
        yield
    finally:
        server.stop()


def test_an_api_that_answers(site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    subject = site.subject()
    site.runs()
    shown: list[str | None] = []
    monkeypatch.setattr(TokenFiles, "holder", lambda _self, header: shown.append(header))
    with served(subject.settings.api, tmp_path):
        facts = api.collect(subject)
    assert facts.unanswered == "" and facts.is_named is True and facts.tls_error == facts.tokens_error == ""
    assert facts.days_left is not None and 29 < facts.days_left < 30.1
    assert shown == [None], "no token goes to who listens there"


def test_nobody_listens_or_somebody_else_does(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    subject = site.subject()
    assert api.collect(subject).unanswered is None
    site.runs()
    assert "does not answer" in (api.collect(subject).unanswered or "")
    monkeypatch.setattr(api, "ask", lambda *_: WebAnswer(200, b"hello"))
    assert "answers 200, and asks for no token" in (api.collect(subject).unanswered or "")


@pytest.mark.parametrize(
    ("url", "hosts", "is_named"),
    [
        ("https://host-1.example:8781", ("host-1.example",), True),
        ("https://Host-1.example:8781", ("host-1.example",), True),
        ("https://host-1.example:8781", ("*.example",), True),
        ("https://host-1.sub.example:8781", ("*.example",), False),
        ("https://host-1.example:8781", ("host-2.example", "10.0.0.7"), False),
        ("https://10.0.0.7:8781", ("10.0.0.7",), True),
        ("https://10.0.0.8:8781", ("10.0.0.7", "host-1"), False),
        ("https://host-1:8781", (), False),
    ],
)
def test_the_name_in_the_certificate(site: Site, url: str, hosts: tuple[str, ...], is_named: bool) -> None:
    assert api.collect(site.subject(url=url, hosts=hosts)).is_named is is_named


def test_a_certificate_that_has_expired(site: Site) -> None:
    assert (api.collect(site.subject(days=-3)).days_left or 0) < 0


def test_files_that_can_not_be_used(site: Site) -> None:
    subject = site.subject(tls={"cert": str(site.token), "key": str(site.token)})
    site.token.chmod(0o644)
    facts = api.collect(subject)
    assert "api.tls.cert" in facts.tls_error
    assert "api.token_files: everybody may read" in facts.tokens_error


def test_there_is_no_api(site: Site) -> None:
    assert api.collect(site.subject(listen=None)) == api.ApiFacts()
