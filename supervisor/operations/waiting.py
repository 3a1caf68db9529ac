"""Waits until what a person asked for has come about: that a job runs, that no driver of it is alive, that
another supervisor leads.

``cli`` calls it for ``--wait`` and for ``switchover``, after the write is durable. Each wait reads every half
second, for a bounded time, and notifies a ``WaitListener`` of its progress. A ZooKeeper that is away for a moment
does not end a wait. When the time runs out, the error says what is still missing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from time import sleep
from typing import TYPE_CHECKING, Protocol

from supervisor.clock import boottime_s, wall_s
from supervisor.errors import SupervisorError, TimedOut, Unreachable
from supervisor.model.history import FAILURES, same_words
from supervisor.model.lease_terms import LONGEST_WAIT_S, wait_by_terms_s
from supervisor.model.records import (
    DEAD,
    Desired,
    Handover,
    JobRef,
    LeaderHint,
    Lease,
    Ownership,
    OwnState,
    Phase,
    Result,
)
from supervisor.model.seen import Found, Seen, Unreadable
from supervisor.model.state import (
    JobState,
    Shown,
    is_pending,
    observed_update,
    shown_state,
    state_of_ended,
)
from supervisor.model.view import Row, SeenLease
from supervisor.observe.first_seen import FirstSeen
from supervisor.observe.listing import seconds_of
from supervisor.operations.context import CommandContext
from supervisor.operations.elsewhere import gone_in_words
from supervisor.operations.scene import take_scene, why_not_yet
from supervisor.plan.prepare import waits_for_restart
from supervisor.records.reading import seen, seen_all
from supervisor.settings.units import format_duration

if TYPE_CHECKING:
    from supervisor.operations.cluster import Asked


class WaitListener(Protocol):
    """Is notified of the progress of a wait."""

    def report(self, name: str, phase: str, *, done: bool = False) -> None:
        """Is called at each read with how far ``name`` is; ``phase`` is often the same again."""

    def refresh(self) -> None:
        """Is called after each read."""


PERIOD_S = 0.5
QUICK_PERIOD_S = 0.05
GOOD = frozenset({JobState.RUNNING, JobState.FINISHED})
BAD = frozenset({JobState.FAILED, JobState.QUARANTINED, JobState.CANCELLED, JobState.SUSPENDED})

STEADY_AFTER_S = 30.0
"""Running for this long without a query ends a wait: a shim of the version before reports that it runs when
Spark has yet to start. It is measured by the wall clock, because it only ends a wait."""
SAME_FAILURES = 3
"""This many equal failures in a row end a wait: the next attempt will most likely fare no better."""


PHASES: Mapping[Phase, str] = {
    Phase.CLAIMED: "claimed",
    Phase.WAITING: "waiting: its driver waits until its checkpoint was looked at",
    Phase.BEGUN: "begun: the application's first line ran",
    Phase.SESSION: "session: it has a SparkSession",
    Phase.QUERY: "query: it waits for its first batch",
    Phase.RUNNING: "running: its first batch is committed",
    Phase.STOPPING: "stopping",
}


def wait_gone(
    context: CommandContext, uids: Mapping[str, str], timeout_s: float, did: str, listener: WaitListener
) -> dict[str, SupervisorError | None]:
    """Waits until no attempt of any of ``uids`` (name → uid) can be alive: its ownership says so, or its lease was silent
    for the full wait.

    It needs no supervisor: the second way is the one that a leader would go (protocol §7.2). ``did`` is what
    was acknowledged, like ``cancelled``. Returns by name None, or TimedOut.
    """
    first_seen = FirstSeen()
    left = dict(uids)

    def are_gone() -> bool:
        for name, phase in _alive(context, left, first_seen).items():
            said = phase or gone_in_words(context, name, uids[name])
            listener.report(name, said, done=phase is None)
            if phase is None:
                del left[name]
        return not left

    poll(are_gone, timeout_s, listener)
    whys = _whys(context, left)
    return {
        name: TimedOut(
            f"{name} is {did}, but its driver has not stopped yet after {timeout_s:g} s ({whys[name]})"
        )
        if name in left
        else None
        for name in uids
    }


def _alive(context: CommandContext, uids: Mapping[str, str], first_seen: FirstSeen) -> dict[str, str | None]:
    """Returns by name in words what is still there, or None if nothing is."""
    zoo, layout = context.zoo(), context.layout
    paths = [layout.own(name) for name in uids]
    owns: list[Seen[Ownership]] = seen_all(Ownership, paths, zoo.read_many(paths).nodes)
    found: dict[str, str | None] = {}
    occupied: dict[str, Found[Ownership] | Unreadable] = {}
    for (name, uid), own in zip(uids.items(), owns, strict=True):
        if own is None or isinstance(own, Found) and (own.record.uid != uid or own.record.state in DEAD):
            found[name] = None
        else:
            occupied[name] = own
    paths = [layout.lease(name) for name in occupied]
    reads = zoo.read_many(paths)
    leases: list[Seen[Lease]] = seen_all(Lease, paths, reads.nodes)
    for (name, held), lease in zip(occupied.items(), leases, strict=True):
        seen_lease = first_seen.lease(name, lease, reads.sent_at_s, reads.received_at_s)
        found[name] = _still_there(held, seen_lease)
    return found


def _still_there(own: Found[Ownership] | Unreadable, lease: SeenLease) -> str | None:
    of_owner = (
        isinstance(own, Found)
        and isinstance(lease.seen, Found)
        and lease.seen.record.claim == own.record.claim
    )
    terms = lease.seen.record if isinstance(lease.seen, Found) and of_owner else None
    wait_s = LONGEST_WAIT_S if terms is None else wait_by_terms_s(terms.lease_s, terms.executors_outlive_s)
    if lease.silent_s >= wait_s:
        return None
    if not isinstance(own, Found):
        return "its ownership is unreadable: waiting for the longest lease"
    return f"{own.record.state.value}: attempt {own.record.attempt} on {own.record.host} is stopping"


def wait_running(
    context: CommandContext, uids: Mapping[str, str], timeout_s: float, did: str, listener: WaitListener
) -> dict[str, SupervisorError | None]:
    """Waits until each of ``uids`` (name → uid) has its first batch, has finished, or has failed.

    ``did`` is as in ``wait_gone``. Returns by name None, or why the job does not run. An attempt that is to
    be replaced (a restart) does not count as running. A job that is tried again and again counts as failed
    once the same failure has come three times during the wait.
    """
    outcomes: dict[str, SupervisorError | None] = {}
    began_with: dict[str, int] = {}

    def all_done() -> bool:
        for name, uid in uids.items():
            if name in outcomes:
                continue
            shown, phase, own = _shown(context, name, uid)
            listener.report(name, phase, done=shown.state in GOOD | BAD)
            first = began_with.setdefault(name, 1 if own is None else _first_of_wait(own))
            again = "" if own is None else repeated(own, first)
            if shown.state in GOOD:
                outcomes[name] = None
            elif shown.state in BAD:
                outcomes[name] = SupervisorError(f"{name} does not run ({shown.state.value}: {shown.reason})")
            elif again:
                outcomes[name] = SupervisorError(
                    f"{name} is {did} but does not run: {SAME_FAILURES} attempts failed alike ({again}); it is tried "
                    f"again until you correct it, or suspend or cancel {name}"
                )
        return len(outcomes) == len(uids)

    poll(all_done, timeout_s, listener)
    late = [name for name in uids if name not in outcomes]
    for name, why in _whys(context, late).items():
        outcomes[name] = TimedOut(f"{name} is {did} but does not run after {timeout_s:g} s ({why})")
    return outcomes


def why_given_up(context: CommandContext, name: str) -> str:
    """Returns why the newest update of ``name`` was given up or rolled back; empty if it was not. Raises Unreachable."""
    job = _job(context, name)
    if job is None or job.update is None:
        return ""
    if job.update.rolled_back:
        return f"revision {job.update.target} was rolled back: {job.update.rolled_back}"
    return f"revision {job.update.target} was given up: {job.update.given_up}" if job.update.given_up else ""


def why_observed(context: CommandContext, name: str) -> str:
    """Returns a sentence that says for how long the newest update of ``name`` is observed, or an empty one if it is not.
    Raises Unreachable."""
    job = _job(context, name)
    update = observed_update(job) if job is not None else None
    if update is None or update.policy is None:
        return ""
    span = format_duration(update.policy.observe_s)
    return f"{name}: revision {update.target} is observed for {span} from its first batch on; show {name} tells how it goes"


def why_waits_for_restart(context: CommandContext, name: str) -> str:
    """Returns a sentence if the newest revision of ``name`` waits until the job is restarted; else it is empty. Raises
    Unreachable."""
    paths = [context.layout.job(name), context.layout.own(name)]
    nodes = context.zoo().read_many(paths).nodes
    ref: Seen[JobRef] = seen(JobRef, nodes[0], paths[0])
    own: Seen[Ownership] = seen(Ownership, nodes[1], paths[1])
    if not isinstance(ref, Found) or not isinstance(own, Found):
        return ""
    job, owner = ref.record, own.record
    if not is_pending(job, owner) or not waits_for_restart(job, owner):
        return ""
    return (
        f"{name} goes on with revision {owner.revision} until restart {name} is given (update.mode: manual)"
    )


def is_suspended(context: CommandContext, name: str) -> bool:
    """Says whether ``name`` is registered and shall not run. Raises Unreachable."""
    job = _job(context, name)
    return job is not None and job.desired is Desired.SUSPENDED


def _job(context: CommandContext, name: str) -> JobRef | None:
    path = context.layout.job(name)
    ref: Seen[JobRef] = seen(JobRef, context.zoo().read(path), path)
    return ref.record if isinstance(ref, Found) else None


def _first_of_wait(own: Ownership) -> int:
    """Returns the number of the first attempt whose failure belongs to this wait."""
    return own.attempt + 1 if own.state in DEAD else own.attempt


def repeated(own: Ownership, since_attempt: int) -> str:
    """Returns the cause, if the newest failures from ``since_attempt`` on are one and the same three times;
    else it is empty.

    Failures are alike if they have one cause, and their words differ in numbers only (a pid, a port, a
    duration).
    """
    failures = [entry for entry in own.history if entry.event in FAILURES and entry.attempt >= since_attempt]
    newest = failures[-SAME_FAILURES:]
    alike = {(entry.event, same_words(entry.detail)) for entry in newest}
    if len(newest) < SAME_FAILURES or len(alike) > 1:
        return ""
    is_newest = own.state is OwnState.EXITED and own.attempt == newest[-1].attempt
    return (own.reason if is_newest else "") or newest[-1].detail or newest[-1].event


def _shown(context: CommandContext, name: str, uid: str) -> tuple[Shown, str, Ownership | None]:
    """Returns the state, how far it is on the way to its first batch, and its ownership, if that is about
    ``uid``.

    The state is the one that is shown of the job, but for what a wait is not about: a driver that is to be
    replaced by the very change that was asked for is stopping, and one whose queries are not known yet is
    starting.
    """
    layout = context.layout
    paths = [layout.job(name), layout.own(name), layout.lease(name), layout.result(uid)]
    reads = context.zoo().read_many(paths)
    nodes = reads.nodes
    ref: Seen[JobRef] = seen(JobRef, nodes[0], paths[0])
    own: Seen[Ownership] = seen(Ownership, nodes[1], paths[1])
    lease: Seen[Lease] = seen(Lease, nodes[2], paths[2])
    result: Seen[Result] = seen(Result, nodes[3], paths[3])
    mine = own.record if isinstance(own, Found) and own.record.uid == uid else None
    if isinstance(result, Found):
        shown = state_of_ended(result.record)
    elif isinstance(ref, Found) and ref.record.uid != uid or ref is None:
        shown = Shown(JobState.CANCELLED, "it was cancelled meanwhile")
    elif isinstance(ref, Found) and isinstance(own, Found) and _is_to_be_replaced(ref.record, own.record):
        shown = Shown(JobState.STOPPING, f"attempt {own.record.attempt} is to be stopped first")
    else:
        row = Row(name, ref, own, lease=SeenLease(lease, reads.received_at_s, reads.sent_at_s))
        shown = shown_state(row)
        if shown.state is JobState.RUNNING and not _is_steady(lease):
            shown = Shown(JobState.STARTING, shown.reason)
        if shown.state in (JobState.PENDING, JobState.STARTING, JobState.RUNNING) and isinstance(own, Found):
            return shown, _phase(own.record, lease), mine
    return shown, f"{shown.state.value}: {shown.reason}", mine


def _is_steady(lease: Seen[Lease]) -> bool:
    """Returns whether the wait may end: a query has committed a batch or waits for data, or there will be
    none (``shim.health``)."""
    if not isinstance(lease, Found) or lease.record.progress is not None or lease.record.queries:
        return True
    since_at_s = seconds_of(lease.record.since)
    return since_at_s is None or not 0 <= wall_s() - since_at_s < STEADY_AFTER_S


def _is_to_be_replaced(job: JobRef, own: Ownership) -> bool:
    changed = own.restart_nonce != job.restart_nonce or own.revision != job.revision
    return own.uid == job.uid and own.state is OwnState.CLAIMED and changed


def _phase(own: Ownership, lease: Seen[Lease]) -> str:
    if own.state is OwnState.ASSIGNED:
        return f"assigned: attempt {own.attempt} to {own.supervisor}"
    if own.state is not OwnState.CLAIMED:
        return "queued"
    mine = isinstance(lease, Found) and lease.record.claim == own.claim
    phase = lease.record.phase if isinstance(lease, Found) and mine else Phase.CLAIMED
    if phase is Phase.RUNNING and isinstance(lease, Found) and lease.record.progress is None:
        return "running: it is up, and makes no query so far"
    return (
        f"claimed: attempt {own.attempt} on {own.host}"
        if phase is Phase.CLAIMED
        else PHASES.get(phase, phase.value)
    )


def _whys(context: CommandContext, names: Iterable[str]) -> dict[str, str]:
    """Returns why each is not there yet, by one reading of the whole cluster, or the error of that
    reading."""
    names = list(names)
    if not names:
        return {}
    try:
        scene = take_scene(context, ask_store=False)
        return {name: why_not_yet(context, scene, name) for name in names}
    except SupervisorError as error:
        return dict.fromkeys(names, str(error))


def wait_switched_over(
    context: CommandContext, asked: Asked, timeout_s: float, listener: WaitListener
) -> LeaderHint:
    """Waits until a term after that of ``asked`` has acted, which removes the wish. Returns who leads then.

    Raises TimedOut.
    """
    layout = context.layout
    found: list[LeaderHint] = []
    why = [f"{asked.leader} has not handed over yet"]

    def has_acted() -> bool:
        nodes = context.zoo().read_many([layout.leader, layout.switchover]).nodes
        hint: Seen[LeaderHint] = seen(LeaderHint, nodes[0], layout.leader)
        wish: Seen[Handover] = seen(Handover, nodes[1], layout.switchover)
        if not isinstance(hint, Found) or hint.record.epoch <= asked.epoch:
            why[0] = f"{asked.leader} has not handed over yet" if hint is not None else "nobody leads yet"
        elif wish is not None and not (isinstance(wish, Found) and wish.record.epoch > asked.epoch):
            why[0] = f"{hint.record.supervisor} leads, but has not acted yet"
        else:
            found.append(hint.record)
        listener.report("switchover", f"{found[0].supervisor} leads" if found else why[0], done=bool(found))
        return bool(found)

    if poll(has_acted, timeout_s, listener, QUICK_PERIOD_S):
        return found[0]
    raise TimedOut(f"{why[0]} after {timeout_s:g} s: see spark-supervisor status")


def poll(
    is_over: Callable[[], bool], timeout_s: float, listener: WaitListener, period_s: float = PERIOD_S
) -> bool:
    """Returns whether it was over in time. It is checked at least once."""
    deadline_at_s = boottime_s() + timeout_s
    while True:
        last_read = boottime_s() >= deadline_at_s
        try:
            if is_over():
                return True
        except Unreachable as error:
            listener.report("waiting", str(error))
        listener.refresh()
        if last_read:
            return False
        sleep(min(period_s, max(0.0, deadline_at_s - boottime_s())))
