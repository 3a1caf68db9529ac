"""``list``, ``show`` and ``explain`` give one answer about a pending job: they judge one reading by one policy."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from dataclasses import replace

import pytest

from supervisor.clients.store.files import FileStore
from supervisor.coord.epoch_marks import EpochMarks
from supervisor.model.records import (
    Cause,
    EpochRecord,
    LeaderHint,
    LedTerm,
    Member,
    OwnState,
    Phase,
    version_of,
)
from supervisor.model.view import Row
from supervisor.observe.listing import Changed
from supervisor.operations import scene
from supervisor.operations.context import CommandContext, layout_of
from supervisor.operations.listing import JobLister
from supervisor.plan.explain import NOT_RECORDED
from supervisor.settings.file import load_settings
from tests.unit.cli.conftest import Terminal

AGE_S = 20.0
"""For so long the assignments of these tests are there: longer than an unclaimed start holds its slot."""


@pytest.fixture(autouse=True)
def led(terminal: Terminal) -> None:
    """A leader whose term is recorded in the store, one host, and the pending job ``a``."""
    bench = terminal.bench
    terminal.submit("a")
    bench.join("host-a")
    terms = tuple(LedTerm(number, "host-a", f"op{number}") for number in (6, 7))
    bench.put(bench.layout.leader, LeaderHint(supervisor="host-a", epoch=7, address="host-a:8780"))
    bench.put(bench.layout.epoch, EpochRecord(epoch=7, supervisor="host-a", op="op7", recent=terms))
    blobs(terminal).record_epoch(7, "host-a", "op7")


def blobs(terminal: Terminal) -> EpochMarks:
    return EpochMarks(FileStore(terminal.home / "store"))


def configure(terminal: Terminal, lines: str) -> None:
    terminal.config.write_text(terminal.config.read_text() + lines)


def asked(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """One entry for each time that the store is asked for its newest epoch of all."""
    times: list[int] = []
    newest = EpochMarks.newest_epoch_above

    def counted(store: EpochMarks, above: int) -> int | None:
        times.extend([1] if above == 0 else [])
        return newest(store, above)

    monkeypatch.setattr(EpochMarks, "newest_epoch_above", counted)
    return times


def aged(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What ZooKeeper says of assignments and leases: all are ``AGE_S`` old. The names of those that were asked for."""
    names: list[str] = []

    def changes_of(_zoo: object, _layout: object, rows: Iterable[Row]) -> Mapping[str, Changed]:
        chosen = [row.name for row in rows]
        names.extend(chosen)
        at_s = time.time() - AGE_S
        return {name: Changed(at_s, at_s) for name in chosen}

    monkeypatch.setattr(scene, "changes_of", changes_of)
    return names


def reasons(terminal: Terminal, name: str) -> tuple[str, str]:
    """What ``list`` and ``show`` say of a pending ``name``: equal to each other; then what ``explain`` says."""
    (listed,) = [row for row in terminal.run("list", "-o", "json").json if row["name"] == name]
    shown = terminal.run("show", name, "-o", "json").json
    trouble = listed.pop(
        "trouble"
    )  # while the cluster is paused, that of a list is what comes after the pause
    assert {key: shown[key] for key in listed} == listed and listed["state"] == "pending"
    assert trouble == shown["trouble"] or "pause" in trouble
    explained = terminal.run("explain", name, "-o", "json").json
    assert explained["state"] == "pending"
    told: str = explained["held_by"] or explained["action"] or explained["why"]
    return listed["reason"], told


def test_of_a_registry_that_the_store_distrusts(terminal: Terminal) -> None:
    assert reasons(terminal, "a") == (
        "there is room on host-a, waiting for the leader to assign it",
        "start attempt 1 on host-a",
    )
    blobs(terminal).record_epoch(9, "host-b", "another")
    listed, told = reasons(terminal, "a")
    assert "the store knows epoch 9 and this registry is at 7" in told
    assert listed == f"nothing is done, {told.removeprefix('nothing is done, ')}"


def test_of_a_term_that_is_not_recorded_yet(terminal: Terminal) -> None:
    bench = terminal.bench
    terms = tuple(LedTerm(number, "host-a", f"op{number}") for number in (6, 7, 8))
    bench.put(bench.layout.epoch, EpochRecord(epoch=8, supervisor="host-a", op="op8", recent=terms))
    listed, told = reasons(terminal, "a")
    assert (listed, told) == ("waiting until this epoch is recorded in the store", NOT_RECORDED)
    terminal.run("pause")
    listed, told = reasons(terminal, "a")
    assert listed.startswith("paused by ") and listed.endswith(
        "; held back: to be started for the first time"
    )
    assert told.startswith("paused by ")


