"""Decides which supervisor gets which candidate, by labels of hosts, declared memory, driver capacity and starting
slots. It is pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType

from supervisor.model.actions import Assign, Note
from supervisor.model.driver_memory import DriverMemory, as_spark_size, next_memory
from supervisor.model.load import Load
from supervisor.model.phrases import first_few
from supervisor.model.records import (
    HOST_CAUSES,
    Cause,
    Cordon,
    JobRef,
    Member,
    Ownership,
    OwnState,
)
from supervisor.model.requirements import required_of
from supervisor.model.seen import Found, Unreadable
from supervisor.model.view import Row, cordoned_by
from supervisor.plan.decide import WaitingAssignment
from supervisor.plan.placement import Spread, why_not_taken, why_nowhere, why_unfit
from supervisor.plan.prepare import Preparations
from supervisor.plan.room import freed, share_in_use, why_busy

MEMORY_RAISED = "its driver memory was raised to {} after out_of_memory"


def place(
    candidates: Iterable[WaitingAssignment],
    members: Mapping[str, Member],
    loads: Mapping[str, Load],
    prepared: Preparations | None = None,
    cordons: Mapping[str, Found[Cordon] | Unreadable] = MappingProxyType({}),
    spread: Spread | None = None,
) -> tuple[list[Assign], list[Note]]:
    """Returns hosts for the candidates, highest priority first; a candidate that gets no slot is pending,
    with the reason. A host comes first on which a prepared driver waits for this very attempt, then one that spreads the
    group of the job best; ``spread`` has what is there, and counts what is placed. Prepared drivers take
    no place here: whoever starts a driver discards them. Nothing is placed on a host that is cordoned by ``cordons``, on
    one that lacks a label or a Spark that the job requires, nor on one whose policy has refused the job.

    Among equals, those that failed last come last: jobs that never start would otherwise take each slot that
    becomes free before the others, by their names, again and again.
    """
    actions: list[Assign] = []
    spread = Spread() if spread is None else spread
    cordoned = cordoned_by(cordons)
    uncordoned = [m for m in members.values() if m.id not in cordoned]
    ready, notes = _inturn_of(candidates, prepared)
    for needed, ready_on, candidate in ready:
        free = freed(loads, candidate.own.record) if candidate.waited else loads
        memory, job, own = needed.whole, candidate.ref.record, candidate.own.record
        open_hosts = [m for m in uncordoned if lacking(m, job, own, free.get(m.id, Load()), memory) is None]
        if not open_hosts:
            notes.append(_pending(candidate, needed, members, free, cordoned))
            continue
        last, rank = _did_not_start(candidate), spread.ranks(job, members)
        host = min(open_hosts, key=_preference(candidate, last, ready_on, rank, free))
        spread.add(job, host.id)
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
                moved_by=moved_by(candidate, cordons),
                queries=candidate.queries,
                left=candidate.left,
            )
        )
    return actions, notes


def _preference(
    candidate: WaitingAssignment,
    last: str | None,
    ready_on: frozenset[str],
    rank: Mapping[str, int],
    loads: Mapping[str, Load],
) -> Callable[[Member], tuple[bool, bool, bool, bool, int, float, str]]:
    """Returns the key by which the host for ``candidate`` is chosen, lowest first: where it shall move to, unless only
    another host has the driver of its update; where its working directory is; where a driver is ready; which spreads its
    group best (``rank``); where most is free."""
    job, own = candidate.ref.record, candidate.own.record
    move = job.move_in_force if own.restart_nonce != job.restart_nonce else None
    to, updates = move.to if move is not None else "", own.uid == job.uid and own.revision != job.revision

    def key(m: Member) -> tuple[bool, bool, bool, bool, int, float, str]:
        ready = m.id in ready_on
        moves = m.id == to and (ready or not updates)
        return (
            m.id == last,
            not moves,
            m.id != candidate.home,
            not ready,
            rank.get(m.id, 0),
            share_in_use(m, loads.get(m.id, Load())),
            m.id,
        )

    return key


def moved_by(candidate: WaitingAssignment, cordons: Mapping[str, Found[Cordon] | Unreadable]) -> str:
    """Returns the drain of a host by which the job of ``candidate`` left that host and does not run yet; else empty.

    It left by it if its last attempt there was stopped in order; what fails since then still counts.
    """
    job, own = candidate.ref.record, candidate.own.record
    if own.uid != job.uid:
        return ""
    found = cordons.get(own.supervisor)
    stopped = own.state is OwnState.EXITED and own.cause is Cause.STOPPED
    left = stopped or candidate.waited is not None
    if left and isinstance(found, Found) and found.record.draining:
        return found.record.drain
    return "" if stopped else own.moved_by


def _inturn_of(
    candidates: Iterable[WaitingAssignment], prepared: Preparations | None
) -> tuple[list[tuple[DriverMemory, frozenset[str], WaitingAssignment]], list[Note]]:
    """Returns the candidates in their turns, each with what it needs and where a driver is ready for it, and notes of
    those that can't be judged."""
    notes: list[Note] = []
    ready: list[tuple[tuple[int, int, str], DriverMemory, frozenset[str], WaitingAssignment]] = []
    for candidate in candidates:
        try:
            job, own = candidate.ref.record, candidate.own.record
            memory_needed = next_memory(job, own)
            hosts = prepared.ready_hosts(job, own, memory_needed) if prepared is not None else frozenset()
            ready.append((turn_of(candidate), memory_needed, hosts, candidate))
        except Exception as error:  # noqa: BLE001 - the edge of one job within the plan
            notes.append(not_judged(candidate.name, error))
    return [each[1:] for each in sorted(ready, key=lambda each: each[0])], notes


def not_judged(name: str, error: Exception) -> Note:
    """Returns the note of a job that can't be decided, for whatever reason. It is left alone and shown: one
    name's trouble stays its own (I9)."""
    why = f"its records could not be judged ({type(error).__name__}: {error}); nothing is done about it"
    return Note(name, why, quarantined=True)


def turn_of(candidate: WaitingAssignment) -> tuple[int, int, str]:
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


def lacking(member: Member, job: JobRef, own: Ownership, load: Load, memory: int) -> str | None:
    """Returns what keeps ``member``, which carries ``load``, from being given ``job`` now, or None."""
    why = why_not_taken(member, job, own, load, memory)
    return why if why is not None else why_busy(member, load)


def _pending(
    candidate: WaitingAssignment,
    needed: DriverMemory,
    members: Mapping[str, Member],
    loads: Mapping[str, Load],
    cordoned: Mapping[str, str],
) -> Note:
    """Returns the note of a candidate that gets no slot."""
    job, own = candidate.ref.record, candidate.own.record
    fit = [m for m in members.values() if why_unfit(m, job.terms) is None]
    nowhere = why_nowhere(members.values(), job.terms)
    why = nowhere or (
        "no supervisor is up" if not members else _why_no_room(fit, loads, needed.whole, job, own, cordoned)
    )
    if needed.raised and fit:
        why += f"; {MEMORY_RAISED.format(as_spark_size(needed.driver))}"
    return Note(candidate.name, why, pending=True, unplaceable=nowhere is not None)


def _why_no_room(
    fit: list[Member],
    loads: Mapping[str, Load],
    memory: int,
    job: JobRef,
    own: Ownership,
    cordoned: Mapping[str, str],
) -> str:
    reasons = [cordoned.get(m.id) or lacking(m, job, own, loads.get(m.id, Load()), memory) or "" for m in fit]
    required = required_of(job.terms)
    which = f" where {', '.join(required)} is" if required else ""
    return f"no room{which}: {first_few(sorted(reasons))}"
