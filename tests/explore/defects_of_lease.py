"""Each rule of protocol §7 undone, one at a time: deadlines, waits, the claim before exec, the three killers, tombstones."""

from __future__ import annotations

from functools import partial
from typing import Any

from supervisor.daemon.host import guarded_attempt
from supervisor.model import lease_terms, load, second_killer
from supervisor.model.view import Row
from supervisor.observe.first_seen import FirstSeen
from supervisor.observe.observer import Observer
from supervisor.plan import check, decide
from supervisor.registry import attempt_writes
from supervisor.shim import claim, connection, driver, end, health, lease, machine, waiting
from tests.explore.planting import around, planted, text

# -- the deadline (§7.1) -----------------------------------------------------------------------------------------------

DEADLINE = "§7.1: the deadline is CLOCK_BOOTTIME read before sending the last claim or renewal that committed, + D - K"
AT_DEADLINE = "§7.1: at the deadline the driver tree is killed, always"

DEADLINES = (
    text(
        "renewal-counts-from-its-answer",
        DEADLINE,
        (
            lease.renewed,
            "lease_terms.deadline_at_s(event.sent_at_s, ",
            "lease_terms.deadline_at_s(turn.now_s, ",
        ),
    ),
    text(
        "claim-counts-from-its-answer",
        DEADLINE,
        (claim.committed, "claim_sent_at_s=event.sent_at_s", "claim_sent_at_s=turn.now_s"),
    ),
    text(
        "settled-claim-counts-from-the-reading",
        DEADLINE,
        (claim.read_back, "turn.set(blind=False)", "turn.set(blind=False, claim_sent_at_s=turn.now_s)"),
    ),
    text(
        "unanswered-renewal-counts",
        DEADLINE,
        (
            lease.renewal_unanswered,
            "ring_again(turn)",
            "turn.set(deadline_at_s=lease_terms.deadline_at_s(turn.now_s, turn.state.launch.lease_s))\n"
            "    turn.do(WriteDeadline(turn.state.deadline_at_s))\n    ring_again(turn)",
        ),
    ),
    text("deadline-a-lease-late", DEADLINE, (lease_terms.deadline_at_s, "- KILL_TIME_S", "+ lease_s")),
    text("deadline-without-the-kill-time", DEADLINE, (lease_terms.deadline_at_s, " - KILL_TIME_S", "")),
    text(
        "shim-ignores-its-deadline",
        AT_DEADLINE,
        (
            driver.is_expiring,
            "return turn.now_s >= lease_terms.shim_acts_at_s(turn.state.deadline_at_s)",
            "return False",
        ),
        (machine.next_wake_at_s, "times.append(lease_terms.shim_acts_at_s(state.deadline_at_s))", "pass"),
    ),
    text(
        "deadline-is-not-told-to-the-second-killers",
        "§7.4: the twin reads the deadline from a file written after each commit",
        (
            claim.claimed,
            "turn.do(WriteDeadline(deadline_at_s), Exec(before_at_s))",
            "turn.do(Exec(before_at_s))",
        ),
        (lease.renewed, "turn.do(WriteDeadline(deadline_at_s))", "pass"),
    ),
)


# -- the claim (§5, §7.1) ----------------------------------------------------------------------------------------------

CLAIM_FIRST = "§5 claim: before exec of the driver; I5"
FIRST_ONLY = "I10: a claim is asked for on the first connection only, which an older registry can't be on the other side of"
RECHECK = "§7.1: the deadline is checked once more just before exec"

