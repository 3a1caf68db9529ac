"""A look at the whole cluster as its leader sees it, for ``explain`` and for the sentence of a wait that ran out of time.

One full and fresh read, aged: a leader has seen the exits, assignments and last renewals when they happened. The plan
that is asked about it is the leader's own; nothing of it is carried out.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from supervisor.clock import boottime_s, wall_s
from supervisor.errors import NotFound, SupervisorError
from supervisor.model.records import EpochRecord, LeaderHint
from supervisor.model.seen import Found, Seen
from supervisor.model.state import JobState
from supervisor.model.view import View
from supervisor.observe.listing import aged, changes_of, newest_results, read_job
from supervisor.observe.observer import Observer
from supervisor.operations.context import CommandContext
from supervisor.operations.names import no_job
from supervisor.plan.explain import Await, Explainer, Explanation, explain_ended, urgency
from supervisor.plan.make import Policy
from supervisor.records.reading import seen
from supervisor.spec.site_policy import site_policy


@dataclass(frozen=True)
class Scene:
    """``store_error``: why the store could not be asked whether this registry is to be trusted, or None."""

    view: View
    explainer: Explainer
    leader: str | None
    epoch: int | None
    store_error: str | None


def take_scene(context: CommandContext, *, ask_store: bool = True) -> Scene:
    """``ask_store``: look there for younger epochs, which costs a few seconds when it is down. Raises Unreachable."""
    zoo, layout = context.zoo(), context.layout
    view = Observer(zoo, layout, boottime_s, epoch=0).take_view(None)
    changed = changes_of(zoo, layout, view.rows.values())
    leader: Seen[LeaderHint] = seen(LeaderHint, zoo.read(layout.leader), layout.leader)
    epoch: Seen[EpochRecord] = seen(EpochRecord, zoo.read(layout.epoch), layout.epoch)
    number = epoch.record.epoch if isinstance(epoch, Found) else None
    store_error = None
    if isinstance(leader, Found):
        view = replace(view, distrust=leader.record.distrust)
    if ask_store and number and view.distrust is None:
        view, store_error = _trusted(context, view, number)
    now_s = boottime_s()
    leads = (
        leader.record.supervisor if isinstance(leader, Found) else "somebody" if leader is not None else None
    )
    policy = Policy(context.settings.spark.submit_timeout_s, site_policy(context.settings.policy))
    explainer = Explainer(aged(view, now_s, wall_s(), changed), policy, now_s, leads)
    return Scene(view, explainer, leads, number, store_error)


def explain_name(context: CommandContext, scene: Scene, name: str) -> Explanation:
    """Raises NotFound for a name of which nothing is kept."""
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
    """Every registered job, and what failed for good; most urgent first."""
    failed = [
        explain_ended(name, uid, result, scene.view.rows.get(name))
        for name, uid, result in newest_results(context.zoo(), context.layout, scene.view)
    ]
    return sorted([*scene.explainer.everything(), *failed], key=urgency)


def why_not_yet(context: CommandContext, scene: Scene, name: str) -> str:
    """Half a sentence for a wait that has run out of time: what the job still waits for. Raises SupervisorError."""
    explained = explain_name(context, scene, name)
    held = f"; {explained.held_by}" if explained.held_by and explained.held_by.text != explained.why else ""
    awaited = explained.waits_for
    waits = "" if awaited is None or awaited.kind is Await.PERSON else f", waits for {awaited}"
    why = explained.why if explained.state is JobState.PENDING and explained.why else explained.reason
    return f"{explained.state.value}: {why}{waits}{held}"


def _trusted(context: CommandContext, view: View, epoch: int) -> tuple[View, str | None]:
    """What the store says of this registry, as ``coord.trust`` judges it; whose epochs they are only a leader can say."""
    try:
        newest = context.blobs().newest_epoch_above(epoch - 1)
    except SupervisorError as error:
        return view, str(error)
    if newest is None:
        return replace(view, recorded=False), None
    if newest > epoch:
        why = f"the store knows epoch {newest} and this registry is at {epoch}: ZooKeeper was restored to an older state"
        return replace(view, distrust=why), None
    return view, None
