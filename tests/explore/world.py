"""One state of the world as a value: the registry, the sessions, the processes, the drivers, and what the judge knows.

Nothing in here is changed in place. A *move* is a label and the world after it; ``moves.py`` says which there are.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from supervisor.coord.leadership import LeadershipState
from supervisor.coord.trust import Memory
from supervisor.daemon.host.guarded_attempt import GuardedAttempt
from supervisor.errors import GuardFailed
from supervisor.model.second_killer import SecondKiller
from supervisor.model.transaction import ANY_VERSION, Delete, Transaction
from supervisor.registry.blob_sweep import Unreferenced
from supervisor.shim.state import Effect, Event, ShimState
from tests.explore.executing import Orphans
from tests.explore.setting import now_s
from tests.fakes.zookeeper_tree import Tree


class Snapshot(Tree):
    """The registry of one state: never changed once it stands in a world. ``memo``: what was worked out from it."""

    __slots__ = ("memo",)

    def copy(self) -> Snapshot:
        other = super().copy()
        other.memo = {}
        return other


class Shim(NamedTuple):
    """A shim, its twin, its driver tree, and what the guardian of its host knows of it.

    ``state`` None: the process is over. ``sent``: the request under way and the tick of its sending. ``orphan``: a request
    in the pipe of a lost connection, which may still reach the server. ``inbox``: what it will hear once it runs again.
    ``exec_before_at_s``: it is about to let the starter go. ``tree``: unborn, alive, dying (killed, not yet empty) or empty.
    ``disturbed``: a fault hit it or its driver, or a user asked for its end (for I6). ``twin`` None: it is gone as well.
    ``prepared``: its number, if it was brought up before there was an attempt (of ``revision``); then ``attempt`` is 0 until one is
    handed over, and ``tree`` is waiting until its opening was read; ``exec_before_at_s`` is then what the opening says.
    ``recut``: its first connection is gone. ``of_the_past``: it was started before the registry was replaced.
    """

    name: str
    uid: str
    attempt: int
    number: int
    host: int
    claim: str
    own_version: int
    state: ShimState | None
    sid: int
    sessions: int = 1
    connected: bool = True
    paused: bool = False
    paused_ticks: int = 0
    sent: tuple[Effect, int] | None = None
    orphan: tuple[Transaction, int, int] | None = None
    inbox: tuple[Event, ...] = ()
    exec_before_at_s: float | None = None
    tree: str = "unborn"
    dying_tick: int = 0
    terminated: bool = False
    status: int | None = None
    file_deadline_at_s: float | None = None
    twin: SecondKiller | None = None
    guarded_attempt: GuardedAttempt | None = None
    asked_by_guardian: Any = None
    over: bool = False
    disturbed: bool = False
    tick_due: bool = False
    recut: bool = False
    of_the_past: bool = False
    prepared: int = 0
    revision: int = 0

    @property
    def title(self) -> str:
        if self.prepared:
            return f"{self.uid}.p{self.prepared}" + (f" (attempt {self.attempt})" if self.attempt else "")
        more = f" ({self.number})" if self.number > 1 else ""
        return f"{self.uid}.{self.attempt}{more}"

    @property
    def key(self) -> str:
        return f"{self.uid}.{self.attempt}"


class ExploredFirstSeen(NamedTuple):
    """What a leader remembers from pass to pass: per name (mzxid, first seen), and of one that runs (claim, first seen); of the
    acceptance (czxid, first seen)."""

    owns: tuple[tuple[str, tuple[int, float]], ...] = ()
    leases: tuple[tuple[str, tuple[int, float]], ...] = ()
    accepted: tuple[int, float] | None = None
    running: tuple[tuple[str, tuple[str, float]], ...] = ()


class Sent(NamedTuple):
    """An action of a leader under way: its multi, under the session and the epoch of its term. ``alone``: what is sent
    instead when the entry is gone. ``epoch``: the version of /epoch; ``number``: what it says."""

    name: str
    tx: Transaction
    sid: int
    epoch: int
    why: str
    alone: Transaction | None = None
    number: int = 0


class KnownDeletion(NamedTuple):
    """What a remover remembers of a claim with a pending deletion (``daemon.leader.remover.LocationDeletion``). Times: BOOTTIME. ``now``: what it has just read of it."""

    path: str
    unsure_at_s: float
    next_at_s: float = 0.0
    now: Any = None


class Wipe(NamedTuple):
    """A deletion of all below ``location``, for ``uid`` whose deletion is pending, that was sent at ``tick`` in the term ``epoch``. ``now``: what the remover
    had read. ``arrived``: how many uids had objects there; None: it is under way."""

    path: str
    location: str
    uid: str
    now: Any
    epoch: int
    tick: int
    arrived: int | None = None


class ExploredSupervisor(NamedTuple):
    """A supervisor process: contender, leader's loop, agent and guardian live and stop together.

    ``todo``: effects of the leadership machine that its thread has yet to carry out. ``lag``: the follower that this
    leader reads from stands still here. ``term``: (epoch, fence) while it leads.

    Where the registry may be replaced: ``memory``: what it remembers of the registry, on its disk; ``recorded``: its epoch is
    in the store; ``distrust``: of this term; ``recent``: the terms that it knew when it stood; ``cleared``: the term that
    its agent has asked the store about. ``suspended``: its term is paused.

    Where it sweeps: ``unreferenced``: the objects that its latest scan saw unreferenced; ``sweep``: what the scan under way was
    answered so far; ``erasing``: the key whose deletion it has sent.

    Where it removes checkpoints: ``known_deletions``: the claims with a pending deletion that its remover knows; ``wipe``: the deletion that it has sent.

    ``policy``: that of its host (``refusing``).
    """

    id: str
    number: int
    alive: bool = True
    paused: bool = False
    paused_ticks: int = 0
    connected: bool = True
    machine_state: LeadershipState = LeadershipState()
    todo: tuple[Any, ...] = ()
    sid: int = 0
    agent_sid: int = 0
    sessions: int = 0
    registrations: int = 0
    answered_at_s: float = 0.0
    tick_due: bool = False
    observed: Any = None
    op_id: str = ""
    term: tuple[int, int] | None = None
    first_seen: ExploredFirstSeen = ExploredFirstSeen()
    reading: Any = None
    queue: tuple[Sent, ...] = ()
    lag: Snapshot | None = None
    memory: Memory = Memory()
    recorded: bool = True
    distrust: str | None = None
    recent: tuple[tuple[int, str, str], ...] = ()
    cleared: tuple[int, int] | None = None
    suspended: bool = False
    unreferenced: tuple[tuple[str, Unreferenced], ...] = ()
    sweep: tuple[Any, ...] | None = None
    erasing: str | None = None
    known_deletions: tuple[KnownDeletion, ...] = ()
    wipe: Wipe | None = None
    policy: str = ""


class UserWish(NamedTuple):
    """A command of a user: ``submit``, ``cancel`` … ``uid``: of a submission; of a ``switchover`` the next leader; of a ``revise``
    how an update is judged (``users.POLICIES``)."""

    what: str
    name: str
    uid: str = ""


class User(NamedTuple):
    """Commands given one after the other, each at any time. ``replies``: what the present one was answered so far.

    ``sent``: its multi under way. ``took``: a multi of the present command has committed, for the judge.
    """

    number: int
    wishes: tuple[UserWish, ...]
    done: int = 0
    begun: bool = False
    replies: tuple[Any, ...] = ()
    sent: Transaction | None = None
    unknown: bool = False
    took: bool = False


class Late(NamedTuple):
    """A multi of a command that is over, in a session that still lives: it may reach the server any time until that ends."""

    tx: Transaction
    wish: UserWish
    tick: int
    pause: bytes = b""  # the one that an unpause read


class Judge(NamedTuple):
    """What an outsider knows: commands acknowledged, claims committed, drivers executed. Never asks the registry.

    ``cancelled``: uid → tick of the acknowledgement. ``claimed``: claims that committed. ``executed``: (uid, attempt) of
    every driver that was ever executed. ``registered``: uids acknowledged as registered. ``spoilt``: names that somebody spoilt an
    ownership of: the sweeper, which is not in every world, has to remove what is left of their assignments. ``reasons``: of
    which an attempt may be started: faults that there may be, and commands (I11).

    ``lost``: the registry was replaced, and something of it lost. ``doorbell_versions``: of the doorbell as each supervisor saw it last.
    ``knows``: supervisors that saw what was lost, and have looked again since. ``accepted``: an operator has accepted it.

    ``paused``: a pause has committed, and no end of it since. ``handed_over``: the latest epoch of which somebody was told that
    its leader will hand over. ``drained``: hosts that somebody drained, at any time. ``dangling``: blobs that the restored registry names, and that were deleted when nobody knew of it.

    ``refused``: uid, revision and restart nonce that a policy has refused, with that policy.
    """

    cancelled: tuple[tuple[str, int], ...] = ()
    claimed: frozenset[str] = frozenset()
    executed: frozenset[tuple[str, int]] = frozenset()
    registered: frozenset[str] = frozenset()
    spoilt: frozenset[str] = frozenset()
    reasons: int = 0
    lost: bool = False
    doorbell_versions: tuple[int, ...] = ()
    knows: frozenset[int] = frozenset()
    accepted: bool = False
    paused: bool = False
    handed_over: int = 0
    dangling: frozenset[str] = frozenset()
    drained: frozenset[int] = frozenset()
    refused: frozenset[tuple[str, int, str, str]] = frozenset()


class Saved(NamedTuple):
    """A backup of the registry, with the sessions that it knows, what users had been told by then, and what was in the
    store."""

    tree: Snapshot
    sessions: tuple[tuple[int, int], ...]
    judge: Judge
    store: tuple[tuple[int, str, str], ...] = ()


class ExploredWorld(NamedTuple):
    """``replaceable``: the registry may be restored or lost, so terms and doorbells are remembered. ``hasty``: a
    leader whose connection is back may act before it has looked. ``store``: the epochs in the store, with their authors.
    ``sweeps``: leaders sweep, and the store has ``blobs``: the keys of specs, each with the tick of its put.
    ``removes``: leaders delete checkpoints, and ``objects`` are the uids of which there is something in theirs. ``slow_reads``: each
    reading of a command is of another moment. ``prepares``: so many prepared drivers there may be. ``orphans``: executors that
    lost their driver.
    """

    tick: int
    tree: Snapshot
    sessions: tuple[tuple[int, int], ...]
    supervisors: tuple[ExploredSupervisor, ...]
    shims: tuple[Shim, ...]
    users: tuple[User, ...]
    hosts_down: frozenset[int]
    faults: int
    judge: Judge
    split: bool = False
    slow_users: bool = False
    broken: str | None = None
    late: tuple[Late, ...] = ()
    replaceable: bool = False
    hasty: bool = False
    store: tuple[tuple[int, str, str], ...] = ()
    saved: Saved | None = None
    sweeps: bool = False
    blobs: tuple[tuple[str, int], ...] = ()
    removes: bool = False
    objects: frozenset[str] = frozenset()
    slow_reads: bool = False
    prepares: int = 0
    orphans: tuple[Orphans, ...] = ()

    @property
    def now_s(self) -> float:
        return now_s(self.tick)

    def with_shim(self, index: int, shim: Shim) -> ExploredWorld:
        return self._replace(shims=(*self.shims[:index], shim, *self.shims[index + 1 :]))

    def with_supervisor(self, index: int, supervisor: ExploredSupervisor) -> ExploredWorld:
        return self._replace(
            supervisors=(*self.supervisors[:index], supervisor, *self.supervisors[index + 1 :])
        )

    def with_user(self, index: int, user: User) -> ExploredWorld:
        return self._replace(users=(*self.users[:index], user, *self.users[index + 1 :]))

    def breaks(self, why: str) -> ExploredWorld:
        return self if self.broken else self._replace(broken=why)

    def has_session(self, sid: int) -> bool:
        return any(one == sid for one, _ in self.sessions)


_SIDS: dict[str, int] = {}


def sid_of(name: str) -> int:
    """A session's number, the same for the same name in every state."""
    return _SIDS.setdefault(name, len(_SIDS) + 1)


