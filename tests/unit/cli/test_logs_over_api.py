"""``logs --server``: what the host of the attempt has, also by way of a server that does not have it; ``--tail`` and ``--since`` everywhere."""

from __future__ import annotations

import gzip
import os
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs

from supervisor.api import log_pieces
from supervisor.api.client import ApiClient
from supervisor.api.service import ApiService
from supervisor.api.shared_reads import SharedReads
from supervisor.cli import logs
from supervisor.daemon.process.api_server import ApiHttpServer
from supervisor.errors import Unreachable
from supervisor.model.records import OwnState, with_entry
from supervisor.operations.context import open_commands
from supervisor.registry.uploaded_logs import PieceKey, UploadedKey, UploadedLogs
from supervisor.settings.api import ApiSettings
from supervisor.settings.file import load_settings
from tests.fakes.registry_bench import AT
from tests.unit.api.conftest import Fleet, empty
from tests.unit.api.test_uploaded_logs import store_of, uploaded
from tests.unit.cli.conftest import Ran, replace_sleep, terminal
from tests.unit.cli.test_over_api import TOKEN, Laptop

__all__ = ["empty", "terminal"]


class Hosts:
    """The hosts a and b with their APIs, and a laptop that knows the address of a."""

    def __init__(self, fleet: Fleet, directory: Path, patch: pytest.MonkeyPatch) -> None:
        self.fleet, self.bench = fleet, fleet.terminal.bench
        self.patch = patch
        self.token = directory / "token"
        self.token.write_text(f"{TOKEN}\n")
        self.token.chmod(0o600)
        self.settings = ApiSettings.model_validate(
            {"listen": "127.0.0.1:0", "token_files": [str(self.token)]}
        )
        self.b_logs = directory / "log-b"
        self.servers = [self._server(fleet.service), self._server(self._service_of_b(directory))]
        self.a, self.b = (f"http://{server.address}" for server in self.servers)
        self.uid = fleet.terminal.submit("a")
        self.bench.run("a")

    def _server(self, service: ApiService) -> ApiHttpServer:
        server = ApiHttpServer(self.settings, service)
        server.start()
        return server

    def _service_of_b(self, directory: Path) -> ApiService:
        text = self.fleet.terminal.config.read_text()
        assert "id: host-a" in text
        config = directory / "host-b.yaml"
        logs_of_a = str(self.fleet.terminal.home / "log")
        assert logs_of_a in text
        config.write_text(text.replace("id: host-a", "id: host-b").replace(logs_of_a, str(self.b_logs)))
        settings = load_settings(config, os.environ)
        return ApiService(SharedReads(partial(open_commands, settings)), settings.supervisor.log_dir)

    def run(self, *words: str) -> Ran:
        return Laptop(self.fleet, self.a, self.token, self.patch).run(*words)

    def a_wrote(self, text: bytes, attempt: int = 1) -> Path:
        return self._wrote(self.fleet.terminal.home / "log", text, attempt)

    def b_wrote(self, text: bytes, attempt: int = 2) -> Path:
        return self._wrote(self.b_logs, text, attempt)

    def _wrote(self, log_dir: Path, text: bytes, attempt: int) -> Path:
        path = log_dir / "a" / f"{self.uid}.{attempt}.log"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text)
        return path

    def move_to_b(self, server: str | None = None) -> None:
        self.bench.join("host-b", log_dir=str(self.b_logs), api=self.b if server is None else server)
        self.bench.set_own("a", OwnState.CLAIMED, attempt=2, supervisor="host-b", host="host-b.example")


@pytest.fixture
def hosts(empty: Fleet, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Hosts]:
    monkeypatch.setattr("supervisor.api.shared_reads.FRESH_S", 0.0)
    monkeypatch.setattr(logs, "PERIOD_S", 0.01)
    monkeypatch.setattr(logs, "ASK_EVERY_S", 0.0)
    made = Hosts(empty, tmp_path, monkeypatch)
    with capture_logs():  # the servers are in this process: their log is not what a command prints
        yield made
    for server in made.servers:
        server.stop()


