"""The invariants of protocol §10 that are properties of a step, each as a small function; ``rest.py`` has those of rest.

The judge looks at what drivers and users see: execs, empty trees, acknowledgements; and at the multis that pass by. It
never asks the registry who may do what.
"""

from __future__ import annotations

from functools import cache
from itertools import combinations
from typing import TYPE_CHECKING

from supervisor.errors import GuardFailed, OutcomeUnknown
from supervisor.model.location import overlaps
from supervisor.model.records import (
    Cause,
    CheckpointClaim,
    Cleanliness,
    JobRef,
    Outcome,
    Ownership,
    OwnState,
    Result,
)
from supervisor.model.seen import Found, Seen, Unreadable
from supervisor.model.transaction import Check, Transaction
from supervisor.operations.jobs import Did, Done
from supervisor.records.reading import seen
from tests import judges
from tests.explore import executing, operators, way_back
from tests.explore.setting import JOBS as JOB_KINDS
from tests.explore.setting import LAYOUT, LEASE_S, RESULTS_KEPT, TICK_S, location_of, member, spec, terms_of

if TYPE_CHECKING:
    from tests.explore.world import Answer, ExploredWorld, Sent, Shim, User, UserWish, Wipe

LIVING = ("alive", "dying")
ROLLS_BACK = ("roll_update_back", "roll_back_to_savepoint")


@cache
def obeyed_ticks(name: str) -> int:
    """A cancelled attempt may stop in order for its grace while it renews, and if it then falls silent, it is dead by D."""
    return int((terms_of(name).stop_grace_s + LEASE_S) / TICK_S) + 2


OBEYED_TICKS = max(map(obeyed_ticks, JOB_KINDS))
"""The longest of these."""


def shown_own(own: Seen[Ownership]) -> str:
    if isinstance(own, Found):
        record = own.record
        return f"/own {record.state.value} {record.uid}.{record.attempt} at version {own.version}"
    return "an unreadable /own" if isinstance(own, Unreadable) else "that there is no /own"


def driver_of(shim: Shim) -> judges.Driver:
    return judges.Driver(shim.name, shim.uid, shim.attempt)


# -- I1, I5: at exec ---------------------------------------------------------------------------------------------------


def execute(world: ExploredWorld, shim: Shim) -> ExploredWorld:
    """A driver of this name begins to live."""
    new = driver_of(shim)
    for other in world.shims:
        if other.tree in LIVING and judges.exclude_each_other(new, driver_of(other)):
            return world.breaks(judges.two_drivers(new, driver_of(other)))
    world = executing.execute(world, new)
    wrong = judges.executed_unclaimed(
        new, claimed=shim.claim in world.judge.claimed
    ) or judges.executed_again(new, world.judge.executed)
    if wrong is not None:
        return world.breaks(wrong)
    placement = terms_of(shim.name).placement
    host = member(world.supervisors[shim.host].id)
    if placement is not None and not set(placement.require) <= set(host.labels):
        return world.breaks(
            f"driver {new.title} is executed on {host.id}, which lacks a label that it requires"
        )
    executed = world.judge.executed | {(shim.uid, shim.attempt)}
    started = sum(1 for uid, _ in executed if uid == shim.uid)
    if started > 1 + world.judge.reasons:
        world = world.breaks(
            f"I11: {started} attempts of {shim.uid}, and only {world.judge.reasons} faults and commands"
        )
    world = world._replace(judge=world.judge._replace(executed=executed))
    # it writes at once
    return world._replace(objects=world.objects | {shim.uid}) if world.removes else world


# -- I6: at kill -------------------------------------------------------------------------------------------------------


def kill(world: ExploredWorld, shim: Shim) -> ExploredWorld:
    """Somebody kills a driver that lives. Only faults of its own, a user, or its own end are a reason."""
    if shim.disturbed or shim.status is not None or shim.host in world.judge.drained:
        return world
    return world.breaks(
        f"I6: driver {shim.title} is killed, and neither a user nor a fault of its own was the reason"
    )


# -- I2, I4, I5, I7: at commit -----------------------------------------------------------------------------------------


