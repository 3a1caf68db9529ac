"""What ZooKeeper's data tree does with a multi: the one implementation, for the fake ensemble and for the explorer.

``Tree`` changes in place and copies cheaply, so it serves both an ensemble that lives long (``tests.fakes.zookeeper``)
and an explorer that keeps hundreds of thousands of states (``tests.explore``). The contract suite holds it, through
``MemoryZoo``, to the behaviour of real ZooKeeper.
"""

from __future__ import annotations

from typing import NamedTuple, Self

from supervisor.errors import GuardFailed, InvalidInput, SupervisorError
from supervisor.model.transaction import (
    ANY_VERSION,
    Check,
    Create,
    Delete,
    Node,
    Op,
    SetData,
    Stat,
    Transaction,
)


class Znode(NamedTuple):
    """``owner``: session of an ephemeral, else 0."""

    data: bytes
    version: int
    czxid: int
    mzxid: int
    owner: int = 0
    cversion: int = 0


class Tree:
    """All znodes by path, and the names of each one's children."""

    __slots__ = ("names", "nodes", "zxid")

    def __init__(self) -> None:
        self.nodes: dict[str, Znode] = {"/": Znode(b"", 0, 0, 0)}
        self.names: dict[str, set[str]] = {}
        self.zxid = 0

    def copy(self) -> Self:
        other = type(self).__new__(type(self))
        other.nodes = self.nodes.copy()
        other.names = {path: names.copy() for path, names in self.names.items()}
        other.zxid = self.zxid
        return other

    def read(self, path: str) -> Node | None:
        node = self.nodes.get(path)
        if node is None:
            return None
        return Node(
            node.data, Stat(node.version, node.mzxid, node.czxid, node.owner, len(self.names.get(path, ())))
        )

    def children(self, path: str) -> tuple[str, ...] | None:
        return tuple(sorted(self.names.get(path, ()))) if path in self.nodes else None

    def ephemerals(self, session_id: int) -> list[str]:
        """Of this session, children before parents."""
        return sorted((path for path, node in self.nodes.items() if node.owner == session_id), reverse=True)

    def apply(self, tx: Transaction, session_id: int) -> tuple[int | None, ...]:
        """All operations or none; the new data version of each (0 for a create, None for a check or delete).

        Raises GuardFailed for the first that fails, as the real one reports it, and InvalidInput.
        """
        undo: list[tuple[str, Znode | None]] = []
        zxid = self.zxid + 1
        try:
            versions = tuple(
                [self._apply_one(op, index, session_id, zxid, undo) for index, op in enumerate(tx.ops)]
            )
        except SupervisorError:
            for path, node in reversed(undo):
                self._put(path, node)
            raise
        self.zxid = zxid
        return versions

    def _apply_one(
        self, op: Op, index: int, session_id: int, zxid: int, undo: list[tuple[str, Znode | None]]
    ) -> int | None:
        path = op.path
        if not path.startswith("/") or path == "/" or path.endswith("/"):
            raise InvalidInput(f"{path!r} is not a path")
        node = self.nodes.get(path)
        parent = path.rpartition("/")[0] or "/"
        self._check(op, node, parent, index)
        match op:
            case Create(_, data, ephemeral):
                new: Znode | None = Znode(data, 0, zxid, zxid, session_id if ephemeral else 0)
            case SetData(_, data, _):
                assert node is not None
                new = node._replace(data=data, version=node.version + 1, mzxid=zxid)
            case Delete():
                new = None
            case Check():
                return None
        undo.append((path, node))
        self._put(path, new)
        if not isinstance(op, SetData):
            undo.append((parent, self.nodes[parent]))
            self._put(parent, self.nodes[parent]._replace(cversion=self.nodes[parent].cversion + 1))
        return None if new is None else new.version

    def _check(self, op: Op, node: Znode | None, parent: str, index: int) -> None:
        match op:
            case Create():
                if parent not in self.nodes:
                    raise GuardFailed(op.path, "no_node", index)
                if node is not None:
                    raise GuardFailed(op.path, "node_exists", index)
                if self.nodes[parent].owner:
                    raise InvalidInput(f"{parent} is ephemeral and can't have children")
            case SetData() | Check() | Delete():
                if node is None:
                    raise GuardFailed(op.path, "no_node", index)
                if op.version not in (ANY_VERSION, node.version):
                    raise GuardFailed(op.path, "bad_version", index)
                if isinstance(op, Delete) and self.names.get(op.path):
                    raise GuardFailed(op.path, "not_empty", index)

    def _put(self, path: str, node: Znode | None) -> None:
        parent, _, name = path.rpartition("/")
        if node is None:
            self.nodes.pop(path, None)
            self.names.pop(path, None)
            self.names[parent or "/"].discard(name)
        else:
            self.nodes[path] = node
            if path != "/":
                self.names.setdefault(parent or "/", set()).add(name)
