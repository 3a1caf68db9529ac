"""The API of real supervisors on a real ensemble: each of them answers, over TLS, a client that has neither ZooKeeper nor store."""

from __future__ import annotations

import contextlib
import io
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import yaml

from supervisor.api.log_client import LogClient, LogPiece
from supervisor.cli.main import run_command
from supervisor.clients import processes
from supervisor.demo.ensemble import EmbeddedEnsemble
from tests.testbed.certificates import Authority
from tests.testbed.fleet import DRIVER, Fleet, FleetMember
from tests.testbed.fleet_commands import CommandResult
from tests.testbed.radosgw import free_port
from tests.unit.api.test_service import without_renewals
from tests.waiting import wait_until

TOKEN = "t" * 40


@dataclass
class FleetWithApi(Fleet):
    """Each member serves the API at a port of its own."""

    urls: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        super().__post_init__()
        self.authority = Authority(self.directory)
        self.token = self.directory / "token"
        self.token.write_text(f"{TOKEN}\n")
        self.token.chmod(0o600)
        self.operator = self.directory / "ann"
        self.operator.write_text("o" * 40)
        self.operator.chmod(0o600)

    def _write_config(self, member: FleetMember) -> None:
        super()._write_config(member)
        signed = self.authority.sign("localhost")
        port = free_port()
        self.urls[member.id] = f"https://localhost:{port}"
        tls = {"cert": str(signed.cert), "key": str(signed.key)}
        api: dict[str, Any] = {"listen": f"127.0.0.1:{port}", "token_files": [str(self.token)], "tls": tls}
        api["operator_token_files"] = [str(self.operator)]
        api["url"] = self.urls[member.id]
        member.config.write_text(yaml.safe_dump({**yaml.safe_load(member.config.read_text()), "api": api}))


@dataclass
class Laptop:
    """Knows where the API is, and has no configuration."""

    fleet: FleetWithApi
    patch: pytest.MonkeyPatch

    def run(self, member: str, *words: str, token: Path | None = None) -> CommandResult:
        out, err = io.TextIOWrapper(io.BytesIO(), encoding="utf-8", write_through=True), io.StringIO()
        with self.patch.context() as laptop:
            laptop.setenv("SPARK_SUPERVISOR_CONFIG", "/nowhere/supervisor.yaml")
            laptop.setenv("SPARK_SUPERVISOR_SERVER", self.fleet.urls[member])
            laptop.setenv("SPARK_SUPERVISOR_SERVER_CA", str(self.fleet.authority.ca))
            laptop.setenv("SPARK_SUPERVISOR_TOKEN_FILE", str(token or self.fleet.token))
            with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
                code = run_command([*words])
        return CommandResult(code, bytes(out.buffer.getvalue()).decode(), err.getvalue())  # type: ignore[attr-defined]


@pytest.fixture
def laptop(
    embedded_ensemble: EmbeddedEnsemble, zk_root: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Laptop]:
    (tmp_path / "fleet").mkdir()
    with FleetWithApi(embedded_ensemble, zk_root, tmp_path / "fleet") as fleet:
        yield Laptop(fleet, monkeypatch)


def steady(document: Any) -> Any:
    """What does not move while a job runs."""
    moving = {"reason", "progress", "queries", "last_batch_at", "age_s", "trouble", "prepared", "usage"}
    document = without_renewals(document)
    if isinstance(document, list):
        return [steady(each) for each in document]
    if isinstance(document, dict):
        return {key: steady(value) for key, value in document.items() if key not in moving}
    return document


def test_each_supervisor_answers_as_the_command_line(laptop: Laptop) -> None:
    fleet = laptop.fleet
    fleet.submit("clicks")
    fleet.wait_state("clicks", "running")
    fleet.submit("parked", suspended=True)
    for words in ("list", "show clicks", "show parked", "history clicks", "explain clicks", "status"):
        here = fleet.ok(*words.split(), "-o", "json").document
        for member in fleet.urls:
            there = laptop.run(member, *words.split(), "-o", "json")
            assert there.code == 0, there.err
            assert steady(there.document) == steady(here), words
    assert "clicks" in laptop.run("s0", "list").out
    assert laptop.run("s1", "show", "nobody").code == 3


