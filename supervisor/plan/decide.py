"""Decides what to do about one row of the View: it finds the cell of the table, then calls one small function
per decision.

Only ``plan.make`` calls it. It is pure. A decision is an action, a candidate for placement (an assignment
still without a host), or a note that says why nothing is done and until when.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Final

from supervisor.model.actions import (
    Action,
    Alarm,
    Bury,
    CleanUp,
    Conclude,
    Drain,
    FinishUpdate,
    GiveUpdateUp,
    KeepSavepoint,
    Note,
    Revoke,
    RollBack,
    RollBackToSavepoint,
    SuspendExhausted,
    Unassign,
    Waited,
)
from supervisor.model.checkpoint_expectation import (
    CheckpointExpectation,
    queries_of,
    to_be_expected,
    with_batches,
)
from supervisor.model.driver_memory import next_memory
from supervisor.model.headline import headline
from supervisor.model.lease_terms import LEASE_MAX_S, LONGEST_WAIT_S, wait_by_terms_s
from supervisor.model.phrases import counted
from supervisor.model.records import (
    Cause,
    Desired,
    JobRef,
    Member,
    Outcome,
    Ownership,
    OwnState,
    RollbackRule,
    Update,
)
from supervisor.model.restart import Account, OnExhausted, spent
from supervisor.model.seen import Found, Unreadable
from supervisor.model.state import (
    account_of,
    delay_of,
    follows_roll_back,
    has_failed_query,
    has_finished,
    is_pending,
    left_by_update,
    next_attempt,
    observed_update,
    queries_before,
    why_update_failed,
)
from supervisor.model.view import Leftover, Row, home_of
from supervisor.plan.prepare import Preparations, waits_for_restart
from supervisor.plan.table import ROWS, TABLE, Do, Owned, Wanted
from supervisor.plan.update_savepoint import back_to_savepoint, before_hand_over, is_own_savepoint

LEFT_BEHIND_MAX_S: Final = 60.0
"""For so long the leader waits to hear whether the target of an update has left anything in the checkpoint."""

IF_CLEAN: Final = (RollbackRule.CLEAN, RollbackRule.SAVEPOINT)
"""With these rules an update is rolled back on the same checkpoint only if its target has left nothing there."""

MAY_HAVE_LEFT: Final = "nothing says that it left its checkpoint as it was"
"""Is said of a target where there is no answer: to the leader, or to a command, which does not have the leader's."""

FRESH = Account(failures=0, charged=0, recent_s=(), delay_s=0.0, exhausted=False)


@dataclass(frozen=True, slots=True)
class WaitingAssignment:
    """Is an assignment that is due and waits for a slot. ``waited`` means that it rests on a full wait, to be
    guarded by the lease. ``queries`` is what is known of the checkpoint, as pairs of ``CheckpointExpectation``; ``left`` is
    as in ``Assign``. ``home`` is the host that has what the job wrote to its working directory, or is empty.

    ``meanwhile`` cleans what an older uid left behind, in case there is no slot now.
    """

    name: str
    why: str
    ref: Found[JobRef]
    own: Found[Ownership]
    account: Account
    waited: Waited | None = None
    meanwhile: CleanUp | None = None
    queries: tuple[str, ...] = ()
    left: str = ""
    home: str = ""

    @property
    def phrase(self) -> str:
        return f"start attempt {next_attempt(self.ref.record, self.own.record)}"


@dataclass(frozen=True, slots=True)
class Decision:
    """Has exactly one of ``action``, ``candidate``, ``note``; ``alarm`` may come with any of them."""

    action: Action | None = None
    candidate: WaitingAssignment | None = None
    note: Note | None = None
    alarm: Alarm | None = None