def test_the_output_is_that_of_the_host_without_its_configuration(hosts: Hosts) -> None:
    hosts.a_wrote(b"hello\ngr\xc3\xbc\xc3\x9fe\n")
    assert (
        hosts.run("logs", "a")
        == hosts.fleet.terminal.run("logs", "a")
        == Ran(0, "hello\ngr\u00fc\u00dfe\n", "")
    )
    here, there = hosts.fleet.terminal.run("logs", "a", "-o", "json"), hosts.run("logs", "a", "-o", "json")
    assert here.json == there.json and here.json["output"] == "hello\ngr\u00fc\u00dfe\n"


def test_a_log_of_many_pieces(hosts: Hosts) -> None:
    text = "".join(f"line {number:07}\n" for number in range(200_000))
    hosts.a_wrote(text.encode())
    assert hosts.run("logs", "a").out == text
    assert hosts.run("logs", "a", "-o", "json").json["output"] == text


def test_the_last_lines_and_since_are_the_same_here_and_there(hosts: Hosts) -> None:
    def line(at_s: float) -> bytes:
        return time.strftime("%y/%m/%d %H:%M:%S INFO x", time.localtime(at_s)).encode() + b"\n"

    now_s = time.time()
    lines = [line(now_s - 3600), line(now_s - 1800), line(now_s - 60), line(now_s - 1)]
    hosts.a_wrote(b"".join(lines))
    for words, wanted in (
        (("--tail", "1"), lines[-1:]),
        (("--tail", "0"), []),
        (("--since", "10m"), lines[2:]),
        (("--since", "1d"), lines),
        (("--since", "45m", "--tail", "2"), lines[2:]),
        (("--since", "10m", "--tail", "3"), lines[2:]),
    ):
        for run in (hosts.run, hosts.fleet.terminal.run):
            ran = run("logs", "a", *words)
            assert (ran.code, ran.out) == (0, b"".join(wanted).decode()), words
    for wrong in (("--since", "10"), ("--tail", "-1"), ("--tail", "x"), ("--attempt", "0")):
        assert hosts.run("logs", "a", *wrong).code == hosts.fleet.terminal.run("logs", "a", *wrong).code == 2


def test_the_host_that_has_it_is_asked_in_place_of_the_first(hosts: Hosts) -> None:
    hosts.a_wrote(b"first\n")
    hosts.b_wrote(b"second\n")
    hosts.move_to_b()
    assert hosts.run("logs", "a") == Ran(0, "second\n", "")
    assert hosts.run("logs", "a", "--attempt", "1") == Ran(0, "first\n", "")
    assert hosts.run("logs", "a", "-o", "json").json["path"] == str(hosts.b_logs / "a" / f"{hosts.uid}.2.log")


def test_nobody_is_sent_in_circles(hosts: Hosts) -> None:
    """The host that is named says that another has it."""
    hosts.move_to_b(server=hosts.a)
    ran = hosts.run("logs", "a")
    assert ran.code == 1 and "runs on host-b.example" in ran.err


def test_a_host_whose_api_is_not_known(hosts: Hosts) -> None:
    hosts.move_to_b(server="")
    ran = hosts.run("logs", "a")
    assert ran.code == 1 and "runs on host-b.example: ssh host-b.example spark-supervisor logs a" in ran.err


def test_on_a_host_of_the_cluster_the_way_over_the_api_is_said(hosts: Hosts) -> None:
    hosts.move_to_b()
    ran = hosts.fleet.terminal.run("logs", "a")
    assert ran.code == 1
    assert (
        f"ssh host-b.example spark-supervisor logs a --attempt 2, or spark-supervisor logs a --attempt 2 --server {hosts.b}"
        in ran.err
    )


# -- following --------------------------------------------------------------------------------------------------------


def chapters(hosts: Hosts, *story: Callable[[], Any]) -> None:
    """Each time that the command waits, the next thing happens."""
    told = iter(story)

    def sleep(_seconds: float) -> None:
        next(told, lambda: None)()

    replace_sleep(hosts.patch, logs, sleep)


