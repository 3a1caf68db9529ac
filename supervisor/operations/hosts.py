"""Carries out what an operator does to one host: ``cordon``, ``uncordon``, ``drain``, and the wait for a drain.

Called by ``cli``. The commands write one record (``registry.operator_writes: cordon``) and work without any supervisor; the
leader does what follows (``plan.moves``). A leader that is drained is asked to hand over, by the write of ``switchover``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any

from supervisor.clock import wall_iso
from supervisor.errors import Conflict, SupervisorError, TimedOut
from supervisor.model.actions import ROOM_ELSEWHERE
from supervisor.model.records import OCCUPYING, REASON_MAX_BYTES, Cordon, LeaderHint, clip
from supervisor.model.seen import Found, Seen
from supervisor.model.state import is_pending
from supervisor.model.view import Row, cordoned_by
from supervisor.observe.status import cordon_document
from supervisor.operations.cluster import Asked, ClusterOperations, ClusterWrite
from supervisor.operations.context import CommandContext
from supervisor.operations.names import check_host
from supervisor.operations.scene import Scene, take_scene
from supervisor.operations.waiting import WaitListener, poll
from supervisor.plan.explain import Await, Explanation
from supervisor.plan.moves import is_under_way
from supervisor.plan.prepare import waits_for_restart
from supervisor.records.ids import new_op_id
from supervisor.records.ports import ZkSession
from supervisor.records.reading import seen, seen_all
from supervisor.registry import operator_writes


class HostDid(StrEnum):
    """Says what came of a command about a host. All values are exit code 0."""

    CORDONED = "cordoned"
    ALREADY_CORDONED = "already cordoned"
    UNCORDONED = "uncordoned"
    NOT_CORDONED = "not cordoned"
    DRAINING = "draining"
    ALREADY_DRAINING = "already draining"


@dataclass(frozen=True, slots=True)
class HostDone:
    """Acknowledges a command about a host. ``record`` is what is wanted of it now, or None if that can't be read or
    nothing is. ``asked`` is the hand-over of the leadership that was asked for, if this host leads; ``alone`` says that
    it leads and that nobody else is up who could take over."""

    host: str
    did: HostDid
    record: Cordon | None
    asked: Asked | None = None
    alone: bool = False

    def document(self) -> dict[str, Any]:
        """Returns the cordon as ``status`` has it, with what was done."""
        cordon = None if self.record is None else cordon_document(Found(self.record, 0))
        return {"host": self.host, "did": self.did.value, "cordoned": cordon is not None, "cordon": cordon}


class HostOperations(ClusterOperations):
    """Gives one command access to what is wanted of hosts. It is not thread-safe."""

    def cordon(self, host: str, why: str) -> HostDone:
        """Keeps anything new from being placed on ``host``; what runs there goes on. A host that is cordoned or drained
        already stays as it is. Raises NotFound for a host that was never up."""
        asked = clip(why, REASON_MAX_BYTES)

        def change(before: Cordon | None) -> Cordon | HostDone:
            if before is not None and before.cordoned:
                return HostDone(host, HostDid.ALREADY_CORDONED, before)
            return self._record(host, asked)

        return self._change(host, HostDid.CORDONED, change)

    def uncordon(self, host: str) -> HostDone:
        """Lets ``host`` take jobs again, and ends a drain of it; what was moved away stays where it is."""

        def change(before: Cordon | None) -> Cordon | HostDone:
            if before is None or not before.cordoned:
                return HostDone(host, HostDid.NOT_CORDONED, before)
            return replace(self._record(host, ""), cordoned=False)

        return self._change(host, HostDid.UNCORDONED, change)

    def drain(self, host: str, max_parallel: int, why: str) -> HostDone:
        """Cordons ``host`` and has the leader move its jobs away, at most ``max_parallel`` at a time. Given again, it goes
        on with the same drain, by the new number. If the host leads, it is asked to hand over, by a second write."""
        asked = clip(why, REASON_MAX_BYTES)

        def change(before: Cordon | None) -> Cordon | HostDone:
            cordoned = before is not None and before.cordoned
            kept = before.why if before is not None and cordoned and not asked else asked
            drains = before.drain if before is not None and before.draining else ""
            if before is not None and drains and (before.max_parallel, before.why) == (max_parallel, kept):
                return HostDone(host, HostDid.ALREADY_DRAINING, before)
            record = self._record(host, kept)
            return replace(record, drain=drains or record.op, max_parallel=max_parallel)

        done = self._change(host, HostDid.DRAINING, change)
        if self._leader() != host:
            return done
        try:
            return replace(done, asked=self.switchover(self._successor(host)))
        except Conflict:  # nobody else is up, or the leadership is changing just now
            return replace(done, alone=self._leader() == host)

    def _record(self, host: str, why: str) -> Cordon:
        return Cordon(supervisor=host, cordoned=True, by=self._by, at=wall_iso(), why=why, op=new_op_id())

    def _leader(self) -> str:
        path = self._layout.leader
        hint: Seen[LeaderHint] = seen(LeaderHint, self._sessions.zoo().read(path), path)
        return hint.record.supervisor if isinstance(hint, Found) else ""

    def _successor(self, host: str) -> str | None:
        """Returns who shall lead next: one that is not cordoned, if there are both kinds; else None, for anybody."""
        zoo, layout = self._sessions.zoo(), self._layout
        others = sorted(set(zoo.children(layout.supervisors) or ()) - {host})
        paths = [layout.host(other) for other in others]
        cordons: list[Seen[Cordon]] = seen_all(Cordon, paths, zoo.read_many(paths).nodes)
        found = {other: cordon for other, cordon in zip(others, cordons, strict=True) if cordon is not None}
        free = sorted(set(others) - cordoned_by(found).keys())
        return free[0] if free and len(free) < len(others) else None

    def _change(
        self, host: str, did: HostDid, change: Callable[[Cordon | None], Cordon | HostDone]
    ) -> HostDone:
        """Writes the record that ``change`` makes of the present one; one that can't be read is written over."""
        path = self._layout.host(host)

        def attempt(zoo: ZkSession) -> HostDone | ClusterWrite[HostDone]:
            check_host(zoo, self._layout, host)
            node = zoo.read(path)
            before: Seen[Cordon] = seen(Cordon, node, path)
            record = change(before.record if isinstance(before, Found) else None)
            if isinstance(record, HostDone):
                if before is None or isinstance(before, Found):
                    return record
                record = replace(self._record(host, ""), cordoned=False)  # uncordon of what can't be read

            def applied(now: ZkSession) -> bool | None:
                found: Seen[Cordon] = seen(Cordon, now.read(path), path)
                if isinstance(found, Found) and found.record.op == record.op:
                    return True
                same = (found.version if found else None) == (before.version if before else None)
                return False if same else None

            with_parent = before is None and zoo.children(self._layout.hosts) is None
            tx = operator_writes.cordon(self._layout, record, before, with_parent=with_parent)
            return ClusterWrite(tx, HostDone(host, did, record), applied, f"{host}: {did.value}")

        return self._carry_out(f"what is wanted of {host}", attempt)


