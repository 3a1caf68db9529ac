"""Says which drivers should be prepared where (protocol §9.1), and what a restart waits for. It is pure.

A *request* is a record of the leader below /prepare: it asks a host to keep a prepared driver of one revision of a job.
What the host made of it stands in the host's own record (``Member.prepared``). Neither is a guard of anything: a request
that should not be there costs memory, and one that is missing costs time.

``Preparations`` holds the requests of one View, and the room that is left beside all that runs and is prepared.
``plan.decide`` asks it whether a restart or an update has something to wait for, ``plan.place`` where a driver is ready, and
``preparing`` makes the actions that lead from the requests that there are to those that should be there:

* of a job that waits with its restart or its update, one on a host with room: another host than its own, if one has
  room;
* of a job in back-off for ``BACKOFF_MIN_S`` or longer, the same;
* of a job that runs and has a standby, one where the spec says, prepared anew after ``refresh``;
* while a job is on its way from one attempt to the next, those that are there stay; nothing new is asked for;
* else none.

A request is asked for only where there is room, and is taken back where there is none any more (the lowest priority
first): so no request goes back and forth. A start that can be claimed never waits for the place of a prepared driver:
``plan.place`` does not count them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from copy import copy
from dataclasses import dataclass, replace
from functools import cached_property
from types import MappingProxyType
from typing import Final

from supervisor.model.actions import Action, Prepare, Withdraw
from supervisor.model.driver_memory import DriverMemory, next_memory
from supervisor.model.load import SLOT_MAX_S, Load, loads_of
from supervisor.model.phrases import counted, first_few
from supervisor.model.policies import by_policy, refuses
from supervisor.model.records import (
    PREPARED_MAX,
    Cause,
    Desired,
    JobRef,
    Member,
    Ownership,
    OwnState,
    Phase,
    Preparation,
    PreparedDriver,
    PrepareLevel,
    StandbyWhere,
    UpdateMode,
)
from supervisor.model.requirements import required_of
from supervisor.model.seen import Found
from supervisor.model.state import account_of, is_pending, standing_update
from supervisor.model.view import Row, SeenPreparation, View, home_of
from supervisor.plan.placement import Spread, why_barred, why_unfit
from supervisor.plan.room import share_in_use, why_busy, why_no_room
from supervisor.plan.startable import StartPlaces, goes_on
from supervisor.spec.site_policy import SitePolicy

BACKOFF_MIN_S: Final = 15.0
"""For a shorter back-off nothing is prepared: it would hardly be ready in time."""


@dataclass(frozen=True, slots=True)
class Request:
    """Is a readable request. ``first_seen_at_s`` and ``due_from_at_s`` are as in ``SeenPreparation``."""

    supervisor: str
    path: str
    version: int
    record: Preparation
    first_seen_at_s: float
    due_from_at_s: float


@dataclass(frozen=True, slots=True)
class NextDriver:
    """Says what a restart or an update does now. With ``stop`` the present driver is stopped, else it goes on for at most
    ``wait_s`` more (None: until another driver is prepared). ``host`` is where a driver is ready or being prepared, or is
    empty. ``impossible`` says that ``why`` no driver can be prepared, for which a restart is a cold start; with
    ``may_pass`` it is no fault of what is to be prepared, and an update waits instead of being given up. ``holds_stop`` is
    as in ``Note``."""

    stop: bool
    why: str
    host: str = ""
    wait_s: float | None = None
    impossible: bool = False
    may_pass: bool = False
    holds_stop: bool = False


@dataclass(frozen=True, slots=True)
class Wish:
    """Says that one prepared driver is wanted. ``other`` means: only on another host than ``present``; ``to`` names the only
    host on which it is of use, ``first`` the one that is asked before others; both may be empty."""

    level: PrepareLevel
    why: str
    present: str
    other: bool = False
    to: str = ""
    first: str = ""
    refresh_s: float | None = None


KEEP: Final = "keep"
"""The wish of a job that is between two attempts: what is prepared stays, and nothing new is asked for."""


class Preparations:
    """Holds the requests of one View by job, and what each host carries with them. ``now_s`` is CLOCK_BOOTTIME of the
    observer. It is not changed by what is planned: ``preparing`` keeps account of that itself."""

    def __init__(self, view: View, now_s: float, site: SitePolicy | None = None) -> None:
        self.now_s = now_s
        self.cordoned = view.cordoned
        self.start_places = StartPlaces(view, site)
        self.hosts = {host: m for host, m in self.start_places.open_hosts.items() if m.prepares > 0}
        self._members = view.members
        self._rows = view.rows
        self._by_uid: dict[str, list[Request]] = {}
        readable = [_request(each) for each in view.preparations]
        known = [each for each in readable if each is not None]
        self.requests = tuple(sorted(known, key=lambda each: (not self.is_ready(each), each.path)))
        for request in self.requests:
            self._by_uid.setdefault(request.record.uid, []).append(request)
        self._kept = Counter(request.supervisor for request in self.requests)
        self._claimable = frozenset(_given(view.rows.values()))
        self.running = loads_of(view.rows.values(), now_s)
        self.loads = dict(self.running)
        for request in self.requests:
            self.loads[request.supervisor] = self.with_request(
                self.loads.get(request.supervisor, Load()), request
            )

    def at(self, now_s: float) -> Preparations:
        """Returns the same requests and loads with the clock at ``now_s``. Counting anew for each of many jobs that wait
        would cost the square of their number."""
        later = copy(self)
        later.now_s = now_s
        return later

    @cached_property
    def spread(self) -> Spread:
        """Has the attempts that occupy their hosts, and what is prepared beside them."""
        counted_so_far = Spread(self._rows.values())
        for request in self.requests:
            row = self._rows.get(request.record.name)
            is_given = (request.supervisor, request.record.uid) in self._claimable
            if row is not None and isinstance(row.ref, Found) and not is_given:
                counted_so_far.add(row.ref.record, request.supervisor)
        return counted_so_far

    def with_request(self, load: Load, request: Request) -> Load:
        """Returns ``load`` with the prepared driver of ``request``. One that an assignment of its job is about to use
        is counted there already."""
        if (request.supervisor, request.record.uid) in self._claimable:
            return load
        return load.plus(request.record.memory, starting=self.is_coming(request))

    def of(self, uid: str) -> tuple[Request, ...]:
        """Returns the requests for a uid, of any revision."""
        return tuple(self._by_uid.get(uid, ()))

    def driver(self, request: Request) -> PreparedDriver | None:
        """Returns what the host says of the request, or None if it says nothing yet."""
        host = self._members.get(request.supervisor)
        found = host.prepared if host is not None else ()
        return next((each for each in found if _is_of(each, request.record)), None)

    def is_ready(self, request: Request) -> bool:
        """Says whether its driver waits for an attempt."""
        driver = self.driver(request)
        return driver is not None and driver.ready

    def is_coming(self, request: Request) -> bool:
        """Says whether the driver of ``request`` is being brought up, and holds a starting slot. One that is stuck does
        not hold it (``model.load``)."""
        driver = self.driver(request)
        over = driver is not None and (driver.ready or bool(driver.why))
        return not over and self.now_s - request.due_from_at_s < SLOT_MAX_S

    def fits(self, request: Request, job: JobRef, own: Ownership, memory: DriverMemory) -> bool:
        """Says whether what is prepared by ``request`` is what ``job`` would be started with, on a host that is there, has
        the labels that the job requires, and whose policy has not refused it."""
        host = self.hosts.get(request.supervisor)
        if host is None or why_barred(host, job, own) is not None:
            return False
        return _is_for(request.record, job, memory)

    def ready_hosts(self, job: JobRef, own: Ownership, memory: DriverMemory) -> frozenset[str]:
        """Returns the hosts on which a driver waits that can take the next attempt, if that may use one."""
        if not may_use(job, own):
            return frozenset()
        return frozenset(
            host.id
            for host in self.hosts.values()
            for each in host.prepared
            if each.ready
            and (each.uid, each.revision, each.sha256, each.driver_memory)
            == (job.uid, job.revision, job.spec.sha256, memory.driver)
        )

    def _home_of(self, job: JobRef) -> str:
        """Returns what ``view.home_of`` says of ``job``."""
        row = self._rows.get(job.name)
        return home_of(row) if row is not None else ""

    # -- a host with room ------------------------------------------------------------------------------------------

    def choice(
        self, job: JobRef, own: Ownership, wish: Wish, memory: int, loads: Mapping[str, Load], spread: Spread
    ) -> tuple[Member | None, str, bool]:
        """Returns the host for one more prepared driver of ``job``: the least used one with room, and the present one only
        if no other has room; of a job that is spread, among the hosts that spread it best. No host is chosen whose policy
        has refused the job. If there is none: why, and whether it is only that the hosts with room have enough to bring up
        for the moment."""
        wanted = [
            host
            for host in self.hosts.values()
            if wish.to in ("", host.id) and not (wish.other and host.id == wish.present)
        ]
        fit = [host for host in wanted if why_unfit(host, job.terms) is None]
        hosts = [host for host in fit if not refuses(host, job, own)]
        first = [host for host in hosts if host.id == wish.first]
        reasons = [why for host in fit if (why := why_barred(host, job, own)) is not None]
        for group in (first, *_by_preference(hosts, wish.present, spread.ranks(job, self._members))):
            room = []
            for host in group:
                load = loads.get(host.id, Load())
                why = why_no_room(host, load, memory) or self._why_full(host, load)
                if why is None:
                    busy = why_busy(host, load) or ""
                    room.append((bool(busy), share_in_use(host, load), host.id, host, busy))
                elif why not in reasons:
                    reasons.append(why)
            if room:
                *_, host, busy = min(room, key=lambda each: each[:3])
                return (None, busy, True) if busy else (host, "", False)
        if not fit:
            which = "no other host" if wish.other else "no host"
            if wanted:
                return (
                    None,
                    f"{which} has {', '.join(required_of(job.terms))}{self.start_places.but_cordoned()}",
                    False,
                )
            return (
                None,
                f"no room: {which} that keeps prepared drivers is up{self.start_places.but_cordoned()}",
                False,
            )
        return None, f"no room: {first_few(reasons)}{self.start_places.but_cordoned()}", False

    def takes_more(self, loads: Mapping[str, Load]) -> bool:
        """Says whether the record of any host has room for one more prepared driver."""
        return any(self._why_full(host, loads.get(host.id, Load())) is None for host in self.hosts.values())

    def _why_full(self, host: Member, load: Load) -> str | None:
        """Returns a reason if the record of ``host`` has no room for one more. ``load`` has what this plan adds."""
        added = load.drivers - self.loads.get(host.id, Load()).drivers
        if self._kept[host.id] + added >= PREPARED_MAX:
            return f"{host.id} keeps {counted(PREPARED_MAX, 'prepared driver')} already"
        return None

    # -- a restart, an update --------------------------------------------------------------------------------------

    def restart(self, job: JobRef, own: Ownership) -> NextDriver:
        """Says whether a restart that was asked for stops the present driver now: at once if nothing can or shall be
        prepared, else when a driver is ready, or can't be, or ``start_timeout`` is over."""
        asked = "a restart was asked for"
        if job.cold_restart == job.restart_nonce:
            return NextDriver(True, f"{asked}, without a prepared driver")
        if job.terms.prepare is None:
            return NextDriver(True, asked)
        said = self._next_driver(job, own, asked)
        return NextDriver(True, f"{asked}; it starts cold: {said.why}") if said.impossible else said

    def update(self, job: JobRef, own: Ownership) -> NextDriver:
        """Says whether the present driver, of the revision before, is stopped now: when a driver of the new one is ready,
        or at once where none shall or could ever be prepared. Without room it goes on until there is some, or until a
        restart is asked for."""
        asked = f"revision {job.revision} replaces {own.revision}"
        if waits_for_restart(job, own):
            why = f"revision {job.revision} waits until the job is restarted, as its spec says (update.mode: manual)"
            return NextDriver(False, f"{why}: restart {job.name}")
        if mode_of(job) is UpdateMode.RESTART:
            return NextDriver(True, f"{asked}; it starts cold, as its spec says (update.mode: restart)")
        if _is_cold(job, own):
            return NextDriver(True, f"{asked}, without a prepared driver")
        if job.terms.prepare is None:
            return NextDriver(True, f"{asked}; it starts cold, as its spec says")
        if not self.hosts:
            return NextDriver(True, f"{asked}; it starts cold: no host keeps prepared drivers")
        said = self._next_driver(job, own, asked)
        if not said.may_pass:
            return said
        if own.restart_nonce != job.restart_nonce and job.move_in_force is None:
            return NextDriver(True, f"{asked}, and a restart was asked for; it starts cold: {said.why}")
        why = f"the update waits: {said.why} (restart {job.name} --cold does not wait)"
        return NextDriver(False, why)

    def unless_not_startable(self, job: JobRef, own: Ownership, said: NextDriver) -> NextDriver:
        """Returns ``said``, unless it would stop a driver that could not be started again now."""
        start_place = self.start_places.for_restart(job, own, self.running) if said.stop else None
        if start_place is None or start_place.host is not None:
            return said
        return NextDriver(False, goes_on(said.why, own, start_place.why), said.host, holds_stop=True)

    def move(
        self, job: JobRef, own: Ownership, why: str, loads: Mapping[str, Load], to: str = ""
    ) -> NextDriver:
        """Says whether the present driver is stopped now so that the job leaves its host, for ``to`` if that is given: when
        a driver is ready there; at once where none is ever prepared, or has no room, but a start has. Else it goes on
        (``impossible``: there is no host for it). ``loads`` is what hosts carry without prepared drivers; ``why`` says
        what asks for the move.

        A driver that could not be prepared stops nothing, as for an update: it would hardly start.
        """
        wish = move_wish(job, own, why, to)
        cold = "it starts cold, as its spec says"
        if wish is not None:
            said = self._next_driver(job, own, why, wish)
            start_place = self.start_places.elsewhere(job, own, loads, said.host) if said.stop else None
            if start_place is not None and start_place.host is None:
                return NextDriver(False, start_place.why, said.host, impossible=True, may_pass=True)
            if not said.impossible or said.host:
                return said
            cold = f"it starts cold: {said.why}"
        start_place = self.start_places.elsewhere(job, own, loads, to)
        if start_place.host is not None and not start_place.is_busy:
            return NextDriver(True, f"{why}; {cold}", start_place.host.id)
        return NextDriver(False, start_place.why, impossible=not start_place.is_busy, may_pass=True)

    def _next_driver(self, job: JobRef, own: Ownership, asked: str, wish: Wish | None = None) -> NextDriver:
        memory, wish = next_memory(job, own), wish or _of_change(job, own, self._home_of(job))
        there = [
            each for each in self.of(job.uid) if self.fits(each, job, own, memory) and _is_where(each, wish)
        ]
        ready = next(filter(self.is_ready, there), None)
        if ready is not None:
            return NextDriver(True, f"{asked}; a driver is ready on {ready.supervisor}", ready.supervisor)
        for request in there:
            return self._awaited(job, request)
        host, why, later = self.choice(job, own, wish, memory.whole, self.loads, self.spread)
        if host is not None:
            where = f"a driver is to be prepared on {host.id}"
            return NextDriver(False, f"{where}; the running one goes on until it is ready", host.id)
        if later:
            return NextDriver(False, f"a driver is to be prepared when there is a place for it: {why}")
        return NextDriver(False, why, impossible=True, may_pass=True)

    def _awaited(self, job: JobRef, request: Request) -> NextDriver:
        driver, host = self.driver(request), request.supervisor
        if driver is not None and driver.why:
            why = f"{host} could prepare no driver: {driver.why}"
            may_pass = driver.waits or (driver.refused and len(by_policy(self._members.values())) > 1)
            return NextDriver(False, why, host, impossible=True, may_pass=may_pass)
        left_s = request.due_from_at_s + job.terms.start_timeout_s - self.now_s
        if left_s <= 0:
            limit = f"{job.terms.start_timeout_s:g} s"
            return NextDriver(False, f"{host} has prepared no driver within {limit}", host, impossible=True)
        where = f"a driver is being prepared on {host}"
        return NextDriver(False, f"{where}; the running one goes on until it is ready", host, left_s)

    # -- for people ------------------------------------------------------------------------------------------------

    def standby(self, row: Row) -> str:
        """Returns what there is to say of the standby of a job that runs; empty for a job without one."""
        wish = wish_of(row, self.now_s)
        if not isinstance(wish, Wish) or wish.refresh_s is None or not isinstance(row.ref, Found):
            return ""
        assert isinstance(row.own, Found)
        job, own = row.ref.record, row.own.record
        memory = next_memory(job, own)
        for request in self.of(job.uid):
            if self.fits(request, job, own, memory) and _is_where(request, wish):
                driver, host = self.driver(request), request.supervisor
                if driver is not None and driver.why:
                    return f"no standby: {host} could prepare no driver: {driver.why}"
                done = driver is not None and driver.ready
                lacks = f" ({driver.lacks})" if driver is not None and driver.lacks else ""
                return (
                    f"a driver is ready on {host}{lacks}" if done else f"a driver is being prepared on {host}"
                )
        chosen, why, _ = self.choice(job, own, wish, memory.whole, self.loads, self.spread)
        return f"no standby: {why}" if chosen is None else f"a driver is to be prepared on {chosen.id}"


