"""Samples the memory and the processor time of the driver's tree, in a thread of the shim that nothing waits for.

Each sample is counted in distributions of bounded size (``model.distribution``). What they say is a new immutable value
after each sample: the runner takes the newest one without a lock, so that a reading of /proc that hangs delays no renewal.
``recent`` has the latest samples as they are: the curve before an end.

A sample of a cgroup is three small files. Without one all processes of the host are passed over, which costs up to some
tens of milliseconds on a crowded host: the pause is ``PAUSE_FACTOR`` times what the reading took at least, so that
sampling takes no more than half a percent of a processor.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Final, NamedTuple

from supervisor.clients.tree_usage import TreeReading
from supervisor.clock import boottime_s
from supervisor.model.distribution import Distribution
from supervisor.model.usage import ResourceUse

PERIOD_S: Final = 2.0
PAUSE_FACTOR: Final = 200.0
PAUSE_MAX_S: Final = 60.0
RECENT: Final = 180
"""So many samples are kept as they are: those of six minutes, at one in two seconds."""
CPU_OVER_S: Final = 10.0
"""The processor time is counted over intervals of this length at least: clock ticks of 10 ms blur shorter ones."""
MILLI: Final = 1000


class MemorySample(NamedTuple):
    """Holds the memory of the tree at an instant of BOOTTIME."""

    at_s: float
    memory_bytes: int


class CpuReading(NamedTuple):
    """Holds the processor time that the tree had taken at an instant of BOOTTIME."""

    at_s: float
    cpu_s: float


class UsageSampler(threading.Thread):
    """Samples from its start until ``stop``. ``read`` returns one reading, or None; it may take as long as it likes."""

    def __init__(
        self, read: Callable[[], TreeReading | None], now_s: Callable[[], float] = boottime_s
    ) -> None:
        super().__init__(name="usage", daemon=True)
        self._read = read
        self._now_s = now_s
        self._memory, self._milli_cores = Distribution(), Distribution()
        self._first: CpuReading | None = None
        self._before = self._interval = CpuReading(0.0, 0.0)
        self._cores: float | None = None
        self._stopped = False
        self.newest: ResourceUse | None = None
        self.recent: tuple[MemorySample, ...] = ()

    def run(self) -> None:
        while not self._stopped:
            began_at_s = time.monotonic()
            self.sample()
            took_s = time.monotonic() - began_at_s
            time.sleep(min(PAUSE_MAX_S, max(PERIOD_S, PAUSE_FACTOR * took_s)))

    def stop(self) -> None:
        """Makes this the end: what is read later counts no more, for a tree that is being killed is not at work."""
        self._stopped = True

    def sample(self) -> None:
        """Takes one sample, and publishes what is known then."""
        reading = self._read()
        if reading is None or self._stopped:
            return
        at_s = self._now_s()
        self._memory.add(reading.memory_bytes)
        self._count_cpu(at_s, reading.cpu_s)
        self.recent = (*self.recent, MemorySample(at_s, reading.memory_bytes))[-RECENT:]
        assert self._first is not None
        self.newest = ResourceUse(
            source=reading.source.value,
            samples=self._memory.total,
            observed_s=round(at_s - self._first.at_s, 1),
            memory=reading.memory_bytes,
            memory_p50=round(self._memory.quantile(0.5)),
            memory_p95=round(self._memory.quantile(0.95)),
            memory_p99=round(self._memory.quantile(0.99)),
            memory_max=round(self._memory.largest),
            cpu_s=round(max(0.0, self._before.cpu_s - self._first.cpu_s), 2),
            cores=self._cores,
            cores_p95=round(self._milli_cores.quantile(0.95) / MILLI, 3) if self._milli_cores.total else None,
        )

    def _count_cpu(self, at_s: float, cpu_s: float) -> None:
        """Counts the processors that were busy since the interval began. The time never goes back: a process that has
        ended without being waited for takes its time along."""
        if self._first is None:
            self._first = self._before = self._interval = CpuReading(at_s, cpu_s)
            return
        self._before = CpuReading(at_s, max(cpu_s, self._before.cpu_s))
        interval_s = at_s - self._interval.at_s
        if interval_s >= CPU_OVER_S:
            self._cores = round((self._before.cpu_s - self._interval.cpu_s) / interval_s, 3)
            self._milli_cores.add(self._cores * MILLI)
            self._interval = self._before
