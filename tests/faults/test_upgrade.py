"""Two versions of the software side by side (F59): today's supervisors, and tomorrow's, which write fields unknown today.

Tomorrow's is ``tests/testbed/tomorrow``. Jobs are handed between them in every direction; whatever was rewritten by
today's still has what tomorrow's put there, and no driver notices an upgrade or a downgrade.
"""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from supervisor.demo.ensemble import EmbeddedEnsemble
from tests.faults.conftest import MakeFleet
from tests.testbed.fleet import DRIVER, Fleet
from tests.testbed.fleet_member import FleetMember
from tests.waiting import wait_until

TOMORROW = Path(__file__).parents[1] / "testbed" / "tomorrow"
WRAPPER = ("env", f"PYTHONPATH={TOMORROW}")
FIELD, VERSION = "from_tomorrow", "99.0.0"


def of_tomorrow(member: FleetMember) -> None:
    member.wrapper = WRAPPER


@pytest.fixture
def fleet(make_fleet: MakeFleet, embedded_ensemble: EmbeddedEnsemble) -> Fleet:
    """s0 is today's, s1 is tomorrow's."""
    return make_fleet(embedded_ensemble, behind={1: of_tomorrow})


def switch_version(fleet: Fleet, member: FleetMember, wrapper: tuple[str, ...]) -> None:
    """A rolling upgrade, or downgrade, of one host: stop, install, start."""
    fleet.stop_member(member)
    member.wrapper = wrapper
    fleet.start_member(fleet.number(member))
    fleet.wait_complete()


def tomorrows_cli(fleet: Fleet, *words: str) -> None:
    argv = [sys.executable, "-P", "-c", "from supervisor.cli.main import main; main()", *words]
    done = subprocess.run(
        [*WRAPPER, *argv, "--config", str(fleet.user_config())], capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0, done.stderr


def record(fleet: Fleet, path: str) -> dict[str, Any]:
    node = fleet.read_znode(path)
    assert node is not None, path
    body: dict[str, Any] = json.loads(node.data)
    return body


def test_two_versions_side_by_side(fleet: Fleet, job: str) -> None:
    layout, old, new = fleet.layout, *fleet.members
    ran = fleet.cli("status")
    assert f"{VERSION} on s1" in ran.err
    names = [f"{job}-{n}" for n in range(3)]
    tomorrows_cli(fleet, "submit", *(str(fleet.spec_file(name)) for name in names))
    for name in names:
        fleet.wait_state(name, "running")
    hosts = {fleet.host_of(name).id for name in names}
    assert hosts == {"s0", "s1"}, "both versions start shims for what the other one assigns"
    *kept, cancelled = names

    # What tomorrow's leader and command line wrote, today's rewrites: nothing of it is lost.
    fleet.ok("switchover", "--to", "s1")
    for name in kept:
        fleet.ok("restart", name)
    for name in kept:
        fleet.wait_attempt(name, 2)
    fleet.assert_undisturbed(cancelled)
    fleet.ok("switchover", "--to", "s0")
    assert FIELD in record(fleet, layout.epoch)
    uid = fleet.cancel(cancelled)
    for name in kept:
        fleet.ok("suspend", name)
    for name in kept:
        fleet.wait_state(name, "suspended")
        fleet.ok("resume", name)
    for name in kept:
        fleet.wait_attempt(name, 3)
        fleet.wait_state(name, "running")
        for path in (layout.job(name), layout.own(name)):
            assert record(fleet, path)[FIELD] == 1, path
        assert record(fleet, layout.job(name))["terms"]["restart"][FIELD] == 1
    wait_until(lambda: record(fleet, layout.result(uid))["state"] == "clean", 40, "the clean-up")
    result = record(fleet, layout.result(uid))
    assert result[FIELD] == 1 and result["terms"][FIELD] == 1, "cancelled and cleaned by today's"

    # Upgrade the one, downgrade the other: each adopts the shims that the other version left.
    starts = {name: len(fleet.starts(name)) for name in kept}
    switch_version(fleet, old, WRAPPER)
    switch_version(fleet, new, ())
    versions = {one["id"]: one["software"] for one in fleet.status()["supervisors"]}
    assert versions["s0"] == VERSION and versions["s1"] != VERSION
    for name in kept:
        fleet.wait_batches(name, 2)
    assert {name: len(fleet.starts(name)) for name in kept} == starts, "an upgrade is no business of a driver"

    # And they answer for them: a driver that dies is restarted, a cancel is obeyed.
    for name in kept:
        fleet.signal(fleet.process(name, DRIVER), signal.SIGKILL)
    for name in kept:
        wait_until(lambda name=name: len(fleet.starts(name)) > starts[name], 40, f"a restart of {name}")  # type: ignore[misc]
        fleet.cancel(name)
        wait_until(lambda name=name: not fleet.alive_pids(name), 40, f"the end of {name}")  # type: ignore[misc]
