"""Every guard of every multi (protocol §5), and how to drop one: found in the multis themselves, so that none is forgotten.

A guard is a check, a version that is written or deleted at, or a pair of create and delete that holds only while there is
no such znode. It is named by the multi and by the kind of znode that it looks at.
"""

from __future__ import annotations

import re
from contextlib import AbstractContextManager
from dataclasses import replace
from typing import Any

from supervisor.model.transaction import ANY_VERSION, Check, Create, Delete, Op, SetData, Transaction
from tests.explore.planting import around

KINDS = {
    "jobs": "job",
    "own": "own",
    "assigned": "entry",
    "lease": "lease",
    "live": "live",
    "results": "result",
    "checkpoints": "claim",
    "supervisors": "supervisor",
    "prepare": "request",
    "revisions": "revisions",
    "notifications": "notifications",
    "hosts": "host",
}
_PATH = re.compile(
    r"(?P<root>/.*?)/(?P<top>jobs|own|assigned|lease|live|results|checkpoints|supervisors|prepare|revisions|notifications|hosts)/.+"
)


def kind_of(path: str) -> str:
    """``job``, ``own``, ``lease``, …; of a znode that there is once in a cluster its name: ``epoch``, ``checkpoints``, …"""
    found = _PATH.fullmatch(path)
    return KINDS[found["top"]] if found else path.rpartition("/")[2]


def guards_of(tx: Transaction) -> frozenset[str]:
    """The kinds that its guards look at."""
    return frozenset(kind_of(op.path) for op in tx.ops if _is_guard(op, tx))


def _is_guard(op: Op, tx: Transaction) -> bool:
    match op:
        case Create():
            return _is_absence(op.path, tx)
        case Delete():
            return op.version != ANY_VERSION
        case Check() | SetData():
            return op.version != ANY_VERSION
    return False


def _is_absence(path: str, tx: Transaction) -> bool:
    ops = [op for op in tx.ops if op.path == path]
    return len(ops) == 2 and isinstance(ops[0], Create) and isinstance(ops[1], Delete)


def without_guard(tx: Transaction, kind: str) -> Transaction:
    """``tx`` without what it asks of the znodes of this kind. Every operation keeps its place among them."""
    return replace(tx, ops=tuple(_weak(op, tx) if kind_of(op.path) == kind else op for op in tx.ops))


def _weak(op: Op, tx: Transaction) -> Op:
    match op:
        case Check():
            return _nothing(op.path)
        case Create() | Delete() if _is_absence(op.path, tx):
            return _nothing(op.path)
        case SetData() | Delete():
            return replace(op, version=ANY_VERSION)
    return op


def without_write(tx: Transaction, kind: str) -> Transaction:
    """``tx`` without what it does to the znodes of this kind."""
    return replace(tx, ops=tuple(_nothing(op.path) if kind_of(op.path) == kind else op for op in tx.ops))


def _nothing(path: str) -> Check:
    """Holds always: the doorbell is there from the bootstrap on."""
    found = _PATH.fullmatch(path)
    root = found["root"] if found else path.rpartition("/")[0]
    return Check(f"{root}/doorbell", ANY_VERSION)


def dropped(builder: Any, kind: str) -> AbstractContextManager[None]:
    """``builder`` makes its multi without the guard on ``kind``."""
    return around(builder, lambda real, *args, **kwargs: _changed(real(*args, **kwargs), kind, without_guard))


def unwritten(builder: Any, kind: str) -> AbstractContextManager[None]:
    """``builder`` makes its multi without the write to ``kind``."""
    return around(builder, lambda real, *args, **kwargs: _changed(real(*args, **kwargs), kind, without_write))


def _changed(tx: Transaction | None, kind: str, change: Any) -> Transaction | None:
    return None if tx is None else change(tx, kind)