@dataclass(frozen=True, slots=True)
class Case:
    """Holds what a decision is made from. An assignment may stay unclaimed for ``claim_timeout_s``.

    ``accepted_zxid`` is when a restored registry was last accepted; 0 means never. ``prepared`` has the requests for
    prepared drivers; if it is None, a restart waits for none.
    """

    row: Row
    owned: Owned
    wanted: Wanted
    members: Mapping[str, Member]
    now_s: float
    claim_timeout_s: float
    accepted_zxid: int = 0
    prepared: Preparations | None = None

    @property
    def name(self) -> str:
        return self.row.name

    @property
    def ref(self) -> Found[JobRef]:
        assert isinstance(self.row.ref, Found)
        return self.row.ref

    @property
    def own(self) -> Found[Ownership]:
        assert isinstance(self.row.own, Found)
        return self.row.own

    def waits(self, why: str, wait_s: float | None = None) -> Decision:
        return Decision(note=Note(self.name, why, wait_s))


def decide(
    row: Row,
    members: Mapping[str, Member],
    now_s: float,
    claim_timeout_s: float,
    accepted_zxid: int = 0,
    prepared: Preparations | None = None,
) -> Decision:
    """Returns the decision for one name. A name with a flaw is left alone (I9): nothing is done on doubt."""
    if row.flaws or isinstance(row.ref, Unreadable):
        why = "; ".join(row.flaws) or (row.ref.reason if isinstance(row.ref, Unreadable) else "")
        return Decision(note=Note(row.name, why, quarantined=True), alarm=Alarm(why, row.name))
    if row.is_torn:
        return Decision(
            note=Note(row.name, "its reference and its result were read at different moments: read again")
        )
    owned, wanted = cell_of(row)
    case = Case(row, owned, wanted, members, now_s, claim_timeout_s, accepted_zxid, prepared)
    decision = DECIDERS[TABLE[owned, wanted]](case)
    if decision.note is not None:
        older = _older_leftover(case)
        if older is not None:
            return Decision(action=older, alarm=decision.alarm)
    if decision.candidate is not None:
        return replace(decision, candidate=replace(decision.candidate, meanwhile=_older_leftover(case)))
    return decision


def cell_of(row: Row) -> tuple[Owned, Wanted]:
    """Returns row and column of the table."""
    wanted = _wanted(row)
    if row.own is None:
        return Owned.ABSENT, wanted
    if isinstance(row.own, Unreadable):
        return Owned.UNREADABLE, wanted
    own = row.own.record
    owned = ROWS[own.state, _is_same(row, own)]
    if owned is Owned.CLAIMED_RENEWED and full_wait_over(row) is not None:
        owned = Owned.CLAIMED_SILENT
    return owned, wanted


def _wanted(row: Row) -> Wanted:
    if isinstance(row.ref, Found):
        return Wanted.RUNNING if row.ref.record.desired is Desired.RUNNING else Wanted.SUSPENDED
    return Wanted.GONE_DIRTY if row.leftovers else Wanted.GONE_CLEAN


def _is_same(row: Row, own: Ownership) -> bool:
    """Says whether /own has the uid of the reference. Without a reference the uid of a dirty result takes its
    place; without either, /own is on its own, and counts as the same."""
    if isinstance(row.ref, Found):
        return own.uid == row.ref.record.uid
    return not row.leftovers or any(left.result.record.uid == own.uid for left in row.leftovers)


# -- the full wait ------------------------------------------------------------------------------------------------


def wait_of_s(row: Row) -> float:
    """Returns W for the attempt in /own: by the terms of its own lease record, else the longest there can be."""
    lease = row.lease_of_owner
    return LONGEST_WAIT_S if lease is None else wait_by_terms_s(lease.lease_s, lease.executors_outlive_s)


def full_wait_over(row: Row) -> Waited | None:
    """Returns the guard that a write resting on the full wait must carry, or None while the wait is not over.

    The wait counts only up to a read of the lease that was *sent* at or after first_seen_at_s + W (protocol §5).
    """
    if row.lease is None or row.lease.silent_s < wait_of_s(row):
        return None
    return Waited(row.lease.seen)


def _remaining_s(case: Case) -> float | None:
    if case.row.lease is None:
        return None
    return max(0.0, case.row.lease.first_seen_at_s + wait_of_s(case.row) - case.now_s)


