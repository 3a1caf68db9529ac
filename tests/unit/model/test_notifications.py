"""What is kept of events of a job, and for whom: pure."""

from __future__ import annotations

from dataclasses import replace

from supervisor.model.notifications import (
    ENTRIES_MAX,
    EventKey,
    JobEvent,
    accepted_by,
    ended,
    in_order,
    keep,
    lasts,
    next_for,
    notification_id,
    recorded,
)
from supervisor.model.records import Notifications, NotifiedEvent

EMPTY = Notifications(name="a", uid="u-a")
FAILED = JobEvent(NotifiedEvent.FAILED, "a", "u-a", 4, 1, "failed", "why", occurrence=4)
QUARANTINED = JobEvent(NotifiedEvent.QUARANTINED, "a", "u-a", 4, 1, "quarantined", "why")


def test_what_happened_is_known_by_its_occurrence() -> None:
    once = recorded(EMPTY, FAILED, ("r",), "now")
    assert recorded(once, FAILED, ("r", "s"), "later") is once
    again = recorded(once, replace(FAILED, occurrence=7), ("r",), "later")
    assert [notification_id("u-a", each) for each in again.entries] == ["u-a.failed.4", "u-a.failed.7"]


def test_what_lasts_is_known_until_it_is_over() -> None:
    once = recorded(EMPTY, QUARANTINED, ("r",), "now")
    assert recorded(once, replace(QUARANTINED, reason="another"), ("r",), "later") is once
    over = ended(once, NotifiedEvent.QUARANTINED)
    assert lasts(once, NotifiedEvent.QUARANTINED) and not lasts(over, NotifiedEvent.QUARANTINED)
    assert ended(over, NotifiedEvent.QUARANTINED) is over
    again = recorded(over, QUARANTINED, ("r",), "later")
    assert [each.occurrence for each in again.entries] == [1, 2]


PAST = replace(QUARANTINED, past=True)


def test_a_quarantine_that_only_a_record_shows_has_begun_and_is_over_at_once() -> None:
    once = recorded(EMPTY, PAST, ("r",), "now")
    (entry,) = once.entries
    assert (entry.occurrence, entry.over, entry.pending) == (1, True, ("r",))
    assert recorded(once, PAST, ("r",), "later") is once
    for earlier in (3, 4):
        assert recorded(once, replace(PAST, attempt=earlier), ("r",), "later") is once
    again = recorded(once, replace(PAST, attempt=5), ("r",), "later")
    assert [each.occurrence for each in again.entries] == [1, 2]


def test_it_is_known_if_it_was_told_while_it_lasted_and_ends_an_earlier_one() -> None:
    once = recorded(EMPTY, QUARANTINED, ("r",), "now")
    assert recorded(once, PAST, ("r",), "later") is once
    later = recorded(once, replace(PAST, attempt=6), ("r",), "later")
    assert [(each.attempt, each.over) for each in later.entries] == [(4, True), (6, True)]
    present = recorded(later, replace(QUARANTINED, attempt=7), ("r",), "later")
    assert [(each.attempt, each.over) for each in present.entries] == [(4, True), (6, True), (7, False)]


def test_what_a_view_has_shown_of_a_quarantine_takes_the_place_of_what_the_record_says() -> None:
    for order in ((PAST, QUARANTINED), (QUARANTINED, PAST)):
        known: dict[EventKey, JobEvent] = {}
        keep(known, order)
        assert list(known.values()) == [QUARANTINED]
    earlier, now = replace(PAST, attempt=3), replace(QUARANTINED, attempt=5)
    known = {}
    keep(known, (QUARANTINED,))
    keep(known, (earlier, PAST, now))
    assert list(known.values()) == [earlier, replace(QUARANTINED, past=True), now]


def test_a_quarantine_that_a_view_has_shown_is_written_down_before_a_later_one() -> None:
    """A record that has the later one would take it for known, whatever came between the two writes."""
    at_2, at_3 = replace(PAST, attempt=2), replace(PAST, attempt=3)
    other = replace(QUARANTINED, uid="u-b", name="b", attempt=1)
    known: dict[EventKey, JobEvent] = {}
    keep(known, (FAILED, at_2, at_3, other, replace(QUARANTINED, attempt=1)))
    assert [(event.uid, event.attempt) for _, event in in_order(known)] == [
        ("u-a", 4),
        ("u-a", 1),
        ("u-a", 2),
        ("u-b", 1),
        ("u-a", 3),
    ]


def test_a_receiver_gets_the_oldest_that_it_lacks() -> None:
    record = recorded(recorded(EMPTY, QUARANTINED, ("r", "s"), "now"), FAILED, ("r",), "now")
    first = next_for(record, "r")
    assert first is not None and first.event is NotifiedEvent.QUARANTINED
    record = accepted_by(record, first, "r")
    second = next_for(record, "r")
    assert second is not None and second.event is NotifiedEvent.FAILED
    assert next_for(record, "s") == replace(first, pending=("s",))
    assert next_for(accepted_by(record, second, "r"), "r") is None
    assert accepted_by(record, first, "r") is record


def test_of_too_many_the_oldest_go_but_never_the_newest_of_a_kind() -> None:
    record = recorded(EMPTY, QUARANTINED, (), "now")
    for number in range(2 * ENTRIES_MAX):
        record = recorded(record, replace(FAILED, occurrence=number), ("r",), "now")
    assert len(record.entries) == ENTRIES_MAX
    assert record.entries[0].event is NotifiedEvent.QUARANTINED
    assert record.entries[-1].occurrence == 2 * ENTRIES_MAX - 1


def test_of_those_that_go_the_ones_that_everybody_has_go_first() -> None:
    record = recorded(EMPTY, FAILED, ("r",), "now")
    for number in range(10, 10 + ENTRIES_MAX):
        record = recorded(record, replace(FAILED, occurrence=number), (), "now")
    assert [each.occurrence for each in record.entries] == [4, *range(11, 10 + ENTRIES_MAX)]


def test_texts_are_bounded_of_one_line_and_without_what_looks_like_a_secret() -> None:
    event = replace(FAILED, reason="password=hunter2\n\x1b[31m" + "x" * 5000, command="c" * 5000)
    (entry,) = recorded(EMPTY, event, ("r",), "now").entries
    assert "hunter2" not in entry.reason and "\n" not in entry.reason and "\x1b" not in entry.reason
    assert len(entry.reason.encode()) <= 180 and len(entry.command.encode()) <= 120
