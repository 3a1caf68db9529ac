"""Who can write to the bucket of the store, and to nothing else: what he puts there is refused as what it is, hurts what it
stands for only, and is never run. README.md has the table.
"""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Final

import pytest

from supervisor.clients.store.area import open_area
from supervisor.clients.store.files import FileStore
from supervisor.coord.epoch_marks import EpochMarks, epoch_key
from supervisor.errors import Corrupt, InvalidInput, SupervisorError
from supervisor.model.records import BlobRef
from supervisor.registry.blob_sweep import References, judge
from supervisor.registry.blobs import CLUSTER_KEY, Blobs, artifact_key, spec_key
from supervisor.savepoints.manifest import BEGUN, MANIFEST
from supervisor.savepoints.shelf import Shelf
from supervisor.spec.job import from_canonical
from supervisor.spec.s3a import S3Access

BOMBS: Final[dict[str, bytes]] = {
    "nothing": b"",
    "no text": b"\xff\xfe\x00",
    "lists in lists": b"[" * 100_000,
    "objects in objects": b'{"a":' * 50_000,
    "a number without end": b"9" * 100_000,
    "a number that is none": b'{"epoch": NaN, "supervisor": "x"}',
    "a number beyond all": b'{"epoch": 1e999, "supervisor": "x", "id": 1e999, "name": "n", "root": "/"}',
    "another kind of value": b'{"epoch": [], "supervisor": {}, "id": [], "name": {}, "root": 0}',
    "half a character": b'{"epoch": 1, "supervisor": "\\ud800", "id": "\\ud800", "name": "n", "root": "/r"}',
    "more than there may be": b" " * (4 << 20),
}


@pytest.fixture
def bucket(tmp_path: Path) -> Path:
    return tmp_path / "store"


@pytest.fixture
def store(bucket: Path) -> FileStore:
    return FileStore(bucket)


def put(bucket: Path, key: str, data: bytes) -> None:
    """Past the product, as its owner can."""
    path = bucket / key
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)


def as_reference(key: str, data: bytes) -> BlobRef:
    return BlobRef(key=key, sha256=hashlib.sha256(data).hexdigest(), bytes=len(data))


# -- in place of what was there -----------------------------------------------------------------------------------


@pytest.mark.parametrize("evil", [b'{"application": "evil.py"}', b"{}", b"", b'{"application": "good.py"} '])
def test_a_spec_that_was_exchanged_is_not_read(store: FileStore, bucket: Path, evil: bytes) -> None:
    ref = Blobs(store).put_spec("a", "u1", 1, b'{"application": "good.py"}')
    put(bucket, ref.key, evil)
    with pytest.raises(Corrupt):
        Blobs(store).read_spec(ref)


def test_an_application_that_was_exchanged_leaves_nothing_to_execute(
    store: FileStore, bucket: Path, tmp_path: Path
) -> None:
    (tmp_path / "app.py").write_text("print('good')\n")
    key = Blobs(store).put_artifact("a", "u1", tmp_path / "app.py")
    put(bucket, key, b"import evil\n")
    with pytest.raises(Corrupt):
        Blobs(store).fetch_artifact(key, tmp_path / "fetched")
    assert [path for path in (tmp_path / "fetched").rglob("*") if path.is_file()] == []


def test_the_spec_of_another_job_under_its_key_is_not_read(store: FileStore, bucket: Path) -> None:
    """The content of another, whole and well formed: its digest is not the one that the reference has."""
    ref = Blobs(store).put_spec("a", "u1", 1, b'{"application": "good.py"}')
    other = Blobs(store).put_spec("b", "u2", 1, b'{"application": "other.py"}')
    put(bucket, ref.key, store.read(other.key, 1000))
    with pytest.raises(Corrupt):
        Blobs(store).read_spec(ref)


@pytest.mark.parametrize(
    "key", ["../outside", "specs/a/u1/1-00.json/../../x", "artifacts/a/u1/00/..", "specs/a/u1/x"]
)
def test_a_reference_that_leads_elsewhere_is_none(store: FileStore, tmp_path: Path, key: str) -> None:
    with pytest.raises((Corrupt, InvalidInput)):
        Blobs(store).read_spec(as_reference(key, b"{}"))
    with pytest.raises((Corrupt, InvalidInput)):
        Blobs(store).fetch_artifact(key, tmp_path / "fetched")


# -- what nobody expects there ------------------------------------------------------------------------------------


@pytest.mark.parametrize("bomb", BOMBS.values(), ids=BOMBS)
def test_a_mark_of_the_cluster_that_makes_no_sense_is_corrupt(
    store: FileStore, bucket: Path, bomb: bytes
) -> None:
    put(bucket, CLUSTER_KEY, bomb)
    with pytest.raises(Corrupt):
        Blobs(store).read_cluster()


@pytest.mark.parametrize("bomb", BOMBS.values(), ids=BOMBS)
def test_a_mark_of_an_epoch_that_makes_no_sense_is_corrupt_and_counts_as_one(
    store: FileStore, bucket: Path, bomb: bytes
) -> None:
    put(bucket, epoch_key(7), bomb)
    with pytest.raises(Corrupt):
        EpochMarks(store).read_epoch(7)
    assert EpochMarks(store).newest_epoch_above(6) == 7, "that somebody was there is what counts"


def test_marks_with_odd_names_are_no_epochs(store: FileStore, bucket: Path) -> None:
    EpochMarks(store).record_epoch(3, "host-a")
    for odd in ("9" * 11, "9" * 200, "-000000001", "00000000x1", "0000000009/x", "doctor-00"):
        put(bucket, f"epochs/{odd}", b"{}")
    assert EpochMarks(store).newest_epoch_above(0) == 3
    assert EpochMarks(store).prune_epochs(keep=1) == 0


@pytest.mark.parametrize("bomb", BOMBS.values(), ids=BOMBS)
def test_a_spec_that_makes_no_sense_costs_its_own_job(store: FileStore, bucket: Path, bomb: bytes) -> None:
    """Of somebody who writes references, too: the digest is right."""
    key = spec_key("a", "u1", 1, hashlib.sha256(bomb).hexdigest())
    put(bucket, key, bomb)
    with pytest.raises(SupervisorError):
        from_canonical(Blobs(store).read_spec(as_reference(key, bomb)), key)


@pytest.mark.parametrize("bomb", BOMBS.values(), ids=BOMBS)
@pytest.mark.parametrize("key", [BEGUN, MANIFEST])
def test_a_savepoint_that_makes_no_sense_is_listed_beside_the_others(
    bucket: Path, bomb: bytes, key: str
) -> None:
    put(bucket, f"savepoints/a/one/{key}", bomb)
    shelf = Shelf(open_area(f"file://{bucket}/savepoints", S3Access()), open_area)
    (entry,) = shelf.entries("a")
    assert entry.manifest is None


def test_nothing_of_others_is_swept(store: FileStore, bucket: Path) -> None:
    """Objects that look nearly like blobs are nobody's to delete."""
    keys = [
        "specs/a/u1/1-zz.json",
        "specs/a/u1/x/1-" + "0" * 64 + ".json",
        "artifacts/a/u1/short/app.py",
        "other/key",
    ]
    for key in keys:
        put(bucket, key, b"x")
    listed = list(store.entries(""))
    references = References(frozenset({"u9"}))
    first = judge({}, listed, references, 0.0, 1.0)
    assert judge(first.unreferenced, listed, references, 1e6, 1e6).to_delete == ()
    swept = spec_key("a", "u1", 1, "0" * 64), artifact_key("a", "u1", "0" * 64, "app.py")
    assert not any(references.keep(key) for key in swept)
