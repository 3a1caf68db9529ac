"""The world of ``test_deletions``: a registry in memory, drivers that write, leaders that delete, and what must hold after each step.

Production code as it is: commands, the controller's pass, the remover, and what empties a directory (on disk) or a bucket (its
requests answered from a set of keys). The judge is not: it compares what there was before a step with what there is after it, by
a rule of its own about which places are near each other.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple
from unittest import mock

import structlog

from supervisor.act import carry_out
from supervisor.clients.sessions import KeptSession
from supervisor.clients.store import removal as removal_module
from supervisor.clients.store.base import StoreEntry
from supervisor.clients.store.deadline import Budget
from supervisor.clients.store.removal import (
    CLOCKS_APART_S,
    KEPT_LATE_S,
    SEND_WITHIN_S,
    SIGNATURE_VALID_S,
    DirectoryRemoval,
    Removal,
    Removed,
    S3Removal,
)
from supervisor.clock import boottime_s
from supervisor.coord.term import Term
from supervisor.daemon.leader import controller, record, remover
from supervisor.daemon.leader.controller import Controller
from supervisor.daemon.leader.record import Recorder
from supervisor.daemon.leader.remover import READ_EVERY_S, Remover
from supervisor.daemon.loops.watchdog import Watchdog
from supervisor.errors import Conflict, NotLeader, SupervisorError, Unreachable
from supervisor.metrics import Metrics
from supervisor.model.checkpoint_expectation import SeenQuery, to_be_expected, with_batches
from supervisor.model.location import digest
from supervisor.model.records import (
    Cause,
    CheckpointClaim,
    CheckpointState,
    Desired,
    Driver,
    EpochRecord,
    JobRef,
    Lease,
    Outcome,
    Ownership,
    OwnState,
    PendingDeletion,
    Phase,
    Result,
    SchedulingSpec,
    with_entry,
)
from supervisor.model.restart import RestartPolicy
from supervisor.model.seen import Found, Seen
from supervisor.model.state import has_finished, next_attempt
from supervisor.model.transaction import ANY_VERSION, Create, SetData, Transaction
from supervisor.operations.jobs import Did, JobOperations
from supervisor.operations.savepoint_resume import Revision
from supervisor.plan.make import Policy
from supervisor.records.codec import encode
from supervisor.records.reading import seen
from supervisor.spec.s3a import S3Access
from supervisor.spec.site_policy import SitePolicy
from tests.fakes.registry_bench import AT, Bench, submission, terms
from tests.property.processes import Process, SeamClient, StopPoint, quiet, seam

NAMES = ("a", "b")
PLACES = ("x", "x/y", "x/u", "x/y/z", "xy")
"""``x`` is around all but ``xy``, which only looks like it."""

SCHEMES = {"s3": "s3://bkt/", "file": "file:///places/"}
KEYS = ("metadata", "offsets/0", "offsets/1")
"""Every driver writes the same ones, as Spark does."""

BATCH = 2
SESSION_S = 10.0
FOREIGN = "f-"
"""How the uid of a claim begins that no command of this version has made."""

LIVING = (OwnState.CLAIMED, OwnState.DRAINING)


class WronglyDeleted(AssertionError):
    """Something was deleted that nobody may delete."""


class Shared(AssertionError):
    """A place was given to somebody which, or part of which, or what is around it, is somebody's."""


class WrongReport(AssertionError):
    """What was said is not so."""


class Hangs(AssertionError):
    """It does not come to its end."""


def near(one: str, other: str) -> bool:
    return f"{one}/".startswith(f"{other}/") or f"{other}/".startswith(f"{one}/")


@dataclass
class Job:
    """What this world knows of a uid. ``places``: where its checkpoint may be. ``ends``: somebody has asked for its end, or it has
    ended by itself."""

    uid: str
    name: str
    places: set[str]
    delete: bool
    bounded: bool
    wrote: bool = False
    ends: bool = False
    goes_on: bool = True


