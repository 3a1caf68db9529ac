"""Clients of the ensemble in memory that ZooKeeper knows by ids, and ACLs that it checks as the real one does.

``test_zookeeper_security.py`` holds this and real servers to the same answers.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from supervisor.errors import AccessDenied, NotSent
from supervisor.model.transaction import Check, Committed, Create, Delete, Node, Reads, SetData, Transaction
from supervisor.model.zookeeper_access import OPEN_ACL, PERM_ALL, PERM_READ, Acl
from tests.fakes.zookeeper import MemoryClient, MemoryZoo

READ, WRITE, CREATE, DELETE, ADMIN = 1, 2, 4, 8, 16


class GuardedZoo(MemoryZoo):
    """``acls``: of the znodes that have another one than everyone's. ``sets``: how many ACLs were replaced."""

    def __init__(self) -> None:
        super().__init__()
        self.acls: dict[str, Acl] = {}
        self.sets = 0

    def known_as(self, *ids: str, acl: Acl = OPEN_ACL, **arguments: Any) -> GuardedClient:
        client = GuardedClient(self, ids, acl, **arguments)
        client.start()
        return client

    def acl(self, path: str) -> Acl:
        return self.acls.get(path, OPEN_ACL)

    def open_znodes(self) -> list[str]:
        return [path for path in self.tree() if self.acl(path) == OPEN_ACL]


class GuardedClient(MemoryClient):
    """``before_set_acl`` is called before each change of an ACL; it may raise, as a kill would."""

    def __init__(self, zoo: GuardedZoo, ids: Sequence[str], acl: Acl, **arguments: Any) -> None:
        super().__init__(zoo, **arguments)
        self.zoo, self.ids, self.acl = zoo, tuple(ids), acl
        self.before_set_acl: Callable[[str], None] = lambda _path: None

    def may(self, path: str, perms: int) -> bool:
        known = {"world:anyone", *self.ids}
        return any(entry.who in known and entry.perms & perms for entry in self.zoo.acl(path))

    def who_am_i(self) -> tuple[str, ...]:
        return self.ids

    def read_acl(self, path: str) -> Acl | None:
        if self.read_freely(path) is None:
            return None
        self._need(path, READ | ADMIN)
        return self.zoo.acl(path)

    def set_acl(self, path: str, acl: Acl) -> bool:
        self.before_set_acl(path)
        if self.read_freely(path) is None:
            return False
        self._need(path, ADMIN)
        self.zoo.acls[path] = acl
        self.zoo.sets += 1
        return True

    def read_freely(self, path: str) -> Node | None:
        return super().read(path)

    def read(self, path: str, watch: Callable[[], None] | None = None) -> Node | None:
        self._need(path, READ)
        return super().read(path, watch)

    def read_many(self, paths: Sequence[str]) -> Reads:
        for path in paths:
            self._need(path, READ)
        return super().read_many(paths)

    def children(self, path: str, watch: Callable[[], None] | None = None) -> tuple[str, ...] | None:
        self._need(path, READ)
        return super().children(path, watch)

    def _need(self, path: str, perms: int) -> None:
        if self.read_freely(path) is not None and not self.may(path, perms):
            raise AccessDenied(f"ZooKeeper does not permit reading {path}: NoAuth")

    def commit(self, tx: Transaction, connection: int | None = None) -> Committed:
        if connection not in (None, self.connections):
            raise NotSent(f"connection {connection} is gone")
        made: set[str] = set()
        for op in tx.ops:
            parent = op.path.rpartition("/")[0] or "/"
            match op:
                case Create(path, _, _):
                    allowed = parent in made or self.may(parent, CREATE)
                    made.add(path)
                case SetData(path, _, _):
                    allowed = self.may(path, WRITE)
                case Check(path, _):
                    allowed = self.may(path, READ)
                case Delete(path, _):
                    allowed = self.may(parent, DELETE)
            if not allowed:
                raise AccessDenied(f"ZooKeeper does not permit {tx.what} on {op.path}: NoAuth")
        done = super().commit(tx, connection)
        for op in tx.ops:
            if isinstance(op, Create):
                self.zoo.acls[op.path] = self.acl
            elif isinstance(op, Delete):
                self.zoo.acls.pop(op.path, None)
        return done


def admins(*ids: str, readers: Sequence[str] = ()) -> Acl:
    from supervisor.model.zookeeper_access import acl_of

    return acl_of(ids, tuple(readers))


__all__ = ["ADMIN", "PERM_ALL", "PERM_READ", "GuardedClient", "GuardedZoo", "admins"]
