"""``list``, ``show`` and ``status`` as a person and as a script see them."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from supervisor.cli import output
from supervisor.clock import wall_iso
from supervisor.model.records import (
    HISTORY_MAX,
    Cause,
    HistoryEntry,
    Member,
    Progress,
    QueryProgress,
)
from supervisor.registry.older_history import older_aside
from tests.fakes.registry_bench import AT
from tests.unit.cli.conftest import Terminal


def test_list_says_why_a_job_waits(terminal: Terminal) -> None:
    terminal.submit("a")
    assert terminal.run("list", "-o", "json").json[0]["reason"] == "no supervisor is up"
    terminal.bench.join("host-a", drivers=1)
    assert "but no supervisor leads at the moment" in terminal.run("list", "-o", "json").json[0]["reason"]
    terminal.bench.zoo.put(terminal.bench.layout.leader, b"{}")
    assert "waiting for the leader" in terminal.run("list", "-o", "json").json[0]["reason"]
    terminal.submit("b")
    terminal.bench.run("a")
    row = {row["name"]: row for row in terminal.run("list", "-o", "json").json}["b"]
    assert (row["state"], row["reason"]) == ("pending", "no room: host-a has its 1 driver already")
    assert terminal.run("show", "b", "-o", "json").json["reason"] == row["reason"]


def test_list_says_that_the_cluster_is_paused(terminal: Terminal) -> None:
    terminal.submit("a")
    terminal.bench.zoo.put(terminal.bench.layout.pause, b"")
    assert (
        terminal.run("list", "-o", "json").json[0]["reason"]
        == "the cluster is paused; besides, no supervisor is up"
    )
    assert terminal.run("status", "-o", "json").json["paused"] is True


def test_the_table_has_a_line_per_job(terminal: Terminal) -> None:
    terminal.submit("a")
    terminal.bench.run(
        "a",
        progress=Progress(
            query="q",
            batch_id=41,
            input_rows_per_s=1.0,
            processed_rows_per_s=20.25,
            batch_ms=300.0,
            at=wall_iso(),
            lag=7012,
        ),
    )
    head, line = terminal.run("list").out.splitlines()
    assert re.split("  +", head) == [
        *("NAME", "STATE", "SINCE", "ATTEMPT", "HOST", "BATCH", "ROWS/S IN", "REASON")
    ]
    assert re.fullmatch(r"a +running +\d+\w +1 +host-a\.example +41 +1\.0", line), (
        "a job that runs as wanted needs no reason"
    )
    wide = terminal.run("list", "-o", "wide").out.splitlines()[1]
    assert "s3://bucket/a" in wide and " 101 " in wide and " 7012 " in wide
    assert "\033" not in head + line + wide


def test_two_supervisors_of_one_host_are_told_apart(terminal: Terminal) -> None:
    """As in ``dev``. Who reads the document has both keys, and the host as it is."""
    terminal.submit("a")
    terminal.bench.run("a")
    layout = terminal.bench.layout
    for name in ("host-a", "host-b"):
        terminal.bench.put(
            layout.supervisor(name),
            Member(
                id=name,
                host="host-a.example",
                boot_id="b",
                address="",
                memory=1 << 40,
                drivers=9,
                starting=9,
                software="",
                since="",
            ),
        )
    assert "host-a.example (host-a)" in terminal.run("list").out
    assert terminal.run("list", "-o", "json").json[0]["host"] == "host-a.example"
    terminal.bench.zoo.remove(layout.supervisor("host-b"))
    assert "host-a.example (" not in terminal.run("list").out


def test_all_shows_what_is_hidden(terminal: Terminal) -> None:
    terminal.submit("a")
    terminal.run("cancel", "a")
    assert terminal.run("list", "-o", "json").json == []
    assert [row["state"] for row in terminal.run("list", "--all", "-o", "json").json] == ["cancelled"]


def test_show_has_the_row_the_history_and_the_spec(terminal: Terminal) -> None:
    uid = terminal.submit("a")
    terminal.bench.exit("a", Cause.USER_ERROR)
    shown = terminal.run("show", "a", "-o", "json").json
    listed = terminal.run("list", "-o", "json").json[0]
    assert {key: shown[key] for key in listed if key != "reason"} == {
        k: v for k, v in listed.items() if k != "reason"
    }
    more = {"history", "spec", "spec_error", "queries", "more_queries", "stop_mode", "start", "cluster_wait"}
    assert set(shown) - set(listed) - more == {
        "usage",
        "diagnostics",
        "spark_ui",
        "driver_memory",
        "fork",
        "promotion",
        "class_archive",
        "user",
        "limits",
        "starts_cold",
        "prepare_lowered",
        "update",
        "last_exit",
        "env_ignored",
        "checkpoint_fence",
        "savepoints",
    }
    assert [set(entry) for entry in shown["history"]] == [{"at", "event", "attempt", "detail", "by"}] * len(
        shown["history"]
    )
    assert {entry["event"] for entry in shown["history"]} == {"submitted", "user_error"}
    assert shown["spec"]["name"] == "a" and shown["uid"] == uid and shown["spec_error"] is None
    text = terminal.run("show", "a").out
    assert "user_error" in text and "checkpoint: s3://bucket/a" in text


def test_the_history_says_who_asked_for_what_is_packed(terminal: Terminal) -> None:
    terminal.submit("a")
    bench = terminal.bench
    bench.exit("a", Cause.USER_ERROR)
    own = bench.own("a")
    entries = tuple(
        HistoryEntry(at=f"2026-11-20T00:00:{n:02}.000Z", event="draining", detail=f"{n}", by="sasl:anna")
        for n in range(HISTORY_MAX)
    )
    packed = older_aside(replace(own, history=entries))
    assert len(packed.history) < len(entries) and packed.earlier
    bench.put(bench.layout.own("a"), packed)
    document = terminal.run("history", "a", "-o", "json").json["uids"][0]["history"]
    drained = [entry for entry in document if entry["event"] == "draining"]
    assert [(entry["detail"], entry["by"]) for entry in drained] == [
        (f"{n}", "sasl:anna") for n in range(HISTORY_MAX)
    ]
    for command in ("history", "show"):
        assert terminal.run(command, "a").out.count("(by sasl:anna)") == HISTORY_MAX, command


def test_show_says_how_its_next_driver_is_prepared_by_what_was_registered(terminal: Terminal) -> None:
    """A version before prepared none for a job with executors, and its terms say so until it is applied anew."""
    on_executors = "master: spark://m1:7077\nupdate: {prepare: application}\n"
    assert terminal.run("submit", terminal.spec("a", on_executors)).code == 0

    def shown() -> tuple[str | None, str | None]:
        document = terminal.run("show", "a", "-o", "json").json
        return document["starts_cold"], document["prepare_lowered"]

    lowered = "session, though its spec says application: two drivers would hold its executors at once"
    assert shown() == (None, lowered) and lowered in terminal.run("show", "a", "--all").out
    ref = terminal.bench.ref("a").record
    terminal.bench.put(terminal.bench.layout.job("a"), replace(ref, terms=replace(ref.terms, prepare=None)))
    assert shown() == (
        "a version registered it that prepares no driver for such a job: apply a changed spec of it",
        None,
    )


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ("", "auto"),
        ("checkpoint: file:///ck", None),
        ("checkpoint_fence: off", "off: the job says checkpoint_fence: off"),
        (
            "conf: {spark.sql.streaming.checkpointFileManagerClass: x.Mine}",
            "off: conf spark.sql.streaming.checkpointFileManagerClass names x.Mine, which counts",
        ),
    ],
)
def test_show_says_whether_a_checkpoint_is_to_be_fenced(
    terminal: Terminal, more: str, said: str | None
) -> None:
    assert terminal.run("submit", terminal.spec("a", more)).code == 0
    assert terminal.run("show", "a", "-o", "json").json["checkpoint_fence"] == said


def test_show_says_why_the_driver_that_runs_has_no_fence(terminal: Terminal) -> None:
    """Its host could not give it one: what the spec says is not what is."""
    assert terminal.run("submit", terminal.spec("a", "")).code == 0
    terminal.bench.run("a", not_fenced="Spark is 4.0.1, and the fence needs 4.1 or newer")
    assert (
        terminal.run("show", "a", "-o", "json").json["checkpoint_fence"]
        == "off: Spark is 4.0.1, and the fence needs 4.1 or newer"
    )


def test_show_is_the_same_document_in_yaml(terminal: Terminal) -> None:
    import yaml

    terminal.submit("a")
    terminal.bench.run(
        "a",
        progress=Progress(
            query="q",
            batch_id=41,
            input_rows_per_s=1.0,
            processed_rows_per_s=20.25,
            batch_ms=300.0,
            at=AT,
            lag=None,
        ),
        queries=(QueryProgress(query="q", id="i1"),),
    )
    ran = terminal.run("show", "a", "-o", "yaml")
    assert ran.code == 0, ran.err
    shown = yaml.safe_load(ran.out)
    assert shown["queries"][0]["state"] == "active"
    assert shown.keys() == terminal.run("show", "a", "-o", "json").json.keys()


def test_show_covers_what_looks_like_a_secret(terminal: Terminal) -> None:
    secrets = """