def test_following_goes_on_to_another_host_and_ends_with_the_job(hosts: Hosts) -> None:
    path = hosts.a_wrote(b"first\n")

    def moved() -> None:
        hosts.a_wrote(b"first\nmore\n")
        hosts.b_wrote(b"second\n")
        hosts.move_to_b()

    chapters(hosts, lambda: os.replace(path, f"{path}.1"), moved, lambda: hosts.bench.commands().cancel("a"))
    ran = hosts.run("logs", "a", "-f")
    assert (ran.code, ran.out) == (0, "first\nfirst\nmore\nsecond\n")
    assert ran.err.count("==> attempt 2 <==") == 1


def test_following_comes_back_to_the_first_host_though_it_publishes_no_address(hosts: Hosts) -> None:
    hosts.a_wrote(b"first\n")
    hosts.b_wrote(b"second\n")

    def back() -> None:
        hosts.a_wrote(b"third\n", attempt=3)
        hosts.bench.set_own("a", OwnState.CLAIMED, attempt=3)

    chapters(hosts, hosts.move_to_b, back, lambda: hosts.bench.commands().cancel("a"))
    ran = hosts.run("logs", "a", "-f")
    assert (ran.code, ran.out) == (0, "first\nsecond\nthird\n")


def test_following_goes_on_without_a_host_that_has_gone_down(hosts: Hosts) -> None:
    hosts.a_wrote(b"first\n")
    hosts.b_wrote(b"second\n")

    def down() -> None:
        hosts.servers[1].stop()
        hosts.bench.zoo.remove(hosts.bench.layout.supervisor("host-b"))

    def back() -> None:
        hosts.a_wrote(b"third\n", attempt=3)
        history = with_entry((), AT, "claimed", 2, "host-b")
        hosts.bench.set_own("a", OwnState.CLAIMED, attempt=3, history=history)

    story = (hosts.move_to_b, down, lambda: None, lambda: None, back)
    chapters(hosts, *story, lambda: hosts.bench.commands().cancel("a"))
    ran = hosts.run("logs", "a", "-f")
    assert (ran.code, ran.out) == (0, "first\nsecond\nthird\n"), ran.err
    assert "some output is missing here" in ran.err and "==> attempt 3 <==" in ran.err


def test_following_one_attempt_ends_with_it(hosts: Hosts) -> None:
    hosts.a_wrote(b"first\n")
    hosts.b_wrote(b"second\n")
    chapters(hosts, hosts.move_to_b)
    assert hosts.run("logs", "a", "-f", "--attempt", "1") == Ran(0, "first\n", "")


def test_following_waits_for_the_first_output(hosts: Hosts) -> None:
    chapters(hosts, lambda: hosts.a_wrote(b"late\n"), lambda: hosts.bench.commands().cancel("a"))
    assert hosts.run("logs", "a", "-f").out == "late\n"
    assert hosts.run("logs", "a", "-f", "-o", "json").code == 2


def test_a_server_that_does_not_answer_for_a_while(hosts: Hosts) -> None:
    hosts.a_wrote(b"first\n")
    asked, real = [0], ApiClient.get_text

    def flaky(self: ApiClient, target: str) -> Any:
        asked[0] += 1
        if asked[0] == 2:
            raise Unreachable("http://x does not answer")
        return real(self, target)

    hosts.patch.setattr(ApiClient, "get_text", flaky)
    chapters(hosts, lambda: hosts.a_wrote(b"first\nmore\n"), lambda: hosts.bench.commands().cancel("a"))
    ran = hosts.run("logs", "a", "-f")
    assert (ran.code, ran.out) == (0, "first\nmore\n") and "http://x does not answer; following on" in ran.err


def test_a_server_that_never_answered_is_an_error(hosts: Hosts) -> None:
    hosts.a = "http://127.0.0.1:1"
    assert hosts.run("logs", "a", "-f").code == 5


def test_a_token_that_does_not_count_there(hosts: Hosts) -> None:
    hosts.token.write_text("w" * 40)
    ran = hosts.run("logs", "a", "-f")
    assert ran.code == 5 and "does not let this client in" in ran.err