@pytest.mark.parametrize("timeout", ["5s", "10m"])
def test_of_a_host_whose_start_is_not_claimed(
    terminal: Terminal, monkeypatch: pytest.MonkeyPatch, timeout: str
) -> None:
    """The assignment of ``stuck`` holds the only starting slot of the host no more: ``a`` may start beside it. Whether it is
    taken back is a matter of the settings."""
    configure(terminal, f"spark: {{submit_timeout: {timeout}}}\n")
    bench = terminal.bench
    path = bench.layout.supervisor("host-a")
    member = bench.record(Member, path).record
    bench.put(path, replace(member, starting=1))
    terminal.submit("stuck")
    bench.set_own("stuck", OwnState.ASSIGNED, job_version=bench.ref("stuck").version)
    aged(monkeypatch)
    assert reasons(terminal, "a") == (
        "there is room on host-a, waiting for the leader to assign it",
        "start attempt 1 on host-a",
    )
    action = terminal.run("explain", "stuck", "-o", "json").json["action"]
    assert action == ("take attempt 1 back from host-a" if timeout == "5s" else None)
    with monkeypatch.context() as patch:
        patch.setattr(f"{__name__}.AGE_S", 1.0)
        listed, told = reasons(terminal, "a")
        assert listed == told and "starting" in listed


def test_list_reads_the_age_of_no_job_that_simply_runs(
    terminal: Terminal, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = aged(monkeypatch)
    for name, phase in (("runs", Phase.RUNNING), ("starts", Phase.SESSION)):
        terminal.submit(name)
        terminal.bench.run(name, phase)
    terminal.run("list")
    assert "starts" in names and "runs" not in names


def test_list_asks_the_store_only_if_a_job_is_pending(
    terminal: Terminal, monkeypatch: pytest.MonkeyPatch
) -> None:
    times = asked(monkeypatch)
    terminal.run("list")
    assert len(times) == 1
    terminal.bench.run("a")
    terminal.run("list")
    assert len(times) == 1


def test_who_watches_asks_the_store_now_and_then(terminal: Terminal, monkeypatch: pytest.MonkeyPatch) -> None:
    times = asked(monkeypatch)
    settings = load_settings(terminal.config, {})
    lister = JobLister(CommandContext(settings, terminal.bench.sessions(), layout_of(settings)))  # type: ignore[arg-type]
    for _ in range(3):
        assert lister.take().rows[0].reason.startswith("there is room")
    assert len(times) == 1
    monkeypatch.setattr(scene, "ASK_EVERY_S", 0.0)
    lister.take()
    assert len(times) == 2


def test_of_a_job_that_every_host_refuses_by_its_policy(terminal: Terminal) -> None:
    """No record says that: only the plan does, from who is there. It names key and rule, and what helps."""
    bench, why = (
        terminal.bench,
        "host-a.example: env X: variable A is none that policy.secrets.env allows (JOB_*)",
    )
    member = bench.record(Member, bench.layout.supervisor("host-a")).record
    bench.put(bench.layout.supervisor("host-a"), replace(member, policy_sha256="5" * 64))
    bench.exit("a", Cause.POLICY, refused_by=("5" * 16,), refused_of=version_of(bench.ref("a").record))
    bench.put(bench.layout.own("a"), replace(bench.own("a"), reason=why))
    (listed,) = terminal.run("list", "-o", "json").json
    shown = terminal.run("show", "a", "-o", "json").json
    explained = terminal.run("explain", "a", "-o", "json").json
    assert [each["state"] for each in (listed, shown, explained)] == ["quarantined"] * 3
    assert (
        listed["reason"]
        == shown["reason"]
        == explained["reason"]
        == f"refused by the policy of every host: {why}"
    )
    screen = terminal.run("explain", "a").out
    assert "spark-supervisor apply SPEC.yaml" in screen and "spark-supervisor restart a" in screen
    assert "cancel" not in screen and "zookeeper-restore" not in screen
    bench.put(bench.layout.supervisor("host-a"), replace(member, policy_sha256="7" * 64))
    assert terminal.run("show", "a", "-o", "json").json["state"] == "pending"


def test_of_a_checkpoint_that_the_site_forbids(terminal: Terminal) -> None:
    """The records of the job know nothing of it: only the plan, with the policy of the site, can say that it is quarantined."""
    configure(terminal, "policy: {checkpoints: ['s3a://elsewhere/*']}\n")
    (listed,) = terminal.run("list", "-o", "json").json
    shown = terminal.run("show", "a", "-o", "json").json
    explained = terminal.run("explain", "a", "-o", "json").json
    assert [each["state"] for each in (listed, shown, explained)] == ["quarantined"] * 3
    assert (
        listed["reason"] == shown["reason"] == explained["reason"]
        and "policy.checkpoints" in listed["reason"]
    )
    terminal.run("pause")
    (paused,) = terminal.run("list", "-o", "json").json
    assert (paused["state"], paused["reason"]) == ("quarantined", listed["reason"])
    assert terminal.run("explain", "a", "-o", "json").json["state"] == "quarantined"