CLAIMS = (
    text(
        "exec-without-a-claim",
        CLAIM_FIRST,
        (
            claim.try_claim,
            "send_claim(turn, own, event.lease_version)",
            "(turn.set(claim_sent_at_s=turn.now_s), claimed(turn, own.version, OwnState.CLAIMED))",
        ),
    ),
    text(
        "exec-before-the-claim-is-answered",
        CLAIM_FIRST,
        (
            claim.send_claim,
            "turn.at,\n        ),\n    )",
            "turn.at,\n        ),\n    )\n    claimed(turn, own.version + 1, OwnState.CLAIMED)",
        ),
    ),
    text(
        "unanswered-claim-taken-as-committed",
        "§5: a write whose outcome is unknown is settled by reading back",
        (
            claim.outcome_unknown,
            "turn.set(stage=Stage.SETTLING, read_at_s=turn.now_s)",
            "claimed(turn, turn.state.launch.assignment.own_version + 1, OwnState.CLAIMED)",
        ),
    ),
    text(
        "unanswered-claim-taken-as-failed",
        "§5: a write whose outcome is unknown is settled by reading back",
        (claim.outcome_unknown, "stage=Stage.SETTLING", "stage=Stage.CONNECTING"),
    ),
    text(
        "claim-settled-on-another-session",
        "§5: reading back settles it only on the same session, or when the old one is gone",
        (machine.ask, "state.stage is Stage.SETTLING and state.claim_session != state.session", "False"),
    ),
    text(
        "closed-session-is-forgotten",
        "§5: reading back settles it when the old session is gone, on whatever connection",
        (connection.closed, "claim_session=turn.state.last_session", "claim_session=turn.state.session"),
    ),
    text(
        "settling-has-no-end",
        "§5: an outcome that nobody can tell binds a shim no longer than a lease could",
        (
            claim.watch_settling,
            "if turn.now_s >= resolve_due_at_s(turn.state):",
            "if False:",
        ),
        (machine.next_wake_at_s, "times.append(claim.resolve_due_at_s(state))", "pass"),
    ),
    text(
        "claim-of-another-shim-taken-as-ours",
        "§5 exit: a restarted agent may start a second shim for one entry",
        (
            lease.is_mine,
            "(record.uid, record.attempt, record.claim) == (entry.uid, entry.attempt, turn.state.claim_id)",
            "(record.uid, record.attempt) == (entry.uid, entry.attempt)",
        ),
    ),
    text(
        "broken-connection-ends-no-shim",
        FIRST_ONLY,
        (claim.watch_connecting, "if turn.state.broken:", "if False:"),
    ),
    text(
        "claim-is-sent-on-any-connection",
        FIRST_ONLY,
        (connection.send, 'first=what == "claim"', "first=False"),
    ),
    text(
        "claims-on-any-connection",
        FIRST_ONLY,
        (claim.watch_connecting, "if turn.state.broken:", "if False:"),
        (connection.send, 'first=what == "claim"', "first=False"),
    ),
    text(
        "late-claim-is-executed", RECHECK, (claim.claimed, "elif turn.now_s >= before_at_s:", "elif False:")
    ),
    text(
        "starter-does-not-look-at-the-clock",
        RECHECK,
        (claim.claimed, "Exec(before_at_s)", "Exec(float('inf'))"),
    ),
    text(
        "nobody-looks-at-the-clock-before-exec",
        RECHECK,
        (claim.claimed, "elif turn.now_s >= before_at_s:", "elif False:"),
        (claim.claimed, "Exec(before_at_s)", "Exec(float('inf'))"),
    ),
    text(
        "revoked-claim-is-executed",
        "§7.3: revoked, or another attempt: kill at once",
        (claim.claimed, "if own_state is OwnState.REVOKED:", "if False:"),
    ),
    text(
        "draining-claim-is-executed",
        "§7.3: draining: an orderly stop",
        (claim.claimed, "elif own_state is OwnState.DRAINING or turn.state.stop_asked:", "elif False:"),
    ),
)


# -- the fence (§7.3) --------------------------------------------------------------------------------------------------

ORDERLY = "§7.3: it takes the new version as its own and goes on renewing while the driver stops"
UNKNOWN = "§7.3: record absent, unreadable or older than seen: stop renewing, the driver ends at its deadline"

FENCES = (
    text(
        "draining-does-not-renew",
        ORDERLY,
        (
            lease.judge,
            "elif own.record.state is OwnState.DRAINING and state.fence is not None:\n"
            "        turn.set(fence=own.version)",
            "elif own.record.state is OwnState.DRAINING and state.fence is not None:\n        turn.set(fence=None)",
        ),
    ),
    text("draining-is-not-obeyed", ORDERLY, (lease.judge, "request_stop(turn)", "pass")),
    text(
        "stop-grace-never-ends",
        "§7.3: for at most stop_grace",
        (driver.climb, "if turn.now_s >= ladder.kill_at_s:", "if False:"),
        (lease.may_renew, "state.stop_until_at_s is None or turn.now_s < state.stop_until_at_s", "True"),
    ),
    text(
        "revoked-goes-on",
        "§7.3: revoked, or another attempt: kill at once",
        (lease.judge, 'lose(turn, f"/own is {own.record.state.value}")', "turn.set(fence=None)"),
    ),
    text(
        "revoked-goes-on-renewing",
        "§7.3: revoked, or another attempt: kill at once",
        (
            lease.judge,
            "elif own.record.state is OwnState.CLAIMED and state.fence is not None:",
            "elif own.record.state in (OwnState.CLAIMED, OwnState.REVOKED) and state.fence is not None:",
        ),
    ),
    text(
        "another-attempt-is-not-noticed",
        "§7.3: revoked, or another attempt: kill at once",
        (lease.judge, "if not is_mine(turn, own.record):", "if False:"),
    ),
    text("renews-on-an-unknown-fence", UNKNOWN, (lease.may_renew, " or state.held", "")),
    text(
        "older-fence-is-believed",
        UNKNOWN,
        (lease.judge, "or (state.fence is not None and own.version < state.fence)", ""),
    ),
    text(
        "leases-without-a-parent-are-asked-for-at-once",
        "I9: what somebody removed by hand is no reason to ask without a pause",
        (lease.renewal_rejected, "min(RETRY_S, period_s(turn)) if exists", "0.0 if exists"),
    ),
    text(
        "clock-jump-is-not-noticed",
        "§7.7: a jump of REALTIME - BOOTTIME means: reread /own/J before anything else",
        (machine.notice_clock_jump, "abs(offset_s - before_s) > CLOCK_JUMP_S", "False"),
    ),
    text(
        "new-session-does-not-read-first",
        "§7.7: a new session means: reread /own/J before anything else",
        (connection.connected, "blind=state.blind or fresh", "blind=state.blind"),
    ),
)


