"""Reads the whole cluster as its leader sees it, for ``explain`` and for the sentence of a wait that ran out
of time.

It takes one full and fresh read and ages it, because a leader has seen the exits, assignments and last
renewals when they happened. The plan that is asked about it is the leader's own; nothing of it is carried
out.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from supervisor.clock import boottime_s, wall_s
from supervisor.coord.election import recent_terms
from supervisor.coord.epoch_marks import EpochMarks
from supervisor.coord.trust import judge_epochs
from supervisor.errors import NotFound, SupervisorError
from supervisor.model.records import EpochRecord, LeaderHint
from supervisor.model.seen import Found, Seen
from supervisor.model.state import JobState
from supervisor.model.transaction import Node
from supervisor.model.view import View
from supervisor.observe.listing import aged, changes_of, newest_results, read_job
from supervisor.observe.observer import Observer
from supervisor.operations.context import CommandContext
from supervisor.operations.names import no_job
from supervisor.plan.explain import Await, Explainer, Explanation, explain_ended, urgency
from supervisor.plan.make import Policy
from supervisor.records.layout import Layout
from supervisor.records.reading import seen
from supervisor.spec.site_policy import site_policy

ELECTIONS_MAX = 3
"""Limits how often the epochs are judged anew when a supervisor was elected meanwhile; then the view is shown
without the judgement."""


@dataclass(frozen=True)
class Scene:
    """Holds one such reading. ``store_error`` is why the store could not be asked whether this registry is to
    be trusted, or None."""

    view: View
    explainer: Explainer
    leader: str | None
    epoch: int | None
    store_error: str | None


def take_scene(context: CommandContext, *, ask_store: bool = True) -> Scene:
    """Takes a Scene. Raises Unreachable.

    With ``ask_store``, it checks the store for younger epochs, which costs a few seconds when the store is
    down.
    """
    zoo, layout = context.zoo(), context.layout
    view = Observer(zoo, layout, boottime_s, epoch=0).take_view(None)
    changed = changes_of(zoo, layout, view.rows.values())
    leader: Seen[LeaderHint] = seen(LeaderHint, zoo.read(layout.leader), layout.leader)
    node = zoo.read(layout.epoch)
    epoch: Seen[EpochRecord] = seen(EpochRecord, node, layout.epoch)
    number = epoch.record.epoch if isinstance(epoch, Found) else None
    store_error = None
    if isinstance(leader, Found):
        view = replace(view, distrust=leader.record.distrust)
    if ask_store and node is not None and view.distrust is None:
        view, store_error = _judged_by_store(context, view, node, layout)
    now_s = boottime_s()
    leads = (
        leader.record.supervisor if isinstance(leader, Found) else "somebody" if leader is not None else None
    )
    policy = Policy(context.settings.spark.submit_timeout_s, site_policy(context.settings.policy))
    explainer = Explainer(aged(view, now_s, wall_s(), changed), policy, now_s, leads)
    return Scene(view, explainer, leads, number, store_error)


def explain_name(context: CommandContext, scene: Scene, name: str) -> Explanation:
    """Explains one job. Raises NotFound for a name of which nothing is kept."""
    row = scene.view.rows.get(name)
    if row is not None and row.is_listed:
        return scene.explainer.job(name)
    job = read_job(context.zoo(), context.layout, name)
    if job is None:
        raise no_job(context.zoo(), context.layout, name)
    if job.ref is not None:
        raise NotFound(f"{name} was submitted at this very moment: ask again")
    return explain_ended(name, job.uid, job.result, row)


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


def _judged_by_store(
    context: CommandContext, view: View, epoch: Node, layout: Layout
) -> tuple[View, str | None]:
    """Returns the view with what the epochs in the store say of the registry, judged as the leader does, or
    why they can't be asked.

    An election while the store is asked looks like a restore: then it is judged once more, by the newly read
    /epoch.
    """
    marks = EpochMarks(context.store())
    for _ in range(ELECTIONS_MAX):
        record = seen(EpochRecord, epoch, layout.epoch)
        if not isinstance(record, Found) or not record.record.epoch:
            break
        number = record.record.epoch
        try:
            doubt = judge_epochs(marks, number, recent_terms(record.record))
            recorded = doubt is not None or marks.newest_epoch_above(number - 1) is not None
        except SupervisorError as error:
            return view, str(error)
        now = context.zoo().read(layout.epoch) if doubt is not None else epoch
        if now is None or now.stat.mzxid == epoch.stat.mzxid:
            return replace(view, distrust=doubt, recorded=recorded), None
        epoch = now
    return view, None
