"""Airwallex's incident on real processes: every starting slot of both hosts is held by a start that hangs, some jobs crash at
once, and the leader is killed. The others start all the same, while each stuck start is still in its first attempt.

Large, in virtual time and stuck at every stage: ``tests/simulation/test_airwallex.py``.
"""

from __future__ import annotations

import re
import urllib.request
from collections.abc import Sequence

from supervisor.demo.ensemble import EmbeddedEnsemble
from tests.faults.conftest import MakeFleet
from tests.testbed.fleet import Fleet, eventually
from tests.testbed.secured_ensemble import ask_node
from tests.waiting import wait_until

SLOTS = {"memory": "4g", "drivers": 20, "starting": 2}
PATIENT = {"start_timeout": "60s"}  # so a slot is held for 20 s


def watches(fleet: Fleet) -> int:
    """Of all sessions, as the servers count them."""
    connections = "".join(ask_node(fleet.ensemble, node, "wchs") for node in range(3))
    return sum(int(count) for count in re.findall(r"Total watches:(\d+)", connections))


def phases(fleet: Fleet) -> dict[str, int]:
    """How often each phase of a start was timed, by all supervisors together."""
    counts: dict[str, int] = {}
    for member in fleet.status()["supervisors"]:
        with urllib.request.urlopen(f"http://{member['address']}/metrics", timeout=10) as answer:
            text = answer.read().decode()
        for phase, count in re.findall(r'job_start_seconds_count\{phase="(\w+)"\} (\S+)', text):
            counts[phase] = counts.get(phase, 0) + int(float(count))
    return counts


def first_attempts(fleet: Fleet, names: Sequence[str]) -> None:
    for name in names:
        assert [note.attempt for note in fleet.starts(name)] == [1], name
        assert fleet.alive_pids(name), f"{name} is not stuck any more"


def test_stuck_starts_hold_up_nobody(
    embedded_ensemble: EmbeddedEnsemble, make_fleet: MakeFleet, job: str
) -> None:
    fleet = make_fleet(embedded_ensemble, capacity=SLOTS)
    before = watches(fleet)
    hanging, silent = [f"a-hangs-{i}" for i in range(2)], [f"a-no-batch-{i}" for i in range(2)]
    crashing, healthy = [f"b-crash-{i}" for i in range(2)], [f"h-{i}" for i in range(6)]
    fleet.submit_many(hanging, knobs={"hang_before_begin": True}, health=PATIENT)
    fleet.submit_many(silent, knobs={"batches": 0}, health=PATIENT)
    stuck = [*hanging, *silent]
    for name in stuck:
        fleet.wait_attempt(name, 1)
    assert {fleet.host_of(name).id for name in stuck} == {"s0", "s1"}, "all slots of both hosts"

    fleet.submit_many(
        crashing, knobs={"exit_after_s": 0.0, "exit_code": 1}, restart={"strategy": "fixed", "initial": "3s"}
    )
    fleet.submit_many(healthy, health=PATIENT)
    epoch = fleet.epoch()
    fleet.kill(fleet.leader())
    fleet.wait_new_leader(epoch)
    fleet.restart_all()
    for name in healthy:
        fleet.wait_state(name, "running", timeout_s=55)
    first_attempts(fleet, stuck)
    fleet.assert_undisturbed(*healthy)

    shown = {name: fleet.show(name) for name in (hanging[0], silent[0], healthy[0])}
    assert [document["state"] for document in shown.values()] == ["starting", "starting", "running"]
    assert [sorted(document["start"]) for document in shown.values()] == [
        ["queued_s", "spawn_s"],
        ["queued_s", "session_s", "spawn_s"],
        ["first_batch_s", "queued_s", "session_s", "spawn_s"],
    ]
    wait_until(
        lambda: phases(fleet).get("first_batch", 0) >= len(healthy),
        30,
        "the phases of each start in the metrics",
    )
    alive = len(stuck) + len(healthy) + len(crashing)
    eventually(
        lambda: watches(fleet) <= before + alive,
        30,
        "one watch for each shim, and no more for the supervisors",
    )
    fleet.judge()
