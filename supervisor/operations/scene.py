"""Reads the whole cluster as its leader sees it, for ``explain``, for the reasons of ``list`` and ``show``, and
for the sentence of a wait that ran out of time.

It takes one full and fresh read and ages it, because a leader has seen the exits, assignments and last
renewals when they happened. The plan that is asked about it is the leader's own; nothing of it is carried
out.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cached_property

from supervisor.clock import boottime_s, wall_s
from supervisor.coord.election import recent_terms
from supervisor.coord.epoch_marks import EpochMarks
from supervisor.coord.trust import judge_epochs
from supervisor.errors import NotFound, SupervisorError
from supervisor.model.records import EpochRecord, LeaderHint, OwnState, Phase
from supervisor.model.seen import Found, Seen
from supervisor.model.state import JobState, Shown
from supervisor.model.transaction import Node
from supervisor.model.view import Row, View
from supervisor.observe.listing import aged, changes_of, newest_results, read_job
from supervisor.observe.observer import Observer
from supervisor.operations.context import CommandContext
from supervisor.operations.left_in_checkpoint import with_what_was_left
from supervisor.operations.names import no_job
from supervisor.plan.explain import Await, Explainer, Explanation, explain_ended, urgency
from supervisor.plan.make import Policy
from supervisor.plan.pending import pending_reasons
from supervisor.records.reading import seen
from supervisor.spec.job import from_canonical
from supervisor.spec.site_policy import site_policy

ELECTIONS_MAX = 3
"""Limits how often the epochs are judged anew when a supervisor was elected meanwhile; then the view is shown
without the judgement."""
ASK_EVERY_S = 30.0
"""An answer of the store counts for this long to a caller that reads again and again."""


@dataclass(frozen=True)
class Scene:
    """Holds one such reading. ``store_error`` is why the store could not be asked whether this registry is to
    be trusted, or None. ``aged`` is ``view`` as a leader that has led for long has it at ``now_s``, when it was read."""

    view: View
    aged: View
    policy: Policy
    now_s: float
    leader: str | None
    epoch: int | None
    store_error: str | None

    @cached_property
    def explainer(self) -> Explainer:
        return Explainer(self.aged, self.policy, self.now_s, self.leader)

    def pending_reasons(self, *, pause_is_shown: bool = False) -> dict[str, Shown]:
        """Returns by name what is shown of a pending job, and why it is not started (``plan.pending``)."""
        return pending_reasons(self.aged, self.policy, self.now_s, self.leader, pause_is_shown=pause_is_shown)


def take_scene(context: CommandContext, *, ask_store: bool = True) -> Scene:
    """Takes a Scene. Raises Unreachable.

    With ``ask_store``, it checks the store for younger epochs, which costs a few seconds when the store is
    down.
    """
    view = take_view(context)
    return _scene(context, view, view.rows.values(), EpochsInStore(context) if ask_store else None)


def take_view(context: CommandContext) -> View:
    """Takes one full and fresh read, as it is. Raises Unreachable."""
    return Observer(context.zoo(), context.layout, boottime_s, epoch=0).take_view(None)


def take_hosts(context: CommandContext) -> View:
    """Takes a View of the hosts and what they keep prepared, without jobs. Raises Unreachable."""
    return Observer(context.zoo(), context.layout, boottime_s, epoch=0).take_hosts()


def scene_of_pending(context: CommandContext, view: View, store: EpochsInStore) -> Scene:
    """Takes the Scene for the reasons of the pending jobs of ``view``: the ages of other jobs that simply run
    are not read, because nothing that the plan says of a pending one depends on them. Raises Unreachable."""
    return _scene(context, view, filter(_delays_others, view.rows.values()), store)


def _delays_others(row: Row) -> bool:
    """Returns whether it depends on the age of the attempt in ``row`` what else is started: it may hold a
    starting slot, or a newer submission of its name waits for its end."""
    lease, own = row.lease_of_owner, row.own
    if not isinstance(own, Found) or own.record.state is not OwnState.CLAIMED or lease is None:
        return True
    replaced = isinstance(row.ref, Found) and row.ref.record.uid != own.record.uid
    return replaced or lease.phase not in (Phase.RUNNING, Phase.STOPPING)


def _scene(context: CommandContext, view: View, timed: Iterable[Row], store: EpochsInStore | None) -> Scene:
    """Takes the Scene of ``view``. ``timed`` are the rows of which the age is read; ``store`` is asked unless
    it is None."""
    zoo, layout = context.zoo(), context.layout
    changed = changes_of(zoo, layout, timed)
    leader: Seen[LeaderHint] = seen(LeaderHint, zoo.read(layout.leader), layout.leader)
    node = zoo.read(layout.epoch)
    epoch: Seen[EpochRecord] = seen(EpochRecord, node, layout.epoch)
    now_s, wall_at_s = boottime_s(), wall_s()  # nothing is read anew while the store takes its time
    number = epoch.record.epoch if isinstance(epoch, Found) else None
    store_error = None
    if isinstance(leader, Found):
        view = replace(view, distrust=leader.record.distrust)
    if store is not None and node is not None and view.distrust is None:
        judgement = store.judge(node)
        view = replace(view, distrust=judgement.distrust, recorded=judgement.recorded)
        store_error = judgement.error
    leads = (
        leader.record.supervisor if isinstance(leader, Found) else "somebody" if leader is not None else None
    )
    policy = Policy(context.settings.spark.submit_timeout_s, site_policy(context.settings.policy))
    return Scene(view, aged(view, now_s, wall_at_s, changed), policy, now_s, leads, number, store_error)


def explain_name(context: CommandContext, scene: Scene, name: str) -> Explanation:
    """Explains one job. Raises NotFound for a name of which nothing is kept."""
    row = scene.view.rows.get(name)
    if row is not None and row.is_listed:
        return _explainer_of(context, scene, name).job(name)
    job = read_job(context.zoo(), context.layout, name)
    if job is None:
        raise no_job(context.zoo(), context.layout, name)
    if job.ref is not None:
        raise NotFound(f"{name} was submitted at this very moment: ask again")
    return explain_ended(name, job.uid, job.result, row)


def _explainer_of(context: CommandContext, scene: Scene, name: str) -> Explainer:
    """Returns the explainer of ``scene``; of a job whose update has failed, with what that has left in its checkpoint."""
    row = scene.aged.rows[name]
    looked = with_what_was_left(context, row)
    if looked is row:
        return scene.explainer
    view = replace(scene.aged, rows={**scene.aged.rows, name: looked})
    return Explainer(view, scene.policy, scene.now_s, scene.leader)


def stall_timeout_of(context: CommandContext, scene: Scene, name: str) -> float | None:
    """Returns ``health.stall_timeout`` of the attempt of ``name`` that runs, or None if it is not known: the store does not
    answer, or the spec of that attempt is no longer the job's."""
    row = scene.view.rows.get(name)
    if row is None or not isinstance(row.ref, Found) or not isinstance(row.own, Found):
        return None
    job, own = row.ref.record, row.own.record
    if scene.store_error is not None or (own.uid, own.revision) != (job.uid, job.revision):
        return None
    try:
        return from_canonical(context.blobs().read_spec(job.spec), job.spec.key).health.stall_timeout_s
    except SupervisorError:
        return None


