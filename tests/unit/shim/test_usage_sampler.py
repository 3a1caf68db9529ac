"""The sampler keeps bounded numbers of whatever it reads, and what it publishes never changes under who reads it."""

from __future__ import annotations

from supervisor.clients.tree_usage import MemorySource, TreeReading
from supervisor.shim.usage_sampler import CPU_OVER_S, RECENT, UsageSampler

MIB = 1024**2


class Tree:
    """Is a tree whose readings are given, with its own clock."""

    def __init__(self) -> None:
        self.at_s = 1000.0
        self.reading: TreeReading | None = None
        self.sampler = UsageSampler(lambda: self.reading, lambda: self.at_s)

    def sample(self, memory: int, cpu_s: float = 0.0, after_s: float = 2.0) -> None:
        self.at_s += after_s
        self.reading = TreeReading(memory, cpu_s, MemorySource.CGROUP)
        self.sampler.sample()


def test_it_publishes_what_the_samples_are() -> None:
    tree = Tree()
    for number in range(100):
        tree.sample((100 + number) * MIB, cpu_s=7.0 + number)
    use = tree.sampler.newest
    assert use is not None
    assert (use.samples, use.source, use.memory) == (100, "cgroup", 199 * MIB)
    assert use.memory_max == 199 * MIB
    assert abs(use.memory_p50 - 149 * MIB) < 0.05 * 149 * MIB
    assert abs(use.memory_p95 - 194 * MIB) < 0.05 * 194 * MIB
    assert (use.cpu_s, use.observed_s) == (99.0, 198.0)
    assert use.cores == 0.5 and use.cores_p95 is not None and abs(use.cores_p95 - 0.5) < 0.025


def test_the_latest_samples_are_kept_as_they_are_and_no_more_than_fit() -> None:
    tree = Tree()
    for number in range(RECENT + 5):
        tree.sample(number)
    kept = tree.sampler.recent
    assert len(kept) == RECENT
    assert (kept[-1].memory_bytes, kept[-1].at_s) == (RECENT + 4, tree.at_s)
    tree.sample(0)
    assert kept[-1].memory_bytes == RECENT + 4


def test_processor_time_never_goes_back() -> None:
    """A child that nobody waited for has ended, and its time is gone from /proc."""
    tree = Tree()
    for cpu_s in (10.0, 30.0, 12.0, 31.0):
        tree.sample(MIB, cpu_s=cpu_s, after_s=CPU_OVER_S)
    use = tree.sampler.newest
    assert use is not None
    assert (use.cpu_s, use.cores) == (21.0, 0.1)


def test_nothing_is_known_of_a_tree_that_cannot_be_read_nor_of_one_that_is_being_killed() -> None:
    tree = Tree()
    tree.sampler.sample()
    assert tree.sampler.newest is None and tree.sampler.recent == ()
    tree.sample(MIB)
    before = tree.sampler.newest
    tree.sampler.stop()
    tree.sample(2 * MIB)
    assert tree.sampler.newest is before
