"""What the notifier writes down, sends and marks, step by step; ``property.test_notifications`` has any history of it."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import pytest

from supervisor.clients.threads import run_in_thread
from supervisor.daemon.leader import notifier_inbox
from supervisor.daemon.leader.deliveries import IN_FLIGHT_MAX, RETRY_PAUSE
from supervisor.daemon.leader.notifier import NotifyConfiguration
from supervisor.daemon.leader.notifier_inbox import NotifierInbox
from supervisor.model.actions import Plan
from supervisor.model.notifications import ENTRIES_MAX, notification_id
from supervisor.model.records import Notifications, NotifyingSince
from supervisor.model.view import View
from tests.property.notifying import InFlight, NotifyingLeader, NotifyingWorld


@contextmanager
def notified(*, is_on: bool = True) -> Iterator[NotifyingWorld]:
    """With two jobs that run, and a leader."""
    world = NotifyingWorld(is_on)
    try:
        for name in ("a", "b"):
            world.submit(name)
        yield world
    finally:
        world.close()


def goes_on(world: NotifyingWorld, leader: NotifyingLeader | None = None) -> None:
    leader = world.leaders[-1] if leader is None else leader
    world.passes(leader)
    world.steps(leader)


def another_leads(world: NotifyingWorld) -> None:
    world.leave(world.leaders[-1])
    world.lead()


def on_its_way(world: NotifyingWorld) -> list[tuple[str, str]]:
    """The receiver, and the event with its occurrence."""
    return sorted((each.receiver, each.message_id.partition(".")[2]) for each in world.in_flight)


def one_to(world: NotifyingWorld, receiver: str) -> InFlight:
    (found,) = [each for each in world.in_flight if each.receiver == receiver]
    return found


def pending(world: NotifyingWorld, name: str) -> list[tuple[str, ...]]:
    return [entry.pending for entry in world.records()[world.uids[name]].entries]


def test_a_receiver_is_marked_after_it_has_accepted_and_by_itself() -> None:
    with notified() as world:
        world.fails("a")
        goes_on(world)
        assert on_its_way(world) == [("every", "failed.1"), ("failures", "failed.1")]
        assert pending(world, "a") == [("every", "failures")]
        world.answers(one_to(world, "every"), "accepted")
        world.answers(one_to(world, "failures"), "refused")
        goes_on(world)
        assert pending(world, "a") == [("failures",)]
        assert on_its_way(world) == []
        world.now_s += RETRY_PAUSE.first_s
        goes_on(world)
        assert on_its_way(world) == [("failures", "failed.1")]


def test_what_was_written_down_is_sent_by_the_next_leader_under_the_same_id() -> None:
    """The first one has sent it, and dies before it has marked it."""
    with notified() as world:
        world.fails("a")
        goes_on(world)
        before = one_to(world, "every")
        world.answers(before, "accepted")
        another_leads(world)
        goes_on(world)
        assert [each.message_id for each in world.in_flight if each.receiver == "every"] == [
            before.message_id
        ]


def test_what_nobody_has_written_down_is_found_by_the_next_leader() -> None:
    """The leader that concluded and cleaned up has died right after it."""
    with notified() as world:
        world.fails("a")
        world.cleans("a")
        another_leads(world)
        goes_on(world)
        assert on_its_way(world) == [("every", "failed.1"), ("failures", "failed.1")]


def test_what_could_not_be_written_down_is_written_down_later() -> None:
    with notified() as world:
        leader = world.leaders[-1]
        world.quarantines("a")
        world.passes(leader)
        world.steps(leader, fault="not sent")
        assert world.records() == {}
        world.runs("a")  # nothing shows it any more
        goes_on(world)
        goes_on(world)
        assert on_its_way(world) == [("every", "quarantined.1")]


def test_what_happened_between_two_steps_is_written_down() -> None:
    """A view shows it, and the next one does not."""
    with notified() as world:
        leader = world.leaders[-1]
        world.fails("a")
        world.cleans("a")
        world.passes(leader)
        world.steps(leader)
        assert on_its_way(world) == [("every", "failed.1"), ("failures", "failed.1")]


def test_what_is_written_down_leaves_room_for_what_is_new(monkeypatch: pytest.MonkeyPatch) -> None:
    """Histories show what has happened in each view again."""
    monkeypatch.setattr(notifier_inbox, "HAPPENED_MAX", 1)
    with notified() as world:
        leader = world.leaders[-1]
        world.fails("a")
        world.resumes("a")
        goes_on(world)
        world.fails("b")
        world.resumes("b")
        for _ in range(2):
            goes_on(world)
            assert not leader.inbox.missed()
        assert world.records().keys() == set(world.uids.values())


def test_a_view_that_vouches_for_nothing_is_no_news() -> None:
    inbox = NotifierInbox(lambda: 0.0)
    inbox.observe(View({}, {}, 1, distrust="restored"), Plan((), ()))
    assert inbox.take() is None


def test_what_failed_and_was_resumed_before_a_leader_has_read_it_is_told_from_the_history() -> None:
    """By a leader of the same term, whose view did not show the result, and by the next one."""
    for next_one in (False, True):
        with notified() as world:
            world.fails("a")
            world.resumes("a")
            if next_one:
                another_leads(world)
            goes_on(world)
            assert on_its_way(world) == [("every", "failed.1"), ("failures", "failed.1")]
            (entry,) = world.records()[world.uids["a"]].entries
            assert (entry.state, entry.reason, entry.attempt) == ("failed", "exit code 7", 1)


def test_what_was_resumed_and_cancelled_since_is_told_from_the_history_of_its_result() -> None:
    with notified() as world:
        uid = world.uids["a"]
        world.fails("a")
        world.cancels("a")
        world.cleans("a")
        world.submit("a")
        another_leads(world)
        goes_on(world)
        assert {each.message_id for each in world.in_flight} == {f"{uid}.failed.1"}


def test_two_failures_that_nobody_has_read_are_told_in_their_order() -> None:
    with notified() as world:
        world.fails("a")
        world.resumes("a")
        world.runs("a")
        world.fails("a")
        goes_on(world)
        entries = world.records()[world.uids["a"]].entries
        assert [each.occurrence for each in entries] == [1, 2]


def test_what_has_made_room_is_not_told_again_from_the_history() -> None:
    def goes_on_and_is_answered() -> None:
        goes_on(world)
        for message in list(world.in_flight):
            world.answers(message, "accepted")

    with notified() as world:
        for _ in range(2):
            world.rolls_back("a")
            world.runs("a")
            goes_on_and_is_answered()
        for _ in range(ENTRIES_MAX):
            for change in (world.quarantines, world.resumes, world.runs):
                change("a")
                goes_on_and_is_answered()
        goes_on_and_is_answered()
        uid = world.uids["a"]
        assert f"{uid}.rolled_back.2" not in {
            notification_id(uid, each) for each in world.records()[uid].entries
        }
        assert world.bench.ref("a").record.rolled_back == (2, 4)
        world.lead()
        goes_on(world)
        assert world.in_flight == []


def test_a_roll_back_is_told_after_another_update_and_after_a_cancel() -> None:
    for ends in (False, True):
        with notified() as world:
            uid = world.uids["a"]
            world.rolls_back("a")
            world.updates("a")
            if ends:
                world.cancels("a")
            another_leads(world)
            goes_on(world)
            assert on_its_way(world) == [("every", "rolled_back.2")]
            assert world.records()[uid].entries[0].reason == "revision 2 was rolled back"


def test_what_histories_show_of_the_time_before_they_were_read_is_told_to_nobody() -> None:
    """A leader of the version before has seen neither; what a result shows is told."""
    with notified() as world:
        world.fails("a")
        world.resumes("a")
        world.version_before_has_begun()
        world.fails("b")
        world.lead()
        goes_on(world)
        assert {each.uid for each in world.in_flight} == {world.uids["b"]}
        assert pending(world, "a") == [()]
        assert world.bench.record(NotifyingSince, world.bench.layout.notifications).record.from_history
        world.runs("a")
        world.fails("a")
        world.resumes("a")
        goes_on(world)
        assert pending(world, "a") == [(), ("every", "failures")]


ENDS: dict[str, Callable[[NotifyingWorld], None]] = {
    "resume": lambda world: world.resumes("a"),
    "restart": lambda world: world.restarts("a"),
    "suspend": lambda world: world.suspends("a"),
    "update": lambda world: world.updates("a"),
    "cancel": lambda world: world.cancels("a"),
}


@pytest.mark.parametrize("by", ENDS)
@pytest.mark.parametrize("next_one", [False, True])
def test_a_quarantine_that_was_ended_before_a_leader_has_read_it_is_told(by: str, next_one: bool) -> None:
    with notified() as world:
        uid = world.uids["a"]
        world.quarantines("a")
        if next_one:
            world.passes(world.leaders[-1])  # which has written nothing down yet
        ENDS[by](world)
        if next_one:
            another_leads(world)
        for _ in range(2):
            goes_on(world)
        assert on_its_way(world) == [("every", "quarantined.1")]
        (entry,) = world.records()[uid].entries
        assert (entry.attempt, entry.state, entry.cause, entry.over) == (1, "quarantined", "no_spark", True)
        assert entry.reason == "it was quarantined by the end of attempt 1: no Spark"


def test_each_write_that_ends_a_quarantine_keeps_it() -> None:
    for by, ends in ENDS.items():
        with notified() as world:
            uid = world.uids["a"]
            world.quarantines("a")
            ends(world)
            job = world.bench.result(uid) if by == "cancel" else world.bench.ref("a").record
            assert job is not None and job.quarantined == (1,), by


def test_a_quarantine_of_a_uid_that_has_failed_since_and_came_back_is_told() -> None:
    """Its result kept it, and the reference that took the place of that."""
    with notified() as world:
        world.quarantines("a")
        world.resumes("a")
        world.runs("a")
        world.fails("a")
        world.resumes("a")
        another_leads(world)
        goes_on(world)
        entries = world.records()[world.uids["a"]].entries
        assert sorted((each.event.value, each.attempt) for each in entries) == [
            ("failed", 2),
            ("quarantined", 1),
        ]


def test_quarantines_that_nobody_has_read_are_told_in_their_order() -> None:
    with notified() as world:
        for change in (world.quarantines, world.resumes, world.runs) * 2:
            change("a")
        world.quarantines("a")
        goes_on(world)
        entries = world.records()[world.uids["a"]].entries
        assert [(each.attempt, each.occurrence, each.over) for each in entries] == [
            (1, 1, True),
            (2, 2, True),
            (3, 3, False),
        ]


def test_what_was_told_while_it_lasted_is_not_told_again_when_somebody_has_ended_it() -> None:
    for next_one in (False, True):
        with notified() as world:
            world.quarantines("a")
            goes_on(world)
            world.answers(one_to(world, "every"), "accepted")
            goes_on(world)
            world.resumes("a")
            if next_one:
                another_leads(world)
            for _ in range(2):
                goes_on(world)
            assert on_its_way(world) == []
            (entry,) = world.records()[world.uids["a"]].entries
            assert entry.over


def test_no_quarantine_is_told_where_somebody_had_asked_for_something_else_before() -> None:
    for asks in (NotifyingWorld.restarts, NotifyingWorld.updates, NotifyingWorld.suspends):
        with notified() as world:
            asks(world, "a")
            world.quarantines("a")
            world.resumes("a")
            goes_on(world)
            assert on_its_way(world) == [] and world.records() == {}


def test_a_quarantine_that_was_over_before_anybody_was_to_be_told_is_told_to_nobody() -> None:
    with notified(is_on=False) as world:
        world.quarantines("a")
        world.resumes("a")
        world.runs("a")
        world.quarantines("a")
        goes_on(world)
        assert on_its_way(world) == [("every", "quarantined.2")]
        assert pending(world, "a") == [(), ("every",)]


def test_a_quarantine_that_a_view_has_shown_is_told_with_what_that_said_though_a_write_has_failed() -> None:
    with notified(is_on=False) as world:
        leader = world.leaders[-1]
        world.quarantines("a")
        world.passes(leader)
        world.steps(leader, fault="not sent")
        world.resumes("a")
        for _ in range(2):
            goes_on(world)
        (entry,) = world.records()[world.uids["a"]].entries
        assert (entry.reason, entry.over, entry.pending) == ("no Spark", True, ("every",))


def test_a_quarantine_that_is_over_within_one_step_is_told() -> None:
    with notified() as world:
        world.quarantines("a")
        world.passes(world.leaders[-1])
        world.resumes("a")
        goes_on(world)
        assert on_its_way(world) == [("every", "quarantined.1")]
        (entry,) = world.records()[world.uids["a"]].entries
        assert (entry.over, entry.reason) == (True, "no Spark"), "as the view has shown it"


def test_a_later_attempt_that_is_quarantined_is_told_though_nobody_saw_that_it_ran() -> None:
    with notified() as world:
        world.quarantines("a")
        goes_on(world)
        world.answers(one_to(world, "every"), "accepted")
        world.resumes("a")
        world.runs("a")
        world.quarantines("a")
        goes_on(world)
        assert on_its_way(world) == [("every", "quarantined.2")]
        assert [each.over for each in world.records()[world.uids["a"]].entries] == [True, False]


def test_a_job_that_is_quarantined_beside_an_older_one_is_told_once_that_is_cleaned_up() -> None:
    """The plan cleans up first, and says nothing of it: this is no end of a quarantine, and no event."""
    with notified() as world:
        world.cancels("a")
        world.submit("a")
        world.quarantines("a")
        goes_on(world)
        assert on_its_way(world) == []
        world.cleans("a")
        goes_on(world)
        assert on_its_way(world) == [("every", "quarantined.1")]


def test_what_is_over_before_it_was_sent_is_sent_all_the_same() -> None:
    with notified() as world:
        world.quarantines("a")
        goes_on(world)
        world.answers(one_to(world, "every"), "refused")
        world.runs("a")
        goes_on(world)
        (entry,) = world.records()[world.uids["a"]].entries
        assert entry.over and entry.pending == ("every",)
        world.now_s += RETRY_PAUSE.first_s
        goes_on(world)
        assert on_its_way(world) == [("every", "quarantined.1")]


def test_what_lasts_is_told_once_until_it_is_over_and_then_as_another_one() -> None:
    with notified() as world:
        world.quarantines("a")
        for _ in range(3):
            goes_on(world)
            for message in list(world.in_flight):
                world.answers(message, "accepted")
        world.lead()
        goes_on(world)
        assert world.in_flight == []
        world.runs("a")
        goes_on(world)
        world.quarantines("a")
        goes_on(world)
        assert on_its_way(world) == [("every", "quarantined.2")]


def test_messages_about_a_job_go_out_in_order_and_those_about_others_do_not_wait() -> None:
    def about(name: str) -> list[tuple[str, str]]:
        uid = world.uids[name]
        return [
            (each.receiver, each.message_id.partition(".")[2]) for each in world.in_flight if each.uid == uid
        ]

    with notified() as world:
        world.rolls_back("a")
        goes_on(world)
        world.answers(one_to(world, "every"), "refused")
        world.runs("a")
        world.fails("a")
        world.fails("b")
        goes_on(world)
        assert about("a") == [("failures", "failed.3")], "the first one is put off, and nothing overtakes it"
        assert about("b") == [("every", "failed.1"), ("failures", "failed.1")]
        world.now_s += RETRY_PAUSE.first_s
        goes_on(world)
        assert about("a") == [("failures", "failed.3"), ("every", "rolled_back.2")]
        world.answers(next(each for each in world.in_flight if "rolled_back" in each.message_id), "accepted")
        goes_on(world)
        assert about("a") == [("failures", "failed.3"), ("every", "failed.3")]


def test_what_happened_before_anybody_was_to_be_told_is_told_to_nobody_and_what_lasts_is() -> None:
    with notified(is_on=False) as world:
        world.fails("a")
        world.cleans("a")
        world.rolls_back("b")
        world.runs("b")
        world.quarantines("b")
        goes_on(world)
        assert on_its_way(world) == [("every", "quarantined.1")]
        assert world.is_on()
        world.resumes("a")
        world.runs("a")
        world.fails("a")
        goes_on(world)
        assert ("failures", "failed.2") in on_its_way(world)


def test_every_try_has_the_same_id() -> None:
    with notified() as world:
        world.fails("a")
        goes_on(world)
        ids = {each.message_id for each in world.in_flight}
        assert len(ids) == 1
        world.answers(one_to(world, "failures"), "accepted")
        world.answers(one_to(world, "every"), "lost")
        goes_on(world)
        world.now_s += RETRY_PAUSE.first_s
        goes_on(world)
        assert {each.message_id for each in world.in_flight} == ids


def test_a_receiver_that_does_not_answer_keeps_nobody_waiting() -> None:
    with notified() as world:
        uid = world.uids["a"]
        for number in range(IN_FLIGHT_MAX + 3):
            world.fails("a")
            goes_on(world)
            for message in [each for each in world.in_flight if each.receiver == "failures"]:
                world.answers(message, "accepted")
            goes_on(world)
            assert f"{uid}.failed.{number + 1}" in world.accepted["failures"]
            world.resumes("a")
            world.runs("a")
        assert [each.receiver for each in world.in_flight] == ["every"]


def test_nothing_is_sent_while_paused_in_distrust_or_before_the_epoch_is_recorded() -> None:
    with notified() as world:
        world.fails("a")
        for hindered in ("paused", "distrusted", "unrecorded"):
            world.lead()
            leader = world.leaders[-1]
            world.passes(leader)
            world.paused = hindered == "paused"
            leader.term._distrust = "ZooKeeper was restored" if hindered == "distrusted" else None
            leader.term._recorded = hindered != "unrecorded"
            assert leader.notifier.step() is False
            assert world.in_flight == [] and world.records() == {}


def test_a_leader_without_receivers_switches_it_off_and_ends() -> None:
    with notified() as world:
        world.lead()
        notifier = world.leaders[-1].notifier
        notifier._configuration = NotifyConfiguration((), "bench", lambda _name: "")
        assert notifier.step() is True
        assert not world.is_on()
        assert notifier.step() is True


def test_a_leader_without_receivers_writes_nothing_where_nobody_was_ever_told() -> None:
    with notified(is_on=False) as world:
        notifier = world.leaders[-1].notifier
        notifier._configuration = NotifyConfiguration((), "bench", lambda _name: "")
        assert notifier.step() is True
        assert not world.bench.has(world.bench.layout.notifications)


def test_a_record_that_can_not_be_read_is_left_alone_and_hinders_no_other_job() -> None:
    with notified() as world:
        path = world.bench.layout.notifications_of(world.uids["a"])
        world.bench.zoo.put(path, b"{")
        world.fails("a")
        world.fails("b")
        world.leaders[-1].notifier._read_at_s = None
        world.passes(world.leaders[-1])
        world.leaders[-1].notifier.step()
        assert {each.uid for each in world.in_flight} == {world.uids["b"]}
        assert world.bench.zoo.tree()[path] == b"{"
        world.bench.zoo.remove(path)


def test_who_is_no_receiver_any_more_keeps_its_place_and_a_new_one_is_told_from_now_on() -> None:
    with notified() as world:
        world.fails("a")
        goes_on(world)
        for message in list(world.in_flight):
            world.answers(message, "refused")
        world.lead()
        every, failures = world.receivers()
        notifier = world.leaders[-1].notifier
        notifier._configuration = NotifyConfiguration((failures, every._replace(name="new")), "bench", str)
        world.passes(world.leaders[-1])
        notifier.step()
        assert on_its_way(world) == [("failures", "failed.1")]
        assert pending(world, "a") == [("every", "failures")]


def test_a_message_says_what_list_and_explain_say() -> None:
    bodies: list[dict[str, Any]] = []
    with notified() as world:
        every, _ = world.receivers()
        receiver = every._replace(post=lambda _id, body: bodies.append(json.loads(body)))
        notifier = world.leaders[-1].notifier
        notifier._configuration = NotifyConfiguration((receiver,), "bench", "https://host/#/jobs/{}".format)
        notifier._deliveries._start = run_in_thread
        world.quarantines("a")
        world.passes(world.leaders[-1])
        notifier.step()
        for task in notifier._deliveries._tasks.values():
            assert task.sending is not None
            task.sending.result(10)
        uid = world.uids["a"]
        (body,) = bodies
        at = body.pop("at")
        assert at.endswith("Z")
        assert body == {
            "v": 1,
            "id": f"{uid}.quarantined.1",
            "event": "quarantined",
            "cluster": "bench",
            "job": "a",
            "uid": uid,
            "attempt": 1,
            "revision": 1,
            "state": "quarantined",
            "cause": "no_spark",
            "reason": "no Spark",
            "command": "spark-supervisor resume a",
            "link": "https://host/#/jobs/a",
        }


def test_a_record_that_is_gone_is_written_anew() -> None:
    """The sweeper has removed it, or a person: what this leader knows of it is no reason to go on failing."""
    with notified() as world:
        world.quarantines("a")
        goes_on(world)
        world.bench.zoo.remove(world.bench.layout.notifications_of(world.uids["a"]))
        leader = world.leaders[-1]
        for known in (world.known, world.order, world.reported_quarantines, leader.quarantines):
            known.clear()
        leader.hindered = True
        world.runs("a")
        goes_on(world)
        world.quarantines("a")
        goes_on(world)
        assert isinstance(world.records()[world.uids["a"]], Notifications)


def test_an_event_that_can_not_be_encoded_is_left_out() -> None:
    with notified() as world:
        leader = world.leaders[-1]
        world.quarantines("a")
        world.fails("b")
        world.passes(leader)
        lasting = leader.inbox._lasting
        lasting.update({key: replace(each, state="x" * 10_000) for key, each in lasting.items()})
        leader.notifier.step()
        assert {each.uid for each in world.in_flight} == {world.uids["b"]}
