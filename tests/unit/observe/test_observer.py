"""Which leases a pass reads when there are too many to read all."""

from __future__ import annotations

from dataclasses import replace

import pytest

from supervisor.model.records import Lease
from supervisor.model.seen import Found
from supervisor.model.view import View
from supervisor.observe import observer as module
from supervisor.observe.observer import Observer
from tests.fakes import zookeeper as fake
from tests.fakes.offices import Bench


def read_at(view: View, name: str) -> float:
    sight = view.rows[name].lease
    assert sight is not None
    return sight.read_sent_s


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
