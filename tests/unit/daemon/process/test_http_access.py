"""``daemon.process.http_access``: who is answered over HTTP, over real TLS on loopback."""

from __future__ import annotations

import base64
import contextlib
import socket
import ssl
import urllib.error
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import bcrypt
import pytest

from supervisor.clients import reread_files
from supervisor.daemon.process import bounded_http, http_access, probe
from supervisor.daemon.process.http import Answers, HttpServer
from supervisor.daemon.process.http_access import HttpAccess
from supervisor.errors import InvalidInput
from supervisor.settings.file import HttpSettings
from supervisor.settings.sections import validated
from tests.testbed.certificates import Authority
from tests.waiting import wait_until

HASH = "$2b$04$7aAHJ4qw5CUWAcbKC7EkVu8.xX/78Ez9SraADcRE9sgo5DwknQ.7G"
"""Of no password that matters: it is the same in every process, as names of tests must be."""


class Clock:
    """A clock that a test moves; by default each look at the files is due."""

    def __init__(self) -> None:
        self.now_s = 0.0

    def __call__(self) -> float:
        self.now_s += reread_files.RECHECK_S
        return self.now_s


@dataclass
class Site:
    """A server with ``settings``, and the authority that signed its certificate."""

    directory: Path
    authority: Authority
    server: HttpServer | None = None

    def settings(self, **values: object) -> HttpSettings:
        return validated(HttpSettings, values, "supervisor.yaml")

    def start(self, settings: HttpSettings) -> None:
        answers = Answers(lambda: True, lambda: (True, ""), lambda: b"metrics\n", lambda: {"leader": None})
        self.server = HttpServer("127.0.0.1", 0, answers, HttpAccess(settings, Clock()))
        self.server.start()

    def get(
        self,
        path: str,
        user: str | None = None,
        client: ssl.SSLContext | None = None,
        header: str | None = None,
    ) -> int:
        """The status code; over TLS if ``client`` is given."""
        assert self.server is not None
        scheme = "https" if client is not None else "http"
        request = urllib.request.Request(f"{scheme}://{self.server.address}{path}")
        if user is not None:
            header = "Basic " + base64.b64encode(user.encode()).decode()
        if header is not None:
            request.add_header("Authorization", header)
        try:
            with urllib.request.urlopen(request, timeout=20, context=client) as answer:
                return int(answer.status)
        except urllib.error.HTTPError as error:
            return error.code

    def client(self, name: str | None = None, authority: Authority | None = None) -> ssl.SSLContext:
        context = ssl.create_default_context(cafile=str(self.authority.ca))
        if name is not None:
            signed = (authority or self.authority).sign(name)
            context.load_cert_chain(signed.cert, signed.key)
        return context

    def tls(self, name: str = "host", *, client_ca: bool = False) -> dict[str, str]:
        signed = self.authority.sign(name)
        found = {"cert": str(signed.cert), "key": str(signed.key)}
        return found | ({"client_ca": str(self.authority.ca)} if client_ca else {})

    def users(self, **passwords: str) -> str:
        path = self.directory / "users.yaml"
        lines = [f"  {name}: {hashed(password)}" for name, password in passwords.items()]
        path.write_text("basic_auth_users:\n" + "\n".join(lines) + "\n")
        return str(path)


def hashed(password: str) -> str:
    return bcrypt.hashpw(password.encode(), bcrypt.gensalt(4)).decode()


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    made = Site(tmp_path, Authority(tmp_path))
    yield made
    if made.server is not None:
        made.server.stop()


def test_without_anything_everybody_is_answered(site: Site) -> None:
    site.start(site.settings())
    assert site.get("/metrics") == 200