# -- the wait (§5, §7.2) -----------------------------------------------------------------------------------------------

WAIT = "I5, §7.2: wait before assign: the lease has not changed for W since first seen"
OLD_TERMS = (
    "§5: the wait uses lease_s and stop_grace_s of the lease record, the old attempt's, not the new spec's"
)
EXECUTORS = "§7.8: executors of a lost attempt have ended before the next one is executed"
FIRST_OBSERVED = (
    "§7.2: t0 = BOOTTIME after the response that showed this lease arrived; keyed by the znode's mzxid"
)

WAITS = (
    text("no-wait", WAIT, (lease_terms.wait_by_terms_s, "return full_wait_s(", "return 0 * full_wait_s(")),
    text(
        "half-the-wait",
        WAIT,
        (lease_terms.wait_by_terms_s, "return full_wait_s(", "return 0.5 * full_wait_s("),
    ),
    text(
        "wait-without-the-executors",
        EXECUTORS,
        (
            lease_terms.wait_by_terms_s,
            "full_wait_s(lease_s, executors_outlive_s)",
            "full_wait_s(lease_s)",
        ),
    ),
    text(
        "tombstone-before-the-executors-end",
        EXECUTORS,
        (end.bury, "if turn.now_s < bury_from_s(state):", "if False:"),
    ),
    text(
        "guardians-tombstone-before-the-executors-end",
        EXECUTORS,
        (
            guarded_attempt._Turn.bury_or_remove,
            "if is_to_bury and launch is not None:",
            "if False and launch is not None:",
        ),
    ),
    text(
        "lease-without-the-executors",
        EXECUTORS,
        (
            lease.record_of,
            "executors_outlive_s=state.launch.executors_outlive_s",
            "executors_outlive_s=0.0",
        ),
    ),
    text("wait-without-the-kill-time", "§7: W = D(1+2ρ)+K", (lease_terms.full_wait_s, " + KILL_TIME_S", "")),
    text(
        "wait-without-the-clocks-error",
        "§7: W = D(1+2ρ)+K",
        (lease_terms.full_wait_s, " * (1 + 2 * CLOCK_RATE_ERROR)", ""),
    ),
    text(
        "wait-by-the-terms-of-the-new-spec",
        OLD_TERMS,
        (
            decide.wait_of_s,
            "wait_by_terms_s(lease.lease_s, ",
            "wait_by_terms_s((row.ref.record.terms if isinstance(row.ref, Found) else lease).lease_s, ",
        ),
    ),
    text(
        "wait-of-an-unreadable-lease-is-short",
        "§5: unreadable: the cluster's cap",
        (decide.wait_of_s, "return LONGEST_WAIT_S if", "return wait_by_terms_s(5.0, 0.0) if"),
    ),
    text(
        "lease-of-another-claim-is-believed",
        OLD_TERMS,
        (
            Row.lease_of_owner,
            "return lease if (lease.uid, lease.attempt, lease.claim) == (own.uid, own.attempt, own.claim) "
            "else None",
            "return lease",
        ),
    ),
    text(
        "first-seen-before-the-response",
        FIRST_OBSERVED,
        (
            FirstSeen.lease,
            "self._leases[name] = (mzxid, received_at_s)",
            "self._leases[name] = (mzxid, sent_at_s)",
        ),
    ),
    text(
        "first-seen-outlives-a-renewal",
        FIRST_OBSERVED,
        (FirstSeen.lease, "if known is None or known[0] != mzxid:", "if known is None:"),
    ),
    text(
        "wait-counts-up-to-the-answer",
        "§5: the wait counts only up to a read sent at or after t0 + W",
        (
            FirstSeen.lease,
            "SeenLease(lease, known[1], sent_at_s,",
            "SeenLease(lease, known[1], received_at_s,",
        ),
    ),
    text(
        "lease-read-before-the-fence-was-seen",
        "§7.2: for draining and revoked the lease is read after the fence was seen",
        (Observer._set_row, "before.own != own", "False"),
    ),
    text(
        "absence-of-a-lease-outlives-its-attempt",
        FIRST_OBSERVED,
        (Observer._set_row, "self._first_seen.forget_lease(name)", "pass"),
    ),
    text(
        "end-of-session-taken-as-proof",
        "§4: /live is a hint that speeds up noticing; never proof",
        (
            Observer._read_leases,
            "reads.sent_at_s, reads.received_at_s)",
            "reads.sent_at_s, reads.received_at_s)\n        if _is_close(row, lives) and row.own.record.state in LEASED:\n"
            "            sight = replace(sight, first_seen_at_s=float('-inf'))",
        ),
    ),
    text(
        "silence-is-not-waited-for-before-revoking",
        "§7.2: the leader does nothing early",
        (decide.cell_of, "full_wait_over(row) is not None", "row.lease is not None"),
    ),
    text(
        "assigned-after-revoking-without-a-wait",
        WAIT,
        (
            decide._when_dead,
            "waited = full_wait_over(case.row)",
            "waited = Waited(case.row.lease.seen) if case.row.lease is not None else None",
        ),
    ),
    text(
        "plans-are-not-checked",
        "§8: check (a plan that would break an invariant stops the pass)",
        (check.violations, "return (*found, *_overbooked(view, plan))", "return ()"),
    ),
    text(
        "draining-is-never-overdue",
        "§8: a draining that outlasts stop_grace + D is revoked",
        (decide._overdue, "return case.now_s - case.row.own_seen_at_s > allowed_s", "return False"),
    ),
)


