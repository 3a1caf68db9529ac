"""When the line of a write is written: before what starts or changes something, after what stops something, once."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from supervisor.errors import OutcomeUnknown, Unreachable
from supervisor.model.records import AUDIT_BY_MAX_BYTES, DETAIL_MAX_BYTES, AuditLine
from supervisor.operations import auditing
from supervisor.operations.auditing import STOPS, AskedWrite, Auditor

NAMED = ("cancel", "cancel_failed", "cordon", "pause", "suspend")
"""What stops something, by name: one that is left out would wait for its line."""
KINDS = (*sorted(STOPS), "submit", "resume", "update", "restart")


class Log:
    """Keeps lines with what had happened before them. ``fails`` says that the store does not answer."""

    def __init__(self, happened: list[str], *, fails: bool = False) -> None:
        self.lines: list[tuple[str, str, bool, tuple[str, ...]]] = []
        self.happened = happened
        self.fails = fails

    def append(self, line: AuditLine) -> tuple[AuditLine, str]:
        if self.fails:
            raise Unreachable("the store does not answer")
        self.lines.append((line.what, line.op, line.late, tuple(self.happened)))
        return line, "sha"


def commit_of(happened: list[str], outcome: bool | type[Exception]) -> Callable[[], bool]:
    def commit() -> bool:
        happened.append("committed" if outcome is not False else "rejected")
        if isinstance(outcome, type):
            raise outcome("no answer")
        return outcome

    return commit


def test_what_stops_something_is_known_by_name() -> None:
    assert tuple(sorted(STOPS)) == NAMED


def test_a_line_says_what_it_is_about(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lines of stops that belong together have the time of the stop, and not that of their writing."""
    lines: list[AuditLine] = []
    times = iter(["t1", "t2", "t3"])
    monkeypatch.setattr(auditing, "wall_iso", lambda: next(times))
    log: Any = Log([])
    log.append = lambda line: (lines.append(line), (line, "sha"))[1]
    audit = auditor(log)
    with audit.together():
        audit.after(AskedWrite("cancel", op="o", name="job", uid="u", revision=3, detail="why"))
        next(times)
    (line,) = lines
    assert (line.at, line.by, line.op, line.name, line.uid, line.revision, line.detail, line.late) == (
        ("t1", "ada", "o", "job", "u", 3, "why", True)
    )


def auditor(log: Any, **more: Any) -> Auditor:
    return Auditor(log, lambda: "ada", **more)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("outcome", [True, False, OutcomeUnknown])
def test_each_write_that_may_have_come_about_has_one_line(kind: str, outcome: bool | type[Exception]) -> None:
    """Of what stops something the line comes after it, also where nobody knows whether it came about."""
    happened: list[str] = []
    log, write = Log(happened), AskedWrite(kind, op="op-1")
    if isinstance(outcome, type):
        with pytest.raises(outcome):
            auditor(log).commit(write, commit_of(happened, outcome))
    else:
        assert auditor(log).commit(write, commit_of(happened, outcome)) is outcome
    if kind not in STOPS:
        assert log.lines == [(kind, "op-1", False, ())], "before it, whatever becomes of it"
    elif outcome is False:
        assert log.lines == [], "nothing was stopped"
    else:
        assert log.lines == [(kind, "op-1", True, ("committed",))]


@pytest.mark.parametrize("kind", KINDS)
def test_what_was_never_sent_has_no_line_of_a_stop(kind: str) -> None:
    happened: list[str] = []
    log = Log(happened)
    with pytest.raises(Unreachable):
        auditor(log).commit(AskedWrite(kind), commit_of(happened, Unreachable))
    assert len(log.lines) == (0 if kind in STOPS else 1)


@pytest.mark.parametrize("kind", KINDS)
def test_a_required_audit_holds_up_no_stop(kind: str) -> None:
    happened: list[str] = []
    warned: list[str] = []
    audit = auditor(Log(happened, fails=True), required=True, warn=warned.append)
    if kind in STOPS:
        assert audit.commit(AskedWrite(kind), commit_of(happened, True))
        assert happened == ["committed"] and len(warned) == 1
    else:
        with pytest.raises(Unreachable, match="nothing was done"):
            audit.commit(AskedWrite(kind), commit_of(happened, True))
        assert happened == []


