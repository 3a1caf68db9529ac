"""Whether this registry may be acted upon (I10): not if it is empty, another one, or was restored to an older state.

Called by ``coord.contender``: ``Trust`` at every look and at the start of every term, ``record_epoch`` by the term.
An untrusted registry is led, so that somebody says why, but nothing is started, stopped or cleaned there.

Three witnesses outside ZooKeeper: the id of the cluster that this process was started for; the last zxid, which this
supervisor keeps on its own disk; and the epochs in the store. The epochs are compared by author, not only by number:
every election on a restored registry, and every restart of a distrusting supervisor, makes its epoch grow, so that a
number alone would be caught up with and the alarm would fall silent.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Protocol

from supervisor.coord.election import Author, Codec
from supervisor.errors import Conflict, Corrupt
from supervisor.model.records import Cluster
from supervisor.model.transaction import Node


class EpochStore(Protocol):
    """The epochs in the store. Both raise Unreachable or AccessDenied when the store can't be asked."""

    def record_epoch(self, epoch: int, supervisor: str, op: str) -> None:
        """Create-only. The same again is fine; the same epoch of another author is Conflict."""

    def newest_epoch_above(self, epoch: int) -> int | None:
        """The highest epoch recorded that is above ``epoch``, or None."""


def record_epoch(store: EpochStore, epoch: int, recent: Mapping[int, Author]) -> str | None:
    """Record this term, unless the store knows of terms that this registry does not. Returns the reason of distrust.

    ``recent``: the latest terms by the registry's own account, ``epoch`` included. Idempotent.
    """
    newest = store.newest_epoch_above(0)
    if newest is not None and newest > epoch:
        return (
            f"the store knows epoch {newest} and this registry is at {epoch}: ZooKeeper was restored to an older "
            "state, or this store belongs to another registry"
        )
    if newest is not None and newest < epoch:
        if newest not in recent:
            return (
                f"this registry does not remember epoch {newest}, the newest in the store: ZooKeeper was restored to "
                "an older state and led since"
            )
        if not _recorded(store, newest, recent[newest]):
            return _other(newest)
    return None if _recorded(store, epoch, recent[epoch]) else _other(epoch)


def _recorded(store: EpochStore, epoch: int, author: Author) -> bool:
    try:
        store.record_epoch(epoch, author.supervisor, author.op)
    except Conflict:
        return False
    return True


def _other(epoch: int) -> str:
    return f"epoch {epoch} in the store was led by another term than here: ZooKeeper was restored to an older state"


class Trust:
    """What this supervisor remembers of its ZooKeeper over restarts, in one small file. Use from one thread.

    ``path``: ``<runtime_dir>/zxid``. ``cluster_id``: of the cluster that was founded or checked at start; what the file
    says of another cluster counts for nothing. ``reason``: why the registry is not trusted, or None; once it is set it
    stays, over restarts too, until an operator removes the file.
    """

    def __init__(self, path: Path, cluster_id: str) -> None:
        self._path = path
        self._cluster_id = cluster_id
        self._zxid = 0
        self.reason: str | None = None
        self._load()

    @property
    def zxid(self) -> int:
        """The highest zxid that was ever seen, as far as it is on disk."""
        return self._zxid

    def judge(self, codec: Codec, path: str, cluster: Node | None, zxid: int) -> str | None:
        """Look at /cluster and at the last zxid, both read after a ``sync``. Returns ``reason``."""
        if self.reason is None:
            self.reason = self._doubt(codec, path, cluster, zxid)
            if self.reason is not None:
                self._save()
        return self.reason

    def remember(self, zxid: int) -> None:
        """Keep the highest zxid, atomically. Raises OSError, which need not bother a running term."""
        if self.reason is None and zxid > self._zxid:
            self._zxid = zxid
            self._save()

    def _doubt(self, codec: Codec, path: str, cluster: Node | None, zxid: int) -> str | None:
        if cluster is None:
            return f"{path} is missing: ZooKeeper has lost its data; restore it, then remove {self._path}"
        try:
            found = codec.decode(Cluster, cluster.data, path)
        except Corrupt as error:
            return f"{error}; restore it, then remove {self._path}"
        if found.id != self._cluster_id:
            return f"{path} is of cluster {found.id}, this supervisor was started for {self._cluster_id}; restart it"
        if zxid < self._zxid:
            return (
                f"ZooKeeper is at zxid {zxid:#x}, and was at {self._zxid:#x} before: it was restored to an older "
                f"state; when that is accepted remove {self._path}"
            )
        return None

    def _load(self) -> None:
        try:
            known = json.loads(self._path.read_text())
            if known["cluster"] == self._cluster_id:
                self._zxid, self.reason = int(known["zxid"]), known["distrust"]
        except FileNotFoundError:
            return
        except (OSError, ValueError, KeyError, TypeError) as error:
            self.reason = (
                f"{self._path}, which says how far ZooKeeper was, can't be read ({error}); remove it if nothing was "
                "restored"
            )

    def _save(self) -> None:
        draft = self._path.with_name(self._path.name + ".new")
        body = {"v": 1, "cluster": self._cluster_id, "zxid": self._zxid, "distrust": self.reason}
        with draft.open("w") as file:
            file.write(json.dumps(body) + "\n")
            file.flush()
            os.fsync(file.fileno())
        draft.replace(self._path)
