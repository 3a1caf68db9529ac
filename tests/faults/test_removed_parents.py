"""An operator removes a fixed znode by hand (``deleteall``), beside real supervisors and real shims."""

from __future__ import annotations

import pytest

from supervisor.clients import processes
from supervisor.clients.zookeeper import ZooClient
from supervisor.demo.ensemble import EmbeddedEnsemble
from supervisor.model.transaction import ANY_VERSION, Delete, Transaction
from supervisor.records.ids import new_op_id
from tests.faults.conftest import MakeFleet, on_embedded
from tests.testbed.fleet import DRIVER, Fleet
from tests.waiting import wait_until


def remove_all(client: ZooClient, path: str) -> None:
    for child in client.children(path) or ():
        remove_all(client, f"{path}/{child}")
    client.commit(Transaction("by hand", new_op_id(), (Delete(path, ANY_VERSION),)))


@on_embedded
@pytest.mark.parametrize("parent", ["leases", "lives", "assigned", "supervisors"])
def test_what_is_told_again_costs_no_driver(fleet: Fleet, job: str, parent: str) -> None:
    fleet.submit(job)
    fleet.wait_state(job, "running")
    driver, path = fleet.process(job, DRIVER), getattr(fleet.layout, parent)
    remove_all(fleet.client, path)
    wait_until(lambda: fleet.read_znode(path) is not None, 60, f"{path} to be made anew")
    later = f"{job}-later"
    fleet.submit(later)
    fleet.wait_state(later, "running")
    assert fleet.process(job, DRIVER) == driver and fleet.show(job)["attempt"] == 1
    assert fleet.status()["distrust"] is None


def test_a_registry_without_its_jobs_stops_nobody_and_is_told(
    make_fleet: MakeFleet,
    embedded_ensemble: EmbeddedEnsemble,
    job: str,
) -> None:
    """Until an operator accepts the loss: then the job is one that nobody wants, and its driver is stopped."""
    fleet = make_fleet(embedded_ensemble, lease_s=6.0)
    fleet.submit(job)
    fleet.wait_state(job, "running")
    driver, epoch = fleet.process(job, DRIVER), fleet.epoch()
    remove_all(fleet.client, fleet.layout.jobs)
    why = wait_until(lambda: fleet.status()["distrust"], 60, "the distrust of the leader", period_s=0.3)
    assert fleet.layout.jobs in str(why) and "accept-registry" in str(why)
    ran = fleet.cli("submit", str(fleet.spec_file(f"{job}-later")))
    assert ran.code != 0 and f"{fleet.layout.jobs} is missing" in ran.err
    fleet.kill(fleet.leader())
    fleet.wait_new_leader(epoch)
    wait_until(lambda: fleet.status()["distrust"], 60, "the distrust of the next leader", period_s=0.3)
    assert processes.alive(driver), "no supervisor was told to stop it"
    fleet.ok("accept-registry", "--yes", "-o", "json")
    fleet.wait_gone(driver)
    fleet.submit(f"{job}-later")
    fleet.wait_state(f"{job}-later", "running")
