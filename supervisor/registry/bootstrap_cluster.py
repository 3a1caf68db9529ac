"""Founds a cluster, and refuses to work on somebody else's (protocol §4: /version, /cluster; I10; F61).

A supervisor and a submit call ``bootstrap_or_check`` before their first write; the other commands call ``check_known``,
and a shim relies on its agent. ZooKeeper is founded first and the store is
marked second, so that a crash in between leaves nothing that looks like a loss of data.
"""

from __future__ import annotations

from dataclasses import dataclass

from supervisor.errors import Conflict, Corrupt, GuardFailed
from supervisor.model.records import Cluster, EpochRecord
from supervisor.model.seen import Found, Seen
from supervisor.model.transaction import Create, Node, Transaction
from supervisor.records.codec import encode
from supervisor.records.ids import new_op_id
from supervisor.records.layout import LAYOUT_VERSION, Layout
from supervisor.records.ports import ZkSession
from supervisor.records.reading import seen
from supervisor.registry.blobs import Blobs, ClusterMark

FOUND_TRIES = 3


@dataclass(frozen=True, slots=True)
class ClusterIdentity:
    """Says which cluster this process is configured for. ``store`` is the URL of its store, without a
    trailing slash."""

    name: str
    root: str
    store: str


def bootstrap_or_check(zoo: ZkSession, layout: Layout, blobs: Blobs, identity: ClusterIdentity) -> Cluster:
    """Makes sure that this root and this store belong together and to this cluster; founds them if both are
    new.

    Raises Conflict when either belongs to another cluster, or when ZooKeeper is empty although the store is
    marked: then its data was lost, and nothing may be started on what is left (fail closed).
    """
    known = check_known(zoo, layout, identity)
    mark = blobs.read_cluster()
    if known is None and mark is not None:
        # Somebody may have founded both since we looked: ZooKeeper comes first, so it shows now unless it lost its data.
        known = check_known(zoo, layout, identity)
        if known is None:
            raise Conflict(_lost(identity, mark))
    if known is None:
        known = _same_cluster(_found(zoo, layout, identity), layout, identity)
    blobs.claim_cluster(ClusterMark(id=known.id, name=identity.name, root=layout.root))
    return known


def check_known(zoo: ZkSession, layout: Layout, identity: ClusterIdentity) -> Cluster | None:
    """Returns the cluster at this root if it is the configured one, or None if nothing was founded here yet.

    It reads ZooKeeper only: a cancel must work while the store is down. Raises Conflict for another cluster
    or layout.
    """
    zoo.sync()
    check_version(zoo.read(layout.version), layout)
    known = _known(zoo, layout)
    return None if known is None else _same_cluster(known, layout, identity)


def check_version(node: Node | None, layout: Layout) -> None:
    """Raises Conflict for a layout that this software does not know; an absent /version is fine (nothing was
    founded yet)."""
    if node is not None and node.data != str(LAYOUT_VERSION).encode():
        raise Conflict(
            f"{layout.version} is {node.data[:20]!r}, and this software knows layout {LAYOUT_VERSION}: upgrade it"
        )


def _known(zoo: ZkSession, layout: Layout) -> Found[Cluster] | None:
    cluster: Seen[Cluster] = seen(Cluster, zoo.read(layout.cluster), layout.cluster)
    if cluster is None or isinstance(cluster, Found):
        return cluster
    raise Corrupt(cluster.reason)


def _same_cluster(known: Found[Cluster], layout: Layout, identity: ClusterIdentity) -> Cluster:
    cluster = known.record
    if cluster.store != identity.store:
        raise Conflict(
            f"zookeeper.root {layout.root} belongs to a cluster whose store is {cluster.store}, not "
            f"{identity.store}",
            "set store.url to that one, or choose another root",
        )
    if cluster.name != identity.name:
        raise Conflict(
            f"zookeeper.root {layout.root} belongs to cluster {cluster.name}, not {identity.name}",
            "correct the name, or choose another zookeeper.root and store.url",
        )
    return cluster


def _found(zoo: ZkSession, layout: Layout, identity: ClusterIdentity) -> Found[Cluster]:
    """Creates the root and its fixed znodes in one multi; a process that comes second reads what the first
    founded."""
    # a cluster founded beside us may have made an ancestor that the two share
    for _ in range(FOUND_TRIES):
        op_id = new_op_id()
        cluster = Cluster(id=op_id, name=identity.name, store=identity.store)
        creates = (
            *(Create(path, b"") for path in _missing_ancestors(zoo, layout.root)),
            Create(layout.version, str(LAYOUT_VERSION).encode()),
            Create(layout.cluster, encode(cluster)),
            Create(layout.epoch, encode(EpochRecord(epoch=0, supervisor="", op=op_id))),
            Create(layout.doorbell, b""),
            *(Create(path, b"") for path in layout.persistent_parents()),
        )
        try:
            zoo.commit(Transaction("found", op_id, creates))
        except GuardFailed:
            zoo.sync()
        known = _known(zoo, layout)
        if known is not None:
            return known
    raise Conflict(f"zookeeper.root {layout.root} exists but is no cluster", "choose another root")


def _missing_ancestors(zoo: ZkSession, root: str) -> list[str]:
    parts = root.strip("/").split("/")
    paths = ["/" + "/".join(parts[: n + 1]) for n in range(len(parts))]
    return [path for path in paths if zoo.read(path) is None]


def _lost(identity: ClusterIdentity, mark: ClusterMark) -> str:
    if mark.root != identity.root:
        return (
            f"store.url {identity.store} belongs to the cluster at root {mark.root}, not {identity.root}; "
            "choose another prefix, or set zookeeper.root to that one"
        )
    return (
        f"zookeeper.root {identity.root} is empty although {identity.store} belongs to cluster {mark.id}: "
        "ZooKeeper has lost its data; restore it (see spark-supervisor docs runbooks/zookeeper-restore), "
        "nothing is started or cleaned until then"
    )
