"""``cordon``, ``uncordon``, ``drain`` and ``move``: exit codes, sentences, JSON, and what is in the registry afterwards."""

from __future__ import annotations

import threading
from dataclasses import replace
from typing import Any

import pytest

from supervisor.model.records import (
    Cordon,
    EpochRecord,
    Handover,
    JobRef,
    LeaderHint,
    Member,
    OwnState,
    PlacementPolicy,
    SpecRevision,
    Update,
    UpdateMode,
    UpdatePolicy,
)
from supervisor.model.seen import Found
from tests.unit.cli.conftest import Terminal
from tests.waiting import wait_until


@pytest.fixture
def cluster(terminal: Terminal) -> Terminal:
    """A job a runs on s1; s0 leads epoch 7; s0, s1 and s2 are up."""
    terminal.submit("a")
    for supervisor in ("s0", "s1", "s2"):
        terminal.bench.join(supervisor)
    terminal.bench.put(terminal.bench.layout.epoch, EpochRecord(epoch=7, supervisor="s0", op="op"))
    terminal.bench.put(terminal.bench.layout.leader, LeaderHint(supervisor="s0", epoch=7, address="s0:8780"))
    run_on(terminal, "s1")
    return terminal


def run_on(terminal: Terminal, host: str, **changes: str) -> None:
    terminal.bench.run("a")
    nonce = terminal.bench.ref("a").record.restart_nonce
    terminal.bench.set_own("a", OwnState.CLAIMED, supervisor=host, restart_nonce=nonce, **changes)


def cordon_of(terminal: Terminal, host: str = "s1") -> Cordon | None:
    found = terminal.bench.record(Cordon, terminal.bench.layout.host(host))
    return found.record if isinstance(found, Found) else None


def supervisors(terminal: Terminal) -> dict[str, dict[str, object]]:
    document = terminal.run("status", "-o", "json").json
    return {each["id"]: each for each in document["supervisors"]}


def change_a(terminal: Terminal, **changes: Any) -> None:
    """Another revision of a was applied, whose terms are changed by ``changes``; its update waits for a restart."""
    found = terminal.bench.ref("a")
    before = SpecRevision(revision=1, spec=found.record.spec, terms=found.record.terms)
    policy = UpdatePolicy(mode=UpdateMode.HANDOVER if changes else UpdateMode.MANUAL)
    update = Update(target=2, sha256="1", before=before, by="me@here", at="t", policy=policy)
    spec = replace(found.record.spec, sha256="1")
    record = replace(
        found.record, revision=2, spec=spec, terms=replace(found.record.terms, **changes), update=update
    )
    terminal.bench.put(terminal.bench.layout.job("a"), record)


# -- cordon, uncordon -----------------------------------------------------------------------------------------------------


def test_cordon_is_recorded_with_who_when_and_why_and_status_says_so(cluster: Terminal) -> None:
    ran = cluster.run("cordon", "s1", "--reason", "new disks")
    assert (ran.code, ran.out) == (
        0,
        "s1: cordoned: nothing new is placed there; spark-supervisor uncordon s1 ends it\n",
    )
    found = cordon_of(cluster)
    assert found is not None and (found.cordoned, found.draining, found.why) == (True, False, "new disks")
    members = supervisors(cluster)
    assert members["s1"]["cordoned"] is True and members["s2"]["cordoned"] is False
    assert members["s1"]["cordon"] == {
        "by": found.by,
        "since": found.at,
        "reason": "new disks",
        "draining": False,
        "max_parallel": None,
    }
    assert (
        f"cordoned:   s1 by {found.by} since {found.at} (new disks); nothing new" in cluster.run("status").out
    )


def test_cordon_again_leaves_the_first_as_it_is(cluster: Terminal) -> None:
    cluster.run("cordon", "s1", "--reason", "first")
    before = cordon_of(cluster)
    ran = cluster.run("cordon", "s1", "--reason", "second")
    assert ran.code == 0 and "already: s1 is cordoned by" in ran.out and "first" in ran.out
    assert cordon_of(cluster) == before


def test_uncordon_keeps_the_record_so_that_its_version_never_begins_again(cluster: Terminal) -> None:
    cluster.run("cordon", "s1")
    ran = cluster.run("uncordon", "s1")
    assert (ran.code, ran.out) == (0, "s1: uncordoned: it takes jobs again\n")
    found = cordon_of(cluster)
    assert found is not None and not found.cordoned
    assert supervisors(cluster)["s1"]["cordoned"] is False
    again = cluster.run("uncordon", "s1", "-o", "json")
    assert again.json == {"host": "s1", "did": "not cordoned", "cordoned": False, "cordon": None}