def explain_all(context: CommandContext, scene: Scene) -> list[Explanation]:
    """Explains every registered job and what failed for good; the most urgent comes first."""
    failed = [
        explain_ended(name, uid, result, scene.view.rows.get(name))
        for name, uid, result in newest_results(context.zoo(), context.layout, scene.view)
    ]
    return sorted([*scene.explainer.everything(), *failed], key=urgency)


def why_not_yet(context: CommandContext, scene: Scene, name: str) -> str:
    """Returns half a sentence for a wait that has run out of time: what the job still waits for. Raises
    SupervisorError."""
    explained = explain_name(context, scene, name)
    held = f"; {explained.held_by}" if explained.held_by and explained.held_by.text != explained.why else ""
    awaited = explained.waits_for
    waits = "" if awaited is None or awaited.kind is Await.PERSON else f", waits for {awaited}"
    why = explained.why if explained.state is JobState.PENDING and explained.why else explained.reason
    return f"{explained.state.value}: {why}{waits}{held}"


# -- whether the registry is to be trusted ------------------------------------------------------------------------


@dataclass(frozen=True)
class Judgement:
    """Holds what the store says of the registry: why it is not to be trusted, or None, and whether its term
    is recorded. ``error`` is why the store can't be asked, or None."""

    distrust: str | None = None
    recorded: bool = True
    error: str | None = None


class EpochsInStore:
    """Asks the store what its epochs say of the registry, judged as the leader does.

    A caller that reads again and again keeps one: while /epoch stays as it is, the store is asked every
    ``ASK_EVERY_S``, so that a store that is down does not hold up each read.
    """

    def __init__(self, context: CommandContext) -> None:
        self._context = context
        self._last = Judgement()
        self._judged_mzxid = -1
        self._asked_at_s = 0.0

    def judge(self, epoch: Node) -> Judgement:
        """Returns what the store says of a registry with the node ``epoch`` at /epoch."""
        asked_ago_s = boottime_s() - self._asked_at_s
        if epoch.stat.mzxid != self._judged_mzxid or asked_ago_s >= ASK_EVERY_S:
            self._last = self._ask(epoch)
            self._judged_mzxid, self._asked_at_s = epoch.stat.mzxid, boottime_s()
        return self._last

    def _ask(self, epoch: Node) -> Judgement:
        """Asks the store. An election meanwhile looks like a restore: then it is judged once more, by the
        newly read /epoch."""
        marks, path = EpochMarks(self._context.store()), self._context.layout.epoch
        for _ in range(ELECTIONS_MAX):
            record = seen(EpochRecord, epoch, path)
            if not isinstance(record, Found) or not record.record.epoch:
                break
            number = record.record.epoch
            try:
                doubt = judge_epochs(marks, number, recent_terms(record.record))
                recorded = doubt is not None or marks.newest_epoch_above(number - 1) is not None
            except SupervisorError as error:
                return Judgement(error=str(error))
            now = self._context.zoo().read(path) if doubt is not None else epoch
            if now is None or now.stat.mzxid == epoch.stat.mzxid:
                return Judgement(doubt, recorded)
            epoch = now
        return Judgement()
