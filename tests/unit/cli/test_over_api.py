"""``--server``: the commands that read ask the API, and print what they print otherwise; neither ZooKeeper nor store is touched."""

from __future__ import annotations

import gzip
import os
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace

import pytest
from structlog.testing import capture_logs

from supervisor.api import client
from supervisor.api.client import ApiClient
from supervisor.cli import completion, watch
from supervisor.cli.docs import PACKAGE
from supervisor.cli.main import COMMANDS
from supervisor.clients.web import WebAnswer
from supervisor.daemon.process.api_server import ApiHttpServer
from supervisor.errors import InvalidInput
from supervisor.settings.api import ApiSettings
from tests.testbed.certificates import Authority, Signed
from tests.unit.api.conftest import Fleet, empty, fleet
from tests.unit.api.test_service import down, without_renewals
from tests.unit.cli.conftest import Ran

__all__ = ["empty", "fleet"]

TOKEN = "t" * 40


@dataclass
class Laptop:
    """Knows the address of the API and a token, and has no configuration."""

    fleet: Fleet
    url: str
    token: Path
    patch: pytest.MonkeyPatch

    def run(self, *words: str) -> Ran:
        """As with ``--server`` from the environment; ``fleet.terminal.run`` has the configuration."""
        with self.patch.context() as laptop:
            laptop.setenv("SPARK_SUPERVISOR_SERVER", self.url)
            laptop.setenv("SPARK_SUPERVISOR_TOKEN_FILE", str(self.token))
            laptop.setenv("SPARK_SUPERVISOR_CONFIG", "/nowhere/supervisor.yaml")
            return self.fleet.terminal.run(*words)


@pytest.fixture
def laptop(fleet: Fleet, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Laptop]:
    token = tmp_path / "token"
    token.write_text(f"{TOKEN}\n")
    token.chmod(0o600)
    settings = ApiSettings.model_validate({"listen": "127.0.0.1:0", "token_files": [str(token)]})
    server = ApiHttpServer(settings, fleet.service)
    server.start()
    with capture_logs():  # the server is in this process: its log is not what a command prints
        yield Laptop(fleet, f"http://{server.address}", token, monkeypatch)
    server.stop()


SCREENS = (
    "list",
    "list -o wide",
    "list --all",
    "list clicks nobody",
    "list -l team=web",
    "status",
    "top",
    "top --hosts",
    "explain clicks --capacity",
    "show clicks",
    "show backs-off --all",
    "show conflict",
    "history clicks",
    "history fails --all",
    "explain",
    "explain --verbose",
    "explain clicks",
    "explain clicks --verbose",
    "explain backs-off -v",
    "explain fails",
)


def without_lease_times(ran: Ran) -> Ran:
    """The time of a renewal is counted back from the moment of asking."""
    return Ran(ran.code, re.sub(r"(silent since|ends at) [0-9T:.-]+Z", r"\1 TIME", ran.out), ran.err)


def test_the_screens_are_the_same(laptop: Laptop) -> None:
    for words in SCREENS:
        there, here = laptop.run(*words.split()), laptop.fleet.terminal.run(*words.split())
        assert without_lease_times(there) == without_lease_times(here), words


def test_the_documents_are_the_same(laptop: Laptop) -> None:
    for words in (*SCREENS, "explain", "explain clicks"):
        if "wide" in words:
            continue
        there = laptop.run(*words.split(), "-o", "json")
        here = laptop.fleet.terminal.run(*words.split(), "-o", "json")
        assert (there.code, there.err) == (here.code, here.err), words
        assert without_renewals(there.json) == without_renewals(here.json), words


def test_a_pause_is_shown(laptop: Laptop) -> None:
    assert laptop.fleet.terminal.run("pause", "--reason", "brokers").code == 0
    there, here = laptop.run("list"), laptop.fleet.terminal.run("list")
    assert "the cluster is paused by" in there.err and there == here


