"""Leadership (§6), the commands (§5) and the decisions (§8), each rule undone, one at a time."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

from supervisor.coord import election, leadership
from supervisor.daemon.host import prepared_drivers
from supervisor.model import load, requirements, state
from supervisor.model.transaction import Check
from supervisor.operations import jobs, updating
from supervisor.plan import check, decide, make, place, placement, prepare
from supervisor.registry import fixed_znodes, leader_writes, record_sweep, resolve_outcome, user_writes
from supervisor.registry.leader_write_context import LeaderWriteContext
from tests.explore.defect import Defect
from tests.explore.planting import around, text

# -- leadership (§6) ---------------------------------------------------------------------------------------------------

STEP_DOWN = "§6: LOST, a new session, or its own deadline: step down"
DRAIN = "§6: cancel and await every task of the epoch before contending again (FLINK-9494, 9573)"
NEW_SESSION = "§6: new session = new epoch"
FENCE = "I4: every leader write checks the persistent epoch znode"

LEADERSHIP = (
    text(
        "suspended-taken-as-lost",
        "§6: SUSPENDED: the leader keeps its role (FLINK-10011)",
        (
            leadership.suspend,
            "return replace(\n"
            '        machine_state, state=State.SUSPENDED, why="the connection is down, the session may live"\n'
            "    ), (PauseTerm(),)",
            "return _step_down(machine_state, 'suspended')",
        ),
    ),
    text(
        "term-is-not-drained",
        DRAIN,
        (
            leadership._step_down,
            "return replace(machine_state, state=State.STEPPING_DOWN, why=why), (EndTerm(why),)",
            "return _candidacy_over(machine_state, why), (Disconnect(), Connect())",
        ),
    ),
    text(
        "new-session-keeps-the-epoch",
        NEW_SESSION,
        (leadership.resume, "if event.session != machine_state.session:", "if False:"),
        (leadership.same_term, "if event.session == machine_state.session", "if True"),
    ),
    text(
        "lost-session-keeps-the-term",
        STEP_DOWN,
        (
            leadership.lose,
            'return _step_down(machine_state, "the session was lost")',
            "return machine_state, ()",
        ),
    ),
    text(
        "leader-without-a-deadline",
        STEP_DOWN,
        (leadership.deadline, "if event.now_s < event.answered_at_s + machine_state.timeout_s:", "if True:"),
    ),
    text(
        "leads-before-the-election-has-committed",
        "§6: takeover: epoch bump committed on this session, then read everything",
        (
            leadership.decide,
            "(Stand(epoch, event.version),)",
            "(Stand(epoch, event.version), BeginTerm(epoch, event.version + 1))",
        ),
    ),
    text(
        "unanswered-election-taken-as-won",
        "§5: a write whose outcome is unknown is settled by reading back",
        (
            leadership.resolve_outcome,
            "return replace(machine_state, state=State.SETTLING, read_at_s=0.0, why=event.why), (ResolveOutcome(),)",
            "return lead(machine_state, Elected(machine_state.fence))",
        ),
    ),
    text(
        "election-of-another-taken-as-ours",
        "§5: every multi carries an id of its own",
        (election.is_ours, "seen.epoch.op == op_id and ", ""),
    ),
    text(
        "election-without-its-leader-node-taken-as-won",
        "§6: epoch bump committed on this session",
        (election.is_ours, " and seen.owner == session", ""),
    ),
    text(
        "deposed-leader-takes-the-new-fence",
        FENCE,
        (
            leadership.still_ours,
            'return _step_down(machine_state, "the epoch moved on: another supervisor was elected")',
            "return replace(machine_state, fence=event.version), (BeginTerm(machine_state.epoch, event.version),)",
        ),
    ),
    text(
        "leader-does-not-notice-a-moved-epoch",
        FENCE,
        (leadership.still_ours, "if event.version != machine_state.fence:", "if False:"),
    ),
    text(
        "stands-while-somebody-leads",
        "§2: exactly one is leader",
        (leadership.decide, "if event.owner is not None:", "if False:"),
    ),
    text(
        "epoch-does-not-grow",
        "§2: epoch only grows",
        (leadership.decide, "epoch = seen.highest + 1", "epoch = max(1, seen.highest)"),
    ),
)


def check_of_the_leader_node(real: Any, context: LeaderWriteContext, what: str, *ops: Any) -> Any:
    """The version of the ephemeral /leader in place of the persistent epoch's (zookeeper.md M11)."""
    tx = real(context, what, *ops)
    return replace(tx, ops=(Check(context.layout.leader, 0), *tx.ops[1:]))


