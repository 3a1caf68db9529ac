"""A driver that has no executor of its cluster: how it is shown and explained, and what it holds of its host."""

from __future__ import annotations

from supervisor.model.load import Load, loads_of
from supervisor.model.records import ClusterWait, OwnState, Phase
from supervisor.model.state import JobState, shown_state
from supervisor.model.view import Row
from supervisor.plan.explain import Await, Explainer, Explanation
from supervisor.plan.make import Policy
from tests.unit.plan.rows import NOW_S, job, lease, own, row, view

SINCE = "2026-11-26T15:00:00.000Z"
WAIT = ClusterWait(cluster="prod", since=SINCE, says="no worker is alive")


def claimed(phase: Phase, wait: ClusterWait | None = WAIT, name: str = "j", uid: str = "u1") -> Row:
    return row(
        name=name,
        ref=job(name, uid),
        own=own(OwnState.CLAIMED, uid=uid),
        lease=lease(phase=phase, uid=uid, cluster_wait=wait),
    )


def explained(given: Row) -> Explanation:
    return Explainer(view(given), Policy(), NOW_S, "s1").job("j")


def test_one_that_starts() -> None:
    shown = shown_state(claimed(Phase.QUERY))
    text = f"waiting for executors of cluster prod since {SINCE}: no worker is alive"
    assert (shown.state, shown.reason, shown.trouble) == (
        JobState.STARTING,
        f"starting on host1: {text}",
        text,
    )
    says = explained(claimed(Phase.QUERY))
    assert says.waits_for is not None and says.waits_for.kind is Await.CLUSTER
    assert str(says.waits_for) == "executors of cluster prod (no worker is alive)"
    assert [remedy.command for remedy in says.remedies] == [
        None,
        "spark-supervisor doctor",
        "spark-supervisor suspend j",
        "spark-supervisor docs runbooks/cluster",
    ]
    assert says.step is None, "nothing is done about it"


def test_one_that_runs_is_running_still_and_no_more_fine() -> None:
    shown = shown_state(claimed(Phase.RUNNING))
    assert shown.state is JobState.RUNNING
    assert "waiting for executors of cluster prod" in shown.reason
    assert "waiting for executors of cluster prod" in (shown.trouble or "")
    says = explained(claimed(Phase.RUNNING))
    assert says.waits_for is not None and says.waits_for.kind is Await.CLUSTER
    assert not says.is_fine and says.step is None
    assert explained(claimed(Phase.RUNNING, None)).is_fine


def test_one_that_is_asked_to_stop_waits_for_nothing() -> None:
    assert shown_state(claimed(Phase.STOPPING)).state is JobState.STOPPING
    says = explained(claimed(Phase.STOPPING))
    assert says.waits_for is None or says.waits_for.kind is not Await.CLUSTER


def test_a_cluster_without_a_name_is_its_cluster() -> None:
    nameless = claimed(Phase.SESSION, ClusterWait(cluster="", since=""))
    assert shown_state(nameless).trouble == "waiting for executors of its cluster"


def test_thirty_that_wait_hold_no_starting_slot_but_their_memory_and_driver_slots() -> None:
    names = [(f"j{n}", f"u{n}") for n in range(30)]
    wait = [claimed(Phase.SESSION, name=name, uid=uid) for name, uid in names]
    start = [claimed(Phase.SESSION, None, name=name, uid=uid) for name, uid in names]
    assert loads_of(wait, NOW_S) == {"s1": Load(memory=3000, drivers=30, starting=0)}
    assert loads_of(start, NOW_S) == {"s1": Load(memory=3000, drivers=30, starting=30)}
