"""Takes the stops out of a plan whose jobs could not be started again. It is pure.

``plan.make`` calls it after it has placed what is to be started. ``plan.startable`` says what a job needs; here every stop
of a plan is judged together with all others, whoever has decided it: so none goes around that, and no place is counted on
twice.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from supervisor.model.actions import Drain, Note, Plan
from supervisor.model.driver_memory import next_memory
from supervisor.model.load import Load
from supervisor.model.records import OCCUPYING, Desired, JobRef, Ownership, OwnState
from supervisor.model.seen import Found
from supervisor.model.view import Row, View
from supervisor.plan.decide import WaitingAssignment
from supervisor.plan.place import turn_of
from supervisor.plan.placement import why_not_taken
from supervisor.plan.room import freed
from supervisor.plan.startable import StartPlace, StartPlaces, goes_on


@dataclass(slots=True)
class Stops:
    """Judges the stops of one plan. ``loads`` is what hosts carry with all that the plan starts, and with what was said to
    have a place; ``waiting`` are the jobs for which there is none, in their turns."""

    start_places: StartPlaces
    loads: Mapping[str, Load]
    waiting: Sequence[WaitingAssignment]

    def only_startable(self, view: View, plan: Plan) -> Plan:
        """Returns ``plan`` without the stops of jobs that could not be started again, each with a note in its place.

        First come the jobs that an earlier plan has stopped, and whose driver is there yet, and what waits for a slot to
        start: their places are given. The stops of this plan take their turns by priority, as starts do.
        """
        stops = [each for each in plan.actions if isinstance(each, Drain) and _is_to_run_on(each)]
        for row in sorted(view.rows.values(), key=lambda each: each.name):
            if _stops_for_start(row):
                job, own = _records(row)
                self._take(self.start_places.for_restart(job, own, self.loads), job, own)
        for each in self.waiting if stops else ():
            job, own = each.ref.record, each.own.record
            loads = freed(self.loads, own) if each.waited else self.loads
            self._take(self.start_places.for_start(job, own, loads), job, own)
        held: dict[str, Note] = {}
        for stop in sorted(stops, key=lambda each: (-each.ref.record.terms.priority, each.name)):
            job, own = stop.ref.record, stop.own.record
            start_place = self._start_place(job, own)
            if start_place.host is not None:
                self._take(start_place, job, own)
            else:
                why = goes_on(stop.why, own, start_place.why)
                held[stop.name] = Note(stop.name, why, unplaceable=start_place.unplaceable, holds_stop=True)
        if not held:
            return plan
        actions = tuple(each for each in plan.actions if each.name not in held)
        return replace(plan, actions=actions, notes=(*plan.notes, *held.values()))

    def _start_place(self, job: JobRef, own: Ownership) -> StartPlace:
        """Returns where ``job`` could be started once its driver has stopped. What waits and comes before it may take the
        place that this leaves."""
        start_place = self.start_places.for_restart(job, own, self.loads)
        host = start_place.host
        if host is None or host.id != own.supervisor:
            return start_place
        first, load = "", freed(self.loads, own).get(host.id, Load())
        for each in _before(self.waiting, job):
            other, its = each.ref.record, each.own.record
            memory = next_memory(other, its).whole
            if why_not_taken(host, other, its, load, memory) is None:
                load, first = load.plus(memory, starting=True), first or other.name
        if not first:
            return start_place
        # ``for_restart`` takes the present driver away again
        taken = {**self.loads, host.id: load.plus(own.memory, starting=False)}
        found = self.start_places.for_restart(job, own, taken)
        return (
            found
            if found.host is not None
            else replace(found, why=f"{found.why}; {first} waits and comes first")
        )

    def _take(self, start_place: StartPlace, job: JobRef, own: Ownership) -> None:
        """Counts the place that a job gets. A driver is there until it ends: on its own host only what the next one needs
        beyond it is added."""
        host = start_place.host
        if host is None:
            return
        memory, load = next_memory(job, own).whole, self.loads.get(host.id, Load())
        if host.id == own.supervisor and own.state in OCCUPYING:
            load = replace(load, memory=load.memory + max(0, memory - own.memory))
        else:
            load = load.plus(memory, starting=False)
        self.loads = {**self.loads, host.id: load}


def _before(waiting: Iterable[WaitingAssignment], job: JobRef) -> Iterable[WaitingAssignment]:
    """Yields those of ``waiting`` whose turn comes before that of ``job``, which begins again without failures."""
    turn = (-job.terms.priority, 0, job.name)
    for each in waiting:
        if turn_of(each) >= turn:
            return
        yield each


def _is_to_run_on(stop: Drain) -> bool:
    return stop.ref.record.desired is Desired.RUNNING


def _stops_for_start(row: Row) -> bool:
    if row.flaws or row.is_torn or not isinstance(row.ref, Found) or not isinstance(row.own, Found):
        return False
    job, own = _records(row)
    wanted = own.uid == job.uid and job.desired is Desired.RUNNING
    return wanted and own.state in (OwnState.DRAINING, OwnState.REVOKED)


def _records(row: Row) -> tuple[JobRef, Ownership]:
    assert isinstance(row.ref, Found) and isinstance(row.own, Found)
    return row.ref.record, row.own.record
