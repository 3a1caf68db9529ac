"""The history of a job through every write that adds to it: what stays, and that its records stay small."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from dataclasses import replace

import pytest

from supervisor.clock import wall_iso
from supervisor.model.actions import Assign, CleanUp, Conclude
from supervisor.model.checkpoint_expectation import CheckpointExpectation
from supervisor.model.history import Series, opened
from supervisor.model.records import (
    HISTORY_KEPT,
    Assignment,
    Cause,
    HistoryEntry,
    Lease,
    Outcome,
    Ownership,
    OwnState,
    Result,
    with_entry,
)
from supervisor.model.seen import Found
from supervisor.model.state import history_of
from supervisor.model.transaction import Create, SetData, Transaction
from supervisor.model.view import Leftover
from supervisor.plan.decide import FRESH
from supervisor.records.codec import MAX_RECORD_BYTES, decode, encode
from supervisor.records.layout import Layout
from supervisor.registry import attempt_writes, leader_writes, user_writes
from supervisor.registry.attempt_writes import AttemptIdentity, Exit
from supervisor.registry.leader_write_context import LeaderWriteContext
from supervisor.registry.older_history import EARLIER_MAX_BYTES
from tests.unit.plan.rows import HOST, job, lease, leftover

LAYOUT = Layout("/c")
CAUSES = frozenset(cause.value for cause in Cause)
WAYS: dict[str, Callable[[int], tuple[Cause, str]]] = {
    "alike": lambda n: (Cause.USER_ERROR, f"exit code 1: ValueError: cannot parse record {n}"),
    "in turn": lambda n: (
        (Cause.USER_ERROR, Cause.OUT_OF_MEMORY)[n % 2],
        f"exit code {n % 2}: at {'abc'[n % 3]} of {n * 7919 % 1000}",
    ),
    "each other": lambda n: (Cause.USER_ERROR, "".join(random.Random(n).choices('abcdefghij"\\', k=150))),
}


class Life:
    """Of one job, write by write. Between them there is nothing but the bytes, so every leader and host may be another."""

    def __init__(self, *, wide: bool = False) -> None:
        """``wide``: its records are as full as they get beside the history."""
        self.now_s = 1.8e9
        self.sizes: list[int] = []
        self.ref = job(
            submitted_at=wall_iso(1.8e9), changed=HistoryEntry(at=wall_iso(1.8e9), event="submitted")
        )
        own = Ownership(state=OwnState.VACANT, op="op", newest_uid="u1", uid="u1")
        if wide:
            own = replace(
                own,
                remembered=CheckpointExpectation(
                    place="0" * 16, queries=tuple(f"{n:036d} 123456" for n in range(8))
                ),
            )
        self.host = replace(HOST, id="s" * 60, host="h" * 200) if wide else HOST
        self.account = replace(FRESH, recent_s=tuple(n + 0.25 for n in range(65))) if wide else FRESH
        self.own = Found(own, 1)

    @property
    def at(self) -> str:
        self.now_s += 61.7 + random.Random(self.now_s).random()
        return wall_iso(self.now_s)

    @property
    def context(self) -> LeaderWriteContext:
        return LeaderWriteContext(LAYOUT, int(self.now_s) % 100, 1, "op", self.at)

    def take(self, tx: Transaction | None) -> Transaction:
        assert tx is not None
        (data,) = (op.data for op in tx.ops if isinstance(op, SetData) and op.path == "/c/own/j")
        self.sizes.append(len(data))
        self.own = Found(decode(Ownership, data, "/c/own/j"), self.own.version + 1)
        return tx

    def result(self, tx: Transaction) -> Result:
        (data,) = (op.data for op in tx.ops if isinstance(op, Create) and op.path == "/c/results/u1")
        self.sizes.append(len(data))
        return decode(Result, data, "/c/results/u1")

    def attempt(self, cause: Cause, reason: str) -> None:
        tx = self.take(
            leader_writes.assign(
                self.context, Assign("j", "w", self.ref, self.own, self.host, self.account, None)
            )
        )
        (entry,) = (op.data for op in tx.ops if isinstance(op, Create) and op.path.startswith("/c/assigned/"))
        given = decode(Assignment, entry, "/x")
        found = lease().seen
        assert isinstance(found, Found)
        first: Lease = replace(found.record, attempt=given.attempt)
        self.take(attempt_writes.claim(LAYOUT, given, self.own, "c" * 32, first, None, "op", self.at))
        mine = AttemptIdentity("j", "u1", given.attempt, "c" * 32)
        self.take(
            attempt_writes.tombstone(LAYOUT, self.own, mine, Exit(cause, reason, 1, 5.0), "op", self.at)
        )

    def story(self, result: Result | None = None) -> tuple[HistoryEntry, ...]:
        return history_of(self.ref.record if result is None else None, self.own.record, result, "u1")


@pytest.mark.parametrize("wide", [False, True], ids=["usual", "wide"])
@pytest.mark.parametrize("way", WAYS)
def test_the_first_failure_and_a_hundred_entries_outlive_every_leader_and_host(way: str, wide: bool) -> None:
    life = Life(wide=wide)
    for number in range(1, 121):
        life.attempt(*WAYS[way](number))
    story = life.story()
    failures = [entry for entry in story if entry.event in CAUSES]
    cause, reason = WAYS[way](1)
    assert (failures[0].event, failures[0].attempt) == (cause.value, 1) and failures[0].detail[:40] == reason[
        :40
    ]
    assert failures[-1].attempt == 120
    if way == "alike":
        assert count(story) == 120 and max(life.sizes) < 4000 - 800 * (not wide)
    else:
        assert len(story) >= 100
    assert max(life.sizes) <= MAX_RECORD_BYTES and len(life.own.record.earlier) <= EARLIER_MAX_BYTES
    assert [entry.event for entry in story[-6:]] == 2 * [
        "assigned",
        "claimed",
        failures[-1].event,
    ] or way == "in turn"


def count(story: tuple[HistoryEntry, ...]) -> int:
    """Failures that are told."""
    return sum(entry.count if isinstance(entry, Series) else 1 for entry in story if entry.event in CAUSES)


@pytest.mark.parametrize("way", WAYS)
def test_it_goes_along_when_the_job_ends(way: str) -> None:
    life = Life()
    for number in range(1, 61):
        life.attempt(*WAYS[way](number))
    before = life.story()
    tx = life.take(
        leader_writes.conclude(
            life.context, Conclude("j", "the budget is spent", life.ref, life.own, Outcome.FAILED, FRESH)
        )
    )
    result = life.result(tx)
    tx = leader_writes.clean_up(
        life.context,
        CleanUp(
            "j",
            "w",
            Leftover(replace(leftover().result, record=result), None),
            life.own,
            None,
            dead=True,
            waited=None,
        ),
    )
    life.take(tx)
    for own in (life.own.record, replace(life.own.record, uid="u2", earlier="", history=())):
        story = history_of(None, own, result, "u1")
        first, same = (next(entry for entry in one if entry.event in CAUSES) for one in (before, story))
        assert (first.at, first.attempt, first.detail) == (same.at, same.attempt, same.detail) and story[
            -1
        ].event == "failed"
        assert len({(entry.at, entry.event) for entry in story}) == len(story), "told twice"
        assert (count(story) == 60) if way == "alike" else len(story) >= 100
    assert max(life.sizes) <= MAX_RECORD_BYTES


def test_a_cancel_keeps_it_too() -> None:
    life = Life(wide=True)
    for number in range(1, 61):
        life.attempt(*WAYS["in turn"](number))
    before = life.story()
    tx = user_writes.cancel(
        user_writes.UserWriteContext(LAYOUT, "op", life.at), life.ref, "j", "u1", life.own
    )
    result = life.result(life.take(tx))
    events = [(entry.event, entry.attempt) for entry in history_of(None, None, result, "u1")]
    assert events[-1] == ("cancelled", 60) and len(events) >= 100
    assert events[0] == (before[0].event, before[0].attempt) and ("out_of_memory", 1) in events


def test_the_last_word_of_a_user_is_noted_once() -> None:
    """Also when it is among the older entries, or among none any more: the reference has not changed since."""
    life = Life()
    life.ref = Found(
        replace(life.ref.record, changed=HistoryEntry(at=life.at, event="resumed"), restart_nonce="n5"), 5
    )
    for number in range(1, 61):
        life.attempt(*WAYS["in turn"](number))
        assert [entry.event for entry in life.own.record.history].count("resumed") == (number < 4)
    life.ref = Found(
        replace(life.ref.record, changed=HistoryEntry(at=life.at, event="restarted"), restart_nonce="n6"), 6
    )
    life.attempt(*WAYS["in turn"](61))
    assert [entry.event for entry in life.story() if not entry.attempt] == [
        "submitted",
        "resumed",
        "restarted",
    ]


def test_three_failures_stay_visible_when_the_next_attempt_is_assigned() -> None:
    """A wait, which may see only then that it was assigned again, ends by them."""
    life = Life()
    for number in range(1, 9):
        life.attempt(*WAYS["alike"](number))
    life.take(leader_writes.assign(life.context, Assign("j", "w", life.ref, life.own, HOST, FRESH, None)))
    assert [entry.attempt for entry in life.own.record.history if entry.event in CAUSES] == [6, 7, 8]


def test_another_submission_of_the_name_begins_anew() -> None:
    life = Life()
    for number in range(1, 11):
        life.attempt(*WAYS["alike"](number))
    assert life.own.record.earlier
    life.ref = job(uid="u2")
    life.take(leader_writes.assign(life.context, Assign("j", "w", life.ref, life.own, HOST, FRESH, None)))
    assert life.own.record.earlier == "" and len(life.own.record.history) == 2


def test_a_version_that_does_not_know_it_takes_it_along() -> None:
    """It keeps ten plain entries, and the field as one that it does not know; also into the next submission."""
    life = Life()
    for number in range(1, 11):
        life.attempt(*WAYS["alike"](number))
    earlier = life.own.record.earlier
    for number in range(11, 14):
        body = json.loads(encode(life.own.record))
        new = {
            "at": life.at,
            "event": "user_error",
            "attempt": number,
            "detail": "exit code 1: of an older version",
        }
        body["history"] = [*body["history"], new, new][-10:]
        life.own = Found(decode(Ownership, json.dumps(body).encode(), "/x"), 1)
    life.attempt(*WAYS["alike"](14))
    story = life.story()
    assert opened(earlier, "u1")[:3] == story[:3] and story[-1].detail.endswith("record 14")
    assert len(life.own.record.history) <= HISTORY_KEPT + 2
    assert history_of(None, replace(life.own.record, uid="u2", history=()), None, "u2") == ()


def test_a_tombstone_gives_it_up_before_what_happened_last() -> None:
    own = Ownership(
        state=OwnState.EXITED,
        op="op",
        uid="u1",
        reason="\\" * 400,
        host="h" * 253,
        earlier="x" * 1536,
        history=with_entry(
            with_entry(with_entry((), "t", "assigned", 1), "t", "claimed", 1), "t", "user_error", 1, '"' * 120
        ),
        remembered=CheckpointExpectation(
            place="0" * 16, queries=tuple(f"{n:036d} 123456" for n in range(28))
        ),
    )
    kept = decode(Ownership, encode(own), "/x")
    assert kept.history == own.history and kept.earlier == ""


def test_ten_thousand_jobs_that_fail_and_fail_stay_small() -> None:
    """What a series of failures alike adds to a record, however long it is; ten plain entries take about 1 KiB."""
    life = Life()
    for number in range(1, 201):
        life.attempt(*WAYS["alike"](number))
    assert len(life.own.record.earlier) < 350
    quiet = Life()
    quiet.attempt(*WAYS["alike"](1))
    assert quiet.own.record.earlier == ""


def test_a_long_failure_is_told_by_its_error_and_not_by_what_wraps_it() -> None:
    life = Life()
    query = f"[STREAM_FAILED] Query [id = {'0' * 36}, runId = {'1' * 36}] terminated with exception: "
    for error in (
        "org.apache.kafka.common.errors.TimeoutException: Timed out",
        "java.lang.NullPointerException: null",
    ):
        life.attempt(
            Cause.USER_ERROR,
            f"exit code 1: STREAM_FAILED: StreamingQueryException: {query}{error} " + 99 * "x ",
        )
    first, second = (entry.detail for entry in life.story() if entry.event == Cause.USER_ERROR.value)
    assert first.startswith("TimeoutException: Timed out")
    assert second.startswith("NullPointerException: null")
