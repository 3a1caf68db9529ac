"""Every leader write checks the persistent epoch and the name's own fence (I4), asserted on the multis themselves."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, get_args

import pytest

from supervisor.act.transactions import BUILDERS, transaction_for
from supervisor.model import actions
from supervisor.model.actions import Waited
from supervisor.model.checkpoint_expectation import CheckpointExpectation
from supervisor.model.claimed_location import ClaimedLocation
from supervisor.model.records import (
    Assignment,
    Cause,
    CheckpointClaim,
    JobRef,
    Outcome,
    Ownership,
    OwnState,
    PrepareLevel,
    Result,
    SpecRevision,
)
from supervisor.model.restart import RestartPolicy
from supervisor.model.seen import Found
from supervisor.model.transaction import Check, Create, Delete, SetData, Transaction
from supervisor.model.view import Leftover, UpdateRestored
from supervisor.plan.decide import FRESH
from supervisor.records.codec import decode
from supervisor.records.layout import Layout
from supervisor.registry.leader_write_context import LeaderWriteContext
from supervisor.registry.record_sweep import Deletion
from tests.unit.plan.rows import HOST, exited, job, lease, leftover, own, updated

LAYOUT = Layout("/c")
CONTEXT = LeaderWriteContext(LAYOUT, epoch=4, fence_version=11, op_id="op-1", at="now")
S = OwnState
SEEN = lease().seen
NOT_PAUSED = (Create("/c/pause", b""), Delete("/c/pause", 0))
CLAIM = ("/c/checkpoints/h", Found(CheckpointClaim(location="s3://b/j", name="j", uid="u1"), 2))

RESTORED = UpdateRestored(
    revision=SpecRevision(
        revision=3, spec=job().record.spec, terms=replace(job().record.terms, checkpoint="s3a://b/copy")
    ),
    lease=SEEN,
    claimed=ClaimedLocation("/c/checkpoints/n", "s3a://b/copy", None, 6),
    left=CLAIM,
)

ALL: dict[type, Any] = {
    actions.Assign: actions.Assign("j", "w", job(), own(S.VACANT), HOST, FRESH),
    actions.Unassign: actions.Unassign("j", "w", own(S.ASSIGNED)),
    actions.Drain: actions.Drain("j", "w", job(), own(S.CLAIMED)),
    actions.GiveUpdateUp: actions.GiveUpdateUp("j", "w", updated(), own(S.CLAIMED)),
    actions.RollBack: actions.RollBack("j", "w", updated(), own(S.EXITED, revision=2)),
    actions.KeepSavepoint: actions.KeepSavepoint("j", "w", updated(), own(S.CLAIMED), "update-2-0a1b2c3d"),
    actions.RollBackToSavepoint: actions.RollBackToSavepoint(
        "j", "w", updated(), own(S.EXITED, revision=2), RESTORED
    ),
    actions.FinishUpdate: actions.FinishUpdate("j", "w", updated(), own(S.CLAIMED, revision=2)),
    actions.Revoke: actions.Revoke("j", "w", own(S.CLAIMED), SEEN),
    actions.Bury: actions.Bury("j", "w", own(S.REVOKED), Waited(SEEN)),
    actions.Conclude: actions.Conclude("j", "w", job(), exited(), Outcome.FAILED, FRESH),
    actions.SuspendExhausted: actions.SuspendExhausted("j", "w", job(), exited()),
    actions.Prepare: actions.Prepare("j", "w", job(), own(S.CLAIMED), HOST, PrepareLevel.SESSION),
    actions.Withdraw: actions.Withdraw("j", "w", "/c/prepare/h/u1.1", 0),
    actions.CleanUp: actions.CleanUp("j", "w", leftover(), own(S.VACANT), SEEN, dead=True),
}


def multi(action: Any) -> Transaction:
    return transaction_for(action, CONTEXT)


def own_written(tx: Transaction) -> Ownership:
    (data,) = (op.data for op in tx.ops if isinstance(op, SetData) and op.path == "/c/own/j")
    return decode(Ownership, data, "/c/own/j")


def created(tx: Transaction) -> list[Create]:
    """Beside the guard of every multi."""
    return [op for op in tx.ops if isinstance(op, Create) and op not in NOT_PAUSED]


def test_every_action_has_a_builder_and_an_example_here() -> None:
    assert set(BUILDERS) == set(ALL) == set(get_args(actions.Action))


MOVING = [action for kind, action in ALL.items() if kind not in (actions.Prepare, actions.Withdraw)]
"""All but the two that only ask for something, and move no fence."""


@pytest.mark.parametrize("action", MOVING, ids=lambda a: type(a).__name__)
def test_checks_the_epoch_moves_the_fence_and_rings(action: Any) -> None:
    tx = multi(action)
    assert tx.ops[0] == Check("/c/epoch", 11)
    assert tx.ops[1:3] == NOT_PAUSED
    assert any(op.path == "/c/own/j" and op.version == 7 for op in tx.ops if isinstance(op, SetData | Check))
    assert tx.ops[-1] == SetData("/c/doorbell", b"j", -1)
    assert tx.id == "op-1"


def test_a_sweep_checks_them_too() -> None:
    ops = Deletion("lease", "j", "/c/lease/j", 5, own_version=7).transaction(CONTEXT).ops
    assert ops == (Check("/c/epoch", 11), *NOT_PAUSED, Check("/c/own/j", 7), Delete("/c/lease/j", 5))


def test_assign_names_the_versions_that_the_claim_must_meet() -> None:
    tx = multi(ALL[actions.Assign])
    assert Check("/c/jobs/j", 3) in tx.ops
    (entry,) = created(tx)
    assert entry.path == "/c/assigned/s1/u1.3"
    assert b'"job_version":3' in entry.data
    assert b'"own_version":8' in entry.data
    assert own_written(tx).state is S.ASSIGNED


def test_memory_that_was_raised_is_given_to_host_and_record_and_told_in_the_history() -> None:
    policy = RestartPolicy(memory_step=1.5, memory_max=8 << 30)
    record = job(restart=policy, memory=2 << 30, driver_memory=1 << 30)
    ended = exited(Cause.OUT_OF_MEMORY)
    tx = multi(actions.Assign("j", "w", record, ended, HOST, FRESH))
    written = own_written(tx)
    assert (written.driver_memory, written.raised, written.memory) == (1536 << 20, 1, (2 << 30) + (512 << 20))
    assert ("memory raised", 3, "driver memory 1g → 1536m after out_of_memory") in [
        (entry.event, entry.attempt, entry.detail) for entry in written.history
    ]
    (entry,) = (
        decode(Assignment, op.data, "a")
        for op in tx.ops
        if isinstance(op, Create) and "/assigned/" in op.path
    )
    assert (entry.driver_memory, entry.memory) == (written.driver_memory, written.memory)
    again = own_written(
        multi(actions.Assign("j", "w", record, Found(replace(written, state=S.VACANT), 7), HOST, FRESH))
    )
    assert again.raised == 1 and again.driver_memory == 1536 << 20, "once per exit"


def test_an_attempt_that_was_waited_out_stands_in_the_history_as_lost() -> None:
    """The count of restarts by cause is made from it."""
    tx = multi(actions.Assign("j", "w", job(), own(S.REVOKED), HOST, FRESH, Waited(SEEN)))
    assert [(e.event, e.attempt) for e in own_written(tx).history if e.event == "lost"] == [("lost", 2)]


def test_a_buried_attempt_ran_as_long_as_its_last_renewal_said() -> None:
    for seen_lease, ran_s in ((lease(ran_s=700.0), 700.0), (lease(ran_s=700.0, claim="older"), 0.0)):
        assert (
            own_written(multi(actions.Bury("j", "w", own(S.REVOKED), Waited(seen_lease.seen)))).ran_s == ran_s
        )


def test_what_rests_on_the_full_wait_checks_the_lease_as_it_was_seen() -> None:
    for action in (
        ALL[actions.Bury],
        actions.Assign("j", "w", job(), own(S.REVOKED), HOST, FRESH, Waited(SEEN)),
        actions.CleanUp("j", "w", leftover(), own(S.DRAINING), SEEN, dead=True, waited=Waited(SEEN)),
    ):
        assert Check("/c/lease/j", 5) in multi(action).ops


def test_a_lease_that_was_absent_must_still_be_absent() -> None:
    ops = multi(actions.Bury("j", "w", own(S.REVOKED), Waited(None))).ops
    assert ops[3:5] == (Create("/c/lease/j", b""), Delete("/c/lease/j", 0))


def test_revoke_loses_against_a_renewal() -> None:
    assert Check("/c/lease/j", 5) in multi(ALL[actions.Revoke]).ops


def test_conclude_takes_the_reference_and_leaves_a_dirty_result_in_one_step() -> None:
    tx = multi(ALL[actions.Conclude])
    assert Delete("/c/jobs/j", 3) in tx.ops
    (result,) = created(tx)
    assert decode(Result, result.data, result.path).outcome is Outcome.FAILED


REFERRING = [kind for kind, action in ALL.items() if isinstance(getattr(action, "ref", None), Found)]


@pytest.mark.parametrize("kind", REFERRING, ids=lambda kind: kind.__name__)
def test_whatever_a_leader_writes_of_a_job_it_keeps_the_quarantines_that_are_over(kind: type[Any]) -> None:
    ref = ALL[kind].ref
    tx = multi(replace(ALL[kind], ref=Found(replace(ref.record, quarantined=(1,)), ref.version)))
    written = {op.path: op.data for op in tx.ops if isinstance(op, Create | SetData)}
    for path, record in (("/c/jobs/j", JobRef), ("/c/results/u1", Result)):
        if path in written:
            assert decode(record, written[path], path).quarantined == (1,)


def test_clean_up_of_a_dead_name_takes_lease_and_claim_and_keeps_uid_and_attempt() -> None:
    found = Leftover(leftover().result, CLAIM)
    tx = multi(actions.CleanUp("j", "w", found, exited(), SEEN, dead=True))
    assert {Delete("/c/lease/j", 5), Delete("/c/checkpoints/h", 2)} <= set(tx.ops)
    written = own_written(tx)
    assert (written.state, written.uid, written.attempt) == (S.VACANT, "u1", 2)


def test_clean_up_beside_a_newer_uid_touches_neither_ownership_nor_lease() -> None:
    tx = multi(
        actions.CleanUp(
            "j", "w", Leftover(leftover().result, CLAIM), own(S.CLAIMED, uid="u2"), None, dead=False
        )
    )
    assert Check("/c/own/j", 7) in tx.ops
    assert not any(op.path in ("/c/own/j", "/c/lease/j") for op in tx.ops if isinstance(op, SetData | Delete))


def test_what_is_remembered_of_the_checkpoint_stays_with_the_name() -> None:
    """An assignment keeps it; when the lease goes, what that knew goes to the ownership."""
    older, newer = (
        CheckpointExpectation(place="p", queries=("q 5",)),
        CheckpointExpectation(place="p", queries=("q 9",)),
    )
    kept = replace(own(S.VACANT), record=replace(own(S.VACANT).record, remembered=older))
    assert own_written(multi(actions.Assign("j", "w", job(), kept, HOST, FRESH))).remembered == older
    assert (
        own_written(multi(actions.CleanUp("j", "w", leftover(), kept, SEEN, dead=True))).remembered == older
    )
    assert isinstance(SEEN, Found)
    remembering = replace(SEEN, record=replace(SEEN.record, remembered=newer))
    assert (
        own_written(multi(actions.CleanUp("j", "w", leftover(), kept, remembering, dead=True))).remembered
        == newer
    )
    assert (
        own_written(multi(actions.CleanUp("j", "w", leftover(), kept, None, dead=True))).remembered == older
    )