def test_a_user_with_a_password_is_answered_and_nobody_else(site: Site) -> None:
    site.start(site.settings(users_file=site.users(prometheus="tö:p", other="x")))
    assert site.get("/metrics", "prometheus:tö:p") == 200
    assert site.get("/metrics", "prometheus:tö:p") == 200  # remembered
    for user in ("prometheus:x", "other:tö:p", "nobody:tö:p", "prometheus:", ":", "prometheus:" + "x" * 100):
        assert site.get("/metrics", user) == 401, user
    for header in ("Bearer x", "Basic !", "Basic " + base64.b64encode(b"prometheus").decode(), "Basic"):
        assert site.get("/api/status", header=header) == 401, header
    assert site.get("/api/status") == 401


def test_probes_are_free(site: Site) -> None:
    site.start(site.settings(users_file=site.users(a="b"), tls=site.tls(client_ca=True)))
    assert site.get("/livez", client=site.client()) == site.get("/readyz?x", client=site.client()) == 200
    assert site.get("/metrics", "a:b", client=site.client()) == 403


def test_a_refusal_names_the_scheme(site: Site) -> None:
    site.start(site.settings(users_file=site.users(a="b")))
    assert site.server is not None
    with pytest.raises(urllib.error.HTTPError) as refused:
        urllib.request.urlopen(f"http://{site.server.address}/metrics", timeout=20)
    assert refused.value.headers["WWW-Authenticate"] == 'Basic realm="spark-supervisor", charset="UTF-8"'
    assert "http.users_file" in refused.value.read().decode()


def test_only_certificates_of_the_authority_count(site: Site, tmp_path: Path) -> None:
    site.start(site.settings(tls=site.tls(client_ca=True)))
    assert site.get("/metrics", client=site.client("prometheus")) == 200
    assert site.get("/metrics", client=site.client()) == 403
    stranger = Authority(tmp_path, "a stranger")
    with pytest.raises((urllib.error.URLError, ssl.SSLError, ConnectionError)):
        site.get("/livez", client=site.client("prometheus", stranger))


def test_certificate_and_user_are_both_needed_where_both_are_asked(site: Site) -> None:
    site.start(site.settings(users_file=site.users(a="b"), tls=site.tls(client_ca=True)))
    assert site.get("/metrics", "a:b", client=site.client("prometheus")) == 200
    assert site.get("/metrics", client=site.client("prometheus")) == 401


def test_plain_text_is_not_answered_where_tls_is_spoken(site: Site) -> None:
    site.start(site.settings(tls=site.tls()))
    with pytest.raises((urllib.error.URLError, OSError)):
        site.get("/livez")
    assert site.get("/livez", client=site.client()) == 200


@pytest.mark.parametrize("speaks_tls", [False, True])
def test_the_health_check_of_the_image_needs_no_configuration(site: Site, speaks_tls: bool) -> None:
    users = site.users(a="b")
    site.start(site.settings(users_file=users, tls=site.tls(client_ca=True) if speaks_tls else {}))
    assert site.server is not None
    environ = {"SPARK_SUPERVISOR__SUPERVISOR__HTTP": "0.0.0.0:" + site.server.address.rpartition(":")[2]}
    assert probe.main(environ) == 0
    site.server.stop()
    assert probe.main(environ) == 1


def test_who_never_shakes_hands_holds_nobody_up(site: Site) -> None:
    site.start(site.settings(tls=site.tls()))
    assert site.server is not None
    host, port = site.server.address.rsplit(":", 1)
    with contextlib.ExitStack() as held:
        for _ in range(bounded_http.CONNECTIONS_MAX + 8):
            connection = held.enter_context(socket.create_connection((host, int(port)), timeout=20))
            connection.sendall(b"\x16\x03\x01")  # the begin of a handshake
        assert site.get("/livez", client=site.client()) == 200


def test_a_new_certificate_and_new_users_need_no_restart(site: Site) -> None:
    users, tls = site.users(a="b"), site.tls("host")
    site.start(site.settings(users_file=users, tls=tls))
    assert site.get("/metrics", "a:b", client=site.client()) == 200
    other = Authority(site.directory, "another authority")
    signed = other.sign("renewed")
    Path(tls["cert"]).write_bytes(signed.cert.read_bytes())
    Path(tls["key"]).write_bytes(signed.key.read_bytes())
    site.users(c="d")
    client = ssl.create_default_context(cafile=str(other.ca))
    wait_until(lambda: _answered(site, client), 20, "the new certificate")
    assert site.get("/metrics", "c:d", client=client) == 200
    assert site.get("/metrics", "a:b", client=client) == 401


