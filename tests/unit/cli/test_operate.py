"""``pause``, ``unpause`` and ``switchover``: exit codes, sentences, JSON, and what is in the registry afterwards."""

from __future__ import annotations

import threading
from dataclasses import replace

import pytest

from supervisor.model.records import EpochRecord, Handover, LeaderHint, Member, Pause
from supervisor.model.seen import Found
from supervisor.model.transaction import ANY_VERSION, Delete, Transaction
from supervisor.records.layout import LAYOUT_VERSION
from tests.unit.cli.conftest import Terminal
from tests.waiting import wait_until


@pytest.fixture
def cluster(terminal: Terminal) -> Terminal:
    """Founded, with a job; s0 leads epoch 7, s1 and s2 are there."""
    terminal.submit("a")
    for supervisor in ("s0", "s1", "s2"):
        terminal.bench.join(supervisor)
    lead(terminal, "s0", 7)
    return terminal


def lead(terminal: Terminal, supervisor: str, epoch: int) -> None:
    bench = terminal.bench
    bench.put(bench.layout.epoch, EpochRecord(epoch=epoch, supervisor=supervisor, op="op"))
    bench.put(
        bench.layout.leader, LeaderHint(supervisor=supervisor, epoch=epoch, address=f"{supervisor}:8780")
    )


def wish_of(terminal: Terminal) -> Handover | None:
    found = terminal.bench.record(Handover, terminal.bench.layout.switchover)
    return found.record if isinstance(found, Found) else None


def obey(terminal: Terminal, supervisor: str, *, acts: bool = True) -> threading.Thread:
    """The fleet, as soon as a hand-over is asked for: ``supervisor`` leads epoch 8, and acts."""

    def run() -> None:
        wish = wait_until(lambda: wish_of(terminal), 20, "a wish", period_s=0.005)
        lead(terminal, supervisor, wish.epoch + 1)
        if acts:
            gone = Delete(terminal.bench.layout.switchover, ANY_VERSION)
            terminal.bench.zoo.client().commit(Transaction("switched_over", "op", (gone,)))

    thread = threading.Thread(target=run)
    thread.start()
    return thread


# -- pause --------------------------------------------------------------------------------------------------------------


def test_pause_is_recorded_with_who_when_and_why(cluster: Terminal) -> None:
    ran = cluster.run("pause", "--reason", "moving the brokers")
    assert ran.code == 0 and "(moving the brokers): nothing is started" in ran.out and "unpause" in ran.out
    found = cluster.bench.record(Pause, cluster.bench.layout.pause)
    assert isinstance(found, Found) and "@" in found.record.by and found.record.reason == "moving the brokers"
    status = cluster.run("status", "-o", "json").json
    assert status["paused"] is True
    assert status["pause"] == {
        "by": found.record.by,
        "since": found.record.at,
        "reason": "moving the brokers",
    }
    assert (
        f"paused:     by {found.record.by} since {found.record.at} (moving the brokers)"
        in cluster.run("status").out
    )


def test_a_waiting_job_says_who_paused_the_cluster(cluster: Terminal) -> None:
    cluster.run("pause")
    reason = cluster.run("list", "-o", "json").json[0]["reason"]
    assert (
        reason.startswith("paused by ")
        and " since 2" in reason
        and "to be started for the first time" in reason
    )
    assert cluster.run("show", "a", "-o", "json").json["reason"] == reason


def test_pause_twice_keeps_the_first_and_unpause_twice_is_fine(cluster: Terminal) -> None:
    first = cluster.run("pause", "--reason", "one", "-o", "json").json
    again = cluster.run("pause", "--reason", "two", "-o", "json")
    assert (first["did"], again.code, again.json["did"]) == ("paused", 0, "already paused")
    assert again.json["pause"] == first["pause"] and again.json["paused"] is True
    assert "already paused by" in cluster.run("pause").out
    ended = cluster.run("unpause", "-o", "json").json
    assert ended == {"paused": False, "did": "unpaused", "pause": first["pause"]}
    ran = cluster.run("unpause", "-o", "json")
    assert (ran.code, ran.json) == (0, {"paused": False, "did": "not paused", "pause": None})
    assert "not paused" in cluster.run("unpause").out
    status = cluster.run("status", "-o", "json").json
    assert (status["paused"], status["pause"]) == (False, None)


