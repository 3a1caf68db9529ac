"""Says which jobs leave their host now, which wait with that, and why. It is pure.

Two things make a job leave a host on which it runs: a person moves it (``JobRef.move``), or its host is drained
(``Cordon``). Both are a hand-over: a driver is prepared on another host, then the present one is stopped in order, and
the next attempt is placed as any other. Neither has a write of its own: what begins is the ``Drain`` of an attempt,
with the guards of that. A job for which no other host has room, or that the policies of the others
have refused, is left alone, and its note says so.

``plan.make`` calls ``moving`` after it has placed what is to be started, so that no room is given away twice. Of the jobs of
a host that is drained at most ``max_parallel`` are under way: a driver of it is being prepared, or it was stopped and does
not run yet (``Ownership.moved_by``), be it because it fails where it is now. So a host on which nothing can run gets few
jobs of another, not all.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field

from supervisor.model.actions import ROOM_ELSEWHERE, Drain, Note
from supervisor.model.driver_memory import next_memory
from supervisor.model.load import Load
from supervisor.model.phrases import counted
from supervisor.model.records import Cause, Cordon, Desired, JobRef, Ownership, OwnState, Phase
from supervisor.model.seen import Found
from supervisor.model.view import Row, View
from supervisor.plan.decide import full_wait_over
from supervisor.plan.place import not_judged
from supervisor.plan.prepare import KEEP, NextDriver, Preparations, Wish, move_wish

NAMED_MAX = 3
"""A note names this many jobs that are waited for."""


@dataclass(slots=True)
class Moves:
    """Collects what comes of one View. ``notes`` take the place of other notes of the same jobs; ``wishes`` are the
    prepared drivers that are wanted for moves. ``loads`` is what hosts carry with all that was decided."""

    loads: dict[str, Load]
    actions: list[Drain] = field(default_factory=list)
    notes: dict[str, Note] = field(default_factory=dict)
    wishes: dict[str, Wish | str] = field(default_factory=dict)

    @property
    def stopped(self) -> set[str]:
        return {action.name for action in self.actions}

    def begin(self, row: Row, said: NextDriver) -> None:
        """Stops the present driver: its job has a place, which nobody else is given in this plan."""
        ref, own = _records(row)
        self.actions.append(Drain(row.name, said.why, ref, own))
        memory = next_memory(ref.record, own.record).whole
        self.loads[said.host] = self.loads.get(said.host, Load()).plus(memory, starting=True)

    def wait(self, row: Row, why: str, said: NextDriver) -> None:
        """Leaves the present driver alone for now."""
        prepares, awaited = (None, ROOM_ELSEWHERE) if said.impossible else (said.host, "a prepared driver")
        self.notes[row.name] = Note(row.name, why, said.wait_s, prepares=prepares, moves=awaited)


def moving(view: View, prepared: Preparations, loads: Mapping[str, Load], taken: set[str]) -> Moves:
    """Returns what is done about the jobs that are to leave their host. ``loads`` is what hosts carry without prepared
    drivers, with all that this plan starts; the jobs in ``taken`` have another action, or one that is under way."""
    moves = Moves(dict(loads))
    asked = [name for name, row in view.rows.items() if name not in taken and _is_asked(row)]
    for name in sorted(asked):
        row = view.rows[name]
        if _may_leave(row):
            with _apart(name, moves):
                _move(row, prepared, moves)
    drained = [found.record for found in view.cordons.values() if isinstance(found, Found)]
    drained = sorted((each for each in drained if each.draining), key=lambda each: each.supervisor)
    rows = _by_place(view.rows.values()) if drained else {}
    for cordon in drained:
        about = {row.name: row for key in (cordon.supervisor, cordon.drain) for row in rows.get(key, ())}
        _drain(about.values(), cordon, prepared, moves, taken)
    return moves


def _by_place(rows: Iterable[Row]) -> Mapping[str, list[Row]]:
    """Groups the rows by the host of their attempts, and by the drain by which they left one: a drain looks at its own jobs
    only, since the records of hosts that are gone for good may stay."""
    found: defaultdict[str, list[Row]] = defaultdict(list)
    for row in rows:
        if isinstance(row.own, Found):
            found[row.own.record.supervisor].append(row)
            if row.own.record.moved_by:
                found[row.own.record.moved_by].append(row)
    return found


def _move(row: Row, prepared: Preparations, moves: Moves) -> None:
    """Decides about a job that somebody moves to a host by name."""
    ref, own = _records(row)
    request = ref.record.move_in_force
    assert request is not None
    why = f"it moves to {request.to}"
    closed = prepared.start_places.why_not_open(request.to, ref.record, own.record)
    if closed or request.to == own.record.supervisor:
        here = closed or f"it runs on {request.to}"
        why = f"it goes on, and does not move to {request.to}: {here}"
        moves.notes[row.name] = Note(row.name, why, moves=ROOM_ELSEWHERE)
        return
    said = prepared.move(ref.record, own.record, why, moves.loads, request.to)
    if said.stop:
        moves.begin(row, said)
    elif said.impossible:
        moves.wait(row, f"it goes on, and does not move to {request.to}: {said.why}", said)
    else:
        moves.wait(row, f"{why}: {said.why}", said)


def _drain(
    rows: Collection[Row], cordon: Cordon, prepared: Preparations, moves: Moves, taken: set[str]
) -> None:
    """Decides about the jobs of one host that is drained, which are among ``rows``: the first of those that can leave it,
    as many as there may be under way. First comes for whom most is done already, so that the choice stays the same from
    pass to pass."""
    under_way = sorted(row.name for row in rows if is_under_way(row, cordon))
    stopped, leaving = moves.stopped, []
    for row in sorted(rows, key=lambda each: each.name):
        name = row.name
        if name in taken or not _runs_on(row, cordon.supervisor) or not _may_leave(row):
            continue
        if name in stopped or (name in moves.notes and moves.notes[name].moves != ROOM_ELSEWHERE):
            under_way.append(name)  # somebody moves it
        else:
            leaving.append(row)
    for row in sorted(leaving, key=lambda each: _turn(each, prepared)):
        if len(under_way) >= max(1, cordon.max_parallel):
            runs = f"{_named(under_way)} {'runs' if len(under_way) == 1 else 'run'} elsewhere"
            why = f"{cordon.supervisor} is drained: its turn comes when {runs}"
            moves.notes[row.name] = Note(row.name, why, moves="its turn")
            continue
        with _apart(row.name, moves):
            if _leave(row, cordon, prepared, moves):
                under_way.append(row.name)


def _leave(row: Row, cordon: Cordon, prepared: Preparations, moves: Moves) -> bool:
    """Decides about one job of a host that is drained, whose turn it is. Returns whether it is under way now."""
    ref, own = _records(row)
    why = f"{cordon.supervisor} is drained"
    said = prepared.move(ref.record, own.record, why, moves.loads)
    if said.stop:
        moves.begin(row, said)
        return True
    if said.host:
        # also for one that can't be prepared: without its request it would be asked for again, and fail again
        moves.wishes[row.name] = move_wish(ref.record, own.record, why) or KEEP
    if said.impossible:
        moves.wait(row, f"{why}, but it goes on there: {said.why}", said)
        return False
    moves.wait(row, f"{why}: {said.why}", said)
    return True


@contextmanager
def _apart(name: str, moves: Moves) -> Iterator[None]:
    """Keeps the trouble of one job its own (I9): what can't be judged is left alone, and said to be."""
    try:
        yield
    except Exception as error:  # noqa: BLE001 - the edge of one job within the plan
        moves.notes[name] = not_judged(name, error)