def _answered(site: Site, client: ssl.SSLContext) -> bool:
    with contextlib.suppress(OSError):
        return site.get("/livez", client=client) == 200
    return False


def test_what_can_not_be_read_later_changes_nothing(site: Site) -> None:
    users = Path(site.users(a="b"))
    access = HttpAccess(site.settings(users_file=str(users)), Clock())
    good = "Basic " + base64.b64encode(b"a:b").decode()
    for text in ("", "basic_auth_users: {a: plain}", "[", "tls_server_config: {}"):
        users.write_text(text)
        assert access.refusal(good, False) is None
    users.unlink()
    assert access.refusal(good, False) is None
    site.users(c="d")
    refusal = access.refusal(good, False)
    assert refusal is not None and refusal.code == 401


def test_a_password_that_was_right_is_not_hashed_again(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    access = HttpAccess(site.settings(users_file=site.users(a="b")), lambda: 0.0)
    header = "Basic " + base64.b64encode(b"a:b").decode()
    assert access.refusal(header, False) is None

    def never(*_: object) -> bool:
        raise AssertionError("hashed again")

    monkeypatch.setattr(bcrypt, "checkpw", never)
    assert access.refusal(header, False) is None


def test_passwords_that_wait_for_their_turn_are_refused_in_the_end(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(http_access, "CHECK_WAIT_S", 0.0)
    access = HttpAccess(site.settings(users_file=site.users(a="b")), lambda: 0.0)
    for _ in range(http_access.CHECKS_MAX):
        access._checks.acquire()
    refusal = access.refusal("Basic " + base64.b64encode(b"a:b").decode(), False)
    assert refusal is not None and refusal.code == 503


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "is empty"),
        ("[a]", "not a list"),
        ("basic_auth_users: {}", "has no basic_auth_users"),
        ("basic_auth_users: [a]", "has no basic_auth_users"),
        ("tls_server_config: {cert_file: x}", "tls_server_config is not read here"),
        ("basic_auth_users: {a: secret}", "the value of a is no bcrypt hash"),
        (f"basic_auth_users: {{a: {HASH.replace('$04$', '$31$')}}}", "from 4 to 16"),
        (f"basic_auth_users: {{'a:b': {HASH}}}", "without a colon"),
    ],
)
def test_a_users_file_that_is_wrong_says_so(tmp_path: Path, text: str, said: str) -> None:
    path = tmp_path / "users.yaml"
    path.write_text(text)
    with pytest.raises(InvalidInput, match=said):
        http_access.read_users(path)


@pytest.mark.parametrize(
    ("tls", "said"),
    [
        ({"cert": "/x"}, "has no key"),
        ({"key": "/x"}, "has no cert"),
        ({"client_ca": "/x"}, "has client_ca but no cert"),
    ],
)
def test_half_of_tls_is_refused(site: Site, tls: dict[str, str], said: str) -> None:
    with pytest.raises(InvalidInput, match=said):
        site.settings(tls=tls)


def test_files_that_do_not_fit_are_refused_at_start(site: Site) -> None:
    mine, other = site.authority.sign("mine"), site.authority.sign("other")
    for tls, said in (
        ({"cert": str(mine.cert), "key": str(other.key)}, "key values mismatch"),
        ({"cert": "/nowhere", "key": str(mine.key)}, "No such file"),
        ({"cert": str(mine.key), "key": str(mine.key)}, "http.tls.cert"),
    ):
        with pytest.raises(InvalidInput, match=said):
            HttpAccess(site.settings(tls=tls), Clock())
    with pytest.raises(InvalidInput, match="http.tls.client_ca"):
        HttpAccess(
            site.settings(tls={"cert": str(mine.cert), "key": str(mine.key), "client_ca": str(mine.key)}),
            Clock(),
        )