def open_session(world: ExploredWorld, sid: int) -> ExploredWorld:
    return world._replace(sessions=tuple(sorted((*world.sessions, (sid, 0)))))


def end_session(world: ExploredWorld, sid: int) -> ExploredWorld:
    """The server ends it: its ephemerals go, and nothing that was sent in it can be applied any more."""
    if not world.has_session(sid):
        return world
    tree = world.tree
    owned = tree.ephemerals(sid)
    if owned:
        tree = tree.copy()
        tree.apply(Transaction("end of session", "", tuple(Delete(path, ANY_VERSION) for path in owned)), 0)
    return world._replace(tree=tree, sessions=tuple(one for one in world.sessions if one[0] != sid))


Answer = tuple[int | None, ...] | GuardFailed | None


def apply(world: ExploredWorld, tx: Transaction, sid: int) -> tuple[ExploredWorld, Answer]:
    """The server carries a multi out. None: the session is gone, and with it the multi."""
    if sid and not world.has_session(sid):
        return world, None
    tree = world.tree.copy()
    try:
        versions = tree.apply(tx, sid)
    except GuardFailed as failed:
        return world, failed
    return world._replace(tree=tree), versions


def described(answer: Answer) -> str:
    """For the story."""
    if answer is None:
        return "its session is gone"
    if isinstance(answer, GuardFailed):
        return f"rejected at {answer.path} ({answer.kind})"
    return "committed"
