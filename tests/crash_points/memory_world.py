"""Leader and commands at the points they pass, in memory: the real controller, executor, sweeper and commands, virtual time.

Around them an ensemble in memory, a store in memory, and shims reduced to protocol §7 (``MemoryShim``). A point strikes as in
a process: ``kill`` ends the process there (nothing of it goes on; its session ends), ``raise`` fails the call as such calls
fail (before: not sent; after: applied, and its answer lost), ``lose`` loses a multi on its way, ``pause`` lets everything else happen meanwhile, and then the process goes on *with its session*: what a zombie whose
request is late does, which is worse than one that has lost its session. The judge knows what drivers were executed, when
their trees were empty and what users were told, and asks the registry about nothing of that.
"""

from __future__ import annotations

import hashlib
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, Future
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from unittest.mock import patch

import supervisor
from supervisor.act import carry_out as carry_out_module
from supervisor.clients import sessions as sessions_module
from supervisor.clients.sessions import KeptSession
from supervisor.clients.store.base import StoreEntry
from supervisor.coord import term as term_module
from supervisor.coord.epoch_marks import EpochMarks
from supervisor.coord.term import Term
from supervisor.daemon.leader import controller as controller_module
from supervisor.daemon.leader import sweeper as sweeper_module
from supervisor.daemon.leader.controller import Controller
from supervisor.daemon.leader.sweeper import Sweeper
from supervisor.errors import (
    Conflict,
    GuardFailed,
    NotFound,
    NotLeader,
    NotSent,
    OutcomeUnknown,
    SupervisorError,
    Unreachable,
)
from supervisor.model.checkpoint_expectation import SeenQuery, queries_of, to_be_expected
from supervisor.model.lease_terms import deadline_at_s
from supervisor.model.location import digest
from supervisor.model.records import (
    Assignment,
    Cause,
    Driver,
    EpochRecord,
    JobRef,
    Lease,
    Member,
    Ownership,
    OwnState,
    Phase,
    Preparation,
    PreparedDriver,
    PrepareLevel,
    SchedulingSpec,
    SpecRevision,
)
from supervisor.model.restart import OnExhausted, RestartPolicy, Strategy
from supervisor.model.seen import Found
from supervisor.model.state import revision_before
from supervisor.model.transaction import ANY_VERSION, Create, Delete, SetData, Transaction
from supervisor.model.update_savepoint import savepoint_id
from supervisor.model.view import UpdateRestored
from supervisor.operations import jobs as jobs_module
from supervisor.operations.cluster import ClusterOperations
from supervisor.operations.jobs import ChosenJob, Did, Done, JobOperations, Submission
from supervisor.operations.savepoint_resume import Revision, savepoint_detail
from supervisor.operations.selection import registered_jobs
from supervisor.operations.updating import Change, Target
from supervisor.plan import decide
from supervisor.plan.make import Policy
from supervisor.records.codec import encode
from supervisor.records.layout import Layout
from supervisor.records.reading import seen
from supervisor.registry import attempt_writes
from supervisor.registry.blob_sweep import GRACE_S as SWEEP_GRACE_S
from supervisor.registry.blob_sweep import BlobSweeper
from supervisor.registry.blobs import Blobs
from supervisor.registry.bootstrap_cluster import ClusterIdentity, bootstrap_or_check
from supervisor.registry.update_savepoint_writes import read_for_move
from supervisor.registry.user_writes import AskedRevision
from tests import judges
from tests.crash_points.points import Point, failpoints
from tests.fakes import zookeeper as fake
from tests.fakes.zookeeper import MemoryClient, MemoryZoo

ROOT, NAME, PLACE = "/memory", "a", "s3://bucket/a"
LEASE_S, GRACE_S, STEP_S = 10.0, 6.0, 1.0
HOSTS = ("s1", "s2")
ROUNDS_MAX = 90
PASSES_ASIDE = 16
"""Rounds that pass while a process is paused: more than the full wait of a lease of 10 s."""

failpoints.PACKAGE = f"{Path(supervisor.__file__).parent}/"


NEVER_FAIL = ("zookeeper.start", "zookeeper.close")
"""They say what came of it; they never raise."""


class Killed(BaseException):
    """The process is gone: nobody in it catches this."""


