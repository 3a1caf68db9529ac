"""A restored registry and its acceptance, as contenders live through it."""

from __future__ import annotations

from pathlib import Path

from supervisor.coord.election import ACCEPTER, RestoredRegistry, accept
from supervisor.model.records import Acceptance, EpochRecord, LeaderHint
from supervisor.model.transaction import ANY_VERSION, SetData, Transaction
from supervisor.records import codec
from tests.fakes.zookeeper import MemoryZoo
from tests.unit.coord.rig import PATHS, MemoryEpochs, Rig, bootstrapped, running
from tests.waiting import wait_until


def accepted(zoo: MemoryZoo, epochs: MemoryEpochs) -> Acceptance:
    """As the command does it."""
    while True:
        cluster, epoch, before = zoo.client().read_many((PATHS.cluster, PATHS.epoch, PATHS.accepted)).nodes
        assert cluster is not None and epoch is not None
        record = codec.decode(EpochRecord, epoch.data, "")
        number = max(record.epoch, epochs.newest_epoch_above(0) or 0) + 1
        acceptance = Acceptance(id=f"a{number}", epoch=number, by="me", at="t", wait_s=32.0)
        epochs.record_epoch(number, ACCEPTER, acceptance.id)
        zoo.client().commit(
            accept(PATHS, RestoredRegistry(cluster, record, epoch.stat.version, before), acceptance)
        )
        return acceptance


def recorded_distrust(zoo: MemoryZoo) -> str | None:
    node = zoo.client().read(PATHS.leader)
    return codec.decode(LeaderHint, node.data, "").distrust if node is not None else None


def ring(zoo: MemoryZoo) -> None:
    zoo.client().commit(Transaction("ring", "r", (SetData(PATHS.doorbell, b"a", ANY_VERSION),)))


def test_the_leader_is_fenced_out_and_all_trust_again(tmp_path: Path) -> None:
    zoo, epochs = bootstrapped(), MemoryEpochs()
    zoo.put(PATHS.doorbell, b"")
    saved = zoo.snapshot()
    a, b = Rig(zoo, epochs, tmp_path / "a", "a"), Rig(zoo, epochs, tmp_path / "b", "b")
    with running(a, b):
        wait_until(lambda: any(term.recorded for rig in (a, b) for term in rig.terms), 10)
        ring(zoo)
        wait_until(lambda: all(rig.trust._memory.doorbell_version == 1 for rig in (a, b)), 10)
    for rig in (a, b):  # as it does every five seconds
        rig.trust.remember(zoo.zxid)
    for round_number in (1, 2):
        zoo.restore(saved, zoo.zxid + 1000)  # each time to a state from before any acceptance
        a, b = Rig(zoo, epochs, tmp_path / "a", "a"), Rig(zoo, epochs, tmp_path / "b", "b")
        with running(a, b):
            wait_until(lambda a=a, b=b: a.trust.reason and b.trust.reason, 10)  # type: ignore[misc]
            wait_until(lambda: recorded_distrust(zoo), 10)
            epoch = accepted(zoo, epochs).epoch
            wait_until(
                lambda a=a, b=b, epoch=epoch: any(  # type: ignore[misc]
                    term.epoch > epoch and term.recorded for rig in (a, b) for term in rig.terms
                ),
                10,
                f"a trusted term, round {round_number}",
            )
            wait_until(lambda a=a, b=b: not a.trust.reason and not b.trust.reason, 10)  # type: ignore[misc]
            wait_until(
                lambda: zoo.client().read(PATHS.leader) is not None and recorded_distrust(zoo) is None, 10
            )
            assert not any(term.recorded for rig in (a, b) for term in rig.terms if term.epoch < epoch)


def test_distrust_that_turns_out_later_is_said_too(tmp_path: Path) -> None:
    """By the store, after the election: a host without a memory."""
    zoo, epochs = bootstrapped(), MemoryEpochs()
    epochs.kept[7] = ("x", "op7")
    rig = Rig(zoo, epochs, tmp_path / "zxid")
    with running(rig):
        wait_until(lambda: "epoch 7" in (recorded_distrust(zoo) or ""), 10)
        assert len(rig.terms) == 1
