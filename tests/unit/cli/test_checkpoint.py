"""``checkpoint show`` and ``verify``, by location and by name: what they print, and their exit codes."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from supervisor.model.checkpoint_expectation import CheckpointExpectation, place_of
from supervisor.model.records import Cause, OwnState
from tests.unit.checkpoint.golden import unpack, without
from tests.unit.cli.conftest import Terminal


def test_show_by_location(terminal: Terminal, tmp_path: Path) -> None:
    checkpoint = unpack("rocksdb-v2", tmp_path)
    ran = terminal.run("checkpoint", "show", str(checkpoint), "-o", "json")
    assert (ran.code, ran.err) == (0, "")
    (query,) = ran.json["queries"]
    assert (query["id"], query["lag"], query["state_version"]) == (
        "3ccde098-86af-47c1-b2f1-c836465e46e0",
        1,
        5,
    )
    assert query["offsets"] == {"oldest": 0, "newest": 5, "holes": 0}
    assert query["sources"][0]["words"] == "offset 180"
    assert query["operators"][0]["format"] == 2
    assert (ran.json["objects"], ran.json["location"]) == (68, f"file://{checkpoint}")
    table = terminal.run("checkpoint", "show", f"file:{checkpoint}").out
    assert "stateStoreSave" in table
    assert "11.9 KiB" in table


def test_show_by_name_of_a_live_and_of_a_cancelled_job(terminal: Terminal, tmp_path: Path) -> None:
    checkpoint = unpack("files", tmp_path)
    spec = terminal.spec("clicks", f"checkpoint: {checkpoint}")
    assert terminal.run("submit", spec).code == 0
    assert (
        terminal.run("checkpoint", "show", "clicks", "-o", "json").json["location"] == f"file://{checkpoint}"
    )
    assert terminal.run("cancel", "clicks").code == 0
    assert terminal.run("checkpoint", "verify", "clicks").code == 0


def test_verify_says_what_is_wrong_and_what_helps(terminal: Terminal, tmp_path: Path) -> None:
    checkpoint = unpack("hdfs-v1", tmp_path)
    ran = terminal.run("checkpoint", "verify", str(checkpoint), "-o", "json")
    assert (ran.code, ran.json["ok"], ran.json["findings"]) == (0, True, [])
    without(checkpoint, "state/0/1/13.delta", "commits/10")
    ran = terminal.run("checkpoint", "verify", str(checkpoint), "-o", "json")
    assert (ran.code, ran.json["ok"]) == (1, False)
    assert [(each["code"], each["problem"]) for each in ran.json["findings"]] == [
        ("state_incomplete", True),
        ("hole", False),
    ]
    printed = terminal.run("checkpoint", "verify", str(checkpoint))
    assert printed.code == 1
    assert "partition 1 lacks version 13" in printed.out
    assert "1 problem;" in printed.out
    assert printed.err == ""


def test_a_notice_alone_is_good(terminal: Terminal, tmp_path: Path) -> None:
    checkpoint = unpack("hdfs-v1", tmp_path)
    without(checkpoint, "commits/10")
    ran = terminal.run("checkpoint", "verify", str(checkpoint))
    assert ran.code == 0
    assert "notice:" in ran.out


def test_what_cannot_be_looked_at(terminal: Terminal, tmp_path: Path) -> None:
    (tmp_path / "other").write_text("x")
    for where, code in [
        (str(tmp_path / "none"), 3),
        (str(tmp_path), 3),
        ("hdfs://host/ck", 2),
        ("http://x/y", 2),
        ("nobody", 3),
        ("No_Name", 3),
    ]:
        ran = terminal.run("checkpoint", "verify", where)
        assert ran.code == code, (where, ran.err)
        assert len(ran.err.splitlines()) == 1
    spec = terminal.home / "bare.yaml"
    (terminal.home / "app.py").write_text("")
    spec.write_text("name: bare\napplication: app.py\nunbounded: false\n")
    assert terminal.run("submit", str(spec)).code == 0
    ran = terminal.run("checkpoint", "show", "bare")
    assert ran.code == 3
    assert "names no checkpoint" in ran.err


def test_a_store_that_does_not_answer_is_5(terminal: Terminal, monkeypatch: pytest.MonkeyPatch) -> None:
    from supervisor.clients.store import file_objects

    monkeypatch.setattr(file_objects.FileObjectClient, "_listed", _unreachable)
    ran = terminal.run("checkpoint", "show", "/data/ck")
    assert ran.code == 5


def _unreachable(_self: object, _folder: str) -> list[object]:
    from supervisor.errors import Unreachable

    raise Unreachable("the file server does not answer")


def test_progress_only_where_a_person_looks(
    terminal: Terminal, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    checkpoint = unpack("files", tmp_path)
    assert terminal.run("checkpoint", "show", str(checkpoint)).err == ""
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
    monkeypatch.setenv("TERM", "xterm")
    ran = terminal.run("checkpoint", "show", str(checkpoint), "-o", "json")
    assert (ran.code, f"{ran.json['objects']} objects" in ran.err) == (0, True)


def test_help_of_both(terminal: Terminal) -> None:
    for name in ("show", "verify"):
        ran = terminal.run("checkpoint", name, "--help")
        assert ran.code == 0
        assert "--output" in ran.out


def test_verify_of_a_job_compares_with_what_the_registry_remembers(
    terminal: Terminal, tmp_path: Path
) -> None:
    checkpoint = unpack("files", tmp_path)
    assert terminal.run("submit", terminal.spec("clicks", f"checkpoint: {checkpoint}")).code == 0
    known = "0ad6ac04-e858-432d-8218-addf97e927d3"
    for words, code in (((f"{known} 2",), None), ((f"{known} 9",), "truncated"), (("another 1",), "foreign")):
        terminal.bench.set_own(
            "clicks",
            OwnState.VACANT,
            remembered=CheckpointExpectation(place=place_of(str(checkpoint)), queries=words),
        )
        ran = terminal.run("checkpoint", "verify", "clicks", "-o", "json")
        assert [each["code"] for each in ran.json["findings"]] == ([code] if code else [])
        assert ran.code == (1 if code else 0)
        # nobody knows whose it should be
        assert terminal.run("checkpoint", "verify", str(checkpoint)).code == 0


def test_a_fresh_start_is_accepted_at_resume_and_at_submit(terminal: Terminal) -> None:
    assert terminal.run("submit", terminal.spec("a"), "--accept-fresh-start").code == 0
    first = terminal.bench.ref("a").record
    assert first.fresh_start == first.op
    terminal.bench.set_own(
        "a", OwnState.EXITED, cause=Cause.BAD_CHECKPOINT, permanent=True, restart_nonce=first.restart_nonce
    )
    assert "resume a --accept-fresh-start" in terminal.run("explain", "a").out
    assert terminal.run("resume", "a", "--accept-fresh-start").code == 0
    assert terminal.bench.ref("a").record.fresh_start == terminal.bench.ref("a").record.op != first.op


def test_a_submit_of_what_is_registered_accepts_nothing_and_says_so(terminal: Terminal) -> None:
    spec = terminal.spec("a")
    assert terminal.run("submit", spec).err == ""
    ran = terminal.run("submit", spec, "--accept-fresh-start")
    assert (ran.code, terminal.bench.ref("a").record.fresh_start) == (0, "")
    assert (
        "a is registered already, and was left as it is: for that there is resume a --accept-fresh-start"
        in ran.err
    )
    assert terminal.run("submit", spec).err == ""