def _by_preference(hosts: Iterable[Member], present: str, rank: Mapping[str, int]) -> list[list[Member]]:
    """Returns groups of hosts, the best first: the hosts of a group have the same rank, and the present host is a group of
    its own, after the others of its rank."""
    groups: dict[tuple[int, bool], list[Member]] = {}
    for host in sorted(hosts, key=lambda member: member.id):
        groups.setdefault((rank.get(host.id, 0), host.id == present), []).append(host)
    return [groups[key] for key in sorted(groups)]


def may_use(job: JobRef, own: Ownership) -> bool:
    """Says whether the next attempt of ``job`` may be handed to a prepared driver: not if a cold restart was asked for,
    nor after one that was lost before it began, so that a cause that lasts is found by a cold start."""
    if job.terms.prepare is None and job.terms.standby is None:
        return False
    if own.uid != job.uid:
        return False
    if _is_cold(job, own):
        return False
    return not (own.state is OwnState.EXITED and own.cause is Cause.PREPARED_LOST)


def _is_cold(job: JobRef, own: Ownership) -> bool:
    """Says whether a restart without a prepared driver was asked for, and not carried out yet."""
    return own.restart_nonce != job.restart_nonce and job.cold_restart == job.restart_nonce


def preparing(
    view: View,
    ready: Preparations,
    names: Iterable[str],
    moves: Mapping[str, Wish | str] = MappingProxyType({}),
) -> tuple[Action, ...]:
    """Returns the actions that lead to the requests that should be there, at most one for each name, and none for
    ``names``: those have another action, or one whose outcome is not known. ``moves`` has the wishes of jobs that leave
    their host (``plan.moves``)."""
    if not ready.hosts and not view.preparations:
        return ()
    taken = set(names)
    actions: list[Action] = []
    standing: set[str] = set()
    for action in _withdrawals(view, ready, standing, moves):
        if action.name not in taken:
            taken.add(action.name)
            actions.append(action)
    standing_names = {each.record.name for each in ready.requests if each.path in standing}
    wanted = sorted(_wanted(view, ready, taken | standing_names, moves), key=lambda each: each[:2])
    if not wanted:
        return tuple(actions)
    loads, spread = dict(ready.loads), ready.spread.copy()
    for _, name, wish, memory in wanted:
        row = view.rows[name]
        assert isinstance(row.ref, Found) and isinstance(row.own, Found)
        if not ready.takes_more(loads):
            break
        host, _, _ = ready.choice(row.ref.record, row.own.record, wish, memory.whole, loads, spread)
        if host is None:
            continue
        spread.add(row.ref.record, host.id)
        loads[host.id] = loads.get(host.id, Load()).plus(memory.whole, starting=True)
        is_new = host.id not in view.prepare_hosts
        actions.append(Prepare(row.name, wish.why, row.ref, row.own, host, wish.level, new_host=is_new))
    return tuple(actions)