def test_uncordon_of_a_host_that_never_was_writes_nothing(cluster: Terminal) -> None:
    assert cluster.run("uncordon", "s1").out == "s1: not cordoned: nothing to do\n"
    assert not cluster.bench.has(cluster.bench.layout.hosts)


@pytest.mark.parametrize(
    "command", [("cordon", "s3"), ("uncordon", "s3"), ("drain", "s3"), ("move", "a", "--to", "s3")]
)
def test_a_host_that_was_never_up_is_refused_with_those_that_are_known(
    cluster: Terminal, command: tuple[str, ...]
) -> None:
    ran = cluster.run(*command)
    assert ran.code == 3 and "no supervisor is named s3" in ran.err and "s0, s1, s2" in ran.err
    assert not cluster.bench.has(cluster.bench.layout.hosts)


def test_a_host_that_is_down_can_be_cordoned(cluster: Terminal) -> None:
    bench = cluster.bench
    bench.put(
        bench.layout.assigned_to("s9"), replace(cordon(), supervisor="s9")
    )  # it was up once: its parent is left
    assert cluster.run("cordon", "s9").code == 0
    assert cordon_of(cluster, "s9") is not None


def cordon() -> Cordon:
    return Cordon(supervisor="s1", cordoned=True, by="ops@h", at="t", why="", op="op")


@pytest.mark.parametrize("command", ["cordon", "uncordon", "drain"])
def test_what_cannot_be_read_is_shown_and_written_anew(cluster: Terminal, command: str) -> None:
    cluster.run("cordon", "s1")
    cluster.bench.zoo.put(cluster.bench.layout.host("s1"), b"{")
    assert supervisors(cluster)["s1"]["cordoned"] is True and supervisors(cluster)["s1"]["cordon"] is None
    assert "can't be read: uncordon s1 writes it anew" in cluster.run("status").out
    assert cluster.run(command, "s1").code == 0
    found = cordon_of(cluster)
    assert found is not None and found.cordoned is (command != "uncordon")


def test_a_pending_job_says_that_its_hosts_are_cordoned(cluster: Terminal) -> None:
    cluster.submit("b")
    for host in ("s0", "s1", "s2"):
        cluster.run("cordon", host, "--reason", "all of them")
    jobs = {each["name"]: each for each in cluster.run("list", "-o", "json").json}
    assert "s0 is cordoned by" in jobs["b"]["reason"] and ": all of them" in jobs["b"]["reason"]
    explained = cluster.run("explain", "b").out
    assert "is cordoned by" in explained and "all of them" in explained


# -- move -----------------------------------------------------------------------------------------------------------------


def ref_of(terminal: Terminal) -> JobRef:
    return terminal.bench.ref("a").record


def test_move_asks_for_a_restart_with_a_place(cluster: Terminal) -> None:
    before = ref_of(cluster)
    ran = cluster.run("move", "a", "--to", "s2")
    assert ran.code == 0 and ran.out.startswith("a: to be moved (")
    after = ref_of(cluster)
    assert after.move is not None and (after.move.to, after.move.before) == ("s2", before.restart_nonce)
    assert after.move_in_force is after.move and after.restart_nonce == after.move.nonce
    again = cluster.run("move", "a", "--to", "s2")
    assert again.out.startswith("a: already to be moved (") and ref_of(cluster) == after


def test_a_move_to_where_it_runs_withdraws_it(cluster: Terminal) -> None:
    before = ref_of(cluster)
    assert cluster.run("move", "a", "--to", "s1").out.startswith("a: already there (")
    cluster.run("move", "a", "--to", "s2")
    cluster.run("move", "a", "--to", "s0")  # a second thought
    ran = cluster.run("move", "a", "--to", "s1")
    assert ran.out.startswith("a: move withdrawn (")
    after = ref_of(cluster)
    assert (after.restart_nonce, after.move) == (before.restart_nonce, None)


@pytest.mark.parametrize("command", ["suspend", "restart"])
def test_a_later_command_replaces_it(cluster: Terminal, command: str) -> None:
    cluster.run("move", "a", "--to", "s2")
    cluster.run(command, "a")
    assert ref_of(cluster).move is None


