"""``--server``: the commands that write ask the API, and print and ask what they print and ask on a host."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs

from supervisor.api import write_client
from supervisor.api.client import ApiClient
from supervisor.api.write_client import WriteClient
from supervisor.api.write_routes import body_of
from supervisor.api.writes import ApiWrites
from supervisor.clients import web
from supervisor.clients.web import WebAnswer
from supervisor.daemon.process.api_server import ApiHttpServer
from supervisor.errors import InvalidInput, NotSent, OutcomeUnknown, Unreachable
from supervisor.operations.context import open_commands
from supervisor.operations.job_requests import CancelRequest, RestartRequest, SuspendRequest
from supervisor.operations.requests import JobRequest
from supervisor.settings.api import ApiSettings
from supervisor.settings.file import load_settings
from tests.testbed.certificates import Authority
from tests.unit.api.conftest import Fleet, empty
from tests.unit.cli.conftest import Ran
from tests.unit.cli.test_several import in_place_of

__all__ = ["empty"]

OPERATOR, READER = "o" * 40, "r" * 40
BY = "token:ann@127.0.0.1"


@dataclass
class Laptop:
    """Knows the address of the API and the token of the operator ann, and has no configuration."""

    fleet: Fleet
    url: str
    directory: Path
    authority: Authority
    patch: pytest.MonkeyPatch

    def run(self, *words: str, token: str = "ann") -> Ran:
        with self.patch.context() as laptop:
            laptop.setenv("SPARK_SUPERVISOR_SERVER", self.url)
            laptop.setenv("SPARK_SUPERVISOR_TOKEN_FILE", str(self.directory / token))
            laptop.setenv("SPARK_SUPERVISOR_SERVER_CA", str(self.authority.ca))
            laptop.setenv("SPARK_SUPERVISOR_CONFIG", "/nowhere/supervisor.yaml")
            return self.fleet.terminal.run(*words)

    def client(self) -> WriteClient:
        return WriteClient(ApiClient(self.url, self.directory / "ann", self.authority.ca))


@pytest.fixture
def laptop(empty: Fleet, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Laptop]:
    directory = tmp_path / "api"
    directory.mkdir()
    for name, token in (("ann", OPERATOR), ("grafana", READER)):
        (directory / name).write_text(token)
        (directory / name).chmod(0o600)
    authority = Authority(directory)
    signed = authority.sign("api")
    settings = ApiSettings.model_validate(
        {
            "listen": "127.0.0.1:0",
            "tls": {"cert": str(signed.cert), "key": str(signed.key)},
            "token_files": [str(directory / "grafana")],
            "operator_token_files": [str(directory / "ann")],
        }
    )
    opened = partial(open_commands, load_settings(None, os.environ))
    server = ApiHttpServer(settings, empty.service, ApiWrites(opened))
    server.start()
    monkeypatch.setattr("supervisor.api.shared_reads.FRESH_S", 0.0)
    with capture_logs():  # the server is in this process: its log is not what a command prints
        yield Laptop(empty, f"https://{server.address}", directory, authority, monkeypatch)
    server.stop()


def plain(ran: Ran) -> Ran:
    """Without what differs from submission to submission."""
    uid = re.compile(r"\b[a-z0-9]{12}-[0-9a-f]{8}\b")
    return Ran(ran.code, uid.sub("UID", ran.out), uid.sub("UID", ran.err))


def both(laptop: Laptop, *words: str) -> tuple[Ran, Ran]:
    """What a command prints there and here: of jobs with the same names, each time submitted anew."""
    ran = []
    for run in (laptop.run, laptop.fleet.terminal.run):
        laptop.fleet.terminal.run("cancel", "a", "b", "--yes")
        for name in ("a", "b"):
            path = laptop.fleet.terminal.spec(name, "labels: {team: web}\n")
            assert laptop.fleet.terminal.run("submit", path).code == 0
        ran.append(plain(run(*words)))
    return ran[0], ran[1]


@pytest.mark.parametrize(
    "words",
    [
        "cancel a",
        "cancel a -o json",
        "suspend a",
        "resume a",
        "resume a --accept-fresh-start",
        "restart a --cold",
        "restart a -o yaml",
        "cancel a b --yes",
        "cancel a nobody --yes",
        "suspend a b --yes -o json",
        "suspend -l team=web --yes",
        "restart -l team=web --yes -o json",
        "suspend -l team=other",
        "cancel a b",
        "cancel nobody",
        "cancel Nobody",
        "cancel a -l team=web",
        "suspend",
    ],
)
def test_the_screens_and_documents_are_the_same(laptop: Laptop, words: str) -> None:
    there, here = both(laptop, *words.split())
    assert there == here


def test_it_is_asked_first_and_no_is_no(laptop: Laptop, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("a", "b"):
        laptop.fleet.terminal.submit(name)
    monkeypatch.setattr(sys.stdin, "isatty", lambda: True, raising=False)
    monkeypatch.setattr(sys.stdin, "readline", lambda: "no\n", raising=False)
    ran = laptop.run("cancel", "a", "b")
    assert ran.code == 4 and "cancel 2 jobs: a, b" in ran.err and "nothing was done" in ran.err
    assert [job["desired"] for job in laptop.run("list", "-o", "json").json] == ["running"] * 2


def test_what_a_selector_has_found_is_changed_only_if_it_still_is_that_submission(
    laptop: Laptop, monkeypatch: pytest.MonkeyPatch
) -> None:
    given: list[Any] = []
    uid = laptop.fleet.terminal.run(
        "submit", laptop.fleet.terminal.spec("a", "labels: {team: web}\n"), "-o", "json"
    ).json[0]["uid"]
    real = WriteClient.write

    def write(self: WriteClient, request: JobRequest) -> Any:
        given.append(body_of(request))
        return real(self, request)

    monkeypatch.setattr(WriteClient, "write", write)
    assert laptop.run("suspend", "-l", "team=web").code == 0
    assert given == [{"uid": uid}]
    other = laptop.fleet.terminal.run("submit", laptop.fleet.terminal.spec("b"), "-o", "json").json[0]["uid"]
    assert laptop.run("suspend", "a", "b", "--yes").code == 0
    assert given[1:] == [{"uid": uid}, {"uid": other}], "of several names, too"


def test_a_resume_by_label_leaves_what_a_promotion_replaced(laptop: Laptop) -> None:
    terminal = laptop.fleet.terminal
    for name in ("a", "b"):
        assert terminal.run("submit", terminal.spec(name, "labels: {team: web}\n")).code == 0
    in_place_of(terminal, "b", over="a")
    assert laptop.run("suspend", "-l", "team=web", "--yes").code == 0
    ran = laptop.run("resume", "-l", "team=web", "--yes")
    assert ran.code == 0 and "a is left out: b was promoted over it" in ran.err
    assert {job["name"]: job["desired"] for job in laptop.run("list", "-o", "json").json} == {
        "a": "suspended",
        "b": "running",
    }


def test_who_asked_is_in_the_history(laptop: Laptop) -> None:
    laptop.fleet.terminal.submit("a")
    assert laptop.run("suspend", "a").code == 0
    assert f"by {BY}" in laptop.fleet.terminal.run("history", "a").out


def test_a_reader_may_not(laptop: Laptop) -> None:
    laptop.fleet.terminal.submit("a")
    before = laptop.fleet.terminal.bench.zoo.tree()
    for words in ("cancel a", f"apply {laptop.fleet.terminal.spec('a')}"):
        ran = laptop.run(*words.split(), token="grafana")
        assert ran.code == 5 and "the token of grafana may only read" in ran.err
    assert laptop.fleet.terminal.bench.zoo.tree() == before


@pytest.mark.parametrize(
    ("words", "option"),
    [
        ("cancel a --wait", "--wait"),
        ("suspend a --savepoint", "--savepoint"),
        ("resume a --from-savepoint x", "--from-savepoint"),
        ("apply SPEC --wait", "--wait"),
        ("apply SPEC --prune -l team=web", "--prune"),
        ("apply SPEC --sign-with key.pem", "--sign-with"),
    ],
)
def test_what_needs_more_says_so_and_nothing_is_done(laptop: Laptop, words: str, option: str) -> None:
    laptop.fleet.terminal.submit("a")
    before = laptop.fleet.terminal.bench.zoo.tree()
    ran = laptop.run(*words.replace("SPEC", laptop.fleet.terminal.spec("a")).split())
    assert ran.code == 2 and f"{option} needs ZooKeeper or the store" in ran.err
    assert laptop.fleet.terminal.bench.zoo.tree() == before


# -- apply --------------------------------------------------------------------------------------------------------


def applied_both(laptop: Laptop, *words: str) -> tuple[Ran, Ran]:
    ran = []
    for run in (laptop.run, laptop.fleet.terminal.run):
        terminal = laptop.fleet.terminal
        for name in ("b", "a"):
            terminal.run("cancel", name)
            assert terminal.run("submit", terminal.spec(name)).code == 0
        assert terminal.run("cancel", "b").code == 0
        ran.append(plain(run(*words)))
    return ran[0], ran[1]


APPLIES = (
    "jobs",
    "jobs --dry-run",
    "jobs -o json",
    "jobs --dry-run -o json",
    "jobs/a.yaml",
    "jobs/a.yaml -o json",
    "jobs --set resources.memory=2g",
    "jobs/a.yaml --set resources.memory=2g --dry-run -o json",
    "jobs broken.yaml",
    "jobs broken.yaml -o json",
    "broken.yaml",
    "HOME/jobs",
    "HOME/jobs -o json",
    "HOME/jobs HOME/broken.yaml -o json",
    "nowhere.yaml",
    "empty",
)


@pytest.mark.parametrize("words", APPLIES)
def test_applying_is_the_same(laptop: Laptop, words: str, monkeypatch: pytest.MonkeyPatch) -> None:
    home = laptop.fleet.terminal.home / "work"
    (home / "jobs").mkdir(parents=True)
    (home / "lib").mkdir()
    (home / "empty").mkdir()
    (home / "lib" / "app.py").write_text("print('hello')\n")
    (home / "jobs" / "_base.yaml").write_text("application: ../lib/app.py\n")
    for name in ("a", "b"):
        text = f"extends: _base.yaml\nname: {name}\ncheckpoint: s3://bucket/{name}\n"
        (home / "jobs" / f"{name}.yaml").write_text(text)
    (home / "broken.yaml").write_text("name: broken\nnonsense: 1\nmore: 2\n")
    monkeypatch.chdir(home)
    there, here = applied_both(laptop, "apply", *words.replace("HOME", str(home)).split())
    assert there == here
    if "--dry-run" not in words:
        there, here = applied_both(laptop, "diff", *words.replace("HOME", str(home)).split())
        assert there == here


def test_diff_says_the_keys_and_covers_secrets(laptop: Laptop) -> None:
    terminal = laptop.fleet.terminal
    terminal.submit("a")
    before = terminal.bench.zoo.tree()
    spec = terminal.spec("a", "lease: 20s\nconf: {spark.my.password: hunter2}")
    ran = laptop.run("diff", spec)
    assert ran.code == 1 and "hunter2" not in ran.out + ran.err
    assert "  lease: 30s → 20s" in ran.out.splitlines()
    assert any(line.startswith("  conf.spark.my.password: (none) → ") for line in ran.out.splitlines())
    assert terminal.bench.zoo.tree() == before


def test_a_file_by_an_absolute_path_can_not_be_sent(laptop: Laptop) -> None:
    path = laptop.fleet.terminal.spec("a")
    Path(path).write_text(f"name: a\napplication: {laptop.fleet.terminal.home}/app.py\n")
    ran = laptop.run("apply", path)
    assert ran.code == 2 and "name it relative to the spec" in ran.err


def test_what_is_too_large_is_said_before_it_is_sent(laptop: Laptop, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(write_client, "BUNDLE_MAX_BYTES", 100)
    path = laptop.fleet.terminal.spec("a")
    (laptop.fleet.terminal.home / "app.py").write_bytes(b"x" * 100)
    ran = laptop.run("apply", path)
    assert ran.code == 2 and "too large to be sent" in ran.err


# -- connections --------------------------------------------------------------------------------------------------


def test_without_tls_nothing_is_sent(laptop: Laptop) -> None:
    laptop.url = "http://127.0.0.1:1"
    ran = laptop.run("cancel", "a")
    assert ran.code == 2 and "writes go over TLS only" in ran.err
    with pytest.raises(InvalidInput):
        WriteClient(ApiClient("http://localhost:1", laptop.directory / "ann"))


def test_a_server_that_is_not_there_was_asked_for_nothing(laptop: Laptop) -> None:
    laptop.url = "https://127.0.0.1:1"
    with pytest.raises(NotSent):
        laptop.client().write(CancelRequest("a"))
    assert laptop.run("cancel", "a").code == 5


def test_a_connection_that_ends_leaves_the_outcome_unknown(
    laptop: Laptop, monkeypatch: pytest.MonkeyPatch
) -> None:
    laptop.fleet.terminal.submit("a")
    sent = []

    def cut(self: ApiClient, target: str, request: web.WebRequest, timeout_s: float) -> WebAnswer:
        sent.append(target)
        raise Unreachable("the connection was reset")

    monkeypatch.setattr(ApiClient, "send", cut)
    with pytest.raises(OutcomeUnknown, match="the outcome is unknown: the connection was reset"):
        laptop.client().write(RestartRequest("a"))
    ran = laptop.run("restart", "a")
    assert ran.code == 6 and "show tells what came about" in ran.err and len(sent) == 2, "sent once each"


def test_a_server_that_has_begun_nothing_is_asked_again_with_the_same_key(
    laptop: Laptop, monkeypatch: pytest.MonkeyPatch
) -> None:
    uid = laptop.fleet.terminal.submit("a")
    keys, real = [], ApiClient.send

    def busy(self: ApiClient, target: str, request: web.WebRequest, timeout_s: float) -> WebAnswer:
        keys.append(request.headers["Idempotency-Key"])
        return WebAnswer(429, b"{}") if len(keys) < 3 else real(self, target, request, timeout_s)

    monkeypatch.setattr(write_client, "BUSY_PAUSE_S", 0.0)
    monkeypatch.setattr(ApiClient, "send", busy)
    assert laptop.client().write(SuspendRequest("a")).done.uid == uid
    assert len(keys) == 3 and len(set(keys)) == 1


@pytest.mark.parametrize("body", [b"{}", b"[]", b"nonsense", b'{"name": "a", "uid": "u", "did": "odd"}'])
def test_an_answer_that_makes_no_sense(laptop: Laptop, body: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ApiClient, "send", lambda *_: WebAnswer(200, body))
    with pytest.raises((OutcomeUnknown, Unreachable)):
        laptop.client().write(SuspendRequest("a"))