def test_a_pause_that_cannot_be_read_is_a_pause_and_can_be_ended(cluster: Terminal) -> None:
    cluster.bench.zoo.put(cluster.bench.layout.pause, b"{")
    status = cluster.run("status", "-o", "json").json
    assert (status["paused"], status["pause"]) == (True, None)
    assert cluster.run("pause").code == 0
    assert cluster.run("unpause").code == 0 and not cluster.bench.has(cluster.bench.layout.pause)


@pytest.mark.parametrize("command", [["pause"], ["unpause"], ["switchover"]])
def test_where_there_is_no_cluster_it_is_not_found(terminal: Terminal, command: list[str]) -> None:
    ran = terminal.run(*command)
    assert ran.code == 3 and "there is no cluster at /bench" in ran.err


def test_submit_cancel_suspend_and_resume_stay_possible(cluster: Terminal) -> None:
    cluster.run("pause")
    cluster.submit("b")
    assert [cluster.run(*words).code for words in (["suspend", "a"], ["resume", "a"], ["cancel", "a"])] == [
        0,
        0,
        0,
    ]


# -- switchover ---------------------------------------------------------------------------------------------------------


def test_switchover_waits_until_another_one_has_acted(cluster: Terminal) -> None:
    thread = obey(cluster, "s1")
    ran = cluster.run("switchover", "-o", "json")
    thread.join()
    assert ran.code == 0 and ran.json.pop("took_s") >= 0
    assert ran.json == {**ran.json, "leader": "s1", "was": "s0", "epoch": 8, "did": "handed over"}


def test_switchover_to_one_that_is_named(cluster: Terminal) -> None:
    thread = obey(cluster, "s2")
    ran = cluster.run("switchover", "--to", "s2")
    thread.join()
    assert ran.code == 0 and ran.out.startswith("s2 leads (epoch 8); s0 handed over; it took ")


@pytest.mark.parametrize(
    ("to", "who", "sentence"),
    [
        ("s2", "s1", "s2 did not take over within the session time: s1 leads now (epoch 8)"),
        (None, "s0", "nobody else took over within the session time: s0 leads again (epoch 8)"),
    ],
)
def test_a_hand_over_that_fell_to_another_is_1(
    cluster: Terminal, to: str | None, who: str, sentence: str
) -> None:
    thread = obey(cluster, who)
    ran = cluster.run("switchover", *(("--to", to) if to else ()))
    thread.join()
    assert ran.code == 1 and sentence in ran.err


def test_whoever_leads_already_is_left_alone(cluster: Terminal) -> None:
    ran = cluster.run("switchover", "--to", "s0")
    assert ran.code == 0 and "s0 leads already (epoch 7)" in ran.out and wish_of(cluster) is None
    assert cluster.run("switchover", "--to", "s0", "-o", "json").json["did"] == "already leads"


def test_an_unknown_supervisor_is_3_and_the_known_ones_are_named(cluster: Terminal) -> None:
    ran = cluster.run("switchover", "--to", "s9")
    assert (
        ran.code == 3
        and "no supervisor s9 is up; these are: s0, s1, s2" in ran.err
        and wish_of(cluster) is None
    )