class CopiesAtOnce:
    """``daemon.leader.update_savepoint_task``: every savepoint is there, and every copy."""

    def __init__(self, zoo: Any, layout: Layout, blobs: Blobs) -> None:
        self._zoo, self._layout, self._blobs = zoo, layout, blobs

    def save(self, ref: Found[JobRef], own: Found[Ownership], go_on: Any) -> str:
        return savepoint_id(ref.record.uid, ref.record.revision, own.version, ref.version)

    def restore(self, job: JobRef, go_on: Any) -> UpdateRestored:
        assert job.update is not None
        before, number, place = revision_before(job, job.update), job.next_revision, f"{PLACE}.{job.revision}"
        ref = self._blobs.put_spec(NAME, job.uid, number, b'{"spec": 4}')
        revision = SpecRevision(revision=number, spec=ref, terms=replace(before.terms, checkpoint=place))
        return self.read(job, UpdateRestored(revision=revision, queries=(SeenQuery("q", 12),)))

    def read(self, job: JobRef, copied: UpdateRestored) -> UpdateRestored:
        assert copied.revision is not None
        found = read_for_move(self._zoo, self._layout, job, copied.revision.terms.checkpoint or "")
        return replace(found, revision=copied.revision, queries=copied.queries, moved_sha256="moved")

    def remove_surplus(self, job: JobRef, but: str, go_on: Any) -> None:
        return


@dataclass(frozen=True)
class Fault:
    """``point``, ``moment``, ``mode`` as of real processes; the ``nth`` pass strikes."""

    point: str
    moment: str
    mode: str
    nth: int = 1

    @classmethod
    def parse(cls, text: str) -> Fault:
        point, moment, nth, mode = text.rsplit(":", 3)
        return cls(point, moment, mode, int(nth))

    def __str__(self) -> str:
        return f"{self.point}:{self.moment}:{self.nth}:{self.mode}"


class Process:
    """One leader or one command: passes points until it is dead."""

    def __init__(self, world: MemoryWorld, role: str) -> None:
        self.world, self.role = world, role
        self.dead = False
        self._deep = False

    def around(self, op: str, call: Callable[[], Any]) -> Any:
        if self.dead:
            raise Killed
        if self._deep:
            return call()
        where = failpoints._where(sys._getframe(2))
        if where is None:
            return call()
        point = f"{self.role}|{where[0]}|{where[1]}|{op}"
        self._pass(point, "before", op)
        self._deep = True
        try:
            result = call()
        finally:
            self._deep = False
        self._pass(point, "after", op)
        if self.dead:
            raise Killed
        return result

    def _pass(self, point: str, moment: str, op: str) -> None:
        world = self.world
        if moment == "before":
            world.passed[Point.parse(point)] += 1
        fault = world.due(point, moment)
        if fault is None:
            return
        if fault.mode == "kill":
            self.dead = True
            raise Killed
        if fault.mode == "pause":
            world.meanwhile(self)
        elif fault.mode == "lose":
            raise OutcomeUnknown("the request was lost, which nobody can know")
        else:
            raise _failure(op, moment)


def _failure(op: str, moment: str) -> SupervisorError:
    if op.startswith("zookeeper.commit"):
        return NotSent("not sent") if moment == "before" else OutcomeUnknown("the answer was lost")
    return Unreachable(f"no answer to {op}")


class PointClient(MemoryClient):
    """A client of ``process``: each of its calls is a point."""

    def __init__(self, zoo: MemoryZoo, process: Process) -> None:
        super().__init__(zoo)
        self._process = process

    def commit(self, tx: Transaction, connection: int | None = None) -> Any:
        return self._process.around(
            f"zookeeper.commit {tx.what}", lambda: MemoryClient.commit(self, tx, connection)
        )


def _pointed(name: str) -> Callable[..., Any]:
    plain = getattr(MemoryClient, name)

    def call(self: PointClient, *arguments: Any, **named: Any) -> Any:
        return self._process.around(f"zookeeper.{name}", lambda: plain(self, *arguments, **named))

    return call


for _name in ("start", "wait_connected", "close", "sync", "read", "watch_exists", "children", "read_many"):
    setattr(PointClient, _name, _pointed(_name))


