"""What a user's command does next: the real ``operations.jobs.JobOperations``, made explorable by *replay*.

Commands block; the explorer must not. So a command is the list of the answers that it got so far: it runs from its
beginning on a client (``Replay``) that answers from that list, and is interrupted (``Pending``) where the list ends. The explorer
carries the request out at a moment of its choosing, appends the answer, and runs it again. The state stays a value.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from typing import Any

from supervisor.errors import Conflict, Corrupt, GuardFailed, NotFound, OutcomeUnknown, TimedOut, Unreachable
from supervisor.model.records import JobRef, Ownership, RollbackRule, SpecRevision, UpdatePolicy
from supervisor.model.seen import Found
from supervisor.model.transaction import Node, Stat, Transaction
from supervisor.operations.jobs import ChosenJob, Did, Done, JobOperations, Submission
from supervisor.operations.selection import registered_jobs
from supervisor.operations.submit import store_prepared
from supervisor.operations.updating import Target, judge_change
from supervisor.records.reading import seen
from supervisor.registry.blobs import Blobs
from supervisor.registry.user_writes import AskedRevision
from tests.explore import judge, operators, placing, promoting, sweeping, way_back
from tests.explore.operators import OPERATOR_RESULTS, OperatorResult
from tests.explore.replay import Pending, Replay, Stored
from tests.explore.setting import LAYOUT, TICK_S, Hour, Ids, desired_of, prepared, spec, spec_bytes, terms_of
from tests.explore.shims import ExploredMove
from tests.explore.world import ExploredWorld, Late, Snapshot, User, UserWish, apply, described


def run(user: User, wish: UserWish, replay: Replay) -> Done | OperatorResult | Exception | tuple[Any, ...]:
    """What came of the command, or the request that it waits for."""
    Ids.begin(f"user{user.number}.{user.done}")
    Hour.read = replay.time
    commands = JobOperations(replay, LAYOUT)
    try:
        if wish.what in operators.OPERATED:
            return operators.run(replay, wish)
        if wish.what in promoting.PROMOTING:
            return promoting.run(replay, wish)
        match wish.what:
            case "submit":
                return commands.submit(stored(replay, wish))
            case "revise":
                return revise(replay, commands, wish.name, POLICIES.get(wish.uid))
            case "roll_back":
                return commands.roll_back(wish.name, "user")
            case "prune":
                return prune(replay, commands, wish.name)
            case "move":
                return commands.move(wish.name, wish.uid)
        return getattr(commands, wish.what)(wish.name)  # type: ignore[no-any-return]
    except (Conflict, NotFound, Corrupt, OutcomeUnknown, TimedOut) as error:
        return error
    except Pending as pending:
        return pending.request


def stored(replay: Replay, wish: UserWish) -> Submission:
    """A submission whose blob is durable; where there is no store, as if it were."""
    if replay.stores:
        return store_prepared(Blobs(as_store(replay)), prepared(wish.name), wish.uid, desired_of(wish.name))
    return Submission(
        wish.name,
        wish.uid,
        spec(wish.name, wish.uid),
        terms_of(wish.name, wish.uid),
        desired_of(wish.name),
        stored_from_at_s=0.0,
    )


def as_store(replay: Any) -> Any:
    """Of the protocol as much as is asked for: ``create``."""
    return replay


POLICIES = {
    rule.value: UpdatePolicy(rollback=rule, observe_s=2 * TICK_S)
    for rule in (RollbackRule.CLEAN, RollbackRule.CONTINUE, RollbackRule.SAVEPOINT)
}


def revise(zoo: Replay, commands: JobOperations, name: str, policy: UpdatePolicy | None) -> Done:
    """``apply`` of another spec: it judges the job, stores the spec, and registers the revision."""
    nodes = zoo.read_many((LAYOUT.job(name), LAYOUT.own(name))).nodes
    ref, own = seen(JobRef, nodes[0], LAYOUT.job(name)), seen(Ownership, nodes[1], LAYOUT.own(name))
    if not isinstance(ref, Found) or not isinstance(own, Found):
        raise NotFound(name)
    job = ref.record
    sha256 = hashlib.sha256(spec_bytes(name, job.next_revision)).hexdigest()
    judged = judge_change(job, own.record, sha256, job.terms.checkpoint, again=True)
    revision, store = judged.revision, Blobs(as_store(zoo))
    blob = (
        store.put_spec(name, job.uid, revision, spec_bytes(name, revision))
        if zoo.stores
        else spec(name, job.uid, revision)
    )
    target = SpecRevision(revision=revision, spec=blob, terms=job.terms)
    asked = AskedRevision(target, "user", policy=policy)
    return commands.update(Target(name, job.uid, judged.basis, asked))


def prune(zoo: Any, commands: JobOperations, name: str) -> Done:
    """``apply --prune``, for which this name is in no file: it judges all jobs, and cancels what it has judged."""
    chosen = next((job for job in registered_jobs(zoo, LAYOUT).found if job.name == name), None)
    if chosen is None:
        raise NotFound(name)
    return commands.cancel(name, chosen=ChosenJob(chosen.uid, chosen.version))


def only_what_was_judged(world: ExploredWorld, user: User, tree: Snapshot) -> ExploredWorld:
    """A prune has committed, over what was in ``tree``: it cancels the job as it was judged, and nothing that came since."""
    wish, path = user.wishes[user.done], LAYOUT.job(user.wishes[user.done].name)
    if wish.what != "prune":
        return world
    names, nodes = user.replies[:2]
    judged, there = dict(zip(sorted(names), nodes, strict=True)).get(wish.name), tree.read(path)
    same = judged is not None and there is not None and judged.stat.version == there.stat.version
    if same and judged.data == there.data:
        return world
    return world.breaks(f"a prune cancels {wish.name}, which is not what was judged")


def moves(world: ExploredWorld, index: int) -> Iterator[ExploredMove]:
    """A user may begin at any time, and stop at any time between two requests."""
    user = world.users[index]
    if index == 0:
        yield from late_moves(world)
    if user.done >= len(user.wishes):
        return
    wish = user.wishes[user.done]
    who = f"user {wish.what} {wish.name}"
    if user.sent is not None:
        after, outcome = apply(world, user.sent, 0)
        label = f"{who}: {user.sent.what} {described(outcome)}"
        if isinstance(outcome, tuple):
            after = committed(world, after, user.sent, wish)
            after = only_what_was_judged(after, user, world.tree)
            after = after.with_user(index, user._replace(took=True))
        yield ExploredMove(label, go_on(after, index, outcome), urgent=not world.slow_users)
        return
    yield ExploredMove(who if not user.begun else f"{who}: goes on", go_on(world, index, None), urgent=False)


def late_moves(world: ExploredWorld) -> Iterator[ExploredMove]:
    """Of commands that are over: what they had sent, while their sessions live."""
    for number, late in enumerate(world.late):
        without = world._replace(late=(*world.late[:number], *world.late[number + 1 :]))
        after, outcome = apply(without, late.tx, 0)
        if isinstance(outcome, tuple):
            after = operators.ended_late(without, committed(without, after, late.tx, late.wish), late)
        yield ExploredMove(
            f"a late {late.tx.what} of a user reaches the server: {described(outcome)}", after, urgent=False
        )


def committed(before: ExploredWorld, after: ExploredWorld, tx: Transaction, wish: UserWish) -> ExploredWorld:
    """A user's multi has committed: whatever it stops from now on was asked for."""
    after = judge.stands(before, judge.registry_holds(before, after), wish)
    after = operators.committed(after, tx.what) if wish.what in operators.OPERATED else after
    after = promoting.committed(before, after, tx, wish)
    after = placing.committed(after, wish)
    after = way_back.updated(before, after, wish.name) if tx.what == "update" else after
    names = promoting.names_of(wish)
    shims = tuple(
        s._replace(disturbed=True) if s.name in names and not s.disturbed else s for s in after.shims
    )
    return after._replace(shims=shims) if tx.what not in ("submit", "set_promotion") else after


