"""The parts of the simulation, each for itself: time, threads, stops and kills; sessions, followers and cuts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from supervisor.clients.zookeeper import Link
from supervisor.errors import GuardFailed, NotSent, OutcomeUnknown, SupervisorError, Unreachable
from supervisor.model.transaction import Create, SetData, Transaction
from tests.simulation.timed.client import SimClient
from tests.simulation.timed.ensemble import Ensemble
from tests.simulation.timed.loop import Clock, Process, SimulatedLoop
from tests.simulation.timed.network import DOWN, UP, Network
from tests.simulation.timed.primitives import Namespaces

T = 4.0


class Rig:
    """An ensemble of three, and processes that run functions on clients of it."""

    def __init__(self, seed: int = 1) -> None:
        self.loop = SimulatedLoop(seed)
        self.applied: list[str] = []
        self.ensemble = Ensemble(self.loop, 3, lambda _session, tx: self.applied.append(tx.what))
        self.net = Network(self.loop, self.ensemble, chunk=64)
        self.processes: list[Process] = []
        self.ensemble.found(Transaction("found", "0", (Create("/a", b"0"),)))

    def process(self, name: str, clock: Clock | None = None) -> Process:
        self.processes.append(Process(name, clock or Clock()))
        return self.processes[-1]

    def client(self, process: Process) -> SimClient:
        self.loop.process = process
        client = SimClient(self.net, "sim", T)
        client.start()
        return client

    def run(self, seconds: float) -> None:
        self.loop.run(seconds)

    def do(self, process: Process, what: Callable[[], Any]) -> list[Any]:
        """``what`` in a thread of ``process``; the list gets its result, or the error that it raised."""
        results: list[Any] = []

        def carry_out() -> None:
            try:
                results.append(what())
            except SupervisorError as error:
                results.append(error)

        self.loop.spawn(carry_out, process)
        return results


@pytest.fixture
def rig() -> Any:
    rig = Rig()
    yield rig
    rig.loop.end(rig.processes)


def set_a(data: bytes, version: int = -1) -> Transaction:
    return Transaction("set", "1", (SetData("/a", data, version),))


def cut(rig: Rig, process: Process, *ways: str) -> None:
    for server in rig.ensemble.servers:
        for way in ways:
            rig.net.cable(process.name).cuts[server.number, way] += 1


def repair(rig: Rig, process: Process) -> None:
    rig.net.cable(process.name).cuts.clear()
    rig.net.repaired()


# -- time --------------------------------------------------------------------------------------------------------------


def test_a_wait_is_measured_by_the_clock_of_its_host(rig: Rig) -> None:
    slow = rig.process("slow", Clock(rate=0.5))
    woken: list[float] = []
    rig.loop.spawn(lambda: (rig.loop.sleep(1.0), woken.append(rig.loop.now_s)), slow)
    rig.run(5.0)
    assert woken == [pytest.approx(2.0)]


def test_what_happens_to_a_stopped_process_happens_when_it_goes_on(rig: Rig) -> None:
    process = rig.process("p")
    woken: list[float] = []
    rig.loop.spawn(lambda: (rig.loop.sleep(1.0), woken.append(rig.loop.now_s)), process)
    rig.run(0.5)
    rig.loop.stop(process)
    rig.run(5.0)
    assert woken == []
    rig.loop.cont(process)
    rig.run(0.1)
    assert woken == [pytest.approx(5.5)]


def test_the_threads_of_a_killed_process_unwind_and_run_no_further_line(rig: Rig) -> None:
    process, said = rig.process("p"), []
    names = Namespaces(rig.loop)

    def wait() -> None:
        try:
            names.threading.Event().wait()
            said.append("went on")
        finally:
            said.append("unwound")

    rig.loop.spawn(wait, process)
    rig.run(1.0)
    rig.loop.kill(process)
    rig.run(1.0)
    assert said == ["unwound"] and process.fibers == []


# -- sessions ----------------------------------------------------------------------------------------------------------


def test_a_session_lives_while_its_client_does_and_ends_within_its_time_after(rig: Rig) -> None:
    process = rig.process("p")
    client = rig.client(process)
    rig.run(60.0)
    assert client.link is Link.CONNECTED
    (granted,) = rig.ensemble.sessions.values()
    rig.loop.stop(process)
    rig.run(2.0)
    assert not granted.over
    rig.run(T)
    assert granted.over
    rig.loop.cont(process)
    rig.run(1.0)
    assert client.link is Link.LOST


def test_without_a_quorum_no_session_ends_and_nothing_is_written(rig: Rig) -> None:
    process = rig.process("p")
    client = rig.client(process)
    rig.run(1.0)
    for server in rig.ensemble.servers[:2]:
        rig.ensemble.take_down(server)
    rig.run(1.0)
    results = rig.do(process, lambda: client.commit(set_a(b"1")))
    rig.run(60.0)
    assert isinstance(results[0], NotSent) and client.link is Link.SUSPENDED
    for server in rig.ensemble.servers[:2]:
        rig.ensemble.bring_up(server)
    rig.run(5.0)
    assert client.link is Link.CONNECTED and len(rig.ensemble.sessions) == 1 and "set" not in rig.applied


def test_how_long_it_was_without_a_leader_is_known_whatever_took_it(rig: Rig) -> None:
    """Two servers, one after the other: the judge must know, or who could not renew is said to have been stopped for nothing."""
    first, second, _ = rig.ensemble.servers
    rig.ensemble.take_down(second)
    rig.run(5.0)
    assert rig.ensemble.leaderless == []
    rig.ensemble.take_down(first)
    rig.run(10.0)
    assert [(begun_at_s, ended_at_s) for begun_at_s, ended_at_s in rig.ensemble.leaderless] == [
        (5.0, float("inf"))
    ]
    rig.ensemble.bring_up(second)
    rig.run(20.0)
    ((begun_at_s, ended_at_s),) = rig.ensemble.leaderless
    assert begun_at_s == 5.0 and 15.0 <= ended_at_s < 35.0


def test_the_ephemerals_of_a_session_go_with_it(rig: Rig) -> None:
    process = rig.process("p")
    client = rig.client(process)
    rig.run(1.0)
    rig.do(process, lambda: client.commit(Transaction("make", "1", (Create("/e", b"", ephemeral=True),))))
    rig.run(1.0)
    assert "/e" in rig.ensemble.tree.nodes
    rig.loop.kill(process)
    rig.run(T + 1.0)
    assert "/e" not in rig.ensemble.tree.nodes


# -- followers ---------------------------------------------------------------------------------------------------------


def on_follower(rig: Rig, process: Process) -> SimClient:
    """A client of a server that does not lead: it can reach no other."""
    leader = rig.ensemble.leader.number
    for server in rig.ensemble.servers:
        if server.number != (leader + 1) % 3:
            rig.net.cable(process.name).cuts[server.number, UP] += 1
    client = rig.client(process)
    rig.run(10.0)
    assert client.link is Link.CONNECTED
    return client


def test_a_lagging_follower_shows_an_old_state_until_sync(rig: Rig) -> None:
    process = rig.process("p")
    client = on_follower(rig, process)
    follower = rig.ensemble.servers[(rig.ensemble.leader.number + 1) % 3]
    rig.ensemble.set_lag(follower, 2.0)
    rig.ensemble.found(set_a(b"new"))
    old = rig.do(process, lambda: client.read("/a"))
    rig.run(0.5)
    assert old[0].data == b"0"
    new = rig.do(process, lambda: (client.sync(), client.read("/a")))
    rig.run(3.0)
    assert new[0][1].data == b"new"


def test_a_client_reads_what_it_has_written_itself_on_a_lagging_follower(rig: Rig) -> None:
    process = rig.process("p")
    client = on_follower(rig, process)
    rig.ensemble.set_lag(rig.ensemble.servers[(rig.ensemble.leader.number + 1) % 3], 1.0)
    read = rig.do(process, lambda: (client.commit(set_a(b"mine")), client.read("/a")))
    rig.run(5.0)
    assert read[0][1].data == b"mine"


def test_a_follower_cut_off_from_its_peers_goes_on_answering_reads(rig: Rig) -> None:
    process = rig.process("p")
    client = on_follower(rig, process)
    rig.ensemble.cut_off(rig.ensemble.servers[(rig.ensemble.leader.number + 1) % 3])
    rig.ensemble.found(set_a(b"new"))
    read = rig.do(process, lambda: client.read("/a"))
    rig.run(0.5)
    assert read[0].data == b"0" and client.link is Link.CONNECTED


# -- messages ----------------------------------------------------------------------------------------------------------


def test_a_guard_that_fails_is_told_and_applies_nothing(rig: Rig) -> None:
    process = rig.process("p")
    client = rig.client(process)
    rig.run(1.0)
    results = rig.do(process, lambda: client.commit(set_a(b"1", version=7)))
    rig.run(1.0)
    assert isinstance(results[0], GuardFailed) and rig.ensemble.tree.nodes["/a"].data == b"0"


def test_an_answer_that_is_cut_off_leaves_the_outcome_unknown_though_it_was_applied(rig: Rig) -> None:
    process = rig.process("p")
    client = rig.client(process)
    rig.run(1.0)
    cut(rig, process, DOWN)
    results = rig.do(process, lambda: client.commit(set_a(b"1")))
    rig.run(10.0)
    assert isinstance(results[0], OutcomeUnknown) and rig.ensemble.tree.nodes["/a"].data == b"1"


def test_a_request_that_was_held_back_may_be_applied_after_its_client_gave_up() -> None:
    late = set()
    for seed in range(20):
        rig = Rig(seed)
        process = rig.process("p")
        client = rig.client(process)
        rig.run(1.0)
        cut(rig, process, UP)
        results = rig.do(process, lambda client=client: client.commit(set_a(b"late")))
        rig.run(3.0)
        repair(rig, process)
        rig.run(2.0)
        if results and isinstance(results[0], OutcomeUnknown):
            late.add(rig.ensemble.tree.nodes["/a"].data)
        rig.loop.end(rig.processes)
    assert late == {b"0", b"late"}


def test_while_cut_off_a_request_is_not_sent_or_not_answered(rig: Rig) -> None:
    process = rig.process("p")
    client = rig.client(process)
    rig.run(1.0)
    cut(rig, process, UP, DOWN)
    results = rig.do(process, lambda: client.read("/a"))
    rig.run(10.0)
    more = rig.do(process, lambda: client.read("/a"))
    rig.run(1.0)
    assert isinstance(results[0], Unreachable) and isinstance(more[0], NotSent)


def test_a_watch_fires_once_when_its_server_has_applied_the_change_and_when_the_connection_goes(
    rig: Rig,
) -> None:
    process = rig.process("p")
    client = rig.client(process)
    rig.run(1.0)
    fired: list[float] = []
    rig.do(process, lambda: client.read("/a", lambda: fired.append(rig.loop.now_s)))
    rig.run(1.0)
    rig.ensemble.found(set_a(b"1"))
    rig.ensemble.found(set_a(b"2"))
    rig.run(1.0)
    assert len(fired) == 1
    rig.do(process, lambda: client.read("/a", lambda: fired.append(rig.loop.now_s)))
    rig.run(1.0)
    cut(rig, process, UP, DOWN)
    rig.run(10.0)
    assert len(fired) == 2 and client.link is Link.SUSPENDED


def test_a_restored_ensemble_knows_the_sessions_of_its_snapshot_only(rig: Rig) -> None:
    before, after = rig.process("before"), rig.process("after")
    kept = rig.client(before)
    rig.run(1.0)
    snapshot = rig.ensemble.take_snapshot(0)
    rig.ensemble.found(set_a(b"lost"))
    lost = rig.client(after)
    rig.run(1.0)
    rig.ensemble.restore(snapshot, higher=True)
    rig.run(3.0)
    assert (kept.link, lost.link) == (Link.CONNECTED, Link.LOST)
    assert rig.ensemble.tree.nodes["/a"].data == b"0"
