"""What an operator does to the whole cluster: ``pause``, ``unpause``, ``switchover``, ``accept``, as ``users`` replays commands.

Production code to the letter: ``operations.cluster: Operator``, and of ``accept-registry`` the function that writes
(``operations.accept_registry: accept_registry``); the store is part of the world.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from supervisor.coord.election import ACCEPTER
from supervisor.errors import Conflict, SupervisorError
from supervisor.model.lease_terms import full_wait_s
from supervisor.model.records import Acceptance, EpochRecord
from supervisor.model.seen import Found
from supervisor.model.transaction import Node
from supervisor.operations.accept_registry import accept_registry
from supervisor.operations.auditing import NO_AUDIT
from supervisor.operations.cluster import Asked, ClusterOperations, Paused
from supervisor.operations.hosts import HostDone
from supervisor.records.reading import seen
from tests.explore import placing
from tests.explore.setting import LAYOUT, LEASE_S

if TYPE_CHECKING:
    from tests.explore.replay import Replay
    from tests.explore.world import ExploredWorld, Late, User, UserWish

OPERATED = ("pause", "unpause", "switchover", "accept", *placing.HOSTED)
OPERATOR_RESULTS = (Paused, Asked, Acceptance, HostDone)
OperatorResult = Paused | Asked | Acceptance | HostDone
READ_BACK = (LAYOUT.pause, LAYOUT.switchover)
"""Where a command asks whether a znode is still the very one that it read before, by its mzxid."""

DOORBELL = -1
"""The mzxid of the doorbell as a command reads it: of all that it knows of it, only the version counts."""

_MZXIDS: dict[tuple[str, bytes, int], int] = {}


def mzxid_of(path: str, data: bytes, version: int) -> int:
    """Stands for the mzxid: each record has the id of its own write in it."""
    return _MZXIDS.setdefault((path, data, version), len(_MZXIDS) + 1) if path in READ_BACK else 0


class ExploredContext:
    """``operations.context.CommandContext``, and the ``EpochMarks`` of its store: both ask ``replay``."""

    layout = LAYOUT
    author, auditor = "operator", NO_AUDIT

    def __init__(self, replay: Replay) -> None:
        self.sessions = self._replay = replay

    def zoo(self) -> Replay:
        return self._replay

    def store(self) -> ExploredContext:
        return self

    def newest_epoch_above(self, epoch: int) -> int | None:
        found: int | None = self._replay._answer("newest epoch", epoch)
        return found

    def record_epoch(self, epoch: int, supervisor: str, op: str) -> None:
        self._replay._answer("record epoch", (epoch, supervisor, op))


def run(replay: Replay, wish: UserWish) -> OperatorResult:
    """``wish.uid`` of a switchover: to whom, "" for anybody; of a cordon or drain: which host."""
    if wish.what in placing.HOSTED:
        return placing.run(replay, wish)
    operator = ClusterOperations(replay, LAYOUT, "operator")
    match wish.what:
        case "pause":
            return operator.pause("why")
        case "unpause":
            return operator.unpause()
        case "switchover":
            return operator.switchover(wish.uid or None)
    context: Any = ExploredContext(replay)
    return accept_registry(context, full_wait_s(LEASE_S), no_driver_runs=False)


def ask_store(world: ExploredWorld, kind: str, what: Any) -> tuple[ExploredWorld, Any]:
    """Answer a request to the store."""
    from tests.explore.trust import EpochStore

    store = EpochStore(world.store)
    if kind == "newest epoch":
        return world, store.newest_epoch_above(what)
    try:
        store.record_epoch(*what)
    except Conflict as error:
        return world, error
    return world._replace(store=store.marks), None


def pause_read(user: User) -> bytes:
    """The pause that an unpause is about."""
    if user.wishes[user.done].what != "unpause":
        return b""
    return next(
        (
            reply.data
            for reply in reversed(user.replies)
            if isinstance(reply, Node) and reply.stat.mzxid != DOORBELL
        ),
        b"",
    )


# -- what is judged -----------------------------------------------------------------------------------------------------


def finish(world: ExploredWorld, user: User, outcome: OperatorResult | SupervisorError) -> ExploredWorld:
    """I8: a command of an operator is over, and says what came of it."""
    wish = user.wishes[user.done]
    if isinstance(outcome, HostDone):
        return placing.finish(world, user, outcome)
    if (
        isinstance(outcome, Acceptance | Asked)
        and not user.took
        and not (isinstance(outcome, Asked) and outcome.wish is None)
    ):
        return world.breaks(f"I8: {wish.what} is acknowledged, and no write of it has committed")
    if wish.what == "pause" and not world.judge.paused:
        return world.breaks("I8: a pause is acknowledged, and the cluster is not paused")
    if isinstance(outcome, Paused) and wish.what == "unpause" and not outcome.changed and world.judge.paused:
        return world.breaks("I8: there is no pause to be ended, says unpause, and the cluster is paused")
    if isinstance(outcome, Asked) and outcome.wish is not None:
        known = world.judge
        return world._replace(judge=known._replace(handed_over=max(known.handed_over, outcome.epoch)))
    return world


def committed(world: ExploredWorld, what: str) -> ExploredWorld:
    """The multi of an operator's command has committed."""
    known = world.judge
    match what:
        case "pause" | "unpause":
            known = known._replace(paused=what == "pause")
        case "accept_registry":
            known = known._replace(accepted=True, lost=False, knows=frozenset())
    return world._replace(judge=known)


