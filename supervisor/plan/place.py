"""Decides which supervisor gets which candidate, by declared memory, driver capacity and starting slots. It
is pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from supervisor.model.actions import Assign, Note
from supervisor.model.driver_memory import DriverMemory, as_spark_size, next_memory
from supervisor.model.load import Load
from supervisor.model.phrases import counted
from supervisor.model.policies import refuses
from supervisor.model.records import HOST_CAUSES, Member, Ownership, OwnState
from supervisor.model.seen import Found
from supervisor.model.view import Row
from supervisor.plan.decide import WaitingAssignment
from supervisor.plan.prepare import Preparations
from supervisor.plan.room import why_no_room

REFUSES = "refuses it by its policy"
MEMORY_RAISED = "its driver memory was raised to {} after out_of_memory"


def place(
    candidates: Iterable[WaitingAssignment],
    members: Mapping[str, Member],
    loads: Mapping[str, Load],
    prepared: Preparations | None = None,
) -> tuple[list[Assign], list[Note]]:
    """Returns hosts for the candidates, highest priority first; a candidate that gets no slot is pending,
    with the reason. A host whose policy has refused the job gets it no more. A host comes first on which a prepared
    driver waits for this very attempt. Prepared drivers take no place here: whoever starts a driver discards them.

    Among equals, those that failed last come last: jobs that never start would otherwise take each slot that
    becomes free before the others, by their names, again and again.
    """
    actions: list[Assign] = []
    notes: list[Note] = []
    ready: list[tuple[tuple[int, int, str], DriverMemory, frozenset[str], WaitingAssignment]] = []
    for candidate in candidates:
        try:
            job, own = candidate.ref.record, candidate.own.record
            memory_needed = next_memory(job, own)
            hosts = prepared.ready_hosts(job, own, memory_needed) if prepared is not None else frozenset()
            ready.append((_turn(candidate), memory_needed, hosts, candidate))
        except Exception as error:  # noqa: BLE001 - the edge of one job within the plan
            notes.append(not_judged(candidate.name, error))
    for _, needed, ready_on, candidate in sorted(ready, key=lambda each: each[0]):
        free = freed(loads, candidate.own.record) if candidate.waited else loads
        memory = needed.whole
        job, own = candidate.ref.record, candidate.own.record
        allowing = {m.id: m for m in members.values() if not refuses(m, job, own)}
        open_hosts = [m for m in allowing.values() if lacking(m, free.get(m.id, Load()), memory) is None]
        if not open_hosts:
            raised = (
                f"; {MEMORY_RAISED.format(as_spark_size(needed.driver))}" if needed.raised and members else ""
            )
            barred = [f"{m.id} {REFUSES}" for m in members.values() if m.id not in allowing]
            why = _why_pending(allowing, free, memory, barred) + raised
            notes.append(Note(candidate.name, why, pending=True))
            continue
        last = _did_not_start(candidate)
        host = min(open_hosts, key=lambda m: (m.id == last, m.id not in ready_on, _use(free, m), m.id))
        loads = {**free, host.id: free.get(host.id, Load()).plus(memory, starting=True)}
        actions.append(
            Assign(
                candidate.name,
                candidate.why,
                candidate.ref,
                candidate.own,
                host,
                candidate.account,
                candidate.waited,
                host.id in ready_on,
            )
        )
    return actions, notes


def not_judged(name: str, error: Exception) -> Note:
    """Returns the note of a job that can't be decided, for whatever reason. It is left alone and shown: one
    name's trouble stays its own (I9)."""
    why = f"its records could not be judged ({type(error).__name__}: {error}); nothing is done about it"
    return Note(name, why, quarantined=True)


def _turn(candidate: WaitingAssignment) -> tuple[int, int, str]:
    """Returns the key by which candidates take their turns, lowest first."""
    setbacks = candidate.account.failures + (1 if _did_not_start(candidate) is not None else 0)
    return -candidate.ref.record.terms.priority, setbacks, candidate.name


def _did_not_start(candidate: WaitingAssignment) -> str | None:
    """Returns the host that was given this job last and never claimed it, for whatever reason, or None. That
    host comes last.

    Otherwise the emptiest host would keep for ever a job that it cannot start (its access to the store is
    refused, say), with room elsewhere (I3).
    """
    own = candidate.own.record
    taken_back = own.state is OwnState.VACANT and own.uid == candidate.ref.record.uid
    return own.supervisor if taken_back or own.state is OwnState.EXITED and own.cause in HOST_CAUSES else None


def with_in_flight(
    loads: Mapping[str, Load], in_flight: Iterable[Assign], rows: Mapping[str, Row]
) -> Mapping[str, Load]:
    """Returns ``loads`` with the slots of assignments whose outcome is not known yet, because each may have
    been committed.

    An assignment whose ownership has moved since is either in ``loads`` by now, or has failed.
    """
    for action in in_flight:
        own = rows[action.name].own if action.name in rows else None
        if not isinstance(own, Found) or own.version != action.own.version:
            continue
        loads = freed(loads, action.own.record) if action.waited else loads
        memory = next_memory(action.ref.record, action.own.record).whole
        loads = {**loads, action.host.id: loads.get(action.host.id, Load()).plus(memory, starting=True)}
    return loads


def freed(loads: Mapping[str, Load], dead: Ownership) -> Mapping[str, Load]:
    """Returns ``loads`` without an attempt that was waited out: the assignment that follows it gives its slot
    back."""
    if dead.supervisor not in loads:
        return loads
    load = loads[dead.supervisor]
    return {
        **loads,
        dead.supervisor: replace(load, memory=load.memory - dead.memory, drivers=load.drivers - 1),
    }


def _use(loads: Mapping[str, Load], member: Member) -> float:
    return loads.get(member.id, Load()).drivers / member.drivers


def lacking(member: Member, load: Load, memory: int) -> str | None:
    """Returns what keeps ``member`` from taking one more driver of ``memory`` bytes, or None."""
    why = why_no_room(member, load, memory)
    if why is not None:
        return why
    if load.starting >= member.starting:
        return f"{member.id} is starting {counted(load.starting, 'driver')} already"
    return None


def _why_pending(
    members: Mapping[str, Member], loads: Mapping[str, Load], memory: int, barred: Sequence[str]
) -> str:
    if not members and not barred:
        return "no supervisor is up"
    reasons = [*barred]
    reasons += [lacking(m, loads.get(m.id, Load()), memory) or "" for m in members.values()]
    more = f" (and {len(reasons) - 3} more)" if len(reasons) > 3 else ""
    return "no room: " + "; ".join(sorted(reasons)[:3]) + more
