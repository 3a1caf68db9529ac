"""F22: a server that has lost its quorum offers read-only service (``readonlymode.enabled``). It is no registry: what it says may be
old, and nothing can be written. One ensemble for the module; after each test all its servers are up again."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from kazoo.client import KazooClient
from kazoo.protocol.states import KeeperState

from supervisor.clients.zookeeper import Link, ZooClient
from supervisor.clients.zookeeper_probe import probe_server
from supervisor.demo.ensemble import EmbeddedEnsemble
from supervisor.errors import NotSent, Unreachable
from supervisor.model.transaction import ANY_VERSION, SetData, Transaction
from tests.integration.test_commands import UNREACHABLE_MAX_S, Site
from tests.testbed.election_world import ElectionWorld
from tests.testbed.ensembles import repair
from tests.waiting import wait_until

LEFT = 2
"""The server that stays up alone."""


@pytest.fixture(scope="module")
def module_ensemble(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedEnsemble]:
    with EmbeddedEnsemble(
        tmp_path_factory.mktemp("zookeeper"), jvm_options=["-Dreadonlymode.enabled=true"]
    ) as ensemble:
        yield ensemble


@pytest.fixture
def ensemble(module_ensemble: EmbeddedEnsemble) -> EmbeddedEnsemble:
    repair(module_ensemble)
    return module_ensemble


def leave_one(ensemble: EmbeddedEnsemble) -> None:
    for i in range(3):
        if i != LEFT:
            ensemble.kill(i)
    wait_until(lambda: probe_server(ensemble.address(LEFT)).mode == "read-only", 30, "read-only service")
    assert ensemble.modes() == (None, None, None)


def restore_quorum(ensemble: EmbeddedEnsemble) -> None:
    """``LEFT`` goes on as the process that it is: ``repair`` would restart it, too, if the others took long."""
    for i in range(3):
        if i != LEFT:
            ensemble.restart(i)
    ensemble.wait_serving(60)


def test_a_read_only_server_is_no_registry(ensemble: EmbeddedEnsemble, zk_root: str, tmp_path: Path) -> None:
    """It grants no session and takes none over, reads and writes are refused, commands say 5; then the same session goes on."""
    site = Site(tmp_path, ensemble.hosts, zk_root)
    assert site.run("submit", site.spec("a")).returncode == 0
    (old := ZooClient(ensemble.hosts, 60.0)).start()
    old.wait_connected(30)
    session, write = (
        old.session,
        Transaction("ring", "r", (SetData(f"{zk_root}/doorbell", b"", ANY_VERSION),)),
    )
    leave_one(ensemble)
    (new := ZooClient(ensemble.hosts, 60.0)).start()
    with pytest.raises(Unreachable):
        new.wait_connected(6)
    assert new.session is None and old.link is Link.SUSPENDED
    with pytest.raises(Unreachable):
        old.read(zk_root)
    with pytest.raises(NotSent):
        old.commit(write)
    for words in (("submit", site.spec("b")), ("list",)):
        ran = site.run(*words, timeout_s=UNREACHABLE_MAX_S)
        assert ran.returncode == 5 and site.hosts in ran.stderr, (
            f"{words}: {ran.returncode}: {ran.stdout}{ran.stderr}"
        )
    restore_quorum(ensemble)
    for client in (old, new):
        client.wait_connected(30)
        client.commit(write)
    assert old.session == session
    assert site.run("cancel", "a").returncode == 0
    assert site.run("show", "b").returncode == 3, "it was not acknowledged, and is not there"
    assert new.close() and old.close()


def test_nobody_leads_on_a_read_only_server(ensemble: EmbeddedEnsemble, zk_root: str, tmp_path: Path) -> None:
    """The leader writes nothing more, and resigns by its own deadline; the servers back, one leads, under a later epoch."""
    world = ElectionWorld(ensemble.hosts, zk_root, tmp_path)
    try:
        leader, standby = world.leader_and_standby(timeout_s=6.0)
        leave_one(ensemble)
        written = len(leader.all("wrote"))
        leader.wait("stepped_down")
        assert len(leader.all("wrote")) == written
        assert (leader.epochs, standby.epochs) == ([1], [])
        restore_quorum(ensemble)
        wait_until(
            lambda: any(each["epoch"] > 1 for c in (leader, standby) for each in c.all("wrote")),
            60,
            "a leader that writes",
        )
        epochs = sorted(leader.epochs + standby.epochs)
        assert epochs == sorted(set(epochs))
    finally:
        world.close()


def test_who_does_not_ask_for_it_gets_no_read_only_session(tmp_path: Path) -> None:
    """A server grants them only where local sessions are on: there a client that asks is served, as is shown first."""
    with EmbeddedEnsemble(tmp_path, jvm_options=["-Dreadonlymode.enabled=true"]) as ensemble:
        for i in range(3):
            ensemble.stop(i)
        with (tmp_path / f"node{LEFT}" / "zoo.cfg").open("a") as configuration:
            configuration.write("localSessionsEnabled=true\n")
        ensemble.restart(LEFT)
        wait_until(lambda: probe_server(ensemble.address(LEFT)).mode == "read-only", 30, "read-only service")
        reader = KazooClient(ensemble.address(LEFT), read_only=True)
        reader.start(20)
        assert reader.client_state == KeeperState.CONNECTED_RO and reader.get_children("/") == ["zookeeper"]
        (ours := ZooClient(ensemble.address(LEFT), 60.0)).start()
        with pytest.raises(Unreachable):
            ours.wait_connected(6)
        assert ours.session is None and ours.connections == 0
        with pytest.raises(Unreachable):
            ours.read("/zookeeper")
        ours.close()
        reader.stop()
        reader.close()
