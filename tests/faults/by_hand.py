"""Leaders and hosts that a test moves by hand, one step at a time, on a real ensemble: for interleavings that no real
process can be held at. The code is the product's own (observer, planner, builders, executor); only the loops are missing.

``HandStage`` is a founded root; ``LeaderByHand`` a term of leadership on a session of its own, which takes a view, plans, and
carries out its plan whenever the test says so; ``HostByHand`` an agent with its shims. What a driver would have noted in
the witness, its host notes here, and the same judge reads it.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from supervisor.act.carry_out import ActionExecutor, ActionResult
from supervisor.clients.zookeeper import ZooClient
from supervisor.clock import boottime_s, wall_iso
from supervisor.coord.term import Term
from supervisor.model.actions import Action, Plan
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
from supervisor.model.restart import RestartPolicy
from supervisor.model.seen import Found
from supervisor.model.transaction import ANY_VERSION, Create, Delete, Node, SetData, Transaction
from supervisor.observe.observer import Observer
from supervisor.operations.jobs import JobOperations, Submission
from supervisor.plan.make import Policy, make_plan
from supervisor.records.codec import encode
from supervisor.records.ids import new_op_id, new_uid
from supervisor.records.layout import LAYOUT_VERSION, Layout, split_attempt
from supervisor.records.reading import seen
from supervisor.registry import attempt_writes
from supervisor.registry.attempt_writes import AttemptIdentity, Exit
from tests.faults.checker import WitnessNote

LEASE_S = 5.0


class HandStage:
    """A founded root on ``hosts``; every part gets a session of its own."""

    def __init__(self, hosts: str, root: str) -> None:
        self.hosts = hosts
        self.layout = Layout(root)
        self.notes: list[WitnessNote] = []
        self.clients: list[ZooClient] = []
        self.client = self.connect()
        layout = self.layout
        nothing = ((path, b"") for path in (layout.doorbell, *layout.persistent_parents()))
        self.put(
            (root, b""),
            (layout.version, str(LAYOUT_VERSION).encode()),
            (layout.cluster, encode(Cluster(id="c", name="by-hand", store="file:///nowhere"))),
            (layout.epoch, encode(EpochRecord(epoch=0, supervisor="", op=""))),
            *nothing,
        )

    def connect(self) -> ZooClient:
        client = ZooClient(self.hosts, 20.0)
        client.start()
        client.wait_connected(30)
        self.clients.append(client)
        return client

    def put(self, *nodes: tuple[str, bytes]) -> None:
        self.client.commit(
            Transaction("found", new_op_id(), tuple(Create(path, data) for path, data in nodes))
        )

    def commands(self) -> JobOperations:
        client = self.connect()

        class Kept:
            def zoo(self) -> ZooClient:
                return client

            def resolve_outcome(self) -> ZooClient:
                return client

        return JobOperations(Kept(), self.layout)

    def submit(self, name: str, *, unbounded: bool = True, attempts: int | None = None) -> str:
        """Register a job; there is no blob behind it."""
        uid = new_uid(name)
        policy = RestartPolicy(initial_s=0.1, max_s=0.2, jitter=0.0, attempts=attempts)
        terms = SchedulingSpec(
            memory=1 << 20,
            priority=0,
            unbounded=unbounded,
            lease_s=LEASE_S,
            stop_grace_s=2.0,
            start_timeout_s=60.0,
            checkpoint=f"file:///checkpoints/{name}",
            restart=policy,
        )
        blob = BlobRef(key=f"specs/{name}/{uid}/1-{'0' * 64}.json", sha256="0" * 64, bytes=2)
        return self.commands().submit(Submission(name, uid, blob, terms)).uid

    def read_znode(self, path: str) -> Node | None:
        """A reading that shows everything committed before."""
        self.client.sync()
        return self.client.read(path)

    def own(self, name: str) -> Found[Ownership]:
        path = self.layout.own(name)
        found = seen(Ownership, self.read_znode(path), path)
        assert isinstance(found, Found)
        return found

    def state(self, name: str) -> OwnState:
        return self.own(name).record.state

    def registered(self, name: str) -> bool:
        return self.read_znode(self.layout.job(name)) is not None

    def close(self) -> None:
        for client in self.clients:
            client.close()


class LeaderByHand:
    """Elected when it is made: it sets /epoch. ``plan`` is kept until ``act``, however old it is by then."""

    def __init__(self, stage: HandStage, name: str) -> None:
        self.stage, self.name = stage, name
        self.client = stage.connect()
        path = stage.layout.epoch
        self.client.sync()
        old = seen(EpochRecord, self.client.read(path), path)
        assert isinstance(old, Found)
        self.epoch = old.record.epoch + 1
        record = EpochRecord(epoch=self.epoch, supervisor=name, op=new_op_id())
        done = self.client.commit(
            Transaction("elect", record.op, (SetData(path, encode(record), old.version),))
        )
        fence = done.versions[0]
        assert fence is not None
        self.term: Term[ZooClient] = Term(self.epoch, fence, self.client, 60.0, depose=lambda _why: None)
        self.executor = ActionExecutor(self.term, stage.layout)
        self.observer = Observer(self.client, stage.layout, boottime_s, self.epoch)
        self.latest = Plan(())

    def plan(self) -> tuple[Action, ...]:
        """A full view now, and what is to be done about it."""
        self.client.sync()
        view = self.observer.take_view(None)
        self.latest = make_plan(view, Policy(), boottime_s())
        return self.latest.actions

    def act(self) -> list[ActionResult]:
        return self.executor.carry_out(self.latest.actions)

    def pass_once(self) -> list[ActionResult]:
        self.plan()
        return self.act()


@dataclass
class Running:
    """A driver that a host would have, as its shim knows it."""

    entry: Assignment
    claim: str
    fence: int
    pid: int
    sent_at_s: float
    alive: bool = True
    deadline_s: float = field(default=0.0)


class HostByHand:
    """Agent and shims of one host."""

    def __init__(self, stage: HandStage, name: str) -> None:
        self.stage, self.name = stage, name
        self.client = stage.connect()
        member = Member(
            id=name,
            host=name,
            boot_id="boot",
            address="",
            memory=1 << 34,
            drivers=100,
            starting=100,
            software="test",
            since=wall_iso(),
        )
        layout = stage.layout
        self._commit(
            Create(layout.supervisor(name), encode(member), ephemeral=True),
            Create(layout.assigned_to(name), b""),
        )
        self.running: list[Running] = []

    def _commit(self, *ops: Create | SetData) -> None:
        self.client.commit(Transaction("host", new_op_id(), ops))

    def claim_all(self) -> list[Running]:
        """Start what is assigned here: claim, then note the start as a driver would."""
        return [self.claim(entry) for entry in self.assigned()]

    def assigned(self) -> list[Assignment]:
        """What is assigned here now."""
        layout, entries = self.stage.layout, []
        self.client.sync()
        for key in self.client.children(layout.assigned_to(self.name)) or ():
            path = layout.assignment(self.name, *split_attempt(key))
            given = seen(Assignment, self.client.read(path), path)
            assert isinstance(given, Found)
            entries.append(given.record)
        return entries

    def leave(self) -> None:
        """The leader no longer sees this host; its shims are still there."""
        path = self.stage.layout.supervisor(self.name)
        self.client.commit(Transaction("leave", new_op_id(), (Delete(path, ANY_VERSION),)))

    def claim(self, entry: Assignment) -> Running:
        """Raises GuardFailed when it was taken back."""
        layout, claim_id, sent_at_s = self.stage.layout, new_op_id(), boottime_s()
        own_path = layout.own(entry.name)
        self.client.sync()
        own = seen(Ownership, self.client.read(own_path), own_path)
        lease = self.client.read(layout.lease(entry.name))
        assert isinstance(own, Found)
        tx = attempt_writes.claim(
            layout,
            entry,
            own,
            claim_id,
            self._lease(entry, claim_id, 0),
            lease.stat.version if lease else None,
            new_op_id(),
            wall_iso(),
        )
        self.client.commit(tx)
        made = Running(entry, claim_id, entry.own_version + 1, len(self.stage.notes) + 1000, sent_at_s)
        self.running.append(made)
        self._note(made, "start")
        return made

    def renew(self, driver: Running) -> None:
        """Raises GuardFailed when the fence has moved."""
        lease = self._lease(driver.entry, driver.claim, 1)
        self.client.commit(
            attempt_writes.renew(self.stage.layout, driver.entry.name, driver.fence, lease, new_op_id())
        )
        driver.sent_at_s = boottime_s()
        self._note(driver, "beat")

    def beat(self, driver: Running) -> None:
        """The driver says that it lives."""
        assert driver.alive
        self._note(driver, "beat")

    def end(self, driver: Running, cause: Cause, code: int | None, *, tombstone: bool = True) -> None:
        """The tree is empty; ``tombstone`` False: nobody can say so."""
        self._note(driver, "stop")
        driver.alive = False
        entry, layout = driver.entry, self.stage.layout
        if not tombstone:
            return
        self.client.sync()
        own = self.stage.own(entry.name)
        mine = AttemptIdentity(entry.name, entry.uid, entry.attempt, driver.claim)
        tx = attempt_writes.tombstone(
            layout, own, mine, Exit(cause, cause.value, code, 1.0), new_op_id(), wall_iso()
        )
        assert tx is not None
        self.client.commit(tx)

    def _lease(self, entry: Assignment, claim: str, renewals: int) -> Lease:
        driver = Driver(host=self.name, shim_pid=1, pid=2)
        lease = Lease(
            name=entry.name,
            uid=entry.uid,
            attempt=entry.attempt,
            claim=claim,
            lease_s=LEASE_S,
            stop_grace_s=2.0,
            phase=Phase.RUNNING,
            driver=driver,
            since=wall_iso(),
        )
        return replace(lease, renewals=renewals)

    def _note(self, driver: Running, event: str) -> None:
        entry = driver.entry
        self.stage.notes.append(
            WitnessNote(event, entry.name, entry.uid, entry.attempt, driver.pid, boottime_s())
        )
