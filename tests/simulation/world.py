"""A small world around the real protocol: the real observer, bell, planner, builders, sweeper and commands on an in-memory
ZooKeeper, with shims reduced to what protocol §7 says of them, leaders that may be stale or stop between any two reads,
two hosts that come and go, lost replies, lost sessions, corrupt records, a virtual clock and a seeded schedule.

The judge is independent: it records when each driver was alive (exec to empty tree), on which checkpoint, and what the
user was told, and never asks the registry.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from supervisor.act.transactions import transaction_for
from supervisor.errors import Conflict, Corrupt, GuardFailed, NotFound, OutcomeUnknown
from supervisor.model.actions import Action
from supervisor.model.lease_terms import KILL_TIME_S, deadline_at_s
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
    SchedulingSpec,
)
from supervisor.model.restart import OnExhausted, RestartPolicy, Strategy
from supervisor.model.seen import Found, Seen
from supervisor.model.transaction import Create, Delete, Node, Reads, SetData, Transaction
from supervisor.observe.change_notifier import ChangeNotifier
from supervisor.observe.observer import Observer
from supervisor.operations.jobs import Did, JobOperations, Submission
from supervisor.plan.check import violations
from supervisor.plan.make import Policy, make_plan
from supervisor.records.codec import encode
from supervisor.records.layout import LAYOUT_VERSION, Layout
from supervisor.records.reading import seen
from supervisor.registry import attempt_writes
from supervisor.registry.leader_write_context import LeaderWriteContext
from supervisor.registry.record_sweep import Deletion, RecordListing, take_listing, to_sweep
from tests import judges
from tests.fakes import zookeeper as fake
from tests.fakes.zookeeper import MemoryClient, MemoryZoo

ROOT = "/world"
LEASE_S = 10.0
GRACE_S = 6.0
HOSTS = ("s1", "s2")
SHARED = "s3://bucket/shared"


def terms(place: str, attempts: int | None = None, then: OnExhausted = OnExhausted.FAIL) -> SchedulingSpec:
    policy = RestartPolicy(
        strategy=Strategy.EXPONENTIAL,
        initial_s=1.0,
        max_s=8.0,
        jitter=0.0,
        reset_after_s=60.0,
        attempts=attempts,
        on_exhausted=then,
    )
    return SchedulingSpec(
        memory=100,
        priority=0,
        unbounded=True,
        lease_s=LEASE_S,
        stop_grace_s=GRACE_S,
        start_timeout_s=60.0,
        checkpoint=place,
        restart=policy,
    )


@dataclass
class DriverTree:
    """A driver as the judge sees it: ``dead_at_s`` is when the tree was empty."""

    name: str
    uid: str
    attempt: int
    place: str
    exec_at_s: float
    dead_at_s: float | None = None


@dataclass
class ShimModel:
    """protocol §7.1, 3, 4 in a few lines. ``frozen``: shim stopped, its twin acts at the deadline. ``claiming``: the reply
    to its claim, sent then, was lost."""

    client: MemoryClient
    host: str
    assignment: Assignment
    claim: str
    tree: DriverTree | None = None
    fence: int = 0
    deadline_at_s: float = 0.0
    claiming_at_s: float | None = None
    stopping_at_s: float | None = None
    cut: bool = False
    frozen: bool = False
    done: bool = False
    cause: Cause = Cause.USER_ERROR


@dataclass
class LeaderModel:
    """A leader that may act on an old plan: its actions are queued and carried out one by one, any time later."""

    client: MemoryClient
    observer: Observer
    notifier: ChangeNotifier
    epoch: int
    fence: int
    queue: list[Action] = field(default_factory=list)
    reread: set[str] = field(default_factory=set)
    begun: bool = False
    reading: bool = False
    listing: RecordListing | None = None
    deletions: list[Deletion] = field(default_factory=list)


class Torn:
    """A leader's reads, between any two of which something may happen: no reading is of one moment."""

    def __init__(self, client: MemoryClient, between: Callable[[], None]) -> None:
        self._client = client
        self._between = between

    def read(self, path: str) -> Node | None:
        self._between()
        return self._client.read(path)

    def children(self, path: str) -> tuple[str, ...] | None:
        self._between()
        return self._client.children(path)

    def read_many(self, paths: Sequence[str]) -> Reads:
        self._between()
        half = len(paths) // 2
        first = self._client.read_many(paths[:half])
        self._between()
        second = self._client.read_many(paths[half:])
        return Reads((*first.nodes, *second.nodes), first.sent_at_s, second.received_at_s)


