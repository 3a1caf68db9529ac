"""Implements the ``accept-registry`` command: says why a restored registry is distrusted and what accepting
it means, and writes the acceptance.

Called by ``cli.accept_registry``. It brings together parts that may not know each other: the registry, the
store, and the judgement of ``coord.trust``, whose text says why an acceptance counts once. It needs no
supervisor.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from supervisor.clients.store.base import StoreEntry
from supervisor.clients.threads import Pool
from supervisor.clock import boottime_s, wall_iso
from supervisor.coord.election import ACCEPTER, RestoredRegistry, accept, recent_terms
from supervisor.coord.epoch_marks import EpochMarks
from supervisor.coord.trust import RegistryEvidence, Trust, judge_epochs
from supervisor.errors import Conflict, Corrupt, GuardFailed, NotFound, SupervisorError
from supervisor.model.lease_terms import LEASE_MIN_S, LONGEST_WAIT_S, full_wait_s, is_believable
from supervisor.model.records import BY_MAX_BYTES, Acceptance, BlobRef, EpochRecord, LeaderHint, clip
from supervisor.model.seen import Found, Seen
from supervisor.model.view import View
from supervisor.observe.observer import Observer
from supervisor.observe.restored import KnownJob, LostSpec, known_jobs, lost_specs
from supervisor.operations.auditing import AskedWrite
from supervisor.records.ids import new_op_id
from supervisor.records.layout import Layout
from supervisor.records.ports import ZkSession
from supervisor.records.reading import seen
from supervisor.registry.blobs import SPECS, Blobs, parse_key
from supervisor.registry.resolve_outcome import commit_resolved
from supervisor.spec.job import from_canonical

if TYPE_CHECKING:
    from supervisor.clients.zookeeper import ZooClient
    from supervisor.model.records import Cluster
    from supervisor.operations.context import CommandContext

TRIES_MAX = 5
SPECS_READ_MAX = 20_000
READERS = 16


@dataclass(frozen=True, slots=True)
class RegistryFinding:
    """Holds what ``examine_registry`` found.

    ``distrust`` has one sentence for each party that distrusts the registry, with the reason; it is empty if
    nobody does. ``wait_s`` is how long nothing will be started after the acceptance. ``lease_s`` is the
    lease of the job in the store whose attempts may live longest, and ``executors_outlive_s`` says for how long its
    executors may outlive its driver; ``lease_s`` is None if that can't be determined, and then the longest possible is
    assumed.
    """

    distrust: tuple[str, ...]
    epoch: int
    store_epoch: int | None
    jobs: tuple[KnownJob, ...]
    lost: tuple[LostSpec, ...]
    wait_s: float
    lease_s: float | None
    executors_outlive_s: float = 0.0


def examine_registry(context: CommandContext) -> RegistryFinding:
    """Reads everything and writes nothing.

    Raises NotFound if nothing was ever submitted, Conflict if /cluster is missing or another cluster's,
    Unreachable, Corrupt.
    """
    cluster = _cluster(context)
    zoo, store, layout = context.zoo(), context.store(), context.layout
    blobs, marks = Blobs(store), EpochMarks(store)
    specs = list(store.entries(SPECS))
    view = Observer(zoo, layout, boottime_s, epoch=0).take_view(None)
    epoch = _epoch(zoo, layout)
    longest = _longest_terms(blobs, specs)
    return RegistryFinding(
        distrust=_distrust(context, zoo, marks, cluster, epoch, view),
        epoch=epoch.record.epoch,
        store_epoch=marks.newest_epoch_above(0),
        jobs=known_jobs(view, frozenset(entry.key for entry in specs)),
        lost=lost_specs(view, zoo.children(layout.results) or (), specs),
        wait_s=LONGEST_WAIT_S if longest is None else full_wait_s(*longest),
        lease_s=longest[0] if longest is not None else None,
        executors_outlive_s=longest[1] if longest is not None else 0.0,
    )


def accept_registry(context: CommandContext, wait_s: float, *, no_driver_runs: bool) -> Acceptance:
    """Accepts the registry as it is. The acceptance is durable when this returns.

    It writes the mark in the store first and then the multi (``coord.trust``, 1 and 5). An election in
    between is no reason to give up: everything else in the registry stands still while it is distrusted, or
    changes because a user wants it. Raises Conflict when the registry keeps changing, Unreachable,
    OutcomeUnknown.
    """
    marks, layout = EpochMarks(context.store()), context.layout
    for _ in range(TRIES_MAX):
        zoo = context.zoo()
        zoo.sync()
        parents = (layout.doorbell, *layout.persistent_parents())
        cluster, accepted, *found = zoo.read_many((layout.cluster, layout.accepted, *parents)).nodes
        missing = tuple(path for path, node in zip(parents, found, strict=True) if node is None)
        epoch = _epoch(zoo, layout)
        if cluster is None:
            raise Conflict(_lost(context))
        acceptance = Acceptance(
            id=new_op_id(),
            epoch=max(epoch.record.epoch, marks.newest_epoch_above(0) or 0) + 1,
            by=clip(context.author, BY_MAX_BYTES),
            at=wall_iso(),
            wait_s=0.0 if no_driver_runs else wait_s,
            waited=no_driver_runs,
        )
        try:
            marks.record_epoch(acceptance.epoch, ACCEPTER, acceptance.id)
        except Conflict:
            continue  # somebody was recorded meanwhile: above that one
        restored = RestoredRegistry(cluster, epoch.record, epoch.version, accepted, missing)
        tx = accept(layout, restored, acceptance)
        asked = AskedWrite("accept", acceptance.id, detail=f"epoch {acceptance.epoch}")
        is_accepted = partial(_is_accepted, layout, acceptance)
        try:
            if context.auditor.commit(
                asked, partial(commit_resolved, context.sessions, zoo, tx, is_accepted)
            ):
                return acceptance
        except GuardFailed:
            continue
    raise Conflict(
        "the registry keeps changing: nothing was accepted", "see who writes to it (status), and try again"
    )


def _is_accepted(layout: Layout, mine: Acceptance, zoo: ZkSession) -> bool | None:
    found: Seen[Acceptance] = seen(Acceptance, zoo.read(layout.accepted), layout.accepted)
    if isinstance(found, Found) and found.record.id == mine.id:
        return True
    return None if isinstance(found, Found) and found.record.epoch > mine.epoch else False


# -- what speaks against it ---------------------------------------------------------------------------------------


def _cluster(context: CommandContext) -> Cluster:
    """Returns the cluster at the root, if it is the configured one and the store's. Raises Conflict,
    NotFound."""
    cluster = context.check()
    mark = context.blobs().read_cluster()
    if cluster is None and mark is None:
        raise NotFound(
            f"nothing was ever submitted at {context.settings.zookeeper.root}: there is no registry to accept"
        )
    if cluster is None:
        raise Conflict(_lost(context))
    if mark is not None and mark.id != cluster.id:
        raise Conflict(
            f"{context.layout.cluster} is of cluster {cluster.id} and {context.settings.store.url} belongs to {mark.id}: "
            "restore ZooKeeper from a snapshot of that cluster first"
        )
    return cluster


def _lost(context: CommandContext) -> str:
    return (
        f"{context.layout.cluster} is missing although {context.settings.store.url} belongs to a "
        f"cluster: ZooKeeper has lost "
        "its data; restore it from a snapshot first, there is nothing to accept yet"
    )


def _epoch(zoo: ZkSession, layout: Layout) -> Found[EpochRecord]:
    epoch: Seen[EpochRecord] = seen(EpochRecord, zoo.read(layout.epoch), layout.epoch)
    if not isinstance(epoch, Found):
        raise Corrupt(
            f"{epoch.reason if epoch else layout.epoch + ' is missing'}",
            "restore ZooKeeper from a whole snapshot",
        )
    return epoch


def _distrust(
    context: CommandContext,
    zoo: ZooClient,
    marks: EpochMarks,
    cluster: Cluster,
    epoch: Found[EpochRecord],
    view: View,
) -> tuple[str, ...]:
    found: list[tuple[str, str]] = []
    by_store = judge_epochs(marks, epoch.record.epoch, recent_terms(epoch.record))
    # else an election came between
    if by_store is not None and _epoch(zoo, context.layout).version == epoch.version:
        found.append(("the store", by_store))
    hint: Seen[LeaderHint] = seen(LeaderHint, zoo.read(context.layout.leader), context.layout.leader)
    if isinstance(hint, Found) and hint.record.distrust is not None:
        found.append((f"the leader {hint.record.supervisor}", hint.record.distrust))
    if view.distrust is not None:
        found.append(("the registry", view.distrust))
    distrusting = {
        member.id: member.distrust for member in view.members.values() if member.distrust is not None
    }
    found += sorted(distrusting.items())
    mine = _of_this_host(context, zoo, cluster)
    if mine is not None and context.settings.supervisor.id not in distrusting:
        found.append((f"{context.settings.supervisor.id} (this host, not up)", mine))
    first_of = {why: who for who, why in reversed(found)}
    return tuple(f"{who}: {why}" for why, who in reversed(first_of.items()))


def _of_this_host(context: CommandContext, zoo: ZooClient, cluster: Cluster) -> str | None:
    """Returns why the registry contradicts what the supervisor of this host remembers, or None.

    None is also the answer if this host has no supervisor, or if the user may not read its file.
    """
    path = context.settings.supervisor.runtime_dir / "zxid"
    if not os.access(path, os.R_OK):
        return None
    layout = context.layout
    zoo.sync()
    known, accepted, doorbell = zoo.read_many((layout.cluster, layout.accepted, layout.doorbell)).nodes
    return Trust(path, cluster.id).doubt(layout, RegistryEvidence(known, accepted, doorbell, zoo.last_zxid))


# -- how long the drivers of the lost state may live --------------------------------------------------------------


def _longest_terms(blobs: Blobs, specs: list[StoreEntry]) -> tuple[float, float] | None:
    """Returns the terms of the attempt that may live longest, in this state or the lost one: its lease, and for how long
    its executors may outlive its driver (seconds). Returns None if that can't be determined.

    Every attempt was made from a spec in the store (reference ⇒ blob), and no spec is deleted while an
    attempt of its uid may be alive, because its ownership names the uid. So the longest terms of all specs in
    the store bound those of the lost state too.
    """
    if len(specs) > SPECS_READ_MAX:
        return None

    def terms(entry: StoreEntry) -> tuple[float, float]:
        key = parse_key(entry.key)
        if key is None or not key.revision:
            raise Corrupt(f"{entry.key} is no spec")
        data = blobs.read_spec(BlobRef(key=entry.key, sha256=key.sha256, bytes=entry.bytes))
        spec = from_canonical(data, entry.key)
        return spec.lease_s, spec.executors_outlive_s()

    try:
        with Pool(READERS, "specs") as pool:
            longest = max(
                pool.map(terms, specs), default=(LEASE_MIN_S, 0.0), key=lambda each: full_wait_s(*each)
            )
    except SupervisorError:
        return None
    return longest if is_believable(*longest) else None
