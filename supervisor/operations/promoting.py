"""Carries out the writes of blue/green (protocol §9.4): a fork that may start, and one job that takes the place of
another.

Called by ``bluegreen``. Both jobs are named by the uids that were read first, in every retry.
"""

from __future__ import annotations

from typing import NamedTuple

from supervisor.errors import Conflict
from supervisor.model.checkpoint_expectation import SeenQuery, pairs_of
from supervisor.model.records import Desired, JobRef, Outcome, Ownership, OwnState, Promotion
from supervisor.model.seen import Found
from supervisor.operations.jobs import Did, Done, JobOperations, JobRecords, JobWrite
from supervisor.records.ids import new_op_id
from supervisor.records.ports import ZkSession
from supervisor.registry import promotion_writes


class Pair(NamedTuple):
    """Names the two jobs of a promotion: ``new`` takes the place of ``over``."""

    new: str
    new_uid: str
    over: str
    over_uid: str


class PromotionOperations(JobOperations):
    """Gives one command access to the registry. It is not thread-safe."""

    def pair(self, new: str, over: str) -> tuple[Pair, JobRef, JobRef]:
        """Returns the two jobs as they are now. Raises NotFound or Conflict if one of them is not registered."""
        if new == over:
            raise Conflict(f"{new} can't take its own place: name two jobs")
        jobs = []
        for name in (new, over):
            found = self.job_records(name)
            if has_failed(found):
                raise Conflict(f"{name} has failed: nothing was done", f"resume {name} --wait runs it again")
            uid = found.ref.record.uid if isinstance(found.ref, Found) else ""
            jobs.append(self._registered(self._sessions.zoo(), name, uid)[1].record)
        return Pair(new, jobs[0].uid, over, jobs[1].uid), jobs[0], jobs[1]

    def require_pair(self, pair: Pair) -> None:
        """Raises Conflict if the two jobs are not those of ``pair`` any more, or one of them shall not run."""
        now, new, over = self.pair(pair.new, pair.over)
        if now != pair:
            raise Conflict(
                f"{pair.new} or {pair.over} was cancelled and submitted anew meanwhile: nothing was done"
            )
        for job in (new, over):
            if job.desired is Desired.SUSPENDED:
                raise Conflict(f"{job.name} was suspended meanwhile: nothing was done")

    def require_running(self, pair: Pair) -> None:
        """Raises Conflict unless a driver of ``pair.new`` runs."""
        _, ref, own = self._registered(self._sessions.zoo(), pair.new, pair.new_uid)
        require_running(ref.record, own)

    def runs(self, pair: Pair) -> bool:
        """Returns whether a driver of ``pair.new`` runs."""
        try:
            self.require_running(pair)
        except Conflict:
            return False
        return True

    def pair_to_undo(self, new: str, over: str) -> Pair:
        """Returns the two jobs of the promotion of ``new`` over ``over``; of one that has come to nothing yet, ``over`` may
        have ended meanwhile. Raises NotFound, or Conflict if there is no such promotion, or ``over`` can't run again."""
        found = self.job_records(new)
        if has_failed(found):
            raise Conflict(
                f"{new} has failed, so there is nothing of it to suspend: nothing was done",
                f"resume {over} runs that again",
            )
        ref = found.ref
        uid = ref.record.uid if isinstance(ref, Found) else ""
        job = self._registered(self._sessions.zoo(), new, uid)[1].record
        there = job.promotion
        if there is not None and there.over == over:
            pair = Pair(new, uid, over, there.uid)
            if there.done:
                self._registered_over(self._sessions.zoo(), pair)
            return pair
        if is_undone(job, over):
            return Pair(new, uid, over, "")
        other = f": it was promoted over {there.over}" if there is not None else ""
        raise Conflict(f"{new} was not promoted over {over}{other}")

    def _registered_over(
        self, zoo: ZkSession, pair: Pair
    ) -> tuple[JobRecords, Found[JobRef], Found[Ownership]]:
        """Returns the records of the job that runs again. Raises Conflict if it was cancelled, or has failed."""
        found = self._read(zoo, pair.over, pair.over_uid)
        if found.ref is None and has_failed(found):
            raise Conflict(
                f"{pair.over} has failed since {pair.new} took its place: nothing was done",
                f"resume {pair.over}, then give the same command again",
            )
        if found.ref is None or isinstance(found.ref, Found) and found.ref.record.uid != pair.over_uid:
            raise Conflict(
                f"{pair.over} was cancelled since {pair.new} took its place, so that can't be undone: nothing was done",
                f"submit its spec and suspend {pair.new}, if that is what is wanted",
            )
        return self._registered(zoo, pair.over, pair.over_uid)

    def finish_fork(self, name: str, uid: str, queries: tuple[SeenQuery, ...], *, suspended: bool) -> Done:
        """Lets a fork start, whose checkpoint is complete and holds ``queries``. Given again, it changes nothing."""

        def attempt(zoo: ZkSession) -> Done | JobWrite:
            _, ref, own = self._registered(zoo, name, uid)
            if ref.record.fork is None or not ref.record.fork.copying:
                return Done(name, uid, Did.UNCHANGED)
            tx = promotion_writes.finish_fork(
                self._context(), ref, own, pairs_of(queries), suspended=suspended
            )
            return self._change(tx, ref, Did.FORKED)

        return self._carry_out(name, uid, attempt)

    def intend(self, pair: Pair, by: str, offsets: str) -> Done:
        """Stores the intent that ``pair.new`` takes the place of ``pair.over``. One that is there stays as it is.

        Raises Conflict if another one is, or if either job was changed so that it can't be.
        """

        def attempt(zoo: ZkSession) -> Done | JobWrite:
            _, ref, own = self._registered(zoo, pair.new, pair.new_uid)
            done, there = settled(ref.record, pair), ref.record.promotion
            if done is not None and (there is None or there.offsets or not offsets):
                return done
            context = self._context()
            intent = Promotion(over=pair.over, uid=pair.over_uid, by=by, at=context.at, offsets=offsets)
            return self._change(promotion_writes.set_promotion(context, ref, own, intent), ref, Did.INTENDED)

        return self._carry_out(pair.new, pair.new_uid, attempt)

    def promote(self, pair: Pair) -> Done:
        """Suspends ``pair.over`` and records that ``pair.new`` has its place, in one write. Raises Conflict if
        ``pair.new`` does not run, or is not meant to take that place any more."""

        def attempt(zoo: ZkSession) -> Done | JobWrite:
            _, ref, own = self._registered(zoo, pair.new, pair.new_uid)
            found, over, over_own = self._registered(zoo, pair.over, pair.over_uid)
            intent = ref.record.promotion
            if not is_over(intent, pair):
                raise Conflict(f"the promotion of {pair.new} over {pair.over} was withdrawn meanwhile")
            if over.record.desired is Desired.SUSPENDED:
                if intent is not None and intent.done:
                    return Done(pair.new, pair.new_uid, Did.ALREADY_PROMOTED)
                raise Conflict(f"{pair.over} was suspended by somebody else meanwhile: nothing was done")
            require_running(ref.record, own)
            entry = self._entry_exists(zoo, found)
            tx = promotion_writes.promote(self._context(), ref, own, over, over_own, entry_exists=entry)
            return self._change(tx, ref, Did.PROMOTED)

        return self._carry_out(pair.new, pair.new_uid, attempt)

    def undo_promotion(self, pair: Pair) -> Done:
        """Makes ``pair.over`` run again and suspends ``pair.new``, in one write. An intent that has come to nothing
        yet is withdrawn instead. Given again, it changes nothing. Raises Conflict if there is no such promotion."""

        def attempt(zoo: ZkSession) -> Done | JobWrite:
            found, ref, own = self._registered(zoo, pair.new, pair.new_uid)
            intent = ref.record.promotion
            if is_undone(ref.record, pair.over):
                return Done(pair.new, pair.new_uid, Did.ALREADY_UNDONE)
            if intent is None or not is_over(intent, pair):
                raise Conflict(
                    f"{pair.new} was changed by somebody else meanwhile: nothing was done", "try again"
                )
            if not intent.done:
                tx = promotion_writes.set_promotion(self._context(), ref, own, None)
                return self._change(tx, ref, Did.WITHDRAWN)
            _, over, over_own = self._registered_over(zoo, pair)
            tx = promotion_writes.undo_promotion(
                self._context(),
                ref,
                own,
                over,
                over_own,
                new_op_id(),
                entry_exists=self._entry_exists(zoo, found),
            )
            return self._change(tx, ref, Did.UNDONE)

        return self._carry_out(pair.new, pair.new_uid, attempt)


