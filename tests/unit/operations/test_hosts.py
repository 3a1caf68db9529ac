"""Cordons and drains as writes: guarded by what was read, settled when the reply is lost, and never undone by a late one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from supervisor.errors import GuardFailed
from supervisor.model.records import Cordon
from supervisor.model.seen import Found
from supervisor.operations.hosts import HostDid, HostOperations
from supervisor.registry import operator_writes
from tests.fakes.registry_bench import Bench

LOST: dict[str, Callable[[Any], None]] = {
    "applied": lambda client: client.lose_next_reply(),
    "not applied": lambda client: client.fail_next_commit_before(),
}


@pytest.fixture
def bench() -> Bench:
    bench = Bench()
    bench.join("s1")
    return bench


def found(bench: Bench) -> Found[Cordon]:
    record = bench.record(Cordon, bench.layout.host("s1"))
    assert isinstance(record, Found)
    return record


@pytest.mark.parametrize("spoil", LOST.values(), ids=LOST)
def test_a_lost_reply_is_resolved(bench: Bench, spoil: Callable[[Any], None]) -> None:
    sessions = bench.sessions()
    operator = HostOperations(sessions, bench.layout, "ops@here")
    for command, did in (
        (lambda: operator.cordon("s1", "why"), HostDid.CORDONED),
        (lambda: operator.drain("s1", 3, ""), HostDid.DRAINING),
        (lambda: operator.uncordon("s1"), HostDid.UNCORDONED),
    ):
        spoil(sessions.zoo())
        done = command()
        assert done.did is did and done.record == found(bench).record
    assert found(bench).version == 2


def test_the_first_cordon_of_all_makes_the_parent_also_if_two_come_at_once(bench: Bench) -> None:
    """A root that the version before has founded has no /hosts."""
    bench.join("s2")
    assert not bench.has(bench.layout.hosts)
    sessions = bench.sessions()
    other = HostOperations(bench.sessions(), bench.layout, "ops@there")
    sessions.zoo().before_next_commit(lambda: other.cordon("s2", ""))
    assert HostOperations(sessions, bench.layout, "ops@here").cordon("s1", "").did is HostDid.CORDONED
    assert bench.has(bench.layout.host("s1")) and bench.has(bench.layout.host("s2"))


def test_a_cordon_that_arrives_late_undoes_nothing() -> None:
    """Its outcome was unknown, and another operator has uncordoned and cordoned since: the version has moved on."""
    bench = Bench()
    bench.join("s1")
    operator = HostOperations(bench.sessions(), bench.layout, "ops@here")
    operator.cordon("s1", "first")
    before = found(bench)
    late = operator_writes.cordon(bench.layout, replace(before.record, cordoned=False, op="late"), before)
    operator.uncordon("s1")
    operator.cordon("s1", "second")
    with pytest.raises(GuardFailed):
        bench.zoo.client().commit(late)
    assert found(bench).record.why == "second"


def test_a_drain_that_another_operator_ends_meanwhile_is_read_again(bench: Bench) -> None:
    operator = HostOperations(bench.sessions(), bench.layout, "ops@here")
    first = operator.drain("s1", 2, "").record
    sessions = bench.sessions()
    sessions.zoo().before_next_commit(lambda: operator.uncordon("s1"))
    again = HostOperations(sessions, bench.layout, "ops@there").drain("s1", 4, "").record
    assert first is not None and again is not None and again.drain not in ("", first.drain)