class Late(NamedTuple):
    """A request that was sent, and not answered."""

    location: str
    keys: tuple[str, ...]
    sent_at_s: float


class Reading(NamedTuple):
    """All that is judged, at one moment. ``claims``: None for one that can't be read."""

    files: frozenset[str]
    claims: dict[str, CheckpointClaim | None]
    jobs: dict[str, JobRef]
    results: dict[str, Result]
    driven: frozenset[str]
    paused: bool


class DeletingLeader:
    def __init__(self, world: DeletingWorld) -> None:
        layout = world.bench.layout
        node = world.bench.zoo.client().read(layout.epoch)
        version = 0 if node is None else node.stat.version + 1
        world.bench.put(layout.epoch, EpochRecord(epoch=version + 1, supervisor="l", op="op"))
        self.client = SeamClient(world.bench.zoo)
        self.client.start()
        term: Term[Any] = Term(version + 1, version, self.client, 1e9, depose=lambda _why: None)
        term.set_recorded()
        self.term = term
        loop = Watchdog(end=lambda _code: None).register("test", 60.0)
        self.controller = Controller(
            term, layout, Policy(), Recorder(Metrics(boottime_s), boottime_s()), loop
        )
        self.remover = Remover(
            term,
            layout,
            self.controller.executor,
            "s3://store/prefix",
            lambda _location, _deletion: S3Access(),
            site=SitePolicy(deletable=("*",)),
            wanted=self.controller.deletions_wanted,
            paused=lambda: world.reading.paused,
            clock=world.clock,
            open_at=world.opened,
        )
        self.remover._boundary = quiet(say=_raised)
        self.process: Process | None = None
        self.stopped_at_s = 0.0


def _raised(_item: str, error: Exception) -> None:
    raise error