def _wanted(
    view: View, ready: Preparations, but: set[str], moves: Mapping[str, Wish | str]
) -> Iterable[tuple[int, str, Wish, DriverMemory]]:
    """Yields what is wished for, with the key by which it takes its turn first; not for the names in ``but``. A job that
    can't be judged has no wish: one name's trouble stays its own (I9)."""
    for name, row in view.rows.items():
        if name in but:
            continue
        try:
            wish = moves.get(name) or wish_of(row, ready.now_s)
            if isinstance(wish, Wish) and isinstance(row.ref, Found) and isinstance(row.own, Found):
                memory = next_memory(row.ref.record, row.own.record)
                yield -row.ref.record.terms.priority, name, wish, memory
        except Exception:  # noqa: BLE001 - the edge of one job within the plan, which says so itself
            continue


def _withdrawals(
    view: View, ready: Preparations, standing: set[str], moves: Mapping[str, Wish | str]
) -> Iterable[Withdraw]:
    """Yields what is to be taken back, and adds the path of each request that stands to ``standing``."""
    for seen in view.preparations:
        if not isinstance(seen.seen, Found):
            key = seen.path.rpartition("/")[2]
            yield Withdraw(
                key, f"the request can't be read: {seen.seen.reason}", seen.path, seen.seen.version
            )
    asked: set[str] = set()
    kept: dict[str, list[Request]] = {}
    for request in ready.requests:
        try:
            why = _why_not(view, ready, request, asked, moves)
        except Exception as error:  # noqa: BLE001 - the edge of one job within the plan
            why = f"it could not be judged ({type(error).__name__}: {error})"
        if why is not None:
            yield Withdraw(request.record.name, why, request.path, request.version)
            continue
        kept.setdefault(request.supervisor, []).append(request)
        standing.add(request.path)
    for host, requests in kept.items():
        for request in _too_many(ready, host, requests):
            standing.discard(request.path)
            why = f"{host} has no room for it any more"
            yield Withdraw(request.record.name, why, request.path, request.version)


