"""One damage, one finding: its code, its object, and that it says what to do."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from supervisor.checkpoint import layout
from supervisor.checkpoint.findings import CheckpointFinding, Code
from supervisor.checkpoint.judge import judge
from tests.unit.checkpoint.golden import inspected, unpack, without, write

V1, V2, ROCKS, FILES = "hdfs-v1", "rocksdb-v2", "rocksdb-v1", "files"
ID5 = "1811fd4c-8246-4d9c-8422-895047e86f5a"


def flip(checkpoint: Path, key: str) -> None:
    """Another byte, the checksums left as they are."""
    data = bytearray((checkpoint / key).read_bytes())
    data[-1] ^= 1
    (checkpoint / key).write_bytes(bytes(data))


DAMAGES: list[tuple[str, Callable[[Path], object], Code, str]] = [
    (V1, lambda c: without(c, "metadata"), Code.METADATA_MISSING, "metadata"),
    (V1, lambda c: write(c, "metadata", b""), Code.METADATA_UNREADABLE, "metadata"),
    (V1, lambda c: write(c, "offsets/13", b""), Code.OFFSET_UNREADABLE, "offsets/13"),
    (V1, lambda c: write(c, "offsets/13", b'v1\n{"batchWa'), Code.OFFSET_UNREADABLE, "offsets/13"),
    (V1, lambda c: without(c, "offsets/12"), Code.PREVIOUS_OFFSET_MISSING, "offsets/12"),
    (V1, lambda c: write(c, "offsets/12", b"nonsense"), Code.PREVIOUS_OFFSET_UNREADABLE, "offsets/12"),
    (V1, lambda c: without(c, *(f"offsets/{n}" for n in (10, 11, 12, 13))), Code.OFFSETS_MISSING, "offsets"),
    (V1, lambda c: without(c, "offsets/13", "offsets/12"), Code.COMMIT_AHEAD, "offsets/12"),
    (V1, lambda c: without(c, "commits/12"), Code.COMMIT_BEHIND, "commits/12"),
    (V1, lambda c: write(c, "commits/12", b"v1\n{"), Code.COMMIT_UNREADABLE, "commits/12"),
    (V1, lambda c: without(c, "commits/10"), Code.HOLE, "commits/10"),
    (V1, lambda c: without(c, "offsets/11"), Code.HOLE, "offsets/11"),
    (V1, lambda c: without(c, "state/0/1/13.delta"), Code.STATE_INCOMPLETE, "state/0/1"),
    (V1, lambda c: without(c, "state/0/0/4.delta"), Code.STATE_INCOMPLETE, "state/0/0"),
    (V1, lambda c: write(c, "state/0/0/13.delta", b""), Code.STATE_INCOMPLETE, "state/0/0"),
    (V1, lambda c: write(c, "state/0/_metadata/metadata", b"v1\n"), Code.OPERATOR_UNREADABLE, "state/0"),
    (V1, lambda c: flip(c, "metadata"), Code.CHECKSUM_WRONG, "metadata"),
    (V1, lambda c: flip(c, "commits/12"), Code.CHECKSUM_WRONG, "commits/12"),
    (
        V1,
        lambda c: write(c, "offsets/13", (c / "offsets/13").read_bytes().replace(b"v1", b"v9", 1)),
        Code.NEWER_FORMAT,
        "offsets/13",
    ),
    (V2, lambda c: without(c, f"state/0/0/5_{ID5}.changelog"), Code.STATE_INCOMPLETE, "state/0/0"),
    (
        V2,
        lambda c: flip(c, f"state/0/0/5_{ID5}.changelog"),
        Code.CHECKSUM_WRONG,
        f"state/0/0/5_{ID5}.changelog",
    ),
    (
        V2,
        lambda c: (c / f"state/0/0/5_{ID5}.changelog").rename(c / "state/0/0/5_other.changelog"),
        Code.STATE_INCOMPLETE,
        "state/0/0",
    ),
    (ROCKS, lambda c: without(c, "state/0/1/5.zip"), Code.STATE_INCOMPLETE, "state/0/1"),
    (FILES, lambda c: (c / "sources/0/2").unlink(), Code.SOURCE_LOG_MISSING, "sources/0"),
    (FILES, lambda c: shutil.rmtree(c / "sources"), Code.SOURCE_LOG_MISSING, "sources/0"),
]


@pytest.mark.parametrize(("name", "damage", "code", "where"), DAMAGES)
def test_a_damage_is_found(
    name: str,
    damage: Callable[[Path], object],
    code: Code,
    where: str,
    tmp_path: Path,
) -> None:
    checkpoint = unpack(name, tmp_path)
    damage(checkpoint)
    found = [finding for finding in judge(inspected(checkpoint)) if finding.code is code]
    assert [finding.object for finding in found] == [where], judge(inspected(checkpoint))
    assert all(finding.remedy for finding in found)


def test_lost_state_names_every_partition(tmp_path: Path) -> None:
    checkpoint = unpack(V1, tmp_path)
    for path in [path for path in (checkpoint / "state/0").rglob("*delta*") if path.is_file()]:
        path.unlink()
    (finding,) = judge(inspected(checkpoint))
    assert (finding.code, finding.object) == (Code.STATE_MISSING, "state/0/0")
    assert "partition 0" in finding.sentence
    assert "partition 1" in finding.sentence


def test_a_missing_newest_commit_is_replayed(tmp_path: Path) -> None:
    """Newest offset 2 and commit 1: what a driver leaves that died in a batch."""
    checkpoint = unpack("files", tmp_path)
    without(checkpoint, "commits/2")
    assert judge(inspected(checkpoint)) == ()


def test_the_log_of_a_file_source_may_be_compacted_and_ahead(tmp_path: Path) -> None:
    checkpoint = unpack(FILES, tmp_path)
    (checkpoint / "sources/0/2").rename(checkpoint / "sources/0/2.compact")
    without(checkpoint, "sources/0/0", "sources/0/1")
    assert judge(inspected(checkpoint)) == ()
    (checkpoint / "sources/0/2.compact").rename(checkpoint / "sources/0/3")
    assert judge(inspected(checkpoint)) == ()


def test_a_start_without_its_log_leaves_an_offset_that_leads_back(tmp_path: Path) -> None:
    """What Spark has made of it by the time that somebody looks: every file noted anew, and the next batch planned."""
    checkpoint = unpack(FILES, tmp_path)
    without(checkpoint, "sources/0/1", "sources/0/2")
    write(
        checkpoint,
        "offsets/3",
        (checkpoint / "offsets/2").read_bytes().replace(b'{"logOffset":2}', b'{"logOffset":0}'),
    )
    (finding,) = judge(inspected(checkpoint))
    assert (finding.code, "up to entry 2" in finding.sentence) == (Code.SOURCE_LOG_MISSING, True)


def test_of_several_file_sources_each_has_its_log_and_one_that_is_read_twice_has_one(tmp_path: Path) -> None:
    checkpoint = unpack(FILES, tmp_path)
    offset = (checkpoint / "offsets/2").read_bytes().rstrip(b"\n")
    write(checkpoint, "offsets/2", offset + b'\n{"logOffset":1}')
    assert judge(inspected(checkpoint)) == (), "a self-union"
    (checkpoint / "sources/1").mkdir()
    (checkpoint / "sources/1/0").write_bytes(b"v1\n")
    (finding,) = judge(inspected(checkpoint))
    assert (finding.code, finding.object) == (Code.SOURCE_LOG_MISSING, "sources/1")
    assert "ends at entry 0" in finding.sentence
    (checkpoint / "sources/1/1").write_bytes(b"v1\n")
    assert judge(inspected(checkpoint)) == ()


def test_a_snapshot_makes_what_is_older_unneeded(tmp_path: Path) -> None:
    checkpoint = unpack(V1, tmp_path)
    for partition in (0, 1):
        write(checkpoint, f"state/0/{partition}/11.snapshot", b"whole")
        without(checkpoint, *(f"state/0/{partition}/{version}.delta" for version in range(1, 12)))
    assert judge(inspected(checkpoint)) == ()


def test_a_stateless_query_needs_no_state(tmp_path: Path) -> None:
    assert judge(inspected(unpack("files", tmp_path))) == ()


def test_notices_come_last(tmp_path: Path) -> None:
    checkpoint = unpack(V1, tmp_path)
    without(checkpoint, "commits/10", "state/0/1/13.delta")
    found = judge(inspected(checkpoint))
    assert [finding.is_notice for finding in found] == [False, True]
    assert isinstance(found[0], CheckpointFinding)


def test_crc32c() -> None:
    assert layout.crc32c(b"123456789") == 0xE3069283
