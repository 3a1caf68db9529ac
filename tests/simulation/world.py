"""A small world around the real protocol: the real observer, planner, builders and commands on an in-memory ZooKeeper,
with shims reduced to what DESIGN §7 says of them, two leaders that may be stale, a virtual clock and a seeded schedule.

The judge is independent: it records when each driver was alive (exec to empty tree) and what the user was told, and
never asks the registry.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field

from supervisor.act.transactions import transaction_for
from supervisor.errors import Conflict, GuardFailed, NotFound
from supervisor.model.actions import Action
from supervisor.model.lease_terms import KILL_TIME_S, deadline_s
from supervisor.model.records import (
    Assignment,
    BlobRef,
    Cause,
    Cluster,
    Driver,
    EpochRecord,
    Lease,
    Member,
    Ownership,
    OwnState,
    Phase,
    Terms,
)
from supervisor.model.restart import OnExhausted, RestartPolicy, Strategy
from supervisor.model.seen import Found
from supervisor.model.transaction import Check, Create, SetData, Transaction
from supervisor.observe.observer import Observer
from supervisor.plan.check import violations
from supervisor.plan.make import Policy, make_plan
from supervisor.registry import attempt_writes
from supervisor.registry.codec import encode
from supervisor.registry.commands import Commands, Did, Submission
from supervisor.registry.layout import LAYOUT_VERSION, Layout
from supervisor.registry.leader_writes import Desk
from supervisor.registry.reading import seen
from tests.fakes import zookeeper as fake
from tests.fakes.zookeeper import MemoryClient, MemoryZoo

ROOT = "/world"
LEASE_S = 10.0
GRACE_S = 6.0


def terms(name: str, attempts: int | None = None) -> Terms:
    policy = RestartPolicy(Strategy.EXPONENTIAL, 1.0, 8.0, 0.0, 60.0, attempts, OnExhausted.FAIL)
    return Terms(100, 0, True, LEASE_S, GRACE_S, 60.0, f"s3://bucket/{name}", policy)


@dataclass
class Tree:
    """A driver as the judge sees it: ``dead_s`` is when the tree was empty."""

    name: str
    uid: str
    attempt: int
    exec_s: float
    dead_s: float | None = None


@dataclass
class ShimModel:
    """DESIGN §7.1, 3, 4 in a few lines. ``frozen``: shim stopped, its twin acts at the deadline."""

    client: MemoryClient
    assignment: Assignment
    claim: str
    tree: Tree | None = None
    fence: int = 0
    deadline_s: float = 0.0
    stopping_since_s: float | None = None
    cut: bool = False
    frozen: bool = False
    done: bool = False
    cause: Cause = Cause.USER_ERROR


@dataclass
class LeaderModel:
    """A leader that may act on an old plan: its actions are queued and carried out one by one, any time later."""

    client: MemoryClient
    observer: Observer
    epoch: int
    fence: int
    queue: list[Action] = field(default_factory=list)


class SingleSession:
    """``registry.settle.Sessions`` over one client."""

    def __init__(self, client: MemoryClient) -> None:
        self._client = client

    def zoo(self) -> MemoryClient:
        return self._client

    def settle(self) -> MemoryClient:
        return self._client


class World:
    """``step`` does one random thing. ``broken`` collects what must not be."""

    def __init__(self, seed: int, names: tuple[str, ...] = ("a", "b")) -> None:
        self.random = random.Random(seed)
        self.now_s = 1000.0
        self.zoo = MemoryZoo()
        self.layout = Layout(ROOT)
        self.names = names
        self.trees: list[Tree] = []
        self.shims: list[ShimModel] = []
        self.leaders: list[LeaderModel] = []
        self.cancelled: set[str] = set()
        self.broken: list[str] = []
        self.ids = 0
        self.log: list[str] = []
        self._found()
        self.commands = Commands(SingleSession(self._client()), self.layout)
        self.elect()

    # -- founding -------------------------------------------------------------------------------------------------

    def _client(self) -> MemoryClient:
        client = self.zoo.client()
        client.start()
        return client

    def _found(self) -> None:
        layout = self.layout
        member = Member("s1", "host", "boot", "", 10_000, 10, 10, "", "")
        self._client().commit(Transaction("found", "0", (
            Create(ROOT, b""), Create(layout.version, str(LAYOUT_VERSION).encode()),
            Create(layout.cluster, encode(Cluster("c", "c", "s"))),
            Create(layout.epoch, encode(EpochRecord(0, "", "0"))), Create(layout.doorbell, b""),
            *(Create(path, b"") for path in layout.persistent_parents()),
            Create(layout.assigned_to("s1"), b""), Create(layout.supervisor("s1"), encode(member)),
        )))

    def new_id(self) -> str:
        self.ids += 1
        return f"{self.ids:032x}"

    # -- leaders --------------------------------------------------------------------------------------------------

    def elect(self) -> None:
        client = self._client()
        node = client.read(self.layout.epoch)
        assert node is not None
        epoch = node.stat.version + 1
        record = encode(EpochRecord(epoch, f"l{epoch}", self.new_id()))
        fence = client.commit(
            Transaction("lead", "x", (SetData(self.layout.epoch, record, node.stat.version),))
        ).versions[0]
        assert fence is not None
        observer = Observer(client, self.layout, lambda: self.now_s, epoch)
        self.leaders = [*self.leaders[-1:], LeaderModel(client, observer, epoch, fence)]

    def plan_pass(self, leader: LeaderModel) -> None:
        if leader.queue:
            return
        view = leader.observer.take_view(None)
        plan = make_plan(view, Policy(claim_timeout_s=15.0), self.now_s)
        found = violations(view, plan)
        if found:
            self.broken.append(f"check stopped the plan: {found}")
        leader.queue = list(plan.actions)

    def act_one(self, leader: LeaderModel) -> None:
        if not leader.queue:
            return
        action = leader.queue.pop(0)
        desk = Desk(self.layout, leader.epoch, leader.fence, self.new_id(), "t")
        tx = transaction_for(action, desk)
        if tx.ops[0] != Check(self.layout.epoch, leader.fence):
            self.broken.append(f"{tx.what} does not check the epoch")
        try:
            leader.client.commit(tx)
            self.log.append(f"{self.now_s:.1f} e{leader.epoch} {tx.what} {action.name}: {action.why}")
        except GuardFailed as error:
            self.log.append(f"{self.now_s:.1f} e{leader.epoch} {tx.what} {action.name} rejected at {error.path}")

    # -- shims ----------------------------------------------------------------------------------------------------

    def start_shims(self) -> None:
        """The agent starts a shim for an entry; a restarted agent may start a second one."""
        client = self._client()
        for entry in client.children(self.layout.assigned_to("s1")) or ():
            known = sum(1 for s in self.shims if f"{s.assignment.uid}.{s.assignment.attempt}" == entry)
            if known < (2 if self.random.random() < 0.1 else 1):
                path = f"{self.layout.assigned_to('s1')}/{entry}"
                given = seen(Assignment, client.read(path), path)
                assert isinstance(given, Found)
                self.shims.append(ShimModel(self._client(), given.record, self.new_id()))

    def _own(self, shim: ShimModel) -> Found[Ownership]:
        path = self.layout.own(shim.assignment.name)
        own = seen(Ownership, shim.client.read(path), path)
        assert isinstance(own, Found)
        return own

    def _lease(self, shim: ShimModel) -> Lease:
        a = shim.assignment
        phase = Phase.RUNNING
        return Lease(a.name, a.uid, a.attempt, shim.claim, LEASE_S, GRACE_S, phase, Driver("host", 1), "t")

    def claim(self, shim: ShimModel) -> None:
        own = self._own(shim)
        lease = shim.client.read(self.layout.lease(shim.assignment.name))
        tx = attempt_writes.claim(
            self.layout, shim.assignment, own, shim.claim, self._lease(shim),
            lease.stat.version if lease else None, self.new_id(), "t",
        )
        try:
            versions = shim.client.commit(tx).versions
        except GuardFailed:
            shim.done = True
            return
        a = shim.assignment
        if a.uid in self.cancelled:
            self.broken.append(f"I2: {a.name} {a.uid}.{a.attempt} was claimed after its cancel was acknowledged")
        for tree in self.trees:
            if tree.name == a.name and tree.dead_s is None:
                self.broken.append(f"I1: {a.name} {a.uid}.{a.attempt} starts while {tree.uid}.{tree.attempt} is alive")
        shim.fence = versions[1] or 0
        shim.deadline_s = deadline_s(self.now_s, LEASE_S)
        shim.tree = Tree(a.name, a.uid, a.attempt, self.now_s)
        self.trees.append(shim.tree)
        self.log.append(f"{self.now_s:.1f} exec {a.name} {a.uid[:4]}.{a.attempt}")

    def renew(self, shim: ShimModel) -> None:
        """One renewal, and what a moved fence means (§7.3)."""
        name = shim.assignment.name
        sent_s = self.now_s
        try:
            shim.client.commit(
                attempt_writes.renew(self.layout, name, shim.fence, self._lease(shim), self.new_id())
            )
            shim.deadline_s = deadline_s(sent_s, LEASE_S)
        except GuardFailed:
            own = self._own(shim)
            record = own.record
            mine = (record.uid, record.attempt, record.claim) == (shim.assignment.uid, shim.assignment.attempt, shim.claim)
            if mine and record.state in (OwnState.DRAINING, OwnState.CLAIMED):
                shim.fence = own.version
                if record.state is OwnState.DRAINING and shim.stopping_since_s is None:
                    shim.stopping_since_s = self.now_s
                    shim.cause = Cause.STOPPED
            else:
                self.kill(shim)
                self.bury(shim)

    def kill(self, shim: ShimModel) -> None:
        if shim.tree is not None and shim.tree.dead_s is None:
            shim.tree.dead_s = self.now_s
            self.log.append(f"{self.now_s:.1f} dead {shim.tree.name} {shim.tree.uid[:4]}.{shim.tree.attempt}")

    def bury(self, shim: ShimModel) -> None:
        if shim.cut or shim.frozen:
            return
        a = shim.assignment
        mine = attempt_writes.Identity(a.name, a.uid, a.attempt, shim.claim)
        ended = attempt_writes.Exit(shim.cause, "exited", 1, 1.0)
        tx = attempt_writes.tombstone(self.layout, self._own(shim), mine, ended, self.new_id(), "t")
        if tx is not None:
            shim.client.commit(tx)
        shim.done = True

    def step_shim(self, shim: ShimModel) -> None:
        if shim.done:
            return
        if shim.tree is None:
            if not shim.frozen and not shim.cut:
                self.claim(shim)
            return
        if shim.tree.dead_s is not None:
            self.bury(shim)
            return
        if not shim.cut and not shim.frozen:
            self.renew(shim)
        if shim.stopping_since_s is not None and shim.tree.dead_s is None and self.random.random() < 0.3:
            self.kill(shim)
            self.bury(shim)

    def _deadlines(self) -> None:
        """The first of three killers that can act does so by deadline + K; here it is as late as it may be."""
        for shim in self.shims:
            if shim.tree is None or shim.tree.dead_s is not None:
                continue
            grace_over = shim.stopping_since_s is not None and self.now_s >= shim.stopping_since_s + GRACE_S
            if self.now_s >= shim.deadline_s + KILL_TIME_S or (grace_over and not shim.frozen):
                self.kill(shim)

    # -- the user -------------------------------------------------------------------------------------------------

    def user(self) -> None:
        name = self.random.choice(self.names)
        what = self.random.choice(["submit", "submit", "cancel", "suspend", "resume", "resume", "restart"])
        try:
            if what == "submit":
                uid = f"{self.new_id()[-12:]}-{name}"
                ref = BlobRef(f"k{self.ids}", f"{self.ids:064x}", 1)
                self.commands.submit(Submission(name, uid, ref, terms(name, self.random.choice([None, 1]))))
                self.log.append(f"{self.now_s:.1f} user submitted {name} {uid}")
                return
            done = getattr(self.commands, what)(name)
            self.log.append(f"{self.now_s:.1f} user {what} {name}: {done.did}")
            if done.did in (Did.CANCELLED, Did.ALREADY_CANCELLED):
                self.cancelled.add(done.uid)
        except (Conflict, NotFound):
            pass

    # -- the schedule ---------------------------------------------------------------------------------------------

    def advance(self, by_s: float) -> None:
        end_s = self.now_s + by_s
        while self.now_s < end_s:
            self.now_s = min(end_s, self.now_s + 0.5)
            self._deadlines()

    def step(self) -> None:
        choice = self.random.random()
        if choice < 0.20:
            self.advance(self.random.choice([0.1, 0.5, 1.0, 3.0]))
        elif choice < 0.36:
            self.plan_pass(self.random.choice(self.leaders))
        elif choice < 0.54:
            self.act_one(self.random.choice(self.leaders))
        elif choice < 0.62:
            self.start_shims()
        elif choice < 0.91:
            live = [shim for shim in self.shims if not shim.done]
            if live:
                self.step_shim(self.random.choice(live))
        elif choice < 0.94:
            self.user()
        elif choice < 0.955:
            self.elect()
        elif self.shims:
            self.harm(self.random.choice(self.shims[-4:]))

    def harm(self, shim: ShimModel) -> None:
        what = self.random.choice(["cut", "heal", "freeze", "thaw", "crash"])
        if what in ("cut", "heal"):
            shim.cut = what == "cut"
        elif what in ("freeze", "thaw"):
            shim.frozen = what == "freeze"
        elif shim.tree is not None and shim.tree.dead_s is None:
            self.kill(shim)

    def settle(self) -> None:
        """No more faults, no more user: everything must come to rest where the user wants it."""
        for shim in self.shims:
            shim.cut = shim.frozen = False
        leader = self.leaders[-1]
        for _ in range(70):
            self.advance(2.0)
            for shim in list(self.shims):
                self.step_shim(shim)
            self.plan_pass(leader)
            while leader.queue:
                self.act_one(leader)
            self.start_shims()

    def run(self, steps: int) -> None:
        for _ in range(steps):
            self.step()
            if self.broken:
                return
        self.settle()
        self._judge_rest()

    def _judge_rest(self) -> None:
        """I3, I7: what is registered to run runs, exactly once; all else is dead; results are clean."""
        leader = self.leaders[-1]
        view = leader.observer.take_view(None)
        for name in self.names:
            row = view.rows.get(name)
            alive = [tree for tree in self.trees if tree.name == name and tree.dead_s is None]
            wanted = row is not None and isinstance(row.ref, Found) and row.ref.record.desired.value == "running"
            if len(alive) != (1 if wanted else 0):
                self.broken.append(f"{name}: {len(alive)} drivers alive, wanted {'running' if wanted else 'stopped'}")
            uid = row.ref.record.uid if row is not None and isinstance(row.ref, Found) else None
            if wanted and any(tree.uid != uid for tree in alive):
                self.broken.append(f"{name}: the driver of another uid is alive")
            if row is not None and row.leftovers:
                self.broken.append(f"{name}: leftovers stay dirty")


def at_virtual_time(world: World, monkeypatch: object) -> None:
    """Reads of the fake are stamped with the world's clock."""
    monkeypatch.setattr(fake, "boottime_s", lambda: world.now_s)  # type: ignore[attr-defined]


__all__ = ["World", "at_virtual_time"]