class DeletingWorld:
    """``scheme``: of all checkpoints. ``forgiven``: what the judge lets pass, to see what comes of it. ``late``: the next deletion on
    S3 is not answered, and arrives later."""

    def __init__(self, scheme: str, forgiven: tuple[type[AssertionError], ...] = ()) -> None:
        self.forgiven = forgiven
        self.failed = False  # what comes after says nothing
        self.scheme, self.root = scheme, SCHEMES[scheme]
        self.bench = Bench()
        self.now_s = 10_000.0
        self.jobs: dict[str, Job] = {}
        self.leaders: list[DeletingLeader] = []
        self.commands: list[tuple[Process, str, float]] = []  # stopped; of that name
        self.in_flight: list[Late] = []
        self.late = False
        self.made = 0
        self._keys: set[str] = set()
        self._reader = self.bench.zoo.client()
        self._records: dict[tuple[str, int], Seen[Any]] = {}
        self._seen_at = -1
        self._undo = ExitStack()
        self._top = Path(self._undo.enter_context(tempfile.TemporaryDirectory(prefix="places-")))
        silent = structlog.wrap_logger(structlog.ReturnLogger(), processors=[_silent])
        for module, changed in (
            (removal_module, {"BATCH_MAX": BATCH, "boottime_s": self.clock}),
            *((module, {"log": silent}) for module in (carry_out, controller, record, remover)),
        ):
            self._undo.enter_context(mock.patch.multiple(module, **changed))
        self.reading = self.read()
        self.lead()

    def close(self) -> None:
        for process in [each.process for each in self.leaders if each.process] + [
            each[0] for each in self.commands
        ]:
            if not process.over:
                process.kill()
        for leader in self.leaders:
            leader.controller.executor.close()
        self._undo.close()

    def clock(self) -> float:
        return self.now_s

    def number(self) -> int:
        self.made += 1
        return self.made

    # -- checkpoints -----------------------------------------------------------------------------------------------

    def files(self) -> frozenset[str]:
        """Locations."""
        if self.scheme == "s3":
            return frozenset(f"{self.root}{key}" for key in self._keys)
        found = (path.relative_to(self._top) for path in self._top.rglob("*") if path.is_file())
        return frozenset(f"{self.root}{path}" for path in found)

    def write(self, location: str, keys: tuple[str, ...] = KEYS) -> None:
        for key in keys:
            path = f"{location.removeprefix(self.root)}/{key}"
            if self.scheme == "s3":
                self._keys.add(path)
                continue
            file = self._top / path
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(b'{"id": "q"}')  # by which a deletion knows what is the job's

    def opened(self, location: str, access: S3Access) -> Removal:
        if self.scheme == "s3":
            return S3Removal(_Requests(self, location))
        return _Directory(location, f"file://{self._top}/{location.removeprefix(self.root)}")

    def arrive(self, late: Late) -> None:
        self.in_flight.remove(late)
        if self.now_s <= late.sent_at_s + SIGNATURE_VALID_S + CLOCKS_APART_S:
            self._keys.difference_update(late.keys)

    def deleting_at(self) -> list[str]:
        """Where a request may arrive that was allowed already."""
        stopped = [each.process.deletes_at for each in self.leaders if each.process is not None]
        return [each for each in (*stopped, *(late.location for late in self.in_flight)) if each]

    # -- what there is ---------------------------------------------------------------------------------------------

    def read(self) -> Reading:
        layout, zxid = self.bench.layout, self.bench.zoo.zxid
        if zxid == self._seen_at:
            return self.reading._replace(files=self.files())
        self._seen_at = zxid

        def all_of(cls: type[Any], parent: str) -> Iterator[tuple[str, Any]]:
            for child in sorted(self._reader.children(parent) or ()):
                found = self.record(cls, f"{parent}/{child}")
                yield child, found.record if isinstance(found, Found) else None

        owns = {name: self.own(name) for name in NAMES}
        driven = {
            place
            for own in owns.values()
            if own is not None and own.state in LIVING
            for place in (self.jobs[own.uid].places if own.uid in self.jobs else ())
        }
        return Reading(
            self.files(),
            dict(all_of(CheckpointClaim, layout.checkpoints)),
            dict(all_of(JobRef, layout.jobs)),
            dict(all_of(Result, layout.results)),
            frozenset(driven),
            self._reader.read(layout.pause) is not None,
        )

    def record(self, cls: type[Any], path: str) -> Seen[Any]:
        """Decoded once."""
        node = self._reader.read(path)
        if node is None:
            return None
        key = (path, node.stat.mzxid)
        if key not in self._records:
            self._records[key] = seen(cls, node, path)
        return self._records[key]

    def own(self, name: str) -> Ownership | None:
        found = self.record(Ownership, self.bench.layout.own(name))
        return found.record if isinstance(found, Found) else None

    # -- drivers ---------------------------------------------------------------------------------------------------

    def runnable(self) -> list[str]:
        """An attempt of that name may be claimed now."""
        found = []
        for name, job in self.reading.jobs.items():
            own = self.own(name)
            idle = own is not None and (
                own.state is OwnState.VACANT or (own.state is OwnState.EXITED and own.uid == job.uid)
            )
            if idle and own is not None and job.desired is Desired.RUNNING and not has_finished(job, own):
                found.append(name)
        return found

    def driven(self) -> list[str]:
        """A driver of that name is alive."""
        owns = ((name, self.own(name)) for name in NAMES)
        return [name for name, own in owns if own is not None and own.state in LIVING]

    def run(self, name: str) -> None:
        """It is claimed, its driver writes, and renews with what it wrote."""
        job, own, layout = self.reading.jobs[name], self.own(name), self.bench.layout
        assert own is not None and job.terms.checkpoint is not None
        claims = own.claims + 1 if own.uid == job.uid else 1
        attempt, claim = next_attempt(job, own), f"c{self.number()}"
        lease = self.record(Lease, layout.lease(name))
        newest = lease.record.remembered if isinstance(lease, Found) else None
        expected = to_be_expected(
            job.terms.checkpoint, job.fresh_start, newest, own.remembered, job.begins_with
        )
        assert expected is not None
        self.bench.put(
            layout.own(name),
            replace(
                own,
                state=OwnState.CLAIMED,
                uid=job.uid,
                attempt=attempt,
                claim=claim,
                revision=job.revision,
                claims=claims,
                cause=None,
                supervisor="s1",
                host="h1",
                restart_nonce=job.restart_nonce,
            ),
        )
        self.bench.put(
            layout.lease(name),
            Lease(
                name=name,
                uid=job.uid,
                attempt=attempt,
                claim=claim,
                lease_s=30.0,
                stop_grace_s=30.0,
                phase=Phase.RUNNING,
                driver=Driver(host="h1", shim_pid=100, pid=101, started_at=AT),
                since=AT,
                remembered=with_batches(expected, [SeenQuery("q", self.made)]),
            ),
        )
        self.jobs[job.uid].wrote = True
        self.write(job.terms.checkpoint)

    def goes_on_writing(self, name: str) -> None:
        own = self.own(name)
        assert own is not None
        for place in self.jobs[own.uid].places:
            if len(self.jobs[own.uid].places) == 1:
                self.write(place)

    def exit(self, name: str, cause: Cause) -> None:
        own = self.own(name)
        assert own is not None
        job = self.jobs[own.uid]
        cause = Cause.EXITED_ZERO if cause is Cause.FINISHED and not job.bounded else cause
        registered = self.reading.jobs.get(name)
        if cause is Cause.FINISHED and registered is not None and registered.uid == job.uid:
            job.ends = True
            job.goes_on = False
        self.bench.put(
            self.bench.layout.own(name),
            replace(
                own,
                state=OwnState.EXITED,
                cause=cause,
                history=with_entry(own.history, AT, cause.value, own.attempt, "it exited"),
            ),
        )

    def where(self, place: str | int) -> str:
        """A place of ``PLACES``. A number: one that is near a claim, but not the same, those under deletion first."""
        if isinstance(place, str):
            return place
        claims = sorted(
            (claim.doom is None, claim.location)
            for claim in self.reading.claims.values()
            if claim is not None
        )
        claimed = [location.removeprefix(self.root) for _, location in claims]
        found = [each for one in claimed for each in PLACES if near(one, each) and each not in claimed]
        return (found or PLACES)[place % len(found or PLACES)]

    def free_place(self, first: str) -> str:
        """``first``, or the next one that is near nothing."""
        index = PLACES.index(first)
        taken = [
            *self.reading.files,
            *(claim.location for claim in self.reading.claims.values() if claim is not None),
        ]
        order = PLACES[index:] + PLACES[:index]
        return next(
            (each for each in order if not any(near(f"{self.root}{each}", one) for one in taken)), first
        )

    # -- commands --------------------------------------------------------------------------------------------------

    def context(self, fault: str = "") -> JobOperations:
        """A process of its own. ``fault``: of its next commit."""

        def make() -> SeamClient:
            client = SeamClient(self.bench.zoo)
            if fault == "reply lost":
                client.lose_next_reply()
            elif fault == "not sent":
                client.fail_next_commit_before()
            return client

        zoo = self.bench.zoo
        return JobOperations(
            KeptSession(make, lambda old: zoo.close_session(old.id, old.password), 0.1, 0.2),
            self.bench.layout,
        )

    def command(self, name: str, work: Callable[[], object], stop: StopPoint | None = None) -> None:
        """Refusals and unknown outcomes are answers. It may stop on its way."""

        def refusable() -> None:
            try:
                work()
            except SupervisorError:
                pass

        if stop is None:
            refusable()
            return
        self.go_on(Process(name, refusable), name, stop)

    def go_on(self, process: Process, name: str, stop: StopPoint | None) -> None:
        process.go_on(stop)
        if not process.over:
            self.commands.append((process, name, self.now_s))

    def submit(
        self,
        name: str,
        place: str,
        delete: bool,
        bounded: bool,
        fault: str = "",
        stop: StopPoint | None = None,
    ) -> None:
        uid, wanted = f"{name}-{self.number():04}", f"{self.root}{place}"
        policy = RestartPolicy(jitter=0.0, attempts=0)
        spec = terms(wanted, delete_checkpoint=delete, unbounded=not bounded, restart=policy)
        self.jobs[uid] = Job(uid, name, {wanted}, delete, bounded)
        given = replace(submission(name, f"{self.made:064x}", uid=uid), scheduling=spec)
        self.command(name, lambda: self.context(fault).submit(given), stop)

    def cancel(self, name: str, fault: str = "", stop: StopPoint | None = None) -> None:
        self.may_end(name)
        self.command(f"cancel {name}", lambda: self.context(fault).cancel(name), stop)

    def ends(self, name: str) -> None:
        """It is cancelled, its driver stops, and whoever leads cleans up; judged one by one."""
        self.cancel(name)
        self.judge()
        if name in self.driven():
            self.exit(name, Cause.STOPPED)
            self.judge()
        if self.leaders:
            self.passes(self.leaders[-1])
            self.judge()

    def may_end(self, name: str) -> None:
        for job in self.jobs.values():
            job.ends |= job.name == name

    def resume_from(self, name: str, place: str, fault: str = "") -> None:
        """From a savepoint that was copied to ``place``, where nothing was, in one go: what becomes of a copy that nobody claims yet
        is not judged."""
        target = f"{self.root}{place}"

        def work() -> None:
            context = self.context(fault)
            basis = context.basis(name)
            if basis.running or any(near(file, target) for file in self.files()):
                return
            context.check_location(name, target)
            job, before = self.jobs[basis.uid], set(self.jobs[basis.uid].places)
            job.places = {*before, target}
            self.write(target)
            ref = self.reading.jobs.get(name)
            ended = self.reading.results.get(basis.uid)
            old: SchedulingSpec | None = (
                ref.terms if ref is not None else ended.terms if ended is not None else None
            )
            assert old is not None
            spec = replace(basis.spec, sha256=f"{self.number():064x}")
            try:
                done = context.resume_from(
                    Revision(basis, spec, replace(old, checkpoint=target), "s", (SeenQuery("q", 1),))
                )
            except Conflict:
                job.places = before
                raise
            assert done.did in (Did.RESUMED, Did.REGISTERED_AGAIN)
            job.places, job.goes_on = {target}, True

        self.command(name, work)

    def suspend(self, name: str, fault: str = "") -> None:
        self.command(name, lambda: self.context(fault).suspend(name))

    def resume(self, name: str, fault: str = "") -> None:
        def work() -> None:
            done = self.context(fault).resume(name)
            if done.did in (Did.RESUMED, Did.REGISTERED_AGAIN):
                self.jobs[done.uid].goes_on = True

        self.command(name, work)

    # -- leaders ---------------------------------------------------------------------------------------------------

    def lead(self) -> None:
        """The epoch moves. Whoever led before has not heard of it yet."""
        self.leaders.append(DeletingLeader(self))

    def leave(self, leader: DeletingLeader) -> None:
        """Its process is gone, and with it its session."""
        self.leaders.remove(leader)
        if leader.process is not None:
            leader.process.kill()
        leader.controller.executor.close()
        leader.term.end("gone")
        self.bench.zoo.expire(leader.client)

    def passes(self, leader: DeletingLeader) -> None:
        try:
            leader.controller.reconcile_once()
        except NotLeader:
            if leader.process is None:
                self.leave(leader)
        except SupervisorError:
            pass

    def removes(self, leader: DeletingLeader, stop: StopPoint | None = None) -> bool:
        """One step of its remover; True: there is more to do at once. It may stop on its way."""
        more = False

        def step() -> None:
            nonlocal more
            try:
                more = leader.remover.step()
            except SupervisorError:
                pass

        if stop is None:
            step()
        else:
            leader.process = Process("remover", step)
            self.remover_goes_on(leader, stop)
        return more

    def remover_goes_on(self, leader: DeletingLeader, stop: StopPoint | None) -> None:
        """A session does not outlive its time; a process that was stopped for longer than an hour is taken for dead."""
        process = leader.process
        assert process is not None
        stood_s = self.now_s - leader.stopped_at_s if process.deletes_at or leader.stopped_at_s else 0.0
        if stood_s > KEPT_LATE_S and process.deletes_at:
            self.leave(leader)
            return
        if stood_s > SESSION_S and leader.client.session is not None:
            self.bench.zoo.expire(leader.client)
        leader.stopped_at_s = self.now_s
        process.go_on(stop)
        if process.over:
            leader.process, leader.stopped_at_s = None, 0.0

    def comes_to_rest(self, leader: DeletingLeader) -> None:
        """Its remover, with time for what it waits for."""
        for _ in range(14):
            if leader.term.over.is_set() or leader not in self.leaders:
                return
            more = self.removes(leader)
            self.judge()
            if not more and not leader.remover._jobs:
                return
            self.now_s += 0.0 if more else READ_EVERY_S

    # -- strangers -------------------------------------------------------------------------------------------------

    def plant(self, place: str, name: str, doom: PendingDeletion | None = None) -> None:
        """As a command of an older version would that has looked for nothing but this very place; or a hand, with ``doom``."""
        location = f"{self.root}{place}"
        path = self.bench.layout.checkpoint(digest(location))
        if self.bench.has(path):
            return
        uid = doom.uid if doom is not None else f"{FOREIGN}{self.number()}"
        self._planted(path, encode(CheckpointClaim(location=location, name=name, uid=uid, doom=doom)))
        if doom is None:
            self.write(location)

    def plant_garbage(self) -> None:
        path = self.bench.layout.checkpoint("0" * 64)
        if not self.bench.has(path):
            self._planted(path, b"{")

    def _planted(self, path: str, data: bytes) -> None:
        moved = SetData(self.bench.layout.checkpoints, b"", ANY_VERSION)
        self.bench.zoo.client().commit(Transaction("plant", "p", (Create(path, data), moved)))

    def planted(self) -> list[str]:
        """Names of znodes."""
        return sorted(
            key for key, claim in self.reading.claims.items() if claim is None or self.is_foreign(claim)
        )

    def undo_strange(self) -> None:
        for key in self.planted():
            self.bench.zoo.remove(self.bench.layout.checkpoint(key))
        if self.reading.paused:
            self.bench.zoo.remove(self.bench.layout.pause)

    def is_foreign(self, claim: CheckpointClaim) -> bool:
        return claim.uid not in self.jobs or (claim.doom is not None and not self.is_genuine(claim))

    def is_genuine(self, claim: CheckpointClaim) -> bool:
        """It was marked for deletion as it ought to be."""
        job = self.jobs.get(claim.uid)
        told = (
            claim.doom is not None
            and claim.doom.uid == claim.uid
            and job is not None
            and job.name == claim.doom.name
        )
        return (
            told
            and job is not None
            and job.delete
            and job.ends
            and job.wrote
            and claim.location in job.places
        )

    # -- the judge -------------------------------------------------------------------------------------------------

    def judge(self) -> None:
        """What has happened since it was asked last."""
        for leader in [each for each in self.leaders if each.term.over.is_set() and each.process is None]:
            self.leave(leader)
        for _, name, _ in self.commands:
            if name.startswith("cancel "):
                self.may_end(name.partition(" ")[2])
        before, after = self.reading, self.read()
        self.reading = after
        for judged in (self._judge_files, self._judge_claims, self._judge_reports):
            try:
                judged(before, after)
            except self.forgiven:
                pass
            except AssertionError:
                self.failed = True
                raise

    def _judge_files(self, before: Reading, after: Reading) -> None:
        for file in sorted(before.files - after.files):
            pending = [each for each in before.claims.values() if each is not None and self.is_genuine(each)]
            around = [each for each in pending if file.startswith(f"{each.location}/")]
            if not around:
                raise WronglyDeleted(f"{file} is deleted, and nobody has asked for that")
            whys = [self._why_not(before, each) for each in around]
            if all(whys):
                raise WronglyDeleted(f"{file} is deleted although {'; '.join(map(str, whys))}")

    def _why_not(self, reading: Reading, pending: CheckpointClaim) -> str:
        place = pending.location
        for key, claim in reading.claims.items():
            if claim is None:
                return f"the claim {key} can't be read"
            if claim.doom is None and near(claim.location, place):
                return f"{claim.name} ({claim.uid}) claims {claim.location}"
        for job in reading.jobs.values():
            if near(job.terms.checkpoint or "", place):
                return f"{job.name} is registered with {job.terms.checkpoint}"
        driven = next((each for each in reading.driven if near(each, place)), None)
        if driven is not None:
            return f"a driver writes at {driven}"
        return "the cluster is paused" if reading.paused and not self.deleting_at() else ""

    def _judge_claims(self, before: Reading, after: Reading) -> None:
        claims = {key: claim for key, claim in after.claims.items() if claim is not None}
        for key, claim in claims.items():
            for other_key, other in claims.items():
                if other_key == key or not near(claim.location, other.location):
                    continue
                if not self.is_foreign(claim) and (
                    not self.is_foreign(other) or key not in before.claims and other_key in before.claims
                ):
                    raise Shared(f"{claim.location} is {claim.uid}'s, and {other.location} is {other.uid}'s")
        for job in after.jobs.values():
            held = after.claims.get(digest(job.terms.checkpoint or ""))
            if held is None or held.uid != job.uid or held.doom is not None:
                raise Shared(f"{job.uid} is registered, and {job.terms.checkpoint} is not its own")
        for key, claim in before.claims.items():
            now = after.claims.get(key)
            if claim is not None and self.is_genuine(claim) and (now is None or now.doom is None):
                self._judge_freed(claim, after)

    def _judge_freed(self, claim: CheckpointClaim, after: Reading) -> None:
        """No request may arrive any more that could hit who comes next. Descriptors of a directory that was removed lead nowhere."""
        result = after.results.get(claim.uid)
        gone = (
            self.scheme == "file"
            and result is not None
            and result.checkpoint_state is CheckpointState.DELETED
        )
        if not gone and any(near(claim.location, each) for each in self.still_deleting()):
            raise Shared(f"{claim.location} is given free while a deletion there may be under way")

    def still_deleting(self) -> list[str]:
        stopped = [
            each.process.deletes_at
            for each in self.leaders
            if each.process is not None
            and self.now_s - each.stopped_at_s <= (KEPT_LATE_S if self.scheme == "file" else SEND_WITHIN_S)
        ]
        valid_s = SIGNATURE_VALID_S + CLOCKS_APART_S
        return [
            each
            for each in (
                *stopped,
                *(late.location for late in self.in_flight if self.now_s <= late.sent_at_s + valid_s),
            )
            if each
        ]

    def _judge_reports(self, before: Reading, after: Reading) -> None:
        for uid, result in after.results.items():
            was = before.results.get(uid)
            if result is None or (
                was is not None
                and was.checkpoint_state is result.checkpoint_state
                and was.outcome is result.outcome
            ):
                continue
            place = result.terms.checkpoint if result.terms is not None else None
            if result.checkpoint_state is CheckpointState.DELETED and any(
                near(file, place or "") for file in after.files
            ):
                raise WrongReport(f"{place} is said to be deleted, and is not empty")
            if result.outcome is Outcome.FINISHED and self.jobs[uid].goes_on:
                raise WrongReport(f"{uid} is said to have finished, although it was resumed since")
            if result.checkpoint_state is CheckpointState.DELETING and any(
                near(each, place or "") for each in after.driven
            ):
                raise WrongReport(f"{place} is pending deletion while a driver writes there")

    # -- at rest ---------------------------------------------------------------------------------------------------

    def rest(self) -> None:
        """Whoever is stopped goes on, or is over; strangers go; another leader comes; all that is to be deleted goes."""
        for process, _, _ in self.commands:
            process.kill()
        self.commands.clear()
        while self.leaders:
            self.leave(self.leaders[0])
            self.judge()
        self.in_flight.clear()
        self.undo_strange()
        for name in self.driven():
            self.exit(name, Cause.STOPPED)
        self.judge()
        pending = [
            each.location
            for each in self.reading.claims.values()
            if each is not None and self.is_genuine(each)
        ]
        self.lead()
        leader = self.leaders[0]
        for _ in range(4):
            self.passes(leader)
            self.judge()
        for _ in range(60):
            more = self.removes(leader)
            self.judge()
            if not more:
                if not any(
                    each is not None and each.doom is not None for each in self.reading.claims.values()
                ):
                    break
                self.now_s += READ_EVERY_S
        self._judge_rest(pending)

    def _judge_rest(self, pending: list[str]) -> None:
        for claim in self.reading.claims.values():
            if claim is None or claim.doom is not None:
                raise Hangs(f"{claim and claim.location} stays pending")
        for uid, result in self.reading.results.items():
            if result.checkpoint_state is CheckpointState.DELETING:
                raise Hangs(f"the checkpoint of {uid} is said to be under deletion for ever")
        for place in pending:
            if any(file.startswith(f"{place}/") for file in self.reading.files):
                said = [
                    result.history[-1].detail for result in self.reading.results.values() if result.history
                ]
                raise Hangs(f"{place} was pending, nobody is near, and it is not deleted: {said}")