class MemoryStore:
    """``Store`` in a dictionary."""

    url = "memory:///store"

    def __init__(self) -> None:
        self.objects: dict[str, bytes] = {}

    def create(self, key: str, data: bytes) -> None:
        if self.objects.setdefault(key, data) != data:
            raise Conflict(f"{key} is there with another content")

    def read(self, key: str, max_bytes: int) -> bytes:
        if key not in self.objects:
            raise NotFound(key)
        return self.objects[key]

    def entries(self, prefix: str, after: str = "") -> Iterator[StoreEntry]:
        keys = sorted(key for key in self.objects if key.startswith(prefix) and key > after)
        return iter([StoreEntry(key, len(self.objects[key]), 0.0) for key in keys])

    def delete(self, key: str) -> None:
        self.objects.pop(key, None)

    def check(self) -> None:
        """It is there."""


class PointStore:
    """A store as ``process`` uses it."""

    def __init__(self, store: MemoryStore, process: Process) -> None:
        self.url = store.url
        for name in ("create", "read", "entries", "delete", "check"):
            setattr(self, name, self._pointed(process, name, getattr(store, name)))

    @staticmethod
    def _pointed(process: Process, name: str, plain: Callable[..., Any]) -> Callable[..., Any]:
        return lambda *arguments: process.around(f"store.{name}", lambda: plain(*arguments))


@dataclass
class Execution:
    """A driver, as the judge sees it."""

    uid: str
    attempt: int
    exec_at_s: float
    dead_at_s: float | None = None


@dataclass
class MemoryShim:
    """protocol §7 in a few lines. ``vanished``: shim and host are gone without a word; the twin acts at the deadline."""

    client: MemoryClient
    assignment: Assignment
    host: str
    claim: str
    driver: Execution | None = None
    fence: int = 0
    deadline_at_s: float = 0.0
    over: bool = False
    vanished: bool = False
    stop_at_s: float | None = None


class _AtOnce(Executor):
    """The executor's pool, without threads: what happens has one order."""

    def __init__(self, *_: object, **__: object) -> None:
        """Nothing is needed."""

    def submit(self, function: Callable[..., Any], /, *arguments: Any, **named: Any) -> Future[Any]:
        future: Future[Any] = Future()
        try:
            future.set_result(function(*arguments, **named))
        except BaseException as error:
            future.set_exception(error)
        return future

    def close(self) -> None:
        """Nothing is in flight."""


class _Loop:
    def beat(self) -> None:
        """Nobody watches."""

    def done(self) -> None:
        """Nobody waits."""


class _Recorder:
    def record(self, done: Any) -> None:
        assert not done.broken, f"the check stopped the plan: {done.broken}"

    def skipped(self, *_: object) -> None:
        """Not told."""

    def deposed(self, *_: object) -> None:
        """Not told."""


def _copy(leader: MemoryLeader) -> None:
    """What its way back has to do, is done."""
    way = leader.controller.way_back
    assert way is not None
    for name, wanted in way.due():
        way.see_to(name, wanted)


@dataclass
class MemoryLeader:
    process: Process
    client: PointClient
    controller: Controller
    sweeper: Sweeper


