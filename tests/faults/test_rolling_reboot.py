"""Three hosts are rebooted one after the other with twelve jobs on them: each is drained first, and takes jobs again afterwards.

Judged by what the drivers wrote, as every fleet is (nothing runs twice, no batch is lost), and besides: whoever was moved was handed to a
driver that had been prepared, its driver had stopped in order, and a reboot met no driver.
"""

from __future__ import annotations

from typing import Any

from supervisor.demo.ensemble import EmbeddedEnsemble
from supervisor.model.records import Cause
from tests.faults.conftest import MakeFleet
from tests.testbed.fleet import Fleet, FleetMember
from tests.waiting import wait_until

JOBS = tuple(f"job-{n:02d}" for n in range(12))
PREPARED: dict[str, Any] = {"update": {"prepare": "session"}, "resources": {"memory": "512m"}}
WAIT_S = 600


def on(fleet: Fleet) -> dict[str, str]:
    """The host of each job, all of which run."""
    rows = {row["name"]: row for row in fleet.rows()}
    assert {row["state"] for row in rows.values()} == {"running"}, rows
    return {name: str(row["supervisor"]) for name, row in rows.items()}


def shown(fleet: Fleet, member: FleetMember) -> dict[str, Any] | None:
    """What ``status`` says of the host, while it is up."""
    return next((each for each in fleet.status()["supervisors"] if each["id"] == member.id), None)


def reboot(fleet: Fleet, member: FleetMember) -> None:
    """All that runs on the host is gone at once; then its supervisor starts again."""
    before = shown(fleet, member)
    assert before is not None
    fleet.kill_host(member)
    fleet.start_member(fleet.number(member))

    def is_back() -> bool:
        now = shown(fleet, member)
        return now is not None and now["since"] != before["since"]

    wait_until(is_back, WAIT_S, f"{member.id} is up again", period_s=0.3)


def test_three_hosts_are_rebooted_in_turn_and_no_job_notices_more_than_a_hand_over(
    make_fleet: MakeFleet, embedded_ensemble: EmbeddedEnsemble
) -> None:
    capacity = {"memory": "8g", "drivers": 12, "starting": 4}
    fleet = make_fleet(embedded_ensemble, supervisors=3, lease_s=60.0, session_s=20.0, capacity=capacity)
    fleet.submit_many(JOBS, **PREPARED)
    for name in JOBS:
        fleet.wait_state(name, "running", timeout_s=WAIT_S)
    moves = dict.fromkeys(JOBS, 0)
    for member in list(fleet.members):
        here = [name for name, host in on(fleet).items() if host == member.id]
        ran = fleet.cli("drain", member.id, "--wait", "--timeout", f"{WAIT_S}s", "--reason", "reboot")
        assert ran.code == 0, ran.err
        for name in here:
            moves[name] += 1
        assert member.id not in on(fleet).values()
        assert fleet.leader_id() != member.id
        reboot(fleet, member)
        there = shown(fleet, member)
        assert there is not None and there["cordoned"], "a host that restarts stays cordoned"
        assert there["drivers"] == 0
        fleet.ok("uncordon", member.id)
    assert sum(moves.values()) >= len(JOBS), "each host had its share"
    for name in JOBS:
        fleet.wait_batches(name, 2, WAIT_S)
        starts = fleet.starts(name)
        assert [note.attempt for note in starts] == list(range(1, moves[name] + 2)), starts
        assert all(note.tree for note in starts[1:]), f"{name} was started cold: {starts}"
        (story,) = fleet.ok("history", name, "-o", "json").document["uids"]
        ends = {entry["event"] for entry in story["history"]} & {cause.value for cause in Cause}
        assert ends == {Cause.STOPPED.value}, story["history"]