class _Requests:
    """What ``S3Removal`` sends, answered from the keys of the world."""

    def __init__(self, world: DeletingWorld, location: str) -> None:
        self._world, self.location = world, location
        self._prefix = f"{location.removeprefix(world.root)}/"
        self.sent = self.answered = 0

    def page(self, prefix: str, after: str, at_once: int) -> tuple[list[StoreEntry], bool]:
        found = sorted(
            key.removeprefix(self._prefix) for key in self._world._keys if key.startswith(self._prefix)
        )
        found = [key for key in found if key > after]
        return [StoreEntry(key, 1, 0.0) for key in found[:BATCH]], len(found) > BATCH

    def delete_batch(self, keys: list[str], latest_at_s: float) -> None:
        seam("send", self.location)
        world = self._world
        if world.now_s > latest_at_s:
            raise Conflict("it is too late to send it")
        self.sent += 1
        full = tuple(f"{self._prefix}{key}" for key in keys)
        late, world.late = world.late, False
        if late:
            world.in_flight.append(Late(self.location, full, world.now_s))
            raise Unreachable("no answer")
        world._keys.difference_update(full)
        self.answered += 1


class _Directory(DirectoryRemoval):
    """In the calling thread. ``at``: where the directory really is."""

    def __init__(self, location: str, at: str) -> None:
        super().__init__(at, 30.0)
        self._named = location
        self._bounded = quiet(run=lambda path, work: work(Budget(path, 1e9)))

    def remove_batch(self, still: Callable[[], None]) -> Removed:
        def asked() -> None:
            still()
            seam("send", self._named)

        return super().remove_batch(asked)


def _silent(*_: Any) -> Any:
    raise structlog.DropEvent
