"""Tells receivers what happens to jobs (``notify`` of the settings), at least once over any change of leader (protocol §12).

There is one notifier per term, in a thread of its own beside the controller. An event is written down with those who are
to be told (/notifications/<uid>), then sent (``deliveries``), and marked after a receiver has accepted it; each write
checks the epoch. So a leader that dies at any moment leaves to the next one what is missing: what was written down is in
the record, and what was not is shown by the registry itself, which the next leader reads when its term begins: by a result,
by the reference, or by the history of a job that somebody has resumed since. It may send something that was accepted
already, under the same id.

The first leader with a receiver writes down, as told to nobody, what has happened by then (failed jobs, updates that were
rolled back). What lasts is told: a job that is quarantined at that moment needs a person. A leader without receivers
switches the writing down off again. A receiver that is added later is told what is written down from then on. Where leaders
of the version before have written down, which did not look into histories, what these show is told to nobody either.

While the cluster is paused nothing is sent, because it could not be marked.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from typing import Final

import structlog

from supervisor.act.carry_out import ActionExecutor
from supervisor.clients.zookeeper import ZooClient
from supervisor.clock import boottime_s, wall_iso
from supervisor.coord.term import Term
from supervisor.daemon.leader.deliveries import AcceptedMessage, Deliveries, Receiver
from supervisor.daemon.leader.notifier_inbox import NotifierInbox
from supervisor.daemon.leader.term_loop import TermPermission, never, repeat
from supervisor.daemon.loops.error_boundary import ErrorBoundary
from supervisor.errors import Corrupt, GuardFailed, NotSent, OutcomeUnknown, SupervisorError
from supervisor.metrics import Metrics
from supervisor.model.notifications import (
    LASTING,
    EventKey,
    JobEvent,
    accepted_by,
    ended,
    in_order,
    keep,
    lasts,
    message_of,
    next_for,
    recorded,
)
from supervisor.model.records import Notifications, NotifyingSince, Result
from supervisor.model.seen import Found, Unreadable
from supervisor.plan.job_events import SeenEvents, events_of_result
from supervisor.records.layout import Layout
from supervisor.records.reading import children_of, seen, seen_all
from supervisor.registry.notification_writes import switch_notifying, write_notifications

log = structlog.get_logger(__name__)

TICK_S: Final = 1.0
READ_EVERY_S: Final = 600.0
WRITES_MAX: Final = 200
"""So many events are written down in one step, so that answers are not kept waiting by many events at once."""


@dataclass(frozen=True, slots=True)
class NotifyConfiguration:
    """Holds whom to tell. ``cluster`` is the name of this one; ``link`` returns the address of a page about a job, or an
    empty text."""

    receivers: tuple[Receiver, ...]
    cluster: str
    link: Callable[[str], str]


class Notifier:
    """Runs the loop of one term. ``paused`` says whether the cluster is paused, as the leader saw it last."""

    def __init__(
        self,
        term: Term[ZooClient],
        layout: Layout,
        executor: ActionExecutor,
        configuration: NotifyConfiguration,
        inbox: NotifierInbox,
        metrics: Metrics,
        *,
        paused: Callable[[], bool] = never,
        clock: Callable[[], float] = boottime_s,
        deliveries: Deliveries | None = None,
    ) -> None:
        self._term = term
        self._layout = layout
        self._executor = executor
        self._configuration = configuration
        self._inbox = inbox
        self._metrics = metrics
        self._permission = TermPermission(term, paused)
        self._clock = clock
        self._deliveries = Deliveries(metrics, clock) if deliveries is None else deliveries
        self._records: dict[str, Found[Notifications]] = {}
        self._unreadable: set[str] = set()
        self._unwritten: dict[EventKey, JobEvent] = {}
        self._read_at_s: float | None = None
        self._boundary = ErrorBoundary("notifier", clock)

    def run(self) -> None:
        """Tells receivers until the term is over; without receivers it switches off what an earlier term has begun."""
        repeat(
            lambda: None if self.step() else TICK_S,
            self._term,
            self._boundary,
            every_s=TICK_S,
            interrupted=self._interrupted,
        )

    def _interrupted(self, error: SupervisorError) -> float:
        log.debug("notifier_interrupted", epoch=self._term.epoch, why=str(error))
        return TICK_S

    def step(self) -> bool:
        """Does what is due, and returns whether there is nothing more to do in this term. Raises SupervisorError."""
        if not self._permission.may_begin():
            return False
        if not self._configuration.receivers:
            self._switch(self._read_switch(), on=False)
            return True
        shown = self._inbox.take()
        if shown is None:
            return False
        keep(self._unwritten, (*shown.happened, *shown.lasting))
        try:
            self._write_and_send(shown)
        except (GuardFailed, OutcomeUnknown):
            self._read_at_s = None  # read again: what was not written down is still in ``_unwritten``
        return False

    def _write_and_send(self, shown: SeenEvents) -> None:
        if self._inbox.missed() or self._read_at_s is None or self._clock() >= self._read_at_s + READ_EVERY_S:
            self._read()
        for message in self._deliveries.accepted():
            self._mark(message)
        self._write_down(shown)
        self._send()

    # -- what is written down ---------------------------------------------------------------------------------------

    def _read(self) -> None:
        """Reads what is written down, and what results show. It switches the writing down on if it is off."""
        zoo, layout = self._term.client, self._layout
        zoo.sync()
        switch = self._read_switch()
        paths = [layout.notifications_of(uid) for uid in zoo.children(layout.notifications) or ()]
        self._records, self._unreadable = {}, set()
        for path, record in zip(
            paths, seen_all(Notifications, paths, zoo.read_many(paths).nodes), strict=True
        ):
            uid = path.rpartition("/")[2]
            if isinstance(record, Found):
                self._records[uid] = record
            elif record is not None:
                self._unreadable.add(uid)
                self._boundary.log_error(path, Corrupt(record.reason))
        keep(self._unwritten, self._shown_by_results())
        if switch is None or not (switch.record.on and switch.record.from_history):
            self._begin(switch)
        self._deliveries.forget(frozenset(self._records))
        self._read_at_s = self._clock()

    def _shown_by_results(self) -> Iterable[JobEvent]:
        zoo, parent = self._term.client, self._layout.results
        paths = [f"{parent}/{uid}" for uid in children_of(zoo, parent)]
        for result in seen_all(Result, paths, zoo.read_many(paths).nodes):
            if isinstance(result, Found):
                yield from events_of_result(result.record)

    def _read_switch(self) -> Found[NotifyingSince] | None:
        path = self._layout.notifications
        switch = seen(NotifyingSince, self._term.client.read(path), path)
        if isinstance(switch, Unreadable):
            raise Corrupt(switch.reason)
        return switch

    def _begin(self, switch: Found[NotifyingSince] | None) -> None:
        """Writes down, as told to nobody, what has happened before anybody was to be told, and switches on then. If it was
        on, that is what only histories show."""
        if switch is None:
            self._executor.commit(lambda context: switch_notifying(context, None, False))
            switch = self._read_switch()
        is_on = switch is not None and switch.record.on
        for key, event in in_order(self._unwritten):
            if event.past or (event.happened and not is_on):
                self._write_event(key, event, ())
        self._switch(switch, on=True)

    def _switch(self, switch: Found[NotifyingSince] | None, *, on: bool) -> None:
        if switch is None or (switch.record.on, switch.record.from_history) == (on, on):
            return
        self._executor.commit(lambda context: switch_notifying(context, switch, on))
        log.info("notifying", epoch=self._term.epoch, on=on)

    def _write_down(self, shown: SeenEvents) -> None:
        """Writes new events down, and the end of those that last."""
        written = 0
        for key, event in in_order(self._unwritten):
            receivers = tuple(
                each.name for each in self._configuration.receivers if event.event in each.events
            )
            written += self._write_event(key, event, receivers)
            if written >= WRITES_MAX:
                return
        for uid, found in list(self._records.items()):
            for event_kind in LASTING:
                if (uid, event_kind) in shown.over and lasts(found.record, event_kind):
                    self._put(uid, ended(self._records[uid].record, event_kind))

    def _write_event(self, key: EventKey, event: JobEvent, receivers: tuple[str, ...]) -> bool:
        """Writes one event down if it is not yet. Returns whether something was written. Raises SupervisorError."""

        def write() -> bool:
            found = self._records.get(event.uid)
            record = found.record if found is not None else Notifications(name=event.name, uid=event.uid)
            return self._put(event.uid, recorded(record, event, receivers, wall_iso()))

        written: bool | None = None
        if event.uid not in self._unreadable:
            written = self._boundary.attempt(event.name, write, None, (SupervisorError,))
        del self._unwritten[key]
        if written is not None and event.happened:
            self._inbox.note_written(key)
        return bool(written)

    def _put(self, uid: str, record: Notifications) -> bool:
        """Writes ``record`` if it differs from what is known, and returns whether it did. Raises SupervisorError."""
        before = self._records.get(uid)
        if record.entries == (before.record.entries if before is not None else ()):
            return False
        if self._term.distrust is not None:
            raise NotSent("the registry is not trusted any more")
        version = self._executor.commit(lambda context: write_notifications(context, before, record))
        self._records[uid] = Found(record, version or 0)
        return True

    # -- what is sent -----------------------------------------------------------------------------------------------

    def _mark(self, message: AcceptedMessage) -> None:
        """Writes down that a receiver has accepted a message. Only then the next one about the job is sent."""
        found = self._records.get(message.uid)
        if found is not None:
            self._put(message.uid, accepted_by(found.record, message.entry, message.receiver))
        self._deliveries.confirm(message)

    def _send(self) -> None:
        pending = dict.fromkeys((each.name for each in self._configuration.receivers), 0)
        for found in list(self._records.values()):
            for receiver in self._configuration.receivers:
                pending[receiver.name] += sum(receiver.name in each.pending for each in found.record.entries)
                send = partial(self._send_next, receiver, found.record)
                self._boundary.attempt(found.record.name, send, None)
        self._metrics.set_notifications_pending(pending)

    def _send_next(self, receiver: Receiver, record: Notifications) -> None:
        """Begins to send ``receiver`` what it lacks first about one job, if it may be sent now."""
        entry = next_for(record, receiver.name)
        if entry is None or not self._term.active or not self._deliveries.may_begin(receiver, record.uid):
            return
        link = self._configuration.link(record.name)
        body = message_of(self._configuration.cluster, link, record, entry)
        self._deliveries.begin(receiver, record, entry, body)
