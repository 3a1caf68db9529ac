"""Placement: which supervisor gets which candidate, by declared memory, driver capacity and starting slots. Pure.

Counts every ownership in assigned, claimed, draining or revoked, names without a reference included: until its
tombstone or the full wait, an attempt may still occupy its host (DESIGN §8).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from supervisor.model.actions import Assign, Note
from supervisor.model.records import OCCUPYING, Cause, Member, Ownership, OwnState, Phase
from supervisor.model.seen import Found
from supervisor.model.view import Row
from supervisor.plan.decide import Candidate


@dataclass(frozen=True, slots=True)
class Load:
    """What a supervisor carries: bytes of declared memory, drivers, and how many of them are still starting."""

    memory: int = 0
    drivers: int = 0
    starting: int = 0

    def plus(self, memory: int, *, starting: bool) -> Load:
        return Load(self.memory + memory, self.drivers + 1, self.starting + (1 if starting else 0))


def loads_of(rows: Iterable[Row]) -> dict[str, Load]:
    """Load by supervisor id."""
    loads: dict[str, Load] = {}
    for row in rows:
        if isinstance(row.own, Found) and row.own.record.state in OCCUPYING:
            own = row.own.record
            loads[own.supervisor] = loads.get(own.supervisor, Load()).plus(own.memory, starting=_is_starting(row))
    return loads


def _is_starting(row: Row) -> bool:
    """From the assignment to the first committed batch (or 10 s of running without a query)."""
    assert isinstance(row.own, Found)
    state = row.own.record.state
    if state is OwnState.ASSIGNED:
        return True
    if state is not OwnState.CLAIMED or row.lease is None or not isinstance(row.lease.seen, Found):
        return False
    return row.lease.seen.record.phase not in (Phase.RUNNING, Phase.STOPPING)


def place(
    candidates: Iterable[Candidate], members: Mapping[str, Member], loads: Mapping[str, Load],
) -> tuple[list[Assign], list[Note]]:
    """Hosts for the candidates, highest priority first; whoever finds no place is pending, with the reason."""
    actions: list[Assign] = []
    notes: list[Note] = []
    for candidate in sorted(candidates, key=lambda c: (-c.ref.record.terms.priority, c.name)):
        free = freed(loads, candidate.own.record) if candidate.waited else loads
        memory = candidate.ref.record.terms.memory
        open_hosts = [m for m in members.values() if lacking(m, free.get(m.id, Load()), memory) is None]
        if not open_hosts:
            notes.append(Note(candidate.name, _why_pending(members, free, memory), pending=True))
            continue
        last = _did_not_start(candidate)
        host = min(open_hosts, key=lambda m: (m.id == last, _use(free, m), m.id))
        loads = {**free, host.id: free.get(host.id, Load()).plus(memory, starting=True)}
        actions.append(Assign(
            candidate.name, candidate.why, candidate.ref, candidate.own, host, candidate.account, candidate.waited,
        ))
    return actions, notes


def _did_not_start(candidate: Candidate) -> str | None:
    """The host that was given this job last and never claimed it, for whatever reason: it comes last.

    Else the emptiest host keeps a job for ever that it cannot start (its access to the store is refused, say), with room
    elsewhere (I3).
    """
    own = candidate.own.record
    taken_back = own.state is OwnState.VACANT and own.uid == candidate.ref.record.uid
    return own.supervisor if taken_back or own.state is OwnState.EXITED and own.cause is Cause.NO_ROOM else None


def freed(loads: Mapping[str, Load], dead: Ownership) -> Mapping[str, Load]:
    """``loads`` without an attempt that was waited out: the assignment that follows it gives its place back."""
    if dead.supervisor not in loads:
        return loads
    load = loads[dead.supervisor]
    return {**loads, dead.supervisor: replace(load, memory=load.memory - dead.memory, drivers=load.drivers - 1)}


def _use(loads: Mapping[str, Load], member: Member) -> float:
    return loads.get(member.id, Load()).drivers / member.drivers


def lacking(member: Member, load: Load, memory: int) -> str | None:
    """What keeps ``member`` from taking one more driver of ``memory`` bytes, or None."""
    if load.drivers >= member.drivers:
        return f"{member.id} has all its {member.drivers} drivers"
    if load.memory + memory > member.memory:
        free = max(0, member.memory - load.memory)
        return f"{member.id} has {free // 2**20}m of {member.memory // 2**20}m free, {memory // 2**20}m needed"
    if load.starting >= member.starting:
        return f"{member.id} is starting {load.starting} drivers already"
    return None


def _why_pending(members: Mapping[str, Member], loads: Mapping[str, Load], memory: int) -> str:
    if not members:
        return "no supervisor is up"
    reasons = [lacking(m, loads.get(m.id, Load()), memory) or "" for m in members.values()]
    more = f" (and {len(reasons) - 3} more)" if len(reasons) > 3 else ""
    return "no room: " + "; ".join(sorted(reasons)[:3]) + more