class MemoryWorld:
    """``broken``: what must not be. ``wanted``: what the user was last told about the job: "running", "suspended" or "gone".

    ``faults``: each strikes once; ``struck``: how many have.
    """

    def __init__(self, *faults: Fault) -> None:
        self.faults = faults
        self.struck = 0
        self.passed: Counter[Point] = Counter()
        self.broken: list[str] = []
        self.wanted = "gone"
        self.now_s = 1000.0
        self.layout = Layout(ROOT)
        self.zoo = MemoryZoo()
        self.store = MemoryStore()
        self.shims: list[MemoryShim] = []
        self.executions: list[Execution] = []
        self.cancelled: set[str] = set()
        self.hosts = set(HOSTS)
        self.starting = True
        self.unready = ""
        self.disturbed = False
        self.exit: tuple[Cause, int] | None = None
        self._leader: MemoryLeader | None = None
        self._ids = 0
        self._armed = list(faults)
        self._times: Counter[tuple[str, str]] = Counter()

    @contextmanager
    def at_virtual_time(self) -> Iterator[None]:
        with ExitStack() as stack:
            stack.enter_context(patch.object(carry_out_module, "Pool", _AtOnce))
            stack.enter_context(patch.object(decide, "LEFT_BEHIND_MAX_S", 2 * STEP_S))
            for module in (
                fake,
                controller_module,
                term_module,
                jobs_module,
                sessions_module,
                sweeper_module,
            ):
                stack.enter_context(patch.object(module, "boottime_s", lambda: self.now_s))
            yield

    def due(self, point: str, moment: str) -> Fault | None:
        """The fault that strikes at this pass."""
        if not self._armed:
            return None
        self._times[point, moment] += 1
        for fault in self._armed:
            if (fault.point, fault.moment, fault.nth) == (point, moment, self._times[point, moment]):
                self._armed.remove(fault)
                self.struck += 1
                return fault
        return None

    def new_id(self) -> str:
        self._ids += 1
        return f"{self._ids:012d}"

    def client(self) -> MemoryClient:
        return self.zoo.client()

    # -- leaders ----------------------------------------------------------------------------------------------------------

    def elect(self) -> MemoryLeader | None:
        """None: nothing is founded yet."""
        process = Process(self, "leader")
        plain = self.client()
        node = plain.read(self.layout.epoch)
        if node is None:
            return None
        epoch = node.stat.version + 1
        record = encode(EpochRecord(epoch=epoch, supervisor=f"l{epoch}", op=self.new_id()))
        fence = plain.commit(
            Transaction("lead", "x", (SetData(self.layout.epoch, record, node.stat.version),))
        ).versions[0]
        client = PointClient(self.zoo, process)
        MemoryClient.start(client)
        term: Term[Any] = Term(epoch, fence or 0, client, 1e9, depose=lambda _why: None)
        term.set_recorded()
        store: Any = PointStore(self.store, process)
        work = CopiesAtOnce(client, self.layout, Blobs(store))
        policy = Policy(claim_timeout_s=15.0)
        controller = Controller(term, self.layout, policy, _Recorder(), _Loop(), work=work)  # type: ignore[arg-type]
        assert controller.way_back is not None
        controller.way_back._clock = lambda: self.now_s
        sweeping = BlobSweeper(store, clock=lambda: self.now_s)
        sweeper = Sweeper(term, self.layout, controller.executor, sweeping, EpochMarks(store))
        self._leader = MemoryLeader(process, client, controller, sweeper)
        return self._leader

    def lead(self, work: Callable[[MemoryLeader], object]) -> None:
        """``work`` of the present leader; another one is elected when that fails for good."""
        leader = self._leader or self.elect()
        if leader is None:
            return
        try:
            work(leader)
        except Killed:
            self._bury(leader)
        except NotLeader:
            if self._leader is leader:
                self._leader = None
        except (Unreachable, GuardFailed, OutcomeUnknown):
            pass  # its loop says so and goes on

    def _bury(self, leader: MemoryLeader) -> None:
        leader.process.dead = True
        if leader.client.session is not None:
            self.zoo.expire(leader.client)
        if self._leader is leader:
            self._leader = None

    def sweep(self) -> None:
        """Twice, a grace time apart: two scans must agree."""
        for _ in range(2):
            self.lead(lambda leader: leader.sweeper.sweep_once())
            self.now_s += SWEEP_GRACE_S + 1

    # -- everything goes on ---------------------------------------------------------------------------------------------

    def round(self) -> None:
        self.now_s += STEP_S
        self._kill_late()
        self.lead(lambda leader: leader.controller.reconcile_once())
        self.lead(_copy)
        self._prepare()
        self._start_shims()
        for shim in list(self.shims):
            self._step(shim)

    def meanwhile(self, paused: Process) -> None:
        """``paused`` stands still: another leader is elected, time passes, and other users do what they do. Another fault may
        strike meanwhile; who is paused last goes on first."""
        self.disturbed = True
        leads = self._leader
        if leads is not None and leads.process is paused:
            self._leader = None
        for _ in range(PASSES_ASIDE // 2):
            self.round()
        if paused.role == "cli":
            self.user("cancel")
            for _ in range(PASSES_ASIDE // 2):
                self.round()
        else:
            for _ in range(PASSES_ASIDE // 2):
                self.round()

    # -- hosts ------------------------------------------------------------------------------------------------------------

    def _prepare(self) -> None:
        """A driver is ready as soon as it is asked for; each host says so in its record. A host's record and the requests are no
        guards, so nothing of this has to be believed."""
        client = self.client()
        for host in self.hosts:
            path = self.layout.supervisor(host)
            known = seen(Member, client.read(path), path)
            if not isinstance(known, Found):
                continue
            parent = self.layout.preparations_of(host)
            names = client.children(parent) or ()
            asked = [seen(Preparation, client.read(f"{parent}/{name}"), name) for name in names]
            ready = tuple(
                PreparedDriver(
                    uid=one.record.uid,
                    revision=one.record.revision,
                    level=one.record.level,
                    sha256=one.record.spec.sha256,
                    driver_memory=one.record.driver_memory,
                    ready=not self.unready,
                    why=self.unready,
                )
                for one in asked
                if isinstance(one, Found)
            )
            if known.record.prepared != ready:
                record = encode(replace(known.record, prepared=ready))
                client.commit(Transaction("host", "x", (SetData(path, record, known.version),)))

    # -- shims ------------------------------------------------------------------------------------------------------------

    def _start_shims(self) -> None:
        if not self.starting:
            return
        client = self.client()
        for host in self.hosts:
            for entry in client.children(self.layout.assigned_to(host)) or ():
                path = f"{self.layout.assigned_to(host)}/{entry}"
                given = seen(Assignment, client.read(path), path)
                if isinstance(given, Found) and not any(
                    (s.assignment.uid, s.assignment.attempt) == (given.record.uid, given.record.attempt)
                    for s in self.shims
                ):
                    self.shims.append(MemoryShim(self.client(), given.record, host, self.new_id()))

    def _own(self, shim: MemoryShim) -> Found[Ownership] | None:
        path = self.layout.own(shim.assignment.name)
        own = seen(Ownership, shim.client.read(path), path)
        return own if isinstance(own, Found) else None

    def _step(self, shim: MemoryShim) -> None:
        if shim.over or shim.vanished:
            return
        if shim.driver is None:
            self._claim(shim)
        elif self.exit is not None and shim.driver.dead_at_s is None:
            cause, code = self.exit
            self._end(shim, cause, code)
        elif shim.stop_at_s is not None and self.now_s >= shim.stop_at_s:
            self._end(shim, Cause.STOPPED, 0)
        elif shim.driver.dead_at_s is None:
            self._renew(shim)

    def _lease(self, shim: MemoryShim) -> Lease:
        a = shim.assignment
        return Lease(
            name=a.name,
            uid=a.uid,
            attempt=a.attempt,
            claim=shim.claim,
            lease_s=LEASE_S,
            stop_grace_s=GRACE_S,
            phase=Phase.RUNNING,
            driver=Driver(host=shim.host, shim_pid=1),
            since="t",
        )

    def _claim(self, shim: MemoryShim) -> None:
        own, a = self._own(shim), shim.assignment
        if own is None:
            return
        lease = shim.client.read(self.layout.lease(a.name))
        tx = attempt_writes.claim(
            self.layout,
            a,
            own,
            shim.claim,
            self._lease(shim),
            lease.stat.version if lease else None,
            self.new_id(),
            "t",
        )
        try:
            versions = shim.client.commit(tx).versions
        except GuardFailed:
            # else paused, or the job changed: un-assigned before long
            shim.over = own.version != a.own_version
            return
        shim.fence = versions[1] or 0
        shim.deadline_at_s = deadline_at_s(self.now_s, LEASE_S)
        shim.driver = Execution(a.uid, a.attempt, self.now_s)
        self._judge_exec(shim.driver)

    def _renew(self, shim: MemoryShim) -> None:
        try:
            tx = attempt_writes.renew(
                self.layout, shim.assignment.name, shim.fence, self._lease(shim), self.new_id()
            )
            shim.client.commit(tx)
            shim.deadline_at_s = deadline_at_s(self.now_s, LEASE_S)
        except GuardFailed:
            own = self._own(shim)
            if own is None or own.version < shim.fence:
                return
            mine = (own.record.uid, own.record.attempt, own.record.claim)
            if mine == (shim.assignment.uid, shim.assignment.attempt, shim.claim) and own.record.state in (
                OwnState.CLAIMED,
                OwnState.DRAINING,
            ):
                shim.fence = own.version
                if own.record.state is OwnState.DRAINING and shim.stop_at_s is None:
                    shim.stop_at_s = self.now_s + 2.0
            else:
                self._end(shim, Cause.STOPPED, 0)

    def _end(self, shim: MemoryShim, cause: Cause, code: int) -> None:
        assert shim.driver is not None
        shim.driver.dead_at_s, shim.over = self.now_s, True
        own, a = self._own(shim), shim.assignment
        if own is not None:
            mine = attempt_writes.AttemptIdentity(a.name, a.uid, a.attempt, shim.claim)
            tx = attempt_writes.tombstone(
                self.layout,
                own,
                mine,
                attempt_writes.Exit(cause, "it ended", code, 1.0),
                self.new_id(),
                "t",
            )
            if tx is not None:
                shim.client.commit(tx)

    def _kill_late(self) -> None:
        for shim in self.shims:
            if shim.driver is not None and shim.driver.dead_at_s is None and self.now_s >= shim.deadline_at_s:
                shim.driver.dead_at_s = self.now_s
                shim.over = True

    def vanish(self) -> None:
        """The host of the job's shim is lost; another one is there."""
        for shim in self.shims:
            if not shim.over:
                shim.vanished = True

    # -- the judge --------------------------------------------------------------------------------------------------------

    def _judge_exec(self, driver: Execution) -> None:
        new = judges.Driver(NAME, driver.uid, driver.attempt)
        executed = {(other.uid, other.attempt) for other in self.executions}
        wrong = [judges.claimed_after_cancel(new, self.cancelled), judges.executed_again(new, executed)]
        wrong += [
            judges.two_drivers(new, judges.Driver(NAME, other.uid, other.attempt))
            for other in self.executions
            if other.dead_at_s is None
        ]
        self.broken += [each for each in wrong if each is not None]
        self.executions.append(driver)

    def alive(self) -> int:
        return sum(driver.dead_at_s is None for driver in self.executions)

    def unrest(self) -> list[str]:
        """What is not yet as the user was told."""
        tree, layout = self.zoo.tree(), self.layout
        found = []
        if self.alive() != (1 if self.wanted == "running" else 0):
            found.append(f"{self.alive()} drivers live, wanted: {self.wanted}")
        if (layout.job(NAME) in tree) != (self.wanted in ("running", "suspended")):
            found.append(
                f"wanted {self.wanted}, and {layout.job(NAME)} is {'there' if layout.job(NAME) in tree else 'not there'}"
            )
        found.extend(
            path
            for path in tree
            if path.startswith(f"{layout.assigned}/") and path.count("/") > layout.assigned.count("/") + 1
        )
        if self.wanted in ("running", "suspended"):
            found.extend(self._misplaced())
        found.extend(
            f"{path} is asked for"
            for path in tree
            if path.startswith(f"{layout.preparations}/h")
            and path.count("/") > layout.preparations.count("/") + 1
        )
        if self.wanted == "gone":
            found.extend(
                path for path in tree if path.startswith((layout.lease(NAME), layout.checkpoints + "/"))
            )
            found.extend(
                f"{path} is dirty"
                for path, data in tree.items()
                if path.startswith(layout.results + "/") and b'"dirty"' in data
            )
        return found

    def _misplaced(self) -> list[str]:
        """The job claims the checkpoint of its revision, and no other; of one that was copied there it knows what to expect."""
        paths = (self.layout.job(NAME), self.layout.own(NAME))
        ref, own = (
            seen(cls, self.client().read(path), path)
            for cls, path in zip((JobRef, Ownership), paths, strict=True)
        )
        if not isinstance(ref, Found) or not isinstance(own, Found):
            return []
        place = ref.record.terms.checkpoint or ""
        claims = [path for path in self.zoo.tree() if path.startswith(f"{self.layout.checkpoints}/")]
        wrong = (
            []
            if claims == [self.layout.checkpoint(digest(place))]
            else [f"it claims {claims}, and is at {place}"]
        )
        expected = to_be_expected(place, ref.record.fresh_start, None, own.record.remembered)
        if own.record.revision != ref.record.revision:
            wrong.append(f"revision {own.record.revision} runs, and {ref.record.revision} is wanted")
        if place != PLACE and queries_of(expected) != (SeenQuery("q", 12),):
            wrong.append(f"it expects {expected} at {place}")
        return wrong

    def resolve_outcome(self) -> None:
        """Rounds until everything is as the user was told; it must come to that."""
        quiet = 0
        for _ in range(ROUNDS_MAX):
            self.round()
            quiet = 0 if self.unrest() else quiet + 1
            if quiet >= 2 or self.broken:
                return
        self.broken.extend(f"it does not come to rest: {each}" for each in self.unrest())

    # -- users ------------------------------------------------------------------------------------------------------------

    def user(self, what: str, **terms: Any) -> None:
        """Give a command until it is done, each time as another process."""
        for _ in range(8):
            process = Process(self, "cli")
            made: list[PointClient] = []
            before = self._registered()
            try:
                done = self._give(process, made, what, terms)
            except Killed:
                process.dead = True
                for client in made:
                    if client.session is not None:
                        self.zoo.expire(client)
            except OutcomeUnknown:
                pass
            except Unreachable as error:
                if what in ("submit", "cancel") and not self.disturbed and self._registered() != before:
                    self.broken.append(
                        f"{what} said that nothing was acknowledged, and has had its effect: {error}"
                    )
            except (Conflict, NotFound) as error:
                if not self.disturbed:
                    self.broken.append(f"{what} was refused: {error}")
                return
            else:
                self._reported(what, done)
                return
            self.round()
        self.broken.append(f"{what} is never done")

    def _reported(self, what: str, done: Done | None) -> None:
        if done is not None and done.did in (Did.CANCELLED, Did.ALREADY_CANCELLED):
            self.cancelled.add(done.uid)
        if done is not None:
            self.wanted = (
                "gone"
                if done.uid in self.cancelled
                else {"cancel": "gone", "suspend": "suspended"}.get(what, "running")
            )

    def _registered(self) -> bool:
        return self.layout.job(NAME) in self.zoo.tree()

    def _give(
        self, process: Process, made: list[PointClient], what: str, terms: dict[str, Any]
    ) -> Done | None:
        def make() -> PointClient:
            made.append(PointClient(self.zoo, process))
            return made[-1]

        kept: KeptSession[Any] = KeptSession(
            make,
            lambda old: self.zoo.close_session(old.id, old.password),
            connect_s=0.1,
            resolve_s=0.2,
        )
        try:
            if what in ("pause", "unpause", "switchover"):
                operator = ClusterOperations(kept, self.layout, "test")
                {
                    "pause": lambda: operator.pause("why"),
                    "unpause": operator.unpause,
                    "switchover": lambda: operator.switchover(None),
                }[what]()
                return None
            commands = JobOperations(kept, self.layout)
            if what == "update":
                return self._update(process, commands, terms)
            if what == "roll_back":
                return commands.roll_back(NAME, "user")
            if what == "resume_from":
                return self._go_back(process, commands, terms)
            if what == "prune":
                return self._prune(kept, commands)
            if what != "submit":
                done: Done = getattr(commands, what)(NAME)
                return done
            return self._submit(process, kept, commands, terms)
        finally:
            if not process.dead:
                kept.close()

    def _submit(
        self, process: Process, kept: KeptSession[Any], commands: JobOperations, changes: dict[str, Any]
    ) -> Done:
        store: Any = PointStore(self.store, process)
        blobs = Blobs(store)
        spec = b'{"spec": 1}'
        bootstrap_or_check(kept.zoo(), self.layout, blobs, ClusterIdentity("memory", ROOT, store.url))
        self._populate()
        uid = f"{self.new_id()}-{NAME}"
        ref = blobs.put_spec(NAME, uid, 1, spec)
        done = commands.check_submit(NAME, ref.sha256, PLACE)
        if done is not None:
            return done
        return commands.submit(Submission(NAME, uid, ref, _terms(**changes), stored_from_at_s=self.now_s))

    def _go_back(self, process: Process, commands: JobOperations, changes: dict[str, Any]) -> Done:
        """As ``savepoints.resume`` does it, with a copy that is there."""
        basis = commands.basis(NAME)
        if basis.running and basis.recorded_detail == savepoint_detail("one", basis.checkpoint):
            return Done(NAME, basis.uid, Did.ALREADY_RUNNING)
        if basis.running:
            raise Conflict(basis.running)
        store: Any = PointStore(self.store, process)
        ref = Blobs(store).put_spec(NAME, basis.uid, basis.revision + 1, b'{"spec": 2}')
        terms = replace(_terms(**changes), checkpoint=f"{PLACE}.{basis.revision + 1}")
        return commands.resume_from(Revision(basis, ref, terms, "one", (SeenQuery("q", 12),)))

    def _prune(self, kept: KeptSession[Any], commands: JobOperations) -> Done | None:
        """As ``operations.pruning`` does it, for which the job is in no file."""
        chosen = registered_jobs(kept.zoo(), self.layout).found
        if not chosen:
            self.wanted = "gone"  # it was pruned before, whatever was told of that
            return None
        return commands.cancel(NAME, chosen=ChosenJob(chosen[0].uid, chosen[0].version))

    def _update(self, process: Process, commands: JobOperations, changes: dict[str, Any]) -> Done:
        """As ``operations.apply`` does it."""
        data = b'{"spec": 3}'
        moved = commands.moved_places([NAME]).get(NAME)
        place = PLACE if moved is None else moved.now
        (judged,) = commands.judge_changes([(NAME, hashlib.sha256(data).hexdigest(), place)], again=False)
        if isinstance(judged, SupervisorError):
            raise judged
        if judged.change is Change.NONE:
            return Done(NAME, judged.uid, Did.UNCHANGED)
        store: Any = PointStore(self.store, process)
        ref = Blobs(store).put_spec(NAME, judged.uid, judged.revision, data)
        policy = changes.pop("policy", None)
        target = SpecRevision(revision=judged.revision, spec=ref, terms=_terms(**changes))
        asked = AskedRevision(target, "user", policy=policy)
        return commands.update(Target(NAME, judged.uid, judged.basis, asked))

    def _populate(self) -> None:
        """The hosts register, once the cluster is founded."""
        tree = self.zoo.tree()
        for host in HOSTS:
            if self.layout.assigned_to(host) not in tree:
                self.zoo.put(self.layout.assigned_to(host), b"")
            if host in self.hosts and self.layout.supervisor(host) not in tree:
                self.zoo.put(
                    self.layout.supervisor(host),
                    encode(_member(host)),
                )

    def lose_host(self, host: str) -> None:
        """Its supervisor is gone: nothing is started there any more."""
        self.hosts.discard(host)
        path = self.layout.supervisor(host)
        node = self.client().read(path)
        if node is not None:
            self.client().commit(Transaction("host", "x", (Delete(path, ANY_VERSION),)))

    def bring_host(self, host: str) -> None:
        self.hosts.add(host)
        path = self.layout.supervisor(host)
        if self.client().read(path) is None:
            self.client().commit(Transaction("host", "x", (Create(path, encode(_member(host))),)))


def _member(host: str) -> Member:
    return Member(
        id=host,
        host=host,
        boot_id="b",
        address="",
        memory=10_000,
        drivers=10,
        starting=10,
        software="",
        since="",
        prepares=1,
    )


def _terms(
    attempts: int | None = None,
    unbounded: bool = True,
    then: OnExhausted = OnExhausted.FAIL,
    prepare: PrepareLevel | None = None,
) -> SchedulingSpec:
    policy = RestartPolicy(
        strategy=Strategy.EXPONENTIAL,
        initial_s=1.0,
        max_s=2.0,
        jitter=0.0,
        reset_after_s=60.0,
        attempts=attempts,
        on_exhausted=then,
    )
    return SchedulingSpec(
        memory=100,
        priority=0,
        unbounded=unbounded,
        lease_s=LEASE_S,
        stop_grace_s=GRACE_S,
        start_timeout_s=60.0,
        checkpoint=PLACE,
        restart=policy,
        prepare=prepare,
    )
