"""An older process rewrites what a newer one wrote: nothing that it does not know is lost, whichever write it is (F59).

Every multi that sets a record is built here from records with a field of a newer version in them. A record that one uid's
end makes of another (the reference becomes a result, and comes back) takes it along.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from supervisor.coord.election import Candidate, take_leadership
from supervisor.model.actions import (
    Assign,
    Bury,
    CleanUp,
    Conclude,
    Drain,
    Revoke,
    SuspendExhausted,
    Unassign,
    Waited,
)
from supervisor.model.checkpoint_expectation import CheckpointExpectation
from supervisor.model.claimed_location import ClaimedLocation
from supervisor.model.records import (
    Assignment,
    Cause,
    CheckpointClaim,
    EpochRecord,
    JobRef,
    Outcome,
    OwnState,
)
from supervisor.model.seen import Found
from supervisor.model.transaction import Create, SetData, Transaction
from supervisor.model.view import Leftover
from supervisor.plan.decide import FRESH
from supervisor.records.layout import Layout
from supervisor.registry import attempt_writes, leader_writes, user_writes
from supervisor.registry.attempt_writes import AttemptIdentity, Exit
from supervisor.registry.leader_write_context import LeaderWriteContext
from tests.fakes.registry_bench import Bench
from tests.unit.plan.rows import HOST, exited, job, lease, leftover, own

S = OwnState
LAYOUT = Layout("/c")
LEADER = LeaderWriteContext(LAYOUT, epoch=4, fence_version=11, op_id="op-1", at="now")
USER = user_writes.UserWriteContext(LAYOUT, "op-1", "now")
NEW = {"labels": {"team": "clicks"}}


def newer(found: Found[Any]) -> Found[Any]:
    """As a newer version wrote it."""
    return replace(found, record=replace(found.record, extra=NEW))


JOB, RESULT, SEEN = newer(job()), newer(leftover(outcome=Outcome.FAILED).result), lease().seen
CLAIM = Found(CheckpointClaim(location="s3://b/j", name="j", uid="u1", extra=NEW), 2)
PLACE = ClaimedLocation("/c/checkpoints/h", "s3://b/j", CLAIM, 5)
REFUSED = Exit(Cause.NO_ROOM, "full")
MINE = AttemptIdentity("j", "u1", 2, "c")


def entry_for(found: Found[Any]) -> Assignment:
    return Assignment(
        name="j",
        uid=found.record.uid,
        attempt=found.record.attempt,
        revision=1,
        job_version=3,
        own_version=found.version,
        spec=job().record.spec,
        memory=100,
    )


WRITES: dict[str, Callable[[], Transaction | None]] = {
    "assign": lambda: leader_writes.assign(
        LEADER, Assign("j", "w", JOB, newer(own(S.VACANT)), HOST, FRESH, None)
    ),
    "unassign": lambda: leader_writes.unassign(LEADER, Unassign("j", "w", newer(own(S.ASSIGNED)))),
    "drain": lambda: leader_writes.drain(LEADER, Drain("j", "w", JOB, newer(own(S.CLAIMED)))),
    "suspend exhausted": lambda: leader_writes.suspend_exhausted(
        LEADER, SuspendExhausted("j", "w", JOB, newer(exited()))
    ),
    "revoke": lambda: leader_writes.revoke(LEADER, Revoke("j", "w", newer(own(S.CLAIMED)), SEEN)),
    "conclude": lambda: leader_writes.conclude(
        LEADER, Conclude("j", "w", JOB, newer(exited()), Outcome.FAILED, FRESH)
    ),
    "clean up": lambda: leader_writes.clean_up(
        LEADER, CleanUp("j", "w", Leftover(RESULT, None), newer(exited()), SEEN, dead=True, waited=None)
    ),
    "claim": lambda: attempt_writes.claim(
        LAYOUT,
        entry_for(own(S.ASSIGNED)),
        newer(own(S.ASSIGNED)),
        "c",
        lease().seen.record,
        None,
        "op-1",
        "now",  # type: ignore[union-attr]
    ),
    "tombstone": lambda: attempt_writes.tombstone(
        LAYOUT, newer(own(S.CLAIMED)), MINE, REFUSED, "op-1", "now"
    ),
    "refuse": lambda: attempt_writes.refuse(
        LAYOUT,
        entry_for(own(S.ASSIGNED)),
        newer(own(S.ASSIGNED)),
        REFUSED,
        "op-1",
        "now",
    ),
    "submit": lambda: user_writes.submit(USER, JOB.record, newer(own(S.VACANT)), PLACE),
    "register again": lambda: user_writes.register_again(USER, JOB.record, newer(exited()), RESULT, PLACE),
    "cancel": lambda: user_writes.cancel(USER, JOB, "j", "u1", newer(own(S.CLAIMED))),
    "cancel failed": lambda: user_writes.cancel_failed(USER, RESULT, newer(exited())),
    "suspend": lambda: user_writes.suspend(USER, JOB, newer(own(S.CLAIMED))),
    "resume from": lambda: user_writes.resume_from(
        USER,
        JOB,
        newer(own(S.EXITED)),
        JOB.record,
        PLACE,
        user_writes.Move(CheckpointExpectation(place="p"), None, None),
    ),
    "run again": lambda: user_writes.run_again(USER, JOB, newer(own(S.CLAIMED)), "nonce", "resumed"),
    "take leadership": lambda: take_leadership(
        LAYOUT,
        Candidate("s1", ""),
        epoch=8,
        op_id="op-1",
        seen=EpochRecord(epoch=7, supervisor="s2", op="op", extra=NEW),
        version=3,
    ),
}
RECORDS = ("/c/own/", "/c/jobs/", "/c/results/", "/c/epoch", "/c/checkpoints/")


@pytest.mark.parametrize("write", WRITES.values(), ids=WRITES)
def test_a_field_of_a_newer_version_survives_every_write_of_an_older_one(
    write: Callable[[], Transaction],
) -> None:
    written = [
        op
        for op in write().ops
        if isinstance(op, SetData | Create) and op.data and op.path.startswith(RECORDS)
    ]
    assert written
    for op in written:
        assert json.loads(op.data).get("labels") == NEW["labels"], op.path


def test_a_burial_keeps_it_too() -> None:
    tx = leader_writes.bury(LEADER, Bury("j", "w", newer(own(S.REVOKED)), Waited(SEEN)))
    (op,) = (op for op in tx.ops if isinstance(op, SetData) and op.path == "/c/own/j")
    assert json.loads(op.data)["labels"] == NEW["labels"]


def test_a_job_that_failed_and_is_registered_again_by_an_older_version_has_what_the_newer_one_gave_it() -> (
    None
):
    """reference → result → reference."""
    bench = Bench()
    bench.submit("a")
    bench.put(bench.layout.job("a"), replace(bench.ref("a").record, extra=NEW))
    bench.exit("a")
    ref, owned = (
        bench.ref("a"),
        Found(bench.own("a"), bench.zoo.client().read(bench.layout.own("a")).stat.version),
    )  # type: ignore[union-attr]
    epoch = bench.zoo.client()
    bench.put(bench.layout.epoch, EpochRecord(epoch=1, supervisor="s", op="op"))
    context = LeaderWriteContext(bench.layout, 1, 0, "op", "now")
    epoch.commit(leader_writes.conclude(context, Conclude("j", "spent", ref, owned, Outcome.FAILED, FRESH)))
    bench.commands().resume("a")
    again: JobRef = bench.ref("a").record
    assert again.extra == NEW
