"""Carries out what an operator does to the whole cluster: reads, builds a multi with ``operator_writes``,
commits it, resolves an unknown outcome, and answers.

Called by ``cli``. It works without any supervisor. As in ``operations.jobs``, a ``sync`` precedes the first
read, writes are guarded, retries are bounded, and nothing is acknowledged that is not durable. It never
touches a job.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, Generic, TypeVar

from supervisor.clock import wall_iso
from supervisor.errors import Conflict, Corrupt, GuardFailed, NotFound
from supervisor.model.records import (
    BY_MAX_BYTES,
    REASON_MAX_BYTES,
    EpochRecord,
    Handover,
    LeaderHint,
    Pause,
    clip,
)
from supervisor.model.seen import Found, Seen, Unreadable
from supervisor.model.transaction import Transaction
from supervisor.observe.status import pause_document
from supervisor.operations.auditing import NO_AUDIT, AskedWrite, Auditor
from supervisor.records.ids import new_op_id
from supervisor.records.layout import Layout
from supervisor.records.ports import ReplaceableSession, ZkSession
from supervisor.records.reading import seen
from supervisor.registry import operator_writes
from supervisor.registry.resolve_outcome import commit_resolved

TRIES_MAX = 20

Answer = TypeVar("Answer")


@dataclass(frozen=True, slots=True)
class Paused:
    """Answers a command about the pause.

    ``record`` is the pause that is in force or was ended; it is None if there is none or it can't be read.
    ``changed`` is True if this command made the change, and False if the state was so already.
    """

    record: Pause | None
    changed: bool

    def document(self) -> dict[str, Any] | None:
        """Returns the pause as ``status`` has it."""
        return pause_document(self.record)


@dataclass(frozen=True, slots=True)
class Asked:
    """Answers a switchover.

    ``wish`` is the record that was written; it is None if ``leader`` leads already. ``epoch`` is that of the
    term that was read.
    """

    leader: str
    epoch: int
    wish: Handover | None


@dataclass(frozen=True, slots=True)
class ClusterWrite(Generic[Answer]):
    """Holds a multi to commit, what to answer then, and how to find out from a later reading whether it was
    applied. ``detail`` is for the audit."""

    tx: Transaction
    answer: Answer
    applied: Callable[[ZkSession], bool | None]
    detail: str = ""


class ClusterOperations:
    """Gives one command access to the cluster. ``by`` says who gives the command, and ``auditor`` writes that down. It is
    not thread-safe."""

    def __init__(
        self, sessions: ReplaceableSession, layout: Layout, by: str, auditor: Auditor = NO_AUDIT
    ) -> None:
        self._sessions = sessions
        self._layout = layout
        self._by = clip(by, BY_MAX_BYTES)
        self._auditor = auditor

    # -- pause ----------------------------------------------------------------------------------------------------

    def pause(self, reason: str) -> Paused:
        """Pauses the cluster. If it is paused already, the earlier pause stays as it is. The pause is durable
        when this returns."""

        def attempt(zoo: ZkSession) -> Paused | ClusterWrite[Paused]:
            found = self._read_pause(zoo)
            if found is not None:
                return Paused(_readable(found), changed=False)
            record = Pause(by=self._by, at=wall_iso(), reason=clip(reason, REASON_MAX_BYTES), op=new_op_id())

            def applied(now: ZkSession) -> bool | None:
                # Whoever's it is, the cluster is paused; the next round answers with what is there.
                found = self._read_pause(now)
                return isinstance(found, Found) and found.record.op == record.op

            tx = operator_writes.pause(self._layout, record)
            return ClusterWrite(tx, Paused(record, changed=True), applied, record.reason)

        return self._carry_out("the pause", attempt)

    def unpause(self) -> Paused:
        """Ends the pause, if there is one."""

        def attempt(zoo: ZkSession) -> Paused | ClusterWrite[Paused]:
            notifier = zoo.read(self._layout.doorbell)
            if notifier is None:
                raise Corrupt(
                    f"{self._layout.doorbell} is missing", "nothing can be changed until it is restored"
                )
            found = self._read_pause(zoo)
            if found is None:
                return Paused(None, changed=False)
            before = found

            def applied(now: ZkSession) -> bool | None:
                found = self._read_pause(now)
                return found is None or found.mzxid != before.mzxid

            tx = operator_writes.unpause(self._layout, found, notifier.stat.version, new_op_id())
            return ClusterWrite(tx, Paused(_readable(found), changed=True), applied)

        return self._carry_out("the pause", attempt)

    # -- switchover -----------------------------------------------------------------------------------------------

    def switchover(self, to: str | None) -> Asked:
        """Asks the present leader to hand over, to ``to`` or to any other supervisor.

        Raises NotFound (no supervisor ``to``), Conflict (nobody leads, or nobody could take over).
        """

        def attempt(zoo: ZkSession) -> Asked | ClusterWrite[Asked]:
            epoch, version, leader = self._term(zoo)
            if to is not None and to == leader:
                return Asked(leader, epoch, None)
            self._check_candidates(zoo, leader, to)
            before: Seen[Handover] = seen(
                Handover, zoo.read(self._layout.switchover), self._layout.switchover
            )
            wish = Handover(epoch=epoch, leader=leader, to=to, by=self._by, at=wall_iso(), op=new_op_id())

            def applied(now: ZkSession) -> bool | None:
                found: Seen[Handover] = seen(
                    Handover, now.read(self._layout.switchover), self._layout.switchover
                )
                if isinstance(found, Found) and found.record.op == wish.op:
                    return True
                same = (found.mzxid if found else None) == (before.mzxid if before else None)
                moved = self._epoch(now).record.epoch > epoch
                return False if same and not (found is None and moved) else None

            tx = operator_writes.switchover(self._layout, wish, version, before)
            return ClusterWrite(
                tx, Asked(leader, epoch, wish), applied, f"from {leader} to {to or 'any other'}"
            )

        return self._carry_out("the leadership", attempt)

    def _term(self, zoo: ZkSession) -> tuple[int, int, str]:
        """Returns the epoch, the version of /epoch and the leader's id. Raises Conflict when nobody leads."""
        path = self._layout.leader
        hint: Seen[LeaderHint] = seen(LeaderHint, zoo.read(path), path)
        if hint is None:
            raise Conflict(
                "nobody leads at the moment, so there is nothing to hand over: see spark-supervisor status"
            )
        if isinstance(hint, Unreadable):
            raise Corrupt(f"who leads can't be read ({hint.reason})")
        epoch = self._epoch(zoo)
        if epoch.record.epoch != hint.record.epoch:
            raise Conflict("the leader is changing just now: try again")
        return epoch.record.epoch, epoch.version, hint.record.supervisor

    def _epoch(self, zoo: ZkSession) -> Found[EpochRecord]:
        path = self._layout.epoch
        epoch: Seen[EpochRecord] = seen(EpochRecord, zoo.read(path), path)
        if not isinstance(epoch, Found):
            raise Corrupt(f"{path} is missing or unreadable", "nobody can lead until it is restored")
        return epoch

    def _check_candidates(self, zoo: ZkSession, leader: str, to: str | None) -> None:
        others = sorted(set(zoo.children(self._layout.supervisors) or ()) - {leader})
        if to is not None and to not in others:
            known = ", ".join(sorted({*others, leader}))
            raise NotFound(f"no supervisor {to} is up", f"these are: {known}")
        if not others:
            raise Conflict(
                f"{leader} is the only supervisor that is up: start another one first, so that it can take over"
            )

    # -- the loop -------------------------------------------------------------------------------------------------

    def _read_pause(self, zoo: ZkSession) -> Seen[Pause]:
        return seen(Pause, zoo.read(self._layout.pause), self._layout.pause)

    def _carry_out(self, what: str, attempt: Callable[[ZkSession], Answer | ClusterWrite[Answer]]) -> Answer:
        """Reads, builds and commits, and starts over when another write came first.

        The number of tries is bounded, and an unknown outcome is resolved.
        """
        self._sessions.zoo().sync()
        for _ in range(TRIES_MAX):
            zoo = self._sessions.zoo()
            step = attempt(zoo)
            if not isinstance(step, ClusterWrite):
                return step
            asked = AskedWrite(step.tx.what, step.tx.id, detail=step.detail)
            commit = partial(commit_resolved, self._sessions, zoo, step.tx, step.applied)
            try:
                if self._auditor.commit(asked, commit):
                    return step.answer
            except GuardFailed:
                zoo.sync()
        raise Conflict(f"{what} keeps being changed by somebody else: nothing was done", "try again")


def _readable(found: Found[Pause] | Unreadable) -> Pause | None:
    return found.record if isinstance(found, Found) else None
