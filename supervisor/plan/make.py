"""Makes a Plan from a View, as the pure heart: the table decides every row, candidates are placed, the rest
is explained.

``make_plan(view, now)`` twice gives the same plan; after any prefix of its actions has been carried out, the
plan from the new view is the remainder (a crash may happen anywhere). The controller calls it, ``list`` does
for the reasons of what is pending, and so do tests, which compare plans with ``==``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from supervisor.model.actions import Action, Alarm, Assign, Drain, Note, Plan, Prepare, Revoke, Withdraw
from supervisor.model.load import Load
from supervisor.model.phrases import counted
from supervisor.model.policies import why_refused_everywhere
from supervisor.model.records import Member
from supervisor.model.seen import Unreadable
from supervisor.model.view import View
from supervisor.plan.after_restore import hold_starts, may_start
from supervisor.plan.decide import Decision, WaitingAssignment, decide
from supervisor.plan.moves import moving
from supervisor.plan.place import not_judged, place, turn_of, with_in_flight
from supervisor.plan.placement import Spread, why_unfit
from supervisor.plan.prepare import Preparations, preparing
from supervisor.plan.stops import Stops
from supervisor.plan.update_savepoint import outdated
from supervisor.spec.site_policy import SitePolicy


@dataclass(frozen=True, slots=True)
class Policy:
    """Holds the leader's settings. An assignment that no shim has claimed for ``claim_timeout_s`` is taken
    back. ``site`` is what the operator of the leader's host allows; a job that runs is left alone, whatever
    it says."""

    claim_timeout_s: float = 120.0
    site: SitePolicy = SitePolicy()


def make_plan(view: View, policy: Policy, now_s: float, in_flight: tuple[Assign, ...] = ()) -> Plan:
    """Returns what to do now. ``now_s`` is the CLOCK_BOOTTIME of the observer of ``view``.

    ``in_flight`` holds assignments of earlier passes whose outcome is not known; their jobs are not placed a
    second time.
    """
    if view.distrust is not None:
        why = f"nothing is done, the registry is not trusted: {view.distrust}"
        return Plan(
            (), tuple(Note(name, why, pending=True) for name in sorted(view.rows)), (Alarm(view.distrust),)
        )
    actions: list[Action] = []
    candidates: list[WaitingAssignment] = []
    notes: list[Note] = []
    alarms: list[Alarm] = []
    prepared = Preparations(view, now_s, policy.site)
    for name in sorted(view.rows):
        decision = _decided(view, name, now_s, policy, prepared)
        if decision.action is not None:
            actions.append(decision.action)
        if decision.candidate is not None:
            candidates.append(decision.candidate)
        if decision.note is not None:
            notes.append(decision.note)
        if decision.alarm is not None:
            alarms.append(decision.alarm)
    willing = {member.id: member for member in view.members.values() if member.distrust is None}
    placing = {action.name for action in in_flight}
    candidates = [candidate for candidate in candidates if candidate.name not in placing]
    allowed, forbidden = _allowed(candidates, policy.site, view)
    notes.extend(forbidden)
    loads = with_in_flight(prepared.running, in_flight, view.rows)
    spread = Spread(view.rows.values(), in_flight) if allowed else None
    placed, pending = place(allowed, willing, loads, prepared, view.cordons, spread)
    alarms.extend(_cordon_alarms(view, willing, pending))
    alarms.extend(Alarm(note.why, note.name) for note in pending if note.quarantined)
    pending = [_with_unwilling(note, view) if note.pending else note for note in pending]
    waiting = {note.name for note in (*pending, *forbidden)}
    meanwhile = [c.meanwhile for c in candidates if c.meanwhile is not None and c.name in waiting]
    plan = Plan((*actions, *meanwhile, *placed), (*notes, *pending), (*map(Alarm, view.errors), *alarms))
    loads = with_in_flight(loads, placed, view.rows)
    unplaced = [each for each in allowed if each.name in waiting]
    stops = Stops(prepared.start_places, loads, sorted(unplaced, key=turn_of))
    plan = stops.only_startable(view, plan)
    plan = _without_outdated(view, plan, placing)
    plan = _with_moves(view, plan, prepared, stops.loads, placing)
    plan = plan if may_start(view) else hold_starts(view, plan, now_s)
    plan = plan if view.recorded else _unrecorded(plan)
    return (
        _paused(plan, view.pause.sentence if view.pause is not None else "the cluster is paused")
        if view.paused
        else plan
    )


def _without_outdated(view: View, plan: Plan, placing: set[str]) -> Plan:
    """Adds what drops the savepoints of updates whose hand-over waits."""
    dropped = tuple(outdated(view, placing | {action.name for action in plan.actions}))
    names = {action.name for action in dropped}
    notes = tuple(note for note in plan.notes if note.name not in names)
    return replace(plan, actions=(*plan.actions, *dropped), notes=notes) if dropped else plan


def _with_moves(
    view: View, plan: Plan, prepared: Preparations, loads: Mapping[str, Load], placing: set[str]
) -> Plan:
    """Adds what is about running jobs that are to leave their host, and about the prepared drivers of all. ``loads`` is with
    all that ``plan`` starts; the jobs in ``placing`` have an assignment whose outcome is not known."""
    taken = placing | {action.name for action in plan.actions}
    moves = moving(view, prepared, loads, taken)
    taken |= moves.stopped
    wished = preparing(view, prepared, taken, moves.wishes)
    judged = moves.notes.keys() | moves.stopped
    left = [note for note in plan.notes if note.name not in judged]
    return replace(
        plan, actions=(*plan.actions, *moves.actions, *wished), notes=(*left, *moves.notes.values())
    )


def _cordon_alarms(view: View, willing: Mapping[str, Member], pending: list[Note]) -> Iterator[Alarm]:
    """Yields what a person should know of cordons: one that can't be read, and that nothing can be started."""
    cordoned = view.cordoned
    for host in sorted(view.cordons):
        if isinstance(view.cordons[host], Unreadable):
            helps = f"spark-supervisor uncordon {host} (or cordon {host}) writes it anew"
            yield Alarm(f"{cordoned[host]}, so nothing new is placed there: {helps}")
    waiting = sorted(note.name for note in pending if note.pending)
    if waiting and willing and all(host in cordoned for host in willing):
        what = f"{counted(len(waiting), 'job')} can't be started: every host is cordoned"
        yield Alarm(f"{what}; spark-supervisor uncordon HOST lets one take jobs again")