def _why_not(
    view: View, ready: Preparations, request: Request, asked: set[str], moves: Mapping[str, Wish | str]
) -> str | None:
    """Returns why a request stands no longer, or None. ``asked`` has the names of which one request stands that is
    wanted: a second one does not."""
    record = request.record
    row = view.rows.get(record.name)
    if row is None or (row.ref is None and not row.flaws):
        return "its job is gone"
    if row.flaws or row.is_torn or not isinstance(row.ref, Found) or not isinstance(row.own, Found):
        return None  # nothing is done on doubt
    job, own = row.ref.record, row.own.record
    if request.supervisor in ready.cordoned and not _is_handed(request, own):
        return ready.cordoned[request.supervisor]
    if request.supervisor not in ready.hosts and request.supervisor not in ready.cordoned:
        return f"{request.supervisor} is gone, or keeps no prepared drivers"
    host = ready.hosts.get(request.supervisor)
    barred = why_barred(host, job, own) if host is not None else None
    if barred is not None and not _is_handed(request, own):
        return barred
    if not _is_for(record, job, next_memory(job, own)) and not _is_handed(request, own):
        return "it is not what the job would be started with"
    wish = moves.get(record.name) or wish_of(row, ready.now_s)
    if wish is None:
        return "it is not needed"
    if not isinstance(wish, Wish):
        return None
    if not _is_where(request, wish):
        return "it is not where it is wanted" if record.level is wish.level else "another level is wanted"
    if wish.refresh_s is not None and ready.now_s - request.first_seen_at_s >= wish.refresh_s:
        return "it is prepared anew"
    if record.name in asked:
        return "one is enough"
    asked.add(record.name)
    return None


