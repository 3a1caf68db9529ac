"""Decides which drivers this host keeps prepared, sans I/O: ``decide`` compares what is asked for with what is there
and with what is free.

What is asked for is a wish of the leader (``Preparation``), and what is there is no attempt: nothing here guards a
write. The rules:

* One driver is kept for each request: of several the one that is ready, else the oldest. It must be what is asked for now.
* What is asked for no more is discarded, unless an attempt of its job is assigned here: it may be handed to it, and the
  leader takes the request back meanwhile. Requests that cannot be read are unknown, and nothing is discarded on unknown.
* Attempts come first. A driver is prepared only where there is room beside all that runs or is prepared; and where attempts
  need the room, prepared drivers go, lowest priority first.
* For a moment after an attempt was handed over no other driver is prepared for its job: the request by which that one was
  prepared is still there.
* What cannot be prepared is tried again after a growing pause, and the host's record says why.

``prepared_drivers`` carries it out.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace

from supervisor.growing_pause import GrowingPause
from supervisor.model.launch import NO_ATTEMPT
from supervisor.model.phrases import all_its
from supervisor.model.records import Assignment, Preparation, PreparedDriver, PrepareLevel
from supervisor.model.root_cause import cause_text
from supervisor.records.layout import request_name

RETRY_PAUSE = GrowingPause(first_s=5.0, longest_s=300.0)
WHY_MAX_BYTES = 160


@dataclass(frozen=True, slots=True)
class RequestedDriver:
    """Holds a request. ``entry`` is its name, ``<uid>.<revision>``. If ``record`` is None, ``why`` says what is wrong with
    it. ``czxid`` is for the trust check."""

    entry: str
    record: Preparation | None
    why: str = ""
    czxid: int = 0


@dataclass(frozen=True, slots=True)
class KeptDriver:
    """Holds a prepared driver of this host to which no attempt was handed. ``for_request`` is what it was prepared for; its
    ``spec``, ``memory`` and so on are what it has. ``ready_at`` is since when it is ready, for display. If it will never be
    ready, ``why`` says why. ``lacks`` is what one that is ready has not."""

    key: str
    for_request: Preparation
    begun_at_s: float
    start_timeout_s: float
    ready: bool = False
    ready_at: str = ""
    why: str = ""
    lacks: str = ""
    alive: bool = True
    discarded: bool = False

    @property
    def entry(self) -> str:
        return request_name(self.for_request.uid, self.for_request.revision)

    @property
    def is_standing(self) -> bool:
        """Returns whether an attempt could be handed to it, now or when it is ready."""
        return self.alive and not self.discarded


@dataclass(frozen=True, slots=True)
class HostLoad:
    """Holds what an attempt occupies, or is about to. ``takes_prepared`` says that a prepared driver of its job is meant
    for it, and occupies the same."""

    uid: str
    memory: int
    takes_prepared: bool = False


@dataclass(frozen=True, slots=True)
class PreparePause:
    """Says until when a request is not met, why, and how often that was so. ``passing`` says that nothing is wrong with
    the request, ``refused`` that only the policy of this host does not allow it."""

    why: str
    tries: int
    again_at_s: float
    passing: bool = False
    refused: bool = False


@dataclass(frozen=True, slots=True)
class HostCapacity:
    """Holds what this host may carry."""

    host: str
    drivers: int
    memory: int


@dataclass(frozen=True, slots=True)
class PreparedSituation:
    """Holds all that is decided from. ``asked`` is None if it is not known. ``under_way`` are the requests for which
    a driver is being started just now. ``assigned`` are the uids that have an assignment here, ``handed`` those of which an
    attempt was handed over a moment ago."""

    asked: Mapping[str, RequestedDriver] | None
    kept: Sequence[KeptDriver]
    loads: Sequence[HostLoad]
    capacity: HostCapacity
    under_way: Mapping[str, Preparation]
    pauses: Mapping[str, PreparePause]
    assigned: Collection[str]
    now_s: float
    handed: Collection[str] = ()


@dataclass(frozen=True, slots=True)
class PreparedDecision:
    """Says what is to be done: ``discard`` has the key and why, ``failed`` the request and why, and ``reported`` is for the
    host's record."""

    prepare: tuple[RequestedDriver, ...]
    discard: tuple[tuple[KeptDriver, str], ...]
    failed: tuple[tuple[str, str], ...]
    reported: tuple[PreparedDriver, ...]