def test_refusals_say_what_helps(cluster: Terminal) -> None:
    cluster.run("cordon", "s2", "--reason", "new disks")
    ran = cluster.run("move", "a", "--to", "s2")
    assert ran.code == 4 and "new disks" in ran.err and "uncordon s2 lets it take jobs again" in ran.err
    cluster.run("suspend", "a")
    ran = cluster.run("move", "a", "--to", "s0")
    assert ran.code == 4 and "a is suspended" in ran.err
    assert cluster.run("move", "nope", "--to", "s0").code == 3


def test_a_job_that_is_being_stopped_says_try_again(cluster: Terminal) -> None:
    cluster.run("move", "a", "--to", "s2")
    cluster.bench.set_own("a", OwnState.DRAINING, supervisor="s1")
    ran = cluster.run("move", "a", "--to", "s1")
    assert ran.code == 4 and "just being stopped on s1" in ran.err


# -- drain ----------------------------------------------------------------------------------------------------------------


def test_drain_is_recorded_and_says_how_many_there_are(cluster: Terminal) -> None:
    ran = cluster.run("drain", "s1", "--reason", "reboot", "--max-parallel", "1")
    assert ran.code == 0, ran.err
    assert ran.out == (
        "s1: is drained, 1 job at a time; 1 job to move; spark-supervisor drain s1 --wait looks on\n"
    )
    found = cordon_of(cluster)
    assert found is not None and (found.draining, found.max_parallel, found.why) == (True, 1, "reboot")
    assert supervisors(cluster)["s1"]["cordon"] == {
        "by": found.by,
        "since": found.at,
        "reason": "reboot",
        "draining": True,
        "max_parallel": 1,
    }
    assert "and its jobs are moved away" in cluster.run("status").out


def test_drain_again_goes_on_with_the_same_drain(cluster: Terminal) -> None:
    cluster.run("cordon", "s1", "--reason", "reboot")
    cluster.run("drain", "s1")
    first = cordon_of(cluster)
    assert "is being drained already" in cluster.run("drain", "s1").out
    assert cordon_of(cluster) == first
    cluster.run("drain", "s1", "--max-parallel", "5")
    second = cordon_of(cluster)
    assert first is not None and second is not None
    assert (second.drain, second.max_parallel, second.why) == (first.drain, 5, "reboot")
    cluster.run("uncordon", "s1")
    cluster.run("drain", "s1")
    third = cordon_of(cluster)
    assert third is not None and third.drain not in ("", first.drain)


def test_drain_says_what_holds_it_and_what_helps(cluster: Terminal) -> None:
    for host in ("s0", "s2"):
        cluster.run("cordon", host)
    ran = cluster.run("drain", "s1")
    assert (
        "held by a: s1 is drained, but it goes on there: no room: no other host that takes jobs is up"
        in ran.out
    )
    waited = cluster.run("drain", "s1", "--wait", "--timeout", "100ms")
    assert waited.code == 7
    assert "s1 is not drained after 0.1 s, 1 left (a: s1 is drained, but" in waited.err
    assert "make room on another host, or stop a (suspend a)" in waited.err
    document = cluster.run("drain", "s1", "-o", "json").json
    assert [(each["name"], each["held"]) for each in document["left"]] == [("a", True)]
    explained = cluster.run("explain", "a").out
    assert "it goes on there" in explained and "suspend a" in explained


def test_drain_wait_returns_when_the_job_runs_elsewhere(cluster: Terminal) -> None:
    cluster.run("drain", "s1")
    drain = cordon_of(cluster)
    assert drain is not None
    run_on(cluster, "s2", moved_by=drain.drain)
    ran = cluster.run("drain", "s1", "--wait")
    assert (ran.code, ran.out.splitlines()[-1]) == (
        0,
        "s1: drained: no driver is left there; spark-supervisor uncordon s1 ends it",
    )


def test_drain_wait_waits_for_what_left_and_does_not_run_yet(cluster: Terminal) -> None:
    cluster.run("drain", "s1")
    drain = cordon_of(cluster)
    assert drain is not None
    own = cluster.bench.own("a")
    cluster.bench.put(
        cluster.bench.layout.own("a"),
        replace(
            own,
            state=OwnState.ASSIGNED,
            supervisor="s2",
            moved_by=drain.drain,
            job_version=cluster.bench.ref("a").version,
        ),
    )
    ran = cluster.run("drain", "s1", "--wait", "--timeout", "100ms")
    assert ran.code == 7 and "1 left (a: assigned to s2, not yet claimed" in ran.err


