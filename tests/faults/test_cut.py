"""Cut from ZooKeeper: a supervisor, a shim, and a shim whose server was cut from its peers."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from supervisor.clients.ensemble import EmbeddedEnsemble
from supervisor.clock import boottime_s
from tests.faults.conftest import MakeFleet, set_traps, wait_sprung
from tests.testbed.ensembles import Ensemble
from tests.testbed.fleet import DRIVER, SHIM, Fleet, eventually
from tests.testbed.proxy import Action, Proxies, Proxy, Way, zookeeper_request

if TYPE_CHECKING:
    from tests.testbed.docker_ensemble import DockerEnsemble


def with_shims_apart(fleet: Fleet, job: str, hosts_of_supervisor: str) -> str:
    """A job on member 0 whose shim keeps the hosts that it was started with, while the supervisor now has others."""
    fleet.submit(job, knobs={"child": True})
    fleet.wait_state(job, "running")
    member = fleet.members[0]
    assert fleet.host_of(job) is member
    fleet.stop_member(member)
    member.hosts = hosts_of_supervisor
    fleet.start_member(0)
    return job


@pytest.mark.parametrize("ways", [(), (Way.REQUESTS,), (Way.RESPONSES,)], ids=["both ways", "requests", "responses"])
def test_f16_the_leader_is_cut_from_zookeeper(
    embedded_ensemble: EmbeddedEnsemble, make_fleet: MakeFleet, job: str, ways: tuple[Way, ...]
) -> None:
    """Its shims are fine: another leads, 0 restarts; after the cut is healed the old one follows."""
    with Proxies(embedded_ensemble.hosts) as proxies:
        fleet = make_fleet(embedded_ensemble, supervisors=1)
        with_shims_apart(fleet, job, proxies.hosts)
        fleet.wait_complete()
        fleet.add_member()
        fleet.wait_complete()
        assert fleet.leader() is fleet.members[0]
        epoch = fleet.epoch()
        proxies.each(lambda proxy: proxy.drop(*ways))
        fleet.wait_new_leader(epoch)
        fleet.submit(f"{job}-2")
        fleet.wait_attempt(f"{job}-2", 1)
        fleet.assert_undisturbed(job)
        proxies.each(Proxy.heal)
        fleet.wait_complete()
        fleet.assert_undisturbed(job, f"{job}-2")
        assert fleet.leader() is fleet.members[1]


def test_f15_a_shim_is_cut_from_zookeeper(
    ensemble: Ensemble, make_fleet: MakeFleet, job: str
) -> None:
    """Its supervisor is fine. The driver is dead by its deadline, and its host does not disturb: the shim cannot say so,
    so the next attempt waits for the full time; nothing overlaps."""
    with Proxies(ensemble.hosts) as proxies:
        fleet = make_fleet(ensemble, supervisors=1, through={0: proxies.hosts})
        with_shims_apart(fleet, job, ensemble.hosts)
        fleet.wait_complete()
        shim, driver = fleet.process(job, SHIM), fleet.process(job, DRIVER)
        proxies.each(Proxy.drop)
        fleet.wait_gone(driver)
        died_s = boottime_s()
        assert [note.attempt for note in fleet.starts(job)] == [1]
        second = fleet.wait_attempt(job, 2)
        assert second.at_s > died_s
        assert any(entry["event"] == "revoked" for entry in fleet.show(job)["history"])
        proxies.each(Proxy.heal)
        fleet.wait_gone(shim, timeout_s=90)       # it learns that it is not about it any more, and buries nobody
        fleet.wait_batches(job)
        assert [note.attempt for note in fleet.starts(job)] == [1, 2]


def test_f15_cancelled_while_its_shim_is_cut(embedded_ensemble: EmbeddedEnsemble, make_fleet: MakeFleet, job: str) -> None:
    """A shim that cannot hear ends its driver at the deadline; a new uid of the name starts only then."""
    with Proxies(embedded_ensemble.hosts) as proxies:
        fleet = make_fleet(embedded_ensemble, supervisors=1, through={0: proxies.hosts})
        with_shims_apart(fleet, job, embedded_ensemble.hosts)
        fleet.wait_complete()
        proxies.each(Proxy.drop)
        first = fleet.ok("cancel", job, "-o", "json").document["uid"]
        fleet.note_cancelled(job, first, heard=False)
        second = fleet.submit(job)
        assert second != first
        fleet.wait_attempt(job, 1, uid=second)
        last_of_first = max(note.at_s for note in fleet.notes(uid=first))
        assert fleet.starts(job, second)[0].at_s > last_of_first
        fleet.wait_batches(job)


@pytest.mark.docker
def test_f14_the_server_of_a_shim_is_cut_from_its_peers(fresh_docker_ensemble: DockerEnsemble, make_fleet: MakeFleet, job: str) -> None:
    """The shim's only server answers pings and reads (M1) but commits nothing: the deadline counts, not the connection."""
    ensemble = fresh_docker_ensemble
    fleet = make_fleet(ensemble, supervisors=1, through={0: ensemble.address(0)})
    with_shims_apart(fleet, job, ensemble.hosts)
    fleet.wait_complete()
    driver = fleet.process(job, DRIVER)
    ensemble.cut_quorum(0)
    fleet.wait_gone(driver)
    second = fleet.wait_attempt(job, 2, timeout_s=60)
    assert second.at_s > max(note.at_s for note in fleet.notes(job) if note.attempt == 1)
    ensemble.heal()
    fleet.wait_batches(job)
    assert [note.attempt for note in fleet.starts(job)] == [1, 2]


