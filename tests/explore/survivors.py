"""For each defect: which scenarios show it, or why none can. Named here means that the gate lets it survive.

``COVERED``: another guard does the same work; without both of them it would show. ``UNSEEN``: it does harm, but outside of
what is explored; then an ordinary test sees it (``caught_by_tests``), and that it does is tested.
"""

from __future__ import annotations

from tests.explore.caught_by_tests import CAUGHT_BY

_STARTER = "the starter, which alone can become the driver, is in the tree from its birth and dies with it"
_OWN_FAILS = "a renewal checks /own at the version of the fence, and fails on whatever was written since"
_LEASE_FAILS = "every multi that rests on the wait checks the lease at the version seen, so a renewal that was missed makes it fail"
_WAITED_OUT = "no driver is touched, and the full wait gives the place of an attempt that nobody executes to the next one"
_FENCED = "every write of that term fails on the epoch"
_AGAIN = "a command that is tried again reads again and names its uid, and of two multis at the same versions one fails"
_NO_HARM = "what two leaders under one fence do is stopped by the versions of each job; only places could be given twice"
_SHORT_STOP = "a stop takes less than the full wait, so nobody renews any more when it is over"
_TICKS = "with a lease of 6 s every answer comes within the rounding of a tick"

COVERED: dict[str, str] = {
    "shim-ignores-its-deadline": "twin and guardian kill at the deadline: three killers, any one suffices",
    "unanswered-claim-taken-as-failed": _WAITED_OUT,
    "claim-settled-on-another-session": "of two claims for one entry the later one fails on the version of /own",
    "broken-connection-ends-no-shim": "the claim is not sent on another connection",
    "late-claim-is-executed": "the starter looks at the clock itself, just before exec",
    "starter-does-not-look-at-the-clock": f"the twin knows the deadline before exec, and {_STARTER}",
    "nobody-looks-at-the-clock-before-exec": "the step that lets the starter go sees that the deadline is over, and kills the tree",
    "draining-claim-is-executed": "a draining that outlasts its stop grace and a lease is revoked",
    "revoked-claim-is-executed": "a revocation comes after the full wait, when exec is refused because the claim's time is over",
    "revoked-goes-on": "no renewal passes the fence any more, so the deadline ends the driver",
    "another-attempt-is-not-noticed": "another attempt is assigned after the full wait, when this one's deadline is over",
    "renews-on-an-unknown-fence": _OWN_FAILS,
    "older-fence-is-believed": _OWN_FAILS,
    "new-session-does-not-read-first": _OWN_FAILS,
    "wait-without-the-kill-time": "the deadline lies K before the end of the lease already: K is counted twice, for a kill that is slow",
    "wait-without-the-clocks-error": "K in the wait is more than two clocks can differ by in the longest lease there can be",
    "wait-counts-up-to-the-answer": _LEASE_FAILS,
    "lease-read-before-the-fence-was-seen": f"a lease under a moved fence is read at every pass anyway, and {_LEASE_FAILS}",
    "absence-of-a-lease-outlives-its-attempt": "a claim creates the lease, and what rests on its absence fails if it is there",
    "plans-are-not-checked": "the plan makes no action that the check would stop",
    "draining-is-never-overdue": "a shim renews for its stop grace at most, and then the full wait ends it",
    "second-killers-do-not-act-on-the-death-of-the-shim": "they act at the deadline: later, but before the lease is over",
    "tree-killed-before-the-shim": _STARTER,
    "stopped-shim-is-left-alive": _STARTER,
    "kill-is-over-while-the-shim-lives": "SIGKILL was sent to it, so it runs no further line of code",
    "kill-is-over-while-the-tree-lives": "SIGKILL was sent to all of it, and without proof that it is empty nothing is written",
    "tombstone-over-any-state": "in every other state that very claim is dead already",
    "guardian-believes-an-older-reading": "the tombstone is set at the version read: over anything newer it fails",
    "guardian-does-not-wait-for-a-claim-under-way": _WAITED_OUT,
    # -- leadership: what keeps a deposed leader from doing harm is the fence, not that it knows
    "new-session-keeps-the-epoch": _FENCED,
    "leader-without-a-deadline": _FENCED,
    "leader-does-not-notice-a-moved-epoch": _FENCED,
    "unanswered-election-taken-as-won": "if it was not applied every write fails on the epoch, which ends the term",
    "election-of-another-taken-as-ours": "/leader belongs to our session, so the election was ours",
    "election-without-its-leader-node-taken-as-won": "the first probe finds no /leader, and ends the term",
    # -- commands and decisions
    "unknown-outcome-tried-again-blindly": _AGAIN,
    "settled-by-a-reading-that-settles-nothing": _AGAIN,
    "cancel-hits-whatever-has-the-name": "whoever replaced the uid has left a result of it, which is looked at first",
    "cancel-leaves-the-attempt-assigned": "its claim fails on the version of /own, and the leader takes the assignment back",
    "job-that-changed-keeps-its-assignment": "its claim fails on the version of the job, and it is taken back when its time is over",
    # -- guards of multis that another guard of the same multi covers
    "take-leadership-unguarded-by-epoch": "of two contenders only one creates /leader, and the fence is the version that results",
    "submit-unguarded-by-result": "whoever cancelled that uid meanwhile has moved /own, which is set at the version read",
    "submit-unguarded-by-claim": "whoever took the place meanwhile has moved /checkpoints",
    "submit-unguarded-by-own": "another submit meanwhile has moved /checkpoints, and without one the name stays dead or is waited out",
    "cancel-failed-unguarded-by-result": "a restart meanwhile has moved /own, which is set at the version read",
    "cancel-failed-unguarded-by-own": "a restart meanwhile has deleted the result, which is set at its version",
    "cancel-failed-does-not-write-own": "a restart under way fails on the version of the result",
    "revoke-unguarded-by-own": "only what the full wait has shown to be dead is revoked; an exit that is overwritten is waited out",
    "bury-unguarded-by-own": "only a leader assigns: this one waits for its own write, another one has moved the epoch",
    "clean-up-unguarded-by-own": "only a leader assigns: this one waits for its own write, another one has moved the epoch",
    "conclude-does-not-write-own": "the reference is gone, which every assignment and claim checks",
    "claim-does-not-write-lease": "the absence of a lease is waited out like any other, and the first renewal makes it",
    "register-again-unguarded-by-result": "a cancel of the failed uid moves /own, which is set at the version read",
    "register-again-unguarded-by-own": "a cancel or a submit changes the result or creates the reference",
    "register-again-unguarded-by-claim": "whoever took the place meanwhile has moved /checkpoints",
    "cancel-unguarded-by-job": "a cancel is meant for whatever revision there is, and another uid has moved /own",
    "suspend-unguarded-by-job": "a command that stops moves /own; one that starts is overruled, as by a later suspend",
    "run-again-unguarded-by-job": "cancel and suspend move /own, which is checked",
    "run-again-unguarded-by-own": "cancel and suspend change the reference, which is set at its version",
    "assign-unguarded-by-job": "what stops a job moves /own; of a new revision the claim checks the job's version",
    "assign-unguarded-by-own": "what users change is in the job's version, and other leaders fail on the epoch",
    "drain-unguarded-by-job": "what stops a job moves /own, which is set at the version read",
    "drain-unguarded-by-own": "an exit that is overwritten is waited out",
    "conclude-unguarded-by-job": "/own is set at the version read, and a second result of one uid cannot be created",
    "conclude-unguarded-by-own": "the reference is deleted at its version, and a second result of one uid cannot be created",
    "clean-up-unguarded-by-result": "whoever cleaned or cancelled meanwhile has moved /own",
    "clean-up-unguarded-by-claim": "whoever took the place meanwhile is a submit of the name, which has moved /own",
    "claim-unguarded-by-job": "what stops a job moves /own, which is set at the version of the assignment",
    "claim-unguarded-by-own": "the entry is deleted and /live created by the same multi: a second claim finds neither as it should be",
    "claim-unguarded-by-lease": "of two claims the later one fails on the version of /own",
    "announce-unguarded-by-own": "/live is a hint, and no decision rests on it",
}