def _too_many(ready: Preparations, host: str, requests: list[Request]) -> list[Request]:
    """Returns the requests for which the host has no room beside what runs there, those of lowest priority first."""
    member, gone = ready.hosts.get(host), []
    load = ready.loads.get(host, Load())
    if member is None:
        return []
    for request in sorted(requests, key=lambda each: (each.record.priority, each.path)):
        if load.drivers <= member.drivers and load.memory <= member.memory:
            break
        if ready.with_request(Load(), request) == Load():
            continue  # an assignment is about to use it
        load = replace(load, drivers=load.drivers - 1, memory=load.memory - request.record.memory)
        gone.append(request)
    return gone


def wish_of(row: Row, now_s: float) -> Wish | str | None:
    """Returns what should be prepared of one job: a ``Wish``, ``KEEP``, or None for nothing."""
    if row.flaws or row.is_torn or not isinstance(row.ref, Found) or not isinstance(row.own, Found):
        return KEEP
    job, own = row.ref.record, row.own.record
    terms = job.terms
    if job.desired is not Desired.RUNNING or (terms.prepare is None and terms.standby is None):
        return None
    if own.uid != job.uid or own.state is not OwnState.CLAIMED:
        return _between(row, job, own, now_s)
    if own.revision != job.revision:
        starts_cold = terms.prepare is None or not _prepares_update(job, own) or not is_pending(job, own)
        return KEEP if starts_cold else _of_change(job, own, home_of(row))
    if own.restart_nonce != job.restart_nonce:
        cold = job.cold_restart == job.restart_nonce or terms.prepare is None
        return KEEP if cold else _of_change(job, own, home_of(row))
    if terms.standby is None:
        return None
    lease = row.lease_of_owner
    if lease is None or lease.phase is not Phase.RUNNING:
        return KEEP
    other = terms.standby.where is not StandbyWhere.ANY
    return Wish(terms.standby.level, "its standby", own.supervisor, other, refresh_s=terms.standby.refresh_s)