def _allowed(
    candidates: list[WaitingAssignment], site: SitePolicy, view: View
) -> tuple[list[WaitingAssignment], list[Note]]:
    """Returns the candidates that may be started, and why the others may not."""
    whys = {each.name: _why_forbidden(each, site, view) for each in candidates}
    notes = [Note(name, why, quarantined=True) for name, why in whys.items() if why is not None]
    return [each for each in candidates if whys[each.name] is None], notes


def _why_forbidden(candidate: WaitingAssignment, site: SitePolicy, view: View) -> str | None:
    """Returns why no host may start the candidate, or None."""
    job, own = candidate.ref.record, candidate.own.record
    why = site.why_no_checkpoint(job.terms.checkpoint)
    fit = (m for m in view.members.values() if why_unfit(m, job.terms) is None)
    return why or why_refused_everywhere(job, own, fit)


def _decided(
    view: View, name: str, now_s: float, policy: Policy, prepared: Preparations | None = None
) -> Decision:
    try:
        return decide(
            view.rows[name], view.members, now_s, policy.claim_timeout_s, view.accepted_zxid, prepared
        )
    except Exception as error:  # noqa: BLE001 - the edge of one job within the plan
        note = not_judged(name, error)
        return Decision(note=note, alarm=Alarm(note.why, name))


def _with_unwilling(note: Note, view: View) -> Note:
    """Adds to the note why hosts that are there are not used: they remember another past than the leader."""
    unwilling = sorted(member.id for member in view.members.values() if member.distrust is not None)
    if not unwilling:
        return note
    return replace(
        note, why=f"{note.why}; not trusted, see status, is the registry by {', '.join(unwilling)}"
    )


def _paused(plan: Plan, why: str) -> Plan:
    """Returns the plan of a paused cluster: nothing is done, and what would be done is recorded. The alarms go
    on."""
    held = tuple(
        Note(action.name, f"{why}; held back: {action.why}", pending=True)
        for action in plan.actions
        if not isinstance(action, Prepare | Withdraw)
    )
    notes = tuple(
        replace(note, why=f"{why}; besides, {note.why}") if note.pending else note for note in plan.notes
    )
    return Plan((), (*notes, *held), plan.alarms)


def _unrecorded(plan: Plan) -> Plan:
    """Returns the plan of a leader whose epoch is not yet recorded in the store: it adopts, drains and
    revokes, but starts and cleans nothing."""
    allowed = tuple(action for action in plan.actions if isinstance(action, Drain | Revoke))
    held = tuple(
        Note(action.name, "waiting until this epoch is recorded in the store", pending=True)
        for action in plan.actions
        if action not in allowed and not isinstance(action, Prepare | Withdraw)
    )
    return Plan(allowed, (*plan.notes, *held), plan.alarms)
