"""Hosts are marked by what their drivers take beside what they offer."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from supervisor.model.host_use import HostMark, host_use
from tests.unit.shim.world import USE

GIB = 1024**3


def taking(peak: int) -> object:
    return replace(USE, memory=peak // 2, memory_max=peak, cores=0.5)


@pytest.mark.parametrize(
    ("drivers", "mark"),
    [
        ([], HostMark.IDLE),
        ([(4 * GIB, taking(GIB))], HostMark.IDLE),
        ([(4 * GIB, taking(2 * GIB))], None),
        ([(4 * GIB, None)], None),
        ([(8 * GIB, taking(GIB)), (3 * GIB, taking(GIB))], HostMark.OVER_COMMITTED),
        ([(4 * GIB, taking(6 * GIB)), (4 * GIB, taking(5 * GIB))], HostMark.OVER_COMMITTED),
    ],
)
def test_the_mark(drivers: list[tuple[int, object]], mark: HostMark | None) -> None:
    used = host_use("h", 10 * GIB, 20, drivers)  # type: ignore[arg-type]
    assert used.mark is mark


def test_a_driver_that_was_not_measured_counts_with_its_reservation() -> None:
    used = host_use("h", 10 * GIB, 20, [(4 * GIB, taking(2 * GIB)), (3 * GIB, None)])  # type: ignore[list-item]
    assert (used.reserved, used.used, used.peaks) == (7 * GIB, GIB, 5 * GIB)
    assert (used.cores, used.drivers, used.unmeasured) == (0.5, 2, 1)


@given(st.integers(0, 2**50), st.lists(st.tuples(st.integers(0, 2**40), st.integers(0, 2**40)), max_size=20))
def test_no_host_is_idle_and_over_committed_and_more_drivers_never_take_less(
    offered: int, sizes: list[tuple[int, int]]
) -> None:
    drivers = [(reserved, taking(peak)) for reserved, peak in sizes]
    used = host_use("h", offered, 20, drivers)  # type: ignore[arg-type]
    assert (used.mark is HostMark.OVER_COMMITTED) is (max(used.reserved, used.peaks) > offered)
    fewer = host_use("h", offered, 20, drivers[:-1])  # type: ignore[arg-type]
    assert fewer.peaks <= used.peaks and fewer.reserved <= used.reserved
