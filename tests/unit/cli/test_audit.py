"""Who gave a command, and what the command ``audit`` says of it."""

from __future__ import annotations

import json
import socket
from contextlib import suppress
from pathlib import Path

import pytest

from supervisor.clients.store.files import FileStore
from supervisor.errors import GuardFailed, Unreachable
from supervisor.model.records import BY_MAX_BYTES, Cause, OwnState
from supervisor.model.transaction import Transaction
from supervisor.model.zookeeper_access import Mechanism, TlsFiles, ZooKeeperAccess
from supervisor.operations import auditing, author
from supervisor.operations.auditing import AskedWrite, Auditor
from supervisor.registry.audit import line_key
from tests.fakes.registry_bench import ROOT
from tests.fakes.zookeeper import MemoryClient
from tests.unit.cli.conftest import AUTHOR, Terminal


def whole(terminal: Terminal, *more: str) -> list[dict[str, object]]:
    ran = terminal.run("audit", "-o", "json", *more)
    assert ran.code == 0, ran.err
    assert ran.json["whole"]
    lines: list[dict[str, object]] = ran.json["lines"]
    return lines


def broken_store(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise Unreachable("the store is down")

    for name in ("create", "read"):
        monkeypatch.setattr(FileStore, name, refuse)


def test_every_change_of_a_job_has_a_line_with_its_author(terminal: Terminal) -> None:
    uid = terminal.submit("a")
    for given in (
        ("suspend", "a"),
        ("resume", "a"),
        ("restart", "a"),
        ("pause", "--reason", "r"),
        ("unpause",),
    ):
        assert terminal.run(*given).code == 0
    assert terminal.run("cancel", "a").code == 0
    lines = whole(terminal)
    whats = ["submit", "suspend", "resume", "restart", "pause", "unpause", "cancel"]
    assert [line["what"] for line in lines] == whats
    assert {line["by"] for line in lines} == {AUTHOR}
    assert {line["uid"] for line in lines if line["name"]} == {uid}
    assert [line["late"] for line in lines] == [what in ("suspend", "pause", "cancel") for what in whats]


def test_it_prints_the_lines_of_a_job_and_says_that_they_are_whole(terminal: Terminal) -> None:
    terminal.submit("a")
    terminal.submit("b")
    ran = terminal.run("audit", "a")
    assert ran.code == 0 and AUTHOR in ran.out and " b " not in ran.out
    assert ran.err == "lines 1 to 2 are whole\n"
    assert terminal.run("audit", "c").out == "no line is about c\n"


def test_an_audit_that_was_changed_is_exit_code_1(terminal: Terminal) -> None:
    terminal.submit("a")
    terminal.run("cancel", "a")
    path = terminal.home / "store" / line_key(1)
    path.chmod(0o644)
    path.write_bytes(path.read_bytes().replace(AUTHOR.encode(), b"uid:1001@desk"))
    ran = terminal.run("audit")
    assert ran.code == 1
    assert ran.err == "error: the audit is broken: line 2 does not follow line 1: one of both was changed\n"


def test_what_stops_a_job_needs_no_audit_even_if_it_is_required(
    terminal: Terminal, monkeypatch: pytest.MonkeyPatch
) -> None:
    terminal.submit("a")
    monkeypatch.setenv("SPARK_SUPERVISOR__AUDIT__REQUIRED", "true")
    broken_store(monkeypatch)
    for given in (("suspend", "a"), ("cancel", "a")):
        ran = terminal.run(*given)
        assert ran.code == 0
        assert ran.err == "the audit in the store has no line of this: the store is down\n"


def test_of_several_jobs_none_waits_for_the_line_of_another(
    terminal: Terminal, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in "abc":
        terminal.submit(name)
    create, left = FileStore.create, []

    def watched(store: FileStore, key: str, data: bytes) -> None:
        left.append([name for name in "abc" if terminal.bench.zoo.client().read(f"{ROOT}/jobs/{name}")])
        create(store, key, data)

    monkeypatch.setattr(FileStore, "create", watched)
    assert terminal.run("cancel", "a", "b", "c", "--yes").code == 0
    assert left == [[], [], []]
    assert [line["name"] for line in whole(terminal)[-3:]] == ["a", "b", "c"]


def test_what_changes_a_job_goes_on_without_its_line_unless_that_is_required(
    terminal: Terminal, monkeypatch: pytest.MonkeyPatch
) -> None:
    terminal.submit("a")
    broken_store(monkeypatch)
    assert terminal.run("restart", "a").code == 0
    monkeypatch.setenv("SPARK_SUPERVISOR__AUDIT__REQUIRED", "true")
    ran = terminal.run("restart", "a")
    assert ran.code == 5
    assert "audit.required is set" in ran.err


def test_without_the_store_nothing_is_written_there(
    terminal: Terminal, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SPARK_SUPERVISOR__AUDIT__STORE", "false")
    terminal.submit("a")
    assert terminal.run("audit").out == "the audit is empty\n"
    assert not (terminal.home / "store" / "audit").exists()


def test_syslog_gets_the_line_with_its_hash(
    terminal: Terminal, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as syslog:
        syslog.bind(str(tmp_path / "log.sock"))
        monkeypatch.setenv("SPARK_SUPERVISOR__AUDIT__SYSLOG", str(tmp_path / "log.sock"))
        terminal.submit("a")
        text = syslog.recv(8192).decode()
    said = json.loads(text[text.index("{") :].rstrip("\0"))
    assert "spark-supervisor: audit " in text
    assert (said["number"], said["by"], said["what"], len(said["sha256"])) == (1, AUTHOR, "submit", 64)


def test_a_syslog_that_is_not_there_is_told_and_holds_up_nothing(
    terminal: Terminal, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SPARK_SUPERVISOR__AUDIT__SYSLOG", "/nowhere/log")
    ran = terminal.run("submit", terminal.spec("a"))
    assert ran.code == 0
    assert "syslog has no line of this" in ran.err


def test_the_author_stands_in_history_and_revisions(terminal: Terminal) -> None:
    terminal.submit("a")
    terminal.run("apply", terminal.spec("a", "args: [x]"))
    terminal.run("suspend", "a")
    events = terminal.run("history", "a", "-o", "json").json["uids"][0]["history"]
    assert {(each["event"], each["by"]) for each in events} == {("submitted", AUTHOR), ("suspended", AUTHOR)}
    assert f"(by {AUTHOR})" in terminal.run("show", "a").out
    revisions = terminal.run("revisions", "a", "-o", "json").json
    assert [each["by"] for each in revisions] == [AUTHOR, AUTHOR]


@pytest.mark.parametrize("odd", ["x509:CN=" + "ä" * 4000, "uid:0@\udcff\x1b[2J"])
def test_an_author_too_long_or_unreadable_still_has_a_line_and_stops_a_job(
    terminal: Terminal, monkeypatch: pytest.MonkeyPatch, odd: str
) -> None:
    terminal.submit("a")
    for module in (author, auditing):
        monkeypatch.setattr(module, "user_here", lambda: odd)
    ran = terminal.run("cancel", "a")
    assert (ran.code, ran.err) == (0, "")
    last = whole(terminal)[-1]
    assert last["what"] == "cancel" and str(last["by"])[:6] == odd[:6] and str(last["by"]).isprintable()


def test_a_supervisor_with_a_long_name_is_no_longer_author_than_others() -> None:
    assert len(author.supervisor_as_author("s" * 127).encode()) == BY_MAX_BYTES
    assert author.supervisor_as_author("a") == "supervisor:a"


class Known:
    """A connection that ZooKeeper knows by ``ids``."""

    def __init__(self, *ids: str) -> None:
        self.ids = ids

    def who_am_i(self) -> tuple[str, ...] | None:
        return self.ids or None


SASL = ZooKeeperAccess(mechanism=Mechanism.DIGEST_MD5)
X509 = ZooKeeperAccess(mechanism=Mechanism.X509, tls=TlsFiles(ca="ca", cert="cert", key="key"))


def test_the_author_is_whom_zookeeper_has_authenticated(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LOGNAME", "somebody-else")
    monkeypatch.setenv("USER", "somebody-else")
    both = Known("ip:127.0.0.1", "x509:CN=alice", "sasl:alice")
    assert author.author_of(both, SASL) == "sasl:alice"
    assert author.author_of(both, X509) == "x509:CN=alice"
    here = author.user_here()
    assert here.startswith("uid:") and "somebody" not in here
    assert author.author_of(Known("ip:127.0.0.1"), SASL) == here
    assert author.author_of(Known(), SASL) == here
    assert author.author_of(both, ZooKeeperAccess()) == here


def test_a_promotion_and_its_undoing_have_a_line_for_each_of_the_two(terminal: Terminal) -> None:
    """``audit clicks`` says why clicks was stopped."""
    for name in ("clicks", "clicks-2"):
        terminal.submit(name)
        terminal.bench.run(name)
    promote = ("promote", "clicks-2", "--over", "clicks", "--when", "now")
    assert terminal.run(*promote).code == 0
    terminal.bench.set_own("clicks", OwnState.EXITED, cause=Cause.STOPPED)
    assert terminal.run("promote", "--undo", "clicks", "clicks-2", "--sink", "repeats").code == 0
    lines = [line for line in whole(terminal) if line["what"] in ("promote", "undo_promotion")]
    assert [(line["what"], line["name"], line["detail"]) for line in lines] == [
        ("promote", "clicks-2", "promoted"),
        ("promote", "clicks", "suspended, with clicks-2: promoted"),
        ("undo_promotion", "clicks-2", "promotion undone"),
        ("undo_promotion", "clicks", "resumed, with clicks-2: promotion undone"),
    ]
    assert lines[0]["op"] == lines[1]["op"] and lines[1]["uid"] == terminal.bench.ref("clicks").record.uid


@pytest.mark.parametrize("command", ["cancel", "suspend"])
def test_a_stop_that_was_interrupted_has_its_line(
    terminal: Terminal, monkeypatch: pytest.MonkeyPatch, command: str
) -> None:
    """Ctrl-C after the multi was sent: the job is stopped, whatever its user saw of that."""
    uid = terminal.submit("a")
    commit = MemoryClient.commit

    def interrupted(client: MemoryClient, tx: Transaction) -> object:
        commit(client, tx)
        if tx.what == command:
            raise KeyboardInterrupt
        return None

    monkeypatch.setattr(MemoryClient, "commit", interrupted)
    with suppress(KeyboardInterrupt):
        terminal.run(command, "a")
    assert [(line["what"], line["uid"]) for line in whole(terminal)][1:] == [(command, uid)]


def test_a_stop_that_was_refused_has_none() -> None:
    def refused() -> bool:
        raise GuardFailed("/jobs/a", "bad_version", 0)

    lines: list[str] = []

    def author() -> str:
        lines.append("asked")
        return "ann"

    auditor = Auditor(author=author, syslog_at=Path("/nowhere"))
    with pytest.raises(GuardFailed):
        auditor.commit(AskedWrite("cancel"), refused)
    assert not auditor.commit(AskedWrite("cancel"), lambda: False) and not lines
    assert auditor.commit(AskedWrite("cancel"), lambda: True) and lines == ["asked"]