def _overdue(case: Case) -> bool:
    """Says whether a draining attempt goes on renewing for longer than its stop grace + D."""
    if case.own.record.state is not OwnState.DRAINING:
        return False
    lease = case.row.lease_of_owner
    allowed_s = lease.stop_grace_s + lease.lease_s if lease else LEASE_MAX_S
    return case.now_s - case.row.own_seen_at_s > allowed_s


STILL_THERE: Final = {
    OwnState.CLAIMED: "still runs",
    OwnState.DRAINING: "is being stopped",
    OwnState.REVOKED: "was given up",
}


def _when_dead(case: Case, then: Callable[[Waited], Decision]) -> Decision:
    waited = full_wait_over(case.row)
    if waited is not None:
        return then(waited)
    if _overdue(case):
        return _revoke(case, "its orderly stop outlasts stop_grace + lease")
    own = case.own.record
    how = STILL_THERE.get(own.state, f"is {own.state.value}")
    return case.waits(f"attempt {own.attempt} {how}: waiting for its exit", _remaining_s(case))


# -- the decisions ------------------------------------------------------------------------------------------------


def _nothing(case: Case) -> Decision:
    return case.waits(f"{case.wanted.value}, ownership {case.owned.value}")


def _quarantine(case: Case) -> Decision:
    own = case.row.own
    why = (
        own.reason
        if isinstance(own, Unreadable)
        else f"/own/{case.name} is absent although the job is registered"
    )
    return Decision(note=Note(case.name, why, quarantined=True), alarm=Alarm(why, case.name))


def _candidate(case: Case, why: str, acc: Account, waited: Waited | None = None) -> Decision:
    queries, home = _known_queries(case), home_of(case.row)
    return Decision(
        candidate=WaitingAssignment(
            case.name, why, case.ref, case.own, acc, waited, queries=queries, home=home
        )
    )


def _known_queries(case: Case) -> tuple[str, ...]:
    """Returns what is known of the checkpoint of an update that is judged; else nothing, which no assignment needs."""
    job, lease = case.ref.record, case.row.lease
    if observed_update(job) is None:
        return ()
    newest = lease.seen.record.remembered if lease is not None and isinstance(lease.seen, Found) else None
    own = case.own.record
    expected = to_be_expected(job.terms.checkpoint, "", newest, own.remembered)
    if expected is None:
        return ()
    mine = own.committed if own.uid == job.uid else ()
    return with_batches(expected, queries_of(CheckpointExpectation(place="", queries=mine))).queries


def _assign(case: Case) -> Decision:
    own = case.own.record
    if _begins_afresh(case.ref.record, own):
        return _candidate(case, "to be started", FRESH)
    return _candidate(case, "to be started", _account_after(own))


def _assign_first(case: Case) -> Decision:
    return _candidate(case, "to be started for the first time", FRESH)


def _check_assignment(case: Case) -> Decision:
    own = case.own.record
    if own.job_version != case.ref.version:
        return _unassign(case, "the job was changed after the assignment")
    if own.supervisor not in case.members:
        return _unassign(case, f"supervisor {own.supervisor} is gone")
    if case.own.mzxid < case.accepted_zxid:
        return _unassign(
            case, "it was assigned before the restored registry was accepted: that attempt may have run since"
        )
    waited_s = case.now_s - case.row.own_seen_at_s
    held = delay_of(own, case.members[own.supervisor])
    why = f": {held}" if held else ""
    if waited_s >= case.claim_timeout_s:
        return _unassign(case, f"{own.supervisor} did not claim it within {case.claim_timeout_s:g} s{why}")
    return case.waits(f"assigned to {own.supervisor}, not yet claimed{why}", case.claim_timeout_s - waited_s)


def _unassign(case: Case, why: str) -> Decision:
    return Decision(action=Unassign(case.name, why, case.own))


def _unassign_plain(case: Case) -> Decision:
    return _unassign(case, "the job is suspended")


def _unassign_alarm(case: Case) -> Decision:
    why = f"impossible: {case.owned.value} while {case.wanted.value}"
    return Decision(action=Unassign(case.name, why, case.own), alarm=Alarm(why, case.name))


