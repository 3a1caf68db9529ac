"""The world of ``test_notifications``: jobs that fail and are quarantined, leaders that come, go, stop and go on, receivers that answer
or do not, and what must hold after each step.

Production code as it is: the observer, the plan, the notifier with its inbox and its deliveries. What it sends is sent when the world
says so. The judge knows only what the world did to the records, what a receiver was sent, and what stands in /notifications.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import ExitStack
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, TypeVar
from unittest import mock

import structlog

from supervisor.act.carry_out import ActionExecutor
from supervisor.clock import boottime_s
from supervisor.coord.term import Term
from supervisor.daemon.leader import deliveries as deliveries_module
from supervisor.daemon.leader import notifier as notifier_module
from supervisor.daemon.leader.deliveries import AGAIN_MAX_S, Deliveries, Receiver
from supervisor.daemon.leader.notifier import READ_EVERY_S, Notifier, NotifyConfiguration
from supervisor.daemon.leader.notifier_inbox import NotifierInbox
from supervisor.daemon.loops.error_boundary import ErrorBoundary
from supervisor.errors import NotLeader, SupervisorError, Unreachable
from supervisor.metrics import Metrics
from supervisor.model.notifications import ENTRIES_MAX, notification_id
from supervisor.model.records import (
    Cause,
    Cleanliness,
    EpochRecord,
    JobRef,
    Notifications,
    NotifiedEvent,
    NotifyingSince,
    Outcome,
    OwnState,
    Pause,
    Result,
    SpecRevision,
    Update,
)
from supervisor.model.seen import Found
from supervisor.model.transaction import Create, Delete, Transaction
from supervisor.observe.observer import Observer
from supervisor.plan.make import Policy, make_plan
from supervisor.records.codec import encode
from supervisor.records.ids import name_suffix
from tests.fakes.registry_bench import AT, Bench, submission
from tests.property.processes import Process, SeamClient, StopPoint

T = TypeVar("T")
NAMES = ("a", "b")
RECEIVERS = {"every": frozenset(NotifiedEvent), "failures": frozenset({NotifiedEvent.FAILED})}
STEPS_MAX = 60


class Invented(AssertionError):
    """A receiver was told what never happened."""


class NeverSent(AssertionError):
    """A receiver was not told something."""


class WronglyMarked(AssertionError):
    """It is written down that a receiver has accepted what it has not."""


class WrittenByADeposedLeader(AssertionError):
    """A record was changed under an older epoch."""


class OutOfOrder(AssertionError):
    """A receiver was sent something about a job before it had accepted what came first."""


class InFlight(NamedTuple):
    receiver: str
    message_id: str
    uid: str
    future: Future[None]


class JudgedBoundary(ErrorBoundary):
    """What the judge says is no trouble of one job."""

    def attempt(
        self, item: str, work: Callable[[], T], otherwise: T, through: tuple[type[Exception], ...] = ()
    ) -> T:
        return super().attempt(item, work, otherwise, (*through, AssertionError))


class NotifyingLeader:
    def __init__(self, world: NotifyingWorld) -> None:
        layout = world.bench.layout
        node = world.bench.zoo.client().read(layout.epoch)
        version = 0 if node is None else node.stat.version + 1
        world.bench.put(layout.epoch, EpochRecord(epoch=version + 1, supervisor="l", op="op"))
        self.client = SeamClient(world.bench.zoo)
        self.client.start()
        term: Term[Any] = Term(version + 1, version, self.client, 1e9, depose=lambda _why: None)
        term.set_recorded()
        self.term, self.epoch = term, version + 1
        self.executor = ActionExecutor(term, layout)
        self.observer = Observer(self.client, layout, world.clock, version + 1)
        self.inbox = NotifierInbox(world.clock)
        metrics = Metrics(boottime_s)
        self.shown: set[str] = set()
        self.taken: frozenset[str] = frozenset()  # of these, what its present step has begun with
        self.notifier = Notifier(
            term,
            layout,
            self.executor,
            NotifyConfiguration(world.receivers(), "bench", lambda _name: ""),
            self.inbox,
            metrics,
            paused=lambda: world.paused,
            clock=world.clock,
            deliveries=Deliveries(metrics, world.clock, world.start),
        )
        self.notifier._boundary = JudgedBoundary("notifier", world.clock)
        self.process: Process | None = None

    def observes(self, now_s: float) -> None:
        view = self.observer.take_view(None)
        plan = make_plan(view, Policy(), now_s)
        self.inbox.observe(view, plan)


@dataclass
class JobOfTheWorld:
    """What the world did to a name. ``quarantines``: how often its present uid was quarantined."""

    uid: str
    attempt: int = 0
    quarantines: int = 0
    target: int = 1


class NotifyingWorld:
    """``is_on``: a leader with receivers has led before anything happened."""

    def __init__(self, is_on: bool = True) -> None:
        self.bench = Bench()
        self.now_s = 10_000.0
        self.paused = False
        self.jobs: dict[str, JobOfTheWorld] = {}
        self.true: set[str] = set()  # ids of all that happened
        self.old: set[str] = set()  # of these, those from before a leader had receivers
        self.written: dict[str, set[str]] = {}  # ids that were ever written down, by uid
        self.in_flight: list[InFlight] = []
        self.accepted: dict[str, list[str]] = {name: [] for name in RECEIVERS}
        self.leaders: list[NotifyingLeader] = []
        self._undo = ExitStack()
        silent = structlog.wrap_logger(structlog.ReturnLogger(), processors=[_silent])
        for module in (deliveries_module, notifier_module):
            self._undo.enter_context(mock.patch.object(module, "log", silent))
        self.lead()
        if is_on:
            self.rest()

    def close(self) -> None:
        for leader in self.leaders:
            if leader.process is not None and not leader.process.over:
                leader.process.kill()
            leader.executor.close()
        self._undo.close()

    def clock(self) -> float:
        return self.now_s

    # -- jobs --------------------------------------------------------------------------------------------------------

    def registered(self, name: str) -> bool:
        return self.bench.has(self.bench.layout.job(name))

    def submit(self, name: str) -> None:
        uid = f"{len(self.jobs) + 1}-{name_suffix(name)}"  # the same in each run
        self.bench.commands().submit(submission(name, uid=uid))
        self.jobs[name] = JobOfTheWorld(self.bench.ref(name).record.uid)
        self.runs(name)

    def runs(self, name: str) -> None:
        job = self.jobs[name]
        job.attempt += 1
        self._own(name, OwnState.CLAIMED)

    def fails(self, name: str) -> None:
        """As a leader concludes a job of which an attempt has failed for the last time."""
        job, ref = self.jobs[name], self.bench.ref(name)
        self._own(name, OwnState.EXITED, cause=Cause.USER_ERROR, reason="exit code 7")
        result = Result(
            name=name,
            uid=job.uid,
            outcome=Outcome.FAILED,
            state=Cleanliness.DIRTY,
            revision=ref.record.revision,
            spec=ref.record.spec,
            terms=ref.record.terms,
            attempt=job.attempt,
            claims=job.attempt,
            reason="exit code 7",
            at=AT,
            submitted_at=AT,
            op="op",
        )
        ops = (
            Delete(self.bench.layout.job(name), ref.version),
            Create(self.bench.layout.result(job.uid), encode(result)),
        )
        self.bench.zoo.client().commit(Transaction("conclude", "op", ops))
        self.true.add(f"{job.uid}.failed.{job.attempt}")

    def cleans(self, name: str) -> None:
        """As the leader does, by a view that shows it."""
        if not self.leaders or not self.passes(self.leaders[-1]):
            return
        result = self.bench.result(self.jobs[name].uid)
        if result is not None:
            self.bench.put(self.bench.layout.result(result.uid), replace(result, state=Cleanliness.CLEAN))

    def resumes(self, name: str) -> None:
        """Registers a failed uid again: its result is gone then."""
        job, layout = self.jobs[name], self.bench.layout
        result = self.bench.result(job.uid)
        assert result is not None and result.spec is not None and result.terms is not None
        self.bench.zoo.remove(layout.result(job.uid))
        ref = _reference(name, result)
        self.bench.put(layout.job(name), ref)
        self.runs(name)

    def is_quarantined(self, name: str) -> bool:
        own = self.bench.own(name)
        return own.state is OwnState.EXITED and own.permanent

    def quarantines(self, name: str) -> None:
        job = self.jobs[name]
        self._own(name, OwnState.EXITED, cause=Cause.NO_SPARK, reason="no Spark", permanent=True)
        job.quarantines += 1

    def rolls_back(self, name: str) -> None:
        job, ref = self.jobs[name], self.bench.ref(name).record
        job.target += 1
        before = SpecRevision(revision=1, spec=ref.spec, terms=ref.terms)
        update = Update(
            target=job.target, sha256="0" * 64, before=before, by="me", at=AT, rolled_back="it failed"
        )
        self.bench.put(self.bench.layout.job(name), replace(ref, update=update))
        self.true.add(f"{job.uid}.rolled_back.{job.target}")

    def _own(self, name: str, state: OwnState, **changes: Any) -> None:
        job = self.jobs[name]
        plain: dict[str, Any] = {"cause": None, "reason": "", "permanent": False}
        nonce = self.bench.ref(name).record.restart_nonce if self.registered(name) else ""
        self.bench.set_own(
            name, state, attempt=job.attempt, uid=job.uid, restart_nonce=nonce, **{**plain, **changes}
        )

    def pauses(self) -> None:
        path = self.bench.layout.pause
        if self.paused:
            self.bench.zoo.remove(path)
        else:
            self.bench.put(path, Pause(by="me", at=AT, reason="", op="op"))
        self.paused = not self.paused

    # -- receivers ---------------------------------------------------------------------------------------------------

    def receivers(self) -> tuple[Receiver, ...]:
        def post(name: str) -> Callable[[str, bytes], None]:
            return lambda message_id, body: self._posted(name, message_id, body)

        return tuple(Receiver(name, events, post(name)) for name, events in RECEIVERS.items())

    def _posted(self, receiver: str, message_id: str, body: bytes) -> None:
        """Called by ``start``: it is on its way."""
        message = json.loads(body)
        assert message["id"] == message_id
        uid = message["uid"]
        self.true |= {
            f"{job.uid}.quarantined.{n}" for job in self.jobs.values() for n in range(1, job.quarantines + 1)
        }
        if message_id not in self.true:
            raise Invented(message_id)
        self.in_flight.append(InFlight(receiver, message_id, uid, Future()))
        record = self.records().get(uid)
        for entry in record.entries if record is not None else ():
            known = notification_id(uid, entry)
            if known == message_id:
                break
            if receiver in entry.pending and known not in self.accepted[receiver]:
                raise OutOfOrder(f"{message_id} before {known} to {receiver}")

    def start(self, _name: str, work: Callable[[], None]) -> Future[None]:
        work()
        return self.in_flight[-1].future

    def answers(self, message: InFlight, how: str) -> None:
        """``how``: accepted, refused, or ``lost``: it is accepted, and its answer does not arrive."""
        self.in_flight.remove(message)
        if how != "refused":
            self.accepted[message.receiver].append(message.message_id)
        if how == "accepted":
            message.future.set_result(None)
        else:
            message.future.set_exception(Unreachable("the receiver answers 503"))

    # -- leaders -----------------------------------------------------------------------------------------------------

    def lead(self) -> None:
        self.leaders.append(NotifyingLeader(self))

    def leave(self, leader: NotifyingLeader) -> None:
        """It dies where it is; what it has sent may still arrive."""
        self.leaders.remove(leader)
        if leader.process is not None and not leader.process.over:
            leader.process.kill()
        leader.executor.close()

    def passes(self, leader: NotifyingLeader) -> bool:
        """Returns whether it has a view."""
        try:
            leader.observes(self.now_s)
        except SupervisorError:
            return False
        if leader is self.leaders[-1]:
            leader.shown |= self.present(in_a_view=True)
        return True

    def steps(self, leader: NotifyingLeader, stop: StopPoint | None = None) -> None:
        """One step of its notifier, up to ``stop``."""
        before = self.records()
        if not self.is_on():
            self.old |= self.true
        if leader.process is None:
            leader.process = Process("notifier", leader.notifier.step)
            leader.taken = frozenset(leader.shown)
        completed = False
        try:
            leader.process.go_on(stop)
            # unless a write has failed, and it is to read again
            completed = leader.process.over and leader.notifier._read_at_s is not None
        except NotLeader:
            self.leave(leader)
        except SupervisorError:
            pass
        if leader.process is not None and leader.process.over:
            leader.process = None
        if leader.epoch < self.epoch() and self.records() != before:
            raise WrittenByADeposedLeader
        self.judge()
        if completed and not self.paused and leader.epoch == self.epoch():
            lost = leader.taken - set().union(*self.written.values())
            if lost:
                raise NeverSent(f"shown to a leader, and not written down: {sorted(lost)}")

    def epoch(self) -> int:
        found = self.bench.record(EpochRecord, self.bench.layout.epoch)
        assert isinstance(found, Found)
        return int(found.record.epoch)

    # -- the judge ---------------------------------------------------------------------------------------------------

    def present(self, *, in_a_view: bool = False) -> set[str]:
        """The ids of what the registry shows now, but for what lasts. ``in_a_view``: without results that are clean."""
        found = set()
        for name, job in self.jobs.items():
            result = self.bench.result(job.uid)
            if result is not None:
                if in_a_view and result.state is Cleanliness.CLEAN:
                    continue
                found.add(f"{job.uid}.failed.{result.attempt}")
            elif self.registered(name) and self.bench.ref(name).record.update is not None:
                found.add(f"{job.uid}.rolled_back.{job.target}")
        return found

    def records(self) -> dict[str, Notifications]:
        zoo, layout = self.bench.zoo.client(), self.bench.layout
        found = {}
        for uid in zoo.children(layout.notifications) or ():
            record = self.bench.record(Notifications, layout.notifications_of(uid))
            if isinstance(record, Found):
                found[uid] = record.record
        return found

    def is_on(self) -> bool:
        found = self.bench.record(NotifyingSince, self.bench.layout.notifications)
        return isinstance(found, Found) and bool(found.record.on)

    def judge(self) -> None:
        for uid, record in self.records().items():
            for entry in record.entries:
                known = notification_id(uid, entry)
                self.written.setdefault(uid, set()).add(known)
                for receiver, events in RECEIVERS.items():
                    has = receiver in entry.pending or known in {*self.accepted[receiver], *self.old}
                    if entry.event in events and not has:
                        raise WronglyMarked(f"{known} by {receiver}")

    def rest(self) -> None:
        """A leader leads on, and receivers answer: then each has everything, and nothing is sent any more."""
        if self.paused:
            self.pauses()
        self.lead()
        leader = self.leaders[-1]
        for _ in range(STEPS_MAX):
            self.now_s += READ_EVERY_S + AGAIN_MAX_S
            self.passes(leader)
            self.steps(leader)
            if not self.in_flight and not any(
                entry.pending for record in self.records().values() for entry in record.entries
            ):
                break
            for message in list(self.in_flight):
                self.answers(message, "accepted")
        if not self.is_on():
            raise NeverSent("nobody has begun to write down")
        self._judge_rest()

    def _judge_rest(self) -> None:
        wanted = self.present()
        for name, job in self.jobs.items():
            if self.registered(name) and self.is_quarantined(name):
                newest = max(
                    (
                        int(each.rpartition(".")[2])
                        for each in self.written.get(job.uid, ())
                        if ".quar" in each
                    ),
                    default=0,
                )
                wanted.add(f"{job.uid}.quarantined.{max(1, newest)}")
        for written in self.written.values():
            wanted |= written if len(written) <= ENTRIES_MAX else set()
        for receiver, events in RECEIVERS.items():
            mine = {each for each in wanted if NotifiedEvent(each.split(".")[1]) in events}
            missing = mine - set(self.accepted[receiver])
            if missing:
                raise NeverSent(f"to {receiver}: {sorted(missing)}")
        unmarked = [entry for record in self.records().values() for entry in record.entries if entry.pending]
        if unmarked:
            raise NeverSent(f"never marked: {unmarked[0]}")


def _reference(name: str, result: Result) -> JobRef:
    from tests.unit.plan.rows import job

    assert result.spec is not None and result.terms is not None
    plain = job().record
    return replace(
        plain, name=name, uid=result.uid, revision=result.revision, spec=result.spec, terms=result.terms
    )


def _silent(*_: Any) -> Any:
    raise structlog.DropEvent