def go_on(world: ExploredWorld, index: int, answer: Any) -> ExploredWorld:
    """Run the command with one more answer, up to its next multi, a settling, or its end. Its reads are of one moment."""
    user = world.users[index]
    wish = user.wishes[user.done]
    replies = user.replies if answer is None else (*user.replies, answer)
    if isinstance(answer, GuardFailed):
        most = KEPT.get(wish.what, 1)
        most = 1 if replies and isinstance(replies[0], Stored) else most
        replies = replies[:most]  # it reads again: as if this had been the first time
    if user.unknown and answer is None:
        replies = (*replies, None)  # settled: the old session is closed for certain
    while True:
        outcome = run(user, wish, Replay(replies, world.now_s, stores=world.sweeps))
        if isinstance(outcome, (Done, Exception, *OPERATOR_RESULTS)):
            world = judge.answered(world, user, outcome).with_user(index, over(user))
            return acknowledge(world, wish, outcome) if isinstance(outcome, Done) else world
        kind, *arguments = outcome
        if kind == "commit":
            return world.with_user(
                index, user._replace(begun=True, replies=replies, sent=arguments[0], unknown=False)
            )
        if kind == "settle":
            return world.with_user(index, user._replace(begun=True, replies=replies, sent=None, unknown=True))
        if kind == "put":
            replies = (*replies, Stored(world.now_s))
            return sweeping.put(world, arguments[0]).with_user(
                index, user._replace(begun=True, replies=replies, sent=None, unknown=False)
            )
        if kind.endswith("epoch"):
            world, reply = operators.ask_store(world, kind, arguments[0])
        else:
            reply = read(world, kind, arguments[0])
        replies = (*replies, reply)
        if world.slow_reads and kind in ("read", "children", "read_many"):
            return world.with_user(
                index, user._replace(begun=True, replies=replies, sent=None, unknown=False)
            )