def mode_of(job: JobRef) -> UpdateMode:
    """Returns how the update to the revision that ``job`` has now is carried out."""
    update = standing_update(job)
    return update.policy.mode if update is not None and update.policy is not None else UpdateMode.HANDOVER


def waits_for_restart(job: JobRef, own: Ownership) -> bool:
    """Says whether the driver of the revision before goes on until somebody gives ``restart``."""
    return mode_of(job) is UpdateMode.MANUAL and own.restart_nonce == job.restart_nonce


def _prepares_update(job: JobRef, own: Ownership) -> bool:
    """Says whether a driver of the new revision is brought up beside the one that runs."""
    if mode_of(job) is UpdateMode.RESTART or waits_for_restart(job, own):
        return False
    return not _is_cold(job, own)


def _between(row: Row, job: JobRef, own: Ownership, now_s: float) -> Wish | str | None:
    """Returns the wish of a job that is between two attempts."""
    if own.uid != job.uid or own.state is not OwnState.EXITED or own.permanent:
        return KEEP if not own.permanent else None
    if job.terms.prepare is None or own.restart_nonce != job.restart_nonce or own.revision != job.revision:
        return KEEP
    account = account_of(job, own)
    if account.exhausted:
        return None
    left_s = row.own_seen_at_s + account.delay_s - now_s
    if account.delay_s < BACKOFF_MIN_S or left_s <= 0:
        return KEEP
    return Wish(job.terms.prepare, "it waits in back-off", own.supervisor)


