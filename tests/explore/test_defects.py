"""A defect that changes nothing would make the gate green by itself: here each is shown to be planted, and taken out again."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import pytest

from supervisor.act.transactions import transaction_for
from supervisor.coord import election
from supervisor.coord.contender import Contender
from supervisor.model import actions
from supervisor.model.actions import Waited
from supervisor.model.checkpoint_expectation import CheckpointExpectation
from supervisor.model.claimed_location import ClaimedLocation
from supervisor.model.records import (
    Acceptance,
    Assignment,
    BlobRef,
    Cause,
    CheckpointClaim,
    CheckpointState,
    Cordon,
    Desired,
    EpochRecord,
    Fork,
    Handover,
    JobRef,
    MoveRequest,
    Notifications,
    NotifyingSince,
    Outcome,
    OwnState,
    Pause,
    PrepareLevel,
    Promotion,
    Result,
)
from supervisor.model.seen import Found, Unreadable
from supervisor.model.state import revision_of
from supervisor.model.transaction import Node, Stat, Transaction
from supervisor.model.view import UpdateRestored
from supervisor.plan.decide import FRESH
from supervisor.records.layout import Layout
from supervisor.registry import (
    attempt_writes,
    leader_writes,
    notification_writes,
    operator_writes,
    pending_deletions,
    promotion_writes,
    update_savepoint_writes,
    user_writes,
)
from supervisor.registry.attempt_writes import AttemptIdentity, Exit
from supervisor.registry.leader_write_context import LeaderWriteContext
from supervisor.registry.record_sweep import Deletion
from supervisor.registry.user_writes import AskedRevision, Move
from tests.explore import defects_of_guards
from tests.explore.defect import Defect
from tests.explore.defects import DEFECTS
from tests.explore.defects_of_guards import GUARDED, UNWRITTEN, named
from tests.explore.guards import guards_of
from tests.explore.planting import Edit, around, edited, plain
from tests.unit.plan.rows import HOST, exited, job, lease, leftover, own, updated

LAYOUT, S = Layout("/c"), OwnState
PATHS = LAYOUT
ME, EPOCH = election.Candidate("s1", ""), EpochRecord(epoch=3, supervisor="s1", op="op")
USER, LEADER = (
    user_writes.UserWriteContext(LAYOUT, "op-1", "now"),
    LeaderWriteContext(LAYOUT, 4, 11, "op-1", "now"),
)
SEEN, CLAIM = lease().seen, CheckpointClaim(location="s3://b/j", name="j", uid="u1")
ENTRY = Assignment(
    name="j",
    uid="u1",
    attempt=2,
    revision=1,
    job_version=3,
    own_version=7,
    spec=BlobRef(key="k", sha256="0", bytes=1),
    memory=100,
)
MINE, ENDED = AttemptIdentity("j", "u1", 2, "c"), Exit(Cause.USER_ERROR, "why")
LEFTOVER = replace(leftover(), claim=(LAYOUT.checkpoint("h"), Found(CLAIM, 2)))
TAKEN = ClaimedLocation(LAYOUT.checkpoint("h"), "s3://b/j", Found(CLAIM, 2), 9)
MOVE = Move(CheckpointExpectation(place="p"), SEEN, (LAYOUT.checkpoint("g"), Found(CLAIM, 5)))
FAILED: Found[Result] = Found(replace(leftover().result.record, outcome=Outcome.FAILED), 4)
UNDER_DELETION = Found(pending_deletions.pending_deletion(CLAIM, FAILED.record, "now"), 2)
ACCEPTED, WISH = (
    Found(Acceptance(id="a", epoch=9, by="me", at="now", wait_s=1.0), 6),
    Found(Handover(epoch=4, leader="s1", to="s2", by="me", at="now", op="op"), 6),
)
CORDON = Found(Cordon(supervisor="s1", cordoned=True, by="me", at="now", why="", op="op"), 2)
MOVED = job(restart_nonce="n2", move=MoveRequest(to="s2", nonce="n2", before="n1"))
NOTIFIED = Notifications(name="j", uid="u1")
NODE = Node(b"", Stat(5, 1))
OTHER: Found[JobRef] = Found(replace(job().record, name="k", uid="u2"), 8)


RESTORED = UpdateRestored(
    revision=replace(
        revision_of(updated().record), terms=replace(updated().record.terms, checkpoint="s3://b/k")
    ),
    lease=SEEN,
    claimed=ClaimedLocation(LAYOUT.checkpoint("h"), "s3://b/k", Found(CLAIM, 2), 9),
    left=(LAYOUT.checkpoint("g"), Found(CLAIM, 5)),
)


def forked() -> Found[JobRef]:
    return Found(replace(job().record, fork=Fork(of="k", uid="u2", savepoint="s", copying=True)), 3)


def promoted() -> Found[JobRef]:
    return Found(replace(job().record, promotion=Promotion(over="k", uid="u2", by="me", at="now")), 3)


def suspended(ref: Found[JobRef]) -> Found[JobRef]:
    return Found(replace(ref.record, desired=Desired.SUSPENDED), ref.version)


def act(action: actions.Action) -> Transaction:
    return transaction_for(action, LEADER)


MULTIS: dict[Any, tuple[Callable[[], Transaction | None], ...]] = {
    election.take_leadership: (
        lambda: election.take_leadership(PATHS, ME, epoch=4, op_id="op", seen=EPOCH, version=3),
    ),
    election.publish_distrust: (
        lambda: election.publish_distrust(PATHS, ME, epoch=4, fence=4, op_id="op", distrust="why"),
    ),
    election.accept: (
        lambda: election.accept(PATHS, election.RestoredRegistry(NODE, EPOCH, 3, NODE), ACCEPTED.record),
    ),
    user_writes.submit: (
        lambda: user_writes.submit(USER, job().record, None, TAKEN),
        lambda: user_writes.submit(USER, job().record, own(S.EXITED), TAKEN),
    ),
    user_writes.register_again: (
        lambda: user_writes.register_again(USER, job().record, own(S.EXITED), FAILED, TAKEN),
        lambda: user_writes.register_again(USER, job().record, own(S.EXITED), FAILED, TAKEN, MOVE),
    ),
    user_writes.cancel: (
        lambda: user_writes.cancel(USER, job(), "j", "u1", own(S.CLAIMED)),
        lambda: user_writes.cancel(USER, job(), "j", "u1", own(S.CLAIMED), ended=Unreadable("torn", 3)),
    ),
    user_writes.cancel_failed: (lambda: user_writes.cancel_failed(USER, FAILED, own(S.EXITED)),),
    user_writes.suspend: (lambda: user_writes.suspend(USER, job(), own(S.CLAIMED)),),
    user_writes.run_again: (lambda: user_writes.run_again(USER, job(), own(S.CLAIMED), "n2", "restarted"),),
    user_writes.move: (
        lambda: user_writes.move(USER, job(), own(S.CLAIMED), "s2"),
        lambda: user_writes.move(USER, MOVED, own(S.CLAIMED), None),
    ),
    user_writes.update: (
        lambda: user_writes.update(
            USER, job(), own(S.CLAIMED), AskedRevision(revision_of(updated().record), "me")
        ),
    ),
    user_writes.resume_from: (
        lambda: user_writes.resume_from(USER, job(), own(S.EXITED), job().record, TAKEN, MOVE),
    ),
    promotion_writes.finish_fork: (
        lambda: promotion_writes.finish_fork(USER, forked(), own(S.VACANT), (), suspended=False),
    ),
    promotion_writes.set_promotion: (
        lambda: promotion_writes.set_promotion(USER, job(), own(S.CLAIMED), None),
    ),
    promotion_writes.promote: (
        lambda: promotion_writes.promote(USER, promoted(), own(S.CLAIMED), OTHER, own(S.CLAIMED)),
        lambda: promotion_writes.promote(USER, promoted(), own(S.CLAIMED), OTHER, own(S.EXITED)),
    ),
    promotion_writes.undo_promotion: (
        lambda: promotion_writes.undo_promotion(USER, promoted(), own(S.CLAIMED), OTHER, own(S.EXITED), "n"),
        lambda: promotion_writes.undo_promotion(
            USER, promoted(), own(S.CLAIMED), suspended(OTHER), own(S.EXITED), "n"
        ),
    ),
    leader_writes.assign: (
        lambda: act(actions.Assign("j", "w", job(), own(S.REVOKED), HOST, FRESH, Waited(SEEN))),
        lambda: act(actions.Assign("j", "w", job(), own(S.REVOKED), HOST, FRESH, Waited(None))),
    ),
    leader_writes.unassign: (lambda: act(actions.Unassign("j", "w", own(S.ASSIGNED))),),
    leader_writes.drain: (lambda: act(actions.Drain("j", "w", job(), own(S.CLAIMED))),),
    leader_writes.give_update_up: (lambda: act(actions.GiveUpdateUp("j", "w", updated(), own(S.CLAIMED))),),
    leader_writes.roll_update_back: (
        lambda: act(actions.RollBack("j", "w", updated(), own(S.EXITED, revision=2))),
    ),
    leader_writes.finish_update: (
        lambda: act(actions.FinishUpdate("j", "w", updated(), own(S.CLAIMED, revision=2))),
    ),
    update_savepoint_writes.keep_savepoint: (
        lambda: act(actions.KeepSavepoint("j", "w", updated(), own(S.CLAIMED), "update-2-0a1b2c3d")),
    ),
    update_savepoint_writes.roll_back_to_savepoint: (
        lambda: act(actions.RollBackToSavepoint("j", "w", updated(), own(S.EXITED, revision=2), RESTORED)),
    ),
    leader_writes.prepare: (
        lambda: act(actions.Prepare("j", "w", job(), own(S.CLAIMED), HOST, PrepareLevel.SESSION)),
        lambda: act(
            actions.Prepare("j", "w", job(), own(S.CLAIMED), HOST, PrepareLevel.SESSION, new_host=True)
        ),
    ),
    leader_writes.withdraw: (lambda: act(actions.Withdraw("j", "w", LAYOUT.preparation("s1", "u1", 1), 0)),),
    leader_writes.suspend_exhausted: (lambda: act(actions.SuspendExhausted("j", "w", job(), exited())),),
    leader_writes.revoke: (
        lambda: act(actions.Revoke("j", "w", own(S.CLAIMED), SEEN)),
        lambda: act(actions.Revoke("j", "w", own(S.CLAIMED), None)),
    ),
    leader_writes.bury: (lambda: act(actions.Bury("j", "w", own(S.REVOKED), Waited(SEEN))),),
    leader_writes.conclude: (
        lambda: act(actions.Conclude("j", "w", job(), exited(), Outcome.FAILED, FRESH)),
    ),
    leader_writes.clean_up: (
        lambda: act(
            actions.CleanUp("j", "w", LEFTOVER, own(S.DRAINING), SEEN, dead=True, waited=Waited(SEEN))
        ),
        lambda: act(actions.CleanUp("j", "w", LEFTOVER, own(S.VACANT), None, dead=False)),
    ),
    leader_writes.end_wait: (lambda: leader_writes.end_wait(LEADER, ACCEPTED),),
    attempt_writes.claim: (
        lambda: attempt_writes.claim(
            LAYOUT, ENTRY, own(S.ASSIGNED), "c", lease().seen.record, 5, "op", "now"
        ),  # type: ignore[union-attr]
        lambda: attempt_writes.claim(
            LAYOUT, ENTRY, own(S.ASSIGNED), "c", lease().seen.record, None, "op", "now"
        ),
    ),  # type: ignore[union-attr]
    attempt_writes.renew: (lambda: attempt_writes.renew(LAYOUT, "j", 8, lease().seen.record, "op"),),  # type: ignore[union-attr]
    attempt_writes.announce: (lambda: attempt_writes.announce(LAYOUT, "j", "u1", 2, 8, "op", stale=True),),
    attempt_writes.tombstone: (
        lambda: attempt_writes.tombstone(LAYOUT, own(S.CLAIMED), MINE, ENDED, "op", "now"),
    ),
    attempt_writes.refuse: (
        lambda: attempt_writes.refuse(LAYOUT, ENTRY, own(S.ASSIGNED), ENDED, "op", "now"),
    ),
    Deletion.transaction: tuple(
        partial(Deletion("it", "j", path, 3, 7).transaction, LEADER)
        for path in (
            LAYOUT.assignment("s1", "u1", 2),
            LAYOUT.lease("j"),
            LAYOUT.checkpoint("h"),
            LAYOUT.result("u1"),
            LAYOUT.revisions_of("u1"),
            LAYOUT.notifications_of("u1"),
        )
    ),
    notification_writes.write_notifications: (
        lambda: notification_writes.write_notifications(LEADER, None, NOTIFIED),
        lambda: notification_writes.write_notifications(LEADER, Found(NOTIFIED, 2), NOTIFIED),
    ),
    notification_writes.switch_notifying: (
        lambda: notification_writes.switch_notifying(LEADER, None, False),
        lambda: notification_writes.switch_notifying(
            LEADER, Found(NotifyingSince(on=False, since="t"), 2), True
        ),
    ),
    pending_deletions.begin_deletion: (
        lambda: pending_deletions.begin_deletion(
            LEADER, LAYOUT.checkpoint("h"), UNDER_DELETION, own(S.VACANT), 9
        ),
    ),
    pending_deletions.publish_waiting: (
        lambda: pending_deletions.publish_waiting(
            LEADER, UNDER_DELETION, LAYOUT.checkpoint("h"), FAILED, "why"
        ),
    ),
    pending_deletions.give_up_claim: (
        lambda: pending_deletions.give_up_claim(
            LEADER,
            LAYOUT.checkpoint("h"),
            UNDER_DELETION,
            own(S.CLAIMED),
            FAILED,
            CheckpointState.KEPT,
            "why",
        ),
        lambda: pending_deletions.give_up_claim(
            LEADER, LAYOUT.checkpoint("h"), UNDER_DELETION, own(S.VACANT), FAILED, CheckpointState.DELETED, ""
        ),
    ),
    operator_writes.unpause: (
        lambda: operator_writes.unpause(
            LAYOUT, Found(Pause(by="me", at="now", reason="why", op="op"), 0), 4, "op"
        ),
    ),
    operator_writes.cordon: (
        lambda: operator_writes.cordon(LAYOUT, CORDON.record, CORDON),
        lambda: operator_writes.cordon(LAYOUT, CORDON.record, None, with_parent=True),
    ),
    operator_writes.switchover: (lambda: operator_writes.switchover(LAYOUT, WISH.record, 4, WISH),),
    operator_writes.switched_over: (lambda: operator_writes.switched_over(LAYOUT, WISH, 4, "op"),),
}


def made(builder: Any) -> tuple[Transaction | None, ...]:
    return tuple(make() for make in MULTIS[builder])


def test_the_guards_that_are_dropped_are_all_that_the_multis_have() -> None:
    for builder, kinds in GUARDED:
        found = frozenset[str]().union(*(guards_of(tx) for tx in made(builder) if tx is not None))
        assert found == set(kinds), f"{builder.__qualname__}: {sorted(found)}"


def test_each_multi_of_the_writers_is_among_them() -> None:
    writers = (
        user_writes,
        leader_writes,
        attempt_writes,
        operator_writes,
        pending_deletions,
        promotion_writes,
    )
    builders = {
        function
        for module in writers
        for name, function in vars(module).items()
        if callable(function)
        and getattr(function, "__module__", "") == module.__name__
        and not name.startswith("_")
        and "Transaction" in str(getattr(function, "__annotations__", {}).get("return"))
    }
    assert builders - {builder for builder, _ in GUARDED} == {
        operator_writes.pause,
        leader_writes.make_parents,
    }, "these have no guard of their own but their creates"


@pytest.mark.parametrize(
    ("builder", "kind"),
    [
        *((builder, kind) for builder, kinds in GUARDED for kind in kinds),
        *((builder, kind) for builder, kind, _ in UNWRITTEN),
    ],
)
def test_a_dropped_guard_or_write_is_missing_in_the_multi(builder: Any, kind: str) -> None:
    before = made(builder)
    for defect in _about(builder, kind):
        with defect.patch():
            planted = made(builder)
        assert planted != before, f"{defect.name} changes nothing"
        if defect.name.endswith(f"-unguarded-by-{kind}"):
            assert all(kind not in guards_of(tx) for tx in planted if tx is not None), defect.name
        lengths = [len(tx.ops) for tx in planted if tx is not None]
        assert lengths == [len(tx.ops) for tx in before if tx is not None], "each operation keeps its place"
    assert made(builder) == before


def _about(builder: Any, kind: str) -> list[Defect]:
    names = (f"{named(builder)}-unguarded-by-{kind}", f"{named(builder)}-does-not-write-{kind}")
    return [defect for defect in defects_of_guards.DEFECTS if defect.name in names]


@pytest.mark.parametrize(
    "defect", [one for one in DEFECTS if one not in defects_of_guards.DEFECTS], ids=lambda one: one.name
)
def test_each_other_defect_is_in_the_code_while_it_is_planted_and_not_afterwards(defect: Defect) -> None:
    functions = changed_by(defect)
    before = [function.__code__ for function in functions]
    with defect.patch():
        for function, code in zip(functions, before, strict=True):
            planted = function.__code__
            assert (planted.co_code, planted.co_consts, planted.co_names) != (
                code.co_code,
                code.co_consts,
                code.co_names,
            )
    assert [function.__code__ for function in functions] == before


def changed_by(defect: Defect) -> list[Any]:
    """The functions whose text it edits, or the one that it stands around."""
    assert isinstance(defect.patch, partial)
    planting, arguments = defect.patch.func, defect.patch.args
    assert planting in (edited, around)
    return [plain(edit.function) for edit in arguments] if planting is edited else [plain(arguments[0])]


def test_each_defect_has_a_name_of_its_own_and_says_what_it_breaks() -> None:
    assert len({defect.name for defect in DEFECTS}) == len(DEFECTS) >= 40
    assert all(defect.of.startswith(("§", "I")) for defect in DEFECTS)


def test_a_text_that_is_not_there_is_an_error() -> None:
    with pytest.raises(ValueError, match="0 times"), edited(Edit(election.is_ours, "no such text", "")):
        pass
    with pytest.raises(ValueError, match="times, not once"), edited(Edit(election.is_ours, "s", "")):
        pass


def test_what_stands_around_a_function_is_seen_by_all_who_hold_it() -> None:
    held = election.hint_of
    with around(election.hint_of, lambda real, *args: f"planted: {real(*args).supervisor}"):
        assert str(held(ME, 1, None)) == "planted: s1"
    assert held(ME, 1, None).supervisor == "s1"


@pytest.mark.parametrize(
    ("old", "new", "name"),
    [
        ("self._the_client()", "self._a_client()", "self._a_client"),
        ("client.sync()", "klient.sync()", "klient"),
    ],
)
def test_a_defect_that_names_what_is_not_there_is_refused(old: str, new: str, name: str) -> None:
    """It would raise NameError, and every test would catch it, for a wrong reason."""
    with (
        pytest.raises(ValueError, match=f"names what is not there: {name}$"),
        edited(Edit(Contender._observe, old, new)),
    ):
        pass
