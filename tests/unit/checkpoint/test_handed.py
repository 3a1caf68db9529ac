"""Which batches may have been handed to a sink: what is overlooked here would be lost without a word."""

from __future__ import annotations

from pathlib import Path

import pytest

from supervisor.checkpoint.handed import PlannedQuery, newest_in_sink_log, planned_in
from supervisor.checkpoint.layout import parse_metadata, renamed_metadata
from supervisor.clients.store.tree import Tree, open_tree
from supervisor.model.sinks import SINK_LOG
from supervisor.spec.s3a import S3Access
from tests.unit.checkpoint.golden import unpack, write


def opened(place: Path) -> Tree:
    tree = open_tree(str(place), S3Access())
    assert tree is not None
    return tree


def id_of(checkpoint: Path) -> str:
    return parse_metadata((checkpoint / "metadata").read_bytes())


def test_the_newest_planned_batch_counts_though_it_is_not_committed(tmp_path: Path) -> None:
    checkpoint = unpack("hdfs-v1", tmp_path)
    assert not (checkpoint / "commits/13").exists()
    assert planned_in(opened(checkpoint)) == (PlannedQuery(id_of(checkpoint), (), 13),)


def test_a_query_is_known_by_every_id_that_it_had(tmp_path: Path) -> None:
    checkpoint = unpack("hdfs-v1", tmp_path)
    first, second, third = id_of(checkpoint), "1" * 8, "2" * 8
    for renamed in (second, third):
        write(checkpoint, "metadata", renamed_metadata((checkpoint / "metadata").read_bytes(), renamed))
    assert planned_in(opened(checkpoint)) == (PlannedQuery(third, (second, first), 13),)


def test_each_query_below_a_root_has_its_own_batch(tmp_path: Path) -> None:
    """One that has planned nothing has -1; one whose metadata can't be read is nobody's."""
    names = ("files", "hdfs-v1", "join")
    ids = {name: id_of(unpack(name, tmp_path / "ck")) for name in names}
    for entry in (tmp_path / "ck/files/offsets").iterdir():
        entry.unlink()
    found = {each.id: each.batch for each in planned_in(opened(tmp_path / "ck"))}
    assert (found[ids["files"]], found[ids["hdfs-v1"]]) == (-1, 13)
    for damaged in (b"{", None):
        write(tmp_path / "ck", "hdfs-v1/metadata", damaged) if damaged else (
            tmp_path / "ck/hdfs-v1/metadata"
        ).unlink()
        assert {each.id for each in planned_in(opened(tmp_path / "ck"))} == {ids["files"], ids["join"]}


@pytest.mark.parametrize(
    ("names", "newest"),
    [
        ([], None),
        (["0"], 0),
        (["0", "1", "10", "2"], 10),
        (["9.compact", "0", "8"], 9),  # Spark removes the entries before a compaction some time later
        (["9.compact", "10"], 10),
        (["9.compact", "9.compact.crc", ".10.3f1a.tmp", "_notes"], 9),
    ],
)
def test_the_newest_batch_in_the_log_of_a_file_sink(
    names: list[str], newest: int | None, tmp_path: Path
) -> None:
    (tmp_path / "part-00000.parquet").touch()
    for name in names:
        (tmp_path / SINK_LOG).mkdir(exist_ok=True)
        (tmp_path / SINK_LOG / name).write_text("v1")
    assert newest_in_sink_log(opened(tmp_path)) == newest
