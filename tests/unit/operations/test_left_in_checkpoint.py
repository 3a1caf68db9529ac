"""A planned batch that the sink has kept already is none that the code of before can run again."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import MagicMock

import pytest

from supervisor.checkpoint import delta_log
from supervisor.checkpoint.opening import open_checkpoint
from supervisor.clients.store.tree import Tree
from supervisor.errors import AccessDenied
from supervisor.model.checkpoint_expectation import SeenQuery
from supervisor.model.sinks import NamedSink, SeenSink
from supervisor.operations import left_in_checkpoint as left_in_checkpoint_module
from supervisor.operations.left_in_checkpoint import kept_by_sink
from supervisor.spec.s3a import S3Access

KNOWN = (SeenQuery("q", 6),)


def opened(location: str) -> Tree | None:
    return open_checkpoint(location, {}, S3Access())


def planned(tmp_path: Path, batch: int = 7) -> Tree:
    checkpoint = tmp_path / "ck"
    (checkpoint / "offsets").mkdir(parents=True)
    (checkpoint / "metadata").write_text(json.dumps({"id": "q"}))
    (checkpoint / "offsets" / str(batch)).write_text("v1\n{}\n1")
    tree = opened(str(checkpoint))
    assert tree is not None
    return tree


def sink(tmp_path: Path, *batches: str, kind: str = "file", query: str = "q") -> SeenSink:
    log = tmp_path / "out" / "_spark_metadata"
    log.mkdir(parents=True)
    for batch in batches:
        (log / batch).write_text("v1")
    return SeenSink(query, 6, NamedSink(kind, str(tmp_path / "out")))


@pytest.mark.parametrize("newest", ["7", "7.compact", "9"])
def test_a_file_sink_that_has_the_planned_batch_would_skip_it(newest: str, tmp_path: Path) -> None:
    there = sink(tmp_path, "6", newest)
    expected = f"batch 7 of query q is in the file sink {tmp_path}/out already, which would skip it"
    assert kept_by_sink(planned(tmp_path), KNOWN, [there], opened) == expected


def test_a_sink_without_the_planned_batch_takes_it(tmp_path: Path) -> None:
    assert kept_by_sink(planned(tmp_path), KNOWN, [sink(tmp_path, "5", "6")], opened) == ""


def test_a_batch_that_was_committed_is_in_the_sink_by_right(tmp_path: Path) -> None:
    assert kept_by_sink(planned(tmp_path, 6), KNOWN, [sink(tmp_path, "6")], opened) == ""


@pytest.mark.parametrize("query,kind", [("other", "file"), ("q", "foreachBatch"), ("q", "kafka")])
def test_the_sink_of_another_query_or_one_without_a_log_says_nothing(
    query: str, kind: str, tmp_path: Path
) -> None:
    assert kept_by_sink(planned(tmp_path), KNOWN, [sink(tmp_path, "7", kind=kind, query=query)], opened) == ""


def test_a_sink_that_cannot_be_read_is_not_known_to_have_kept_anything(tmp_path: Path) -> None:
    def refused(_location: str) -> Tree | None:
        raise AccessDenied("no")

    there, tree = sink(tmp_path, "7"), planned(tmp_path)
    assert kept_by_sink(tree, KNOWN, [there], refused) == ""
    assert kept_by_sink(tree, KNOWN, [there], lambda _location: None) == ""


def table(tmp_path: Path, *commits: tuple[str, int] | None, first: int = 0) -> SeenSink:
    """A Delta table whose commits are of these queries and batches; None: of no query."""
    log = tmp_path / "out" / "_delta_log"
    log.mkdir(parents=True)
    for number, commit in enumerate(commits, first):
        actions: list[dict[str, Any]] = [
            {"commitInfo": {"operation": "STREAMING UPDATE"}},
            {"add": {"path": "p"}},
        ]
        if commit is not None:
            actions.insert(1, {"txn": {"appId": commit[0], "version": commit[1], "lastUpdated": 1}})
        (log / f"{number:020d}.json").write_text("".join(f"{json.dumps(each)}\n" for each in actions))
        (log / f"{number:020d}.crc").write_text("{}")
    return SeenSink("q", 6, NamedSink("delta", str(tmp_path / "out")))


def test_a_delta_table_that_has_the_planned_batch_would_skip_it(tmp_path: Path) -> None:
    there = table(tmp_path, ("q", 6), ("q", 7), None, ("other", 9))
    expected = f"batch 7 of query q is in the Delta table {tmp_path}/out already, which would skip it"
    assert kept_by_sink(planned(tmp_path), KNOWN, [there], opened) == expected


@pytest.mark.parametrize("commits", [[("q", 6)], [("q", 5), None, ("other", 7)]])
def test_a_delta_table_without_the_planned_batch_takes_it(
    commits: list[tuple[str, int] | None], tmp_path: Path
) -> None:
    assert kept_by_sink(planned(tmp_path), KNOWN, [table(tmp_path, *commits)], opened) == ""


def test_a_delta_table_whose_newest_commits_do_not_tell_it_may_have_the_batch(tmp_path: Path) -> None:
    there, tree = table(tmp_path, ("other", 3), None), planned(tmp_path)
    found = kept_by_sink(tree, KNOWN, [there], opened)
    assert "can't be told: none of the newest commits" in found and "would skip it" in found
    commit = tmp_path / "out" / "_delta_log" / f"{2:020d}.json"
    commit.write_text('{"txn":{"appId":"q","version":')
    assert "is unreadable" in kept_by_sink(tree, KNOWN, [there], opened)
    commit.write_text('{"txn":{"appId":"q","version":6}}')
    assert kept_by_sink(tree, KNOWN, [there], opened) == ""
    staged = tmp_path / "out" / "_delta_log" / "_staged_commits"
    staged.mkdir()
    (staged / f"{3:020d}.uuid.json").write_text("{}")
    assert "not in its log alone" in kept_by_sink(tree, KNOWN, [there], opened)


def test_a_place_without_a_delta_log_is_not_known_to_have_kept_anything(tmp_path: Path) -> None:
    """A directory of this host may be another one on the job's host."""
    (tmp_path / "out").mkdir()
    there = SeenSink("q", 6, NamedSink("delta", str(tmp_path / "out")))
    assert kept_by_sink(planned(tmp_path), KNOWN, [there], opened) == ""


