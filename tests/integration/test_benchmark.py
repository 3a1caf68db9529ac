"""The benchmark command still runs, part by part, with numbers too small to mean anything."""

from __future__ import annotations

from pathlib import Path

import pytest

from supervisor.demo.ensemble import EmbeddedEnsemble
from tests import benchmark, benchmark_fleet
from tests.testbed.ensembles import RevivedEnsemble
from tests.testbed.fleet import Fleet

FIGURES = [
    "submit, beside the store's own",
    "cancel (median)",
    "submit of 30 specs in one call",
    "apply of 6 specs, 2 changed",
    "idle ZooKeeper operations, no job",
    "idle ZooKeeper operations, 2 running jobs",
    "PSS of the leader",
    "PSS of shim + twin",
    "list of 30 jobs",
    "list of 300 jobs",
    "successor has acted, 3 jobs",
    "successor has acted, 30 jobs",
    "jobs touched by it",
]


def test_every_figure_is_told(
    embedded_ensemble: EmbeddedEnsemble, zk_root: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """On one fleet, in an order in which no part is in the way of the next."""
    order = ["latency", "apply", "submit", "idle", "list", "takeover"]
    assert sorted(order) == sorted(benchmark.PARTS)
    with Fleet(embedded_ensemble, zk_root, tmp_path) as fleet:
        for part in order:
            benchmark.PARTS[part](fleet, benchmark.QUICK)
    printed = capsys.readouterr().out
    assert [figure for figure in FIGURES if figure not in printed] == []


@pytest.mark.slow
def test_every_figure_of_a_fleet_is_told(tmp_path: Path) -> None:
    found = benchmark_fleet.Figures()
    with RevivedEnsemble(tmp_path / "zookeeper") as ensemble:
        benchmark_fleet.measure(ensemble, tmp_path / "fleet", benchmark_fleet.QUICK_FLEET, found)
    told = dict((what.strip(), figure) for _, what, figure, _ in found.rows)
    assert told["drivers started by it"] == "0.00", "a takeover touches nobody"
    assert len(told) == 25