def commit(
    before: ExploredWorld, after: ExploredWorld, shim: Shim, tx: Transaction, reply: Answer
) -> ExploredWorld:
    """A multi of a shim was answered."""
    if reply is None or isinstance(reply, GuardFailed):
        return after
    if tx.what == "claim":
        if shim.of_the_past:
            after = after.breaks(
                f"I10: shim {shim.title}, from before the registry was replaced, claims what that says"
            )
        revived = judges.claimed_after_cancel(driver_of(shim), dict(after.judge.cancelled))
        after = after if revived is None else after.breaks(revived)
        after = after._replace(judge=after.judge._replace(claimed=after.judge.claimed | {shim.claim}))
        after = operators.held(after, tx.what, shim.name)
    if tx.what == "exit":
        after = buried(after, shim)
    return registry_holds(before, after)


def buried(world: ExploredWorld, shim: Shim) -> ExploredWorld:
    """§7: a tombstone only after the tree is empty, for nobody waits any more."""
    if shim.tree in LIVING or shim.exec_before_at_s is not None:
        return world.breaks(f"a tombstone for {shim.title} commits while its driver is alive")
    return executing.buried(world, shim)


def leader_commit(before: ExploredWorld, after: ExploredWorld, sent: Sent, reply: Answer) -> ExploredWorld:
    """A multi of a leader was answered."""
    unguarded = judges.unguarded(sent.tx, LAYOUT.epoch, sent.epoch)
    if unguarded is not None:
        return after.breaks(unguarded)
    if reply is None or isinstance(reply, GuardFailed):
        return after
    if before.tree.nodes[LAYOUT.epoch].version != sent.epoch:
        after = after.breaks(f"I4: {sent.tx.what} of {sent.name} commits under an epoch that is over")
    after = operators.held(after, sent.tx.what, sent.name)
    if sent.tx.what in ("sweep_result", "sweep_claim"):
        after = forgotten(before, after, sent) if sent.tx.what == "sweep_result" else given_up(before, after)
    if sent.tx.what == "switched_over":
        after = operators.concluded(after, sent.number)
    if sent.tx.what == "give_update_up":
        after = runs_as_wanted(before, after, sent.name)
    if sent.tx.what in (*ROLLS_BACK, "finish_update"):
        after = judged_rightly(before, after, sent)
    after = way_back.committed(before, after, sent)
    if sent.tx.what in ("assign", "bury") or (sent.tx.what == "clean_up" and frees_name(sent)):
        for shim in after.shims:
            if shim.name == sent.name and shim.tree in LIVING:
                after = after.breaks(
                    f"I5: {sent.tx.what} of {sent.name} commits while driver {shim.title} is alive"
                )
    return registry_holds(before, after)


def runs_as_wanted(before: ExploredWorld, after: ExploredWorld, name: str) -> ExploredWorld:
    """§9.2: an update that is given up has stopped nothing: what is wanted now is claimed, and stays so. And it is the one that
    was wanted, not one that somebody has asked for since."""
    wanted = seen(JobRef, before.tree.read(LAYOUT.job(name)), "")
    ref = seen(JobRef, after.tree.read(LAYOUT.job(name)), "")
    own = seen(Ownership, after.tree.read(LAYOUT.own(name)), "")
    if isinstance(ref, Found) and isinstance(own, Found):
        job, record = ref.record, own.record
        same = (
            isinstance(wanted, Found)
            and job.update is not None
            and job.update.target == wanted.record.revision
        )
        if not same:
            return after.breaks(f"§9.2: another update of {name} is lost than the one that is given up")
        if record.state is OwnState.CLAIMED and (record.uid, record.revision) == (job.uid, job.revision):
            return after
    return after.breaks(f"§9.2: an update of {name} is given up, and what it replaced does not run")


