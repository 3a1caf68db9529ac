"""``accept-registry`` as an operator and as a script see it: what it says, what it refuses, and that it counts once."""

from __future__ import annotations

import io
import sys
from dataclasses import replace

import pytest

from supervisor.clients.store.files import FileStore
from supervisor.coord.epoch_marks import EpochMarks
from supervisor.errors import Unreachable
from supervisor.model.lease_terms import EXECUTORS_OUTLIVE_MAX_S, LEASE_MAX_S, full_wait_s
from supervisor.model.records import Acceptance, EpochRecord, LeaderHint, Member
from supervisor.model.seen import Found
from supervisor.model.transaction import ANY_VERSION, Delete, Transaction
from supervisor.registry.blobs import Blobs
from tests.fakes.zookeeper import Saved
from tests.unit.cli.conftest import Terminal

WHY = "ZooKeeper is at zxid 0x1, and was at 0x9 before"


@pytest.fixture
def saved(terminal: Terminal) -> Saved:
    """A cluster with a job; restored to a state without the second one. The store knows terms up to 5, by others."""
    terminal.submit("a")
    saved = terminal.bench.zoo.snapshot()
    terminal.submit("b")
    epochs(terminal).record_epoch(5, "s1", "op5")
    terminal.bench.zoo.restore(saved, terminal.bench.zoo.zxid + 10)
    return saved


def store(terminal: Terminal) -> Blobs:
    return Blobs(FileStore(terminal.home / "store"))


def epochs(terminal: Terminal) -> EpochMarks:
    return EpochMarks(FileStore(terminal.home / "store"))


def acceptance(terminal: Terminal) -> Acceptance | None:
    found = terminal.bench.record(Acceptance, terminal.bench.layout.accepted)
    return found.record if isinstance(found, Found) else None


def epoch(terminal: Terminal) -> EpochRecord:
    found = terminal.bench.record(EpochRecord, terminal.bench.layout.epoch)
    assert isinstance(found, Found)
    record: EpochRecord = found.record
    return record


def test_where_nobody_distrusts_nothing_is_written(terminal: Terminal) -> None:
    terminal.submit("a")
    before = terminal.bench.zoo.tree()
    ran = terminal.run("accept-registry", "--yes")
    assert (ran.code, terminal.bench.zoo.tree()) == (0, before)
    assert "nobody distrusts" in ran.out
    assert terminal.run("accept-registry", "--yes", "-o", "json").json["distrust"] == []


def test_the_document(terminal: Terminal, saved: Saved) -> None:
    document = terminal.run("accept-registry", "--yes", "-o", "json").json
    assert list(document) == ["distrust", "epoch", "store_epoch", "jobs", "lost", "wait_s", "accepted"]
    assert len(document["distrust"]) == 1 and "epoch 5" in document["distrust"][0]
    (job,), (lost,) = document["jobs"], document["lost"]
    assert list(job) == [
        "name",
        "uid",
        "revision",
        "desired",
        "state",
        "attempt",
        "checkpoint",
        "spec_missing",
        "reason",
    ]
    assert (job["name"], job["desired"], job["spec_missing"], job["checkpoint"]) == (
        "a",
        "running",
        False,
        "s3://bucket/a",
    )
    assert list(lost) == ["name", "uid", "revision", "at"]
    assert (lost["name"], document["epoch"], document["store_epoch"]) == ("b", 0, 5)
    assert document["wait_s"] == round(full_wait_s(30.0), 1), "the longest lease in the store"
    assert document["accepted"]["epoch"] == 6