def ended_late(before: ExploredWorld, after: ExploredWorld, late: Late) -> ExploredWorld:
    """The multi of a command that is over has committed."""
    there = before.tree.nodes.get(LAYOUT.pause)
    if late.wish.what == "unpause" and there is not None and there.data != late.pause:
        return after.breaks(
            "pause: an unpause that is long over ends a newer pause, which nobody wanted to end"
        )
    return after


MEANT_FOR_A_PAUSE = ("switched_over",)
"""What a leader writes all the same: no job is touched."""


def held(world: ExploredWorld, what: str, name: str) -> ExploredWorld:
    """A write of a leader, or a claim, has committed."""
    if world.judge.paused and what not in MEANT_FOR_A_PAUSE:
        return world.breaks(f"pause: {what} of {name} commits while the cluster is paused")
    return world


def changes_too_often(world: ExploredWorld, epoch: int) -> ExploredWorld:
    """I11: a leader goes only for a fault, or because it was asked to."""
    if not world.replaceable and epoch > 1 + world.judge.reasons:
        return world.breaks(f"I11: epoch {epoch}, and only {world.judge.reasons} faults and commands")
    return world


def concluded(world: ExploredWorld, epoch: int) -> ExploredWorld:
    """A leader takes the record of a hand-over away."""
    if epoch <= world.judge.handed_over:
        return world.breaks(
            f"switchover: the hand-over of epoch {world.judge.handed_over} is taken as done in epoch {epoch}"
        )
    return world


def is_outdone(world: ExploredWorld) -> bool:
    """Another acceptance has left its mark in the store, and died before its write: nobody trusts until it is given again
    (``coord.trust``, 5)."""
    accepted = seen(Acceptance, world.tree.read(LAYOUT.accepted), LAYOUT.accepted)
    newest = max((epoch for epoch, author, _ in world.store if author == ACCEPTER), default=0)
    return isinstance(accepted, Found) and newest > accepted.record.epoch


def unfinished(world: ExploredWorld) -> str | None:
    """At rest: what was asked of the cluster is done, and nothing of it is left."""
    if len(world.hosts_down) == len(world.supervisors):
        return None
    if LAYOUT.pause in world.tree.nodes:
        return "the cluster is paused"
    if LAYOUT.switchover in world.tree.nodes:
        return "/switchover is left of a hand-over"
    epoch = seen(EpochRecord, world.tree.read(LAYOUT.epoch), LAYOUT.epoch)
    if world.judge.handed_over and isinstance(epoch, Found) and epoch.record.epoch <= world.judge.handed_over:
        return (
            f"the hand-over of epoch {world.judge.handed_over} was acknowledged, and nobody was elected since"
        )
    accepted = seen(Acceptance, world.tree.read(LAYOUT.accepted), LAYOUT.accepted)
    if isinstance(accepted, Found) and not accepted.record.waited:
        return "the wait after the acceptance has no end"
    return None
