"""Keeps the prepared drivers of this host as ``prepared.decide`` says: it looks at their run directories, tells their shims
that they are wanted or not, and knows which may take an attempt.

The agent calls ``turn`` in each round, and starts what that returns; ``launcher`` takes a driver for an attempt. Only a shim
discards its driver; here it is only asked to, and never after an attempt was handed to it. A driver that was asked to
discard itself takes no attempt any more. All methods may be called from any thread.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import structlog

from supervisor.clients import run_dir
from supervisor.clients.run_dir import Readiness
from supervisor.clock import boottime_s, wall_iso
from supervisor.daemon.host.attempt_reporter import report
from supervisor.daemon.host.hosted_attempts import HostedAttempts
from supervisor.daemon.host.prepared import (
    RETRY_PAUSE,
    HostCapacity,
    HostLoad,
    KeptDriver,
    PreparedSituation,
    PreparePause,
    RequestedDriver,
    decide,
    overfull,
)
from supervisor.errors import Corrupt
from supervisor.model.launch import Launch
from supervisor.model.records import Assignment, Preparation, PreparedDriver, PrepareLevel
from supervisor.model.seen import Unreadable
from supervisor.records.codec import decode, encode
from supervisor.records.layout import Layout, about_key, is_prepared, request_name
from supervisor.records.ports import ZkReader
from supervisor.records.reading import seen

log = structlog.get_logger(__name__)

REQUESTS_MAX = 64
"""So many requests are read at most: a host has no room for more."""

STABLE_S = 600.0
"""A driver that has been ready for this long was no failure, whatever comes then."""

AGAIN_AT_ONCE_S = 4.0

HANDED_S = 10.0
"""For so long after a hand-over no other driver of the job is prepared: the leader takes the request back when it has seen
the claim, and a standby that is asked for after that need not compete with the start."""

FOR_REQUEST, FILES = "prepared_for", "prepared_files"
"""These fields of the launch file say for what a driver was prepared, and with which files."""


def read_requests(zoo: ZkReader, layout: Layout, me: str, names: Sequence[str]) -> dict[str, RequestedDriver]:
    """Returns the requests ``names``, children of /prepare/<me>. Raises Unreachable."""
    asked: dict[str, RequestedDriver] = {}
    paths = [f"{layout.preparations_of(me)}/{name}" for name in sorted(names)[:REQUESTS_MAX]]
    for path, node in zip(paths, zoo.read_many(paths).nodes if paths else (), strict=True):
        found, name = seen(Preparation, node, path), path.rpartition("/")[2]
        if node is None or found is None:
            continue  # withdrawn meanwhile
        if isinstance(found, Unreadable):
            asked[name] = RequestedDriver(
                name, None, f"the request can't be read: {found.reason}", node.stat.czxid
            )
        else:
            asked[name] = RequestedDriver(name, found.record, czxid=node.stat.czxid)
    return asked


def as_extra(request: Preparation, files: Mapping[str, str]) -> dict[str, Any]:
    """Returns the fields of the launch file by which ``PreparedDrivers`` knows the driver again."""
    return {FOR_REQUEST: json.loads(encode(request)), FILES: dict(files)}


def files_of(launch: Launch) -> dict[str, str] | None:
    """Returns the files with which a driver was prepared, or None if that is not known."""
    files = launch.extra.get(FILES)
    return {str(name): str(what) for name, what in files.items()} if isinstance(files, dict) else None


@dataclass
class _Known:
    """Holds what is known of a driver that was there at the last look. ``ready_at`` is wall time, for display."""

    entry: str
    log_path: str
    ready_at_s: float | None = None
    ready_at: str = ""


@dataclass
class _Books:
    """Holds what is known beside the run directories."""

    asked: Mapping[str, RequestedDriver] | None = None
    under_way: dict[str, Preparation] = field(default_factory=dict)
    keys_under_way: set[str] = field(default_factory=set)
    pauses: dict[str, PreparePause] = field(default_factory=dict)
    discarded: dict[str, str] = field(default_factory=dict)
    taken: set[str] = field(default_factory=set)
    handed_at_s: dict[str, float] = field(default_factory=dict)  # by uid
    known: dict[str, _Known] = field(default_factory=dict)
    ends: dict[str, str] = field(default_factory=dict)
    names: dict[str, str] = field(default_factory=dict)
    reported: tuple[PreparedDriver, ...] = ()


class PreparedDrivers:
    """Keeps the prepared drivers of one host, within ``capacity``."""

    def __init__(self, hosted: HostedAttempts, capacity: HostCapacity) -> None:
        self._hosted = hosted
        self._capacity = capacity
        self._lock = threading.RLock()
        self._books = _Books()

    # -- for the agent -------------------------------------------------------------------------------------------------

    @property
    def reported(self) -> tuple[PreparedDriver, ...]:
        """Returns what the host's record is to say, the ready ones first."""
        return self._books.reported

    @property
    def under_way(self) -> frozenset[str]:
        """Returns the keys of drivers that are being started just now: what belongs to them stays."""
        with self._lock:
            return frozenset(self._books.keys_under_way)

    def name_of(self, uid: str) -> str | None:
        """Returns the job of a prepared driver that was told of."""
        return self._books.names.get(uid)

    def has_news(self) -> bool:
        """Says whether a driver has come to its barrier, or gave up, since the last ``turn``."""
        with self._lock:
            waited_for = [key for key, known in self._books.known.items() if known.ready_at_s is None]
        return any(run_dir.read_readiness(self._directory(key)) is not None for key in waited_for)

    def is_bringing_up(self) -> bool:
        with self._lock:
            return any(known.ready_at_s is None for known in self._books.known.values())

    def send(self) -> None:
        """Tells each shim that its driver is wanted, or not. It needs no registry: what is asked for is unknown while
        that does not answer, and unknown is wanted."""
        for key, launch in self._hosted.prepared().items():
            with self._lock:
                if key in self._books.taken:
                    continue
                event = "discard" if key in self._books.discarded else "wanted"
                report(launch.channel_in(self._directory(key)), {"event": event})

    def turn(
        self,
        asked: Mapping[str, RequestedDriver] | None,
        loads: Sequence[HostLoad],
        assigned: Collection[str],
    ) -> tuple[RequestedDriver, ...]:
        """Decides, asks shims to discard what is to go, and returns the requests for which a driver is to be prepared now;
        ``over`` has to be called for each. ``asked`` is None if it is not known; ``assigned`` has the uids with an
        assignment here, as of a reading after that of ``asked``."""
        with self._lock:
            books, now_s = self._books, boottime_s()
            books.asked = asked if asked is not None else books.asked
            kept = self._read_kept(now_s)
            self._forget_pauses(now_s)
            situation = self._situation(kept, loads, asked, assigned, now_s)
            decision = decide(situation)
            for entry, why in decision.failed:
                self.failed(entry, why)
            for each, why in decision.discard:
                self.discard(each.key, why)
            for one in decision.prepare:
                assert one.record is not None
                books.under_way[one.entry] = one.record
            books.reported = decision.reported
            records = [one.record for one in (books.asked or {}).values() if one.record is not None]
            books.names = {record.uid: record.name for record in records} | {
                each.for_request.uid: each.for_request.name for each in kept
            }
            return decision.prepare

    def over(self, entry: str) -> None:
        """Notes that the start of a driver for this request is over, whatever came of it."""
        with self._lock:
            self._books.under_way.pop(entry, None)

    def failed(self, entry: str, why: str, *, passing: bool = False, refused: bool = False) -> None:
        """Notes that the request could not be met: it is tried again after a pause. With ``passing``, nothing is wrong with
        the request; with ``refused``, the policy of this host does not allow it."""
        with self._lock:
            before = self._books.pauses.get(entry)
            tries = 1 if before is None else before.tries + 1
            pause = RETRY_PAUSE.after(tries)
            self._books.pauses[entry] = PreparePause(why, tries, boottime_s() + pause, passing, refused)
        uid, _, revision = entry.rpartition(".")
        next_step = f"tried again after {pause:g} s"
        log.warning("driver_not_prepared", uid=uid, revision=revision, why=why, next=next_step)

    # -- for the launcher ----------------------------------------------------------------------------------------------

    def starting(self, key: str) -> None:
        """Notes that a driver of this key is being started, until ``started``."""
        with self._lock:
            self._books.keys_under_way.add(key)

    def started(self, key: str, launch: Launch | None) -> None:
        """Notes that the shim of ``key`` was started by ``launch``, or that it was not."""
        with self._lock:
            self._books.keys_under_way.discard(key)
            if launch is not None:
                self._books.known[key] = _Known(_entry_of(launch), launch.log_path)

    def fit_for(self, given: Assignment, linked: str | None) -> list[tuple[str, Launch]]:
        """Returns the ready drivers to which ``given`` may be handed, best first; first the one ``linked`` that has the
        name of the attempt already."""
        fit = []
        with self._lock:
            for each, launch in self._listed():
                wanted = (given.uid, given.revision, given.spec.sha256, given.driver_memory)
                of_it = launch.assignment
                has = (of_it.uid, of_it.revision, of_it.spec.sha256, of_it.driver_memory)
                if has == wanted and each.ready and each.is_standing and each.key not in self._books.taken:
                    fit.append((each, launch))
        fit.sort(key=lambda item: (item[0].key != linked, item[0].begun_at_s, item[0].key))
        return [(each.key, launch) for each, launch in fit]

    def take(self, key: str) -> bool:
        """Takes a driver for an attempt: from now on it is not asked to discard itself, and no other one is
        prepared for a moment. Returns False if it was asked to discard itself already."""
        with self._lock:
            if key in self._books.discarded or key in self._books.taken:
                return False
            self._books.taken.add(key)
            self._books.handed_at_s[_uid_of(key)] = boottime_s()
            return True

    def release(self, key: str) -> None:
        """Gives back a driver to which nothing was handed."""
        with self._lock:
            self._books.taken.discard(key)
            self._books.handed_at_s.pop(_uid_of(key), None)

    def discard(self, key: str, why: str) -> None:
        """Asks the shim of ``key`` to discard its driver, now and in each round, unless it was taken."""
        with self._lock:
            if key in self._books.taken or key in self._books.discarded:
                return
            self._books.discarded[key] = why
            launch = self._hosted.prepared().get(key)
            if launch is not None:
                report(launch.channel_in(self._directory(key)), {"event": "discard"})
        log.info("prepared_driver_discarded", **about_key(key), why=why)

    def reject(self, key: str, why: str) -> None:
        """Discards a driver that is not what a start needs now, and lets everybody read why for a moment."""
        self.discard(key, why)
        entry = self._entry_of(key)
        if entry is not None:
            with self._lock:
                tries = self._books.pauses[entry].tries if entry in self._books.pauses else 0
                self._books.pauses[entry] = PreparePause(why, tries, boottime_s() + AGAIN_AT_ONCE_S)

    def make_room(self, loads: Sequence[HostLoad]) -> None:
        """Discards what attempts need the room of."""
        with self._lock:
            situation = self._situation([each for each, _ in self._listed()], loads, None, (), boottime_s())
            for kept in overfull(situation, [each for each in situation.kept if each.is_standing]):
                self.discard(kept.key, f"{self._capacity.host} needs its room for a start")

    # -- for the guardian ----------------------------------------------------------------------------------------------

    def note_end(self, key: str, readiness: Readiness | None) -> None:
        """Notes that a driver which had no attempt is gone, and what it said of itself."""
        with self._lock:
            if readiness is not None and readiness.why and not readiness.ready:
                self._books.ends[key] = readiness.why

    # -- what is there -------------------------------------------------------------------------------------------------

    def _directory(self, key: str) -> str:
        return str(self._hosted.attempts_dir / key)

    def _listed(self) -> list[tuple[KeptDriver, Launch]]:
        listed = []
        for key, launch in self._hosted.prepared().items():
            request = _request_of(launch)
            readiness = run_dir.read_readiness(self._directory(key))
            kept = KeptDriver(
                key,
                request,
                launch.begun_s,
                launch.start_timeout_s,
                ready=readiness is not None and readiness.ready,
                why="" if readiness is None or readiness.ready else readiness.why or "it gave no reason",
                lacks=readiness.why if readiness is not None and readiness.ready else "",
                alive=self._hosted.is_alive(key),
                discarded=key in self._books.discarded,
            )
            listed.append((kept, launch))
        return listed

    def _read_kept(self, now_s: float) -> list[KeptDriver]:
        """Looks at what is there. A driver that has ended though nobody asked for it is a failure, once."""
        books, listed = self._books, self._listed()
        alive = {kept.key for kept, _ in listed if kept.alive}
        said = {**books.ends, **{kept.key: kept.why for kept, _ in listed if kept.why}}
        for key in books.known.keys() - alive:
            known = books.known.pop(key)
            if key not in books.discarded and key not in books.taken:
                ended = (
                    f"its driver ended before an attempt was handed to it; see {known.log_path} on this host"
                )
                # one that said nothing was killed: that is no fault of the request
                self.failed(known.entry, said.get(key, ended), passing=key not in said)
        for kept, launch in listed:
            if kept.is_standing:
                known = books.known.setdefault(kept.key, _Known(kept.entry, launch.log_path))
                if known.ready_at_s is None and (kept.ready or kept.why):
                    known.ready_at_s = now_s
                    if kept.ready:
                        known.ready_at = wall_iso()
                        log.info(
                            "driver_prepared",
                            job=kept.for_request.name,
                            **about_key(kept.key),
                            s=round(now_s - kept.begun_at_s, 1),
                        )
        self._prune()
        return [
            replace(kept, ready_at=books.known[kept.key].ready_at if kept.key in books.known else "")
            for kept, _ in listed
            if kept.key not in books.taken
        ]

    def _prune(self) -> None:
        """Forgets what was noted of directories that are gone."""
        books = self._books
        there = {name for name in run_dir.directories(str(self._hosted.attempts_dir)) if is_prepared(name)}
        books.discarded = {key: why for key, why in books.discarded.items() if key in there}
        books.taken &= there
        books.ends = {key: why for key, why in books.ends.items() if key in books.known}

    def _forget_pauses(self, now_s: float) -> None:
        books = self._books
        stable = {
            known.entry
            for known in books.known.values()
            if known.ready_at_s is not None and now_s - known.ready_at_s >= STABLE_S
        }
        books.pauses = {
            entry: pause
            for entry, pause in books.pauses.items()
            if entry not in stable and (books.asked is None or entry in books.asked)
        }

    def _situation(
        self,
        kept: Sequence[KeptDriver],
        loads: Sequence[HostLoad],
        asked: Mapping[str, RequestedDriver] | None,
        assigned: Collection[str],
        now_s: float,
    ) -> PreparedSituation:
        books = self._books
        books.handed_at_s = {uid: at_s for uid, at_s in books.handed_at_s.items() if now_s - at_s < HANDED_S}
        return PreparedSituation(
            asked,
            kept,
            loads,
            self._capacity,
            dict(books.under_way),
            dict(books.pauses),
            assigned,
            now_s,
            handed=frozenset(books.handed_at_s),
        )

    def _entry_of(self, key: str) -> str | None:
        launch = self._hosted.prepared().get(key)
        return None if launch is None else _entry_of(launch)


def _request_of(launch: Launch) -> Preparation:
    """Returns for what a driver was prepared: as the launch file says, and its assignment, where that says less."""
    given = launch.assignment
    try:
        written = json.dumps(launch.extra[FOR_REQUEST]).encode()
        request = decode(Preparation, written, run_dir.LAUNCH)
    except (KeyError, TypeError, ValueError, Corrupt):
        request = Preparation(
            name=given.name,
            uid=given.uid,
            revision=given.revision,
            spec=given.spec,
            level=PrepareLevel.SESSION,
            memory=given.memory,
        )
    return replace(
        request,
        name=given.name,
        uid=given.uid,
        revision=given.revision,
        spec=given.spec,
        memory=given.memory,
        driver_memory=given.driver_memory,
    )


def _entry_of(launch: Launch) -> str:
    return request_name(launch.assignment.uid, launch.assignment.revision)


def _uid_of(key: str) -> str:
    return key.rpartition(".")[0]