def test_what_is_no_answer_of_the_api(hosts: Hosts) -> None:
    hosts.a_wrote(b"first\n")
    real = ApiClient.get_text
    for headers in ({}, {"log-attempt": "x"}, {"log-attempt": "1", "link": '<@evil.example/x>; rel="next"'}):
        with hosts.patch.context() as patch:
            patch.setattr(ApiClient, "get_text", lambda *a, h=headers: real(*a)._replace(headers=h))
            ran = hosts.run("logs", "a")
        assert ran.code == 5 and "not the answer of the API" in ran.err


# -- where a token goes -----------------------------------------------------------------------------------------------


@pytest.fixture
def token(tmp_path: Path) -> Path:
    path = tmp_path / "token"
    path.write_text(TOKEN)
    path.chmod(0o600)
    return path


def test_without_an_authority_of_its_own_a_token_goes_to_the_named_host_only(token: Path) -> None:
    """A name that stood in ZooKeeper could be anybody's, with a certificate of any authority of the system."""
    client = ApiClient("https://host-1:8781", token)
    assert client.of("https://host-1:8782") is not None
    for url in (
        "https://host-2:8781",
        "http://host-1:8781",
        "http://127.0.0.1:8781",
        "https://u@host-1",
        "x",
        "",
    ):
        assert client.of(url) is None, url


def test_a_token_that_went_over_tls_goes_to_no_plain_port_of_the_same_host(token: Path) -> None:
    """A tunnel makes the server a port of this machine, where anybody may listen at another."""
    client = ApiClient("https://localhost:8781", token)
    assert client.of("http://localhost:8782") is None
    assert client.of("https://localhost:8782") is not None


def test_with_an_authority_it_goes_to_who_has_a_certificate_of_it(token: Path, tmp_path: Path) -> None:
    from tests.testbed.certificates import Authority

    client = ApiClient("https://host-1:8781", token, Authority(tmp_path).ca)
    other = client.of("https://host-2:8781")
    assert other is not None and other.has_tls
    for url in ("http://127.0.0.1:8781", "http://host-2:8781", "ftp://host-2"):
        assert client.of(url) is None, url


def test_the_address_that_a_supervisor_publishes(tmp_path: Path) -> None:
    tls = {"cert": "/c.pem", "key": "/k.pem"}

    def address(**more: Any) -> str:
        return ApiSettings.model_validate({"token_files": ["/t"], "tls": tls, **more}).address("host-1")

    assert address() == address(listen="127.0.0.1:8781") == address(listen="0.0.0.0:0") == ""
    assert address(listen="0.0.0.0:8781") == address(listen="[::]:8781") == "https://host-1:8781"
    assert address(listen="10.0.0.7:8781") == "https://10.0.0.7:8781"
    assert address(listen="[fd00::7]:8781") == "https://[fd00::7]:8781"
    assert address(listen="127.0.0.1:8781", url="https://host-1.example/") == "https://host-1.example"
    for wrong in ("http://host-1:8781", "https://host-1/x", "host-1:8781"):
        with pytest.raises(ValueError):
            address(listen="0.0.0.0:8781", url=wrong)


# -- what was uploaded --------------------------------------------------------------------------------------------------


SAID = "from the store: the end of what attempt 2 wrote, uploaded when it had ended"


def ended_on_b(hosts: Hosts, server: str | None) -> None:
    """``server`` None: its supervisor is down."""
    hosts.move_to_b(server=server)
    if server is None:
        hosts.bench.zoo.remove(hosts.bench.layout.supervisor("host-b"))
    hosts.bench.set_own("a", OwnState.EXITED, attempt=2, supervisor="host-b", host="host-b.example")


def test_what_a_lost_host_has_uploaded_is_given_here_and_there(hosts: Hosts) -> None:
    key = uploaded(hosts.fleet, hosts.uid, b"1\n2\n3\n", 2)
    ended_on_b(hosts, None)
    for run in (hosts.run, hosts.fleet.terminal.run):
        ran = run("logs", "a")
        assert (ran.code, ran.out) == (0, "1\n2\n3\n") and ran.err.count(SAID) == 1
        assert run("logs", "a", "--tail", "1").out == "3\n"
        document = run("logs", "a", "-o", "json").json
        assert document == {
            "name": "a",
            "uid": hosts.uid,
            "attempt": 2,
            "path": key,
            "source": "store",
            "uploaded_until": None,
            "output": "1\n2\n3\n",
        }