def move_wish(job: JobRef, own: Ownership, why: str, to: str = "") -> Wish | None:
    """Returns the wish of a job that is to leave its host, for ``to`` if that is given; None if none of its drivers is
    prepared."""
    if job.terms.prepare is None:
        return None
    return Wish(job.terms.prepare, why, own.supervisor, other=True, to=to)


def _of_change(job: JobRef, own: Ownership, home: str) -> Wish:
    """Returns the wish of a job that runs, and waits with its restart or its update. ``home`` has what it wrote to its
    working directory (``home_of``), and is asked before others."""
    assert job.terms.prepare is not None
    move = job.move_in_force
    to = move.to if move is not None else ""
    if to and own.revision == job.revision:
        return Wish(job.terms.prepare, f"it moves to {to}", own.supervisor, other=True, to=to)
    changes = own.revision != job.revision
    why = f"revision {job.revision} is to replace {own.revision}" if changes else "a restart was asked for"
    return Wish(job.terms.prepare, why, own.supervisor, first=to or home)


def _is_where(request: Request, wish: Wish) -> bool:
    """Says whether ``request`` is what is wished for. A standby has to be of one level, and it and the driver for a move
    have their place: for a restart any driver will do."""
    if wish.to not in ("", request.supervisor) or (wish.other and request.supervisor == wish.present):
        return False
    return wish.refresh_s is None or request.record.level is wish.level


def _is_for(record: Preparation, job: JobRef, memory: DriverMemory) -> bool:
    return (record.uid, record.revision, record.spec.sha256, record.driver_memory, record.memory) == (
        job.uid,
        job.revision,
        job.spec.sha256,
        memory.driver,
        memory.whole,
    )


def _is_handed(request: Request, own: Ownership) -> bool:
    """Says whether an assignment is about to use what is prepared."""
    return own.state is OwnState.ASSIGNED and (own.supervisor, own.uid) == (
        request.supervisor,
        request.record.uid,
    )


def _is_of(driver: PreparedDriver, record: Preparation) -> bool:
    return (driver.uid, driver.revision, driver.level, driver.sha256, driver.driver_memory) == (
        record.uid,
        record.revision,
        record.level,
        record.spec.sha256,
        record.driver_memory,
    )


def _given(rows: Iterable[Row]) -> Iterable[tuple[str, str]]:
    for row in rows:
        if isinstance(row.own, Found) and row.own.record.state is OwnState.ASSIGNED:
            yield row.own.record.supervisor, row.own.record.uid


def _request(seen: SeenPreparation) -> Request | None:
    if not isinstance(seen.seen, Found):
        return None
    return Request(
        supervisor=seen.supervisor,
        path=seen.path,
        version=seen.seen.version,
        record=seen.seen.record,
        first_seen_at_s=seen.first_seen_at_s,
        due_from_at_s=seen.due_from_at_s,
    )