# -- the killers (§7.4) ------------------------------------------------------------------------------------------------

ORDER = "§7.4: SIGKILL the shim, wait for its death, kill the tree, prove it empty"
EMPTY = "§7.4: dead means empty"


def tree_first(real: Any, killer: Any, event: Any, now_s: float) -> Any:
    """The tree, and only then the shim."""
    act = second_killer.Act
    after = real(killer, event, now_s)
    match event:
        case second_killer.KillerProbe() if after.act is act.KILL_SHIM:
            return after._replace(act=act.KILL_TREE)
        case second_killer.TreeStruck() if killer.act is act.KILL_TREE:
            return after._replace(act=act.KILL_SHIM)
        case second_killer.ShimStruck(dead) if killer.act is act.KILL_SHIM:
            return after._replace(act=act.OVER if dead else act.KILL_TREE)
    return after


def tree_only(real: Any, killer: Any, event: Any, now_s: float) -> Any:
    """The shim is left alone."""
    after = real(killer, event, now_s)
    if isinstance(event, second_killer.KillerProbe) and after.act is second_killer.Act.KILL_SHIM:
        return after._replace(act=second_killer.Act.KILL_TREE, shim_dead=True)
    return after


KILLERS = (
    text(
        "second-killers-do-not-act-at-the-deadline",
        "§7.4: twin and guardian act at deadline - p",
        (
            second_killer._probed,
            "Act.KILL_SHIM if due or probe.shim_dead else",
            "Act.KILL_SHIM if probe.shim_dead else",
        ),
    ),
    text(
        "second-killers-do-not-act-on-the-death-of-the-shim",
        "§7.4: twin and guardian act at once when the shim is dead",
        (second_killer._probed, "Act.KILL_SHIM if due or probe.shim_dead else", "Act.KILL_SHIM if due else"),
    ),
    text(
        "second-killers-act-a-lease-late",
        "§7.4: twin and guardian act at deadline - p",
        (lease_terms.second_killer_acts_at_s, "- SECOND_KILLER_PERIOD_S", "+ LEASE_MIN_S"),
    ),
    text(
        "second-killers-never-act",
        "§7.4: three killers, any one suffices",
        (second_killer._probed, "Act.KILL_SHIM if due or probe.shim_dead else Act.PROBE", "Act.PROBE"),
    ),
    planted("tree-killed-before-the-shim", ORDER, partial(around, second_killer.step, tree_first)),
    planted("stopped-shim-is-left-alive", ORDER, partial(around, second_killer.step, tree_only)),
    text(
        "kill-is-over-while-the-shim-lives",
        ORDER,
        (second_killer.step, "over = killer.shim_dead and tree is not", "over = tree is not"),
    ),
    text(
        "kill-is-over-while-the-tree-lives",
        EMPTY,
        (
            second_killer.step,
            "over = killer.shim_dead and tree is not Emptiness.POPULATED",
            "over = killer.shim_dead",
        ),
    ),
)


