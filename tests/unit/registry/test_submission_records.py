"""A submission that ends, and comes back, takes all along that both of its records can hold."""

from __future__ import annotations

from dataclasses import MISSING, fields, replace
from typing import Any

import pytest

from supervisor.model.actions import RollBackToSavepoint
from supervisor.model.records import (
    Cleanliness,
    Desired,
    Fork,
    HistoryEntry,
    JobRef,
    Outcome,
    OwnState,
    Promotion,
    Result,
    with_complete_copy,
)
from supervisor.model.seen import Found
from supervisor.model.submission_records import (
    OF_EACH,
    ONLY_IN_REFERENCE,
    ONLY_IN_RESULT,
    SHARED,
    reference_of,
    result_of,
)
from supervisor.model.transaction import SetData
from supervisor.operations.jobs import JobOperations
from supervisor.operations.savepoint_resume import Basis, Revision, moved_reference
from supervisor.records.codec import MAX_RECORD_BYTES, decode
from supervisor.registry.older_history import encode_result
from supervisor.registry.promotion_writes import finish_fork
from supervisor.registry.update_savepoint_writes import roll_back_to_savepoint
from supervisor.registry.user_writes import UserWriteContext
from tests.fakes.registry_bench import AT, Bench, submission, terms
from tests.golden.sample_records import SAMPLES
from tests.unit.plan.rows import job as a_job
from tests.unit.plan.rows import own, updated
from tests.unit.registry.test_leader_writes import CONTEXT, LAYOUT, RESTORED

FORK = Fork(of="clicks", uid="1ngepjcv86zj-fbae6361", savepoint="20261125-215940-c121")


def names(record: type[Any]) -> set[str]:
    return {field.name for field in fields(record)}


def test_of_each_field_somebody_has_decided_whether_it_is_carried() -> None:
    """A new field of one record is listed with the reason; one of both is carried by itself, or is listed as well."""
    assert names(JobRef) == {*SHARED, *OF_EACH, *ONLY_IN_REFERENCE}
    assert names(Result) == {*SHARED, *OF_EACH, *ONLY_IN_RESULT}
    assert not {*ONLY_IN_REFERENCE} & {*ONLY_IN_RESULT}
    assert all({**OF_EACH, **ONLY_IN_REFERENCE, **ONLY_IN_RESULT}.values())


def test_what_is_carried_comes_back_as_it_was() -> None:
    job: JobRef = next(each for each in SAMPLES if isinstance(each, JobRef))
    silent = [
        field.name
        for field in fields(JobRef)
        if field.name in SHARED and field.default is not MISSING and getattr(job, field.name) == field.default
    ]
    assert not silent, "the sample says nothing there"
    ended = result_of(
        job,
        outcome=Outcome.FAILED,
        state=Cleanliness.DIRTY,
        attempt=3,
        claims=2,
        reason="it failed",
        at=AT,
        op="end",
    )
    back = reference_of(
        ended, desired=job.desired, changed=HistoryEntry(at=AT, event="registered again"), op="back"
    )
    assert {name: getattr(back, name) for name in SHARED} == {name: getattr(job, name) for name in SHARED}


@pytest.fixture
def forked() -> Bench:
    bench = Bench()
    bench.commands().submit(replace(submission("clicks-2", checkpoint="s3://bucket/clicks-2"), fork=FORK))
    return bench


def in_place_of(bench: Bench, name: str) -> Promotion:
    promotion = Promotion(over="clicks", uid=FORK.uid, by="ann", at=AT, done=True)
    bench.put(bench.layout.job(name), replace(bench.ref(name).record, promotion=promotion))
    return promotion


def test_a_cancel_keeps_what_a_job_was(forked: Bench) -> None:
    promotion, uid = in_place_of(forked, "clicks-2"), forked.ref("clicks-2").record.uid
    forked.commands().cancel("clicks-2")
    result = forked.result(uid)
    assert result is not None and (result.fork, result.promotion) == (FORK, promotion)


def test_a_failure_keeps_what_a_job_was(forked: Bench) -> None:
    forked.run("clicks-2")
    forked.fail("clicks-2")
    forked.commands().resume("clicks-2")
    assert forked.ref("clicks-2").record.fork == FORK


def test_a_record_without_room_keeps_the_mark_longer_than_what_people_read(forked: Bench) -> None:
    job = forked.ref("clicks-2").record
    long = replace(job.terms, checkpoint="s3://bucket/" + "x" * 2500)
    result = result_of(
        replace(job, terms=long),
        outcome=Outcome.FAILED,
        state=Cleanliness.DIRTY,
        attempt=900,
        claims=900,
        reason="r" * 400,
        at=AT,
        op="o" * 32,
        history=tuple(HistoryEntry(at=AT, event="failed", attempt=n, detail="d" * 120) for n in range(8)),
    )
    data = encode_result(result)
    assert len(data) <= MAX_RECORD_BYTES
    kept = decode(Result, data, "/x")
    assert kept.fork == FORK and len(kept.history) < 8


def test_going_on_from_a_savepoint_does_not_make_a_fork_a_job_by_itself(forked: Bench) -> None:
    commands: JobOperations = forked.commands()
    copying = replace(FORK, copying=True)
    job = replace(forked.ref("clicks-2").record, fork=copying)
    basis: Basis = commands.basis("clicks-2")
    revision = Revision(basis, basis.spec, terms("s3://bucket/copy"), "one", ())
    moved = moved_reference(job, revision, "resumed", "op", AT)
    assert moved.fork == FORK, "its checkpoint is a complete copy now, and it is a fork as before"
    assert with_complete_copy(None) is None


@pytest.mark.parametrize("by_command", [False, True])
def test_a_fork_that_was_suspended_while_it_was_copied_is_not_started(by_command: bool) -> None:
    copying = replace(a_job(desired=Desired.SUSPENDED).record, fork=replace(FORK, copying=True))
    vacant = own(OwnState.VACANT, claims=0)
    if by_command:
        said = HistoryEntry(at=AT, event="suspended", by="me")
        copying = replace(copying, changed=said)
    context = UserWriteContext(LAYOUT, "op", AT)
    tx = finish_fork(context, Found(copying, 3), vacant, (), suspended=False)
    done = decode(JobRef, next(op.data for op in tx.ops if isinstance(op, SetData)), "x")
    assert (done.desired is Desired.SUSPENDED) == by_command


def test_a_way_back_to_a_savepoint_does_not_either() -> None:
    ref = updated()
    ref = replace(ref, record=replace(ref.record, fork=FORK))
    tx = roll_back_to_savepoint(
        CONTEXT, RollBackToSavepoint("j", "it failed", ref, own(OwnState.EXITED, revision=2), RESTORED)
    )
    data = next(op.data for op in tx.ops if isinstance(op, SetData) and op.path == LAYOUT.job("j"))
    assert decode(JobRef, data, "/x").fork == FORK
