"""The table at the end of a run: which files take the time."""

from __future__ import annotations

from types import SimpleNamespace

from tests.conftest import slowest_files


def report(nodeid: str, duration: float) -> SimpleNamespace:
    return SimpleNamespace(nodeid=nodeid, duration=duration)


def test_set_up_counts_for_its_file_and_each_test_once() -> None:
    reports = [
        report("a.py::one", 3.0),
        report("a.py::one", 1.0),
        report("a.py::two", 1.0),
        report("b.py::one", 9.0),
    ]
    assert [line.split() for line in slowest_files(reports, 2)] == [
        ["9.0", "s", "1", "b.py"],
        ["5.0", "s", "2", "a.py"],
    ]
    assert len(slowest_files(reports, 1)) == 1