class SingleSession:
    """``records.ports.ReplaceableSession`` over one client."""

    def __init__(self, client: MemoryClient) -> None:
        self._client = client

    def zoo(self) -> MemoryClient:
        return self._client

    def resolve_outcome(self) -> MemoryClient:
        return self._client


class SimulatedWorld:
    """``step`` does one random thing. ``broken`` collects what must not be."""

    def __init__(self, seed: int, names: tuple[str, ...] = ("a", "b")) -> None:
        self.random = random.Random(seed)
        self.now_s = 1000.0
        self.zoo = MemoryZoo()
        self.layout = Layout(ROOT)
        self.names = names
        self.trees: list[DriverTree] = []
        self.shims: list[ShimModel] = []
        self.leaders: list[LeaderModel] = []
        self.cancelled: set[str] = set()
        self.spoilt: set[str] = set()
        self.places: dict[str, str] = {}
        self.executed: set[tuple[str, int]] = set()
        self.depth = 0
        self.calm = False
        self.broken: list[str] = []
        self.ids = 0
        self.log: list[str] = []
        self._found()
        self.elect()

    # -- bootstrap -------------------------------------------------------------------------------------------------

    def _client(self) -> MemoryClient:
        client = self.zoo.client()
        client.start()
        return client

    def _found(self) -> None:
        layout = self.layout
        self._client().commit(
            Transaction(
                "found",
                "0",
                (
                    Create(ROOT, b""),
                    Create(layout.version, str(LAYOUT_VERSION).encode()),
                    Create(layout.cluster, encode(Cluster(id="c", name="c", store="s"))),
                    Create(layout.epoch, encode(EpochRecord(epoch=0, supervisor="", op="0"))),
                    Create(layout.doorbell, b""),
                    *(Create(path, b"") for path in layout.persistent_parents()),
                    *(Create(layout.assigned_to(host), b"") for host in HOSTS),
                    *(Create(layout.supervisor(host), self._member(host)) for host in HOSTS),
                ),
            )
        )

    def _member(self, host: str) -> bytes:
        return encode(
            Member(
                id=host,
                host=f"host of {host}",
                boot_id="boot",
                address="",
                memory=10_000,
                drivers=10,
                starting=10,
                software="",
                since="",
            )
        )

    def new_id(self) -> str:
        self.ids += 1
        return f"{self.ids:032x}"

    # -- leaders --------------------------------------------------------------------------------------------------

    def elect(self) -> None:
        client = self._client()
        node = client.read(self.layout.epoch)
        assert node is not None
        epoch = node.stat.version + 1
        record = encode(EpochRecord(epoch=epoch, supervisor=f"l{epoch}", op=self.new_id()))
        fence = client.commit(
            Transaction("lead", "x", (SetData(self.layout.epoch, record, node.stat.version),))
        ).versions[0]
        assert fence is not None
        observer = Observer(Torn(client, self._meanwhile), self.layout, lambda: self.now_s, epoch)
        notifier = ChangeNotifier(client, self.layout.doorbell, lambda: None)
        self.leaders = [*self.leaders[-1:], LeaderModel(client, observer, notifier, epoch, fence)]

    def _meanwhile(self) -> None:
        """The leader stops for a moment, or for long, in the middle of its reading."""
        if self.depth == 0 and self.random.random() < 0.04:
            self.depth += 1
            for _ in range(self.random.choice([1, 3, 20])):
                self.step()
            self.depth -= 1

    def plan_pass(self, leader: LeaderModel) -> None:
        if leader.queue or leader.reading:
            return
        leader.reading = True
        changes = leader.notifier.read_changes()
        leader.reread |= changes.names
        full = not leader.begun or changes.more or self.random.random() < 0.05
        view = leader.observer.take_view(None if full else leader.reread | leader.observer.in_motion())
        leader.begun, leader.reading = True, False
        leader.reread.clear()
        plan = make_plan(view, Policy(claim_timeout_s=15.0), self.now_s)
        found = violations(view, plan)
        if found:
            self.broken.append(f"check stopped the plan: {found}")
        leader.queue = list(plan.actions)

    def act_one(self, leader: LeaderModel) -> None:
        if not leader.queue:
            return
        action = leader.queue.pop(0)
        context = LeaderWriteContext(self.layout, leader.epoch, leader.fence, self.new_id(), "t")
        tx = transaction_for(action, context)
        self._broke_if(judges.unguarded(tx, self.layout.epoch, leader.fence))
        leader.reread.add(action.name)
        self._spoil_reply(leader.client)
        try:
            leader.client.commit(tx)
            self.log.append(f"{self.now_s:.1f} e{leader.epoch} {tx.what} {action.name}: {action.why}")
        except GuardFailed as error:
            self.log.append(
                f"{self.now_s:.1f} e{leader.epoch} {tx.what} {action.name} rejected at {error.path}"
            )
        except OutcomeUnknown:
            self.log.append(f"{self.now_s:.1f} e{leader.epoch} {tx.what} {action.name}: no reply")

    def _spoil_reply(self, client: MemoryClient) -> None:
        """Sometimes the next reply of ``client`` is lost, with or without its request."""
        if not self.calm and self.random.random() < 0.05:
            self.random.choice([client.lose_next_reply, client.fail_next_commit_before])()

    def sweep(self, leader: LeaderModel) -> None:
        """The sweeper, one step at a time: list, then look and judge, then delete one by one, whatever happens meanwhile."""
        if leader.reading:
            return
        if leader.deletions:
            one = leader.deletions.pop(0)
            try:
                leader.client.commit(
                    one.transaction(
                        LeaderWriteContext(self.layout, leader.epoch, leader.fence, self.new_id(), "t")
                    )
                )
                self.log.append(f"{self.now_s:.1f} e{leader.epoch} swept {one.what} {one.path}")
            except GuardFailed:
                pass
            return
        leader.reading = True
        if leader.listing is None:
            leader.listing = take_listing(Torn(leader.client, self._meanwhile), self.layout)  # type: ignore[arg-type]
        else:
            view = Observer(
                Torn(leader.client, self._meanwhile), self.layout, lambda: self.now_s, 0
            ).take_view(None)
            leader.deletions = list(to_sweep(leader.listing, view.rows))
            leader.listing = None
        leader.reading = False

    # -- shims ----------------------------------------------------------------------------------------------------

    def start_shims(self) -> None:
        """The agents start a shim for each entry; one that was restarted may start a second one."""
        client = self._client()
        for host in HOSTS:
            for entry in client.children(self.layout.assigned_to(host)) or ():
                known = sum(1 for s in self.shims if f"{s.assignment.uid}.{s.assignment.attempt}" == entry)
                if known < (2 if self.random.random() < 0.1 else 1):
                    path = f"{self.layout.assigned_to(host)}/{entry}"
                    given = seen(Assignment, client.read(path), path)
                    if isinstance(given, Found):
                        self.shims.append(ShimModel(self._client(), host, given.record, self.new_id()))

    def _own(self, shim: ShimModel) -> Seen[Ownership]:
        path = self.layout.own(shim.assignment.name)
        return seen(Ownership, shim.client.read(path), path)

    def _is_mine(self, shim: ShimModel, own: Ownership) -> bool:
        return (own.uid, own.attempt, own.claim) == (shim.assignment.uid, shim.assignment.attempt, shim.claim)

    def _lease(self, shim: ShimModel) -> Lease:
        a = shim.assignment
        phase = Phase.RUNNING
        return Lease(
            name=a.name,
            uid=a.uid,
            attempt=a.attempt,
            claim=shim.claim,
            lease_s=LEASE_S,
            stop_grace_s=GRACE_S,
            phase=phase,
            driver=Driver(host=shim.host, shim_pid=1),
            since="t",
        )

    def claim(self, shim: ShimModel) -> None:
        own = self._own(shim)
        if not isinstance(own, Found):
            return
        if shim.claiming_at_s is not None:
            self._read_claim_back(shim, own)
            return
        lease = shim.client.read(self.layout.lease(shim.assignment.name))
        tx = attempt_writes.claim(
            self.layout,
            shim.assignment,
            own,
            shim.claim,
            self._lease(shim),
            lease.stat.version if lease else None,
            self.new_id(),
            "t",
        )
        sent_at_s = self.now_s
        self._spoil_reply(shim.client)
        try:
            versions = shim.client.commit(tx).versions
        except OutcomeUnknown:
            shim.claiming_at_s = sent_at_s
        except GuardFailed:
            shim.done = True
        else:
            self.execute(shim, versions[1] or 0, sent_at_s)

    def _read_claim_back(self, shim: ShimModel, own: Found[Ownership]) -> None:
        """On the session of the claim, or after that was lost: the reply was lost, what it did is there."""
        assert shim.claiming_at_s is not None
        if self._is_mine(shim, own.record) and own.record.state is OwnState.CLAIMED:
            if self.now_s < deadline_at_s(shim.claiming_at_s, LEASE_S):
                self.execute(shim, own.version, shim.claiming_at_s)
                return
            shim.tree = DriverTree(
                shim.assignment.name, shim.assignment.uid, shim.assignment.attempt, "", 0.0, 0.0
            )
        elif own.version == shim.assignment.own_version:
            shim.claiming_at_s = None
        elif self._is_mine(shim, own.record):
            shim.tree = DriverTree(
                shim.assignment.name, shim.assignment.uid, shim.assignment.attempt, "", 0.0, 0.0
            )
        else:
            shim.done = True

    def _broke_if(self, what: str | None) -> None:
        if what is not None:
            self.broken.append(what)

    def execute(self, shim: ShimModel, fence: int, sent_at_s: float) -> None:
        """Exec of the driver: the judge looks."""
        a = shim.assignment
        place = self.places[a.uid]
        new = judges.Driver(a.name, a.uid, a.attempt, place)
        self._broke_if(judges.claimed_after_cancel(new, self.cancelled))
        self._broke_if(judges.executed_again(new, self.executed))
        self.executed.add((a.uid, a.attempt))
        for tree in self.trees:
            old = judges.Driver(tree.name, tree.uid, tree.attempt, tree.place)
            if tree.dead_at_s is None and judges.exclude_each_other(new, old):
                self.broken.append(judges.two_drivers(new, old))
        shim.fence = fence
        shim.deadline_at_s = deadline_at_s(sent_at_s, LEASE_S)
        shim.tree = DriverTree(a.name, a.uid, a.attempt, place, self.now_s)
        self.trees.append(shim.tree)
        self.log.append(f"{self.now_s:.1f} exec {a.name} {a.uid}.{a.attempt} on {shim.host}")

    def renew(self, shim: ShimModel) -> None:
        """One renewal, and what a moved fence means (§7.3)."""
        name = shim.assignment.name
        sent_at_s = self.now_s
        create = shim.client.read(self.layout.lease(name)) is None
        self._spoil_reply(shim.client)
        try:
            shim.client.commit(
                attempt_writes.renew(
                    self.layout, name, shim.fence, self._lease(shim), self.new_id(), create=create
                )
            )
            shim.deadline_at_s = deadline_at_s(sent_at_s, LEASE_S)
        except OutcomeUnknown:
            pass
        except GuardFailed:
            own = self._own(shim)
            if not isinstance(own, Found) or own.version < shim.fence:
                return
            if self._is_mine(shim, own.record) and own.record.state in (OwnState.DRAINING, OwnState.CLAIMED):
                shim.fence = own.version
                if own.record.state is OwnState.DRAINING and shim.stopping_at_s is None:
                    shim.stopping_at_s = self.now_s
                    shim.cause = Cause.STOPPED
            else:
                self.kill(shim)
                self.bury(shim)

    def kill(self, shim: ShimModel) -> None:
        if shim.tree is not None and shim.tree.dead_at_s is None:
            shim.tree.dead_at_s = self.now_s
            self.log.append(f"{self.now_s:.1f} dead {shim.tree.name} {shim.tree.uid[:4]}.{shim.tree.attempt}")

    def bury(self, shim: ShimModel) -> None:
        own = None if shim.cut or shim.frozen else self._own(shim)
        if not isinstance(own, Found):
            return
        a = shim.assignment
        mine = attempt_writes.AttemptIdentity(a.name, a.uid, a.attempt, shim.claim)
        ended = attempt_writes.Exit(shim.cause, "exited", 1, 1.0)
        tx = attempt_writes.tombstone(self.layout, own, mine, ended, self.new_id(), "t")
        if tx is not None:
            self._spoil_reply(shim.client)
            try:
                shim.client.commit(tx)
            except OutcomeUnknown:
                return
        shim.done = True

    def step_shim(self, shim: ShimModel) -> None:
        if shim.done:
            return
        if shim.tree is None:
            if not shim.frozen and not shim.cut:
                self.claim(shim)
            return
        if shim.tree.dead_at_s is not None:
            self.bury(shim)
            return
        if not shim.cut and not shim.frozen:
            self.renew(shim)
        if shim.stopping_at_s is not None and shim.tree.dead_at_s is None and self.random.random() < 0.3:
            self.kill(shim)
            self.bury(shim)

    def _deadlines(self) -> None:
        """The first of three killers that can act does so by deadline + K; here it is as late as it may be."""
        for shim in self.shims:
            if shim.tree is None or shim.tree.dead_at_s is not None:
                continue
            grace_over = shim.stopping_at_s is not None and self.now_s >= shim.stopping_at_s + GRACE_S
            if self.now_s >= shim.deadline_at_s + KILL_TIME_S or (grace_over and not shim.frozen):
                self.kill(shim)

    # -- the user -------------------------------------------------------------------------------------------------

    def user(self) -> None:
        name = self.random.choice(self.names)
        what = self.random.choice(["submit", "submit", "cancel", "suspend", "resume", "resume", "restart"])
        client = self._client()
        self._spoil_reply(client)
        commands = JobOperations(SingleSession(client), self.layout)
        try:
            if what == "submit":
                uid = f"{self.new_id()[-12:]}-{name}"
                self.places[uid] = SHARED if self.random.random() < 0.2 else f"s3://bucket/{name}"
                limit = self.random.choice([None, 1])
                spec = terms(self.places[uid], limit, self.random.choice(list(OnExhausted)))
                ref = BlobRef(key=f"k{self.ids}", sha256=f"{self.ids:064x}", bytes=1)
                commands.submit(Submission(name, uid, ref, spec))
                self.log.append(f"{self.now_s:.1f} user submitted {name} {uid}")
                return
            if self.random.random() < 0.2:
                self._between_read_and_commit(client)
            done = getattr(commands, what)(name)
            self.log.append(f"{self.now_s:.1f} user {what} {name}: {done.did} {done.uid}")
            if done.did in (Did.CANCELLED, Did.ALREADY_CANCELLED):
                self.cancelled.add(done.uid)
        except (Conflict, NotFound, Corrupt):
            pass
        except OutcomeUnknown:
            self.log.append(f"{self.now_s:.1f} user {what} {name}: outcome unknown")

    def _between_read_and_commit(self, client: MemoryClient) -> None:
        if self.depth == 0:
            self.depth += 1

            def others() -> None:
                for _ in range(3):
                    self.step()
                self.depth -= 1

            client.before_next_commit(others)

    # -- the schedule ---------------------------------------------------------------------------------------------

    def advance(self, by_s: float) -> None:
        end_at_s = self.now_s + by_s
        while self.now_s < end_at_s:
            self.now_s = min(end_at_s, self.now_s + 0.5)
            self._deadlines()

    def step(self) -> None:
        """One random thing, by weight."""
        acts = (
            (200, lambda: self.advance(self.random.choice([0.1, 0.5, 1.0, 3.0]))),
            (160, lambda: self.plan_pass(self.random.choice(self.leaders))),
            (180, lambda: self.act_one(self.random.choice(self.leaders))),
            (80, self.start_shims),
            (290, self.step_any_shim),
            (30, self.user),
            (8, self.elect),
            (14, lambda: self.sweep(self.random.choice(self.leaders))),
            (5, lambda: self.harm_host(self.random.choice(HOSTS))),
            (1, lambda: self.corrupt(self.random.choice(self.names))),
            (32, self.harm_any_shim),
        )
        (act,) = self.random.choices([act for _, act in acts], [weight for weight, _ in acts])
        act()

    def step_any_shim(self) -> None:
        live = [shim for shim in self.shims if not shim.done]
        if live:
            self.step_shim(self.random.choice(live))

    def harm_any_shim(self) -> None:
        if self.shims:
            self.harm(self.random.choice(self.shims[-4:]))

    def harm_host(self, host: str) -> None:
        """A supervisor goes or comes: its /supervisors entry. Its shims go on."""
        path, client = self.layout.supervisor(host), self._client()
        known = client.read(path)
        op = Create(path, self._member(host)) if known is None else Delete(path, known.stat.version)
        client.commit(Transaction("host", "x", (op,)))

    def corrupt(self, name: str) -> None:
        """A record is overwritten with rubbish. A name without a readable reference or ownership need not run any more."""
        what = self.random.choice(["lease", "lease", "lease", "own", "job", "result"])
        results = self._client().children(self.layout.results) or ()
        mine = [uid for uid in results if uid.endswith(f"-{name}")]
        path = {
            "lease": self.layout.lease(name),
            "own": self.layout.own(name),
            "job": self.layout.job(name),
            "result": self.layout.result(self.random.choice(mine)) if mine else "",
        }[what]
        if not path or self._client().read(path) is None:
            return
        self.zoo.put(path, self.random.choice([b"", b"{", b'{"v":1}', b"\xff"]))
        self.log.append(f"{self.now_s:.1f} corrupt {path}")
        if what != "lease":
            self.spoilt.add(name)

    def harm(self, shim: ShimModel) -> None:
        what = self.random.choice(["cut", "heal", "freeze", "thaw", "crash", "expire"])
        if what in ("cut", "heal"):
            shim.cut = what == "cut"
        elif what in ("freeze", "thaw"):
            shim.frozen = what == "freeze"
        elif what == "expire":
            self.zoo.expire(shim.client)
            shim.client = self._client()
        elif shim.tree is not None and shim.tree.dead_at_s is None:
            self.kill(shim)

    def resolve_outcome(self) -> None:
        """No more faults, no more user: everything must come to rest where the user wants it."""
        self.calm, self.depth = True, 1
        for shim in self.shims:
            shim.cut = shim.frozen = False
        for host in HOSTS:
            if self._client().read(self.layout.supervisor(host)) is None:
                self.harm_host(host)
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
        self.resolve_outcome()
        self._judge_rest()

    def _judge_rest(self) -> None:
        """I3, I7: what is registered to run runs, exactly once; all else is dead; results are clean."""
        leader = self.leaders[-1]
        view = leader.observer.take_view(None)
        for name in [name for name in self.names if name not in self.spoilt]:
            row = view.rows.get(name)
            alive = [tree for tree in self.trees if tree.name == name and tree.dead_at_s is None]
            wanted = (
                row is not None and isinstance(row.ref, Found) and row.ref.record.desired.value == "running"
            )
            if len(alive) != (1 if wanted else 0):
                self.broken.append(
                    f"{name}: {len(alive)} drivers alive, wanted {'running' if wanted else 'stopped'}"
                )
            uid = row.ref.record.uid if row is not None and isinstance(row.ref, Found) else None
            if wanted and any(tree.uid != uid for tree in alive):
                self.broken.append(f"{name}: the driver of another uid is alive")
            if row is not None and row.leftovers:
                self.broken.append(f"{name}: leftovers stay dirty")


def at_virtual_time(world: SimulatedWorld, monkeypatch: object) -> None:
    """Reads of the fake are stamped with the world's clock."""
    monkeypatch.setattr(fake, "boottime_s", lambda: world.now_s)  # type: ignore[attr-defined]


__all__ = ["SimulatedWorld", "at_virtual_time"]