def _keep(case: Case) -> Decision:
    own, job = case.own.record, case.ref.record
    if own.revision != job.revision:
        return _held(case, f"revision {job.revision}") or _update(case)
    if own.restart_nonce != job.restart_nonce and job.move_in_force is None:
        return _held(case, "a restart") or _restart(case)
    if observed_update(job) is not None:
        return _observe(case)
    return case.waits("running as wanted", _remaining_s(case))  # ``plan.moves`` may move it all the same


def _held(case: Case, asked: str) -> Decision | None:
    """Returns that an attempt that runs goes on, if no host that takes jobs has what its job requires. An update is not
    given up for that."""
    nowhere = case.prepared.start_places.nowhere(case.ref.record) if case.prepared is not None else ""
    if not nowhere:
        return None
    why = f"{asked} was asked for, and {nowhere}: attempt {case.own.record.attempt} goes on"
    return Decision(note=Note(case.name, why, unplaceable=True))


def _observe(case: Case) -> Decision:
    """Decides about an attempt of an update's target that runs: it is observed from when this leader first saw it run."""
    job, own = case.ref.record, case.own.record
    update = observed_update(job)
    assert update is not None and update.policy is not None
    needed_s, lease = update.policy.observe_s, case.row.lease_of_owner
    since_at_s = case.row.lease.running_at_s if lease is not None and case.row.lease is not None else None
    alarm = _alarm_of_update(case, left_by_update(job, own)) if why_update_failed(job, own) else None
    if since_at_s is None:
        why = f"revision {job.revision} is to be observed for {needed_s:g} s from its first batch on"
        return Decision(note=Note(case.name, why, _remaining_s(case)), alarm=alarm)
    left_s = since_at_s + needed_s - case.now_s
    if left_s <= 0 and (lease is None or (not has_failed_query(lease) and lease.cluster_wait is None)):
        why = f"revision {job.revision} has run for {needed_s:g} s"
        return Decision(action=FinishUpdate(case.name, why, case.ref, case.own))
    why = f"running as wanted; revision {job.revision} is observed for {needed_s:g} s"
    waits_s = [each for each in (_remaining_s(case), left_s) if each is not None and each > 0]
    return Decision(note=Note(case.name, why, min(waits_s, default=None)), alarm=alarm)


def _update(case: Case) -> Decision:
    """Decides about an attempt that runs another revision than is wanted. It goes on until a driver of the new one is
    prepared; a revision of which none can be prepared is given up, and stops nothing (protocol §9.2)."""
    own, job = case.own.record, case.ref.record
    if case.prepared is None or not is_pending(job, own):
        return _hand_over(case, f"revision {job.revision} replaces {own.revision}")
    said = case.prepared.unless_not_startable(job, own, case.prepared.update(job, own))
    if said.stop:
        return _hand_over(case, said.why)
    if said.impossible:
        return Decision(action=GiveUpdateUp(case.name, said.why, case.ref, case.own))
    prepares = None if waits_for_restart(job, own) or said.holds_stop else said.host
    note = Note(case.name, said.why, said.wait_s, prepares=prepares, holds_stop=said.holds_stop)
    return Decision(note=note)


def _hand_over(case: Case, why: str) -> Decision:
    """Decides about an attempt that is to be stopped for an update: where ``update.rollback: savepoint`` asks for it, a
    savepoint is made and written down before."""
    own, job = case.own.record, case.ref.record
    step = before_hand_over(case.row, job, own, _known_queries(case), case.now_s)
    if step is None:
        return _drain(case, why)
    if step.keep:
        return Decision(action=KeepSavepoint(case.name, step.why, case.ref, case.own, step.keep))
    if step.give_up:
        return Decision(action=GiveUpdateUp(case.name, step.give_up, case.ref, case.own))
    return Decision(note=Note(case.name, f"{why}; {step.why}", step.wait_s, saves=True))