UNSEEN: dict[str, str] = {
    "renewal-counts-from-its-answer": _TICKS,
    "claim-counts-from-its-answer": _TICKS,
    "settled-claim-counts-from-the-reading": _TICKS,
    "unanswered-renewal-counts": _TICKS,
    "deadline-without-the-kill-time": "K is less than a tick",
    "wait-by-the-terms-of-the-new-spec": "all jobs have the same lease",
    "wait-of-an-unreadable-lease-is-short": "no record is corrupted",
    "lease-of-another-claim-is-believed": "all jobs have the same lease",
    "first-sight-before-the-response": _TICKS,
    "draining-does-not-renew": "a stop that is cut short breaks no invariant",
    "kill-that-left-something-is-believed": "a kill is modelled as one that leaves nothing",
    "guardian-buries-without-proof": "every attempt has a cgroup",
    "leads-before-the-election-has-committed": _NO_HARM,
    "deposed-leader-takes-the-new-fence": _NO_HARM,
    "epoch-does-not-grow": "the fence is the version of /epoch; its number is for the store and for people",
    "suspended-taken-as-lost": "a change of leader disturbs no driver",
    "older-uid-registered-again": "no uid fails before a newer one of its name",
    "result-and-reference-of-different-moments": "names and results are read at one moment",
    "claim-of-a-living-driver-is-swept": "the broom is not explored",
    "register-again-does-not-write-own": "a budget that is not renewed breaks no invariant",
    "suspend-does-not-write-own": "a leader drains it later, and a suspension that is slow breaks no invariant",
    "assign-unguarded-by-lease": _SHORT_STOP,
    "bury-unguarded-by-lease": _SHORT_STOP,
    "clean-up-unguarded-by-lease": _SHORT_STOP,
    "submit-unguarded-by-checkpoints": "no place lies inside another one",
    "register-again-unguarded-by-checkpoints": "no place lies inside another one",
    "cancel-unguarded-by-result": "no record is corrupted",
}

