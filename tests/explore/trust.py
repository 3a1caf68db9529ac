"""What a supervisor makes of its registry where that may be replaced (I10): by ``coord.trust`` and ``coord.start_doubt``.

Those keep their memory in a file, and ask a store; here both are part of the world, and put into them for one call. The
zxid that is remembered stays 0: servers that come up with restored data go on above what anybody has seen, so it proves
nothing, and the worst case is that only the doorbell and the epochs in the store tell.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from supervisor.coord.election import Author, Candidate, election_view, publish_distrust, recent_terms
from supervisor.coord.start_doubt import StartDoubt
from supervisor.coord.trust import Memory, RegistryEvidence, Trust, mark_restored, record_epoch
from supervisor.errors import Conflict, GuardFailed
from supervisor.model.records import EpochRecord
from supervisor.model.transaction import Reads
from tests.explore.setting import PATHS
from tests.explore.shims import ExploredMove
from tests.explore.world import ExploredSupervisor, ExploredWorld, Snapshot, apply, described

CLUSTER_ID = "c"


class EpochStore:
    """The epochs in the store: ``coord.epoch_marks.EpochMarks`` as a value."""

    def __init__(self, marks: tuple[tuple[int, str, str], ...]) -> None:
        self.marks = marks

    def record_epoch(self, epoch: int, supervisor: str, op: str) -> None:
        mark = self.read_epoch(epoch)
        if mark is None:
            self.marks = tuple(sorted((*self.marks, (epoch, supervisor, op))))
        elif (mark.supervisor, mark.op) != (supervisor, op):
            raise Conflict(f"epoch {epoch} is another's")

    def read_epoch(self, epoch: int) -> EpochRecord | None:
        return next(
            (
                EpochRecord(epoch=mark[0], supervisor=mark[1], op=mark[2])
                for mark in self.marks
                if mark[0] == epoch
            ),
            None,
        )

    def newest_epoch_above(self, epoch: int) -> int | None:
        return max((mark[0] for mark in self.marks if mark[0] > epoch), default=None)


class Reader:
    """A ``records.ports.ZkSession`` of one state."""

    def __init__(self, tree: Snapshot) -> None:
        self._tree = tree
        self.last_zxid = tree.zxid

    def sync(self) -> None:
        """What is read is the newest state."""

    def read_many(self, paths: Sequence[str]) -> Reads:
        return Reads(tuple(map(self._tree.read, paths)), 0.0, 0.0)


def trust_with(memory: Memory) -> Trust:
    """As it comes up on a host that remembers this."""
    trust = object.__new__(Trust)
    trust._cluster_id, trust._memory = CLUSTER_ID, memory
    return trust


def judged(memory: Memory, tree: Snapshot) -> Memory:
    read = tree.read
    evidence = RegistryEvidence(read(PATHS.cluster), read(PATHS.accepted), read(PATHS.doorbell), tree.zxid)
    return trust_with(memory)._judged(PATHS, evidence)


def trust_checked(world: ExploredWorld, me: ExploredSupervisor) -> ExploredSupervisor:
    """The contender has looked, and judges what it saw."""
    memory = judged(me.memory, world.tree)
    distrust = me.distrust or memory.reason if me.term is not None else me.distrust
    return me._replace(memory=memory, distrust=distrust)


def would_learn_nothing(world: ExploredWorld, me: ExploredSupervisor) -> bool:
    return judged(me.memory, world.tree) == me.memory


def begun(me: ExploredSupervisor, epoch: int) -> ExploredSupervisor:
    """A term begins; what it rests on is not in the store yet."""
    terms = recent_terms(me.observed.epoch) if me.observed is not None else {}
    terms[epoch] = Author(me.id, f"{me.op_id}.{epoch}")
    recent = tuple(sorted((number, author.supervisor, author.op) for number, author in terms.items()))
    return me._replace(recorded=False, distrust=me.memory.reason, recent=recent)


def moves(world: ExploredWorld, index: int, me: ExploredSupervisor) -> Iterator[ExploredMove]:
    """What a term does besides its passes: its epoch is recorded, its distrust is said."""
    assert me.term is not None
    if not me.recorded and me.distrust is None:
        yield record(world, index, me, me.term[0])
    if me.distrust is not None:
        seen = election_view(PATHS, world.tree.read(PATHS.leader), world.tree.read(PATHS.epoch))
        if (
            seen.hint is not None
            and seen.hint.distrust is None
            and seen.version == me.term[1]
            and world.has_session(me.sid)
        ):
            tx = publish_distrust(
                PATHS,
                Candidate(me.id, ""),
                epoch=me.term[0],
                fence=me.term[1],
                op_id=f"{me.op_id}.says",
                distrust=me.distrust,
            )
            after, outcome = apply(world, tx, me.sid)
            yield ExploredMove(
                f"{me.id} says that it does not trust the registry: {described(outcome)}",
                after,
                urgent=not isinstance(outcome, GuardFailed),
            )


def marks(world: ExploredWorld, me: ExploredSupervisor) -> Iterator[ExploredMove]:
    """Whoever remembers another past leaves that in the store, whether it leads or not: ``Contender._mark_restored``."""
    if (
        me.memory.reason is None
        or not me.memory.restored
        or me.observed is None
        or me.observed.flaw is not None
    ):
        return
    leads = me.term is not None
    recent = (
        {number: Author(supervisor, op) for number, supervisor, op in me.recent}
        if leads
        else recent_terms(me.observed.epoch)
    )
    store = EpochStore(world.store)
    mark_restored(
        store,
        me.term[0] if me.term is not None else me.observed.epoch.epoch,
        recent,
        Author(me.id, f"{me.op_id}.mark"),
    )
    if store.marks != world.store:
        yield ExploredMove(
            f"{me.id} leaves in the store that the registry was restored", world._replace(store=store.marks)
        )


def record(world: ExploredWorld, index: int, me: ExploredSupervisor, epoch: int) -> ExploredMove:
    store = EpochStore(world.store)
    distrust = record_epoch(
        store, epoch, {number: Author(supervisor, op) for number, supervisor, op in me.recent}
    )
    after = world._replace(store=store.marks)
    if distrust is None:
        return ExploredMove(
            f"{me.id} records epoch {epoch} in the store",
            after.with_supervisor(index, me._replace(recorded=True)),
        )
    return ExploredMove(
        f"{me.id} learns from the store: {distrust}",
        after.with_supervisor(index, me._replace(distrust=distrust)),
    )


def doubt_of(
    world: ExploredWorld, me: ExploredSupervisor, path: str
) -> tuple[tuple[int, int] | None, str | None]:
    """Why the agent must not start what is assigned at ``path``, and the term that it has asked the store about."""
    doubt = StartDoubt(PATHS, trust_with(me.memory), EpochStore(world.store))
    doubt._cleared = me.cleared
    node = world.tree.nodes[path]
    why = doubt.of(Reader(world.tree), node.czxid)
    return doubt._cleared, why


def alarm_of(me: ExploredSupervisor) -> str | None:
    """What ``status`` says of this supervisor's doubts: as ``Contender._make_report``."""
    return me.distrust or me.memory.reason or (me.observed.flaw if me.observed is not None else None)