def decide(situation: PreparedSituation) -> PreparedDecision:
    """Returns what is to be done. It is pure."""
    standing = {kept.key: kept for kept in situation.kept if kept.is_standing}
    discard: list[tuple[KeptDriver, str]] = []
    failed: list[tuple[str, str]] = []
    chosen = _chosen(situation, standing.values())
    for kept in standing.values():
        why, fault = _why_not_kept(situation, kept, chosen)
        if why:
            discard.append((kept, why))
            if fault:
                failed.append((kept.entry, why))
    gone = {kept.key for kept, _ in discard}
    left = [kept for key, kept in standing.items() if key not in gone]
    discard += [
        (kept, f"{situation.capacity.host} needs its room for a start") for kept in overfull(situation, left)
    ]
    gone = {kept.key for kept, _ in discard}
    left = [kept for kept in left if kept.key not in gone]
    prepare, waiting = _to_prepare(situation, left, {entry for entry, _ in failed})
    failures = {entry: pause.why for entry, pause in situation.pauses.items()} | dict(failed)
    passing = {entry for entry, pause in situation.pauses.items() if pause.passing} - {
        entry for entry, _ in failed
    }
    reported = _reported(situation, left, prepare, failures | waiting, passing | waiting.keys())
    return PreparedDecision(tuple(prepare), tuple(discard), tuple(failed), reported)


def overfull(situation: PreparedSituation, standing: Sequence[KeptDriver]) -> list[KeptDriver]:
    """Returns those of ``standing`` that have to go because attempts need their room, lowest priority first. A driver that
    is meant for an attempt that is about to start stays: both occupy the same."""
    loads, capacity = situation.loads, situation.capacity
    meant = {load.uid for load in loads if load.takes_prepared}
    at_will = [kept for kept in standing if kept.for_request.uid not in meant]
    drivers = len(loads) + len(at_will) - capacity.drivers
    memory = (
        sum(load.memory for load in loads)
        + sum(kept.for_request.memory for kept in at_will)
        - capacity.memory
    )
    going: list[KeptDriver] = []
    for kept in sorted(
        at_will, key=lambda each: (each.for_request.priority, each.ready, -each.begun_at_s, each.key)
    ):
        if drivers <= 0 and memory <= 0:
            break
        going.append(kept)
        drivers, memory = drivers - 1, memory - kept.for_request.memory
    return going


def no_assignment_yet(request: Preparation) -> Assignment:
    """Returns what stands in the launch of a prepared driver in the place of an assignment, which it does not have yet: no
    claim can meet its versions."""
    return Assignment(
        name=request.name,
        uid=request.uid,
        attempt=NO_ATTEMPT,
        revision=request.revision,
        job_version=-1,
        own_version=-1,
        spec=request.spec,
        memory=request.memory,
        driver_memory=request.driver_memory,
    )


def is_for(request: Preparation, made_for: Preparation) -> bool:
    """Returns whether a driver that was prepared for ``made_for`` is what ``request`` asks for. A request that was made anew
    asks for a new one (``at``)."""

    def what(one: Preparation) -> tuple[object, ...]:
        return one.uid, one.revision, one.spec.sha256, one.level, one.memory, one.driver_memory, one.at

    return what(request) == what(made_for)


def _chosen(situation: PreparedSituation, standing: Collection[KeptDriver]) -> dict[str, str]:
    """Returns, by request, the key of the one driver that is kept for it."""
    chosen: dict[str, str] = {}
    for kept in sorted(standing, key=lambda each: (not each.ready, each.begun_at_s, each.key)):
        chosen.setdefault(kept.entry, kept.key) if _is_asked_for(situation, kept) else None
    return chosen


def _is_asked_for(situation: PreparedSituation, kept: KeptDriver) -> bool:
    asked = (situation.asked or {}).get(kept.entry)
    return asked is not None and asked.record is not None and is_for(asked.record, kept.for_request)


def _why_not_kept(
    situation: PreparedSituation, kept: KeptDriver, chosen: Mapping[str, str]
) -> tuple[str, bool]:
    """Returns why a driver is to be discarded, or an empty text; and whether that is a fault of it."""
    if not kept.ready and kept.why:
        return kept.why, True
    if not kept.ready and situation.now_s - kept.begun_at_s >= kept.start_timeout_s:
        return f"it was not ready within {kept.start_timeout_s:g} s (health.start_timeout)", True
    if situation.asked is None or kept.for_request.uid in situation.assigned:
        return "", False
    asked = situation.asked.get(kept.entry)
    if asked is None:
        return "it is not asked for any more", False
    if asked.record is None:
        return "", False  # unknown
    if not _is_asked_for(situation, kept):
        return "it is asked for anew, or with another spec, level or memory", False
    return ("", False) if chosen[kept.entry] == kept.key else ("another one is kept for the same job", False)