def _restart(case: Case) -> Decision:
    """Decides a restart of an attempt that runs: it goes on until a driver is prepared, where one can be."""
    if case.prepared is None:
        return _drain(case, "a restart was asked for")
    job, own = case.ref.record, case.own.record
    said = case.prepared.unless_not_startable(job, own, case.prepared.restart(job, own))
    if said.stop:
        return _drain(case, said.why)
    prepares = None if said.holds_stop else said.host
    note = Note(case.name, said.why, said.wait_s, prepares=prepares, holds_stop=said.holds_stop)
    return Decision(note=note)


def _drain(case: Case, why: str) -> Decision:
    return Decision(action=Drain(case.name, why, case.ref, case.own))


def _drain_suspended(case: Case) -> Decision:
    return _drain(case, "the job is suspended")


def _revoke(case: Case, why: str) -> Decision:
    if case.row.lease is None:
        return case.waits(f"{why}; its lease is not yet read")
    return Decision(action=Revoke(case.name, why, case.own, case.row.lease.seen))


def _revoke_silent(case: Case) -> Decision:
    return _revoke(case, f"no renewal for the full wait of {wait_of_s(case.row):.1f} s")


def _revoke_alarm(case: Case) -> Decision:
    why = f"impossible: {case.owned.value} while {case.wanted.value}"
    decision = _revoke(case, why)
    return Decision(action=decision.action, note=decision.note, alarm=Alarm(why, case.name))


def _assign_when_dead(case: Case) -> Decision:
    own, job = case.own.record, case.ref.record
    if _begins_afresh(job, own):
        acc = FRESH
    else:
        lease = case.row.lease_of_owner
        cause = Cause.LOST if own.state is OwnState.REVOKED else Cause.STOPPED
        acc = account_of(job, replace(own, cause=cause, ran_s=lease.ran_s if lease is not None else 0.0))
    why = f"attempt {own.attempt} is dead: nothing was heard of it for the full wait W"
    return _when_dead(case, lambda waited: _candidate(case, why, acc, waited))


def _bury_when_dead(case: Case) -> Decision:
    why = "nothing was heard of it for the full wait W, and the job shall not run now"
    return _when_dead(case, lambda waited: Decision(action=Bury(case.name, why, case.own, waited)))


def _bury_alarm(case: Case) -> Decision:
    decision = _bury_when_dead(case)
    why = f"impossible: {case.owned.value} while {case.wanted.value}"
    return Decision(action=decision.action, note=decision.note, alarm=Alarm(why, case.name))


def _clean(case: Case) -> Decision:
    if case.row.lease is None:
        return case.waits("to be cleaned; its lease is not yet read")
    return Decision(action=_clean_up(case, _leftover_to_clean(case), dead=True))


def _clean_when_dead(case: Case) -> Decision:
    left = _leftover_to_clean(case)
    return _when_dead(case, lambda waited: Decision(action=_clean_up(case, left, dead=True, waited=waited)))


def _conclude_if_finished(case: Case) -> Decision:
    if has_finished(case.ref.record, case.own.record):
        why = "exit 0 of a bounded job"
        return Decision(action=Conclude(case.name, why, case.ref, case.own, Outcome.FINISHED, FRESH))
    return _nothing(case)


def _after_exit(case: Case) -> Decision:
    """Decides the exited row: finished, restarted by the user, refused for good, budget spent, or assigned
    after back-off."""
    finished = _conclude_if_finished(case)
    if finished.action is not None:
        return finished
    own, job = case.own.record, case.ref.record
    if follows_roll_back(job, own):
        return _candidate(case, f"revision {own.revision} was rolled back", account_of(job, own))
    if _begins_afresh(job, own):
        return _candidate(case, "to be started again", FRESH)
    undone, left = _after_failed_update(case)
    if undone is not None or left is None:
        return undone or _after_failure(case)
    decision = replace(_after_failure(case), alarm=_alarm_of_update(case, left))
    again = decision.candidate
    return decision if again is None else replace(decision, candidate=replace(again, left=left))


