"""Which leases a pass reads when there are too many to read all."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import pytest

from supervisor.model.records import BlobRef, Lease, Pause, Preparation, PrepareLevel
from supervisor.model.seen import Found
from supervisor.model.state import shown_state
from supervisor.model.transaction import Reads
from supervisor.model.view import View
from supervisor.observe import observer as module
from supervisor.observe.observer import Observer
from supervisor.plan.make import Policy, make_plan
from tests.fakes import zookeeper as fake
from tests.fakes.registry_bench import Bench


def read_at(view: View, name: str) -> float:
    seen_lease = view.rows[name].lease
    assert seen_lease is not None
    return seen_lease.read_sent_at_s


def test_a_short_lease_is_not_kept_waiting_by_long_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "LEASE_READS_PER_S", 0)
    now_s = 1000.0
    monkeypatch.setattr(fake, "boottime_s", lambda: now_s)
    bench = Bench()
    for name, lease_s in (("a", 300.0), ("b", 300.0), ("c", 6.0)):
        uid = bench.submit(name).uid
        bench.run(name)
        lease = bench.record(Lease, bench.layout.lease(name))
        assert isinstance(lease, Found)
        bench.put(bench.layout.lease(name), replace(lease.record, lease_s=lease_s))
        bench.zoo.put(bench.layout.live(uid, 1), b"")
    observer = Observer(bench.zoo.client(), bench.layout, lambda: now_s, 1)
    first = observer.take_view(None)
    assert {read_at(first, name) for name in "abc"} == {1000.0}
    now_s = 1004.0
    later = observer.take_view(())
    assert read_at(later, "c") == 1004.0
    assert min(read_at(later, "a"), read_at(later, "b")) == 1000.0


class Interrupted:
    """A client; ``then`` is done once, right after the first reading of ``path`` or of what lies below it."""

    def __init__(self, zoo: fake.MemoryClient, path: str, then: Callable[[], object]) -> None:
        self._zoo = zoo
        self._path = path
        self._then: Callable[[], object] | None = then

    def __getattr__(self, name: str) -> Any:
        return getattr(self._zoo, name)

    def children(self, path: str) -> tuple[str, ...] | None:
        found = self._zoo.children(path)
        self._interrupt(path)
        return found

    def read_many(self, paths: Sequence[str]) -> Reads:
        found = self._zoo.read_many(paths)
        for path in paths:
            self._interrupt(path)
        return found

    def _interrupt(self, path: str) -> None:
        if self._then is not None and path.startswith(self._path):
            then, self._then = self._then, None
            then()


@pytest.mark.parametrize("place", ["jobs", "owns", "results", "leases"])
def test_a_cancel_in_the_midst_of_a_full_reading_alarms_nobody(place: str) -> None:
    """Found by chaos: results listed before the ownership was read showed a draining attempt that nobody had cancelled."""
    bench = Bench()
    bench.submit("job")
    bench.run("job")
    zoo = Interrupted(
        bench.zoo.client(), getattr(bench.layout, place), lambda: bench.commands().cancel("job")
    )
    view = Observer(zoo, bench.layout, lambda: 1000.0, 1).take_view(None)
    assert make_plan(view, Policy(), 1000.0).alarms == ()


class OneByOne(Interrupted):
    """Reads the paths of one request one after the other, as a server may; a submit comes between the first two."""

    def read_many(self, paths: Sequence[str]) -> Reads:
        nodes = []
        for path in paths:
            nodes.append(self._zoo.read(path))
            self._interrupt(path)
        now_s = fake.boottime_s()
        return Reads(tuple(nodes), now_s, now_s)


@pytest.mark.parametrize("place", ["jobs", "owns"])
def test_a_submit_in_the_midst_of_reading_a_name_shows_no_job_without_ownership(place: str) -> None:
    """Both are created by one multi, and /own stays: a reference that was read before has one. An alarm would wake somebody."""
    bench = Bench()
    bench.submit("other")
    zoo = OneByOne(bench.zoo.client(), f"{getattr(bench.layout, place)}/job", lambda: bench.submit("job"))
    observer = Observer(zoo, bench.layout, lambda: 1000.0, 1)
    observer.take_view(None)
    view = observer.take_view(("job",))
    assert make_plan(view, Policy(), 1000.0).alarms == ()
    assert {shown_state(row).state.value for row in view.rows.values() if row.ref is not None} == {"pending"}


def test_the_time_of_a_request_for_a_prepared_driver_counts_from_the_end_of_a_pause(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """No host prepares one meanwhile: an update of which no driver could be ready was given up after a pause."""
    now_s = 1000.0
    monkeypatch.setattr(fake, "boottime_s", lambda: now_s)
    bench = Bench()
    bench.zoo.put(bench.layout.preparations, b"")
    bench.zoo.put(bench.layout.preparations_of("s1"), b"")
    spec = BlobRef(key="k", sha256="0", bytes=1)
    request = Preparation(
        name="j", uid="u", revision=1, spec=spec, level=PrepareLevel.SESSION, memory=1, why="", at="t"
    )
    bench.put(bench.layout.preparation("s1", "u", 1), request)
    observer = Observer(bench.zoo.client(), bench.layout, lambda: now_s, 1)

    def times() -> tuple[float, float]:
        (each,) = observer.take_view(()).preparations
        return round(now_s - each.first_seen_at_s), round(now_s - each.due_from_at_s)

    observer.take_view(None)
    now_s += 100
    assert times() == (100, 100)
    bench.put(bench.layout.pause, Pause(by="me", at="t", reason="", op="o"))
    now_s += 5_000
    assert times() == (5_100, 0)
    bench.zoo.remove(bench.layout.pause)
    now_s += 10
    assert times() == (5_110, 10)
    assert times() == (5_110, 10)
