"""Blue/green in the exploration (protocol §9.4): the writes of ``fork`` and ``promote``, as ``users`` replays
commands, and what is judged of them. Production code to the letter: ``operations.promoting: PromotionOperations``;
what comes before a write (the wait, the hook, the copy) is the time between two commands.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from supervisor.model.records import Desired, Fork, JobRef, Ownership, OwnState
from supervisor.model.seen import Found
from supervisor.operations.jobs import Done, Submission
from supervisor.operations.promoting import PromotionOperations
from supervisor.records.reading import seen
from tests.explore.setting import LAYOUT, spec, terms_of

if TYPE_CHECKING:
    from supervisor.model.transaction import Transaction
    from tests.explore.replay import Replay
    from tests.explore.world import ExploredWorld, UserWish

PROMOTING = ("begin_fork", "finish_fork", "intend", "promote", "undo")
OF_TWO = ("promote", "undo")


def run(replay: Replay, wish: UserWish) -> Done:
    """``wish.uid``: of a fork its uid; else the name of the job whose place is taken."""
    operations = PromotionOperations(replay, LAYOUT)
    match wish.what:
        case "begin_fork":
            return operations.submit(begun(wish.name, wish.uid))
        case "finish_fork":
            return operations.finish_fork(wish.name, wish.uid, (), suspended=False)
        case "undo":
            return operations.undo_promotion(operations.pair_to_undo(wish.name, wish.uid))
    pair, _, _ = operations.pair(wish.name, wish.uid)
    return operations.intend(pair, "user", "") if wish.what == "intend" else operations.promote(pair)


def begun(name: str, uid: str) -> Submission:
    """A fork of ``a`` whose checkpoint is yet to be copied."""
    return Submission(
        name,
        uid,
        spec(name, uid),
        terms_of(name, uid),
        Desired.SUSPENDED,
        stored_from_at_s=0.0,
        fork=Fork(of="a", uid="u0-a", savepoint="s", copying=True),
    )


def names_of(wish: UserWish) -> frozenset[str]:
    """The jobs whose drivers a command may stop."""
    return frozenset({wish.name, wish.uid} if wish.what in OF_TWO else {wish.name})


# -- what is judged -----------------------------------------------------------------------------------------------------


def committed(before: ExploredWorld, after: ExploredWorld, tx: Transaction, wish: UserWish) -> ExploredWorld:
    """A multi of a user has committed."""
    ref = _ref(after, wish.name)
    if ref is not None and ref.fork is not None and ref.fork.copying and ref.desired is Desired.RUNNING:
        return after.breaks(f"§9.4: {wish.name} is to run, and its checkpoint is not copied yet")
    if wish.what not in PROMOTING or tx.what == "submit":
        return after
    for name in names_of(wish):
        lost = _lost(before, after, name)
        if lost:
            return after.breaks(f"§9.4: {tx.what} {lost} of {name}, which was there before")
    why = _wrong(before, after, tx, wish)
    return after if why is None else after.breaks(f"§9.4: {why}")


def _lost(before: ExploredWorld, after: ExploredWorld, name: str) -> str:
    """What another command had changed, and is not there any more."""
    old, new = _ref(before, name), _ref(after, name)
    if old is None or new is None or old.uid != new.uid:
        return "is about another uid"
    if (old.revision, old.spec, old.update) != (new.revision, new.spec, new.update):
        return "undoes an update"
    return ""


def _wrong(before: ExploredWorld, after: ExploredWorld, tx: Transaction, wish: UserWish) -> str | None:
    was, now = _ref(before, wish.name), _ref(after, wish.name)
    assert was is not None and now is not None
    if tx.what == "set_promotion":
        return None if was.desired is now.desired else f"an intent changes whether {wish.name} is to run"
    if tx.what == "finish_fork":
        return (
            None if was.fork and was.fork.copying else f"{wish.name} is started again by a fork that was over"
        )
    over_was, over_now = _ref(before, wish.uid), _ref(after, wish.uid)
    assert over_was is not None and over_now is not None
    intent = was.promotion
    if intent is None or (intent.over, intent.uid) != (wish.uid, over_was.uid):
        return f"{tx.what} of {wish.name}, of which that is not wanted (any more)"
    if tx.what == "undo_promotion":
        if not intent.done or over_now.desired is not Desired.RUNNING:
            return f"an undo of {wish.name} does not make {wish.uid} run"
        return None if now.desired is Desired.SUSPENDED else f"an undo does not suspend {wish.name}"
    if over_was.desired is not Desired.RUNNING or over_now.desired is not Desired.SUSPENDED or intent.done:
        return f"{wish.name} takes the place of {wish.uid}, which did not run there"
    if now.promotion is None or not now.promotion.done:
        return f"{wish.name} has the place of {wish.uid}, and nothing says so"
    return (
        None if _runs(before, wish.name) else f"{wish.uid} is suspended for {wish.name}, which does not run"
    )


def _runs(world: ExploredWorld, name: str) -> bool:
    ref, own = _ref(world, name), seen(Ownership, world.tree.read(LAYOUT.own(name)), "")
    return (
        ref is not None
        and isinstance(own, Found)
        and ref.desired is Desired.RUNNING
        and (own.record.uid, own.record.state) == (ref.uid, OwnState.CLAIMED)
    )


def _ref(world: ExploredWorld, name: str) -> JobRef | None:
    found = seen(JobRef, world.tree.read(LAYOUT.job(name)), LAYOUT.job(name))
    return found.record if isinstance(found, Found) else None