def _after_failure(case: Case) -> Decision:
    own, job = case.own.record, case.ref.record
    if own.permanent:
        return Decision(note=Note(case.name, own.reason, quarantined=True))
    acc = account_of(job, own)
    if acc.exhausted:
        return _exhausted(case, acc)
    wait_s = case.row.own_seen_at_s + acc.delay_s - case.now_s
    if wait_s > 0 and not _standby_takes_over(case, acc):
        return case.waits(f"back-off after {counted(acc.failures, 'failure')}: {own.reason}", wait_s)
    return _candidate(case, f"to be restarted after {own.cause.value if own.cause else 'its exit'}", acc)


def _after_failed_update(case: Case) -> tuple[Decision | None, str | None]:
    """Decides an exit of an update's target while that is observed (protocol §9.2): None for what follows any exit, and
    where somebody should decide, why it is not rolled back. The reference is written only while no attempt is assigned or
    claimed."""
    own, job = case.own.record, case.ref.record
    update = observed_update(job)
    if update is None or update.policy is None or not why_update_failed(job, own):
        return None, None
    if update.untried:
        return None, f"revision {update.before.revision} has never run"
    why = f"revision {update.target} failed: {headline(own.reason) or (own.cause.value if own.cause else 'it ended')}"
    undone = Decision(action=RollBack(case.name, why, case.ref, case.own))
    rule = update.policy.rollback
    if rule is RollbackRule.CONTINUE or (rule in IF_CLEAN and job.terms.checkpoint is None):
        return undone, None
    since_at_s = case.row.own_seen_at_s
    if asks_what_was_left(case.row):
        if case.row.left_behind == "":
            return undone, None
        looked_s = case.row.examined_since_s
        since_at_s = (since_at_s if looked_s is None else looked_s) + LEFT_BEHIND_MAX_S
        left_s = since_at_s - case.now_s
        if case.row.left_behind is None and left_s > 0:
            what = f"whether revision {update.target} has left anything in the checkpoint is being looked at"
            waits = f"{what}: if not, {update.before.revision} goes on"
            return Decision(note=Note(case.name, waits, left_s, examines=True)), None
    if rule is RollbackRule.SAVEPOINT and update.savepoint:
        restoring_at_s = case.row.restoring_since_at_s
        return _back_to_savepoint(case, update, why, since_at_s if restoring_at_s is None else restoring_at_s)
    if rule not in IF_CLEAN:
        return None, ""
    return None, case.row.left_behind or MAY_HAVE_LEFT


def _back_to_savepoint(
    case: Case, update: Update, why: str, since_at_s: float
) -> tuple[Decision | None, str | None]:
    step = back_to_savepoint(case.row, case.ref.record, update, case.now_s, since_at_s)
    if step.restored is not None:
        action = RollBackToSavepoint(case.name, why, case.ref, case.own, step.restored)
        return Decision(action=action), None
    if step.failed:
        return None, step.failed
    return Decision(note=Note(case.name, step.why, step.wait_s, restores=True)), None


def asks_what_was_left(row: Row) -> bool:
    """Says whether it depends on what is in the checkpoint whether the update of a job is rolled back."""
    if row.flaws or not isinstance(row.ref, Found) or not isinstance(row.own, Found):
        return False
    job, own = row.ref.record, row.own.record
    update = observed_update(job)
    if update is None or update.policy is None or update.policy.rollback not in IF_CLEAN:
        return False
    if update.untried:
        return False
    if update.savepoint and not is_own_savepoint(update) and queries_before(job, own) is None:
        return False  # an update before it may have left something, too
    wanted = job.desired is Desired.RUNNING and job.terms.checkpoint is not None
    return wanted and own.state is OwnState.EXITED and bool(why_update_failed(job, own))


def _alarm_of_update(case: Case, left: str) -> Alarm:
    """Returns what somebody should know of a target that has failed and is not rolled back. ``left`` is what it has left in
    the checkpoint, or is empty."""
    because = f" ({left})" if left else ""
    return Alarm(f"{why_update_failed(case.ref.record, case.own.record)}{because}", case.name)


def _standby_takes_over(case: Case, acc: Account) -> bool:
    """Says whether the next attempt waits for no back-off: after the first failure in a row, where the standby of the
    job is ready for it. After a second failure in a row the back-off is that of a job without a standby."""
    job, own = case.ref.record, case.own.record
    if acc.failures != 1 or job.terms.standby is None or case.prepared is None:
        return False
    return bool(case.prepared.ready_hosts(job, own, next_memory(job, own)))


