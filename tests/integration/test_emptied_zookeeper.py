"""A client of a ZooKeeper that comes back with less than the client has seen: wiped, or restored to an older ZooKeeper epoch."""

from __future__ import annotations

import shutil
from pathlib import Path

from supervisor.clients.zookeeper import Link, ZooClient
from supervisor.demo.ensemble import EmbeddedEnsemble
from supervisor.model.transaction import ANY_VERSION, Create, SetData, Transaction
from tests.waiting import wait_until

SESSION_S = 4.0


def test_a_client_that_has_seen_more_than_the_servers_know_learns_that_its_session_is_gone(
    tmp_path: Path,
) -> None:
    """Every server turns such a client away before it looks at the session (ZooKeeper: "client must try another server"). A
    supervisor would wait for ever, and no job could be placed on its host until somebody restarted it.

    Meanwhile it has still seen what it has seen: a supervisor that was stopped between the answer to its look and its
    judgement of it (a paused VM) took the zxid 0 of the connection to come for an older ZooKeeper, and distrusted it for good.
    """
    seen: list[int] = []

    def is_over() -> bool:
        seen.append(client.last_zxid)
        return client.link is Link.LOST

    with EmbeddedEnsemble(tmp_path, nodes=1) as ensemble:
        client = ZooClient(ensemble.hosts, SESSION_S)
        client.start()
        client.wait_connected(30)
        client.commit(Transaction("make", "1", (Create("/a", b""),)))
        for n in range(20):
            client.commit(Transaction("set", str(n), (SetData("/a", b"", ANY_VERSION),)))
        told = client.last_zxid
        ensemble.stop(0)
        shutil.rmtree(tmp_path / "node0" / "data")
        ensemble.restart(0)
        ensemble.wait_serving(60)
        wait_until(is_over, 60, "the end of a session that the server has never heard of")
        client.close()
    assert set(seen) == {told} and told > 0