# -- how far a drain is -------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Leaving:
    """Describes a job that a drain is not done with, and why it is not. If it stays until a person does something, ``helps``
    says what."""

    name: str
    why: str
    helps: str = ""

    @property
    def held(self) -> bool:
        return bool(self.helps)


@dataclass(frozen=True, slots=True)
class DrainProgress:
    """Holds what is left of a drain: jobs that are on the host, and jobs that left it and do not run yet. ``ended`` says
    that somebody has uncordoned it."""

    host: str
    left: tuple[Leaving, ...]
    ended: bool = False

    @property
    def held(self) -> tuple[Leaving, ...]:
        return tuple(each for each in self.left if each.held)


def drain_progress(context: CommandContext, host: str) -> DrainProgress:
    """Returns how far the drain of ``host`` is. Raises Unreachable."""
    return progress_of(take_scene(context, ask_store=False), host)


def progress_of(scene: Scene, host: str) -> DrainProgress:
    """Returns how far the drain of ``host`` is, as ``scene`` shows it."""
    found = scene.view.cordons.get(host)
    record = found.record if isinstance(found, Found) else None
    if record is None or not record.draining:
        return DrainProgress(host, (), ended=True)
    names = sorted(
        name for name, row in scene.view.rows.items() if _is_on(row, host) or is_under_way(row, record)
    )
    return DrainProgress(host, tuple(_leaving(scene, name) for name in names))


