"""Before a start: what is refused, what is not, and what it costs on S3."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from supervisor.checkpoint.findings import Code
from supervisor.checkpoint.preflight import left_behind, preflight
from supervisor.clients.store.tree import open_tree
from supervisor.errors import Unreachable
from supervisor.model.checkpoint_expectation import (
    CheckpointExpectation,
    SeenQuery,
    place_of,
    queries_of,
    to_be_expected,
    with_batches,
)
from supervisor.spec.s3a import S3Access
from tests.testbed.moto import AWS_ENV, MotoServer
from tests.unit.checkpoint.golden import unpack, without, write
from tests.unit.checkpoint.test_inspect import upload

ID = "ff7b2486-db9c-40b5-91ab-94bbc3f36e3d"
SEEN = (SeenQuery(ID, 12),)


def inspected(location: Path, expected: tuple[SeenQuery, ...] = SEEN) -> Code | None:
    tree = open_tree(str(location), S3Access())
    assert tree is not None
    found = preflight(tree, expected)
    assert found is None or "--accept-fresh-start" in found.remedy
    return found.code if found is not None else None


def test_a_healthy_one_passes(tmp_path: Path) -> None:
    assert inspected(unpack("hdfs-v1", tmp_path)) is None


def test_a_missing_newest_commit_is_replayed(tmp_path: Path) -> None:
    checkpoint = unpack("hdfs-v1", tmp_path)
    without(checkpoint, "commits/12")
    assert inspected(checkpoint) is None


def empty(checkpoint: Path) -> None:
    for path in list(checkpoint.iterdir()):
        shutil.rmtree(path) if path.is_dir() else path.unlink()


def without_offsets(checkpoint: Path, newest: int) -> None:
    for path in (checkpoint / "offsets").iterdir():
        if int(path.name.strip(".").removesuffix(".crc")) > newest:
            path.unlink()


REFUSED: list[tuple[Callable[[Path], object], Code]] = [
    (shutil.rmtree, Code.MISSING),
    (empty, Code.MISSING),
    (lambda c: (empty(c), (c / "left").mkdir(), (c / "left" / "over").write_text("x")), Code.EMPTIED),
    (lambda c: write(c, "metadata", b'{"id":"another"}'), Code.FOREIGN),
    (lambda c: without(c, "metadata"), Code.METADATA_MISSING),
    (lambda c: write(c, "metadata", b'{"id":'), Code.METADATA_UNREADABLE),
    (lambda c: without_offsets(c, 11), Code.TRUNCATED),
    (lambda c: shutil.rmtree(c / "offsets"), Code.TRUNCATED),
    (lambda c: write(c, "offsets/13", b"v1\n{"), Code.OFFSET_UNREADABLE),
    (lambda c: write(c, "offsets/13", b""), Code.OFFSET_UNREADABLE),
]


@pytest.mark.parametrize(("damage", "code"), REFUSED)
def test_what_is_refused(damage: Callable[[Path], object], code: Code, tmp_path: Path) -> None:
    checkpoint = unpack("hdfs-v1", tmp_path)
    damage(checkpoint)
    before = sorted(tmp_path.rglob("*"))
    assert inspected(checkpoint) is code
    assert sorted(tmp_path.rglob("*")) == before, "no data is touched"


def test_nothing_is_expected_of_a_job_that_committed_nothing(tmp_path: Path) -> None:
    assert inspected(tmp_path / "none", ()) is None


def test_the_query_may_be_in_any_of_many_directories(tmp_path: Path) -> None:
    checkpoint = tmp_path / "many"
    for number in range(100):
        (checkpoint / f"query-{number:03}").mkdir(parents=True)
        write(checkpoint, f"query-{number:03}/metadata", b'{"id":"another"}')
    shutil.move(unpack("hdfs-v1", tmp_path), checkpoint / "query-999")
    assert inspected(checkpoint) is None


def test_several_queries_each_in_its_directory(tmp_path: Path) -> None:
    files = unpack("files", tmp_path)
    unpack("hdfs-v1", tmp_path)
    both = (*SEEN, SeenQuery("0ad6ac04-e858-432d-8218-addf97e927d3", 2))
    assert inspected(tmp_path, both) is None
    shutil.rmtree(files)
    assert inspected(tmp_path, both) is Code.FOREIGN
    assert inspected(tmp_path, SEEN) is None


@pytest.mark.parametrize("newest", [0, 10, 99, 998, 1001, 9999, 10007, 100_003, 123_456_789])
@pytest.mark.parametrize("ahead", [0, 7])
def test_the_newest_offset_is_found_whatever_its_digits(newest: int, ahead: int, tmp_path: Path) -> None:
    """Offsets as Spark keeps them; the newest is unreadable: found means refused."""
    (tmp_path / "offsets").mkdir()
    (tmp_path / "metadata").write_bytes(b'{"id":"q"}')
    for batch in range(max(0, newest - 30), newest + 1):
        (tmp_path / "offsets" / str(batch)).write_bytes(b"v1\n{}\n1" if batch < newest else b"cut")
        (tmp_path / "offsets" / f".{batch}.crc").write_bytes(b"")
    assert inspected(tmp_path, (SeenQuery("q", max(0, newest - ahead)),)) is Code.OFFSET_UNREADABLE
    assert inspected(tmp_path, (SeenQuery("q", newest + 1),)) is Code.TRUNCATED


def test_asynchronous_progress_tracking_logs_only_some_batches(tmp_path: Path) -> None:
    """Its log has holes, and may end before the last batch whose progress was told."""
    (tmp_path / "offsets").mkdir()
    (tmp_path / "metadata").write_bytes(b'{"id":"q"}')
    for batch in (0, 7, 15, 22):
        (tmp_path / "offsets" / str(batch)).write_bytes(b"v1\n{}\n1")
    assert inspected(tmp_path, (SeenQuery("q", 29),)) is None
    (tmp_path / "offsets" / "22").write_bytes(b"")
    assert inspected(tmp_path, (SeenQuery("q", 29),)) is Code.OFFSET_UNREADABLE
    assert inspected(tmp_path, (SeenQuery("q", 5000),)) is Code.TRUNCATED


@pytest.mark.parametrize(("newest", "retained"), [(150, 100), (1234, 1200), (100_020, 100), (7, 8)])
def test_at_most_six_requests_on_s3(
    newest: int, retained: int, moto_server: MotoServer, s3_bucket: str
) -> None:
    client = moto_server.client()
    client.put_object(Bucket=s3_bucket, Key="ck/metadata", Body=b'{"id":"q"}')
    for log in ("offsets", "commits", "state/0/0"):
        client.put_object(Bucket=s3_bucket, Key=f"ck/{log}/", Body=b"")
    for batch in range(newest - min(retained, 120) + 1, newest + 1):
        client.put_object(Bucket=s3_bucket, Key=f"ck/offsets/{batch}", Body=b"v1\n{}\n1")
    tree = open_tree(f"s3a://{s3_bucket}/ck", S3Access(moto_server.endpoint_url))
    assert tree is not None
    assert preflight(tree, (SeenQuery("q", newest - 2),)) is None
    assert tree.requests <= 5, tree.requests


def test_a_damaged_one_on_s3(tmp_path: Path, moto_server: MotoServer, s3_bucket: str) -> None:
    location = upload(unpack("hdfs-v1", tmp_path), moto_server, s3_bucket, "deep/ck")
    access = S3Access(moto_server.endpoint_url)
    tree, gone = open_tree(location, access), open_tree(f"{location}-gone", access)
    assert tree is not None
    assert gone is not None
    assert preflight(tree, SEEN) is None
    assert tree.requests <= 5
    found = preflight(gone, SEEN)
    assert found is not None
    assert found.code is Code.MISSING
    moto_server.client().put_object(Bucket=s3_bucket, Key="deep/ck/offsets/13", Body=b"")
    found = preflight(tree, SEEN)
    assert found is not None
    assert (found.code, found.object) == (Code.OFFSET_UNREADABLE, "offsets/13")


def test_no_answer_is_neither_good_nor_bad(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in AWS_ENV.items():
        monkeypatch.setenv(name, value)
    tree = open_tree("s3://bucket/ck", S3Access("http://127.0.0.1:1"), deadline_s=0.3)
    assert tree is not None
    with pytest.raises(Unreachable):
        preflight(tree, SEEN)


# -- what is remembered -------------------------------------------------------------------------------------------


def test_batches_never_go_back() -> None:
    known = with_batches(CheckpointExpectation(place="p"), [SeenQuery("a", 3), SeenQuery("b", 0)])
    assert queries_of(known) == (SeenQuery("a", 3), SeenQuery("b", 0))
    assert queries_of(with_batches(known, [SeenQuery("a", 2)])) == (SeenQuery("b", 0), SeenQuery("a", 3))
    many = with_batches(known, [SeenQuery(str(n), n) for n in range(20)])
    assert len(many.queries) == 8
    assert queries_of(CheckpointExpectation(place="p", queries=("", "no number", "x 1 y", "ok 7"))) == (
        SeenQuery("ok", 7),
    )


def test_the_lease_counts_before_the_ownership_and_another_place_for_nothing() -> None:
    here = place_of("s3a://bucket/ck")
    lease, own = (
        CheckpointExpectation(place=here, queries=("q 9",)),
        CheckpointExpectation(place=here, queries=("q 5",)),
    )
    assert to_be_expected("s3://bucket/ck/", "", lease, own) == lease
    assert to_be_expected("s3://bucket/ck", "", None, own) == own
    other = to_be_expected("s3://bucket/other", "", lease, own)
    assert other is not None and (other.place, queries_of(other)) == (place_of("s3://bucket/other"), ())
    assert to_be_expected(None, "", lease, own) is None
    assert to_be_expected("relative", "", lease, own) is None


def test_an_acceptance_is_taken_once() -> None:
    here = place_of("/data/ck")
    before = CheckpointExpectation(place=here, queries=("q 9",))
    first = to_be_expected("/data/ck", "nonce", before, None)
    assert first == CheckpointExpectation(place=here, queries=(), accepted="nonce")
    assert first is not None
    later = with_batches(first, [SeenQuery("new", 1)])
    assert to_be_expected("/data/ck", "nonce", later, before) == later
    assert to_be_expected("/data/ck", "", later, before) == later


# -- what a failed update has left --------------------------------------------------------------------------------


def left(location: Path, *known: SeenQuery) -> str:
    tree = open_tree(str(location), S3Access())
    assert tree is not None
    return left_behind(tree, known)


def test_nothing_beyond_what_was_known_is_clean(tmp_path: Path) -> None:
    checkpoint = unpack("hdfs-v1", tmp_path)
    without_offsets(checkpoint, 12)
    assert left(checkpoint, SeenQuery(ID, 12)) == ""


def test_a_batch_that_was_committed_is_left(tmp_path: Path) -> None:
    checkpoint = unpack("hdfs-v1", tmp_path)
    without_offsets(checkpoint, 12)
    assert left(checkpoint, SeenQuery(ID, 11)) == (
        f"batch 12 of query {ID} was committed, and the last one before was 11"
    )


def test_a_batch_that_was_planned_only_is_clean_if_it_can_be_run_again(tmp_path: Path) -> None:
    """What most bad releases leave: their first batch fails (``test_planned_batch`` has what is not clean)."""
    checkpoint = unpack("hdfs-v1", tmp_path)
    assert left(checkpoint, SeenQuery(ID, 12)) == ""
    write(checkpoint, "state/0/0/_metadata/schema", b"another")
    assert left(checkpoint, SeenQuery(ID, 12)) == (
        f"batch 13 of query {ID} has written how its state is made: state/0/0/_metadata/schema"
    )


def test_another_query_is_left_and_one_that_is_gone_is_not_clean(tmp_path: Path) -> None:
    checkpoint = unpack("hdfs-v1", tmp_path)
    assert left(checkpoint) == f"query {ID} is there, of which no batch was known"
    without_offsets(checkpoint, 12)
    other = SeenQuery("00000000-0000-0000-0000-000000000000", 3)
    assert left(checkpoint, SeenQuery(ID, 12), other) == f"query {other.id} is not there"


def test_an_empty_place_is_clean_where_nothing_was_known(tmp_path: Path) -> None:
    assert left(tmp_path) == ""
    assert left(tmp_path, SeenQuery(ID, 12)) == f"query {ID} is not there"


def test_a_query_whose_id_cannot_be_read_is_not_clean(tmp_path: Path) -> None:
    checkpoint = unpack("hdfs-v1", tmp_path)
    (checkpoint / "metadata").write_text("rubbish")
    assert "unreadable" in left(checkpoint, SeenQuery(ID, 12))