EPHEMERAL = Defect(
    "ephemeral-in-place-of-the-epoch",
    "I4: checking the ephemeral one is no fence: its version restarts at 0",
    partial(around, LeaderWriteContext.transaction, check_of_the_leader_node),
    ("submit",),
)


# -- commands (§3, §5) -------------------------------------------------------------------------------------------------

ACK = "I8: ack ⇒ durable; unknown is reported as unknown"
SETTLED = "§5: a write whose outcome is unknown is settled by reading back before anything else happens"
OBEY = "§5 cancel: set /own/J: assigned to vacant, claimed to draining"

COMMANDS = (
    text(
        "acknowledged-before-the-commit",
        ACK,
        (resolve_outcome.commit_resolved, "        zoo.commit(tx)\n", "        pass\n"),
    ),
    text(
        "unknown-outcome-acknowledged",
        ACK,
        (resolve_outcome.commit_resolved, "lost = unknown", "return True"),
    ),
    text(
        "unknown-outcome-tried-again-blindly",
        SETTLED,
        (resolve_outcome.commit_resolved, "lost = unknown", "return False"),
    ),
    text(
        "settled-by-a-reading-that-settles-nothing",
        SETTLED,
        (resolve_outcome.commit_resolved, "sessions.resolve_outcome()", "sessions.zoo()"),
    ),
    text(
        "cancelled-uid-registered-again",
        "I2: a failed uid may be registered again, a cancelled one never",
        (jobs._failed, " or found.result.record.outcome is not Outcome.FAILED", ""),
    ),
    text(
        "cancel-hits-whatever-has-the-name",
        "§5: a command resolves name → uid once, and retries name the uid",
        (jobs.JobOperations.cancel, "if other or (", "if False and ("),
    ),
    text(
        "older-uid-registered-again",
        "§5 re-register: only the name's newest uid",
        (jobs._must_be_newest, 'if _newest(found) not in ("", uid):', "if False:"),
    ),
    text(
        "cancel-leaves-the-attempt-claimed",
        OBEY,
        (user_writes._stop, ", OwnState.CLAIMED: OwnState.DRAINING", ""),
    ),
    text(
        "cancel-leaves-the-attempt-assigned",
        OBEY,
        (user_writes._stop, "OwnState.ASSIGNED: OwnState.VACANT, ", ""),
    ),
    text(
        "cancel-frees-the-name-at-once",
        OBEY,
        (user_writes._stop, "OwnState.CLAIMED: OwnState.DRAINING", "OwnState.CLAIMED: OwnState.VACANT"),
    ),
    text(
        "cancel-turns-revoked-into-exited",
        "§5 cancel: draining and revoked stay",
        (
            user_writes._stop,
            "OwnState.CLAIMED: OwnState.DRAINING",
            "OwnState.CLAIMED: OwnState.DRAINING, OwnState.DRAINING: "
            "OwnState.EXITED, OwnState.REVOKED: OwnState.EXITED",
        ),
    ),
)


# -- decisions (§8) ----------------------------------------------------------------------------------------------------

