"""``registry.bootstrap_cluster``: a root and a store that belong together, or a refusal (protocol §4, I10)."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from supervisor.clients.store.files import FileStore
from supervisor.errors import Conflict, Corrupt, Unreachable
from supervisor.records.layout import Layout
from supervisor.registry.blobs import Blobs, ClusterMark
from supervisor.registry.bootstrap_cluster import ClusterIdentity, bootstrap_or_check, check_known
from tests.fakes.zookeeper import MemoryZoo


class Site:
    """An empty ZooKeeper and an empty store."""

    def __init__(self, directory: Path) -> None:
        self.zoo = MemoryZoo()
        self.directory = directory
        self.blobs = Blobs(FileStore(directory))

    def identity(self, root: str = "/super/prod", name: str = "prod", store: str = "") -> ClusterIdentity:
        return ClusterIdentity(name, root, store or f"file://{self.directory}")

    def found(self, root: str = "/super/prod", **changes: str) -> str:
        identity = self.identity(root, **changes)
        return bootstrap_or_check(self.zoo.client(), Layout(root), self.blobs, identity).id


@pytest.fixture
def site(tmp_path: Path) -> Site:
    return Site(tmp_path / "store")


def test_bootstrap_creates_the_fixed_znodes_once(site: Site) -> None:
    first = site.found()
    writes = len(site.zoo.log)
    assert site.found() == first
    assert len(site.zoo.log) == writes == 1
    layout = Layout("/super/prod")
    assert {layout.version, layout.epoch, layout.doorbell, *layout.persistent_parents()} <= set(
        site.zoo.tree()
    )
    assert site.blobs.read_cluster() is not None


def test_looking_founds_nothing(site: Site) -> None:
    assert check_known(site.zoo.client(), Layout("/super/prod"), site.identity()) is None
    assert site.zoo.tree() == {}


def test_a_crash_between_zookeeper_and_store_is_completed(site: Site) -> None:
    first = site.found()
    (site.directory / "cluster.json").unlink()
    site.blobs = Blobs(FileStore(site.directory))
    assert site.found() == first
    mark = site.blobs.read_cluster()
    assert mark is not None and mark.id == first


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"store": "file:///elsewhere"}, "whose store is"),
        ({"name": "other"}, "belongs to cluster prod, not other"),
    ],
)
def test_another_cluster_at_the_root(site: Site, changes: dict[str, str], named: str) -> None:
    site.found()
    with pytest.raises(Conflict, match=named):
        site.found(**changes)
    with pytest.raises(Conflict, match=named):
        check_known(site.zoo.client(), Layout("/super/prod"), site.identity(**changes))


def test_a_store_of_another_root(site: Site) -> None:
    site.found()
    with pytest.raises(Conflict, match="belongs to the cluster at root /super/prod"):
        site.found("/super/test")
    assert not any(path.startswith("/super/test") for path in site.zoo.tree())


def test_a_store_of_another_cluster_though_the_root_is_founded(site: Site, tmp_path: Path) -> None:
    site.found()
    other = Site(tmp_path / "store")
    other.blobs = Blobs(FileStore(tmp_path / "elsewhere"))
    other.found()
    other.blobs = site.blobs
    with pytest.raises(Conflict, match="belongs to cluster"):
        other.found()


def test_an_empty_zookeeper_with_a_marked_store_has_lost_its_data(site: Site) -> None:
    site.found()
    site.zoo = MemoryZoo()
    with pytest.raises(Conflict, match="has lost its data"):
        site.found()
    assert site.zoo.tree() == {}


@pytest.mark.parametrize("path", ["version", "cluster"])
def test_a_layout_or_record_that_is_not_understood(site: Site, path: str) -> None:
    site.found()
    site.zoo.put(f"/super/prod/{path}", b"99")
    with pytest.raises((Conflict, Corrupt)):
        site.found()


def test_a_root_made_by_hand_is_used_and_one_with_other_things_in_it_is_not(site: Site) -> None:
    site.zoo.put("/super/prod", b"")
    assert site.found()
    site.zoo.put("/super/other/jobs", b"")
    site.directory = site.directory.with_name("second")
    site.blobs = Blobs(FileStore(site.directory))
    with pytest.raises(Conflict, match="exists but is no cluster"):
        site.found("/super/other")


def raced(site: Site, other: Callable[[], object]) -> str:
    client = site.zoo.client()
    client.before_next_commit(other)
    return bootstrap_or_check(client, Layout("/super/prod"), site.blobs, site.identity()).id


def test_of_two_founders_the_second_takes_what_the_first_founded(site: Site) -> None:
    ids: list[str] = []
    assert raced(site, lambda: ids.append(site.found())) == ids[0]


def test_a_neighbour_that_makes_the_shared_parent_does_not_disturb(site: Site, tmp_path: Path) -> None:
    neighbour = Site(tmp_path / "neighbour")
    neighbour.zoo = site.zoo
    assert raced(site, lambda: neighbour.found("/super/test"))


def test_without_the_store_nothing_is_founded(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse() -> None:
        raise Unreachable("down")

    monkeypatch.setattr(site.blobs, "read_cluster", refuse)
    with pytest.raises(Unreachable):
        site.found()
    assert site.zoo.tree() == {}


def test_a_cluster_founded_between_our_two_looks_is_no_loss_of_data(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two supervisors are started at once on nothing: ZooKeeper was still empty, the store is marked by now."""
    ids: list[str] = []
    look = site.blobs.read_cluster

    def after_the_other() -> ClusterMark | None:
        monkeypatch.setattr(site.blobs, "read_cluster", look)
        ids.append(site.found())
        return look()

    monkeypatch.setattr(site.blobs, "read_cluster", after_the_other)
    assert site.found() == ids[0]
