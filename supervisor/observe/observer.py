"""Reads ZooKeeper into a View. It keeps the whole view in memory and rereads what changed, in pipelined
reads.

The controller calls it once per pass (``list`` and ``explain`` call it for one full view). It reads, never
writes. A read that fails raises ``Unreachable``; there is no view then, and nothing is planned. One pass
costs a handful of fixed reads, what the doorbell named, and a slice of the leases; a full read is made only
at takeover and rarely after.

The lease of a name is always read in a request sent after its ownership was received: for ``draining`` and
``revoked`` the wait counts from a lease that was read after the fence was seen (protocol §7.2).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType

from supervisor.errors import InvalidInput
from supervisor.model.location import digest
from supervisor.model.records import (
    LEASED,
    Acceptance,
    CheckpointClaim,
    Cleanliness,
    Cordon,
    Handover,
    JobRef,
    Lease,
    Member,
    Ownership,
    OwnState,
    Pause,
    Phase,
    Preparation,
    Result,
)
from supervisor.model.seen import Found, Seen, Unreadable
from supervisor.model.transaction import Node
from supervisor.model.view import Leftover, Row, SeenAcceptance, SeenLease, SeenPreparation, View
from supervisor.observe.first_seen import FirstSeen
from supervisor.records.layout import Layout
from supervisor.records.ports import ZkReader
from supervisor.records.reading import seen, seen_all
from supervisor.registry.fixed_znodes import FixedZnodesVerdict, fixed_paths, judge_fixed_znodes

LEASE_READS_PER_S = 500
"""This is the budget of the lease sweep: up to 1,000 jobs, every lease is read every two seconds. With more
jobs it is read less often, but always when half its length has passed since its last read.
"""


class Observer:
    """Takes views during one term of leadership (what was first seen when must not outlive the term). It is
    not thread-safe.
    """

    def __init__(self, zoo: ZkReader, layout: Layout, clock: Callable[[], float], epoch: int) -> None:
        self._zoo = zoo
        self._layout = layout
        self._clock = clock
        self._epoch = epoch
        self._first_seen = FirstSeen()
        self._rows: dict[str, Row] = {}
        self._swept_at_s = clock()
        self._errors: dict[str, str] = {}
        self._accepted: SeenAcceptance | None = None

    def take_view(
        self, changed: Iterable[str] | None, *, recorded: bool = True, distrust: str | None = None
    ) -> View:
        """Returns the view now. ``changed`` are the names to reread; None means everything."""
        if changed is None:
            self._read_everything()
        else:
            self._read_names(sorted(set(changed)))
        self._read_leases()
        pause, wish = self._read_wishes()
        if pause is not None:
            self._first_seen.note_pause(self._clock())
        if changed is None or (self._accepted is not None and not _is_waited(self._accepted)):
            self._read_acceptance()
        members = self._members()
        prepare_hosts, preparations = self._preparations()
        cordons = self._cordons()
        whole = self._check_fixed_znodes()  # last: it vouches for all that was read before
        return View(
            rows=MappingProxyType(dict(self._rows)),
            members=MappingProxyType(members),
            epoch=self._epoch,
            recorded=recorded,
            paused=pause is not None,
            pause=pause.record if isinstance(pause, Found) else None,
            wish=wish,
            accepted=self._accepted,
            distrust=distrust or whole.distrust,
            missing=whole.missing,
            preparations=preparations,
            prepare_hosts=prepare_hosts,
            cordons=MappingProxyType(cordons),
            errors=tuple(self._errors.values()),
        )

    def take_hosts(self) -> View:
        """Returns a view of the hosts and the requests for prepared drivers alone, for display."""
        members, (hosts, preparations) = self._members(), self._preparations()
        return View({}, members, self._epoch, preparations=preparations, prepare_hosts=hosts)

    def in_motion(self) -> set[str]:
        """Returns the names whose ownership another process is about to change. They are reread at every
        pass, in case the doorbell did not name them.
        """
        return {name for name, row in self._rows.items() if _is_changing(row)}

    # -- names ----------------------------------------------------------------------------------------------------

    def _read_everything(self) -> None:
        layout = self._layout
        names = sorted(set(self._children(layout.jobs)) | set(self._children(layout.owns)))
        for gone in self._rows.keys() - set(names):
            self._drop(gone)
        self._errors.clear()
        owns, refs = self._own_and_ref(names)
        # The results last: who sees what a cancel did to the ownership must see the result of that cancel, too.
        paths = [layout.result(uid) for uid in self._children(layout.results)]
        dirty: dict[str, list[Found[Result]]] = {}
        for result in self._decode_results(paths, self._zoo.read_many(paths).nodes):
            dirty.setdefault(result.record.name, []).append(result)
        self._set_rows(names, owns, refs, dirty)

    def _read_names(self, names: list[str]) -> None:
        """Rereads some names, with the results of the uids that the old and the new records name."""
        if not names:
            return
        old = {name: self._rows.get(name) for name in names}
        owns, refs = self._own_and_ref(names)
        uids: dict[str, None] = {}
        for name, own, ref in zip(names, owns[0], refs, strict=True):
            for uid in _uids_of(own, ref, old[name]):
                uids[uid] = None
        paths = [self._layout.result(uid) for uid in uids]
        dirty: dict[str, list[Found[Result]]] = {}
        for result in self._decode_results(paths, self._zoo.read_many(paths).nodes):
            dirty.setdefault(result.record.name, []).append(result)
        self._set_rows(names, owns, refs, dirty)

    def _own_and_ref(
        self, names: list[str]
    ) -> tuple[tuple[list[Seen[Ownership]], float], list[Seen[JobRef]]]:
        """Reads ownerships and references, the references first: a reading is not one moment, and submit
        creates both. A reference without its ownership would be an alarm, an ownership without its reference
        is none.
        """
        layout = self._layout
        own_paths, ref_paths = [layout.own(name) for name in names], [layout.job(name) for name in names]
        reads = self._zoo.read_many([*ref_paths, *own_paths])
        refs = seen_all(JobRef, ref_paths, reads.nodes[: len(names)])
        owns = seen_all(Ownership, own_paths, reads.nodes[len(names) :])
        return (owns, reads.received_at_s), [_about(name, ref) for name, ref in zip(names, refs, strict=True)]

    def _decode_results(self, paths: list[str], nodes: Sequence[Node | None]) -> list[Found[Result]]:
        """Returns the dirty results. An unreadable result is an error of its own: it blocks nothing but
        itself.
        """
        dirty = []
        for path, result in zip(paths, seen_all(Result, paths, nodes), strict=True):
            self._errors.pop(path, None)
            if isinstance(result, Unreadable):
                self._errors[path] = result.reason
            elif result is not None and result.record.state is Cleanliness.DIRTY:
                dirty.append(result)
        return dirty

    def _set_rows(
        self,
        names: list[str],
        owns: tuple[list[Seen[Ownership]], float],
        refs: list[Seen[JobRef]],
        dirty: dict[str, list[Found[Result]]],
    ) -> None:
        claims = self._claims_of([result for name in names for result in dirty.get(name, ())])
        for name, own, ref in zip(names, owns[0], refs, strict=True):
            if own is None and ref is None:
                self._drop(name)
                continue
            try:
                self._set_row(name, ref, own, owns[1], dirty.get(name, ()), claims)
            except Exception as error:  # noqa: BLE001 - the edge of one name (I9): it is left alone, and said to be
                flaw = f"its records could not be read ({type(error).__name__}: {error}); nothing is done about it"
                self._rows[name] = Row(name, ref, own, owns[1], flaws=(flaw,))

    def _set_row(
        self,
        name: str,
        ref: Seen[JobRef],
        own: Seen[Ownership],
        received_at_s: float,
        dirty: Sequence[Found[Result]],
        claims: Mapping[str, tuple[str, Found[CheckpointClaim]]],
    ) -> None:
        seen_at_s = self._first_seen.own_seen_at_s(name, -1 if own is None else own.mzxid, received_at_s)
        leftovers = tuple(Leftover(r, claims.get(r.record.uid)) for r in dirty)
        before = self._rows.get(name)
        lease = before.lease if before and isinstance(own, Found) and own.record.state in LEASED else None
        if lease is not None and before is not None and before.own != own:
            lease = None  # the lease must be read after this state of the ownership was seen
        self._rows[name] = Row(name, ref, own, seen_at_s, lease, leftovers)
        if not _needs_lease(self._rows[name]):
            # this absence cannot be distinguished from an earlier one: nothing may be waited out on it
            self._first_seen.forget_lease(name)

    def _claims_of(self, results: list[Found[Result]]) -> dict[str, tuple[str, Found[CheckpointClaim]]]:
        """Returns, by uid, the checkpoint claim that still carries it."""
        wanted: dict[str, str] = {}
        for result in results:
            found_location = _claimed_place(result.record)
            if found_location is not None:
                wanted[result.record.uid] = self._layout.checkpoint(found_location)
        nodes = self._zoo.read_many(list(wanted.values())).nodes
        found: dict[str, tuple[str, Found[CheckpointClaim]]] = {}
        for (uid, path), node in zip(wanted.items(), nodes, strict=True):
            claim = seen(CheckpointClaim, node, path)
            if isinstance(claim, Found) and claim.record.uid == uid:
                found[uid] = (path, claim)
        return found

    def _drop(self, name: str) -> None:
        self._rows.pop(name, None)
        self._first_seen.forget(name)

    # -- leases ---------------------------------------------------------------------------------------------------

    def _read_leases(self) -> None:
        """Reads the leases whose shim may be gone, those that were not read yet, and a slice of the others,
        oldest first.
        """
        leased = [row for row in self._rows.values() if _needs_lease(row)]
        if not leased:
            return
        lives = set(self._children(self._layout.lives))
        now_s = self._clock()
        budget = max(1, int((now_s - self._swept_at_s) * LEASE_READS_PER_S))
        self._swept_at_s = now_s
        close = [row for row in leased if _is_close(row, lives)]
        calm = sorted((row for row in leased if not _is_close(row, lives)), key=_read_sent_at_s)
        late = [row for row in calm if now_s - _read_sent_at_s(row) > _lease_s(row) / 2]
        others = [row for row in calm if now_s - _read_sent_at_s(row) <= _lease_s(row) / 2]
        due = [*close, *late, *others[: max(0, budget - len(late))]]
        paths = [self._layout.lease(row.name) for row in due]
        reads = self._zoo.read_many(paths)
        for row, lease in zip(due, seen_all(Lease, paths, reads.nodes), strict=True):
            seen_lease = self._first_seen.lease(row.name, lease, reads.sent_at_s, reads.received_at_s)
            self._rows[row.name] = replace(row, lease=seen_lease)

    # -- the rest -------------------------------------------------------------------------------------------------

    def _read_acceptance(self) -> None:
        """Reads the latest acceptance. A new one ends the term, so within one it changes only when this
        leader has waited.
        """
        path = self._layout.accepted
        reads = self._zoo.read_many((path,))
        node, before = reads.nodes[0], self._accepted
        found: Seen[Acceptance] = seen(Acceptance, node, path)
        if node is None or found is None:
            self._accepted = None
            return
        same = before is not None and before.since_zxid == node.stat.czxid
        first_seen_at_s = before.first_seen_at_s if before is not None and same else reads.received_at_s
        self._accepted = SeenAcceptance(found, node.stat.czxid, first_seen_at_s)

    def _read_wishes(self) -> tuple[Seen[Pause], Seen[Handover]]:
        """Reads what an operator has asked of the whole cluster."""
        paths = (self._layout.pause, self._layout.switchover)
        pause, wish = self._zoo.read_many(paths).nodes
        return seen(Pause, pause, paths[0]), seen(Handover, wish, paths[1])

    def _check_fixed_znodes(self) -> FixedZnodesVerdict:
        nodes = self._zoo.read_many(fixed_paths(self._layout)).nodes
        return judge_fixed_znodes(
            self._layout, nodes, self._accepted.since_zxid if self._accepted is not None else 0
        )

    def _members(self) -> dict[str, Member]:
        paths = [self._layout.supervisor(child) for child in self._children(self._layout.supervisors)]
        members: dict[str, Member] = {}
        for path, member in zip(
            paths, seen_all(Member, paths, self._zoo.read_many(paths).nodes), strict=True
        ):
            self._errors.pop(path, None)
            if isinstance(member, Found):
                members[member.record.id] = member.record
            elif isinstance(member, Unreadable):
                self._errors[path] = member.reason
        return members

    def _cordons(self) -> dict[str, Found[Cordon] | Unreadable]:
        """Reads what operators want of hosts. In a root in which no host was ever cordoned that is one read."""
        hosts = self._children(self._layout.hosts)
        if not hosts:
            return {}
        paths = [self._layout.host(host) for host in hosts]
        found: list[Seen[Cordon]] = seen_all(Cordon, paths, self._zoo.read_many(paths).nodes)
        return {host: record for host, record in zip(hosts, found, strict=True) if record is not None}

    def _seen_preparation(
        self, host: str, path: str, record: Found[Preparation] | Unreadable, received_at_s: float
    ) -> SeenPreparation:
        seen_at_s = self._first_seen.preparation_seen_at_s(path, record.mzxid, received_at_s)
        due_from_at_s = self._first_seen.preparation_due_from_at_s(seen_at_s)
        return SeenPreparation(host, path, record, seen_at_s, due_from_at_s)

    def _preparations(self) -> tuple[frozenset[str], tuple[SeenPreparation, ...]]:
        """Reads the requests for prepared drivers, of hosts that are gone, too: first which hosts were ever asked, then
        what each is asked for. Where nobody was, that is one read."""
        hosts = self._children(self._layout.preparations)
        found = [
            (host, f"{self._layout.preparations_of(host)}/{key}")
            for host in hosts
            for key in self._children(self._layout.preparations_of(host))
        ]
        if not found:
            self._first_seen.keep_preparations(())
            return frozenset(hosts), ()
        paths = [path for _, path in found]
        reads = self._zoo.read_many(paths)
        records: list[Seen[Preparation]] = seen_all(Preparation, paths, reads.nodes)
        self._first_seen.keep_preparations(paths)
        return frozenset(hosts), tuple(
            self._seen_preparation(host, path, record, reads.received_at_s)
            for (host, path), record in zip(found, records, strict=True)
            if record is not None
        )

    def _children(self, path: str) -> tuple[str, ...]:
        """Returns the children of ``path``, none if it is missing: ``_check_fixed_znodes`` notices that, and nothing
        rests on the view then.
        """
        return self._zoo.children(path) or ()


def _about(name: str, ref: Seen[JobRef]) -> Seen[JobRef]:
    """Returns ``ref``, or an error if it names another job (copied by hand): it would lead writes meant for
    this name to that job.
    """
    if isinstance(ref, Found) and ref.record.name != name:
        return Unreadable(f"the reference of {name} is about {ref.record.name!r}", ref.version, ref.mzxid)
    return ref


def _uids_of(own: Seen[Ownership], ref: Seen[JobRef], before: Row | None) -> Iterable[str]:
    if isinstance(own, Found):
        yield from (uid for uid in (own.record.uid, own.record.newest_uid) if uid)
    if isinstance(ref, Found):
        yield ref.record.uid
    if before is not None:
        yield from (left.result.record.uid for left in before.leftovers)
        if isinstance(before.ref, Found):
            yield before.ref.record.uid


def _claimed_place(result: Result) -> str | None:
    """Returns the digest of the location that ``result`` claimed. A location that is none (altered by hand)
    claimed nothing (I9).
    """
    if result.terms is None or not result.terms.checkpoint:
        return None
    try:
        return digest(result.terms.checkpoint)
    except InvalidInput:
        return None


def _needs_lease(row: Row) -> bool:
    """Returns whether an attempt may be alive, or its leftovers, the lease among them, are to be removed."""
    if not isinstance(row.own, Found):
        return False
    return row.own.record.state in LEASED or (row.ref is None and bool(row.leftovers))


def _is_close(row: Row, lives: set[str]) -> bool:
    """Returns whether the lease is to be read at every pass: it was not read yet, the attempt is not plainly
    claimed, or its shim's session is gone (a hint, no proof).
    """
    assert isinstance(row.own, Found)
    own = row.own.record
    return row.lease is None or own.state is not OwnState.CLAIMED or f"{own.uid}.{own.attempt}" not in lives


def _is_waited(acceptance: SeenAcceptance) -> bool:
    return isinstance(acceptance.seen, Found) and acceptance.seen.record.waited


def _is_changing(row: Row) -> bool:
    if not isinstance(row.own, Found):
        return False
    if row.is_torn:
        return True
    state = row.own.record.state
    if state is OwnState.CLAIMED:
        lease = row.lease.seen if row.lease else None
        return not (isinstance(lease, Found) and lease.record.phase is Phase.RUNNING)
    return state in (OwnState.ASSIGNED, OwnState.DRAINING, OwnState.REVOKED)


def _read_sent_at_s(row: Row) -> float:
    return row.lease.read_sent_at_s if isinstance(row.lease, SeenLease) else 0.0


def _lease_s(row: Row) -> float:
    if row.lease is not None and isinstance(row.lease.seen, Found):
        return row.lease.seen.record.lease_s
    return 0.0