KEPT: dict[str, int | None] = {
    "submit": 0,
    "begin_fork": 0,
    "finish_fork": 0,
    "pause": 0,
    "unpause": 0,
    "switchover": 0,
    "accept": None,
    "prune": 2,
}
KEPT |= dict.fromkeys(placing.HOSTED, 0)
"""Replies that stand when a command begins again; of an acceptance all: each try has an id of its own; of a prune those by
which it has judged."""


def over(user: User) -> User:
    return user._replace(done=user.done + 1, begun=False, replies=(), sent=None, unknown=False, took=False)


def read(world: ExploredWorld, kind: str, what: Any) -> Any:
    if kind == "children":
        return world.tree.children(what)
    if kind == "read":
        return timeless(what, world.tree.read(what))
    return tuple(timeless(path, world.tree.read(path)) for path in what)


def timeless(path: str, node: Node | None) -> Node | None:
    """No command looks at more of a zxid than whether it is the same."""
    if node is None:
        return None
    if path == LAYOUT.doorbell:
        return Node(b"", Stat(node.stat.version, operators.DOORBELL, 0, 0, 0))
    mzxid = operators.mzxid_of(path, node.data, node.stat.version)
    return Node(node.data, Stat(node.stat.version, mzxid, 0, node.stat.ephemeral_owner, node.stat.children))


def acknowledge(world: ExploredWorld, wish: UserWish, done: Done) -> ExploredWorld:
    """The user was told that it is done."""
    known = world.judge
    if done.did in (Did.CANCELLED, Did.ALREADY_CANCELLED):
        cancelled = dict(known.cancelled)
        cancelled.setdefault(done.uid, world.tick)
        known = known._replace(cancelled=tuple(sorted(cancelled.items())))
        world = judge_cancel(world, done.uid)
    if done.did in (Did.SUBMITTED, Did.UNCHANGED, Did.REGISTERED_AGAIN):
        known = known._replace(registered=known.registered | {done.uid})
    world = world._replace(judge=known)
    return judge.registry_holds(world, world)


def judge_cancel(world: ExploredWorld, uid: str) -> ExploredWorld:
    """I2 at the acknowledgement: the uid is not registered, and its result says cancelled, durably."""
    name = uid.partition("-")[2]
    if judge.refers(world, name, uid):
        ref = seen(JobRef, world.tree.read(LAYOUT.job(name)), LAYOUT.job(name))
        if isinstance(ref, Found):
            return world.breaks(
                f"I2: the cancel of {uid} is acknowledged, and {name} is still registered with it"
            )
    return world


def lose(world: ExploredWorld, index: int, *, after_commit: bool) -> ExploredWorld:
    """The connection goes while the multi is under way, before or after it commits."""
    user = world.users[index]
    assert user.sent is not None
    if after_commit:
        before = world
        world, outcome = apply(world, user.sent, 0)
        if isinstance(outcome, tuple):
            world = committed(before, world, user.sent, user.wishes[user.done])
            world = only_what_was_judged(world, user, before.tree)
            world = world.with_user(index, user._replace(took=True))
    return go_on(world, index, OutcomeUnknown("the connection was lost"))


def die(world: ExploredWorld, index: int) -> ExploredWorld:
    """Between two requests: of what it had stored nobody knows."""
    return world.with_user(index, over(world.users[index]))


def leave(world: ExploredWorld, index: int) -> ExploredWorld:
    """ZooKeeper can't be reached any more: the command ends without knowing. Its multi may be under way all the same."""
    user = world.users[index]
    assert user.sent is not None
    wish = user.wishes[user.done]
    world = world._replace(late=(*world.late, Late(user.sent, wish, world.tick, operators.pause_read(user))))
    world = go_on(world, index, OutcomeUnknown("the connection was lost"))
    return go_on(world, index, Unreachable("no connection")) if world.users[index].unknown else world
