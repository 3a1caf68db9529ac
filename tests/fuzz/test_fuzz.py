"""A part of the fuzz, from fixed seeds; and its judge, which notices when what it rests on is taken away."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from supervisor.clients import run_dir
from supervisor.daemon.leader import scheduled_savepoints
from supervisor.daemon.loops.error_boundary import ErrorBoundary
from supervisor.model.seen import Found
from supervisor.plan import make
from supervisor.records import reading
from supervisor.savepoints import shelf
from supervisor.shim import reports
from tests.fuzz import host, shim
from tests.fuzz import savepoints as shelves
from tests.fuzz.registry import run_many

RUNS, SHIM_RUNS, HOST_RUNS, SHELF_RUNS = 250, 400, 45, 10
FEW = (97, 171, *range(30))
"""The first two are noticed without the edge of each item, and without a record's place."""


def test_what_is_odd_hurts_its_own_job_only(tmp_path: Path) -> None:
    assert run_many(range(RUNS), tmp_path) == []


def test_an_odd_run_directory_hurts_no_other_attempt_of_its_host(tmp_path: Path) -> None:
    assert host.run_many(range(HOST_RUNS), tmp_path) == []


def test_an_odd_savepoint_hurts_none_of_another_job(tmp_path: Path) -> None:
    assert shelves.run_many(range(SHELF_RUNS), tmp_path) == []


def test_no_shim_raises() -> None:
    assert [broken for seed in range(SHIM_RUNS) for broken in shim.run(seed)] == []


def _until_noticed(directory: Path) -> bool:
    return any(run_many(range(seed, seed + 1), directory) for seed in FEW)


def test_it_notices_a_loop_whose_items_are_not_caught(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(ErrorBoundary, "attempt", lambda self, item, work, otherwise, through=(): work())
    assert _until_noticed(tmp_path)


def test_it_notices_a_record_that_is_believed_in_anothers_place(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(
        reading, "_placed", lambda record, node, path: Found(record, node.stat.version, node.stat.mzxid)
    )
    assert _until_noticed(tmp_path)


def _nobody(*_any: Any, **_more: Any) -> Any:
    return None


@pytest.mark.parametrize(
    "defect",
    [
        lambda patch: patch.setattr(scheduled_savepoints, "wanted_of", _nobody),
        lambda patch: patch.setattr(make, "place", lambda candidates, *_more: ([], [])),
    ],
    ids=["skips-all", "places-none"],
)
def test_it_notices_that_the_others_are_not_seen_to(
    defect: Callable[[pytest.MonkeyPatch], None],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    defect(monkeypatch)
    assert _until_noticed(tmp_path)


def test_it_notices_a_word_of_the_driver_that_is_not_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reports, "_text", lambda value: value)
    monkeypatch.setattr(reports, "_number", lambda value: value)
    assert any(shim.run(seed) for seed in (79, 111, 116))


@pytest.mark.parametrize(
    "defect",
    [
        lambda patch: patch.setattr(run_dir, "is_deserted", lambda _directory: False),
        lambda patch: patch.setattr(run_dir, "directories", lambda directory: set(os.listdir(directory))),
    ],
    ids=["copies-are-believed", "links-are-followed"],
)
def test_it_notices_a_run_directory_that_is_believed(
    defect: Callable[[pytest.MonkeyPatch], Any],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    defect(monkeypatch)
    assert any(
        host.run_many(range(seed, seed + 1), tmp_path) for seed in (75, 85, 86, 89, 113, *range(HOST_RUNS))
    )


def test_it_notices_copies_that_are_said_to_lie_where_anothers_do(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(shelf, "_is_place_of", lambda *_any: True)
    assert any(shelves.run_many(range(seed, seed + 1), tmp_path) for seed in (6, 0, 25, 36))
