"""A scenario as data: how it begins, what users want, what may go wrong and how often.

``begin`` founds the registry and goes on without faults, in one fixed order, until the jobs of ``running`` run.
"""

from __future__ import annotations

from dataclasses import dataclass

from supervisor.coord import leadership as lead
from supervisor.model.records import Cluster, EpochRecord
from supervisor.model.transaction import Create, Transaction
from supervisor.records.layout import LAYOUT_VERSION
from tests.explore import sweeping
from tests.explore.rest import CALM_TICKS, next_move, not_at_rest
from tests.explore.setting import LAYOUT, encode, spec
from tests.explore.supervisors import deliver
from tests.explore.world import ExploredSupervisor, ExploredWorld, Judge, Snapshot, User, UserWish

Begun = dict[tuple[object, ...], ExploredWorld]
SCRIPT_MOVES_MAX, FOUNDING_MOVES_MAX = 100, 100


@dataclass(frozen=True)
class Scenario:
    """``wishes``: one list of commands per user, each ``(what, name[, uid])``. ``running``: jobs that run at the beginning.

    ``kinds``: of ``faults.KINDS``; at most ``faults`` of them happen, with wide bounds ``wide``. ``settled``: begin when all is at rest; else right
    after the submits. ``split``: a leader reads leases and names at different moments.
    ``slow_users``: a user's multi may be under way for any time; else it arrives within the tick.
    ``script``: moves that are made first, each by a part of its label, with all that
    is ordinary in between and nobody coming back: a way into what lies deep; ``reasons``: for so many more starts of a driver there is one in it. ``replaceable``: the registry may be
    restored, lost or spoilt as a whole; ``hasty``: and a leader acts before it has looked again. ``sweeps``: blobs are put, and leaders
    sweep; ``past``: commands given before it begins, where there is a script within that; ``orphans``: uids of submits that stopped after their put.
    ``removes``: leaders delete the checkpoints of jobs that ask for it. ``slow_reads``: each reading of a command is of another moment.
    ``prepares``: so many prepared drivers there may be. ``policies``: of each supervisor (``refusing``).
    ``max_states``: where the quick bounds end.
    """

    name: str
    about: str
    wishes: tuple[tuple[tuple[str, ...], ...], ...] = ()
    running: tuple[str, ...] = ("a",)
    supervisors: int = 2
    kinds: tuple[str, ...] = ()
    faults: int = 1
    wide: int = 3
    settled: bool = True
    split: bool = False
    slow_users: bool = False
    script: tuple[str, ...] = ()
    reasons: int = 0
    replaceable: bool = False
    hasty: bool = False
    sweeps: bool = False
    past: tuple[tuple[str, ...], ...] = ()
    orphans: tuple[str, ...] = ()
    removes: bool = False
    slow_reads: bool = False
    prepares: int = 0
    policies: tuple[str, ...] = ()
    max_states: int = 1_000

    def begin(self, trace: list[str], begun: Begun, *, wide: bool = False) -> ExploredWorld:
        """The first state; how it came to be is told to ``trace``. It may be broken, where a defect was planted.

        ``begun``: what the same code came to before, by what a beginning depends on.
        """
        key = (
            self.running,
            self.supervisors,
            self.settled,
            self.replaceable,
            self.script,
            self.kinds if self.script else (),
            self.sweeps,
            self.past,
            self.orphans,
            self.removes,
            self.prepares if self.script else 0,
            self.reasons,
            self.policies,
        )
        if key not in begun:
            begun[key] = self.beginning(trace)
        world = begun[key]
        users = tuple(
            User(number, tuple(UserWish(*wish) for wish in wishes))
            for number, wishes in enumerate(self.wishes)
        )
        faults = self.wide if wide else self.faults
        known = world.judge._replace(reasons=self.reasons + faults + sum(len(user.wishes) for user in users))
        return world._replace(
            users=users,
            faults=faults,
            split=self.split,
            slow_users=self.slow_users,
            hasty=self.hasty,
            slow_reads=self.slow_reads,
            prepares=self.prepares,
            judge=known,
        )

    def beginning(self, trace: list[str], *, strict: bool = False) -> ExploredWorld:
        """``strict``: raises ValueError for a script that can't be followed; else it is left where it ends."""
        world = bootstrapped(self.supervisors, replaceable=self.replaceable, policies=self.policies)._replace(
            sweeps=self.sweeps, removes=self.removes
        )
        if world.broken is not None:
            return world
        submits = tuple(UserWish("submit", name, f"u0-{name}") for name in self.running)
        past = tuple(UserWish(*one) for one in self.past)
        world = world._replace(users=(User(9, submits if self.script else (*submits, *past)),))
        world = settled(world, trace) if self.settled else submitted(world)
        if self.script:
            known = world.judge._replace(reasons=self.reasons)
            world = world._replace(users=(User(9, past),), prepares=self.prepares, judge=known)
        for uid in self.orphans:
            world = sweeping.put(world, spec(uid.partition("-")[2], uid).key)
        for part in self.script:
            after = made(world._replace(faults=1), self.kinds, part, trace)
            if after is None and strict:
                raise ValueError(f"no move is ever {part!r}")
            if after is None:
                return world
            world = after
        return world


