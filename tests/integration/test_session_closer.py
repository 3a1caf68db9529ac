"""The session closer on a real ensemble: what a crash leaves behind is gone at once."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from supervisor.clients import processes
from supervisor.clients.zookeeper import ZooClient
from supervisor.clock import boottime_s
from supervisor.daemon.process.session_closer import SessionCloser
from supervisor.demo.ensemble import EmbeddedEnsemble
from supervisor.model.transaction import Create, Transaction
from tests.testbed.contender_process import ContenderProcess
from tests.testbed.election_world import ElectionWorld
from tests.waiting import wait_until

LONG_S = 40.0  # a session time that no test waits for


@pytest.fixture
def world(embedded_ensemble: EmbeddedEnsemble, zk_root: str, tmp_path: Path) -> Iterator[ElectionWorld]:
    world = ElectionWorld(embedded_ensemble.hosts, zk_root, tmp_path)
    yield world
    world.close()


def lead(world: ElectionWorld) -> tuple[ContenderProcess, processes.ProcessId]:
    """A leader that holds /leader for ``LONG_S``, and its session closer."""
    leader = world.start("a", session_closer=True, timeout_s=LONG_S)
    leader.wait("wrote")
    session_closer = processes.identify(leader.wait("session_closer")["pid"])
    assert session_closer is not None
    return leader, session_closer


def wait_gone(world: ElectionWorld, timeout_s: float = 20) -> float:
    wait_until(
        lambda: world.zoo.read(world.layout.leader) is None, timeout_s, "the end of /leader", period_s=0.002
    )
    return boottime_s()


def gone(process: processes.ProcessId) -> None:
    wait_until(lambda: not processes.alive(process), 10, "the end of the session closer")


def test_kill_9_closes_the_sessions_at_once(
    world: ElectionWorld, record_property: Callable[[str, object], None]
) -> None:
    leader, session_closer = lead(world)
    leader.wait("wrote", 20)  # a second or two: it has loaded everything by now
    killed_at_s = leader.send_signal(signal.SIGKILL)
    gone_after_s = wait_gone(world) - killed_at_s
    record_property("ephemeral_gone_s", round(gone_after_s, 3))
    print(f"ephemeral gone {gone_after_s * 1000:.0f} ms after kill -9")
    gone(session_closer)


def test_the_signals_of_a_stop_do_not_end_it_early(world: ElectionWorld) -> None:
    leader, session_closer = lead(world)
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        os.kill(session_closer.pid, number)
    leader.send_signal(signal.SIGKILL)
    wait_gone(world)
    gone(session_closer)


def test_it_is_in_no_group_of_the_supervisor_and_knows_no_secret_in_public(world: ElectionWorld) -> None:
    leader, session_closer = lead(world)
    password = leader.all("sessions")[-1]["passwords"][0]
    assert os.getsid(session_closer.pid) == session_closer.pid != os.getsid(leader.pid)
    for name in ("cmdline", "environ"):
        assert password.encode() not in Path(f"/proc/{session_closer.pid}/{name}").read_bytes()


def test_it_does_not_outlive_a_graceful_stop(world: ElectionWorld) -> None:
    leader, session_closer = lead(world)
    leader.command("stop")
    assert leader.wait("stopped")["in_time"]
    assert leader.wait_ended(10) == 0
    assert not processes.alive(session_closer)


def test_a_supervisor_that_is_only_stopped_is_not_dead(world: ElectionWorld) -> None:
    leader, session_closer = lead(world)
    leader.send_signal(signal.SIGSTOP)
    seen_at_s = boottime_s()
    wait_until(lambda: boottime_s() > seen_at_s + 1.0, 5)
    assert processes.alive(session_closer)
    assert world.zoo.read(world.layout.leader) is not None
    leader.send_signal(signal.SIGCONT)
    writes = len(leader.all("wrote"))
    leader.wait("wrote", writes + 5)
    assert leader.epochs == [1]


@pytest.fixture
def ephemeral(world: ElectionWorld) -> Iterator[tuple[ZooClient, str]]:
    """A session of this process, and a node of it."""
    client = ZooClient(world.hosts, LONG_S)
    client.start()
    client.wait_connected(10)
    client.commit(Transaction("hold", "h", (Create(f"{world.layout.root}/held", b"", ephemeral=True),)))
    yield client, f"{world.layout.root}/held"
    client.close()


def test_the_end_of_the_pipe_proves_nothing(world: ElectionWorld, ephemeral: tuple[ZooClient, str]) -> None:
    client, path = ephemeral
    session_closer = SessionCloser(world.hosts)
    assert client.session is not None
    session_closer.publish_sessions((client.session,))
    child = session_closer._child
    assert child is not None
    assert not child.wait(1.0)  # closes the pipe
    assert world.zoo.read(path) is not None
    child.kill()


def test_a_killed_session_closer_is_replaced_and_told_again(
    world: ElectionWorld, ephemeral: tuple[ZooClient, str]
) -> None:
    client, _ = ephemeral
    session_closer = SessionCloser(world.hosts)
    assert client.session is not None
    session_closer.publish_sessions((client.session,), of="agent")
    first = session_closer.pid
    assert first is not None
    os.kill(first, signal.SIGKILL)
    wait_until(lambda: session_closer.pid is None, 10)
    session_closer.check()
    assert session_closer.pid not in (None, first)
    session_closer.publish_sessions((), of="agent")
    session_closer.stop()
    assert session_closer.pid is None