UNEXPLORED = {
    "say-distrust", "accept", "end-wait", "unpause", "switchover", "switched-over", "sweep", "refuse", "suspend-exhausted",
}
"""Multis that no scenario leads to: restores, pauses, hand-overs, the broom, a host that refuses, a budget that suspends."""

SCENARIOS: dict[str, tuple[str, ...]] = {
    "acknowledged-before-the-commit": ("cancel",),
    "assign-unguarded-by-epoch": ("submit",),
    "assigned-after-revoking-without-a-wait": ("submitted anew, shim stopped",),
    "assignment-is-never-taken-back": ("host lost at the start",),
    "bury-unguarded-by-epoch": ("suspended, shim cut off",),
    "cancel-does-not-write-own": ("cancel without a supervisor",),
    "cancel-does-not-write-result": ("cancel",),
    "cancel-frees-the-name-at-once": ("cancel",),
    "cancel-leaves-the-attempt-claimed": ("cancel without a supervisor",),
    "cancel-turns-revoked-into-exited": ("new revision",),
    "cancel-unguarded-by-own": ("cancel at the start",),
    "cancelled-uid-registered-again": ("failed for good",),
    "claim-does-not-write-own": ("cancel at the start",),
    "claim-is-sent-on-any-connection": ("restored, shim stopped",),
    "claims-on-any-connection": ("restored, shim stopped",),
    "claim-of-another-shim-taken-as-ours": ("two shims, a claim unanswered",),
    "clean-up-does-not-write-lease": ("cancel",),
    "clean-up-unguarded-by-epoch": ("cancel",),
    "conclude-does-not-write-result": ("finished",),
    "conclude-unguarded-by-epoch": ("finished",),
    "deadline-a-lease-late": ("starting, shim cut off",),
    "deadline-is-not-told-to-the-second-killers": ("starting, shim stopped",),
    "distrusted-registry-is-acted-upon": ("restored at the start",),
    "drain-unguarded-by-epoch": ("restart",),
    "draining-is-not-obeyed": ("submitted anew",),
    "end-of-session-taken-as-proof": ("shim cut off",),
    "exec-before-the-claim-is-answered": ("starting, requests lost",),
    "exec-without-a-claim": ("starting, requests lost",),
    "first-sight-outlives-a-renewal": ("shim cut off",),
    "half-the-wait": ("shim cut off",),
    "lost-session-keeps-the-term": ("leader cut off",),
    "no-wait": ("shim cut off",),
    "older-leftover-takes-the-whole-name": ("submitted anew",),
    "renew-unguarded-by-own": ("cancel",),
    "revoke-unguarded-by-epoch": ("shim cut off",),
    "revoke-unguarded-by-lease": ("stale readings",),
    "revoked-goes-on-renewing": ("cancel of a spoilt job",),
    "second-killers-act-a-lease-late": ("twin killed, shim stopped",),
    "second-killers-do-not-act-at-the-deadline": ("twin killed, shim stopped",),
    "second-killers-never-act": ("shim killed",),
    "silence-is-not-waited-for-before-revoking": ("shim cut off",),
    "starts-before-the-epoch-is-recorded": ("restored, disks lost",),
    "stands-while-somebody-leads": ("submit",),
    "stop-grace-never-ends": ("submitted anew, calmly",),
    "submit-does-not-write-own": ("submit",),
    "suspend-unguarded-by-own": ("suspend at the start",),
    "suspended-is-started": ("suspend and resume",),
    "takeover-restarts-what-it-finds": ("leader cut off",),
    "term-is-not-drained": ("submitted anew, two leaders",),
    "tombstone-before-the-tree-is-empty": ("cancel",),
    "tombstone-over-another-attempt": ("two shims, one killed",),
    "tombstone-over-another-claim": ("two shims, one killed",),
    "tombstone-unguarded-by-own": ("shim cut off",),
    "tombstone-when-the-root-has-exited": ("cancel",),
    "unanswered-claim-taken-as-committed": ("starting, requests lost",),
    "unassign-does-not-write-entry": ("cancel at the start",),
    "unassign-unguarded-by-epoch": ("cancel at the start",),
    "unassign-unguarded-by-own": ("starting, shim stopped",),
    "unknown-outcome-acknowledged": ("cancel",),
}


def reason(name: str) -> str | None:
    """What the gate says of a survivor; None: it must be caught."""
    if name in COVERED:
        return COVERED[name]
    if name in UNSEEN:
        module, test = CAUGHT_BY[name]
        return f"not seen here ({UNSEEN[name]}); {module}.{test} sees it"
    if name.endswith("-unguarded-by-pause") or name.partition("-unguarded-by-")[0] in UNEXPLORED:
        return "not explored; explore.test_defects compares the guards of every multi with the list"
    return None