def _is_on(row: Row, host: str) -> bool:
    """Says whether a driver of the name may be on ``host``, or was given to it."""
    return (
        isinstance(row.own, Found) and row.own.record.state in OCCUPYING and row.own.record.supervisor == host
    )


def _leaving(scene: Scene, name: str) -> Leaving:
    row = scene.view.rows[name]
    if row.ref is None:
        return Leaving(name, "it was cancelled, and its driver is being stopped")
    explained = scene.explainer.job(name)
    awaited = explained.waits_for
    helps = f"restart {name}" if _waits_for_restart(row) else ""
    if awaited is not None and awaited.kind is Await.LABELS:
        helps = "give another host the labels that it requires"
    elif awaited is not None and awaited.kind is Await.MOVE and awaited.text == ROOM_ELSEWHERE:
        helps = "make room on another host"
    return Leaving(name, _why(explained), helps)


def _waits_for_restart(row: Row) -> bool:
    """Says whether the job stays where it is until somebody restarts it: its next attempt would be of an update which its
    spec leaves to a person (``update.mode: manual``)."""
    if not isinstance(row.ref, Found) or not isinstance(row.own, Found):
        return False
    job, own = row.ref.record, row.own.record
    return is_pending(job, own) and waits_for_restart(job, own)


def _why(explained: Explanation) -> str:
    if explained.held_by is not None:
        return str(explained.held_by)
    return explained.why or explained.reason


def wait_drained(
    context: CommandContext, host: str, names: Iterable[str], timeout_s: float, listener: WaitListener
) -> None:
    """Waits until no driver is on ``host`` and every job of ``names`` that was moved away runs, as ``plan.moves`` counts it.

    Raises TimedOut, with the jobs that hold it and why; Conflict if the host was uncordoned meanwhile.
    """
    begun, last = set(names), [DrainProgress(host, ())]

    def is_over() -> bool:
        now = last[0] = drain_progress(context, host)
        left = {each.name: each for each in now.left}
        begun.update(left)
        for name in sorted(begun):
            listener.report(name, left[name].why if name in left else "moved", done=name not in left)
        return not left

    over = poll(is_over, timeout_s, listener)
    if last[0].ended:
        raise Conflict(f"{host} was uncordoned meanwhile: its drain is over")
    if not over:
        raise TimedOut(*why_not_drained(last[0], timeout_s))


def why_not_drained(progress: DrainProgress, timeout_s: float) -> tuple[str, str]:
    """Returns what holds a drain, and what helps."""
    shown = "; ".join(f"{each.name}: {each.why}" for each in progress.left[:3])
    more = f"; and {len(progress.left) - 3} more" if len(progress.left) > 3 else ""
    what = f"{progress.host} is not drained after {timeout_s:g} s, {len(progress.left)} left ({shown}{more})"
    held = progress.held
    helps = (
        f"the drain goes on; {held[0].helps}, or stop {held[0].name} (suspend {held[0].name})"
        if held
        else f"the drain goes on: drain {progress.host} --wait looks on, uncordon {progress.host} ends it"
    )
    return what, helps


def first_progress(context: CommandContext, host: str) -> DrainProgress | None:
    """Returns how far a drain is, or None if that can't be read just now: the drain is asked for all the same."""
    with suppress(SupervisorError):
        return drain_progress(context, host)
    return None