def test_of_a_long_delta_log_the_end_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(delta_log, "BEFORE_CHECKPOINT", 2)
    monkeypatch.setattr(delta_log, "ENTRIES_MAX", 12)
    commits: list[tuple[str, int] | None] = [("q", number) for number in range(8)]
    there, tree = table(tmp_path, *commits), planned(tmp_path)
    assert "not in its log alone" in kept_by_sink(tree, KNOWN, [there], opened)
    last = tmp_path / "out" / "_delta_log" / "_last_checkpoint"
    last.write_text('{"version":6,"size":9}')
    assert "is in the Delta table" in kept_by_sink(tree, KNOWN, [there], opened)
    monkeypatch.setattr(delta_log, "COMMITS_MAX", 1)
    (last.parent / f"{8:020d}.json").write_text("{}")
    assert "none of the newest commits" in kept_by_sink(tree, KNOWN, [there], opened)


def test_what_the_sink_has_kept_counts_as_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The checkpoint alone is clean: the leader's question takes both."""
    planned(tmp_path)
    monkeypatch.setattr(
        left_in_checkpoint_module, "from_canonical", lambda _data, _key: SimpleNamespace(conf={})
    )
    monkeypatch.setattr(left_in_checkpoint_module, "left_behind", lambda _tree, _known: "")
    monkeypatch.setattr(left_in_checkpoint_module, "access_of_store", lambda _store, _endpoints: S3Access())
    anything: Any = MagicMock()
    job: Any = SimpleNamespace(spec=MagicMock(), terms=SimpleNamespace(checkpoint=str(tmp_path / "ck")))
    there = sink(tmp_path, "7")
    ask = left_in_checkpoint_module.left_in_checkpoint
    assert "is in the file sink" in ask(anything, anything, job, KNOWN, [there])
    assert ask(anything, anything, job, KNOWN, []) == ""