def judged_rightly(before: ExploredWorld, after: ExploredWorld, sent: Sent) -> ExploredWorld:
    """§9.2: an update is rolled back once, over an attempt of its target that has ended, and to what was before; it is done while
    its target runs. No attempt is assigned meanwhile, which the new version of the reference would take back."""
    wanted = seen(JobRef, before.tree.read(LAYOUT.job(sent.name)), "")
    ref = seen(JobRef, after.tree.read(LAYOUT.job(sent.name)), "")
    own = seen(Ownership, before.tree.read(LAYOUT.own(sent.name)), "")
    if not isinstance(wanted, Found) or not isinstance(ref, Found) or not isinstance(own, Found):
        return after.breaks(f"§9.2: {sent.tx.what} of {sent.name} commits, and it is not registered")
    was, job, update = wanted.record, ref.record, wanted.record.update
    if update is None or update.target != was.revision or update.rolled_back or update.done:
        return after.breaks(f"§9.2: {sent.tx.what} of {sent.name} commits, and no update of it is observed")
    if job.update is None or job.update.target != update.target:
        return after.breaks(f"§9.2: {sent.tx.what} of {sent.name} is about another update than the newest")
    back = sent.tx.what in ROLLS_BACK
    state = OwnState.EXITED if back else OwnState.CLAIMED
    if (own.record.uid, own.record.revision, own.record.state) != (was.uid, was.revision, state):
        return after.breaks(
            f"§9.2: {sent.tx.what} of {sent.name} commits, and its target is not {state.value}"
        )
    to = spec(job.name, job.uid, was.next_revision) if sent.tx.what != "roll_update_back" else None
    if back and (job.spec != (to or update.before.spec) or job.revision != was.next_revision):
        return after.breaks(f"§9.2: {sent.name} is rolled back to something else than what was before")
    return after


def forgotten(before: ExploredWorld, after: ExploredWorld, sent: Sent) -> ExploredWorld:
    """A result is swept: a clean one, of a name that has as many newer ones as are kept. Of that uid nobody is told any more."""
    results = [
        seen(Result, before.tree.read(path), path) for path in before.tree.nodes if path.startswith(RESULTS)
    ]
    of_name = [one.record for one in results if isinstance(one, Found) and one.record.name == sent.name]
    for gone in [one for one in of_name if LAYOUT.result(one.uid) not in after.tree.nodes]:
        if gone.state is not Cleanliness.CLEAN:
            after = after.breaks(f"§5: the result of {gone.uid} is swept, and it is dirty")
        if sum(one.uid > gone.uid for one in of_name) < RESULTS_KEPT:
            after = after.breaks(
                f"§5: the result of {gone.uid} is swept, and it is one of the newest {RESULTS_KEPT} of {sent.name}"
            )
        after = after._replace(judge=after.judge._replace(registered=after.judge.registered - {gone.uid}))
    return after


def given_up(before: ExploredWorld, after: ExploredWorld) -> ExploredWorld:
    """The claim of a checkpoint is swept: not that of a uid that is registered, not clean, or runs."""
    for path in before.tree.nodes.keys() - after.tree.nodes.keys():
        claim = seen(CheckpointClaim, before.tree.read(path), path)
        if not isinstance(claim, Found):
            continue
        uid, name = claim.record.uid, claim.record.name
        if refers(after, name, uid) or any(shim.uid == uid and shim.tree in LIVING for shim in after.shims):
            after = after.breaks(
                f"§4: the claim of {uid} on its checkpoint is swept, and {uid} is registered or runs"
            )
    return after


def frees_name(sent: Sent) -> bool:
    """A clean-up that also declares the ownership vacant."""
    return not any(isinstance(op, Check) and op.path == LAYOUT.own(sent.name) for op in sent.tx.ops)


def registry_holds(before: ExploredWorld, after: ExploredWorld) -> ExploredWorld:
    """I7 after every commit: a reference or a result for every acknowledged uid, never both, and a fence for each name."""
    nodes, old = after.tree.nodes, before.tree.nodes
    for path, node in nodes.items():
        if path.startswith(JOBS) and node is not old.get(path):
            ref = seen(JobRef, after.tree.read(path), path)
            if isinstance(ref, Found):
                name, uid = ref.record.name, ref.record.uid
                results = {uid} if LAYOUT.result(uid) in nodes else ()
                wrong = judges.reference_and_result(name, uid, results) or judges.registered_after_cancel(
                    name, uid, dict(after.judge.cancelled)
                )
                if wrong is not None:
                    return after.breaks(wrong)
                if LAYOUT.own(ref.record.name) not in nodes:
                    return after.breaks(f"I7: {ref.record.name} is registered without an ownership")
    for uid in after.judge.registered:
        name = uid.partition("-")[2]
        known = {uid} if LAYOUT.result(uid) in nodes or refers(after, name, uid) else ()
        lost = judges.lost_job(name, uid, known)
        if lost is not None:
            return after.breaks(lost)
    for path, node in old.items():
        if path.startswith(OWNS) and (path not in nodes or nodes[path].version < node.version):
            return after.breaks(f"§4: the version of {path} went back")
    return places_apart(blobs_hold(after))


