"""A batch that was planned and not committed: when the code of before can run it, and when nobody can say so."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from supervisor.checkpoint import planned_batch
from supervisor.checkpoint.layout import parse_metadata
from supervisor.checkpoint.planned_batch import why_not_replayed
from supervisor.checkpoint.source_identity import directories_of, source_identity
from supervisor.clients.store.tree import open_tree
from supervisor.model.checkpoint_expectation import SeenQuery
from supervisor.spec.s3a import S3Access
from tests.unit.checkpoint.golden import unpack, without, write

BEFORE: dict[str, int] = {
    "hdfs-v1": 12,
    "rocksdb-v1": 4,
    "rocksdb-v1-changelog": 4,
    "rocksdb-v2": 4,
    "join": 3,
    "files": 1,
}
"""The last committed batch of each golden checkpoint; in all of them the next one was planned."""


def opened(kind: str, tmp_path: Path) -> Path:
    checkpoint = unpack(kind, tmp_path)
    without(checkpoint, "commits/2") if kind == "files" else None
    return checkpoint


def why(checkpoint: Path, batch: int, planned: int | None = None) -> str:
    tree = open_tree(str(checkpoint), S3Access())
    assert tree is not None
    query = SeenQuery(parse_metadata((checkpoint / "metadata").read_bytes()), batch)
    return why_not_replayed(tree, "", query, batch + 1 if planned is None else planned).replace(query.id, "Q")


def plan(checkpoint: Path, batch: int) -> tuple[str, dict[str, object], list[str]]:
    version, metadata, *sources = (checkpoint / "offsets" / str(batch)).read_text().split("\n")
    return version, json.loads(metadata), sources


def replan(checkpoint: Path, batch: int, change: Callable[[dict[str, object], list[str]], object]) -> None:
    version, metadata, sources = plan(checkpoint, batch)
    change(metadata, sources)
    write(checkpoint, f"offsets/{batch}", "\n".join([version, json.dumps(metadata), *sources]).encode())


@pytest.mark.parametrize("kind", BEFORE)
def test_what_any_crash_leaves_is_run_by_the_code_of_before(kind: str, tmp_path: Path) -> None:
    """Whatever the state is made of, and whether the batch has written its state already or not."""
    checkpoint, batch = opened(kind, tmp_path), BEFORE[kind]
    assert why(checkpoint, batch) == ""
    for number in (batch + 2,):
        for each in checkpoint.glob(f"state/*/*/**/{number - 1}.*"):
            each.with_name(each.name.replace(str(number - 1), str(number), 1)).write_bytes(b"of the batch")
    assert why(checkpoint, batch) == ""


def pinned(metadata: dict[str, object], name: str, value: str) -> None:
    conf = metadata["conf"]
    assert isinstance(conf, dict)
    conf[name] = value


CHANGED: list[tuple[Callable[[dict[str, object], list[str]], object], str]] = [
    (
        lambda body, _: pinned(body, "spark.sql.shuffle.partitions", "7"),
        "batch 13 of query Q was planned with another spark.sql.shuffle.partitions (7, before 2)",
    ),
    (
        lambda body, _: pinned(body, "spark.sql.streaming.new", "x"),
        "another spark.sql.streaming.new (x, before none)",
    ),
    (lambda _, sources: sources.append("5"), "batch 13 of query Q was planned for 2 sources, before 1"),
    (
        lambda _, sources: sources.__setitem__(0, '{"t": {"0": 5}}'),
        "another source 0 (kafka t, before number)",
    ),
    (lambda _, sources: sources.__setitem__(0, "-"), "another source 0 (nothing, before number)"),
]


@pytest.mark.parametrize(("change", "says"), CHANGED)
def test_another_plan_is_not_one_of_the_code_of_before(
    change: Callable[[dict[str, object], list[str]], object], says: str, tmp_path: Path
) -> None:
    checkpoint = unpack("hdfs-v1", tmp_path)
    replan(checkpoint, 13, change)
    assert says in why(checkpoint, 12)


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ('{"a":{"0":5}}', '{"a":{"0":9,"1":4}}', ""),
        ('{"a":{"0":5}}', '{"b":{"0":9}}', "another source 0 (kafka b, before kafka a)"),
        ('{"a":{"0":5}}', '{"a":{"0":9},"b":{"0":9}}', "another source 0 (kafka a, b, before kafka a)"),
        ('{"a":{"0":5,"1":7}}', '{"a":{"0":9}}', "a source 0 without a-1"),
        ('{"reservoirId":"x","reservoirVersion":1}', '{"reservoirId":"x","reservoirVersion":2}', ""),
        (
            '{"reservoirId":"x","reservoirVersion":1}',
            '{"reservoirId":"y","reservoirVersion":2}',
            "(delta y, before delta x)",
        ),
        ("orders:5", "orders:9", ""),
        ("orders:5", "clicks:9", "another source 0 (clicks: number, before orders: number)"),
        ("-", '{"a":{"0":5}}', ""),
    ],
)
def test_the_sources_are_those_of_before(old: str, new: str, says: str, tmp_path: Path) -> None:
    checkpoint = unpack("hdfs-v1", tmp_path)
    replan(checkpoint, 12, lambda _, sources: sources.__setitem__(0, old))
    replan(checkpoint, 13, lambda _, sources: sources.__setitem__(0, new))
    found = why(checkpoint, 12)
    assert says in found and bool(found) is bool(says)


def test_a_plan_in_another_form_is_of_another_spark(tmp_path: Path) -> None:
    checkpoint = unpack("hdfs-v1", tmp_path)
    path = checkpoint / "offsets" / "13"
    write(checkpoint, "offsets/13", path.read_bytes().replace(b"v1", b"v2", 1))
    assert "was planned in another form (v2, before v1)" in why(checkpoint, 12)


def test_files_of_another_directory_are_another_source(tmp_path: Path) -> None:
    checkpoint = opened("files", tmp_path)
    log = checkpoint / "sources" / "0" / "2"
    version, *lines = log.read_text().splitlines()
    moved = [json.loads(line) for line in lines]
    for each in moved:
        each["path"] = "file:///elsewhere/" + each["path"].rpartition("/")[2]
    write(checkpoint, "sources/0/2", "\n".join([version, *map(json.dumps, moved)]).encode())
    assert "was planned for files of file:///elsewhere, before of " in why(checkpoint, 1)
    without(checkpoint, "sources/0/2")
    assert "can't be told" in why(checkpoint, 1), "the log of the files is gone"


def test_what_is_committed_is_left(tmp_path: Path) -> None:
    checkpoint = unpack("hdfs-v1", tmp_path)
    assert (
        why(checkpoint, 11, planned=13) == "batch 12 of query Q was committed, and the last one before was 11"
    )


def test_several_planned_batches_are_none_of_a_crash(tmp_path: Path) -> None:
    checkpoint = unpack("hdfs-v1", tmp_path)
    for batch in (14, 15):
        write(checkpoint, f"offsets/{batch}", (checkpoint / "offsets" / "13").read_bytes())
    assert (
        why(checkpoint, 12, planned=15) == "batches 13 to 15 of query Q were planned, and none was committed"
    )


@pytest.mark.parametrize("log", ["offsets", "commits"])
def test_a_log_with_holes_does_not_say_what_the_sink_got(log: str, tmp_path: Path) -> None:
    checkpoint = unpack("hdfs-v1", tmp_path)
    without(checkpoint, f"{log}/11")
    assert "a log with holes: progress is tracked asynchronously" in why(checkpoint, 12)


def test_the_batch_before_must_be_committed_for_good(tmp_path: Path) -> None:
    checkpoint = unpack("hdfs-v1", tmp_path)
    without(checkpoint, "commits/12")
    assert "nothing says that the one before is committed for good" in why(checkpoint, 12)
    other = unpack("hdfs-v1", tmp_path / "other")
    without(other, "offsets/12")
    assert why(other, 12) != ""


@pytest.mark.parametrize(
    "where", ["state/0/_metadata/metadata", "state/0/0/_metadata/schema", "state/1/_metadata/metadata"]
)
def test_another_shape_of_the_state_is_not_undone_by_running_the_batch_again(
    where: str, tmp_path: Path
) -> None:
    checkpoint = unpack("hdfs-v1", tmp_path)
    (checkpoint / where).parent.mkdir(parents=True, exist_ok=True)
    write(checkpoint, where, b"v1\nsomething new")
    assert why(checkpoint, 12) == f"batch 13 of query Q has written how its state is made: {where}"


@pytest.mark.parametrize(("said", "is_clean"), [(b"v2\nas before", True), (b"v2\nanother", False)])
def test_an_operator_that_says_of_itself_what_it_said_before(
    said: bytes, is_clean: bool, tmp_path: Path
) -> None:
    checkpoint = unpack("hdfs-v1", tmp_path)
    folder = checkpoint / "state" / "0" / "_metadata" / "metadata.of" / "v2"
    folder.mkdir(parents=True)
    (folder / "9").write_bytes(b"v2\nas before")
    os.utime(folder / "9", (1, 1))
    (folder / "13").write_bytes(said)
    assert (why(checkpoint, 12) == "") is is_clean


@pytest.mark.parametrize(
    ("kind", "name", "is_left"),
    [
        ("hdfs-v1", "14.delta", False),
        ("hdfs-v1", "14.snapshot", True),
        ("hdfs-v1", "13.snapshot", False),
        ("hdfs-v1", "15.delta", True),
        ("rocksdb-v1", "6.zip", False),
        ("rocksdb-v1-changelog", "6.zip", True),
        ("rocksdb-v2", "6_00000000-0000-0000-0000-000000000000.zip", False),
    ],
)
def test_state_that_a_second_run_replaces_is_clean(
    kind: str, name: str, is_left: bool, tmp_path: Path
) -> None:
    checkpoint = unpack(kind, tmp_path)
    if kind == "rocksdb-v1-changelog":
        (checkpoint / "state/0/1/6.changelog").write_bytes(b"x")
    (checkpoint / "state/0/1" / name).write_bytes(b"x")
    assert bool(why(checkpoint, BEFORE[kind])) is is_left


def test_a_state_of_too_many_files_is_not_looked_through(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(planned_batch, "STATE_FILES_MAX", 3)
    assert "too many files" in why(unpack("hdfs-v1", tmp_path), 12)


def test_rubbish_is_not_clean(tmp_path: Path) -> None:
    checkpoint = unpack("hdfs-v1", tmp_path)
    write(checkpoint, "offsets/13", b"v1\n{")
    assert "is unreadable" in why(checkpoint, 12)


def test_partitions_of_a_directory_are_no_other_directories() -> None:
    assert directories_of(["s3://b/in/date=2026-11-27/x", "s3://b/in/date=2026-11-28/hour=1/y"]) == {
        "s3://b/in"
    }
    assert (
        str(source_identity('{"b":{"0":1},"a":{"0":1},"c":{"0":1},"d":{"0":1}}'))
        == "kafka a, b, c and 1 more"
    )
