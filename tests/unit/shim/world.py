"""A world for the shim's machine: a registry in a dictionary, a clock, a driver. No process, no thread, no waiting.

``ShimWorld`` performs the effects of ``step`` and lets a test choose what becomes of each request. It also checks, at every
step and against the *registry's* truth (not the machine's own bookkeeping), what must never happen.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

from supervisor.model import lease_terms
from supervisor.model.launch import NO_ATTEMPT, Launch
from supervisor.model.records import Assignment, BlobRef, Ownership, OwnState, Phase
from supervisor.model.seen import Found, Seen, Unreadable
from supervisor.model.transaction import ANY_VERSION, Create, Delete, SetData, Transaction
from supervisor.model.usage import ResourceUse
from supervisor.records.codec import decode, encode
from supervisor.records.layout import Layout
from supervisor.shim import state as shim
from supervisor.shim.machine import step
from supervisor.shim.state import Effect, Event, Now, ShimState, Stage

LAYOUT = Layout("/c")
# Every event that a driver or the reporter of an attempt may name in a report.
REPORT_EVENTS = (
    "waiting",
    "begun",
    "session",
    "query",
    "progress",
    "idle",
    "working",
    "unknown",
    "unnamed",
    "trigger",
    "looked",
    "terminated",
    "error",
    "heard",
    "stopping",
    "stopped",
    "ended",
    "executors",
    "cluster",
)
ENTRY = Assignment(
    name="job",
    uid="uid-1",
    attempt=1,
    revision=1,
    job_version=3,
    own_version=7,
    spec=BlobRef(key="k", sha256="0" * 64, bytes=1),
    memory=1,
)
LAUNCH = Launch(
    cluster="c",
    hosts="zk:2181",
    root="/c",
    session_timeout_s=10.0,
    supervisor="host-a",
    host="here",
    assignment=ENTRY,
    lease_s=30.0,
    stop_grace_s=20.0,
    start_timeout_s=300.0,
    stall_timeout_s=600.0,
    unbounded=True,
    reports=True,
    argv=("driver",),
    env={},
    cwd="/",
    log_path="/log",
)
HANDED = replace(LAUNCH, prepared="uid-1.p1")
"""The launch of an attempt that is handed to a prepared driver; ``PREPARED`` is the one by which that was brought up."""
PREPARED = replace(HANDED, assignment=replace(ENTRY, attempt=NO_ATTEMPT, own_version=-1, job_version=-1))
OWN, LEASE, JOB = LAYOUT.own("job"), LAYOUT.lease("job"), LAYOUT.job("job")
LIVE, ENTRY_PATH = LAYOUT.live("uid-1", 1), LAYOUT.assignment("host-a", "uid-1", 1)
ASSIGNED = Ownership(
    state=OwnState.ASSIGNED,
    op="op",
    newest_uid="uid-1",
    uid="uid-1",
    attempt=1,
    supervisor="host-a",
    host="here",
)
CLAIM = "c1a1"
USE = ResourceUse(
    source="cgroup",
    samples=3,
    observed_s=4.0,
    memory=100,
    memory_p50=90,
    memory_p95=110,
    memory_p99=110,
    memory_max=110,
    cpu_s=2.5,
)


class Broken(AssertionError):
    """Something happened that must never happen."""


@dataclass
class Znode:
    data: bytes
    version: int = 0
    owner: int = 0


@dataclass
class ShimWorld:
    """``sent``: requests that wait for their outcome. ``zombies``: unknown ones that may still be applied later."""

    launch: Launch = LAUNCH
    now_s: float = 1000.0
    offset_s: float = 1.7e9
    nodes: dict[str, Znode] = field(default_factory=dict)
    sessions: int = 0
    open_sessions: set[int] = field(default_factory=set)
    sent: list[tuple[int, float, Effect]] = field(default_factory=list)
    zombies: list[tuple[int, float, Transaction]] = field(default_factory=list)
    effects: list[Effect] = field(default_factory=list)
    renewed_at_s: float | None = None  # sending of the newest claim or renewal that the registry has applied
    driver: bool = False
    tree: bool = False  # something of the driver may be alive
    executions: int = 0
    finished: bool = False
    buried: bool = False
    file_deadline_at_s: float | None = None
    resumable: bool = False  # the client can have its session back
    good: bytes | None = None  # what /own was before it was wrecked
    diagnoses: bool = True  # diagnostics are there at once; else they never are
    takes_orders: bool = False  # the driver has a bootstrap that listens; what it answers is the test's

    def __post_init__(self) -> None:
        self.nodes = {
            JOB: Znode(b"{}", 3),
            OWN: Znode(encode(ASSIGNED), 7),
            ENTRY_PATH: Znode(b"{}"),
            LAYOUT.doorbell: Znode(b""),
        }
        stage = Stage.PREPARED if self.launch.waits_for_assignment else Stage.CONNECTING
        self.state = ShimState(self.launch, LAYOUT, CLAIM, 100, 101, born_at_s=self.now_s, stage=stage)
        self.deliver(shim.Tick())

    # -- what a test does ----------------------------------------------------------------------------------------------

    def deliver(self, event: Event) -> tuple[Effect, ...]:
        """One event, its effects performed; what they answer at once is told as well."""
        before = self.state
        self.state, effects = step(before, event, Now(self.now_s, self.now_s + self.offset_s))
        self.effects.extend(effects)
        self._check_kill()
        for effect in effects:
            self._perform(effect)
        return effects

    def connect(self) -> None:
        if self.state.session is not None or self.stage() is Stage.PREPARED:
            return
        if self.sessions not in self.open_sessions or not self.resumable:
            self.sessions += 1
            self.open_sessions.add(self.sessions)
        self.resumable = True
        self.deliver(shim.Connected(self.sessions))

    def disconnect(self) -> None:
        self.deliver(shim.Disconnected())

    def lose_session(self) -> None:
        """The server has expired it: nothing of it is applied from now on."""
        if self.state.session is None:
            return
        self._expire(self.state.session)
        self.resumable = False
        self.deliver(shim.SessionLost())

    def give_up_session(self) -> None:
        """The client calls it lost; at the quorum it lives on, and so may what was sent in it."""
        if self.state.session is not None:
            self.resumable = False
            self.deliver(shim.SessionLost())

    def wait(self, seconds: float) -> None:
        """Time passes, with a tick twice a second as in life."""
        until_at_s = self.now_s + seconds
        while self.now_s < until_at_s and not self.finished:
            self.now_s = min(until_at_s, self.now_s + 0.5)
            self.deliver(shim.Tick())

    def answer(self, outcome: str = "done", index: int = 0) -> bool:
        """What becomes of a request: done, not_sent, lost (unknown, not applied), applied (unknown), late (unknown, may
        be applied later)."""
        if not self.sent:
            return False
        session, sent_at_s, effect = self.sent.pop(index % len(self.sent))
        match effect:
            case shim.Commit(transaction):
                self._settle_commit(session, sent_at_s, transaction, outcome)
            case shim.Read(token):
                self.deliver(
                    self._read(token)
                    if outcome == "done" and session in self.open_sessions
                    else shim.ReadFailed(token)
                )
            case shim.CloseSession(old):
                if outcome == "done":
                    self._expire(old)
                    self.deliver(shim.SessionClosed())
                else:
                    self.deliver(shim.CloseFailed())
        return True

    def run(self, seconds: float = 0.0) -> None:
        """Everything goes well: all requests are done, time passes."""
        until_at_s = self.now_s + seconds
        for _ in range(10_000):
            while self.answer():
                pass
            if self.now_s >= until_at_s or self.finished:
                return
            self.wait(min(0.5, until_at_s - self.now_s))
        raise Broken("it never came to rest")

    def come_late(self) -> None:
        """A write of unknown outcome reaches the quorum after all, if its session still is."""
        if self.zombies:
            session, sent_at_s, transaction = self.zombies.pop(0)
            if session in self.open_sessions:
                self._apply(session, sent_at_s, transaction)

    def own(self) -> Ownership:
        return decode(Ownership, self.nodes[OWN].data, OWN)

    def wreck(self) -> None:
        """Somebody writes nonsense over the record."""
        self.good = self.good or self.nodes[OWN].data
        self.nodes[OWN] = Znode(b"{", self.nodes[OWN].version + 1)

    def repair(self) -> None:
        """... and puts it right again."""
        if self.good is not None:
            self.nodes[OWN] = Znode(self.good, self.nodes[OWN].version + 1)
            self.good = None

    def move(self, state: OwnState, **changes: Any) -> None:
        """Somebody else moves the fence."""
        self.nodes[OWN] = Znode(
            encode(replace(self.own(), state=state, op="x", **changes)), self.nodes[OWN].version + 1
        )

    def stage(self) -> Stage:
        return self.state.stage

    def executed(self) -> int:
        return self.executions

    def phase(self) -> Phase:
        return self.state.phase

    def count(self, kind: type[Effect]) -> int:
        return sum(isinstance(effect, kind) for effect in self.effects)

    # -- what the world does -------------------------------------------------------------------------------------------

    def _perform(self, effect: Effect) -> None:
        match effect:
            case shim.Commit() | shim.Read() | shim.CloseSession():
                if self.finished:
                    raise Broken("a request after the end")
                self.sent.append((self.state.session or 0, self.now_s, effect))
            case shim.NewClient():
                self.resumable = False
            case shim.WriteDeadline(deadline_at_s):
                self._check_deadline(deadline_at_s)
                self.file_deadline_at_s = deadline_at_s
            case shim.Diagnose() if self.diagnoses:
                self.deliver(shim.Diagnosed("/log.diagnostics.txt"))
            case shim.Order():
                if not self.takes_orders:
                    self.deliver(shim.Unheard(effect))
            case shim.Exec(before_at_s):
                self._execute(before_at_s)
            case shim.Finish():
                if self.tree:
                    raise Broken("it finished before the tree was empty")
                self.finished = True

    def _settle_commit(self, session: int, sent_at_s: float, transaction: Transaction, outcome: str) -> None:
        if outcome == "not_sent":
            self.deliver(shim.WriteNotSent(transaction.id))
        elif outcome == "done" and session in self.open_sessions:
            failed = self._apply(session, sent_at_s, transaction)
            sets_own = any(isinstance(op, SetData) and op.path == OWN for op in transaction.ops)
            own = self.nodes[OWN].version if sets_own else None
            self.deliver(
                shim.WriteRejected(transaction.id, *failed)
                if failed
                else shim.WriteCommitted(transaction.id, sent_at_s, own)
            )
        else:
            if outcome == "applied" and session in self.open_sessions:
                self._apply(session, sent_at_s, transaction)
            elif outcome == "late":
                self.zombies.append((session, sent_at_s, transaction))
            self.deliver(shim.WriteOutcomeUnknown(transaction.id))

    def _apply(self, session: int, sent_at_s: float, transaction: Transaction) -> tuple[str, str] | None:
        """Path and kind of the first guard that failed, or None."""
        after = dict(self.nodes)
        for op in transaction.ops:
            node = after.get(op.path)
            if isinstance(op, Create):
                if node is not None:
                    return op.path, "node_exists"
                after[op.path] = Znode(op.data, 0, session if op.ephemeral else 0)
            elif node is None:
                return op.path, "no_node"
            elif op.version not in (ANY_VERSION, node.version):
                return op.path, "bad_version"
            elif isinstance(op, SetData):
                after[op.path] = Znode(op.data, node.version + 1, node.owner)
            elif isinstance(op, Delete):
                del after[op.path]
        self._check_write(transaction)
        self.nodes = after
        if transaction.what in ("claim", "renew"):
            self.renewed_at_s = max(self.renewed_at_s or 0.0, sent_at_s)
        return None

    def _read(self, token: int) -> shim.OwnRead:
        seen: Seen[Ownership] = None
        node = self.nodes.get(OWN)
        if node is not None:
            try:
                seen = Found(decode(Ownership, node.data, OWN), node.version)
            except Exception:
                seen = Unreadable("nonsense", node.version)
        lease, live = self.nodes.get(LEASE), self.nodes.get(LIVE)
        return shim.OwnRead(token, seen, lease.version if lease else None, live.owner if live else None)

    def _expire(self, session: int) -> None:
        self.open_sessions.discard(session)
        self.nodes = {path: node for path, node in self.nodes.items() if node.owner != session}

    # -- what must never happen ----------------------------------------------------------------------------------------

    def true_deadline_at_s(self) -> float:
        """By the registry's own account."""
        if self.renewed_at_s is None:
            raise Broken("there is no committed claim")
        return lease_terms.deadline_at_s(self.renewed_at_s, self.launch.lease_s)

    def _execute(self, before_at_s: float) -> None:
        if self.executions:
            raise Broken("executed twice")
        if self.now_s >= before_at_s or before_at_s > self.true_deadline_at_s():
            raise Broken("executed after its deadline, or with a later one than the registry knows of")
        if self.file_deadline_at_s is None:
            raise Broken("executed while the second killers know of no deadline")
        self.executions += 1
        self.driver = self.tree = True

    def _check_deadline(self, deadline_at_s: float | None) -> None:
        if deadline_at_s is None:
            if self.tree:
                raise Broken("the second killers were called off before the tree was empty")
        elif deadline_at_s > self.true_deadline_at_s() + 1e-9:
            raise Broken("the deadline is later than the last committed renewal allows")

    def _check_kill(self) -> None:
        if not self.tree:
            return
        allowed = self.state.stage in (Stage.STARTING, Stage.RUNNING, Stage.STOPPING)
        if allowed and self.now_s >= lease_terms.shim_acts_at_s(self.true_deadline_at_s()):
            raise Broken("it is past the deadline and nobody is killing")

    def _check_write(self, transaction: Transaction) -> None:
        if transaction.what == "exit":
            if self.tree:
                raise Broken("a tombstone over a living tree")
            if self.own().claim != CLAIM:
                raise Broken("a tombstone over somebody else's claim")
            self.buried = True
        if transaction.what == "renew" and self.own().state not in (OwnState.CLAIMED, OwnState.DRAINING):
            raise Broken("a renewal of what is not ours any more")


def kill_tree(world: ShimWorld) -> None:
    """The kill works: root and children are gone."""
    if world.tree:
        if world.driver:
            world.driver = False
            world.deliver(shim.Exited(-9))
        world.tree = False
    world.deliver(shim.TreeSeen(True))


def running(launch: Launch = LAUNCH) -> ShimWorld:
    """A world in which the driver runs and reports."""
    world = ShimWorld(launch)
    world.connect()
    world.run()
    world.deliver(shim.Executed())
    world.deliver(shim.Reported("progress"))
    world.run()
    return world
