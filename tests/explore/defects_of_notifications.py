"""What receivers are told (§12), each rule undone, one at a time. None is seen by the explorer: what is told decides nothing."""

from __future__ import annotations

from supervisor.daemon.leader import deliveries, notifier, notifier_inbox
from supervisor.model import notifications, state
from supervisor.operations import jobs
from supervisor.plan import falling_behind, job_events
from supervisor.registry import leader_writes, user_writes
from supervisor.shim import queries
from tests.explore.planting import text

AFTER = "§12: an entry is marked after the receiver has accepted it"
ONCE = "§12: each event is told at least once, over any change of leader"
KNOWN = "§12: what is sent again has the same id"

DEFECTS = (
    text(
        "marked-before-it-is-sent",
        AFTER,
        (
            notifier.Notifier._send_next,
            "self._deliveries.begin(receiver, record, entry, body)",
            "self._put(record.uid, accepted_by(self._records[record.uid].record, entry, receiver.name))\n"
            "    self._deliveries.begin(receiver, record, entry, body)",
        ),
    ),
    text(
        "marked-whatever-is-answered",
        AFTER,
        (deliveries.Deliveries.accepted, "if error is None:", "if True:"),
    ),
    text(
        "accepted-by-one-is-accepted-by-all",
        AFTER,
        (
            notifications.accepted_by,
            "tuple(name for name in each.pending if name != receiver)",
            "()",
        ),
    ),
    text(
        "what-was-written-down-is-forgotten-by-the-next-leader",
        ONCE,
        (
            notifier.Notifier._read,
            "if isinstance(record, Found):",
            "if isinstance(record, Found) and not any(each.pending for each in record.record.entries):",
        ),
        (notifier.Notifier._read, "elif record is not None:", "elif isinstance(record, Unreadable):"),
    ),
    text(
        "what-nobody-wrote-down-is-forgotten-by-the-next-leader",
        ONCE,
        (notifier.Notifier._read, "self._shown_by_results()", "()"),
    ),
    text(
        "a-write-that-failed-is-not-made-again",
        ONCE,
        (
            notifier.Notifier._write_down,
            "written += self._write_event(key, event, receivers)",
            "try:\n            written += self._write_event(key, event, receivers)\n"
            "        finally:\n            self._unwritten.pop(key, None)",
        ),
    ),
    text(
        "what-happened-between-two-steps-is-forgotten",
        ONCE,
        (
            notifier_inbox.NotifierInbox.observe,
            "self._seen = seen",
            "self._seen = seen\n        self._happened.clear()\n        self._lasting.clear()",
        ),
    ),
    text(
        "what-is-over-is-not-sent",
        ONCE,
        (
            notifications.next_for,
            "if receiver in each.pending",
            "if receiver in each.pending and not each.over",
        ),
    ),
    text(
        "the-next-message-overtakes",
        "§12: the next message about a job is sent after the one before was accepted",
        (notifications.next_for, "in record.entries", "in reversed(record.entries)"),
    ),
    text(
        "what-is-old-is-told",
        "§12: what happened before somebody was to be told is told to nobody",
        (
            notifier.Notifier._begin,
            "if event.past or (event.happened and not is_on):",
            "if event.past and is_on:",
        ),
    ),
    text(
        "every-try-has-an-id-of-its-own",
        KNOWN,
        (
            notifications.notification_id,
            "{entry.occurrence}",
            "{entry.occurrence}.{len(entry.pending)}",
        ),
    ),
    text(
        "what-lasts-is-told-again-and-again",
        "§12: what lasts is told once until it is over",
        (notifications._is_known, "if newest is None or newest.over:", "if True:"),
    ),
    text(
        "a-later-attempt-is-quarantined-as-the-one-before",
        "§12: what lasts is told once until it is over; a later attempt says that it was",
        (notifications._is_known, "not 0 < newest.attempt < event.attempt", "True"),
    ),
    text(
        "what-was-resumed-is-forgotten",
        ONCE,
        (job_events._past_failures, "in history:", "in ():"),
    ),
    text(
        "a-roll-back-is-forgotten-with-the-next-update",
        ONCE,
        (state.with_rolled_back, "(*job.rolled_back, update.target)[-ROLLED_BACK_KEPT:]", "()"),
    ),
    text(
        "what-histories-show-is-told-by-the-version-after",
        "§12: what histories show of the time before leaders looked into them is told to nobody",
        (notifier.Notifier._read, "(switch.record.on and switch.record.from_history)", "switch.record.on"),
    ),
    text(
        "what-has-made-room-is-told-again",
        "§12: what only a history shows is known if its number is not above the newest that was told",
        (notifications._is_known, "(event.past and event.occurrence < max(known, default=0))", "False"),
    ),
    text(
        "a-quarantine-is-forgotten-with-the-write-that-ends-it",
        ONCE,
        (
            state.with_quarantined,
            "return (*(each for each in job.quarantined if each != own.attempt), own.attempt)[-QUARANTINED_KEPT:]",
            "return job.quarantined",
        ),
    ),
    text(
        "a-cancel-forgets-the-quarantine-that-it-ends",
        ONCE,
        (
            user_writes.cancel,
            "result_of(job, **of_the_end, quarantined=with_quarantined(job, old))",
            "result_of(job, **of_the_end)",
        ),
    ),
    text(
        "a-suspend-forgets-the-quarantine-that-it-ends",
        ONCE,
        (
            user_writes.suspend,
            "quarantined=with_quarantined(job, own.record if isinstance(own, Found) else None),",
            "",
        ),
    ),
    text(
        "a-resume-forgets-the-quarantine-that-it-ends",
        ONCE,
        (user_writes.run_again, "quarantined=with_quarantined(job, own.record),", ""),
    ),
    text(
        "an-update-forgets-the-quarantine-that-it-ends",
        ONCE,
        (user_writes.with_update, "quarantined=with_quarantined(job, own.record),", ""),
    ),
    text(
        "a-job-that-fails-forgets-its-quarantines",
        ONCE,
        (leader_writes.conclude, "earlier=old.earlier,", "earlier=old.earlier, quarantined=(),"),
    ),
    text(
        "a-job-that-comes-back-forgets-its-quarantines",
        ONCE,
        (jobs._again, "op=context.op_id,", "op=context.op_id, quarantined=(),"),
    ),
    text(
        "a-quarantine-is-told-again-when-it-is-over",
        "§12: what only a record shows of a quarantine is known if that attempt, or a later one, was told of",
        (notifications._is_known, "return event.attempt <= max(attempts, default=-1)", "return False"),
    ),
    text(
        "what-a-view-has-shown-of-a-quarantine-is-told-beside-what-its-record-says",
        "§12: what only a record shows of a quarantine is known if that attempt, or a later one, was told of",
        (
            notifications.keep,
            "if event.key in known or (lasting is not None and lasting.attempt == event.attempt):",
            "if event.key in known:",
        ),
    ),
    text(
        "a-quarantine-that-was-shown-is-written-down-after-a-later-one",
        "§12: of one job, quarantines are written down by their attempts",
        (
            notifications.in_order,
            "items.sort(key=lambda item: item[1].attempt, reverse=True)",
            "items.reverse()",
        ),
    ),
    text(
        "a-quarantine-that-was-shown-is-forgotten-with-a-later-one",
        "§12: each quarantine is told",
        (notifications.keep, "known[over.key] = over", "pass"),
    ),
    text(
        "a-restart-that-was-asked-for-before-the-end-ends-a-quarantine",
        "§12: nothing is told that was not so",
        (
            state.is_quarantined,
            "(own.uid, own.restart_nonce, own.revision) == (job.uid, job.restart_nonce, job.revision)",
            "own.uid == job.uid",
        ),
    ),
    text(
        "a-lag-is-measured-anew-by-each-leader",
        ONCE,
        (falling_behind.LagWatch.judge, "falls_behind = query.behind", "falls_behind = None"),
    ),
    text(
        "a-window-of-a-lag-outlives-an-idle-query",
        "§12: a query falls behind by what it reports while it has data",
        (
            queries._with_report,
            "return replace(query, ended=False, idle=True, lags=EMPTY)",
            "return replace(query, ended=False, idle=True)",
        ),
    ),
)