# -- the tombstone (§5 exit, §7.2) -------------------------------------------------------------------------------------

MINE = "§5 exit: only if uid, attempt and claim id are mine, and the state is claimed, draining or revoked"

TOMBSTONES = (
    text(
        "tombstone-before-the-tree-is-empty",
        EMPTY,
        (
            driver.begin_kill,
            "stage=Stage.KILLING,",
            "stage=Stage.BURYING, empty_at_s=turn.now_s, read_at_s=turn.now_s,",
        ),
        (driver.begin_kill, "if reason:", "turn.do(Kill())\n        if reason:"),
    ),
    text("kill-that-left-something-is-believed", EMPTY, (driver.tree_seen, "if event.empty:", "if True:")),
    text(
        "tombstone-when-the-root-has-exited",
        EMPTY,
        (
            driver.note_exit,
            "refused=event.refused)",
            "refused=event.refused, stage=Stage.BURYING, empty_at_s=turn.now_s, read_at_s=turn.now_s)",
        ),
    ),
    text(
        "tombstone-over-another-claim",
        MINE,
        (
            attempt_writes.tombstone,
            "(record.uid, record.attempt, record.claim) != (mine.uid, mine.attempt, mine.claim)",
            "(record.uid, record.attempt) != (mine.uid, mine.attempt)",
        ),
    ),
    text(
        "tombstone-over-another-attempt",
        MINE,
        (
            attempt_writes.tombstone,
            "(record.uid, record.attempt, record.claim) != (mine.uid, mine.attempt, mine.claim)",
            "False",
        ),
    ),
    text(
        "tombstone-over-any-state",
        MINE,
        (
            attempt_writes.tombstone,
            "record.state not in (OwnState.CLAIMED, OwnState.DRAINING, OwnState.REVOKED)",
            "False",
        ),
    ),
    text(
        "guardian-buries-without-proof",
        "§7.4: without a cgroup, emptiness cannot be proven: no tombstone by the guardian",
        (guarded_attempt._Turn.over, "empty = killer.tree is Emptiness.EMPTY", "empty = True"),
    ),
    text(
        "guardian-believes-an-older-reading",
        MINE,
        (guarded_attempt._Turn.write_tombstone, "or own.version < entry.own_version", ""),
    ),
    text(
        "guardian-does-not-wait-for-a-claim-under-way",
        MINE,
        (
            guarded_attempt._Turn.write_tombstone,
            "own.version == entry.own_version and own.record.state is OwnState.ASSIGNED",
            "False",
        ),
    ),
)

# -- executors that are waited for ------------------------------------------------------------------------------------

WITHOUT = "§7.8: a driver that has no executor waits for its cluster, and is not restarted for it; one that hangs is"

WITHOUTS = (
    text(
        "a-driver-without-an-executor-is-a-slow-start",
        WITHOUT,
        (health.overdue, "max(since_at_s, waiting.excused_until_at_s(life, launch))", "since_at_s"),
    ),
    text(
        "a-driver-without-an-executor-stalls",
        WITHOUT,
        (waiting.after_report, "replace(query, last_at_s=now_s) for query", "query for query"),
    ),
    text(
        "a-driver-that-hangs-waits-for-its-cluster-for-ever",
        WITHOUT,
        (waiting.is_without, "now_s - life.without_at_s < UNHEARD_S", "True"),
    ),
    text(
        "a-driver-whose-context-hangs-waits-for-its-cluster-for-ever",
        WITHOUT,
        (waiting.excused_until_at_s, "or not _is_before_session(life)", "or True"),
    ),
    text(
        "executors-that-flap-outlast-the-cluster-timeout",
        WITHOUT,
        (waiting.after_report, "None if stayed else life.starved_since_at_s", "None"),
    ),
    text(
        "the-end-of-a-wait-is-lost-after-other-news",
        WITHOUT,
        (driver.publish_wait, "reported_wait=wait", "reported_wait=state.reported_wait"),
    ),
    text(
        "a-driver-that-waits-holds-a-starting-slot",
        WITHOUT,
        (load._is_starting, " or lease.cluster_wait is not None", ""),
    ),
)

DEFECTS = (*WITHOUTS, *DEADLINES, *CLAIMS, *FENCES, *WAITS, *KILLERS, *TOMBSTONES)