def test_what_a_host_had_uploaded_when_it_was_lost(hosts: Hosts) -> None:
    hosts.move_to_b()
    hosts.bench.zoo.remove(hosts.bench.layout.supervisor("host-b"))
    of = UploadedKey("a", hosts.uid, 2, 5)
    pieces = [PieceKey(of, number, 3, f"1f.0123456789ab.{number}") for number in (2, 4)]
    for piece in pieces:
        UploadedLogs(store_of(hosts.fleet)).put_piece(piece, gzip.compress(b"%02d\n" % piece.number))
    for run in (hosts.run, hosts.fleet.terminal.run):
        ran = run("logs", "a", "--tail", "5")
        assert (ran.code, ran.out) == (0, "02\n04\n")
        said, missing = ran.err.splitlines()
        assert said.startswith("from the store: the end of what attempt 2 wrote, uploaded until 20")
        assert said.endswith("Z; what came later is on its host host-b.example only")
        assert missing.startswith("some output is missing here")
        document = run("logs", "a", "-o", "json").json
        assert document["path"] == str(pieces[-1]) and document["output"] == "02\n04\n"
        assert document["uploaded_until"] in said


@pytest.mark.parametrize("server", ["", "http://127.0.0.1:1"])
def test_a_host_that_can_not_be_asked_has_uploaded_what_runs(hosts: Hosts, server: str) -> None:
    """Its session is not over yet, or its network is."""
    hosts.move_to_b(server=server)
    piece = PieceKey(UploadedKey("a", hosts.uid, 2, 5), 1, 4, "1f.0123456789ab.4")
    UploadedLogs(store_of(hosts.fleet)).put_piece(piece, gzip.compress(b"one\n"))
    ran = hosts.run("logs", "a")
    assert (ran.code, ran.out) == (0, "one\n") and "uploaded until" in ran.err
    assert hosts.run("logs", "a", "-f").code in (1, 5), "that waits for its host"


@pytest.mark.parametrize("server", ["", "http://127.0.0.1:1"])
def test_a_host_that_can_not_be_asked_has_uploaded_it(hosts: Hosts, server: str) -> None:
    """It is registered, and has no API, or none that is reached."""
    ended_on_b(hosts, server)
    ran = hosts.run("logs", "a")
    assert ran.code in (1, 5) and SAID not in ran.err
    uploaded(hosts.fleet, hosts.uid, b"last words\n", 2)
    ran = hosts.run("logs", "a")
    assert (ran.code, ran.out) == (0, "last words\n") and SAID in ran.err


def test_the_host_that_has_more_comes_before_the_store(hosts: Hosts) -> None:
    uploaded(hosts.fleet, hosts.uid, b"the end\n", 2)
    hosts.b_wrote(b"all\n")
    ended_on_b(hosts, hosts.b)
    assert hosts.run("logs", "a") == Ran(0, "all\n", "")


def test_a_log_of_many_pieces_in_the_store(hosts: Hosts, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_pieces, "PIECE_MAX_BYTES", 1000)
    text = "".join(f"line {number:07}\n" for number in range(300))
    uploaded(hosts.fleet, hosts.uid, text.encode(), 2)
    ended_on_b(hosts, None)
    ran = hosts.run("logs", "a")
    assert ran.out == text and ran.err.count(SAID) == 1


def test_what_was_not_uploaded_is_said_to_be_missing(hosts: Hosts) -> None:
    ended_on_b(hosts, None)
    for run in (hosts.run, hosts.fleet.terminal.run):
        ran = run("logs", "a")
        assert ran.code == 1 and "ran on host-b.example" in ran.err
        assert "the store has no output of it" in ran.err


def test_a_server_of_the_version_before_is_believed_to_give_files(
    hosts: Hosts, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("supervisor.api.log_answers.SOURCE_HEADER", "Unknown")
    hosts.a_wrote(b"x\n")
    assert hosts.run("logs", "a", "-o", "json").json["source"] == "host"
