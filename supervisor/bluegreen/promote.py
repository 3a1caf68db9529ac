"""Lets one job take the place of another, for ``promote`` and ``promote --undo``. It is called by ``cli`` and defines
the order of the steps (protocol §9.4).

The intent is stored first, with the offsets that the other job had committed then, so that the command can be given
again. Then it waits until the new job has passed them, runs the hook, and commits one write. Until that write nothing
happens to either job, whatever fails; the hook may run more than once.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from supervisor.bluegreen.compare import QueryOrder, compare_offsets, reader_of, summary_of
from supervisor.checkpoint.offset_order import FILES_SHOWN, OffsetOrder, has_passed
from supervisor.checkpoint.offset_reader import QueryOffsets, decode_offsets, encode_offsets
from supervisor.clients.tools import run_shown
from supervisor.errors import Conflict, SupervisorError, TimedOut, Unreachable
from supervisor.model.going_back import NOTHING_SAID, Said
from supervisor.model.phrases import counted
from supervisor.model.records import BY_MAX_BYTES, Desired, clip
from supervisor.model.seen import Found
from supervisor.operations.context import CommandContext
from supervisor.operations.going_back import OtherJob, before_undo, opener
from supervisor.operations.jobs import Did, Done
from supervisor.operations.promoting import Pair, PromotionOperations, is_over, settled
from supervisor.operations.sink_grounds import Grounds, grounds_of
from supervisor.operations.waiting import WaitListener, poll
from supervisor.spec.job import from_canonical

PERIOD_S: Final = 2.0
HOOK_MAX_S: Final = 600.0
"""A hook has the time of ``--timeout``, and no more than this."""
OFFSETS: Final = "offsets.json"


@dataclass(frozen=True, slots=True)
class PromoteWish:
    """Holds what the user asks for. If ``caught_up``, the new job must have passed the offsets of the other one
    first. ``hook`` is a command for ``sh -c``, or empty. ``timeout_s`` is for the wait, and again for the hook.
    ``by`` is who asks, for people, and ``said`` what is said of the sink of ``over``."""

    new: str
    over: str
    caught_up: bool
    timeout_s: float
    hook: str
    said: Said = NOTHING_SAID


def promote(
    context: CommandContext,
    wish: PromoteWish,
    listener: WaitListener,
    publish: Callable[[str], None],
) -> Done:
    """Promotes a job over another. ``publish`` is called with what is done, once the intent is stored.

    Raises NotFound, Conflict (either job is not what it has to be, or the offsets have no order), TimedOut (the new
    job has not caught up), SupervisorError (the hook failed), and what ZooKeeper and the store raise.
    """
    operations = context.operations(PromotionOperations)
    pair, job, over = operations.pair(wish.new, wish.over)
    there = job.promotion
    if over.desired is Desired.SUSPENDED:
        if there is not None and there.done and is_over(there, pair):
            return Done(pair.new, pair.new_uid, Did.ALREADY_PROMOTED)
        raise Conflict(f"{pair.over} is suspended already, so there is nothing to promote {pair.new} over")
    if job.desired is Desired.SUSPENDED:
        raise Conflict(f"{pair.new} is suspended, so it can take no place", f"resume {pair.new} --wait")
    stands = settled(job, pair) is not None
    target, key = _target(context, pair, there.offsets if stands and there is not None else "", wish)
    operations.intend(pair, clip(context.author, BY_MAX_BYTES), key)
    publish(f"{pair.new}: to be promoted over {pair.over}")
    if wish.caught_up:
        _wait(context, operations, pair, target, wish, listener)
    else:
        operations.require_running(pair)
    if wish.hook:
        run_hook(wish, pair, "promote", publish)
    try:
        return operations.promote(pair)
    except Conflict as error:
        ran = f"; the hook has run, and {pair.over} was not suspended" if wish.hook else ""
        raise Conflict(f"{error}{ran}") from None


def undo(context: CommandContext, wish: PromoteWish, publish: Callable[[str], None]) -> Done:
    """Undoes the promotion of ``wish.new`` over ``wish.over``, or withdraws one that has come to nothing yet. Raises
    Conflict if there is none, or a sink that both write to would lose rows; SupervisorError (the hook failed), and what
    ZooKeeper and the store raise."""
    operations = context.operations(PromotionOperations)
    pair = operations.pair_to_undo(wish.new, wish.over)
    _require_sink(context, operations, pair, wish.said)
    if wish.hook:
        run_hook(wish, pair, "undo", publish)
    return operations.undo_promotion(pair)


def _require_sink(context: CommandContext, operations: PromotionOperations, pair: Pair, said: Said) -> None:
    """Raises Conflict if ``pair.over``, which has stood still, would lose rows at a sink to which ``pair.new`` wrote. An
    intent that has come to nothing has stopped nobody."""
    new, over = (operations.job_records(name).ref for name in (pair.new, pair.over))
    if not isinstance(new, Found) or not isinstance(over, Found):
        return
    if new.record.promotion is None or not new.record.promotion.done:
        return
    blobs = context.blobs()
    spec_new, spec_over = (
        from_canonical(blobs.read_spec(job.record.spec), job.record.spec.key) for job in (new, over)
    )
    grounds, others = (grounds_of(context, name) or Grounds() for name in (pair.over, pair.new))
    opened = opener(context.settings, spec_over)
    before_undo(grounds, OtherJob(others, spec_new), spec_over, said, opened).require()


# -- catching up ----------------------------------------------------------------------------------------------------


def _target(
    context: CommandContext, pair: Pair, stored: str, wish: PromoteWish
) -> tuple[tuple[QueryOffsets, ...], str]:
    """Returns the offsets to be passed, and under which key they are stored: those of an intent that stands, or else
    those of now. Without ``wish.caught_up`` there are none. Raises Conflict if they have no order."""
    if not wish.caught_up:
        return (), stored
    blobs = context.blobs()
    if stored:
        with tempfile.TemporaryDirectory(prefix="spark-supervisor-promote-") as folder:
            data = blobs.fetch_artifact(stored, Path(folder)).read_bytes()
        return decode_offsets(data, stored), stored
    target = reader_of(context, pair.over).committed()
    _require_ordered(pair, _orders(context, pair, target))
    with tempfile.TemporaryDirectory(prefix="spark-supervisor-promote-") as folder:
        path = Path(folder, OFFSETS)
        path.write_bytes(encode_offsets(target))
        return target, blobs.put_artifact(pair.new, pair.new_uid, path)


def _orders(context: CommandContext, pair: Pair, target: tuple[QueryOffsets, ...]) -> tuple[QueryOrder, ...]:
    new_reader = reader_of(context, pair.new)
    return compare_offsets(new_reader, new_reader.committed(), reader_of(context, pair.over), target)


def _require_ordered(pair: Pair, orders: tuple[QueryOrder, ...]) -> None:
    """Raises Conflict if it can never be said that the new job has caught up."""
    if summary_of(orders) is not OffsetOrder.UNORDERED:
        return
    lost = [each.id for each in orders if each.new_batch is None]
    why = (
        f"{pair.new} has no query {lost[0]}"
        if lost
        else "a source has offsets of no known order"
        if orders
        else f"{pair.over} has committed nothing"
    )
    raise Conflict(
        f"it can't be said when {pair.new} has caught up with {pair.over}: {why}",
        "look yourself (compare), and give --when now",
    )


def _wait(
    context: CommandContext,
    operations: PromotionOperations,
    pair: Pair,
    target: tuple[QueryOffsets, ...],
    wish: PromoteWish,
    listener: WaitListener,
) -> None:
    new_reader, over_reader = reader_of(context, pair.new), reader_of(context, pair.over)
    last = ["it has not been looked at yet"]

    def has_caught_up() -> bool:
        try:
            operations.require_pair(pair)
            orders = compare_offsets(new_reader, new_reader.committed(), over_reader, target)
        except Unreachable as error:
            last[0] = str(error)
            raise
        _require_ordered(pair, orders)
        passed = has_passed(summary_of(orders))
        runs = operations.runs(pair)
        last[0] = (
            in_words(orders) if not passed else "caught up" if runs else "caught up, but no driver of it runs"
        )
        listener.report(pair.new, last[0], done=passed and runs)
        return passed and runs

    if not poll(has_caught_up, wish.timeout_s, listener, PERIOD_S):
        raise TimedOut(
            f"{pair.new} has not caught up with {pair.over} after {wish.timeout_s:g} s ({last[0]}): nothing was done to "
            "either"
        )


def in_words(orders: tuple[QueryOrder, ...]) -> str:
    """Returns what is still missing, in short."""
    parts = [
        part
        for query in orders
        for source in query.sources
        for part in source.parts
        if not has_passed(part.order)
    ]
    records = sum((part.old or 0) - (part.new or 0) for part in parts if part.part != FILES_SHOWN)
    files = sum(part.old or 0 for part in parts if part.part == FILES_SHOWN)
    said = [
        f"{files} files" if files else "",
        f"offsets of {counted(len(parts), 'part')}, {records} in all" if records else "",
    ]
    return "behind by " + (" and ".join(filter(None, said)) or "what it has yet to commit")


# -- the hook -------------------------------------------------------------------------------------------------------


def run_hook(wish: PromoteWish, pair: Pair, step: str, publish: Callable[[str], None]) -> None:
    """Runs the hook of the user on this machine; ``step`` is ``promote`` or ``undo``. Raises SupervisorError if it
    fails, or does not end in time."""
    publish(f"{pair.new}: running the hook")
    environment = {
        **os.environ,
        "SPARK_SUPERVISOR_HOOK": step,
        "SPARK_SUPERVISOR_HOOK_NEW": pair.new,
        "SPARK_SUPERVISOR_HOOK_NEW_UID": pair.new_uid,
        "SPARK_SUPERVISOR_HOOK_OVER": pair.over,
        "SPARK_SUPERVISOR_HOOK_OVER_UID": pair.over_uid,
    }
    ran = run_shown(("/bin/sh", "-c", wish.hook), environment, min(wish.timeout_s, HOOK_MAX_S))
    if ran.code == 0:
        return
    what = ran.error or (
        f"was killed by signal {-ran.code}"
        if ran.code is not None and ran.code < 0
        else f"ended with {ran.code}"
    )
    raise SupervisorError(
        f"the hook {what}: no job was changed", "correct it, and give the same command again: it runs anew"
    )
