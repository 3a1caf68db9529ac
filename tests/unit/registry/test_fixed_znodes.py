"""A fixed znode that somebody removed by hand: what is lost for good stops the leader, the rest it makes anew (I10)."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from supervisor.clock import boottime_s
from supervisor.coord.election import RestoredRegistry, accept
from supervisor.errors import Conflict
from supervisor.model.records import Acceptance, Cluster, EpochRecord, OwnState
from supervisor.model.transaction import ANY_VERSION, Create, Delete, Transaction
from supervisor.observe.observer import Observer
from supervisor.records import codec
from supervisor.records.codec import encode
from supervisor.records.layout import Layout
from supervisor.records.reading import children_of
from supervisor.registry.checkpoint_claims import CheckpointClaims
from supervisor.registry.record_sweep import take_listing
from tests.fakes.registry_bench import Bench
from tests.unit.daemon.leader.test_controller import Rig

PARENTS: dict[str, Callable[[Layout], str]] = {
    "supervisors": lambda layout: layout.supervisors,
    "jobs": lambda layout: layout.jobs,
    "own": lambda layout: layout.owns,
    "assigned": lambda layout: layout.assigned,
    "lease": lambda layout: layout.leases,
    "live": lambda layout: layout.lives,
    "results": lambda layout: layout.results,
    "checkpoints": lambda layout: layout.checkpoints,
}
LASTING = ("jobs", "own", "results", "checkpoints")


def remove_all(bench: Bench, path: str) -> None:
    """As ``deleteall`` of ZooKeeper's own command line does."""
    for below in sorted(
        (each for each in bench.zoo.tree() if each == path or each.startswith(f"{path}/")), reverse=True
    ):
        bench.zoo.remove(below)


@pytest.fixture
def rig() -> Rig:
    return running_rig()


def running_rig() -> Rig:
    """Two jobs run, the leader has seen them."""
    rig = Rig()
    for name in ("a", "b"):
        rig.bench.submit(name)
    rig.done()
    for name in ("a", "b"):
        rig.bench.run(name)
    rig.done()
    return rig


@pytest.mark.parametrize("anew", [False, True], ids=["gone", "made anew"])
@pytest.mark.parametrize("full", [False, True], ids=["what the bell names", "everything is read"])
@pytest.mark.parametrize("parent", LASTING)
def test_nothing_is_done_to_a_registry_that_lost_what_nobody_can_tell_again(
    rig: Rig,
    parent: str,
    full: bool,
    anew: bool,
) -> None:
    """In one pass and in the next ones: of this leader, and of the next, for a new parent is not as old as the cluster."""
    path = PARENTS[parent](rig.bench.layout)
    rig.bench.zoo.put(rig.bench.layout.cluster, encode(Cluster(id="c", name="c", store="file:///nowhere")))
    bootstrapped_with(rig.bench)
    rig.done()
    remove_all(rig.bench, path)
    if anew:
        rig.bench.zoo.put(path, b"")
    controller = rig.controller
    controller._reread |= {"a", "b"}
    if full:
        controller._full_at_s = float("-inf")
    before = rig.bench.zoo.tree()
    for _ in range(3):
        done = controller.reconcile_once()
        assert not done.results and path in (done.view.distrust or "")
    assert rig.bench.zoo.tree() == before
    assert path in (controller._term.distrust or ""), (
        "savepoints, sweeper and remover stop too, and /leader says it"
    )
    again = Observer(rig.bench.zoo.client(), rig.bench.layout, boottime_s, 2).take_view(None)
    assert path in (again.distrust or "")


def bootstrapped_with(bench: Bench) -> None:
    """Give /cluster the czxid that the fixed znodes have, as a bootstrap does."""
    nodes = bench.zoo._tree.nodes
    nodes[bench.layout.cluster] = nodes[bench.layout.cluster]._replace(czxid=nodes[bench.layout.jobs].czxid)


@pytest.mark.parametrize("parent", sorted(set(PARENTS) - set(LASTING)))
def test_what_is_told_again_is_made_anew_by_the_leader(rig: Rig, parent: str) -> None:
    path = PARENTS[parent](rig.bench.layout)
    remove_all(rig.bench, path)
    first = rig.controller.reconcile_once()
    assert first.view.distrust is None and first.view.missing == (path,)
    assert rig.bench.has(path)
    for _ in range(3):
        assert not rig.done(), "no job is stopped or moved for it"
    assert {rig.bench.own(name).state for name in ("a", "b")} == {OwnState.CLAIMED}
    assert rig.controller.reconcile_once().view.missing == ()


def test_of_two_that_are_missing_none_is_made_anew(rig: Rig) -> None:
    """Who has removed more than one may have more in mind: first an operator looks."""
    remove_all(rig.bench, rig.bench.layout.leases)
    remove_all(rig.bench, rig.bench.layout.jobs)
    view = rig.controller.reconcile_once().view
    assert rig.bench.layout.jobs in (view.distrust or "") and not view.missing
    assert not rig.bench.has(rig.bench.layout.leases)


@pytest.mark.parametrize("parent", ["jobs", "own", "checkpoints", "lease"])
def test_a_submit_names_what_is_missing(parent: str) -> None:
    bench = Bench()
    bench.submit("a", checkpoint="s3://bkt/a")
    path = PARENTS[parent](bench.layout)
    remove_all(bench, path)
    if parent == "lease":
        bench.submit("b")  # which needs none
        return
    with pytest.raises(Conflict, match=f"{path} is missing"):
        bench.submit("b", checkpoint="s3://bkt/b")


def test_claims_and_leftovers_that_are_not_known_are_not_none() -> None:
    bench = Bench()
    remove_all(bench, bench.layout.checkpoints)
    zoo = bench.zoo.client()
    for read in (
        CheckpointClaims.load,
        take_listing,
        lambda zoo, layout: children_of(zoo, layout.checkpoints),
    ):
        with pytest.raises(Conflict, match="missing"):
            read(zoo, bench.layout)


def test_an_acceptance_makes_them_anew_and_ends_the_distrust() -> None:
    bench = Bench()
    layout = bench.layout
    bench.zoo.put(layout.cluster, encode(Cluster(id="c", name="c", store="file:///nowhere")))
    bootstrapped_with(bench)
    bench.put(layout.epoch, EpochRecord(epoch=1, supervisor="l1", op="op"))
    missing = tuple(PARENTS[name](layout) for name in ("jobs", "lease"))
    for path in missing:
        remove_all(bench, path)
    zoo = bench.zoo.client()
    cluster, epoch = zoo.read_many((layout.cluster, layout.epoch)).nodes
    assert cluster is not None and epoch is not None
    record = codec.decode(EpochRecord, epoch.data, layout.epoch)
    restored = RestoredRegistry(cluster, record, epoch.stat.version, None, missing)
    zoo.commit(
        accept(
            layout,
            restored,
            Acceptance(id="x", epoch=2, by="op", at="2026-01-01T00:00:00Z", wait_s=0.0, waited=True),
        )
    )
    view = Observer(zoo, layout, boottime_s, 2).take_view(None)
    assert view.distrust is None and view.missing == ()
    zoo.commit(Transaction("by hand", "x", (Delete(layout.jobs, ANY_VERSION),)))
    zoo.commit(Transaction("by hand", "y", (Create(layout.jobs, b""),)))
    assert Observer(zoo, layout, boottime_s, 2).take_view(None).distrust is not None, (
        "once more, after the acceptance"
    )