def test_it_is_above_all_and_counts_once(terminal: Terminal, saved: Saved) -> None:
    assert terminal.run("accept-registry", "--yes").code == 0
    first = acceptance(terminal)
    assert first is not None and (first.epoch, epoch(terminal).epoch, first.waited) == (6, 6, False)
    mark = epochs(terminal).read_epoch(6)
    assert mark is not None and mark.op == first.id
    assert "nothing to accept" in terminal.run("accept-registry", "--yes").out
    after = terminal.bench.zoo.snapshot()
    epochs(terminal).record_epoch(7, "s1", "op7")
    for state in (after, saved, saved):  # a term was led since; before the acceptance; and once more
        terminal.bench.zoo.restore(state, terminal.bench.zoo.zxid + 10)
        assert terminal.run("accept-registry", "--yes", "-o", "json").json["distrust"]
        again = acceptance(terminal)
        assert again is not None and again.epoch == epoch(terminal).epoch == epochs(
            terminal
        ).newest_epoch_above(0)
    assert again is not None and again.epoch == 10


def test_an_acceptance_has_its_line_and_what_accepts_nothing_has_none(
    terminal: Terminal, saved: Saved
) -> None:
    for options in (["--dry-run"], ["--yes"], ["--yes"]):
        terminal.run("accept-registry", *options)
    accepted = acceptance(terminal)
    assert accepted is not None
    lines = [line for line in terminal.run("audit", "-o", "json").json["lines"] if line["what"] == "accept"]
    assert [(line["op"], line["detail"]) for line in lines] == [(accepted.id, f"epoch {accepted.epoch}")]


def test_what_supervisors_say_is_a_reason_too(terminal: Terminal) -> None:
    terminal.submit("a")
    terminal.bench.join("s2")
    assert "nobody distrusts" in terminal.run("accept-registry").out
    layout = terminal.bench.layout
    terminal.bench.put(
        layout.supervisor("s2"),
        Member(
            id="s2",
            host="h",
            boot_id="b",
            address="a",
            memory=1,
            drivers=1,
            starting=1,
            software="0",
            since="t",
            distrust=WHY,
        ),
    )
    assert terminal.run("accept-registry", "--dry-run", "-o", "json").json["distrust"] == [f"s2: {WHY}"]
    assert terminal.run("status", "-o", "json").json["distrust"] == f"s2: {WHY}"
    terminal.bench.put(
        layout.leader, LeaderHint(supervisor="s1", epoch=3, address="a", distrust="the leader's reason")
    )
    assert len(terminal.run("accept-registry", "--dry-run", "-o", "json").json["distrust"]) == 2
    assert terminal.run("status", "-o", "json").json["distrust"] == "the leader's reason"
    assert "distrust:   the leader's reason" in terminal.run("status").out
    assert "the leader's reason" in terminal.run("list", "-o", "json").json[0]["reason"]
    assert "the leader's reason" in terminal.run("show", "a", "-o", "json").json["reason"]


def test_what_this_host_remembers_is_a_reason(terminal: Terminal) -> None:
    terminal.submit("a")
    (terminal.home / "run").mkdir(exist_ok=True)
    (terminal.home / "run" / "zxid").write_text("{")
    (why,) = terminal.run("accept-registry", "--dry-run", "-o", "json").json["distrust"]
    assert why.startswith("host-a (this host, not up)")


def test_waiting_jobs_and_status_say_so_until_the_wait_is_over(terminal: Terminal, saved: Saved) -> None:
    terminal.bench.join("s1")
    terminal.run("accept-registry", "--yes")
    assert "drivers of the lost state" in terminal.run("list", "-o", "json").json[0]["reason"]
    assert "drivers of the lost state" in terminal.run("status", "-o", "json").json["accepted"]["waiting"]
    assert "waiting:    " in terminal.run("status").out
    found = acceptance(terminal)
    assert found is not None
    terminal.bench.put(terminal.bench.layout.accepted, replace(found, waited=True))
    assert "there is room" in terminal.run("list", "-o", "json").json[0]["reason"]
    assert terminal.run("status", "-o", "json").json["accepted"]["waiting"] is None


def test_no_driver_runs_skips_the_wait(terminal: Terminal, saved: Saved) -> None:
    assert "start at once" in terminal.run("accept-registry", "--yes", "--no-driver-runs").out
    found = acceptance(terminal)
    assert found is not None and found.waited


