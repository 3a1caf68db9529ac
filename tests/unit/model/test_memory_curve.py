"""What one line says of the memory before an end."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from supervisor.model.memory_curve import AGES_S, GroupMemory, LargeProcess, curve, memory_line
from supervisor.model.records import DIAGNOSTICS_MEMORY_MAX_BYTES

GIB = 2**30


def test_the_line_has_process_limits_and_curve() -> None:
    java = LargeProcess(12, "java org.Main", 3 * GIB, 2 * GIB, "-Xmx3g", is_gone=True)
    driver = LargeProcess(10, "python3 app.py", 300 * 2**20, is_root=True)
    samples = [(1000.0 + 2 * n, GIB + n * 2**24) for n in range(61)]
    line = memory_line(
        [java, driver], samples, 1121.0, group=GroupMemory(4 * GIB, 4 * GIB - 2**20), requested=3 * GIB
    )
    assert line == (
        "largest: java org.Main (pid 12, gone, RSS 3.00 GiB, PSS 2.00 GiB, -Xmx3g); "
        "python3 app.py (pid 10, the driver, RSS 300 MiB); limits: cgroup 4.00 GiB (peak 4.00 GiB), resources.memory 3.00 GiB; "
        "memory of the tree: 1.00 GiB 121 s before, 1.47 GiB 61 s before, 1.70 GiB 31 s before, "
        "1.86 GiB 11 s before, 1.91 GiB 5 s before, 1.94 GiB 1 s before"
    )
    assert len(line) < DIAGNOSTICS_MEMORY_MAX_BYTES


def test_nothing_sampled_is_no_line() -> None:
    assert memory_line([], [], 10.0, group=GroupMemory(GIB), requested=GIB) == ""


@given(st.lists(st.tuples(st.floats(0, 1000), st.integers(0, 2**40)), max_size=50), st.floats(1000, 2000))
def test_the_curve_is_short_and_in_order(samples: list[tuple[float, int]], ended_at_s: float) -> None:
    samples.sort()
    found = curve(samples, ended_at_s)
    ages = [age_s for age_s, _ in found]
    assert len(found) <= len(AGES_S) and ages == sorted(ages, reverse=True)
    assert not samples or found[-1] == (ended_at_s - samples[-1][0], samples[-1][1])