def has_failed(found: JobRecords) -> bool:
    """Returns whether the newest submission of a name has failed for good; a resume would register it again."""
    return (
        found.ref is None
        and isinstance(found.result, Found)
        and found.result.record.outcome is Outcome.FAILED
    )


def is_over(promotion: Promotion | None, pair: Pair) -> bool:
    """Returns whether ``promotion`` is about the very job that ``pair`` names."""
    return promotion is not None and (promotion.over, promotion.uid) == (pair.over, pair.over_uid)


def is_undone(job: JobRef, over: str) -> bool:
    """Returns whether the last change of ``job`` was to undo its promotion over ``over``."""
    return job.promotion is None and job.changed.detail == promotion_writes.undone_detail(over)


def settled(job: JobRef, pair: Pair) -> Done | None:
    """Returns what an intent that is there already answers, or None if one is to be stored. Raises Conflict if it is
    about another job."""
    there = job.promotion
    if there is None or there.done:
        return None
    if is_over(there, pair):
        return Done(pair.new, pair.new_uid, Did.INTENDED)
    gone = " (an earlier submission of it)" if there.over == pair.over else ""
    raise Conflict(
        f"{pair.new} is to be promoted over {there.over}{gone} already, by {there.by}",
        f"promote --undo {there.over} {pair.new} withdraws that",
    )


def require_running(job: JobRef, own: Found[Ownership]) -> None:
    """Raises Conflict unless an attempt of ``job`` is claimed, and shall run on."""
    record = own.record
    if job.desired is Desired.SUSPENDED:
        raise Conflict(f"{job.name} is suspended, so it can take no place", f"resume {job.name} --wait")
    if record.uid != job.uid or record.state is not OwnState.CLAIMED:
        raise Conflict(
            f"no driver of {job.name} runs ({record.state.value}), so it can take no place: nothing was done",
            f"explain {job.name} says what it waits for",
        )