def blobs_hold(world: ExploredWorld) -> ExploredWorld:
    """§4: reference ⇒ blob exists, and what a kept result names does, too."""
    if not world.sweeps:
        return world
    there = {key for key, _ in world.blobs} | world.judge.dangling
    for path, key in named_blobs(world):
        if key not in there:
            return world.breaks(f"§4: {path} names a blob that is not in the store: {key}")
    return world


def named_blobs(world: ExploredWorld) -> list[tuple[str, str]]:
    """What references and results name, by path."""
    kinds: dict[str, type[JobRef] | type[Result]] = {JOBS: JobRef, RESULTS: Result}
    named = []
    for path in world.tree.nodes:
        kind = next((kind for parent, kind in kinds.items() if path.startswith(parent)), None)
        record = seen(kind, world.tree.read(path), path) if kind is not None else None
        if isinstance(record, Found) and record.record.spec is not None:
            named.append((path, record.record.spec.key))
    return named


def refers(world: ExploredWorld, name: str, uid: str) -> bool:
    ref = seen(JobRef, world.tree.read(LAYOUT.job(name)), LAYOUT.job(name))
    return isinstance(ref, Unreadable) or (isinstance(ref, Found) and ref.record.uid == uid)


JOBS, OWNS, RESULTS, CLAIMS = (
    f"{LAYOUT.jobs}/",
    f"{LAYOUT.owns}/",
    f"{LAYOUT.results}/",
    f"{LAYOUT.checkpoints}/",
)


# -- I8: what a user is told ----------------------------------------------------------------------------------------------


def answered(
    world: ExploredWorld, user: User, reply: Done | operators.OperatorResult | Exception
) -> ExploredWorld:
    """A command is over, and says what came of it."""
    what = f"{user.wishes[user.done].what} {user.wishes[user.done].name}"
    if isinstance(reply, OutcomeUnknown):
        return world
    if isinstance(reply, Exception):
        return (
            world.breaks(f"I8: {what} is refused ({reply}), and its write has committed")
            if user.took
            else world
        )
    if not isinstance(reply, Done):
        return operators.finish(world, user, reply)
    if reply.did in OF_ITS_OWN and not user.took:
        world = world.breaks(
            f"I8: {what} is acknowledged as {reply.did.value}, and no write of it has committed"
        )
    if reply.did in (Did.CANCELLED, Did.ALREADY_CANCELLED):
        result = seen(Result, world.tree.read(LAYOUT.result(reply.uid)), "")
        if not isinstance(result, Found) or result.record.outcome is not Outcome.CANCELLED:
            world = world.breaks(
                f"I8: {what} is acknowledged, and no result says that {reply.uid} is cancelled"
            )
    return world


OF_ITS_OWN = (
    Did.SUSPENDED,
    Did.RESUMED,
    Did.RESTARTED,
    Did.REGISTERED_AGAIN,
    Did.FORKED,
    Did.PROMOTED,
    Did.UNDONE,
    Did.WITHDRAWN,
)
"""What nobody else can have done instead: it was this command's own write. A submission may be an earlier try of the same
uid, and I3 says whether it is there; a cancel may be anybody's."""


# -- the checkpoints of ended jobs -----------------------------------------------------------------------------------------


def wipes(world: ExploredWorld, wipe: Wipe) -> ExploredWorld:
    """A deletion is sent."""
    return (
        world.breaks(f"§6: a deletion below {wipe.location} is sent while the cluster is paused")
        if world.judge.paused
        else world
    )


def wiped(world: ExploredWorld, wipe: Wipe) -> ExploredWorld:
    """A deletion arrives. Whatever overlaps it is nobody's but the uid whose deletion is pending's: no driver, no claim, nobody who was told that he has it."""
    for shim in world.shims:
        if shim.tree in LIVING and overlaps(location_of(shim.uid), wipe.location):
            world = world.breaks(
                f"§4: objects below {wipe.location} are deleted, where driver {shim.title} runs"
            )
    for path in world.tree.nodes:
        claim = seen(CheckpointClaim, world.tree.read(path), path) if path.startswith(CLAIMS) else None
        if (
            isinstance(claim, Found)
            and claim.record.uid != wipe.uid
            and overlaps(claim.record.location, wipe.location)
        ):
            world = world.breaks(
                f"§4: objects below {wipe.location} are deleted, and {claim.record.uid} claims {claim.record.location}"
            )
    for uid in world.judge.registered - {wipe.uid}:
        if refers(world, uid.partition("-")[2], uid) and overlaps(location_of(uid), wipe.location):
            world = world.breaks(
                f"§4: objects below {wipe.location} are deleted, and {uid} was acknowledged with {location_of(uid)}"
            )
    return world