conf: {spark.hadoop.fs.s3a.secret.key: hush1, spark.x.accessKey: hush2, spark.x.url: "jdbc:x?password=hush3", spark.y: plain}
env: {DB_PASSWORD: "${env:DB}", API_TOKEN: hush4, PLACE: "/home"}
args: [--token, hush5, --db-password=hush6, --topic, clicks]
"""
    assert terminal.run("submit", terminal.spec("a", secrets)).code == 0
    for form in ("json", "yaml", "table"):
        assert "hush" not in terminal.run("show", "a", "-o", form).out
    spec = terminal.run("show", "a", "-o", "json").json["spec"]
    assert spec["env"]["DB_PASSWORD"] == "${env:DB}" and spec["env"]["PLACE"] == "/home"
    assert spec["conf"]["spark.y"] == "plain" and spec["conf"]["spark.x.accessKey"] == "*********(redacted)"
    assert spec["args"] == [
        "--token",
        "*********(redacted)",
        "--db-password=*********(redacted)",
        "--topic",
        "clicks",
    ]


def test_show_takes_the_live_uid_else_the_newest(terminal: Terminal) -> None:
    first = terminal.submit("a")
    terminal.run("cancel", "a")
    assert terminal.run("show", "a", "-o", "json").json["uid"] == first
    second = terminal.submit("a")
    assert terminal.run("show", "a", "-o", "json").json["uid"] == second
    terminal.run("cancel", "a")
    shown = terminal.run("show", "a", "-o", "json").json
    assert (shown["uid"], shown["state"]) == (second, "cancelled")
    assert shown["spec"]["name"] == "a"
    assert [entry["event"] for entry in shown["history"]] == ["submitted", "cancelled"]


def test_show_of_an_altered_spec_tells_why_there_is_none(terminal: Terminal) -> None:
    terminal.submit("a")
    path = terminal.home / "store" / terminal.bench.ref("a").record.spec.key
    path.write_bytes(path.read_bytes().replace(b"local[2]", b"local[9]"))
    shown = terminal.run("show", "a", "-o", "json")
    assert shown.code == 0 and shown.json["spec"] is None and "sha256" in shown.json["spec_error"]
    printed = terminal.run("show", "a")
    assert printed.code == 0 and "can't be shown" in printed.err


def test_show_of_a_corrupt_record(terminal: Terminal) -> None:
    terminal.submit("a")
    terminal.bench.zoo.put(terminal.bench.layout.job("a"), b"{")
    shown = terminal.run("show", "a", "-o", "json")
    assert shown.code == 0
    assert (shown.json["state"], shown.json["uid"], shown.json["spec"], shown.json["history"]) == (
        "quarantined",
        None,
        None,
        [],
    )


def test_status_for_a_person(terminal: Terminal) -> None:
    terminal.submit("a")
    terminal.bench.join("host-a")
    text = terminal.run("status").out
    assert "leader:     nobody" in text and "1 pending" in text and "0 of 20" in text


@pytest.mark.parametrize("reason", ["turned \u202e about", "unseen \u200b", "esc \x1b[2J", "gr\u00fc\u00dfe"])
def test_no_document_has_what_a_terminal_obeys_or_does_not_show(terminal: Terminal, reason: str) -> None:
    terminal.submit("a")
    terminal.bench.exit("a")
    own = terminal.bench.own("a")
    terminal.bench.put(terminal.bench.layout.own("a"), replace(own, reason=reason, permanent=True))
    for form in ("yaml", "json"):
        ran = terminal.run("show", "a", "-o", form)
        assert all(char.isprintable() or char == "\n" for char in ran.out), ascii(ran.out)
    assert ("gr\u00fc" in terminal.run("show", "a", "-o", "yaml").out) is ("gr" in reason)


def test_control_characters_of_an_application_never_reach_the_terminal(terminal: Terminal) -> None:
    terminal.submit("a")
    terminal.bench.exit("a")
    own = terminal.bench.own("a")
    terminal.bench.put(
        terminal.bench.layout.own("a"), replace(own, reason="\033[2J\x07 boom", permanent=True)
    )
    for arguments in (["list"], ["show", "a"]):
        text = terminal.run(*arguments).out
        assert "boom" in text and "\033" not in text and "\x07" not in text


@pytest.mark.parametrize(
    ("passed_s", "shown"), [(0, "0s"), (119, "119s"), (121, "2m"), (7300, "2h"), (200_000, "2d")]
)
def test_ages(monkeypatch: pytest.MonkeyPatch, passed_s: int, shown: str) -> None:
    monkeypatch.setattr(output.time, "time", lambda: 1_795_221_000.0 + passed_s)
    assert output.age("2026-11-21T00:30:00Z") == shown
    assert output.age(None) == output.age("yesterday") == "-"
