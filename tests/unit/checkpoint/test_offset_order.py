"""How far one reading of a source is, seen from another: on offsets as Spark and its sources write them, and as a partial order."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from supervisor.checkpoint.layout import Malformed
from supervisor.checkpoint.offset_order import (
    OffsetOrder,
    SourceKind,
    SourcePosition,
    compare,
    files_in,
    has_passed,
    position_of,
    summary,
)
from supervisor.checkpoint.offset_reader import OffsetReader, QueryOffsets, decode_offsets, encode_offsets
from supervisor.clients.store.tree import open_tree
from supervisor.errors import Corrupt
from supervisor.spec.s3a import S3Access
from tests.unit.checkpoint.golden import NAMES, unpack, write

KAFKA = '{"clicks":{"0":1200,"1":1310},"views":{"0":7}}'


def order(new: str | None, old: str | None) -> OffsetOrder:
    return summary(part.order for part in compare(position_of(new), position_of(old)))


@pytest.mark.parametrize(
    ("new", "old", "expected"),
    [
        (KAFKA, KAFKA, OffsetOrder.EQUAL),
        ('{"clicks":{"1":1310,"0":1200},"views":{"0":7}}', KAFKA, OffsetOrder.EQUAL),
        ('{"clicks":{"0":1201,"1":1310},"views":{"0":7}}', KAFKA, OffsetOrder.AHEAD),
        (
            '{"clicks":{"0":1300,"1":1309},"views":{"0":7}}',
            KAFKA,
            OffsetOrder.BEHIND,
        ),  # ahead in one, behind in another
        ('{"clicks":{"0":1200,"1":1310}}', KAFKA, OffsetOrder.BEHIND),  # a topic that is not read yet
        (
            '{"clicks":{"0":1200,"1":1310,"2":0},"views":{"0":7}}',
            KAFKA,
            OffsetOrder.AHEAD,
        ),  # a partition that is new
        ("12", "12", OffsetOrder.EQUAL),
        ("13", "12", OffsetOrder.AHEAD),
        ("9", "12", OffsetOrder.BEHIND),
        ('{"offset":2000,"timestamp":9}', '{"offset":1000,"timestamp":99}', OffsetOrder.AHEAD),
        (None, None, OffsetOrder.EQUAL),
        (None, "12", OffsetOrder.BEHIND),
        ("12", None, OffsetOrder.AHEAD),
        (None, KAFKA, OffsetOrder.BEHIND),
        ("12", KAFKA, OffsetOrder.UNORDERED),
        ('{"shard":"49590338271490256608559692538361571095921575989136588898"}', None, OffsetOrder.UNORDERED),
        (
            '{"sourceVersion":1,"reservoirId":"r","reservoirVersion":5,"index":-1}',
            None,
            OffsetOrder.UNORDERED,
        ),
        ("not json", "12", OffsetOrder.UNORDERED),
        ("true", "12", OffsetOrder.UNORDERED),
        ('{"clicks":{"a":1}}', KAFKA, OffsetOrder.UNORDERED),
        ('{"clicks":{}}', KAFKA, OffsetOrder.UNORDERED),
        ("{}", KAFKA, OffsetOrder.UNORDERED),
        ("[" * 100_000, KAFKA, OffsetOrder.UNORDERED),
    ],
)
def test_offsets_as_they_are_written(new: str | None, old: str | None, expected: OffsetOrder) -> None:
    assert order(new, old) is expected


def test_partitions_are_told_one_by_one_in_their_order() -> None:
    new = json.dumps({"t": {str(n): n for n in range(12)}})
    parts = compare(position_of(new), position_of('{"t":{"0":0,"11":12}}'))
    assert [part.part for part in parts] == [f"t-{n}" for n in range(12)]
    assert (parts[11].new, parts[11].old, parts[11].order) == (11, 12, OffsetOrder.BEHIND)


def files(*names: str) -> SourcePosition:
    return SourcePosition(SourceKind.FILES, files=frozenset(names))


def test_files_are_a_set_and_their_batches_do_not_matter() -> None:
    ((_, new, old, found),) = compare(files("a", "b", "d"), files("a", "b", "c"))
    assert (new, old, found) == (1, 1, OffsetOrder.BEHIND)
    assert compare(files("b", "a"), files("a", "b"))[0].order is OffsetOrder.EQUAL


def test_entries_of_the_file_log_up_to_an_offset() -> None:
    lines = [json.dumps({"path": f"s3a://b/{n}", "timestamp": 1, "batchId": n}) for n in range(5)]
    assert files_in("\n".join(["v1", *lines]).encode(), 2) == {"s3a://b/0", "s3a://b/1", "s3a://b/2"}
    for wrong in (b"", b"x", b"v1\n{}", b"v1\n[]", b'v1\n{"path":"a","batchId":"x"}'):
        if wrong != b"":
            with pytest.raises(Malformed):
                files_in(wrong, 2)


# -- a partial order --------------------------------------------------------------------------------------------------

PARTS = st.dictionaries(st.sampled_from(["0", "1", "2", "10"]), st.integers(0, 3), min_size=1)
POSITIONS = st.one_of(
    st.just(SourcePosition(SourceKind.NOTHING)),
    PARTS.map(
        lambda parts: SourcePosition(SourceKind.KAFKA, {f"t-{n}": offset for n, offset in parts.items()})
    ),
    st.integers(0, 3).map(lambda n: SourcePosition(SourceKind.NUMBER, {"": n})),
    st.frozensets(st.sampled_from("abc")).map(lambda names: SourcePosition(SourceKind.FILES, files=names)),
    st.just(SourcePosition(SourceKind.OTHER)),
)


def of(new: SourcePosition, old: SourcePosition) -> OffsetOrder:
    return summary(part.order for part in compare(new, old))


@given(POSITIONS, POSITIONS)
def test_ahead_is_behind_from_the_other_side(one: SourcePosition, other: SourcePosition) -> None:
    there, back = of(one, other), of(other, one)
    assert (there is OffsetOrder.UNORDERED) == (back is OffsetOrder.UNORDERED)
    assert (there is OffsetOrder.EQUAL) == (back is OffsetOrder.EQUAL)
    if there is OffsetOrder.AHEAD:
        assert back is OffsetOrder.BEHIND


@given(POSITIONS)
def test_each_is_equal_to_itself(one: SourcePosition) -> None:
    assert of(one, one) is (OffsetOrder.UNORDERED if one.kind is SourceKind.OTHER else OffsetOrder.EQUAL)


@given(POSITIONS, POSITIONS, POSITIONS)
def test_what_has_passed_the_second_has_passed_what_that_has_passed(
    one: SourcePosition, other: SourcePosition, third: SourcePosition
) -> None:
    # sources of two kinds are unordered, also where one of them is a file source that has read nothing
    assume(len({one.kind, third.kind} - {SourceKind.NOTHING}) < 2)
    if has_passed(of(one, other)) and has_passed(of(other, third)):
        assert has_passed(of(one, third))


@given(st.lists(st.sampled_from(OffsetOrder)), st.lists(st.sampled_from(OffsetOrder)))
def test_a_summary_is_of_its_parts_in_any_grouping(one: list[OffsetOrder], other: list[OffsetOrder]) -> None:
    assert summary([*one, *other]) is summary([summary(one), summary(other)])
    assert has_passed(summary(one)) is all(map(has_passed, one))


# -- reading ----------------------------------------------------------------------------------------------------------


def reader(path: Path) -> OffsetReader:
    tree = open_tree(str(path), S3Access())
    assert tree is not None
    return OffsetReader(tree)


@pytest.mark.parametrize("name", NAMES)
def test_each_golden_checkpoint_is_as_far_as_itself(name: str, tmp_path: Path) -> None:
    found = reader(unpack(name, tmp_path))
    (query,) = found.committed()
    assert query.batch >= 2 and query.sources
    for number in range(len(query.sources)):
        place = found.position(query, number)
        assert place.kind is not SourceKind.OTHER and of(place, place) is OffsetOrder.EQUAL
    assert decode_offsets(encode_offsets([query]), "here") == (query,)


def test_the_offsets_are_those_of_the_newest_commit_not_of_the_batch_under_way(tmp_path: Path) -> None:
    path = unpack("files", tmp_path)
    write(
        path, "offsets/3", (path / "offsets/2").read_bytes().replace(b'{"logOffset":2}', b'{"logOffset":3}')
    )
    (query,) = reader(path).committed()
    assert (query.batch, query.sources) == (2, ('{"logOffset":2}',))


def test_a_compacted_log_of_files_is_read_up_to_the_offset(tmp_path: Path) -> None:
    path = unpack("files", tmp_path)
    before = reader(path)
    (query,) = before.committed()
    plain = before.position(query, 0).files
    assert len(plain) == 3
    lines = [(path / f"sources/0/{n}").read_text().partition("\n")[2] for n in range(3)]
    later = json.dumps({"path": "file:///in/later.txt", "timestamp": 1, "batchId": 3})
    write(path, "sources/0/9.compact", "\n".join(["v1", *lines, later]).encode())
    for n in range(3):
        (path / f"sources/0/{n}").unlink()
    assert reader(path).position(query, 0).files == plain
    assert before.position(query, 0).files == plain


def test_what_can_not_be_read_is_an_error_and_nothing_that_was_passed(tmp_path: Path) -> None:
    path = unpack("files", tmp_path)
    (path / "sources/0/1").unlink()
    found = reader(path)
    with pytest.raises(Exception, match="has no entry 1"):
        found.position(found.committed()[0], 0)
    (path / "metadata").unlink()
    with pytest.raises(Corrupt, match="names no query"):
        found.committed()
    with pytest.raises(Corrupt, match="does not hold"):
        decode_offsets(b"[]", "here")
    assert reader(tmp_path / "none").committed() == ()


def test_a_query_that_has_committed_nothing_is_behind(tmp_path: Path) -> None:
    path = unpack("files", tmp_path)
    for each in (path / "commits").iterdir():
        each.unlink()
    (query,) = reader(path).committed()
    assert query == QueryOffsets(query.id, "", -1)
    assert of(reader(path).position(query, 0), files("a")) is OffsetOrder.BEHIND
