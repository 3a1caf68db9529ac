"""What an agent has against starting what is assigned to it, with no leader there to hold it back."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from supervisor.coord.election import (
    ACCEPTER,
    Candidate,
    RestoredRegistry,
    accept,
    publish_distrust,
    take_leadership,
)
from supervisor.coord.start_doubt import StartDoubt
from supervisor.coord.trust import RegistryEvidence, Trust
from supervisor.model.records import Acceptance, EpochRecord, LeaderHint
from supervisor.model.transaction import Reads
from supervisor.records import codec
from tests.fakes.zookeeper import MemoryZoo
from tests.unit.coord.rig import CLUSTER, PATHS, MemoryEpochs, bootstrapped


class Host:
    """``new``: without a memory."""

    def __init__(self, zoo: MemoryZoo, directory: Path) -> None:
        self.zoo, self.epochs = zoo, MemoryEpochs()
        self.trust = Trust(directory / "zxid", CLUSTER.id)
        self.doubt = StartDoubt(PATHS, self.trust, self.epochs)

    def says(self, assigned_zxid: int = 1 << 40) -> str:
        return self.doubt.of(self.zoo.client(), assigned_zxid) or ""

    def take_note(self) -> None:
        client = self.zoo.client()
        cluster, accepted, doorbell = client.read_many((PATHS.cluster, PATHS.accepted, PATHS.doorbell)).nodes
        self.trust.judge(PATHS, RegistryEvidence(cluster, accepted, doorbell, self.zoo.zxid))


def test_a_new_host_learns_it_from_the_leader(tmp_path: Path) -> None:
    zoo = bootstrapped(3)
    host = Host(zoo, tmp_path)
    assert host.says() == ""
    zoo.put(PATHS.leader, codec.encode(LeaderHint(supervisor="s1", epoch=3, address="a")))
    assert host.says() == ""
    version = zoo.client().read(PATHS.epoch).stat.version  # type: ignore[union-attr]
    zoo.client().commit(
        publish_distrust(
            PATHS,
            Candidate("s1", "a"),
            epoch=3,
            fence=version,
            op_id="x",
            distrust="it was restored",
        )
    )
    assert "s1 does not trust" in host.says() and "it was restored" in host.says()


def test_a_new_host_learns_it_from_the_store_where_nobody_leads(tmp_path: Path) -> None:
    host = Host(bootstrapped(3), tmp_path)
    host.epochs.kept[4] = ("s1", "op4")
    assert "epoch 4" in host.says()
    del host.epochs.kept[4]
    assert host.says() == ""
    host.epochs.down = True
    assert host.says() == "", "asked once per term"


def test_what_it_remembers_counts_without_anybody(tmp_path: Path) -> None:
    zoo = bootstrapped(3)
    zoo.put(PATHS.doorbell, b"")
    host = Host(zoo, tmp_path)
    saved = zoo.snapshot()
    zoo.put(PATHS.doorbell, b"a")
    host.take_note()
    zoo.restore(saved, zoo.zxid + 100)
    assert "doorbell" in host.says()


def test_an_assignment_from_before_the_acceptance_is_not_started(tmp_path: Path) -> None:
    zoo = bootstrapped(3)
    host = Host(zoo, tmp_path)
    client = zoo.client()
    cluster, epoch = client.read_many((PATHS.cluster, PATHS.epoch)).nodes
    assert cluster is not None and epoch is not None
    seen = codec.decode(EpochRecord, epoch.data, "")
    acceptance = Acceptance(id="a1", epoch=4, by="me", at="t", wait_s=32.0)
    before = zoo.zxid
    host.epochs.record_epoch(4, ACCEPTER, "a1")
    client.commit(accept(PATHS, RestoredRegistry(cluster, seen, epoch.stat.version, None), acceptance))
    assert "note" in host.says()
    host.take_note()
    assert "before" in host.says(before)
    assert host.says(zoo.zxid + 1) == ""
    node = client.read(PATHS.accepted)
    assert node is not None
    zoo.put(PATHS.accepted, codec.encode(replace(acceptance, waited=True)))
    assert host.says(zoo.zxid) == "", "the end of the wait does not move it"


def test_a_look_that_is_older_than_what_the_contender_has_remembered_since_is_no_restore(
    tmp_path: Path,
) -> None:
    """The agent's look and the contender's come from two threads: the slower one has not gone back in time."""
    zoo = bootstrapped(3)
    zoo.put(PATHS.doorbell, b"")
    host = Host(zoo, tmp_path)
    host.take_note()
    client = zoo.client()
    read_many = client.read_many

    def overtaken(paths: Sequence[str]) -> Reads:
        reads = read_many(paths)
        zoo.put(PATHS.doorbell, b"a")
        host.take_note()
        return reads

    client.read_many = overtaken  # type: ignore[method-assign]
    assert host.doubt.of(client, 1 << 40) is None


def test_an_election_while_the_store_is_asked_is_no_restore(tmp_path: Path) -> None:
    zoo = bootstrapped(3)
    host = Host(zoo, tmp_path)
    newest = host.epochs.newest_epoch_above

    def elected(epoch: int) -> int | None:
        node = zoo.client().read(PATHS.epoch)
        assert node is not None
        seen = codec.decode(EpochRecord, node.data, "")
        if seen.epoch == 3:
            zoo.client().commit(
                take_leadership(
                    PATHS,
                    Candidate("s2", "a"),
                    epoch=4,
                    op_id="op4",
                    seen=seen,
                    version=node.stat.version,
                )
            )
            host.epochs.kept[4] = ("s2", "op4")
        return newest(epoch)

    host.epochs.newest_epoch_above = elected  # type: ignore[method-assign]
    assert "restored" not in host.says()
    assert host.says() == ""
