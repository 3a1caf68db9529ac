"""Sends messages to receivers: a few at a time to each, one after the other about each job, again until it is accepted.

``daemon.leader.notifier`` calls it, and all of its methods return at once: a message is sent in a thread for which nobody
waits (``clients.threads.run_in_thread``). So a receiver that does not answer keeps up neither the others, nor the leader,
nor the end of its term. What is still under way then may arrive later; the next leader sends it again under the same id.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Final, NamedTuple

import structlog

from supervisor.clients.threads import run_in_thread
from supervisor.errors import SupervisorError
from supervisor.growing_pause import GrowingPause
from supervisor.metrics import Metrics
from supervisor.model.notifications import notification_id
from supervisor.model.records import Notification, Notifications, NotifiedEvent

log = structlog.get_logger(__name__)

IN_FLIGHT_MAX: Final = 4
"""So many messages are on their way to one receiver at a time."""
RETRY_PAUSE: Final = GrowingPause(first_s=5.0, longest_s=600.0)


class Receiver(NamedTuple):
    """Is one receiver. ``post`` sends a message, given its id and its body, and returns once it is accepted; else it raises
    anything."""

    name: str
    events: frozenset[NotifiedEvent]
    post: Callable[[str, bytes], None]


class AcceptedMessage(NamedTuple):
    """Says that a receiver has accepted an entry of a job's record. It is still to be written down."""

    receiver: str
    uid: str
    entry: Notification


@dataclass
class SendingToReceiver:
    """Holds what becomes of the messages about one job to one receiver. ``sending`` is None between two tries."""

    entry: Notification
    sending: Future[None] | None
    failures: int = 0
    next_at_s: float = 0.0
    is_accepted: bool = False


class Deliveries:
    """Sends for one term. ``clock`` is BOOTTIME. ``start`` runs work in a thread."""

    def __init__(
        self,
        metrics: Metrics,
        clock: Callable[[], float],
        start: Callable[[str, Callable[[], None]], Future[None]] = run_in_thread,
    ) -> None:
        self._metrics = metrics
        self._clock = clock
        self._start = start
        self._tasks: dict[tuple[str, str], SendingToReceiver] = {}
        self._in_flight: Counter[str] = Counter()  # by receiver

    def may_begin(self, receiver: Receiver, uid: str) -> bool:
        """Says whether a message about the job ``uid`` can be sent to ``receiver`` now."""
        task = self._tasks.get((receiver.name, uid))
        if task is not None and (
            task.is_accepted or task.sending is not None or self._clock() < task.next_at_s
        ):
            return False
        return self._in_flight[receiver.name] < IN_FLIGHT_MAX

    def begin(self, receiver: Receiver, record: Notifications, entry: Notification, body: bytes) -> None:
        """Begins to send ``entry``."""
        message_id, key = notification_id(record.uid, entry), (receiver.name, record.uid)
        task = self._tasks.get(key)
        if task is None or notification_id(record.uid, task.entry) != message_id:
            task = self._tasks[key] = SendingToReceiver(entry, None)
        try:
            task.sending = self._start("notify", lambda: receiver.post(message_id, body))
            self._in_flight[receiver.name] += 1
        except RuntimeError as error:
            self._failed(key, task, f"no thread can be started ({error})")

    def accepted(self) -> list[AcceptedMessage]:
        """Returns what receivers have accepted, and what nobody has called ``confirm`` for. What has failed is put off."""
        for key, task in self._tasks.items():
            if task.sending is None or not task.sending.done():
                continue
            error = task.sending.exception()
            task.sending = None
            self._in_flight[key[0]] -= 1
            if error is None:
                self._succeeded(key, task)
            else:
                what = str(error) if isinstance(error, SupervisorError) else type(error).__name__
                self._failed(key, task, what)
        return [
            AcceptedMessage(name, uid, task.entry)
            for (name, uid), task in self._tasks.items()
            if task.is_accepted
        ]

    def confirm(self, message: AcceptedMessage) -> None:
        """Forgets a message once it is written down that it was accepted: the next one about the job may be sent."""
        self._tasks.pop((message.receiver, message.uid), None)

    def forget(self, uids: frozenset[str]) -> None:
        """Forgets what was to be sent again about jobs other than ``uids``."""
        gone = [key for key, task in self._tasks.items() if key[1] not in uids and task.sending is None]
        for key in gone:
            del self._tasks[key]

    def _succeeded(self, key: tuple[str, str], task: SendingToReceiver) -> None:
        task.is_accepted = True
        self._metrics.count_notification(key[0], "sent")
        log.info("notification_sent", receiver=key[0], id=notification_id(key[1], task.entry))

    def _failed(self, key: tuple[str, str], task: SendingToReceiver, why: str) -> None:
        task.failures += 1
        wait_s = RETRY_PAUSE.after(task.failures)
        task.next_at_s = self._clock() + wait_s
        self._metrics.count_notification(key[0], "failed")
        log.warning(
            "notification_not_sent",
            receiver=key[0],
            id=notification_id(key[1], task.entry),
            why=why,
            next=f"sent again in {wait_s:.0f} s, until it is accepted",
        )
