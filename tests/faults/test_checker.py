"""The judge is judged: each defect that it is there to find is injected, by hand and with real light drivers."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from supervisor.clock import boottime_s
from tests.faults import checker
from tests.faults.checker import Acknowledged, DeadShim, Harm, WantedRun, WitnessNote
from tests.testbed.fleet import FAKE_SPARK
from tests.waiting import wait_until


def attempt(
    number: int, first_at_s: float, last_at_s: float, uid: str = "u1", batches: range = range(0), **more: str
) -> list[WitnessNote]:
    role = more.get("role", "driver")
    count = round((last_at_s - first_at_s) / 0.1)
    beats = [
        WitnessNote("beat", "job", uid, number, 100 + number, first_at_s + (i + 1) * 0.1, role)
        for i in range(count)
    ]
    made = [
        WitnessNote("batch", "job", uid, number, 100 + number, first_at_s + 0.001 * (i + 1), role, b)
        for i, b in enumerate(batches)
    ]
    notes = [WitnessNote("start", "job", uid, number, 100 + number, first_at_s, role), *beats, *made]
    return sorted(notes, key=lambda note: note.at_s)


def judge(*attempts: list[WitnessNote], acknowledged: tuple[Acknowledged, ...] = ()) -> list[str]:
    notes = sorted((note for each in attempts for note in each), key=lambda note: note.at_s)
    return checker.violations(notes, acknowledged, grace_s=5.0)


def test_a_healthy_record_is_let_pass() -> None:
    first, second = attempt(1, 10.0, 12.0, batches=range(4)), attempt(2, 12.05, 14.0, batches=range(4, 7))
    assert judge(first, second, acknowledged=(Acknowledged("job", "u1", 13.0),)) == []


def test_an_overlap_of_50_ms_is_found() -> None:
    assert "I1" in judge(attempt(1, 10.0, 12.0), attempt(2, 11.95, 14.0))[0]


def test_an_overlap_between_uids_of_a_name_is_found() -> None:
    assert "I1" in judge(attempt(4, 10.0, 12.0), attempt(1, 11.9, 14.0, uid="u2"))[0]


def test_an_overlap_with_an_attempt_before_the_last_is_found() -> None:
    found = judge(attempt(1, 10.0, 20.0), attempt(2, 20.05, 20.05), attempt(3, 19.0, 19.5))
    assert any("driver job u1.3 is executed while driver job u1.1 is alive" in each for each in found)


def test_a_surviving_child_counts() -> None:
    orphan = attempt(1, 10.0, 12.0, role="child")
    assert "I1" in judge(attempt(1, 10.0, 11.0), orphan, attempt(2, 11.5, 14.0))[0]


def test_a_revived_job_is_found() -> None:
    found = judge(
        attempt(1, 10.0, 12.0), attempt(2, 16.0, 16.5), acknowledged=(Acknowledged("job", "u1", 12.0),)
    )
    assert "I2" in found[0] and "started" in found[0]


def test_a_driver_that_outlives_its_cancel_is_found() -> None:
    found = judge(attempt(1, 10.0, 22.0), acknowledged=(Acknowledged("job", "u1", 12.0),))
    assert "I2" in found[0] and "alive" in found[0]
    assert judge(attempt(1, 10.0, 22.0), acknowledged=(Acknowledged("job", "u1", 12.0, heard=False),)) == []


def deaf(at_s: float) -> Acknowledged:
    return Acknowledged("job", "u1", at_s, heard=False, lease_s=8.0)


def test_a_deaf_shim_is_judged_by_its_deadline_where_its_lease_is_known() -> None:
    assert judge(attempt(1, 10.0, 28.0), acknowledged=(deaf(12.0),)) == []  # 12 + 8 + grace 5 + 4
    assert "alive" in judge(attempt(1, 10.0, 30.0), acknowledged=(deaf(12.0),))[0]
    assert judge(attempt(1, 19.0, 20.0), acknowledged=(deaf(12.0),)) == []
    assert "started" in judge(attempt(1, 20.5, 21.0), acknowledged=(deaf(12.0),))[0]


def test_a_second_attempt_after_a_cancel_is_found_however_soon_it_comes() -> None:
    alive = judge(attempt(1, 10.0, 12.5), attempt(2, 13.0, 14.0), acknowledged=(deaf(12.0),))
    assert "I2: job u1.2 started" in alive[0]
    born_late = judge(attempt(1, 12.5, 13.0), attempt(2, 13.5, 14.0), acknowledged=(deaf(12.0),))
    assert "I2: job u1.2 started" in born_late[0]


HARM = Harm("kill", 12.0, 13.0, frozenset({"job"}))


@pytest.mark.parametrize(
    "harms",
    [
        (),
        (Harm("kill", 12.0, 13.0, frozenset({"other"})),),
        (Harm("kill", 12.0, 13.0, host="s1"),),
        (Harm("kill", 13.5, 20.0),),
        (Harm("kill", 5.0, 11.0),),
        (Harm("kill", 5.0, 13.0, over_at_s=7.5),),
    ],
    ids=["nothing", "another job", "another host", "later", "earlier", "over before it began"],
)
def test_an_attempt_that_ends_with_nothing_done_to_it_is_found(harms: tuple[Harm, ...]) -> None:
    notes = [*attempt(1, 10.0, 12.0), *attempt(2, 12.2, 15.0)]
    assert "I6: job u1.1" in checker.disturbed(notes, harms, 15.0)[0]
    assert checker.disturbed(notes, (*harms, HARM), 15.0) == []


def test_a_driver_that_stood_still_may_have_been_ended_later() -> None:
    notes = [*attempt(1, 10.0, 12.0), *attempt(2, 18.2, 20.0)]
    harm, still = Harm("kill", 14.0, 15.0), Harm("", 11.9, 14.5)
    assert checker.disturbed(notes, [still], 20.0) and checker.disturbed(notes, [harm], 20.0)
    assert checker.disturbed(notes, [harm, still], 20.0) == []


def test_a_job_that_does_not_come_back_is_found() -> None:
    notes = attempt(1, 10.0, 12.0)
    assert checker.lost(notes, [WantedRun("job", "u1", 11.5)]) == []
    assert "I3: job u1" in checker.lost(notes, [WantedRun("job", "u1", 12.5)])[0]
    assert "never" in checker.lost(notes, [WantedRun("job", "u2", 11.0)])[0]


def test_a_driver_that_is_left_behind_is_found() -> None:
    notes = [*attempt(1, 10.0, 12.0), *attempt(1, 12.5, 15.0, uid="u2")]
    assert checker.unwanted(notes, [WantedRun("job", "u2", 12.0)], 13.0) == []
    assert "u2.1" in checker.unwanted(notes, [], 13.0)[0]


def test_a_number_used_twice_or_backwards_is_found() -> None:
    assert judge(attempt(1, 10.0, 11.0), attempt(1, 12.0, 13.0))
    assert judge(attempt(2, 10.0, 11.0), attempt(1, 12.0, 13.0))


def test_a_restored_registry_may_use_a_number_again_but_not_at_the_same_time() -> None:
    first, again, beside = attempt(2, 10.0, 11.0), attempt(2, 12.0, 13.0), attempt(2, 10.5, 13.0)
    for note_list in (again, beside):
        note_list[:] = [replace(note, pid=note.pid + 50) for note in note_list]
    assert checker.violations([*first, *again], (), grace_s=5.0, restored_at_s=[11.5]) == []
    assert checker.violations([*first, *again], (), grace_s=5.0, restored_at_s=[9.5])
    together = sorted([*first, *beside], key=lambda note: note.at_s)
    assert "I1" in checker.violations(together, (), grace_s=5.0, restored_at_s=[10.4])[0]


@pytest.mark.parametrize(
    "second", [range(3, 6), range(6, 8), range(0, 2)], ids=["repeat", "hole", "from the start"]
)
def test_a_hole_or_a_repeat_of_batches_is_found(second: range) -> None:
    assert judge(attempt(1, 10.0, 11.0, batches=range(4)), attempt(2, 12.0, 13.0, batches=second))
    assert judge(attempt(1, 10.0, 11.0, batches=range(4)), attempt(2, 12.0, 13.0, batches=range(5, 6))) == []


# -- prepared drivers --------------------------------------------------------------------------------------------------


TREE = 900


def prepared(
    at_s: float, opened_at_s: float, last_at_s: float, number: int = 2, claim: str = "c2"
) -> list[WitnessNote]:
    """A tree that was prepared, with a child that beats to the end; its barrier was passed at ``opened_at_s``."""
    beats = attempt(0, at_s, last_at_s, role="child")
    root = [
        WitnessNote("start", "job", "u1", 0, TREE, at_s, "prepared"),
        WitnessNote("ready", "job", "u1", 0, TREE, at_s + 0.01),
        WitnessNote("opened", "job", "u1", number, TREE, opened_at_s, claim=claim),
        WitnessNote("start", "job", "u1", number, TREE, opened_at_s + 0.001),
    ]
    return sorted((replace(note, tree=TREE) for note in (*beats, *root)), key=lambda note: note.at_s)


def test_a_driver_that_waits_beside_the_running_one_is_let_pass() -> None:
    assert judge(attempt(1, 10.0, 12.0), prepared(10.5, 12.05, 14.0)) == []


def test_a_barrier_that_is_passed_while_another_driver_runs_is_found() -> None:
    assert "I1" in judge(attempt(1, 10.0, 12.0), prepared(10.5, 11.9, 14.0))[0]


def test_a_child_of_a_prepared_tree_counts_from_the_opening_on() -> None:
    found = judge(attempt(1, 10.0, 11.0), prepared(10.5, 11.5, 14.0), attempt(3, 13.0, 15.0))
    assert "driver job u1.3 is executed while driver job u1.2 is alive" in found[0]


def test_an_application_that_runs_before_its_barrier_is_found() -> None:
    batch = WitnessNote("batch", "job", "u1", 0, TREE, 11.0, batch_id=0, tree=TREE)
    assert any("ran before a claim" in each for each in judge(prepared(10.5, 12.05, 14.0), [batch]))


def test_a_claim_that_opens_two_barriers_is_found() -> None:
    other = [replace(note, tree=901, pid=901) for note in prepared(13.5, 15.0, 15.5, number=3)]
    assert any("the claim c2 has let" in each for each in judge(prepared(10.5, 12.0, 13.0), other))


def test_a_tree_that_begins_as_two_attempts_is_found() -> None:
    again = [WitnessNote("opened", "job", "u1", 3, TREE, 14.5, tree=TREE, claim="c3")]
    assert any("as attempts [2, 3]" in each for each in judge(prepared(10.5, 12.0, 14.0), again))


def test_a_prepared_driver_is_not_taken_for_one_that_runs() -> None:
    waiting = [note for note in prepared(10.0, 99.0, 15.0) if note.is_prepared]
    assert checker.lost(waiting, [WantedRun("job", "u1", 12.0)])
    assert "prepared driver 900" in checker.left_prepared(waiting, 14.0)[0]
    assert checker.left_prepared(waiting, 15.5) == []


def test_a_prepared_tree_that_outlives_its_shim_is_found() -> None:
    notes = prepared(10.0, 12.0, 20.0)
    assert checker.orphaned(notes, [DeadShim("job", "u1", TREE, 15.0)]) == []
    assert "after the death of its shim" in checker.orphaned(notes, [DeadShim("job", "u1", TREE, 13.0)])[0]


# -- with real drivers -------------------------------------------------------------------------------------------------


@pytest.fixture
def drivers(tmp_path: Path) -> Iterator[_Drivers]:
    made = _Drivers(tmp_path)
    yield made
    for process in made.started:
        process.kill()
        process.wait()


class _Drivers:
    def __init__(self, directory: Path) -> None:
        self.witness = directory / "witness"
        self.application = directory / "job.py"
        self.application.write_text("# " + json.dumps({"beat_s": 0.02}) + "\n")
        self.started: list[subprocess.Popen[bytes]] = []

    def start(self, number: int, uid: str = "u1") -> subprocess.Popen[bytes]:
        env = {
            **os.environ,
            "WITNESS": str(self.witness),
            "PYSPARK_PYTHON": sys.executable,
            "SPARK_SUPERVISOR_JOB": "job",
            "SPARK_SUPERVISOR_UID": uid,
            "SPARK_SUPERVISOR_ATTEMPT": str(number),
        }
        process = subprocess.Popen([str(FAKE_SPARK / "bin" / "spark-submit"), str(self.application)], env=env)
        self.started.append(process)
        wait_until(
            lambda: any(n.pid == process.pid for n in checker.read(self.witness)), 20, "its first line"
        )
        return process

    def found(self, *acknowledged: Acknowledged) -> list[str]:
        notes = checker.read(self.witness)
        return [*checker.overlaps(notes), *checker.revived(notes, acknowledged), *checker.misnumbered(notes)]


def test_real_drivers_one_after_the_other_pass(drivers: _Drivers) -> None:
    first = drivers.start(1)
    first.kill()
    first.wait()
    drivers.start(2)
    assert drivers.found() == []


def test_real_drivers_that_overlap_by_50_ms_are_found(drivers: _Drivers) -> None:
    first = drivers.start(1)
    drivers.start(2)
    time.sleep(0.05)  # the defect itself, not a wait
    first.kill()
    assert any("I1" in each for each in drivers.found())


def test_a_real_driver_that_comes_back_after_its_cancel_is_found(drivers: _Drivers) -> None:
    first = drivers.start(1)
    first.kill()
    first.wait()
    acknowledged = Acknowledged("job", "u1", boottime_s() - checker.STARTING_S - 0.1)
    drivers.start(2)
    assert any("I2" in each for each in drivers.found(acknowledged))