@pytest.mark.parametrize("outcome", [True, OutcomeUnknown])
def test_stops_that_belong_together_wait_for_no_line_of_each_other(outcome: bool | type[Exception]) -> None:
    """Also where one of them ends in an error: those before it have their lines."""
    happened: list[str] = []
    log = Log(happened)
    audit = auditor(log)

    def stop_all() -> None:
        with audit.together():
            audit.commit(AskedWrite("cancel", op="op-1"), commit_of(happened, True))
            assert log.lines == []
            audit.commit(AskedWrite("suspend", op="op-2"), commit_of(happened, outcome))

    if outcome is True:
        stop_all()
    else:
        with pytest.raises(OutcomeUnknown):
            stop_all()
    both = ("committed", "committed")
    assert log.lines == [("cancel", "op-1", True, both), ("suspend", "op-2", True, both)]
    audit.commit(AskedWrite("cancel", op="op-3"), commit_of(happened, True))
    assert log.lines[-1][1] == "op-3", "what comes later has its line at once"


def test_a_store_that_did_not_answer_is_not_waited_for_again() -> None:
    happened: list[str] = []
    warned: list[str] = []
    log = Log(happened, fails=True)
    audit = auditor(log, warn=warned.append)
    audit.commit(AskedWrite("cancel"), commit_of(happened, True))
    log.fails = False
    audit.commit(AskedWrite("cancel"), commit_of(happened, True))
    assert log.lines == [] and len(warned) == 1


def test_what_one_multi_does_to_other_jobs_has_lines_of_its_own() -> None:
    """Before it or after it, by the kind of each."""
    happened: list[str] = []
    log = Log(happened)
    beside = (AskedWrite("suspend", op="op-2"), AskedWrite("update", op="op-3"))
    assert auditor(log).commit(AskedWrite("promote", op="op-1"), commit_of(happened, True), beside)
    assert log.lines == [
        ("promote", "op-1", False, ()),
        ("update", "op-3", False, ()),
        ("suspend", "op-2", True, ("committed",)),
    ]


def test_syslog_has_each_line_also_where_the_store_has_it_and_holds_up_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    sent: list[str] = []
    monkeypatch.setattr(auditing.syslog, "send", lambda _at, text: sent.append(text))
    at = Path("/dev/log")
    auditor(Log([]), syslog_at=at).before(AskedWrite("submit", op="op-1"))
    auditor(None, syslog_at=at).before(AskedWrite("submit", op="op-2"))
    stored, alone = (json.loads(each.removeprefix("audit ")) for each in sent)
    assert (stored["op"], stored["sha256"]) == ("op-1", "sha"), (
        "by which a changed line of the store is found"
    )
    assert alone["op"] == "op-2" and "sha256" not in alone
    warned: list[str] = []

    def fails(_at: Path, _text: str) -> None:
        raise Unreachable("no syslog")

    monkeypatch.setattr(auditing.syslog, "send", fails)
    auditor(Log([]), syslog_at=at, warn=warned.append).before(AskedWrite("submit"))
    assert warned == ["syslog has no line of this: no syslog"]


def test_a_line_says_who_asked_from_where_and_has_room_for_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """A line that is too long for its record would be none."""
    lines: list[AuditLine] = []
    log: Any = Log([])
    log.append = lambda line: (lines.append(line), (line, "sha"))[1]
    monkeypatch.setattr(auditing, "user_here", lambda: "root@host1")
    Auditor(log, lambda: "a" * 9999).before(AskedWrite("submit", detail="d" * 99999))
    (line,) = lines
    assert line.origin == "root@host1"
    assert len(line.by.encode()) <= AUDIT_BY_MAX_BYTES and len(line.detail.encode()) <= DETAIL_MAX_BYTES
