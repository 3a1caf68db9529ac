"""Cut from ZooKeeper: a supervisor, a shim, and a shim whose server was cut from its peers."""

from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING

import pytest

from supervisor.clock import boottime_s
from supervisor.demo.ensemble import EmbeddedEnsemble
from tests.faults.conftest import MakeFleet, set_traps, wait_sprung, with_cuts
from tests.testbed.cuts import Cut, cut_from
from tests.testbed.ensembles import Ensemble
from tests.testbed.fleet import DRIVER, SHIM, Fleet, eventually
from tests.testbed.proxy import Action, Proxies, Proxy, Way, zookeeper_request

if TYPE_CHECKING:
    from tests.testbed.docker_ensemble import DockerEnsemble


def with_shims_apart(fleet: Fleet, *jobs: str, cut: Cut | None = None) -> None:
    """Jobs on member 0 whose shims stay on the side of a cut where they were started, while the supervisor changes over:
    behind ``cut``, or (None) to the side of the ensemble."""
    fleet.submit_many(jobs, knobs={"child": True})
    for job in jobs:
        fleet.wait_state(job, "running")
    member = fleet.members[0]
    assert all(fleet.host_of(job) is member for job in jobs)
    fleet.stop_member(member)
    member.hosts, member.wrapper = fleet.ensemble.hosts, ()
    if cut is not None:
        cut.apply(member)
    fleet.start_member(0)


@with_cuts
def test_f16_the_leader_is_cut_from_zookeeper(ensemble: Ensemble, make_fleet: MakeFleet, job: str) -> None:
    """Its shims are fine: another leads, 0 restarts; after the cut is healed the old one follows.

    Three fleets side by side: cut both ways, only what the leader says, only what it hears.
    """
    ways: tuple[tuple[Way, ...], ...] = ((), (Way.REQUESTS,), (Way.RESPONSES,))
    with ExitStack() as stack:
        cuts = [stack.enter_context(cut_from(ensemble)) for _ in ways]
        fleets = [make_fleet(ensemble, supervisors=1) for _ in ways]
        for fleet, cut in zip(fleets, cuts, strict=True):
            with_shims_apart(fleet, job, cut=cut)
        epochs = []
        for fleet in fleets:
            fleet.wait_complete()
            fleet.add_member()
        for fleet in fleets:
            fleet.wait_complete()
            assert fleet.leader() is fleet.members[0]
            epochs.append(fleet.epoch())
        for cut, way in zip(cuts, ways, strict=True):
            cut.cut(*way)
        for fleet, epoch in zip(fleets, epochs, strict=True):
            fleet.wait_new_leader(epoch)
            fleet.submit(f"{job}-2")
            fleet.wait_attempt(f"{job}-2", 1)
            fleet.assert_undisturbed(job)
        for cut in cuts:
            cut.heal()
        for fleet in fleets:
            fleet.wait_complete()
            fleet.assert_undisturbed(job, f"{job}-2")
            assert fleet.leader() is fleet.members[1]


@with_cuts
def test_f15_shims_are_cut_from_zookeeper(ensemble: Ensemble, make_fleet: MakeFleet, job: str) -> None:
    """Their supervisor is fine. The drivers are dead by their deadlines, and the host does not disturb: the shims cannot
    say so, so the next attempt waits for the full time; nothing overlaps.

    The second job is cancelled and submitted anew while its shim is deaf: its new uid, too, starts only then.
    """
    other = f"{job}-2"
    with cut_from(ensemble) as cut:
        fleet = make_fleet(ensemble, supervisors=1, behind={0: cut.apply})
        with_shims_apart(fleet, job, other)
        fleet.wait_complete()
        shims = [fleet.process(name, SHIM) for name in (job, other)]
        driver = fleet.process(job, DRIVER)
        cut.cut()
        first = fleet.ok("cancel", other, "-o", "json").document["uid"]
        fleet.note_cancelled(other, first, heard=False)
        new = fleet.submit(other)
        assert new != first
        fleet.wait_gone(driver)
        died_at_s = boottime_s()
        assert [note.attempt for note in fleet.starts(job)] == [1]
        assert fleet.wait_attempt(job, 2).at_s > died_at_s
        assert any(entry["event"] == "revoked" for entry in fleet.show(job)["history"])
        assert fleet.wait_attempt(other, 1, uid=new).at_s > max(note.at_s for note in fleet.notes(uid=first))
        cut.heal()
        # they learn that it is not about them any more, and bury nobody
        fleet.wait_gone(*shims, timeout_s=90)
        fleet.wait_batches(job)
        fleet.wait_batches(other)
        assert [note.attempt for note in fleet.starts(job)] == [1, 2]


@pytest.mark.docker
def test_f14_the_server_of_a_shim_is_cut_from_its_peers(
    fresh_docker_ensemble: DockerEnsemble, make_fleet: MakeFleet, job: str
) -> None:
    """The shim's only server answers pings and reads (M1) but commits nothing: the deadline counts, not the connection."""
    ensemble = fresh_docker_ensemble
    fleet = make_fleet(ensemble, supervisors=1, through={0: ensemble.address(0)})
    with_shims_apart(fleet, job)
    fleet.wait_complete()
    driver = fleet.process(job, DRIVER)
    ensemble.cut_quorum(0)
    fleet.wait_gone(driver)
    second = fleet.wait_attempt(job, 2, timeout_s=60)
    assert second.at_s > max(note.at_s for note in fleet.notes(job) if note.attempt == 1)
    ensemble.heal()
    fleet.wait_batches(job)
    assert [note.attempt for note in fleet.starts(job)] == [1, 2]


def test_a_flapping_connection_of_everybody(
    embedded_ensemble: EmbeddedEnsemble, make_fleet: MakeFleet, job: str
) -> None:
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


def test_f18_the_reply_to_a_claim_is_lost(
    embedded_ensemble: EmbeddedEnsemble, make_fleet: MakeFleet, job: str
) -> None:
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


def test_f18_the_reply_to_an_assignment_is_lost(
    embedded_ensemble: EmbeddedEnsemble, make_fleet: MakeFleet, job: str
) -> None:
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


def test_a_connection_that_is_lost_while_a_supervisor_starts(
    embedded_ensemble: EmbeddedEnsemble, make_fleet: MakeFleet
) -> None:
    """Found by chaos: the process ended when its question whether it is alone got no answer. It asks again."""
    with Proxies(embedded_ensemble.hosts) as proxies:
        fleet = make_fleet(embedded_ensemble, supervisors=1, through={0: proxies.hosts})
        fleet.stop_member(fleet.members[0])
        traps = set_traps(proxies, zookeeper_request("/supervisors/s0"), Action.CUT_BEFORE)
        fleet.start_member(0)
        wait_sprung(traps, "the question whether there is another s0")
        proxies.each(Proxy.heal)
        fleet.wait_complete()
