"""The world of ``test_notifications``: jobs that fail, are rolled back and quarantined, users who resume, suspend, update and cancel them, leaders
that come, go, stop and go on, receivers that answer or do not, and what must hold after each step.

Production code as it is: the observer, the plan, the notifier with its inbox and its deliveries, the commands, and the multis by which a
job fails, is rolled back and cleaned up. What it sends is sent when the world says so. The judge knows only what the world did, what a
receiver was sent, and what stands in /notifications. What it forgives:

* an event of which nothing was written down while the records had room for it (``forgotten``): ``HISTORY_KEPT`` entries came after it in
  the history of its job, ``ROLLED_BACK_KEPT`` more roll backs, or ``QUARANTINED_KEPT`` more quarantines that are over;
* an entry that had to make room, if by the rule of ``model.notifications`` it was its turn (``_judge_room``);
* what happened before anybody was to be told (``ancient``): then it must not be told, but for what somebody has resumed while the first
  leader with receivers began: its view had the result no more, and the results that it read after it neither; and but for a quarantine
  that a view of it has shown, or that was over after its view.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import ExitStack
from dataclasses import replace
from typing import Any, NamedTuple, TypeVar
from unittest import mock

import structlog

from supervisor.act.carry_out import ActionExecutor
from supervisor.clock import boottime_s
from supervisor.coord.term import Term
from supervisor.daemon.leader import deliveries as deliveries_module
from supervisor.daemon.leader import notifier as notifier_module
from supervisor.daemon.leader.deliveries import RETRY_PAUSE, Deliveries, Receiver
from supervisor.daemon.leader.notifier import READ_EVERY_S, Notifier, NotifyConfiguration
from supervisor.daemon.leader.notifier_inbox import NotifierInbox
from supervisor.daemon.loops.error_boundary import ErrorBoundary
from supervisor.errors import NotLeader, SupervisorError, Unreachable
from supervisor.metrics import Metrics
from supervisor.model.actions import CleanUp, Conclude, RollBack
from supervisor.model.notifications import ENTRIES_MAX, notification_id
from supervisor.model.records import (
    HISTORY_KEPT,
    QUARANTINED_KEPT,
    ROLLED_BACK_KEPT,
    Cause,
    Cleanliness,
    Desired,
    EpochRecord,
    Notification,
    Notifications,
    NotifiedEvent,
    NotifyingSince,
    Outcome,
    Ownership,
    OwnState,
    Pause,
    Result,
    SpecRevision,
    with_entry,
)
from supervisor.model.restart import Account
from supervisor.model.seen import Found
from supervisor.model.transaction import Transaction
from supervisor.model.view import Leftover
from supervisor.observe.observer import Observer
from supervisor.plan.make import Policy, make_plan
from supervisor.records.ids import name_suffix
from supervisor.registry.leader_write_context import LeaderWriteContext
from supervisor.registry.leader_writes import clean_up, conclude, roll_update_back
from supervisor.registry.older_history import older_aside
from supervisor.registry.user_writes import AskedRevision, UserWriteContext, with_update
from tests.fakes.registry_bench import AT, Bench, submission
from tests.property.processes import Process, SeamClient, StopPoint

T = TypeVar("T")
NAMES = ("a", "b")
Quarantine = tuple[str, int]
"""The uid, and the attempt by whose end it was quarantined."""
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
    """``shown``: what its views have shown. ``quarantines``: those that they showed, ``quarantines_over``: as over. ``taken…``: of
    these, what its present step has begun with. ``hindered``: a write of it may fail, or has to be made again."""

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
        self.taken: frozenset[str] = frozenset()
        self.quarantines: set[Quarantine] = set()
        self.quarantines_over: set[Quarantine] = set()
        self.taken_quarantines: frozenset[Quarantine] = frozenset()
        self.hindered = False
        self.has_passed = False
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
        self.has_passed = True


class Happening(NamedTuple):
    """What happened to ``uid``: after how many entries of its history, and how many of its roll backs."""

    uid: str
    event: NotifiedEvent
    entries: int
    roll_backs: int


class NotifyingWorld:
    """``is_on``: a leader with receivers has led before anything happened."""

    def __init__(self, is_on: bool = True) -> None:
        self.bench = Bench()
        self.now_s = 10_000.0
        self.paused = False
        self.uids: dict[str, str] = {}  # the newest of each name
        self.submitted: dict[str, list[str]] = {}
        self.submissions = 0
        self.happened: dict[str, Happening] = {}  # by id
        self.entries: Counter[str] = Counter()  # by uid
        self.roll_backs: Counter[str] = Counter()
        self.quarantined: dict[str, list[int]] = {}  # attempts, by uid
        self.over: dict[str, list[int]] = {}  # of these, those that a user has ended
        self.old: set[str] = set()  # what happened before a leader had receivers
        self.old_quarantines: set[Quarantine] = set()
        self.ancient_quarantines: frozenset[Quarantine] = frozenset()
        self.ancient: frozenset[str] | None = None  # of these, what had happened when the first one began
        self.order: dict[str, list[str]] = {}  # ids that were ever written down, by uid
        self.reported_quarantines: dict[str, dict[int, str]] = {}
        self.known: dict[str, Notifications] = {}
        self.gone: set[str] = set()  # of these, those that had to make room before each receiver had them
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

    # -- jobs: what users do -----------------------------------------------------------------------------------------

    def registered(self, name: str) -> bool:
        return self.bench.has(self.bench.layout.job(name))

    def runs_now(self, name: str) -> bool:
        own = self.bench.own(name)
        return self.registered(name) and (own.state, own.uid) == (OwnState.CLAIMED, self.uids[name])

    def has_failed(self, name: str) -> bool:
        result = self.bench.result(self.uids[name])
        return result is not None and result.outcome is Outcome.FAILED

    def is_quarantined(self, name: str) -> bool:
        own = self.bench.own(name)
        if not self.registered(name) or own.uid != self.uids[name]:
            return False
        job = self.bench.ref(name).record
        is_of_job = (own.restart_nonce, own.revision) == (job.restart_nonce, job.revision)
        return own.state is OwnState.EXITED and own.permanent and is_of_job and job.desired is Desired.RUNNING

    def is_suspended(self, name: str) -> bool:
        return self.registered(name) and self.bench.ref(name).record.desired is Desired.SUSPENDED

    def _is_written(self, name: str) -> None:
        """The reference is about to be written by a user, who wants something else from now on."""
        if self.is_quarantined(name):
            own = self.bench.own(name)
            self.over.setdefault(own.uid, []).append(own.attempt)

    def submit(self, name: str) -> None:
        self.submissions += 1
        uid = f"{self.submissions}-{name_suffix(name)}"  # the same in each run
        self.bench.commands().submit(submission(name, uid=uid))
        self.uids[name] = uid
        self.submitted.setdefault(name, []).append(uid)
        self.runs(name)

    def resumes(self, name: str) -> None:
        """A failed job is registered again, and its result is gone then; a quarantined one is to be tried again."""
        if not self.registered(name):
            self.entries[self.bench.own(name).uid] += 1
            switch = self.switch()
            if self.ancient is not None and not (switch is not None and switch.from_history):
                self.ancient -= {known for known in self.ancient if known.startswith(f"{self.uids[name]}.")}
        self._is_written(name)
        self.bench.commands().resume(name)

    def restarts(self, name: str) -> None:
        """It takes effect when the attempt that runs has ended."""
        self._is_written(name)
        self.bench.commands().restart(name)

    def suspends(self, name: str) -> None:
        self.entries[self.bench.own(name).uid] += 1
        self._is_written(name)
        self.bench.commands().suspend(name)

    def cancels(self, name: str) -> None:
        self.entries[self.bench.own(name).uid] += 1
        self._is_written(name)
        self.bench.commands().cancel(name)

    def updates(self, name: str) -> None:
        """Over what it says of an update before."""
        layout, ref = self.bench.layout, self.bench.ref(name)
        own = self._own(name)
        self._is_written(name)
        target = SpecRevision(revision=ref.record.next_revision, spec=ref.record.spec, terms=ref.record.terms)
        context = UserWriteContext(layout, "op", AT, "me")
        self.bench.put(layout.job(name), with_update(context, ref.record, own, AskedRevision(target, "me")))

    def version_before_has_begun(self) -> None:
        """Its leaders have switched the writing down on, and looked into no history."""
        self.bench.put(self.bench.layout.notifications, NotifyingSince(on=True, since=AT))
        self.ancient = frozenset(self.happened)
        self.old = set(self.happened)
        self.old_quarantines = self.past_quarantines()
        self.ancient_quarantines = frozenset(self.old_quarantines)

    # -- jobs: what leaders and hosts do -----------------------------------------------------------------------------

    def runs(self, name: str) -> None:
        """The next attempt is assigned and claimed."""
        own, job = self.bench.own(name), self.bench.ref(name).record
        same = own.uid == job.uid
        history = with_entry((*own.history, job.changed) if same else (), AT, "assigned", own.attempt + 1)
        assigned = older_aside(
            replace(
                own,
                uid=job.uid,
                attempt=own.attempt + 1 if same else 1,
                revision=job.revision,
                restart_nonce=job.restart_nonce,
                history=history,
                earlier=own.earlier if same else "",
            )
        )
        self.entries[job.uid] += 3
        self._set_own(
            name, assigned, "claimed", state=OwnState.CLAIMED, cause=None, reason="", permanent=False
        )

    def _exits(self, name: str, cause: Cause, reason: str, permanent: bool = False) -> None:
        own = self.bench.own(name)
        self.entries[own.uid] += 1
        self._set_own(
            name,
            own,
            cause.value,
            state=OwnState.EXITED,
            cause=cause,
            reason=reason,
            permanent=permanent,
        )

    def _set_own(self, name: str, own: Ownership, event: str, **changes: Any) -> None:
        history = with_entry(own.history, AT, event, own.attempt, changes.get("reason", ""))
        self.bench.put(
            self.bench.layout.own(name),
            replace(own, claim="c1", claims=own.attempt, history=history, **changes),
        )

    def fails(self, name: str) -> None:
        """As a leader concludes a job of which an attempt has failed for the last time."""
        self._exits(name, Cause.USER_ERROR, "exit code 7")
        own = self._own(name)
        self.entries[own.record.uid] += 1
        self._commit(
            conclude(
                self._context(),
                Conclude(
                    "j",
                    "exit code 7",
                    self.bench.ref(name),
                    own,
                    Outcome.FAILED,
                    Account(failures=1, charged=1, recent_s=(), delay_s=0.0, exhausted=True),
                ),
            )
        )
        self._happens(own.record.uid, NotifiedEvent.FAILED, own.record.attempt)

    def cleans(self, name: str) -> None:
        """As the leader does, by a view that shows it."""
        if self.paused or not self.leaders or not self.passes(self.leaders[-1]):
            return
        for uid in self.dirty(name):
            result, own = self.bench.record(Result, self.bench.layout.result(uid)), self._own(name)
            assert isinstance(result, Found)
            is_its = own.record.uid == uid
            self._commit(
                clean_up(
                    self._context(),
                    CleanUp("j", "w", Leftover(result, None), own, None, dead=is_its, waited=None),
                )
            )

    def dirty(self, name: str) -> list[str]:
        """Its uids that have ended, and were not cleaned up."""
        results = [self.bench.result(uid) for uid in self.submitted[name]]
        return [each.uid for each in results if each is not None and each.state is Cleanliness.DIRTY]

    def quarantines(self, name: str) -> None:
        self._exits(name, Cause.NO_SPARK, "no Spark", permanent=True)
        own = self.bench.own(name)
        if self.is_quarantined(name):  # else somebody has asked for something else before
            self.quarantined.setdefault(own.uid, []).append(own.attempt)

    def rolls_back(self, name: str) -> None:
        """The target of an update has begun, and an attempt of it has failed."""
        self.updates(name)
        self.runs(name)
        self._exits(name, Cause.USER_ERROR, "exit code 7")
        ref = self.bench.ref(name)
        assert ref.record.update is not None
        self._commit(roll_update_back(self._context(), RollBack("j", "it failed", ref, self._own(name))))
        self.roll_backs[ref.record.uid] += 1
        self._happens(ref.record.uid, NotifiedEvent.ROLLED_BACK, ref.record.update.target)

    def _happens(self, uid: str, event: NotifiedEvent, occurrence: int) -> None:
        self.happened[f"{uid}.{event.value}.{occurrence}"] = Happening(
            uid, event, self.entries[uid], self.roll_backs[uid]
        )

    def _own(self, name: str) -> Found[Ownership]:
        found = self.bench.record(Ownership, self.bench.layout.own(name))
        assert isinstance(found, Found)
        return found

    def _context(self) -> LeaderWriteContext:
        epoch = self.epoch()
        return LeaderWriteContext(self.bench.layout, epoch, epoch - 1, "op", AT)

    def _commit(self, transaction: Transaction) -> None:
        self.bench.zoo.client().commit(transaction)

    def pauses(self) -> None:
        path = self.bench.layout.pause
        if self.paused:
            self.bench.zoo.remove(path)
        else:
            self.bench.put(path, Pause(by="me", at=AT, reason="", op="op"))
        self.paused = not self.paused
        for leader in self.leaders:
            leader.hindered = True

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
        quarantines = {f"{uid}.quarantined.{n + 1}" for n in range(len(self.quarantined.get(uid, ())))}
        if message_id not in {*self.happened, *quarantines}:
            raise Invented(message_id)
        if self.ancient is not None and message_id in self.ancient:
            raise Invented(f"{message_id} happened before anybody was to be told")
        self.in_flight.append(InFlight(receiver, message_id, uid, Future()))
        record = self.records().get(uid)
        for entry in record.entries if record is not None else ():
            known = notification_id(uid, entry)
            if known == message_id:
                self._judge_quarantine_of(entry, (uid, entry.attempt))
                break
            if receiver in entry.pending and known not in self.accepted[receiver]:
                raise OutOfOrder(f"{message_id} before {known} to {receiver}")

    def _judge_quarantine_of(self, entry: Notification, quarantine: Quarantine) -> None:
        if entry.event is NotifiedEvent.QUARANTINED and quarantine in self.ancient_quarantines:
            raise Invented(f"{quarantine} was over before anybody was to be told")

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
            leader.shown |= self.visible()
            leader.quarantines_over |= self.visible_quarantines()
            for name, uid in self.uids.items():
                if self.is_quarantined(name) and not self.dirty(name):
                    # else the plan is first to clean up, and says nothing of it
                    leader.quarantines.add((uid, self.bench.own(name).attempt))
        return True

    def steps(self, leader: NotifyingLeader, stop: StopPoint | None = None, fault: str = "") -> None:
        """One step of its notifier, up to ``stop``. ``fault``: of its next write."""
        if self.ancient is None:
            self.ancient = frozenset(self.happened)
            self.ancient_quarantines = frozenset(leader.quarantines_over - leader.quarantines)
        before = self.records()
        switch = self.switch()
        if switch is None or not switch.on:
            self.old |= set(self.happened)
            self.old_quarantines |= self.past_quarantines()
        elif not switch.from_history:
            self.old |= {known for known in self.happened if not self.is_present(known)}
            self.old_quarantines |= self.past_quarantines()
        if fault:
            leader.hindered = True
            leader.client.lose_next_reply() if fault == "reply lost" else leader.client.fail_next_commit_before()
        if leader.process is None:
            leader.process = Process("notifier", leader.notifier.step)
            leader.taken = frozenset(leader.shown)
            leader.taken_quarantines = frozenset(leader.quarantines | leader.quarantines_over)
        try:
            leader.process.go_on(stop)
        except NotLeader:
            self.leave(leader)
        except SupervisorError:
            if not leader.hindered:
                raise
        is_over = leader.process is not None and leader.process.over
        if is_over:
            leader.process = None
        if leader.epoch < self.epoch() and self.records() != before:
            raise WrittenByADeposedLeader
        self.judge()
        if is_over and leader in self.leaders and not self.paused and leader.epoch == self.epoch():
            self._judge_step(leader)

    def _judge_step(self, leader: NotifyingLeader) -> None:
        """After a step that came to its end. One in which a write has failed is to read again, and to go on."""
        if leader.notifier._read_at_s is None:
            if leader.hindered or not leader.has_passed:
                return
            raise NeverSent("a step gave up, and nothing was in its way")
        leader.hindered = leader.client._fail_commit is not None
        lost = leader.taken - self.written()
        if lost:
            raise NeverSent(f"shown to a leader, and not written down: {sorted(lost)}")
        missing = {
            (uid, attempt)
            for uid, attempt in leader.taken_quarantines
            if attempt not in self._reported_quarantines(uid)
            and not self.is_forgotten_quarantine(uid, attempt)
        }
        if missing:
            raise NeverSent(f"shown to a leader as quarantined, and not written down: {sorted(missing)}")

    def epoch(self) -> int:
        found = self.bench.record(EpochRecord, self.bench.layout.epoch)
        assert isinstance(found, Found)
        return int(found.record.epoch)

    # -- the judge ---------------------------------------------------------------------------------------------------

    def visible(self) -> set[str]:
        """The ids of what a view of all jobs shows now, but for what lasts."""
        owned = {self.bench.own(name).uid for name in self.uids}
        open_ = {uid for name, uid in self.uids.items() if self.registered(name)}
        for uid in {each.uid for each in self.happened.values()}:
            result = self.bench.result(uid)
            if result is not None and result.state is Cleanliness.DIRTY:
                open_.add(uid)
        return {
            known
            for known, each in self.happened.items()
            if not self.forgotten(each)
            and (each.uid in open_ or (each.event is NotifiedEvent.FAILED and each.uid in owned))
        }

    def forgotten(self, each: Happening) -> bool:
        """Whether the records of a job may have no room for it any more."""
        if each.event is NotifiedEvent.FAILED:
            return self.entries[each.uid] - each.entries >= HISTORY_KEPT
        return self.roll_backs[each.uid] - each.roll_backs >= ROLLED_BACK_KEPT

    def past_quarantines(self) -> set[Quarantine]:
        """Those that a user has ended."""
        return {(uid, attempt) for uid, attempts in self.over.items() for attempt in attempts}

    def visible_quarantines(self) -> set[Quarantine]:
        """Of these, those that a view of all jobs shows now."""
        open_ = {uid for name, uid in self.uids.items() if self.registered(name)}
        open_ |= {uid for name in self.uids for uid in self.dirty(name)}
        return {
            each
            for each in self.past_quarantines()
            if each[0] in open_ and not self.is_forgotten_quarantine(*each)
        }

    def is_forgotten_quarantine(self, uid: str, attempt: int) -> bool:
        """Whether the record of the job has no room for it any more."""
        over = self.over.get(uid, [])
        return attempt in over[:-QUARANTINED_KEPT]

    def written(self) -> set[str]:
        return {known for ids in self.order.values() for known in ids}

    def _reported_quarantines(self, uid: str) -> dict[int, str]:
        """The ids of quarantines that were written down, by attempt."""
        return self.reported_quarantines.setdefault(uid, {})

    def records(self) -> dict[str, Notifications]:
        zoo, layout = self.bench.zoo.client(), self.bench.layout
        found = {}
        for uid in zoo.children(layout.notifications) or ():
            record = self.bench.record(Notifications, layout.notifications_of(uid))
            if isinstance(record, Found):
                found[uid] = record.record
        return found

    def switch(self) -> NotifyingSince | None:
        found = self.bench.record(NotifyingSince, self.bench.layout.notifications)
        return found.record if isinstance(found, Found) else None

    def is_on(self) -> bool:
        switch = self.switch()
        return switch is not None and switch.on

    def is_present(self, known: str) -> bool:
        """Whether more than a history shows it: the job has failed, or its newest update was rolled back."""
        for name, uid in self.uids.items():
            result = self.bench.result(uid)
            if result is not None and known == f"{uid}.{result.outcome.value}.{result.attempt}":
                return True
            update = self.bench.ref(name).record.update if self.registered(name) else None
            if update is not None and update.rolled_back and known == f"{uid}.rolled_back.{update.target}":
                return True
        return False

    def judge(self) -> None:
        now = self.records()
        for uid, record in now.items():
            for entry in record.entries:
                known = notification_id(uid, entry)
                order = self.order.setdefault(uid, [])
                if known not in order:
                    order.append(known)
                    self._judge_new(uid, known, entry)
                for receiver, events in RECEIVERS.items():
                    is_old = known in self.old or self._is_old_quarantine(uid, entry)
                    has = receiver in entry.pending or known in self.accepted[receiver] or is_old
                    if entry.event in events and not has:
                        raise WronglyMarked(f"{known} by {receiver}")
        for uid, before in self.known.items():
            self._judge_room(uid, before, now.get(uid, replace(before, entries=())))
        self.known = now

    def _is_old_quarantine(self, uid: str, entry: Notification) -> bool:
        return entry.event is NotifiedEvent.QUARANTINED and (uid, entry.attempt) in self.old_quarantines

    def _judge_new(self, uid: str, known: str, entry: Notification) -> None:
        """Each quarantine is another attempt; each of the rest has happened."""
        if entry.event is not NotifiedEvent.QUARANTINED:
            if known not in self.happened:
                raise Invented(known)
            return
        reported = self._reported_quarantines(uid)
        if entry.attempt in reported or entry.attempt not in self.quarantined.get(uid, ()):
            raise Invented(f"{known} of attempt {entry.attempt}")
        reported[entry.attempt] = known

    def _judge_room(self, uid: str, before: Notifications, now: Notifications) -> None:
        """Of too many entries the first that goes is the oldest that each receiver has, then the oldest; never the newest of a kind."""
        ids = [notification_id(uid, each) for each in now.entries]
        newest = {each.event: notification_id(uid, each) for each in now.entries}
        spared: list[Notification] = []  # older ones that stay, though it is not for being the newest
        for entry in before.entries:
            known = notification_id(uid, entry)
            if known in ids:
                spared += [each for each in now.entries if notification_id(uid, each) == known]
                continue
            others = [each for each in spared if newest[each.event] != notification_id(uid, each)]
            if len(ids) < ENTRIES_MAX or newest.get(entry.event) is None:
                raise NeverSent(f"{known} is not there any more, and there was room")
            if entry.pending:
                self.gone.add(known)
                idle = [
                    each
                    for each in now.entries
                    if not each.pending and newest[each.event] != notification_id(uid, each)
                ]
                if others or idle:
                    raise NeverSent(f"{known} made room before it was its turn")

    def rest(self) -> None:
        """A leader leads on, and receivers answer: then each has everything, and nothing is sent any more."""
        if self.paused:
            self.pauses()
        self.lead()
        leader = self.leaders[-1]
        for _ in range(STEPS_MAX):
            self.now_s += READ_EVERY_S + RETRY_PAUSE.longest_s
            for name in self.uids:
                self.cleans(name)
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
        self._judge_rest(leader)

    def _judge_rest(self, leader: NotifyingLeader) -> None:
        written = self.written()
        wanted = {
            known for known, each in self.happened.items() if known in written or not self.forgotten(each)
        }
        for name, uid in self.uids.items():
            if self.is_quarantined(name):
                attempt = self.bench.own(name).attempt
                wanted.add(
                    self._reported_quarantines(uid).get(attempt, f"{uid}.quarantined.of attempt {attempt}")
                )
        past = {each for each in self.past_quarantines() if not self.is_forgotten_quarantine(*each)}
        for uid, attempt in past - self.old_quarantines:
            wanted.add(
                self._reported_quarantines(uid).get(attempt, f"{uid}.quarantined.of attempt {attempt}, over")
            )
        old = {self._reported_quarantines(uid).get(attempt, "") for uid, attempt in self.old_quarantines}
        wanted = (wanted | written) - self.old - old - self.gone
        for receiver, events in RECEIVERS.items():
            mine = {each for each in wanted if NotifiedEvent(each.split(".")[1]) in events}
            missing = mine - set(self.accepted[receiver])
            if missing:
                raise NeverSent(f"to {receiver}: {sorted(missing)}")
        unmarked = [entry for record in self.records().values() for entry in record.entries if entry.pending]
        if unmarked:
            raise NeverSent(f"never marked: {unmarked[0]}")


def _silent(*_: Any) -> Any:
    raise structlog.DropEvent