ADOPT = "I6, §7.5: a new leader finds a claimed, renewed attempt and leaves it alone"
DECISIONS = (
    text(
        "takeover-restarts-what-it-finds",
        ADOPT,
        (decide._keep, "if own.revision != job.revision:", "if case.now_s - case.row.own_seen_at_s <= 0:"),
    ),
    text(
        "suspended-is-started",
        "§8 table: vacant, suspended: nothing",
        (
            decide._wanted,
            "Wanted.RUNNING if row.ref.record.desired is Desired.RUNNING else Wanted.SUSPENDED",
            "Wanted.RUNNING",
        ),
    ),
    text(
        "result-and-reference-of-different-moments",
        "§8: one immutable View",
        (decide.decide, "if row.is_torn:", "if False:"),
    ),
    text(
        "back-off-is-skipped",
        "§8: back-off after the leader's own first observation of the exit",
        (decide._after_failure, "if wait_s > 0 and", "if False and"),
    ),
    text(
        "an-update-that-cannot-be-prepared-stops-what-runs",
        "§9.2: what cannot be prepared stops nothing",
        (decide._update, "if said.stop:", "if said.stop or said.impossible:"),
    ),
    text(
        "an-update-is-given-up-for-what-may-pass",
        "§9.2: where there is no room, or what the host says may pass, the update waits",
        (prepare.Preparations.update, "if not said.may_pass:", "if True:"),
    ),
    text(
        "a-killed-preparation-is-the-fault-of-its-job",
        "§9.2: where there is no room, or what the host says may pass, the update waits",
        (prepared_drivers.PreparedDrivers._read_kept, "passing=key not in said", "passing=False"),
    ),
    text(
        "a-job-is-placed-without-the-labels-that-it-requires",
        "§8: a job is assigned only to a host with the labels that it requires",
        (placement.why_barred, "return why_unfit(member, job.terms)", "return None"),
        (check._lacking, "if lacks else None", "if False else None"),
    ),
    text(
        "the-placement-does-not-look-at-labels",
        "§8: a job is assigned only to a host with the labels that it requires",
        (placement.why_barred, "return why_unfit(member, job.terms)", "return None"),
    ),
    text(
        "the-check-of-plans-does-not-look-at-labels",
        "§8: a job is assigned only to a host with the labels that it requires",
        (check._lacking, "if lacks else None", "if False else None"),
    ),
    text(
        "a-job-is-placed-without-the-spark-that-it-asks-for",
        "§8: a job is assigned only to a host with the Spark that it asks for",
        (requirements.has_spark, "return not terms.spark or", "return True or"),
        (check._lacking, "if job.terms.spark and", "if False and"),
    ),
    text(
        "a-change-that-no-host-can-carry-out-stops-what-runs",
        "§8: while no host has the labels that a job requires, what runs goes on",
        (decide._held, "if not nowhere:", "if True:"),
    ),
    text(
        "a-driver-is-prepared-without-the-labels-that-its-job-requires",
        "§9.1: a driver is prepared only on a host with the labels that its job requires",
        (prepare.Preparations.choice, " if why_unfit(host, job.terms) is None", ""),
    ),
    text(
        "a-prepared-driver-stays-without-the-labels-that-its-job-requires",
        "§9.1: a driver is prepared only on a host with the labels that its job requires",
        (prepare._why_not, "barred is not None and", "False and"),
    ),
    text(
        "what-is-placed-does-not-count-for-the-spread",
        "§8: placement.spread prefers where the fewest others of the group are",
        (place.place, "        spread.add(job, host.id)\n", ""),
    ),
    text(
        "a-job-counts-for-its-own-spread",
        "§8: placement.spread prefers where the fewest others of the group are",
        (placement.Spread.ranks, "if job.name in self._of_job:", "if False:"),
    ),
    text(
        "a-prune-cancels-what-was-changed-since",
        "§5 cancel: a prune cancels the uid that was judged, at the version that was judged",
        (jobs._must_be_as_chosen, "found.ref.version == chosen.version", "True"),
    ),
    text(
        "a-prune-cancels-another-submission",
        "§5 cancel: a prune cancels the uid that was judged, at the version that was judged",
        (jobs._must_be_as_chosen, "uid == chosen.uid and", ""),
    ),
    text(
        "a-prune-does-not-look-again",
        "§5 cancel: a prune cancels the uid that was judged, at the version that was judged",
        (jobs.JobOperations.cancel, "if chosen is not None:", "if False:"),
    ),
    text(
        "a-late-withdrawal-is-written",
        "§9.2: a uid gives a number once",
        (jobs.JobOperations.update, "if withdrawn and not is_pending", "if False and not is_pending"),
    ),
    text(
        "a-roll-back-given-again-goes-forward",
        "§9.2: a roll back given again changes nothing",
        (updating.is_rolled_back, "return update.rolls_back", "return False"),
    ),
    text(
        "rolled-back-to-what-has-failed",
        "§9.2: the spec of before becomes a new revision",
        (leader_writes.roll_update_back, "spec=before.spec,", "spec=job.spec,"),
    ),
    text(
        "what-a-host-has-ended-counts-against-an-update",
        "§9.2: what a host, a lost connection or a stop has ended does not count",
        (state._counts, "PLANNED_CAUSES | UNCHARGED_CAUSES", "PLANNED_CAUSES"),
    ),
    text(
        "no-answer-about-the-checkpoint-is-clean",
        "§9.2: no answer within a minute, or one that is not clear, is not clean",
        (decide._after_failed_update, 'if case.row.left_behind == "":', "if not case.row.left_behind:"),
    ),
    text(
        "a-roll-back-forgets-the-account",
        "§9.2: the account of failures goes on from what it was",
        (decide._after_exit, "if follows_roll_back(job, own):", "if False:"),
    ),
    text(
        "an-update-is-done-before-its-first-batch",
        "§9.2: until an attempt of the target has run for `observe` after its first batch",
        (
            decide._observe,
            "if since_at_s is None:",
            "since_at_s = case.row.own_seen_at_s\n    if since_at_s is None:",
        ),
    ),
    text(
        "revisions-of-a-kept-result-are-swept",
        "§4: /revisions lives as the reference or the result of its uid",
        (
            record_sweep._about_uids,
            "not registered and uid not in with_result and not dirty",
            "not registered",
        ),
    ),
    text(
        "a-standby-skips-every-back-off",
        "§8: no back-off is skipped but that after the first failure in a row",
        (decide._standby_takes_over, "acc.failures != 1 or ", ""),
    ),
    text(
        "names-without-a-reference-take-no-place",
        "§8: capacity counts every ownership, names without a reference included",
        (
            load.loads_of,
            "if isinstance(row.own, Found) and",
            "if row.ref is not None and isinstance(row.own, Found) and",
        ),
    ),
    text(
        "older-leftover-takes-the-whole-name",
        "§8: in any cell, a dirty older uid is cleaned (its own things only)",
        (decide._older_leftover, "dead=False", "dead=True"),
    ),
    text(
        "assignment-is-never-taken-back",
        "§5 un-assign: when the job's version changed, the host is gone, or no claim came",
        (decide._check_assignment, "if own.supervisor not in case.members:", "if False:"),
        (decide._check_assignment, "if waited_s >= case.claim_timeout_s:", "if False:"),
    ),
    text(
        "job-that-changed-keeps-its-assignment",
        "§5 un-assign: when the job's version changed",
        (decide._check_assignment, "if own.job_version != case.ref.version:", "if False:"),
    ),
    text(
        "distrusted-registry-is-acted-upon",
        "I10: an older registry: no kill, no launch",
        (make.make_plan, "if view.distrust is not None:", "if False:"),
    ),
    text(
        "registry-that-lost-a-parent-is-acted-upon",
        "I10: a registry that lost what nobody can tell again: no kill, no launch",
        (fixed_znodes.judge_fixed_znodes, "if node is None and path in lasting:", "if False:"),
    ),
    text(
        "parent-made-anew-is-believed",
        "I10: a registry that lost what nobody can tell again: no kill, no launch",
        (fixed_znodes.judge_fixed_znodes, "cluster.stat.czxid != node.stat.czxid > accepted_zxid", "False"),
    ),
    text(
        "one-spoilt-job-stops-them-all",
        "I9: a corrupt znode affects that job alone",
        (make.make_plan, "alarms.append(decision.alarm)", "return Plan((), tuple(notes), (decision.alarm,))"),
    ),
    text(
        "starts-before-the-epoch-is-recorded",
        "§6: until that is recorded, the leader starts and cleans nothing",
        (make.make_plan, "plan = plan if view.recorded else _unrecorded(plan)", "pass"),
    ),
    text(
        "claim-of-a-living-driver-is-swept",
        "§4: /checkpoints: equal or nested locations are refused",
        (
            record_sweep._may_run,
            "return own.uid == uid and own.state not in DEAD",
            "return False",
        ),
    ),
)

DEFECTS = (*LEADERSHIP, EPHEMERAL, *COMMANDS, *DECISIONS)