def places_apart(world: ExploredWorld) -> ExploredWorld:
    """§4: no claim lies inside another one: two jobs never share a checkpoint, nor a job that runs and one that is being deleted."""
    if not world.removes:
        return world
    claims = [
        seen(CheckpointClaim, world.tree.read(path), path)
        for path in world.tree.nodes
        if path.startswith(CLAIMS)
    ]
    for one, other in combinations([claim.record for claim in claims if isinstance(claim, Found)], 2):
        if overlaps(one.location, other.location):
            return world.breaks(
                f"§4: {one.uid} claims {one.location}, and {other.uid} claims {other.location}"
            )
    return world


def stands(before: ExploredWorld, after: ExploredWorld, wish: UserWish) -> ExploredWorld:
    """What commits as a suspend or a resume is in effect: no leader may undo it, as it would by an exit that was there before."""
    if wish.what not in ("suspend", "resume", "restart", "revise", "roll_back", "move"):
        return after
    ref = seen(JobRef, before.tree.read(LAYOUT.job(wish.name)), "")
    own = seen(Ownership, before.tree.read(LAYOUT.own(wish.name)), "")
    if not isinstance(ref, Found) or not isinstance(own, Found) or own.record.uid != ref.record.uid:
        return after
    over = own.record.state is OwnState.EXITED and own.record.cause is Cause.FINISHED
    if over and not terms_of(wish.name).unbounded:
        return after.breaks(
            f"I8: {wish.what} {wish.name} commits, and its driver has finished: the leader will conclude that"
        )
    return after


# -- I10: a registry that was replaced ----------------------------------------------------------------------------------


def reads_doorbell(world: ExploredWorld, index: int) -> ExploredWorld:
    """A supervisor looks. If it had seen more of the bell than was there after the loss, it knows by now."""
    node = world.tree.nodes.get(LAYOUT.doorbell)
    now, before = -1 if node is None else node.version, world.judge.doorbell_versions[index]
    known = world.judge
    if known.lost and now < before:
        known = known._replace(knows=known.knows | {index})
    doorbell_versions = (*known.doorbell_versions[:index], now, *known.doorbell_versions[index + 1 :])
    return world._replace(judge=known._replace(doorbell_versions=doorbell_versions))


def plans(world: ExploredWorld, index: int, sents: tuple[Sent, ...]) -> ExploredWorld:
    if sents and index in world.judge.knows:
        return world.breaks(
            f"I10: {world.supervisors[index].id} knows that the registry is an older one, and wants {sents[0].tx.what}"
        )
    return world


def starts(world: ExploredWorld, index: int, entry: str) -> ExploredWorld:
    if index in world.judge.knows:
        return world.breaks(
            f"I10: {world.supervisors[index].id} knows that the registry is an older one, and starts {entry}"
        )
    return world


def sweeps(world: ExploredWorld, index: int, key: str) -> ExploredWorld:
    """A sweeper sends a deletion."""
    if index in world.judge.knows:
        return world.breaks(
            f"I10: {world.supervisors[index].id} knows that the registry is an older one, and deletes {key}"
        )
    return world


# -- I11 ---------------------------------------------------------------------------------------------------------------


def planned(world: ExploredWorld, sents: tuple[Sent, ...], by: str) -> ExploredWorld:
    """A pass makes one write for each name at most."""
    names = [sent.name for sent in sents]
    return (
        world
        if len(names) == len(set(names))
        else world.breaks(f"I11: {by} makes two writes for one name in one pass")
    )


# -- I2: with time -----------------------------------------------------------------------------------------------------


def time_passes(world: ExploredWorld) -> ExploredWorld:
    """An attempt of a cancelled uid is gone within its stop grace, or at its deadline if it cannot hear."""
    for uid, tick in world.judge.cancelled:
        for shim in world.shims:
            if shim.uid == uid and shim.tree in LIVING and world.tick - tick > obeyed_ticks(shim.name):
                return world.breaks(judges.outlived_cancel(driver_of(shim), f"{world.tick - tick} ticks"))
    return world