def test_a_lease_that_can_not_be_read_is_the_longest_there_can_be(terminal: Terminal, saved: Saved) -> None:
    specs = [path for path in (terminal.home / "store" / "specs" / "b").rglob("*.json")]
    specs[0].write_bytes(b"x" * specs[0].stat().st_size)
    document = terminal.run("accept-registry", "--dry-run", "-o", "json").json
    assert document["wait_s"] == round(full_wait_s(LEASE_MAX_S, EXECUTORS_OUTLIVE_MAX_S), 1)


def test_a_missing_spec_is_named(terminal: Terminal, saved: Saved) -> None:
    for path in (terminal.home / "store" / "specs" / "a").rglob("*.json"):
        path.unlink()
    assert terminal.run("accept-registry", "--dry-run", "-o", "json").json["jobs"][0]["spec_missing"] is True
    assert "cancel and submit them: a" in terminal.run("accept-registry", "--dry-run").out


class TestAsking:
    def test_without_a_terminal_it_is_2(
        self, terminal: Terminal, saved: Saved, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(sys, "stdin", io.StringIO("yes\n"))
        ran = terminal.run("accept-registry")
        assert ran.code == 2 and "--yes" in ran.err and acceptance(terminal) is None

    @pytest.mark.parametrize(("typed", "code"), [("yes\n", 0), ("y\n", 4), ("", 4)])
    def test_only_yes_is_yes(
        self,
        terminal: Terminal,
        saved: Saved,
        monkeypatch: pytest.MonkeyPatch,
        typed: str,
        code: int,
    ) -> None:
        class Screen(io.StringIO):
            def isatty(self) -> bool:
                return True

        monkeypatch.setattr(sys, "stdin", Screen(typed))
        assert terminal.run("accept-registry").code == code
        assert (acceptance(terminal) is not None) is (code == 0)

    def test_a_dry_run_writes_nothing(self, terminal: Terminal, saved: Saved) -> None:
        before = terminal.bench.zoo.tree()
        ran = terminal.run("accept-registry", "--dry-run", "--yes")
        assert ran.code == 0 and "dry run" in ran.out and "Will run (1):" in ran.out
        assert (terminal.bench.zoo.tree(), epochs(terminal).newest_epoch_above(0)) == (before, 5)


class TestRefused:
    def test_lost_data_are_restored_first(self, terminal: Terminal, saved: Saved) -> None:
        layout = terminal.bench.layout
        terminal.bench.zoo.client().commit(Transaction("loss", "l", (Delete(layout.cluster, ANY_VERSION),)))
        ran = terminal.run("accept-registry", "--yes")
        assert ran.code == 4 and "restore it from a snapshot first" in ran.err

    def test_where_nothing_was_founded_it_is_3(self, terminal: Terminal) -> None:
        assert terminal.run("accept-registry", "--yes").code == 3

    def test_a_store_that_is_down_is_5(
        self,
        terminal: Terminal,
        saved: Saved,
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        def down(*_: object) -> None:
            raise Unreachable("the store is down")

        monkeypatch.setattr(EpochMarks, "newest_epoch_above", down)
        assert terminal.run("accept-registry", "--yes").code == 5
        assert acceptance(terminal) is None


def test_an_election_meanwhile_is_no_reason_to_give_up(
    terminal: Terminal,
    saved: Saved,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    record, layout = EpochMarks.record_epoch, terminal.bench.layout
    elected: list[int] = []

    def race(self: EpochMarks, number: int, supervisor: str, op: str = "") -> None:
        record(self, number, supervisor, op)
        if not elected:
            elected.append(number)
            terminal.bench.put(layout.epoch, replace(epoch(terminal), epoch=9, supervisor="s1"))

    monkeypatch.setattr(EpochMarks, "record_epoch", race)
    assert terminal.run("accept-registry", "--yes").code == 0
    found = acceptance(terminal)
    assert found is not None and (elected, found.epoch) == ([6], 10)
