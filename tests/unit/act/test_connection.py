"""A leader writes for jobs on the connection on which its contender has looked at the registry, or not at all."""

from __future__ import annotations

import pytest

from supervisor.act.carry_out import ActionExecutor
from supervisor.coord.term import Term
from supervisor.errors import NotSent
from supervisor.model.transaction import ANY_VERSION, SetData, Transaction
from supervisor.records.layout import Layout
from tests.fakes.zookeeper import MemoryClient
from tests.unit.coord.rig import PATHS, MemoryEpochs, Rig, bootstrapped, running
from tests.waiting import wait_until

DOORBELL = Transaction("ring", "r", (SetData(PATHS.doorbell, b"j", ANY_VERSION),))


def test_nothing_goes_out_on_a_connection_on_which_nobody_has_looked() -> None:
    """ZooKeeper was restored in between, and its backup has this session and this epoch: the fence still holds."""
    zoo = bootstrapped()
    zoo.put(PATHS.doorbell, b"")
    client = MemoryClient(zoo)
    client.start()
    term = Term(1, 0, client, 10.0, depose=lambda _why: None, connection=1)
    executor = ActionExecutor(term, Layout("/t"))
    executor.commit(lambda _context: DOORBELL)
    zoo.disconnect(client)
    zoo.reconnect(client)
    with pytest.raises(NotSent):
        executor.commit(lambda _context: DOORBELL)
    term.set_trust_check(2)
    executor.commit(lambda _context: DOORBELL)
    executor.close()


def test_a_leader_that_has_looked_again_goes_on(tmp_path) -> None:  # type: ignore[no-untyped-def]
    rig = Rig(bootstrapped(), MemoryEpochs(), tmp_path / "zxid")
    with running(rig):
        term = rig.leads()
        assert term.connection == rig.client.connections == 1
        rig.zoo.disconnect(rig.client)
        rig.zoo.reconnect(rig.client)
        wait_until(lambda: term.connection == 2, 10)
        assert rig.leads() is term and not term.over.is_set()
