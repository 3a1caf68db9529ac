"""The judge: what really happened, in true time, against what must hold. It never asks the registry what to think of it.

It is told by the world of drivers (from exec to the empty tree), by users of what they were acknowledged, by the ensemble of
each write that was applied, and by the nemesis of whom it has harmed. ``broken`` has a sentence for each violation.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from supervisor.act.carry_out import ActionOutcome, ActionResult
from supervisor.model.lease_terms import CLOCK_RATE_ERROR, KILL_TIME_S
from supervisor.model.records import (
    CheckpointClaim,
    Cleanliness,
    Desired,
    JobRef,
    Ownership,
    OwnState,
    Result,
)
from supervisor.model.transaction import Node, SetData, Transaction
from supervisor.shim.claim import CONNECT_PATIENCE_S
from tests import judges
from tests.simulation.timed.loop import Process
from tests.simulation.timed.network import Conn
from tests.simulation.timed.patches import decode

if TYPE_CHECKING:
    from supervisor.daemon.leader.record import Pass
    from tests.simulation.timed.drivers import SimulatedDriver
    from tests.simulation.timed.world import TimedWorld

BY_LEADER = frozenset(
    (
        "assign",
        "unassign",
        "drain",
        "revoke",
        "bury",
        "conclude",
        "clean_up",
        "suspend_exhausted",
    )
)
SLACK_S = 0.6
UNTOLD = "two drivers, one of a lost state, and nobody who noticed the loss had led since"
KEPT_AFTER_S = 7.0
"""``coord.contender`` writes what it has seen to disk every five seconds; a supervisor that ends before has forgotten it."""

TRUST_CHECK_READS = 6
"""Records that a contender looks at: /leader first. (An agent looks at fewer, and remembers nothing.)"""
FOLLOWER_CUT_S = 8.0
"""For how long a server that is cut off from its peers may cost a client its renewals, until that is with another one."""

RESTARTS_MAX, WITHIN_S = 12, 10.0
STARTED_S = 3.0
"""From an agent's decision to its last look, and from a shim's connection to its claim."""


Record = TypeVar("Record")


class SeenDoorbell(NamedTuple):
    """The doorbell as a contender saw it last: its version and its mzxid, since when, and in which process."""

    doorbell_version: int
    doorbell_mzxid: int
    since_at_s: float
    process: Process

    def is_like(self, other: SeenDoorbell) -> bool:
        return (self.doorbell_version, self.doorbell_mzxid) == (other.doorbell_version, other.doorbell_mzxid)

    def may_follow(self, other: SeenDoorbell) -> bool:
        """By its numbers it may be a later state of the same registry."""
        return self.is_like(other) or (
            self.doorbell_version > other.doorbell_version and self.doorbell_mzxid > other.doorbell_mzxid
        )


@dataclass
class DriverLife:
    """A driver, from exec to its empty tree, in true time."""

    name: str
    uid: str
    number: int
    place: str
    host: str
    lease_s: float
    exec_at_s: float
    claimed_at_s: float
    empty_at_s: float | None = None
    ended: str = ""

    @property
    def driver(self) -> judges.Driver:
        return judges.Driver(self.name, self.uid, self.number, self.place)


class Judge:
    """``cancelled``: by uid, true time when that was acknowledged. ``submitted``: uid → name, likewise."""

    def __init__(self, world: TimedWorld) -> None:
        self.world = world
        self.broken: list[str] = []
        self.lives: list[DriverLife] = []
        self.passes = 0
        self.last_pass: Pass | None = None
        self.stuck = 0
        self.terms = 0
        self.faults: Counter[str] = Counter()
        self.writes: Counter[str] = Counter()
        self.answers: Counter[str] = Counter()
        self.cancelled: dict[str, float] = {}
        self.submitted: dict[str, str] = {}
        self.touched: dict[str, float] = {}  # by name: when a user last touched it
        self.heard: dict[tuple[str, int], float] = {}
        self.claims: dict[tuple[str, int], float] = {}
        self.trouble: dict[str, list[tuple[float, float]]] = {}
        self.restored_at_s: float | None = None  # an unaccepted restore that lost something
        # hosts that had seen, before it, what it lost, until they look again …
        self.knew: dict[str, SeenDoorbell] = {}
        self.knows: set[str] = set()  # … and then saw that it is lost
        self.leads = ""  # host of the newest term
        self.marked = False  # one that knows has led since, so the store has a mark
        self._notifier: dict[str, SeenDoorbell] = {}
        self.restores = 0
        self._alive: dict[SimulatedDriver, DriverLife] = {}

    def broke(self, what: str) -> None:
        self.broken.append(f"{self.world.loop.now_s:.3f}: {what}")
        self.world.loop.note(f"BROKEN {what}")

    def broke_if(self, what: str | None) -> None:
        if what is not None:
            self.broke(what)

    def defect(self, what: str) -> None:
        self.broke(f"defect: {what}")

    # -- drivers ---------------------------------------------------------------------------------------------------

    def executed(self, driver: SimulatedDriver) -> None:
        now_s, attempt = self.world.loop.now_s, driver.attempt
        job = self.world.job_of(driver.name)
        claimed_at_s = self.claims.get((driver.uid, driver.number), 0.0)
        life = DriverLife(
            driver.name,
            driver.uid,
            driver.number,
            job.place,
            attempt.host.name,
            job.lease_s,
            now_s,
            claimed_at_s,
        )
        self.world.loop.note(f"exec {driver.name} {driver.uid}.{driver.number} on {attempt.host.name}")
        for other in self._alive.values():
            if judges.exclude_each_other(life.driver, other.driver):
                self._overlap(life, other)
        self.broke_if(judges.executed_unclaimed(life.driver, claimed=(life.uid, life.number) in self.claims))
        if not self.restores:
            executed = {(one.uid, one.number) for one in self.lives if one.uid == life.uid}
            self.broke_if(judges.executed_again(life.driver, executed))
        recent = [one for one in self.lives if one.name == life.name and one.exec_at_s > now_s - WITHIN_S]
        if len(recent) >= RESTARTS_MAX:
            self.broke(f"I11: {life.name} was started {len(recent) + 1} times within {WITHIN_S:g} s")
        if self.restored_at_s is not None and claimed_at_s > self.restored_at_s and life.host in self.knows:
            if attempt.decided_at_s > self.restored_at_s:
                self.broke(
                    f"I10: {life.name} {life.uid}.{life.number} is started in a restored registry that nobody accepted"
                )
            elif claimed_at_s > attempt.decided_at_s + CONNECT_PATIENCE_S + STARTED_S:
                self.broke(
                    f"I10: {life.name} {life.uid}.{life.number} is claimed after a restore by a shim from long before it"
                )
            else:  # so soon after the agent's look that nobody can tell: see README, what is not covered
                self.answers["claimed after a restore by a shim from before it"] += 1
        self._alive[driver] = life
        self.lives.append(life)

    def _overlap(self, new: DriverLife, old: DriverLife) -> None:
        """Two drivers of a name. Nobody could tell when the old one is of a state that was lost, and of those who have
        noticed that none has led since (SAFETY.md: not covered; ``coord.trust``: what nobody can tell)."""
        if (
            self.restored_at_s is not None
            and not self.marked
            and old.claimed_at_s < self.restored_at_s < new.claimed_at_s
        ):
            self.answers[UNTOLD] += 1
        else:
            self.broke(f"{judges.two_drivers(new.driver, old.driver)}; on {new.host} and {old.host}")

    def tree_empty(self, driver: SimulatedDriver) -> None:
        now_s = self.world.loop.now_s
        life = self._alive.pop(driver)
        life.empty_at_s, life.ended = now_s, driver.ended
        self.world.loop.note(f"empty {driver.name} {driver.uid}.{driver.number}: {driver.ended}")
        self._check_deadline(life, now_s)
        if not self.world.over:
            self._check_adoption(driver, life)

    def _check_deadline(self, life: DriverLife, now_s: float) -> None:
        """Dead at the sending of the last committed renewal + D; when it was applied is a later moment."""
        heard_at_s = self.heard.get((life.uid, life.number))
        if heard_at_s is not None and now_s > heard_at_s + life.lease_s * (1 + CLOCK_RATE_ERROR) + 0.01:
            self.broke(
                f"§7.1: {life.name} {life.uid}.{life.number} lived {now_s - heard_at_s:.2f} s after its last renewal, D = "
                f"{life.lease_s:g}"
            )

    def _check_adoption(self, driver: SimulatedDriver, life: DriverLife) -> None:
        """I6: who could renew is stopped by nobody but its user."""
        ended, now_s = driver.ended, self.world.loop.now_s
        if not ended.startswith(
            (
                "shim: lease_expired",
                "shim: lost",
                "shim: stopped",
                "twin",
                "guardian",
                "stopped at",
                "SIGTERM",
            )
        ):
            return
        since_at_s = now_s - 3 * life.lease_s - self.world.job_of(life.name).grace_s - 5.0
        if self.touched.get(life.name, -1e9) > since_at_s or self.restores:
            return
        brief = ("follower cut",) if life.lease_s * 5 / 6 - 3.0 < FOLLOWER_CUT_S else ()
        for victim in (life.host, driver.attempt.key, "all", *brief):
            for begun_at_s, ended_at_s in self.trouble.get(victim, ()):
                if begun_at_s <= now_s and ended_at_s >= since_at_s:
                    return
        silent_s = sum(
            min(ended_at_s, now_s) - max(begun_at_s, since_at_s)
            for begun_at_s, ended_at_s in self.world.ensemble.leaderless
            if ended_at_s > since_at_s
        )
        if silent_s > (life.lease_s * 5 / 6 - 3.0) / 3 or not self.world.plan.survives_minority:
            return
        self.broke(f"I6: {life.name} {life.uid}.{life.number} was stopped ({ended}) though it could renew")

    # -- users -----------------------------------------------------------------------------------------------------

    def cancel_acknowledged(self, uid: str, name: str) -> None:
        loop, job = self.world.loop, self.world.job_of(name)
        if uid in self.cancelled:
            return
        self.cancelled[uid] = loop.now_s
        bound_s = (
            (job.lease_s + job.grace_s) * (1 + 2 * CLOCK_RATE_ERROR) + KILL_TIME_S + SLACK_S + job.lease_s
        )
        restores = self.restores

        def judge_the_living() -> None:
            alive = [life for life in self._alive.values() if life.uid == uid]
            if alive and restores == self.restores:
                self.broke(judges.outlived_cancel(alive[0].driver, f"{bound_s:.1f} s"))

        loop.after(bound_s, judge_the_living)

    def contender_read(self, process: Process, paths: Sequence[str], nodes: Sequence[Node | None]) -> None:
        """A contender has looked at the registry: what it saw then it has to remember (I10)."""
        if len(paths) == TRUST_CHECK_READS and paths[0] == self.world.layout.leader:
            node = dict(zip(paths, nodes, strict=True)).get(self.world.layout.doorbell)
            host = self.world.net.hosts[process]
            if node is None:
                return
            now = SeenDoorbell(node.stat.version, node.stat.mzxid, self.world.loop.now_s, process)
            before = self.knew.pop(host, None)
            kept = before is not None and (
                before.process is process or before.since_at_s < (self.restored_at_s or 0.0) - KEPT_AFTER_S
            )
            if before is not None and kept and not now.may_follow(before):
                self.knows.add(host)
                self.marked = self.marked or host == self.leads
            last = self._notifier.get(host)
            if last is None or last.process is not process or not last.is_like(now):
                self._notifier[host] = now

    def restored(self, state_at_s: float, doorbell_version: int, lost: bool) -> None:
        """ZooKeeper comes up with the state of ``state_at_s``. What was acknowledged since is forgotten, as it must be.

        A supervisor that had not yet seen any of what was lost can't know of the loss, unless by the store; nor can one
        that looks again only after as much was written anew (``coord.trust``: what nobody can tell).
        """
        self.restores += 1
        self.cancelled = {uid: at_s for uid, at_s in self.cancelled.items() if at_s <= state_at_s}
        self.knew = {
            host: seen for host, seen in self._notifier.items() if seen.doorbell_version > doorbell_version
        }
        self.knows.clear()
        self.marked = False
        self._notifier.clear()
        if lost:
            self.restored_at_s = self.world.loop.now_s

    # -- the registry's writes -------------------------------------------------------------------------------------

    def committed(self, session: int, tx: Transaction) -> None:
        world = self.world
        what, now_s = tx.what, world.loop.now_s
        self.writes[what] += 1
        if what == "renew":
            lease = tx.ops[1].path.rpartition("/")[2]
            own = self._own_of(lease)
            if own is not None:
                self.heard[own.uid, own.attempt] = now_s
            return
        world.loop.note(f"{what} {tx.ops[-1].path.rpartition('/')[2] if tx.ops else ''} {tx.id[:12]}")
        if what == "claim":
            self._claimed(tx)
        elif what == "take_leadership":
            self.terms += 1
            self.leads = self._author(session)
            self.marked = self.marked or self.leads in self.knows
        elif what in BY_LEADER or what.startswith("sweep_"):
            self.broke_if(judges.unguarded(tx, world.layout.epoch))
            if self.restored_at_s is not None and self._author(session) in self.knows:
                self.broke(f"I10: {what} in a restored registry that nobody accepted")

    def _author(self, session: int) -> str:
        connection = self.world.ensemble.sessions[session].connection
        return self.world.net.hosts[connection.client.process] if isinstance(connection, Conn) else ""

    def _claimed(self, tx: Transaction) -> None:
        path = next(op.path for op in tx.ops if isinstance(op, SetData) and "/own/" in op.path)
        data = next(op.data for op in tx.ops if isinstance(op, SetData) and op.path == path)
        own = decode(Ownership, data, path)
        self.claims[own.uid, own.attempt] = self.heard[own.uid, own.attempt] = self.world.loop.now_s
        driver = judges.Driver(path.rpartition("/")[2], own.uid, own.attempt)
        self.broke_if(judges.claimed_after_cancel(driver, self.cancelled))

    def _own_of(self, name: str) -> Ownership | None:
        node = self.world.ensemble.tree.read(self.world.layout.own(name))
        own: Ownership | None = decode(Ownership, node.data, name) if node is not None else None
        return own

    def relayed(self, relayed: ActionResult) -> None:
        self.answers[relayed.outcome.value] += 1
        if relayed.outcome is ActionOutcome.FAILED:
            self.defect(f"{type(relayed.action).__name__} {relayed.action.name}: {relayed.why}")

    # -- rest ------------------------------------------------------------------------------------------------------

    def at_rest(self) -> list[str]:
        """I3, I7: what is not as it was declared, or left over; empty when all has come to rest."""
        world = self.world
        tree, layout = world.ensemble.tree.nodes, world.layout
        alive: dict[str, list[DriverLife]] = {}
        for life in self._alive.values():
            alive.setdefault(life.name, []).append(life)
        left: list[str] = []
        refs = self._records(JobRef, layout.jobs)
        owns = self._records(Ownership, layout.owns)
        results = self._records(Result, layout.results)
        for name, ref in refs.items():
            wanted = ref.desired is Desired.RUNNING
            lives = alive.pop(name, [])
            if [life.uid for life in lives] != ([ref.uid] if wanted else []):
                left.append(
                    f"I3: {name} is to be {ref.desired.value}, alive are {[f'{one.uid}.{one.number}' for one in lives]}, "
                    f"/own is {owns[name].state.value if name in owns else None}"
                )
            cancelled = self.cancelled if not self.restores else ()
            revived = judges.registered_after_cancel(name, ref.uid, cancelled)
            both = judges.reference_and_result(name, ref.uid, results)
            left += [wrong for wrong in (revived, both) if wrong is not None]
        left += [f"I7: {name} has no reference and a driver" for name in alive]
        left += [
            f"I7: the result of {uid} is dirty"
            for uid, result in results.items()
            if result.state is Cleanliness.DIRTY
        ]
        known = {ref.uid for ref in refs.values()} | set(results)
        if not self.restores:
            left += [
                wrong
                for uid, name in self.submitted.items()
                if (wrong := judges.lost_job(name, uid, known)) and not world.results_pruned(name)
            ]
        for path in tree:
            parts = path.removeprefix(layout.root + "/").split("/")
            if (
                parts[0] == "assigned"
                and len(parts) == 3
                or parts[0] == "prepare"
                and len(parts) == 3
                and not self._stands_by(parts[2], refs)
                or parts[0] == "lease"
                and len(parts) == 2
                and parts[1] not in refs
                or parts[0] == "live"
                and len(parts) == 2
                and not any(f"{one.uid}.{one.number}" == parts[1] for one in self._alive.values())
            ):
                left.append(f"I7: {path} is left over")
        for digest, claim in self._records(CheckpointClaim, layout.checkpoints).items():
            if claim.name not in refs or refs[claim.name].uid != claim.uid:
                left.append(f"I7: the claim {digest} of {claim.uid} is left over")
        left += [
            f"I7: /own/{name} is {own.state.value} without a reference"
            for name, own in owns.items()
            if name not in refs and own.state not in (OwnState.VACANT, OwnState.EXITED)
        ]
        # whose ownership can't be believed waits ten minutes
        for host in world.hosts if not self.restores else ():
            over = [attempt.key for attempt in host.attempts.values() if attempt.nobody_lives]
            left += [f"I7: the run directory of {key} is left over" for key in over]
            free = [attempt.now.assignment for attempt in host.attempts.values() if attempt.is_free]
            left += [
                f"I7: {each.uid} has a prepared driver that nobody wants"
                for each in free
                if not self._stands_by(f"{each.uid}.{each.revision}", refs)
            ]
        return left

    def _stands_by(self, entry: str, refs: Mapping[str, JobRef]) -> bool:
        """Whether ``<uid>.<revision>`` is a running job with a standby."""
        return any(
            f"{ref.uid}.{ref.revision}" == entry
            and ref.desired is Desired.RUNNING
            and ref.terms.standby is not None
            for ref in refs.values()
        )

    def _records(self, cls: type[Record], parent: str) -> dict[str, Record]:
        tree = self.world.ensemble.tree
        names = tree.children(parent) or ()
        return {name: decode(cls, tree.nodes[f"{parent}/{name}"].data, name) for name in names}

    def summary(self) -> Counter[str]:
        return Counter(
            {
                "passes": self.passes,
                "stuck": self.stuck,
                "terms": self.terms,
                "drivers": len(self.lives),
                "drivers prepared": self.answers["prepared"],
                "attempts handed over": self.answers["handed over"],
                **self.writes,
            }
        )


__all__ = ["DriverLife", "Judge"]