def test_a_drain_that_somebody_ends_is_over(cluster: Terminal, monkeypatch: pytest.MonkeyPatch) -> None:
    def uncordon() -> None:
        wait_until(lambda: cordon_of(cluster), 20, "a drain", period_s=0.005)
        record = cordon_of(cluster)
        assert record is not None
        cluster.bench.put(cluster.bench.layout.host("s1"), replace(record, cordoned=False))

    thread = threading.Thread(target=uncordon)
    thread.start()
    ran = cluster.run("drain", "s1", "--wait", "--timeout", "30s")
    thread.join()
    assert ran.code == 4 and "s1 was uncordoned meanwhile" in ran.err


def test_interrupted_it_says_that_the_drain_goes_on(
    cluster: Terminal, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("supervisor.operations.waiting.sleep", interrupted)
    ran = cluster.run("drain", "s1", "--wait")
    assert ran.code == 130
    assert "s1 goes on being drained: drain s1 --wait looks on, uncordon s1 ends it" in ran.err
    found = cordon_of(cluster)
    assert found is not None and found.draining


def test_a_leader_that_is_drained_is_asked_to_hand_over_to_one_that_is_not_cordoned(
    cluster: Terminal,
) -> None:
    cluster.run("cordon", "s1")
    ran = cluster.run("drain", "s0")
    assert "s0 leads, and was asked to hand over" in ran.out
    wish = cluster.bench.record(Handover, cluster.bench.layout.switchover)
    assert isinstance(wish, Found) and (wish.record.leader, wish.record.to) == ("s0", "s2")


def test_the_only_supervisor_is_drained_all_the_same_and_says_that_nobody_can_take_over(
    terminal: Terminal,
) -> None:
    terminal.submit("a")
    terminal.bench.join("s0")
    terminal.bench.put(terminal.bench.layout.epoch, EpochRecord(epoch=7, supervisor="s0", op="op"))
    terminal.bench.put(terminal.bench.layout.leader, LeaderHint(supervisor="s0", epoch=7, address="s0:1"))
    run_on(terminal, "s0")
    ran = terminal.run("drain", "s0")
    assert ran.code == 0 and "no other supervisor is up that could take over" in ran.out
    assert "held by a:" in ran.out


def test_a_job_whose_update_waits_for_a_restart_holds_the_drain_of_its_host(cluster: Terminal) -> None:
    change_a(cluster)
    ran = cluster.run("drain", "s1")
    assert "held by a: revision 2 waits until the job is restarted, as its spec says" in ran.out
    waited = cluster.run("drain", "s1", "--wait", "--timeout", "100ms")
    assert waited.code == 7
    assert "the drain goes on; restart a, or stop a (suspend a)" in waited.err


def test_a_job_whose_update_requires_labels_that_no_host_has_holds_the_drain_of_its_host(
    cluster: Terminal,
) -> None:
    change_a(cluster, placement=PlacementPolicy(require=("gpu=1",)))
    assert "held by a: revision 2 was asked for, and no host has gpu=1" in cluster.run("drain", "s1").out


def test_max_parallel_is_at_least_one(cluster: Terminal) -> None:
    assert cluster.run("drain", "s1", "--max-parallel", "0").code == 2


def test_a_member_record_of_the_version_before_is_cordoned_like_any_other(cluster: Terminal) -> None:
    members = cluster.bench.record(Member, cluster.bench.layout.supervisor("s1"))
    assert isinstance(members, Found) and members.record.prepares == 0
    assert cluster.run("cordon", "s1").code == 0


@pytest.mark.parametrize("ends", ["time", "keyboard"])
def test_a_wait_that_fails_has_its_document_all_the_same(
    cluster: Terminal, ends: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    if ends == "keyboard":
        monkeypatch.setattr("supervisor.operations.waiting.sleep", interrupted)
    ran = cluster.run("drain", "s1", "--wait", "-o", "json", "--timeout", "0s" if ends == "time" else "1m")
    assert ran.code == (7 if ends == "time" else 130)
    assert (ran.json["did"], [each["name"] for each in ran.json["left"]]) == ("draining", ["a"])
