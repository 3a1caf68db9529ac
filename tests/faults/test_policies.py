"""Hosts with different policies, as real processes: a job runs where it is allowed, and is stopped nowhere."""

from __future__ import annotations

import signal

import pytest

from supervisor.demo.ensemble import EmbeddedEnsemble
from tests.faults.conftest import MakeFleet
from tests.testbed.fleet import DRIVER, Fleet
from tests.waiting import wait_until

STRICT = {"conf": {"forbidden": ["spark.plugins"]}, "secrets": {"env": ["JOB_*"]}}
PLUGIN = {"conf": {"spark.plugins": "x"}}


def assigned_to(fleet: Fleet, name: str) -> list[str]:
    history = fleet.show(name)["history"]
    return [entry["detail"].split()[1] for entry in history if entry["event"] == "assigned"]


def restarted_with(fleet: Fleet, number: int, policy: dict[str, object]) -> None:
    fleet.stop_member(fleet.members[number])
    fleet.policies[number] = policy
    fleet.start_member(number)
    fleet.wait_complete()


@pytest.mark.slow
def test_a_job_runs_where_a_policy_allows_it_and_starts_when_one_is_changed(
    make_fleet: MakeFleet, embedded_ensemble: EmbeddedEnsemble
) -> None:
    fleet = make_fleet(embedded_ensemble, policies={0: STRICT})
    fleet.submit("plain")
    fleet.submit("plugin", **PLUGIN)
    for name in ("plain", "plugin"):
        fleet.wait_state(name, "running")
    assert fleet.host_of("plugin").id == "s1"

    # a failure there sends it back there, and never again to the host that has refused it
    attempt = fleet.show("plugin")["attempt"]
    fleet.signal(fleet.process("plugin", DRIVER), signal.SIGKILL)
    fleet.wait_attempt("plugin", attempt + 1)
    fleet.wait_state("plugin", "running")
    assert assigned_to(fleet, "plugin").count("s0") <= 1

    # status says that they differ, and who has which
    said = fleet.cli("status")
    assert "the policies of the supervisors differ" in said.err

    # the other host is made strict, too: what runs there runs on
    restarted_with(fleet, 1, STRICT)
    fleet.wait_batches("plugin")
    fleet.assert_undisturbed("plain")

    # nobody may start it any more: it says key and rule, and is given to nobody again and again
    fleet.signal(fleet.process("plugin", DRIVER), signal.SIGKILL)
    shown = fleet.wait_state("plugin", "quarantined")
    assert "conf spark.plugins: it is forbidden by policy.conf.forbidden (spark.plugins)" in shown["reason"]
    assert "refused by the policy of every host" in fleet.show("plugin")["reason"]
    given = assigned_to(fleet, "plugin")
    fleet.wait_batches("plain", 5)
    assert assigned_to(fleet, "plugin") == given

    # one host is opened again
    restarted_with(fleet, 0, {})
    fleet.wait_state("plugin", "running")
    assert fleet.host_of("plugin").id == "s0"
    wait_until(lambda: assigned_to(fleet, "plugin")[-1] == "s0", 10, "the history")
    fleet.assert_undisturbed("plain")
