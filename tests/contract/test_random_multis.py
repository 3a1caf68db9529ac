"""The ensemble in memory against a real one: random multis of two sessions have the same answers, and leave the same tree.

Explorer, simulation and crash points rest on ``tests.fakes.zookeeper_tree``; the cases that somebody thought of are in
``test_zookeeper_contract.py``.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from supervisor.clients.zookeeper import ZooClient
from supervisor.demo.ensemble import EmbeddedEnsemble
from supervisor.errors import GuardFailed, SupervisorError
from supervisor.model.transaction import ANY_VERSION, Check, Create, Delete, Op, SetData, Transaction
from tests.fakes.zookeeper import MemoryClient, MemoryZoo
from tests.waiting import wait_until

PATHS = ("/a", "/b", "/a/x", "/a/y", "/b/x")
MULTIS = 200


def op(lots: random.Random) -> Op:
    path, version = lots.choice(PATHS), lots.choice([*[ANY_VERSION] * 5, 0, 0, 1, 2])
    kinds: list[Callable[[], Op]] = [
        lambda: Create(path, b"%d" % lots.randrange(9), lots.random() < 0.3),
        lambda: SetData(path, b"set", version),
        lambda: Delete(path, version),
        lambda: Check(path, version),
    ]
    return lots.choices(kinds, [4, 5, 2, 2])[0]()


class World:
    """An ensemble with two sessions, below ``root``."""

    def __init__(self, connect: Callable[[], Any], root: str) -> None:
        self.connect, self.root = connect, root
        self.clients = [connect(), connect()]
        self.clients[0].commit(Transaction("root", "0", (Create(root, b""),)))

    def answer(self, who: int, ops: tuple[Op, ...]) -> object:
        try:
            multi = Transaction("random", "", tuple(replace(one, path=self.root + one.path) for one in ops))
            return self.clients[who].commit(multi).versions
        except GuardFailed as failed:
            return failed.path.removeprefix(self.root), failed.kind, failed.index
        except SupervisorError as error:
            return type(error).__name__

    def end_session(self, who: int) -> None:
        self.clients[who].close()
        self.clients[who] = self.connect()

    def tree(self) -> dict[str, Any]:
        client, owners = self.clients[0], [0, *(each.session.id for each in self.clients)]
        client.sync()
        found = {path: client.read(self.root + path) for path in PATHS}
        return {
            path: node
            and (
                node.data,
                node.stat.version,
                owners.index(node.stat.ephemeral_owner),
                client.children(self.root + path),
            )
            for path, node in found.items()
        }


@pytest.mark.parametrize("seed", [1, 3])
def test_random_multis(embedded_ensemble: EmbeddedEnsemble, zk_root: str, seed: int) -> None:
    opened: list[ZooClient] = []

    def connect() -> ZooClient:
        opened.append(ZooClient(embedded_ensemble.hosts, 10.0))
        opened[-1].start()
        opened[-1].wait_connected(20)
        return opened[-1]

    zoo, lots = MemoryZoo(), random.Random(seed)

    def connect_in_memory() -> MemoryClient:
        return zoo.client()

    try:
        real, fake = World(connect, zk_root), World(connect_in_memory, zk_root)
        committed = 0
        for number in range(MULTIS):
            who, ops = lots.randrange(2), tuple(op(lots) for _ in range(lots.choice([1, 1, 1, 2, 3])))
            answer = real.answer(who, ops)
            assert fake.answer(who, ops) == answer, f"multi {number} of session {who}: {ops}"
            committed += (
                isinstance(answer, tuple) and len(answer) == len(ops) and not isinstance(answer[0], str)
            )
            if number % 30 == 29:
                real.end_session(who)
                fake.end_session(who)
            if number % 10 == 9:
                wait_until(lambda: real.tree() == fake.tree(), 10, f"the same tree after multi {number}")
        assert MULTIS / 10 < committed < MULTIS * 9 / 10, "of either kind there are many"
    finally:
        for client in opened:
            client.close()