def test_without_a_leader_or_another_supervisor_it_is_4(terminal: Terminal) -> None:
    terminal.submit("a")
    terminal.bench.put(terminal.bench.layout.epoch, EpochRecord(epoch=7, supervisor="s0", op="op"))
    assert "nobody leads" in (ran := terminal.run("switchover")).err and ran.code == 4
    terminal.bench.join("s0")
    lead(terminal, "s0", 7)
    assert "s0 is the only supervisor" in (ran := terminal.run("switchover")).err and ran.code == 4
    assert wish_of(terminal) is None


@pytest.mark.parametrize(
    ("obeyed", "sentence"),
    [
        (False, "s0 has not handed over yet"),
        (True, "s1 leads, but has not acted yet"),
    ],
)
def test_waiting_ends_with_7(cluster: Terminal, obeyed: bool, sentence: str) -> None:
    thread = obey(cluster, "s1", acts=False) if obeyed else None
    ran = cluster.run("switchover", "--timeout", "1s")
    if thread is not None:
        thread.join()
    assert ran.code == 7 and f"{sentence} after 1 s" in ran.err


def test_an_older_wish_is_written_over(cluster: Terminal) -> None:
    cluster.bench.put(
        cluster.bench.layout.switchover,
        Handover(epoch=3, leader="s9", to="s1", by="x@y", at="then", op="old"),
    )
    assert cluster.run("switchover", "--timeout", "100ms").code == 7
    wish = wish_of(cluster)
    assert wish is not None and (wish.epoch, wish.leader, wish.to) == (7, "s0", None)


# -- versions -----------------------------------------------------------------------------------------------------------


def test_status_says_who_runs_which_version_and_when_they_differ(cluster: Terminal) -> None:
    assert "versions" not in cluster.run("status").err
    found = cluster.bench.record(Member, cluster.bench.layout.supervisor("s2"))
    cluster.bench.put(cluster.bench.layout.supervisor("s2"), replace(found.record, software="0.2.0"))
    ran = cluster.run("status")
    assert ran.code == 0 and "0.1.0 on s0, s1; 0.2.0 on s2" in ran.err
    assert [line.split()[7] for line in ran.out.splitlines()[-3:]] == ["0.1.0", "0.1.0", "0.2.0"]
    ran = cluster.run("status", "-o", "json")
    assert ran.err == "" and [one["software"] for one in ran.json["supervisors"]] == [
        "0.1.0",
        "0.1.0",
        "0.2.0",
    ]


def test_status_says_that_policies_differ(cluster: Terminal) -> None:
    layout = cluster.bench.layout
    members = {
        name: cluster.bench.record(Member, layout.supervisor(name)).record for name in ("s0", "s1", "s2")
    }
    for name, policy in (("s0", "5" * 64), ("s1", "5" * 64)):  # s2 is of a version that judges by none
        cluster.bench.put(layout.supervisor(name), replace(members[name], policy_sha256=policy))
    assert "policies" not in cluster.run("status").err
    cluster.bench.put(layout.supervisor("s2"), replace(members["s2"], policy_sha256="7" * 64))
    ran = cluster.run("status")
    assert (
        ran.code == 0 and "policies of the supervisors differ (55555555 on s0, s1; 77777777 on s2)" in ran.err
    )
    ran = cluster.run("status", "-o", "json")
    assert ran.err == "" and [one["policy_sha256"] for one in ran.json["supervisors"]] == [
        *["5" * 64] * 2,
        "7" * 64,
    ]


@pytest.mark.parametrize("found", [b"2", b"99", b"next"])
def test_a_newer_layout_is_refused_with_a_sentence(terminal: Terminal, found: bytes) -> None:
    terminal.submit("a")
    terminal.bench.zoo.put(terminal.bench.layout.version, found)
    for words in (
        ["cancel", "a"],
        ["pause"],
        ["switchover"],
        ["submit", terminal.spec("b")],
        ["list"],
        ["status"],
    ):
        ran = terminal.run(*words)
        assert ran.code == 4 and ran.out == "", words
        assert f"this software knows layout {LAYOUT_VERSION}: upgrade it" in ran.err
