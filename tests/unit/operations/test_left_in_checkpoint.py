"""A planned batch that the sink has kept already is none that the code of before can run again."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import MagicMock

import pytest

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