def _exhausted(case: Case, acc: Account) -> Decision:
    own, policy = case.own.record, case.ref.record.terms.restart
    no_more = spent(policy)
    if policy.on_exhausted is OnExhausted.SUSPEND:
        return Decision(action=SuspendExhausted(case.name, f"{no_more}: {own.reason}", case.ref, case.own))
    why = f"{own.reason}; {no_more}" if own.reason else no_more
    return Decision(action=Conclude(case.name, why, case.ref, case.own, Outcome.FAILED, acc))


# -- accounts and leftovers ---------------------------------------------------------------------------------------


def _begins_afresh(job: JobRef, own: Ownership) -> bool:
    """Says whether the failures are reset: ``resume`` and ``restart`` (a new nonce) do so, and a new program
    has no failures of the old one."""
    return own.uid != job.uid or own.restart_nonce != job.restart_nonce or own.revision != job.revision


def _account_after(own: Ownership) -> Account:
    """Returns the restart account unchanged: withdrawing an assignment does not count as a restart."""
    return Account(
        failures=own.failures, charged=own.charged, recent_s=own.recent_s, delay_s=0.0, exhausted=False
    )


def _leftover_to_clean(case: Case) -> Leftover:
    """Returns the leftover that /own is about, if any, else the first. The others follow in later passes."""
    uid = case.own.record.uid
    return next((left for left in case.row.leftovers if left.result.record.uid == uid), case.row.leftovers[0])


def _clean_up(case: Case, left: Leftover, *, dead: bool, waited: Waited | None = None) -> CleanUp:
    lease = case.row.lease.seen if dead and case.row.lease else None
    why = f"{left.result.record.outcome.value}, leftovers to remove"
    return CleanUp(case.name, why, left, case.own, lease, dead, waited, _deletes_checkpoint(case, left))


def _deletes_checkpoint(case: Case, left: Leftover) -> bool:
    """Says whether the clean-up deletes the checkpoint. It deletes only what this uid has claimed without a
    break. A claim from before an accepted restore does not prove who owns the data: it may belong to a job of the lost
    state."""
    return (
        left.result.record.deletes_checkpoint
        and left.claim is not None
        and left.claim[1].mzxid >= case.accepted_zxid
    )


def _older_leftover(case: Case) -> CleanUp | None:
    """Returns the clean-up of a dirty older uid, of its own things only, once /own is dead or belongs to the
    current uid."""
    if not isinstance(case.row.own, Found):
        return None
    own = case.own.record
    dead = own.state in (OwnState.VACANT, OwnState.EXITED)
    current = case.row.ref.record.uid if isinstance(case.row.ref, Found) else None
    for left in case.row.leftovers:
        uid = left.result.record.uid
        if uid != current and (dead or own.uid == current):
            return _clean_up(case, left, dead=False)
    return None


DECIDERS: Mapping[Do, Callable[[Case], Decision]] = {
    Do.NOTHING: _nothing,
    Do.QUARANTINE: _quarantine,
    Do.ASSIGN: _assign,
    Do.ASSIGN_FIRST: _assign_first,
    Do.CHECK_ASSIGNMENT: _check_assignment,
    Do.UNASSIGN: _unassign_plain,
    Do.UNASSIGN_ALARM: _unassign_alarm,
    Do.KEEP: _keep,
    Do.DRAIN: _drain_suspended,
    Do.REVOKE: _revoke_silent,
    Do.REVOKE_ALARM: _revoke_alarm,
    Do.ASSIGN_WHEN_DEAD: _assign_when_dead,
    Do.BURY_WHEN_DEAD: _bury_when_dead,
    Do.BURY_ALARM: _bury_alarm,
    Do.CLEAN: _clean,
    Do.CLEAN_WHEN_DEAD: _clean_when_dead,
    Do.AFTER_EXIT: _after_exit,
    Do.CONCLUDE_IF_FINISHED: _conclude_if_finished,
}
