"""What an attempt takes goes along with renewals that are made anyway, and is in its tombstone."""

from __future__ import annotations

import threading
from dataclasses import replace
from pathlib import Path

import pytest

from supervisor.clients.tree_usage import MemorySource, TreeReading
from supervisor.model.batch_time import KEPT, WARM_UP, TimedBatch
from supervisor.model.records import HISTORY_MAX, Cause, HistoryEntry, Lease, Ownership, OwnState, Progress
from supervisor.model.seen import Found
from supervisor.model.usage import AttemptUsage
from supervisor.records.codec import MAX_RECORD_BYTES, decode, encode
from supervisor.registry.attempt_writes import AttemptIdentity, Exit, tombstone
from supervisor.shim import queries
from supervisor.shim import state as shim
from supervisor.shim.state import Stage
from supervisor.shim.usage_sampler import UsageSampler
from tests.golden.sample_records import USAGE
from tests.unit.shim.test_runner import ROOT, made
from tests.unit.shim.world import CLAIM, ENTRY, LAYOUT, LEASE, OWN, USE, ShimWorld, running


def batch(rows: float = 100.0, ms: float = 500.0, query: str = "q") -> shim.Reported:
    return shim.Reported(
        "progress",
        Progress(query=query, trigger_interval_s=5.0),
        query=query,
        id=query,
        batch=TimedBatch(rows, ms, 10.0),
    )


def lease_of(world: ShimWorld) -> Lease:
    return decode(Lease, world.nodes[LEASE].data, LEASE)


def test_a_sample_asks_for_no_renewal_and_goes_along_with_the_next() -> None:
    world = running()
    before = world.nodes[LEASE].version
    for _ in range(5):
        world.deliver(shim.Sampled(USE))
    world.run()
    assert world.nodes[LEASE].version == before
    world.run(world.launch.lease_s / 2)
    assert lease_of(world).usage == AttemptUsage(resources=USE)


def test_batches_are_summed_up_without_the_first_and_the_latest_are_kept() -> None:
    world = running()
    for number in range(WARM_UP):
        world.deliver(batch(ms=90_000.0 + number))
    assert queries.used(world.state.life) == ()
    for _ in range(KEPT + 5):
        world.deliver(batch())
    (use,) = queries.used(world.state.life)
    assert (use.query, use.batches, use.batch_ms_max, use.trigger_s) == ("q", KEPT, 500.0, 5.0)


def test_a_batch_without_rows_says_nothing_of_the_others() -> None:
    world = running()
    for _ in range(WARM_UP + 2):
        world.deliver(batch())
    world.deliver(shim.Reported("progress", query="q", id="q", state_bytes=77))
    (use,) = queries.used(world.state.life)
    assert (use.batches, use.state_bytes) == (2, 77)


def test_the_queries_that_are_loaded_most_are_named() -> None:
    world = running()
    for _ in range(WARM_UP + 1):
        for query, ms in (("idle", 10.0), ("busy", 4000.0), ("middle", 2000.0)):
            world.deliver(batch(ms=ms, query=query))
    assert [use.query for use in queries.used(world.state.life)] == ["busy", "middle"]


def test_it_survives_the_attempt() -> None:
    world = running()
    for _ in range(WARM_UP + 1):
        world.deliver(batch())
    world.deliver(shim.Sampled(USE))
    world.driver = world.tree = False
    world.deliver(shim.Exited(1))
    world.deliver(shim.Sampled(replace(USE, memory=0)))
    world.deliver(shim.TreeSeen(True))
    world.run()
    assert world.stage() is Stage.DONE
    usage = world.own().usage
    assert usage is not None and usage.resources == USE, (
        "what is sampled while it is killed is not the attempt's"
    )
    assert [use.query for use in usage.queries] == ["q"]


@pytest.mark.parametrize("entries", [1, HISTORY_MAX])
def test_the_tombstone_gives_up_nothing_for_it(entries: int) -> None:
    own = Ownership(
        state=OwnState.CLAIMED,
        op="op",
        uid=ENTRY.uid,
        attempt=1,
        claim=CLAIM,
        history=tuple(
            HistoryEntry(at="2026-11-21T00:46:50.123Z", event="user_error", attempt=n, detail="d" * 117)
            for n in range(entries)
        ),
        earlier="e" * 300,
    )
    mine = AttemptIdentity("job", ENTRY.uid, 1, CLAIM)
    records = []
    for usage in (None, USAGE):
        ended = Exit(Cause.USER_ERROR, "r" * 300, usage=usage)
        transaction = tombstone(LAYOUT, Found(own, 8), mine, ended, "op2", "at")
        assert transaction is not None
        data = next(op.data for op in transaction.ops if op.path == OWN)  # type: ignore[union-attr]
        assert len(data) <= MAX_RECORD_BYTES
        records.append(decode(Ownership, data, OWN))
    without, with_usage = records
    last = replace(with_usage.history[-1], memory_max=0)
    assert replace(with_usage, usage=None, history=(*with_usage.history[:-1], last)) == without
    assert (with_usage.history[-1].memory_max == 1450 << 20) is (entries == 1)
    assert (with_usage.usage == USAGE) is (entries == 1)


def test_its_bytes_are_bounded() -> None:
    world = running()
    for _ in range(WARM_UP + KEPT):
        for query in range(8):
            world.deliver(batch(rows=1e15 / 3, ms=1e12 / 7, query=f"{query}" * 120))
    world.deliver(shim.Sampled(replace(USE, memory=2**60, memory_max=2**60, cpu_s=1e12 / 3)))
    world.run(world.launch.lease_s / 2)
    lease = lease_of(world)
    assert lease.usage is not None
    assert len(encode(lease)) - len(encode(replace(lease, usage=None))) <= 1000


def test_a_reading_that_hangs_holds_nothing_up(tmp_path: Path) -> None:
    """As /proc does while the kernel holds the driver's memory map: what is known is published on, and the exit is heard."""
    hangs, reads = threading.Event(), iter((TreeReading(100, 1.0, MemorySource.PSS),))

    def read() -> TreeReading | None:
        for reading in reads:
            return reading
        hangs.wait()
        return None

    with made(tmp_path) as (runner, ends, children):
        sampler = runner._sampler = UsageSampler(read)
        sampler.sample()
        threading.Thread(target=sampler.sample, daemon=True).start()
        (sampled,) = runner._sampled()
        assert isinstance(sampled, shim.Sampled) and sampled.use.memory == 100
        ends.write_and_end()
        children.ended[ROOT] = 0
        assert shim.Exited in {type(event) for event in runner._happened()}
        hangs.set()