def is_under_way(row: Row, cordon: Cordon) -> bool:
    """Says whether the job of ``row`` was stopped for the drain of a host, or stops on it in order for another reason, and
    does not run elsewhere yet."""
    if not isinstance(row.ref, Found) or not isinstance(row.own, Found):
        return False
    job, own = row.ref.record, row.own.record
    if own.uid != job.uid or job.desired is not Desired.RUNNING:
        return False
    if own.supervisor == cordon.supervisor:
        stopped = own.state is OwnState.EXITED and own.cause is Cause.STOPPED
        return own.state is OwnState.DRAINING or stopped
    if own.moved_by != cordon.drain or own.state is OwnState.DRAINING:
        return False
    return not (own.state is OwnState.CLAIMED and _is_running(row))


def _is_running(row: Row) -> bool:
    """Says whether its attempt has committed a batch, or runs without queries."""
    lease = row.lease_of_owner
    return lease is not None and lease.phase in (Phase.RUNNING, Phase.STOPPING)


def _may_leave(row: Row) -> bool:
    """Says whether the present attempt is one that is left alone but for a move: claimed, renewed, and of the
    revision that is wanted. The leader does something else about any other."""
    if row.flaws or row.is_torn or not isinstance(row.ref, Found) or not isinstance(row.own, Found):
        return False
    job, own = row.ref.record, row.own.record
    if own.uid != job.uid or own.state is not OwnState.CLAIMED or job.desired is not Desired.RUNNING:
        return False
    restarts = own.restart_nonce != job.restart_nonce and job.move_in_force is None
    return own.revision == job.revision and not restarts and full_wait_over(row) is None


def _is_asked(row: Row) -> bool:
    """Says whether somebody moves the job, and its attempt was not assigned for that."""
    ref, own = row.ref, row.own
    if not isinstance(ref, Found) or not isinstance(own, Found):
        return False
    return ref.record.move_in_force is not None and own.record.restart_nonce != ref.record.restart_nonce


def _runs_on(row: Row, host: str) -> bool:
    return isinstance(row.own, Found) and row.own.record.supervisor == host


def _turn(row: Row, prepared: Preparations) -> tuple[bool, bool, str]:
    ref, own = _records(row)
    there = [each for each in prepared.of(ref.record.uid) if each.supervisor != own.record.supervisor]
    return not any(map(prepared.is_ready, there)), not there, row.name


def _records(row: Row) -> tuple[Found[JobRef], Found[Ownership]]:
    assert isinstance(row.ref, Found) and isinstance(row.own, Found)
    return row.ref, row.own


def _named(names: Iterable[str]) -> str:
    listed = list(names)
    more = len(listed) - NAMED_MAX
    return ", ".join(listed[:NAMED_MAX]) + (f" and {counted(more, 'other')}" if more > 0 else "")