def test_a_server_of_another_authority_is_not_believed(laptop: Laptop, tmp_path: Path) -> None:
    assert laptop.run("s0", "list").code == 0
    laptop.fleet.authority = Authority(tmp_path, "another authority")
    ran = laptop.run("s0", "list")
    assert ran.code == 5 and "is not trusted" in ran.err and TOKEN not in ran.err


def test_an_operator_writes_over_any_supervisor_and_the_audit_says_who(
    laptop: Laptop, tmp_path: Path
) -> None:
    fleet, ann = laptop.fleet, laptop.fleet.operator
    fleet.submit("clicks")
    fleet.wait_state("clicks", "running")
    refused = laptop.run("s0", "restart", "clicks")
    assert refused.code == 5 and "the token of token may only read" in refused.err
    restarted = laptop.run("s0", "restart", "clicks", "--cold", token=ann)
    assert restarted.code == 0 and "clicks: restarted" in restarted.out, restarted.err
    wait_until(lambda: (fleet.show("clicks")["attempt"] or 0) > 1, 60, what="the next attempt")
    (tmp_path / "app.py").write_text("print('hello')\n")
    (tmp_path / "fresh.yaml").write_text("name: fresh\napplication: app.py\nunbounded: false\n")
    applied = laptop.run("s1", "apply", str(tmp_path / "fresh.yaml"), token=ann)
    assert applied.code == 0 and "fresh: created" in applied.out, applied.err
    assert laptop.run("s1", "cancel", "clicks", "fresh", "--yes", token=ann).code == 0
    audited = fleet.ok("audit", "-o", "json").document
    by_ann = [line["what"] for line in audited["lines"] if line["by"] == "token:ann@127.0.0.1"]
    assert by_ann == ["restart", "submit", "cancel", "cancel"]


def output_in(member: FleetMember, attempt: int) -> bytes:
    return b"".join(
        path.read_bytes() for path in (member.directory / "log" / "clicks").glob(f"*.{attempt}.log")
    )


def test_a_log_is_fetched_from_the_host_that_has_it(laptop: Laptop) -> None:
    """Each supervisor has a log directory of its own; it is all the same which of them the laptop asks."""
    fleet = laptop.fleet
    fleet.submit("clicks", knobs={"noise_bytes": 20})
    fleet.wait_state("clicks", "running")
    host = fleet.host_of("clicks")
    wait_until(lambda: output_in(host, 1), what="output of the driver")
    for member in fleet.urls:
        ran = laptop.run(member, "logs", "clicks")
        assert ran.code == 0 and ran.out, ran.err
        assert output_in(host, 1).decode().startswith(ran.out)
        assert len(laptop.run(member, "logs", "clicks", "--tail", "1").out.splitlines()) == 1


def test_following_goes_on_with_the_next_attempt_wherever_it_runs(laptop: Laptop) -> None:
    fleet = laptop.fleet
    uid = fleet.submit("clicks", knobs={"noise_bytes": 20})
    fleet.wait_state("clicks", "running")
    commands = fleet.commands()
    # Both run commands, whose output would get mixed up with that of the follow below.
    first, driver = fleet.host_of("clicks"), fleet.process("clicks", DRIVER)
    begun = {1: threading.Event(), 2: threading.Event()}
    get = LogClient.get

    def get_and_tell(client: LogClient, target: str) -> LogPiece:
        piece = get(client, target)
        begun[piece.attempt].set()
        return piece

    laptop.patch.setattr(LogClient, "get", get_and_tell)

    def story() -> None:
        try:
            assert begun[1].wait(60)
            processes.kill(driver)
            assert begun[2].wait(60)
            wait_until(
                lambda: any(output_in(member, 2) for member in fleet.members), what="the second attempt"
            )
        finally:
            commands.cancel("clicks")
            fleet.note_cancelled("clicks", uid)

    other = next(member for member in fleet.members if member is not first)
    telling = threading.Thread(target=story)
    telling.start()
    ran = laptop.run(other.id, "logs", "clicks", "-f")
    telling.join()
    assert ran.code == 0, ran.err
    assert "==> attempt 2 <==" in ran.err and "attempt 3" not in ran.err
    second = next(member for member in fleet.members if output_in(member, 2))
    assert ran.out.encode() == output_in(first, 1) + output_in(second, 2)