def test_watching(laptop: Laptop, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted() -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(watch, "_pause", interrupted)
    assert "clicks running attempt 1" in laptop.run("list", "--watch").out


def test_names_are_completed_by_the_server(laptop: Laptop) -> None:
    given = {"server": laptop.url, "token_file": str(laptop.token), "config": None}
    ctx = SimpleNamespace(params=given, parent=None)
    assert completion.job_names(ctx, "cl") == ["clicks"]
    assert completion.job_names(SimpleNamespace(params={"names": ["clicks"]}, parent=ctx), "cl") == []
    assert completion.supervisor_ids(ctx, "") == []  # what takes one can't ask a server
    laptop.token.write_text("x" * 40)
    assert completion.job_names(ctx, "cl") == []


@pytest.mark.parametrize(
    "words", ["show nobody", "history nobody", "explain nobody", "explain nobody -o json", "show Nobody"]
)
def test_an_unknown_name_is_3(laptop: Laptop, words: str) -> None:
    there, here = laptop.run(*words.split()), laptop.fleet.terminal.run(*words.split())
    assert (there.code, there.err) == (here.code, here.err) and there.code == 3


def test_zookeeper_does_not_answer_the_server(laptop: Laptop) -> None:
    down(laptop.fleet, laptop.patch)
    ran = laptop.run("status", "-o", "json")
    assert ran.code == 5 and ran.json["zookeeper"]["session"] is None
    assert f"ZooKeeper does not answer {laptop.url}" in ran.err
    assert laptop.run("list").code == 5


def test_the_options_stand_before_and_after_the_command(laptop: Laptop) -> None:
    laptop.patch.setenv("SPARK_SUPERVISOR_CONFIG", "/nowhere/supervisor.yaml")
    options = ("--server", laptop.url, "--token-file", str(laptop.token))
    run = laptop.fleet.terminal.run
    assert run(*options, "list").code == run("list", *options).code == 0
    assert run("list", "--server", laptop.url).code == 2


def test_a_wrong_token(laptop: Laptop) -> None:
    laptop.token.write_text("w" * 40)
    ran = laptop.run("list")
    assert (
        ran.code == 5
        and "does not let this client in (401: the token that was sent does not count" in ran.err
        and "w" * 40 not in ran.err
    )


def test_no_token_and_no_server(laptop: Laptop) -> None:
    laptop.token.unlink()
    assert laptop.run("list").code == 2
    laptop.token.write_text(TOKEN)
    laptop.token.chmod(0o600)
    laptop.url = "http://127.0.0.1:1"
    ran = laptop.run("list")
    assert ran.code == 5 and "http://127.0.0.1:1 does not answer" in ran.err


def test_the_message_and_the_page_name_the_commands_that_can(laptop: Laptop) -> None:
    targets = {entry.name: entry.target.split(":") for entry in COMMANDS}
    functions = {name: getattr(import_module(module), at) for name, (module, at) in targets.items()}
    can = {name for name, function in functions.items() if getattr(function, "is_over_api", False)}
    said = laptop.fleet.terminal.run("--server", laptop.url, "pause").err
    named = said.partition("out; ")[2].removesuffix(" take it\n").replace(" and ", ", ")
    assert set(named.split(", ")) == can
    page = (PACKAGE / "docs" / "operate-api.md").read_text()
    listed = page.partition("take `--server` and `--token-file`")[2].partition("\nWhile a server is chosen")[
        0
    ]
    assert set(re.findall("`([a-z]+)`", listed)) == can


@pytest.mark.parametrize("words", ["submit x.yaml", "pause", "rollback clicks", "savepoint list"])
def test_what_writes_or_needs_more_says_so(laptop: Laptop, words: str) -> None:
    before = laptop.fleet.terminal.bench.zoo.tree()
    ran = laptop.run(*words.split())
    assert ran.code == 2 and "can't ask the server" in ran.err
    group = ("--server", laptop.url)
    ran = laptop.fleet.terminal.run(*group, *words.split())
    assert ran.code == 2 and "can't ask a server; leave --server out" in ran.err
    assert laptop.fleet.terminal.bench.zoo.tree() == before


def test_a_configuration_that_is_named_counts_more_than_the_environment(laptop: Laptop) -> None:
    config = ("--config", str(laptop.fleet.terminal.config))
    laptop.url = "http://127.0.0.1:1"
    assert laptop.run("list", *config).code == 0
    assert laptop.run("pause", *config).code == 0
    both = laptop.run("list", *config, "--server", laptop.url)
    assert both.code == 2 and "give one of the two" in both.err


@pytest.mark.parametrize(
    "url",
    [
        "host-1:8781",
        "ftp://host-1",
        "http://",
        "https://host-1/api",
        "https://user@host-1",
        "https://host-1:x",
        "https://host-1:99999",
        "https://host-1?x",
        "https://[::1",
        "http://host-1:8781",
    ],
)
def test_an_address_that_is_none(tmp_path: Path, url: str) -> None:
    (tmp_path / "token").write_text(TOKEN)
    (tmp_path / "token").chmod(0o600)
    with pytest.raises(InvalidInput, match="--server"):
        ApiClient(url, tmp_path / "token")


def test_addresses(tmp_path: Path) -> None:
    (tmp_path / "token").write_text(TOKEN)
    (tmp_path / "token").chmod(0o600)
    for url in ("https://host-1:8781", "https://host-1/", "http://localhost:8781", "http://[::1]:8781"):
        ApiClient(url, tmp_path / "token")
    with pytest.raises(InvalidInput, match="the authority .*token can't be used"):
        ApiClient("https://host-1", tmp_path / "token", tmp_path / "token")


def test_the_environment_of_these_tests_names_no_server() -> None:
    assert "SPARK_SUPERVISOR_SERVER" not in os.environ


@pytest.mark.parametrize(
    "body", [b"no gzip", gzip.compress(b"x" * 200, mtime=0)[:-3], gzip.compress(b"x" * 10_000, mtime=0)]
)
def test_an_answer_that_is_no_gzip_or_is_endless_is_none(
    laptop: Laptop, body: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client, "ANSWER_MAX_BYTES", 1000)
    monkeypatch.setattr(client, "ask", lambda *_: WebAnswer(200, body, {"content-encoding": "gzip"}))
    ran = laptop.run("list")
    assert ran.code == 5 and "does not answer as the API of a supervisor" in ran.err


# -- TLS --------------------------------------------------------------------------------------------------------------


@pytest.fixture
def behind_tls(laptop: Laptop, tmp_path: Path) -> Iterator[Callable[[Signed], str]]:
    """Serves the API with a certificate, and returns its address."""
    servers: list[ApiHttpServer] = []

    def serve(signed: Signed) -> str:
        tls = {"cert": str(signed.cert), "key": str(signed.key)}
        settings = {"listen": "127.0.0.1:0", "token_files": [str(laptop.token)], "tls": tls}
        server = ApiHttpServer(ApiSettings.model_validate(settings), laptop.fleet.service)
        server.start()
        servers.append(server)
        return server.address

    yield serve
    for server in servers:
        server.stop()


CA = "SPARK_SUPERVISOR_SERVER_CA"


def test_a_certificate_that_is_not_trusted(
    laptop: Laptop, behind_tls: Callable[[Signed], str], tmp_path: Path
) -> None:
    authority, other = Authority(tmp_path), Authority(tmp_path, "another authority")
    address = behind_tls(authority.sign("api"))
    laptop.url = f"https://{address}"
    ran = laptop.run("list")
    assert ran.code == 5 and f"the certificate of {laptop.url} is not trusted" in ran.err
    assert f"name the file with the authority of its certificate (PEM) in {CA}" in ran.err
    laptop.patch.setenv(CA, str(other.ca))
    assert (
        f"{CA} is {other.ca}: it must hold the authority of this server's certificate"
        in laptop.run("list").err
    )
    laptop.patch.setenv(CA, str(authority.ca))
    assert laptop.run("list").code == 0


def test_a_certificate_that_is_for_another_name_or_has_expired(
    laptop: Laptop, behind_tls: Callable[[Signed], str], tmp_path: Path
) -> None:
    authority = Authority(tmp_path)
    laptop.patch.setenv(CA, str(authority.ca))
    for hosts, given in ((("host-1",), "127.0.0.1"), (("host-1",), "localhost")):
        address = behind_tls(authority.sign("api", hosts=hosts))
        laptop.url = f"https://{given}:{address.rpartition(':')[2]}"
        ran = laptop.run("list")
        assert ran.code == 5 and f"the certificate of {laptop.url} is for another name" in ran.err
        assert "give --server a name that it has" in ran.err
    laptop.url = f"https://{behind_tls(authority.sign('api', days=-1))}"
    ran = laptop.run("list")
    assert ran.code == 5 and "does not count now (certificate has expired)" in ran.err
    assert "api.tls.cert" in ran.err


def test_tls_on_one_side_only(laptop: Laptop, behind_tls: Callable[[Signed], str], tmp_path: Path) -> None:
    laptop.url = laptop.url.replace("http:", "https:")
    ran = laptop.run("list")
    assert ran.code == 5 and "does not seem to speak TLS" in ran.err and "write http://" in ran.err
    laptop.url = f"http://{behind_tls(Authority(tmp_path).sign('api'))}"
    ran = laptop.run("list")
    assert ran.code == 5 and "does not answer over plain HTTP; write https://" in ran.err
