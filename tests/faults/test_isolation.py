"""One job's trouble stays its own (I9): corrupt records, missing and altered blobs; and what has no room waits."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from supervisor.demo.ensemble import EmbeddedEnsemble
from supervisor.model.transaction import ANY_VERSION, SetData, Transaction
from supervisor.records.ids import new_op_id
from tests.faults import checker
from tests.faults.conftest import MakeFleet, on_embedded
from tests.testbed.fleet import DRIVER, Fleet, eventually
from tests.waiting import wait_until

GARBAGE = [b"", b"{not json", b'{"v":1}', b'{"v":99,"uid":"x"}', b"\xff\xfe"]


def set_data(fleet: Fleet, path: str, data: bytes) -> bytes:
    """Overwrite a record as an accident would; returns what was there."""
    node = fleet.read_znode(path)
    assert node is not None
    fleet.client.commit(Transaction("accident", new_op_id(), (SetData(path, data, ANY_VERSION),)))
    ring = SetData(fleet.layout.doorbell, path.rpartition("/")[2].encode(), ANY_VERSION)
    fleet.client.commit(Transaction("ring", new_op_id(), (ring,)))
    return node.data


def two_running(fleet: Fleet, job: str) -> tuple[str, str]:
    names = job, f"{job}-other"
    fleet.submit_many(names)
    for name in names:
        fleet.wait_state(name, "running")
    return names


def the_rest_goes_on(fleet: Fleet, *others: str) -> None:
    """The others run undisturbed, and a new job is started, also by the next leader."""
    fleet.assert_undisturbed(*others)
    epoch = fleet.epoch()
    fleet.kill(fleet.leader())
    fleet.wait_new_leader(epoch)
    fleet.restart_all()
    more = f"{others[0][:50]}-more"
    fleet.submit(more)
    fleet.wait_state(more, "running")
    fleet.assert_undisturbed(*others)


@on_embedded
@pytest.mark.parametrize(
    "garbage", GARBAGE, ids=["empty", "no json", "no fields", "newer version", "no text"]
)
def test_f24_a_corrupt_reference(fleet: Fleet, job: str, garbage: bytes) -> None:
    """Its driver runs on, for its ownership is fine; put right it is as before; a cancel works on it, too."""
    name, other = two_running(fleet, job)
    good = set_data(fleet, fleet.layout.job(name), garbage)
    row = fleet.wait_state(name, "quarantined")
    assert "unreadable" in row["reason"]
    assert {r["name"]: r["state"] for r in fleet.rows()}[name] == "quarantined"
    if garbage == GARBAGE[1]:
        the_rest_goes_on(fleet, other)
    fleet.assert_undisturbed(name, other)
    set_data(fleet, fleet.layout.job(name), good)
    fleet.wait_state(name, "running")
    set_data(fleet, fleet.layout.job(name), garbage)
    fleet.cancel(name)
    wait_until(lambda: not fleet.alive_pids(name), 30, "its driver to stop")
    fleet.judge()


@on_embedded
def test_f24_a_corrupt_ownership(fleet: Fleet, job: str) -> None:
    """Nobody knows who may run: its shim stops renewing, so the driver ends by its deadline, and nothing is started."""
    name, other = two_running(fleet, job)
    driver = fleet.process(name, DRIVER)
    good = set_data(fleet, fleet.layout.own(name), GARBAGE[1])
    assert "unreadable" in fleet.wait_state(name, "quarantined")["reason"]
    fleet.wait_gone(driver)
    the_rest_goes_on(fleet, other)
    assert len(fleet.starts(name)) == 1
    set_data(fleet, fleet.layout.own(name), good)
    fleet.wait_attempt(name, 2)
    fleet.wait_state(name, "running")
    fleet.judge()


@on_embedded
def test_f24_cancel_and_resubmit_over_a_corrupt_ownership(fleet: Fleet, job: str) -> None:
    """The cancel writes a readable one, which waits for the longest lease there can be; the new uid is pending."""
    name, other = two_running(fleet, job)
    first = fleet.uid(name)
    set_data(fleet, fleet.layout.own(name), GARBAGE[2])
    fleet.wait_state(name, "quarantined")
    done = fleet.ok("cancel", name, "-o", "json").document
    assert done["uid"] == first
    fleet.note_cancelled(name, first, heard=False)
    wait_until(lambda: not fleet.alive_pids(name), 40, "its driver to be stopped")
    second = fleet.submit(name)
    fleet.assert_undisturbed(other)
    assert fleet.show(name)["state"] in ("pending", "starting", "running")
    assert second != first
    fleet.judge()


@on_embedded
def test_f24_a_corrupt_lease_heals_with_the_next_renewal(fleet: Fleet, job: str) -> None:
    name, other = two_running(fleet, job)
    set_data(fleet, fleet.layout.lease(name), GARBAGE[1])
    fleet.assert_undisturbed(name, other)
    eventually(lambda: fleet.show(name)["state"] == "running", 30, "the next renewal")
    fleet.assert_undisturbed(name, other)
    fleet.judge()


def test_f24_a_corrupt_assignment(
    embedded_ensemble: EmbeddedEnsemble, make_fleet: MakeFleet, job: str
) -> None:
    """Its host cannot start it, and says so; it is taken back when nobody has claimed it, and started elsewhere."""
    fleet = make_fleet(embedded_ensemble, session_s=15.0, spark={"submit_timeout": "4s"})
    fleet.submit(f"{job}-other")
    fleet.wait_state(f"{job}-other", "running")
    host, names = fleet.standby(), [f"{job}-{i}" for i in range(3)]
    fleet.signal_member(host, signal.SIGSTOP)
    fleet.submit_many(names)  # at least one of them is given to the emptier host, or to both
    entry = wait_until(
        lambda: fleet.client.children(fleet.layout.assigned_to(host.id)), 10, "the assignment"
    )[0]
    hit = next(name for name in names if entry.startswith(fleet.uid(name)))
    set_data(fleet, f"{fleet.layout.assigned_to(host.id)}/{entry}", GARBAGE[1])
    fleet.signal_member(host, signal.SIGCONT)
    for name in names:
        fleet.wait_state(name, "running")
    assert fleet.host_of(hit) is not host
    assert any(entry["event"] == "unassigned" for entry in fleet.show(hit)["history"])
    assert "assignment_unreadable" in host.log
    assert not fleet.client.children(fleet.layout.assigned_to(host.id)), "nothing is left behind"
    assert [note.attempt for note in fleet.starts(hit)] == [2]
    fleet.assert_undisturbed(f"{job}-other")
    fleet.submit(f"{job}-more")
    fleet.wait_state(f"{job}-more", "running")


@on_embedded
def test_f24_a_corrupt_result(fleet: Fleet, job: str) -> None:
    """That name is quarantined and cannot be cleaned; the others go on. Cancelled once more, its result is written anew."""
    name, other = two_running(fleet, job)
    uid = fleet.cancel(name)
    set_data(fleet, fleet.layout.result(uid), GARBAGE[1])
    wait_until(lambda: not fleet.alive_pids(name), 30, "its driver to stop")
    the_rest_goes_on(fleet, other)
    assert {row["name"]: row["state"] for row in fleet.rows()}[name] == "quarantined"
    fleet.cancel(name)
    fleet.wait_state(name, "cancelled")
    eventually(lambda: name not in [row["name"] for row in fleet.rows()], 30, "it is not listed")
    assert len(fleet.starts(name)) == 1
    fleet.judge()


@on_embedded
@pytest.mark.parametrize("what", ["specs", "artifacts"])
@pytest.mark.parametrize("how", ["missing", "altered"])
def test_f29_a_blob_is_missing_or_altered(fleet: Fleet, job: str, what: str, how: str) -> None:
    """Never started with other content; quarantined with a reason that names the file; repaired, `resume` starts it."""
    fleet.submit(f"{job}-other")
    fleet.submit(job, suspended=True)
    (blob,) = [path for path in (fleet.directory / "store" / what / job).rglob("*") if path.is_file()]
    good = blob.read_bytes()
    if how == "missing":
        blob.unlink()
    else:
        blob.write_bytes(good.replace(b"beat", b"BEAT").replace(b"local", b"LOCAL"))
    fleet.ok("resume", job)
    row = fleet.wait_state(job, "quarantined")
    assert blob.name in row["reason"], row["reason"]
    fleet.wait_state(f"{job}-other", "running")
    the_rest_goes_on(fleet, f"{job}-other")
    assert fleet.starts(job) == []
    assert fleet.read_znode(fleet.layout.job(job)) is not None, "never deleted on doubt"
    _rewrite(blob, good)
    fleet.ok("resume", job)
    fleet.wait_state(job, "running")
    fleet.judge()


def _rewrite(path: Path, data: bytes) -> None:
    path.unlink(missing_ok=True)
    path.write_bytes(data)


# -- room --------------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def narrow_fleet(
    embedded_ensemble: EmbeddedEnsemble, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Fleet]:
    """One host with little room."""
    capacity = {"memory": "1g", "drivers": 3, "starting": 2}
    directory = tmp_path_factory.mktemp("narrow")
    with Fleet(embedded_ensemble, "/narrow", directory, supervisors=1, capacity=capacity) as fleet:
        yield fleet


@pytest.fixture
def narrow(narrow_fleet: Fleet) -> Fleet:
    narrow_fleet.restore()
    eventually(lambda: narrow_fleet.status()["supervisors"][0]["drivers"] == 0, 40, "an empty host")
    return narrow_fleet


def most_at_once(notes: list[checker.WitnessNote], ends: str) -> int:
    """The largest number of attempts between their start and their first ``ends``."""
    moments = []
    for span in {(note.uid, note.attempt) for note in notes}:
        its = [note for note in notes if (note.uid, note.attempt) == span]
        ended = [note.at_s for note in its if note.event == ends]
        moments += [(its[0].at_s, 1), (min(ended, default=its[-1].at_s), -1)]
    count = most = 0
    for _, step in sorted(moments):
        count += step
        most = max(most, count)
    return most


def test_starting_slots(narrow: Fleet, job: str) -> None:
    """Two at a time: the third is pending, says so, and starts when one of them has its first batch."""
    names = [f"{job}-{i}" for i in range(3)]
    narrow.submit_many(names, knobs={"begin_delay_s": 2.0})
    waiting = wait_until(
        lambda: [row for row in narrow.rows() if row["state"] == "pending" and "starting 2" in row["reason"]],
        30,
    )
    assert len(waiting) == 1
    for name in names:
        narrow.wait_state(name, "running")
    assert most_at_once(narrow.notes(), "batch") <= 2
    narrow.judge()


def test_driver_capacity_and_priority(narrow: Fleet, job: str) -> None:
    """Full: two more are pending with the reason. When one place becomes free the more important one gets it."""
    names = [f"{job}-{i}" for i in range(3)]
    narrow.submit_many(names)
    for name in names:
        narrow.wait_state(name, "running")
    narrow.submit(f"{job}-low", resources={"memory": "64m", "priority": 1})
    narrow.submit(f"{job}-zhigh", resources={"memory": "64m", "priority": 5})
    for name in (f"{job}-low", f"{job}-zhigh"):
        assert "all its 3 drivers" in narrow.wait_state(name, "pending")["reason"]
    narrow.cancel(names[0])
    narrow.wait_attempt(f"{job}-zhigh", 1)
    assert narrow.starts(f"{job}-low") == []
    narrow.cancel(names[1])
    narrow.wait_attempt(f"{job}-low", 1)
    assert most_at_once([note for note in narrow.notes() if note.job.startswith(job)], "never") <= 3
    narrow.judge()


def test_memory(narrow: Fleet, job: str) -> None:
    """What does not fit waits, says what it needs, and keeps nobody smaller from starting."""
    narrow.submit(f"{job}-large", resources={"memory": "800m"})
    narrow.wait_state(f"{job}-large", "running")
    narrow.submit(f"{job}-next", resources={"memory": "400m"})
    narrow.submit(f"{job}-small", resources={"memory": "64m"})
    narrow.wait_state(f"{job}-small", "running")
    assert "400m needed" in narrow.wait_state(f"{job}-next", "pending")["reason"]
    narrow.cancel(f"{job}-large")
    narrow.wait_state(f"{job}-next", "running")
    narrow.judge()