def _to_prepare(
    situation: PreparedSituation, left: Sequence[KeptDriver], failed: Collection[str]
) -> tuple[list[RequestedDriver], dict[str, str]]:
    """Returns the requests that are to be met now, and why others wait."""
    there = {kept.entry for kept in left}
    free = _free(situation)
    prepare: list[RequestedDriver] = []
    waiting: dict[str, str] = {}
    asked = [each for each in (situation.asked or {}).values() if each.record is not None]
    for each in sorted(asked, key=lambda one: (-one.record.priority if one.record else 0, one.entry)):
        record, pause = each.record, situation.pauses.get(each.entry)
        if record is None or each.entry in there or each.entry in situation.under_way or each.entry in failed:
            continue
        if record.uid in situation.handed:
            continue
        if pause is not None and situation.now_s < pause.again_at_s:
            continue
        why = _why_no_room(situation.capacity, free, record.memory)
        if why:
            waiting[each.entry] = why
        else:
            prepare.append(each)
            free = free[0] - 1, free[1] - record.memory
    return prepare, waiting


def _free(situation: PreparedSituation) -> tuple[int, int]:
    """Returns how many drivers and how many bytes are free beside all that lives, those that were discarded included."""
    meant = {load.uid for load in situation.loads if load.takes_prepared}
    memory = [load.memory for load in situation.loads]
    memory += [each.memory for each in situation.under_way.values()]
    memory += [
        kept.for_request.memory for kept in situation.kept if kept.alive and kept.for_request.uid not in meant
    ]
    return situation.capacity.drivers - len(memory), situation.capacity.memory - sum(memory)


def _why_no_room(capacity: HostCapacity, free: tuple[int, int], memory: int) -> str:
    if free[0] < 1:
        return f"no room: {capacity.host} has {all_its(capacity.drivers, 'driver')}"
    if free[1] < memory:
        return f"no room: {capacity.host} has {max(0, free[1]) // 2**20}m free, {memory // 2**20}m are needed"
    return ""


def _reported(
    situation: PreparedSituation,
    left: Sequence[KeptDriver],
    prepare: Sequence[RequestedDriver],
    failures: Mapping[str, str],
    passing: Collection[str],
) -> tuple[PreparedDriver, ...]:
    """Returns what the host's record says: the ready ones first, then those that cannot be prepared."""
    reported = {
        kept.entry: _described(kept.for_request, ready=kept.ready, ready_at=kept.ready_at, lacks=kept.lacks)
        for kept in _best_last(left)
    }
    begun = [each.record for each in prepare if each.record is not None] + list(situation.under_way.values())
    for record in begun:
        reported.setdefault(request_name(record.uid, record.revision), _described(record))
    for entry, asked in (situation.asked or {}).items():
        if entry in reported:
            continue
        if asked.record is not None:
            why = failures.get(entry, "")
            pause = situation.pauses.get(entry)
            refused = pause is not None and pause.refused and pause.why == why
            reported[entry] = replace(
                _described(asked.record, why=why), waits=entry in passing, refused=refused
            )
        else:
            uid, _, revision = entry.rpartition(".")
            if uid and revision.isascii() and revision.isdigit() and len(revision) < 10:
                reported[entry] = PreparedDriver(
                    uid=uid,
                    revision=int(revision),
                    level=PrepareLevel.SESSION,
                    sha256="",
                    why=_short(asked.why),
                )
    order = sorted(reported.items(), key=lambda item: (not item[1].ready, not item[1].why, item[0]))
    return tuple(each for _, each in order)


def _best_last(left: Sequence[KeptDriver]) -> list[KeptDriver]:
    return sorted(left, key=lambda each: (each.ready, -each.begun_at_s))


def _described(
    record: Preparation, *, ready: bool = False, ready_at: str = "", why: str = "", lacks: str = ""
) -> PreparedDriver:
    return PreparedDriver(
        uid=record.uid,
        revision=record.revision,
        level=record.level,
        sha256=record.spec.sha256,
        driver_memory=record.driver_memory,
        ready=ready,
        ready_at=ready_at,
        why=_short(why),
        lacks=_short(lacks),
    )


def _short(why: str) -> str:
    return cause_text(why, WHY_MAX_BYTES)