def bootstrapped(supervisors: int, *, replaceable: bool, policies: tuple[str, ...] = ()) -> ExploredWorld:
    tree = Snapshot()
    tree.memo = {}
    ids = [f"s{number + 1}" for number in range(supervisors)]
    tree.apply(
        Transaction(
            "found",
            "",
            (
                Create(LAYOUT.root, b""),
                Create(LAYOUT.version, str(LAYOUT_VERSION).encode()),
                Create(LAYOUT.cluster, encode(Cluster(id="c", name="c", store="s"))),
                Create(LAYOUT.epoch, encode(EpochRecord(epoch=0, supervisor="", op=""))),
                Create(LAYOUT.doorbell, b""),
                *(Create(path, b"") for path in LAYOUT.persistent_parents()),
                *(Create(LAYOUT.assigned_to(one), b"") for one in ids),
            ),
        ),
        0,
    )
    given = (*policies, *("" for _ in ids))
    processes = tuple(ExploredSupervisor(one, number, policy=given[number]) for number, one in enumerate(ids))
    known = Judge(doorbell_versions=(0,) * supervisors)
    world = ExploredWorld(0, tree, (), processes, (), (), frozenset(), 0, known, replaceable=replaceable)
    for number in range(supervisors):
        world = deliver(world, number, lead.Start())
        for _ in range(FOUNDING_MOVES_MAX):
            if not world.supervisors[number].todo and world.has_session(world.supervisors[number].agent_sid):
                break
            _, world = next_move(world)  # s1 leads
        else:
            return world.breaks(
                f"I11: {processes[number].id} looks and stands without end, and time does not go on"
            )
    return world


def made(world: ExploredWorld, kinds: tuple[str, ...], part: str, trace: list[str]) -> ExploredWorld | None:
    """After the first move whose label has this part, as soon as there is one; None: there is none."""
    from tests.explore.search import successors

    for _ in range(SCRIPT_MOVES_MAX):
        if world.broken is not None:
            return world
        moves = list(successors(world, kinds))
        found = next((move for move in moves if part in move.label), None)
        move = found or next((m for m in moves if m.urgent and not m.fault and " again" not in m.label), None)
        move = move or next((m for m in moves if m.label == "time goes on"), None)
        if move is None:
            return None
        world = move.world
        trace.append(f"tick {world.tick:3}  {move.label}")
        if found is not None:
            return world
    return None


def submitted(world: ExploredWorld) -> ExploredWorld:
    while world.users[0].done < len(world.users[0].wishes):
        from tests.explore import users

        world = next(iter(users.moves(world, 0))).world
    return world


def settled(world: ExploredWorld, trace: list[str]) -> ExploredWorld:
    since = None
    for _ in range(2_000):
        since = (world.tick if since is None else since) if not_at_rest(world) is None else None
        if (
            since is not None
            and world.tick - since >= CALM_TICKS
            and world.users[0].done == len(world.users[0].wishes)
        ):
            return world
        label, world = next_move(world)
        trace.append(f"tick {world.tick:3}  {label}")
        if world.broken is not None:
            return world
    return world.breaks(f"liveness: {not_at_rest(world)}, at the beginning already")