def test_a_flapping_connection_of_everybody(embedded_ensemble: EmbeddedEnsemble, make_fleet: MakeFleet, job: str) -> None:
    """Every connection is reset again and again: 0 restarts, no session lost, no change of leader (F12, F52)."""
    with Proxies(embedded_ensemble.hosts) as proxies:
        fleet = make_fleet(embedded_ensemble, through={0: proxies.hosts, 1: proxies.hosts})
        names = (job, f"{job}-2")
        fleet.submit_many(names)
        for name in names:
            fleet.wait_state(name, "running")
        epoch, session = fleet.epoch(), fleet.leader_session()
        for _ in range(8):
            proxies.each(Proxy.cut)
            fleet.wait_batches(job, 2)
        fleet.submit(f"{job}-3")
        fleet.wait_state(f"{job}-3", "running")
        fleet.assert_undisturbed(*names)
        assert (fleet.epoch(), fleet.leader_session()) == (epoch, session)


def test_f18_the_reply_to_a_claim_is_lost(embedded_ensemble: EmbeddedEnsemble, make_fleet: MakeFleet, job: str) -> None:
    """Committed or not, the shim finds out before it executes: one driver, one attempt."""
    with Proxies(embedded_ensemble.hosts) as proxies:
        fleet = make_fleet(embedded_ensemble, supervisors=1, through={0: proxies.hosts})
        for action in (Action.CUT_AFTER, Action.CUT_BEFORE):
            name = f"{job}-{action.value.replace('_', '-')}"
            traps = set_traps(proxies, zookeeper_request('"phase":"claimed"'), action)
            fleet.submit(name)
            wait_sprung(traps, "the claim was sent")
            proxies.each(Proxy.heal)
            fleet.wait_state(name, "running")
            fleet.assert_undisturbed(name)


def test_f18_the_reply_to_an_assignment_is_lost(embedded_ensemble: EmbeddedEnsemble, make_fleet: MakeFleet, job: str) -> None:
    """The leader reads back before it does anything else for the job: one assignment, one driver."""
    with Proxies(embedded_ensemble.hosts) as proxies:
        fleet = make_fleet(embedded_ensemble, supervisors=1, through={0: proxies.hosts})
        for action in (Action.CUT_AFTER, Action.CUT_BEFORE):
            name = f"{job}-{action.value.replace('_', '-')}"
            traps = set_traps(proxies, zookeeper_request('"own_version"'), action)
            fleet.submit(name)
            wait_sprung(traps, "the assignment was sent")
            proxies.each(Proxy.heal)
            fleet.wait_state(name, "running")
            fleet.assert_undisturbed(name)
        eventually(lambda: fleet.status()["jobs"] == {"running": 2}, 20, "two jobs are running")
