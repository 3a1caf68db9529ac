"""``registry.blobs`` on a real directory: keys, verified reads, epoch marks, the cluster's mark."""

from __future__ import annotations

import hashlib
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest

from supervisor.clients.store.files import FileStore
from supervisor.errors import AccessDenied, Conflict, Corrupt, InvalidInput, NotFound, Unreachable
from supervisor.model.records import BlobRef
from supervisor.registry.blobs import BlobKey, Blobs, ClusterMark, parse_key

GOLDEN = Path(__file__).parents[2] / "golden" / "store"
NAME, UID = "clicks", "0123456789ab-89abcdef"
SPEC = b'{"name":"clicks"}'
MARK = ClusterMark(id="5f0c2a7e", name="prod", root="/spark-supervisor/prod")


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "store"


@pytest.fixture
def blobs(root: Path) -> Blobs:
    return Blobs(FileStore(root))


@pytest.fixture
def application(tmp_path: Path) -> Path:
    path = tmp_path / "clicks app é.py"
    path.write_text("print('hello')")
    return path


def alter(path: Path, content: bytes) -> None:
    path.chmod(0o644)
    path.write_bytes(content)


# Specs.


def test_a_spec_lies_under_its_uid_revision_and_hash(blobs: Blobs, root: Path) -> None:
    ref = blobs.put_spec(NAME, UID, 3, SPEC)
    sha256 = hashlib.sha256(SPEC).hexdigest()
    assert ref == BlobRef(key=f"specs/{NAME}/{UID}/3-{sha256}.json", sha256=sha256, bytes=len(SPEC))
    assert (root / ref.key).read_bytes() == SPEC
    assert blobs.put_spec(NAME, UID, 3, SPEC) == ref
    assert blobs.read_spec(ref) == SPEC


@pytest.mark.parametrize("content", [b'{"name":"clickz"}', b"", SPEC + b" ", SPEC[:-1]])
def test_an_altered_spec_is_corrupt_and_never_overwritten(blobs: Blobs, root: Path, content: bytes) -> None:
    ref = blobs.put_spec(NAME, UID, 1, SPEC)
    alter(root / ref.key, content)
    with pytest.raises(Corrupt, match=ref.key):
        blobs.read_spec(ref)
    with pytest.raises(Corrupt, match=ref.key):
        blobs.put_spec(NAME, UID, 1, SPEC)
    assert (root / ref.key).read_bytes() == content


def test_a_missing_spec_names_its_key(blobs: Blobs, root: Path) -> None:
    ref = blobs.put_spec(NAME, UID, 1, SPEC)
    (root / ref.key).unlink()
    with pytest.raises(NotFound, match=ref.key):
        blobs.read_spec(ref)


@pytest.mark.parametrize(
    "wrong",
    [
        {"key": "../../etc/passwd"},
        {"key": "cluster.json"},
        {"key": ""},
        {"sha256": "0" * 64},
        {"bytes": 1 << 40},
        {"bytes": 3},
    ],
)
def test_a_reference_that_contradicts_itself_is_corrupt(blobs: Blobs, wrong: dict[str, object]) -> None:
    ref = blobs.put_spec(NAME, UID, 1, SPEC)
    with pytest.raises(Corrupt):
        blobs.read_spec(replace(ref, **wrong))  # type: ignore[arg-type]


def test_a_huge_spec_is_refused(blobs: Blobs) -> None:
    with pytest.raises(InvalidInput, match=NAME):
        blobs.put_spec(NAME, UID, 1, b"x" * (1024 * 1024 + 1))


# Artifacts.


def test_an_artifact_is_fetched_as_it_was_put(blobs: Blobs, application: Path, tmp_path: Path) -> None:
    key = blobs.put_artifact(NAME, UID, application)
    sha256 = hashlib.sha256(application.read_bytes()).hexdigest()
    assert key == f"artifacts/{NAME}/{UID}/{sha256}/{application.name}"
    assert blobs.put_artifact(NAME, UID, application) == key
    fetched = blobs.fetch_artifact(key, tmp_path / "cache")
    assert fetched == tmp_path / "cache" / sha256 / application.name
    assert fetched.read_bytes() == application.read_bytes()
    assert [*fetched.parent.iterdir()] == [fetched]


def test_what_was_fetched_before_is_kept_if_it_is_right(
    blobs: Blobs, application: Path, tmp_path: Path, root: Path
) -> None:
    key = blobs.put_artifact(NAME, UID, application)
    fetched = blobs.fetch_artifact(key, tmp_path / "cache")
    alter(fetched, b"a driver wrote here")
    assert blobs.fetch_artifact(key, tmp_path / "cache").read_bytes() == application.read_bytes()
    (root / key).unlink()
    assert blobs.fetch_artifact(key, tmp_path / "cache") == fetched


@pytest.mark.parametrize("content", [b"", b"print('evil')!", b"print('hello')\n"])
def test_an_altered_artifact_is_corrupt_and_leaves_nothing(
    blobs: Blobs, application: Path, tmp_path: Path, root: Path, content: bytes
) -> None:
    key = blobs.put_artifact(NAME, UID, application)
    alter(root / key, content)
    with pytest.raises(Corrupt, match=key.split("/")[3]):
        blobs.fetch_artifact(key, tmp_path / "cache")
    assert not [path for path in (tmp_path / "cache").rglob("*") if path.is_file()]
    with pytest.raises(Corrupt):
        blobs.put_artifact(NAME, UID, application)


def test_a_missing_artifact_names_its_key(
    blobs: Blobs, application: Path, tmp_path: Path, root: Path
) -> None:
    key = blobs.put_artifact(NAME, UID, application)
    (root / key).unlink()
    with pytest.raises(NotFound, match=key.split("/")[3]):
        blobs.fetch_artifact(key, tmp_path / "cache")


@pytest.mark.parametrize(
    "key", ["artifacts/a/b/c", "specs/a/b/1-" + "0" * 64 + ".json", "artifacts/../../x", ""]
)
def test_only_artifacts_are_fetched(blobs: Blobs, key: str, tmp_path: Path) -> None:
    with pytest.raises(Corrupt):
        blobs.fetch_artifact(key, tmp_path)


def test_several_attempts_fetch_into_one_directory(blobs: Blobs, application: Path, tmp_path: Path) -> None:
    key = blobs.put_artifact(NAME, UID, application)
    with ThreadPoolExecutor(8) as pool:
        paths = set(pool.map(lambda _: blobs.fetch_artifact(key, tmp_path / "cache"), range(16)))
    (fetched,) = paths
    assert [*fetched.parent.iterdir()] == [fetched]


def test_a_file_that_cannot_be_stored_is_named(blobs: Blobs, tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="nothing.py"):
        blobs.put_artifact(NAME, UID, tmp_path / "nothing.py")
    awkward = tmp_path / "new\nline.py"
    awkward.write_text("")
    with pytest.raises(InvalidInput, match="control character"):
        blobs.put_artifact(NAME, UID, awkward)


def test_keys_are_parsed_as_they_are_made(blobs: Blobs, application: Path) -> None:
    ref, key = blobs.put_spec(NAME, UID, 12, SPEC), blobs.put_artifact(NAME, UID, application)
    assert parse_key(ref.key) == BlobKey(NAME, UID, ref.sha256, revision=12)
    assert parse_key(key) == BlobKey(NAME, UID, key.split("/")[3], filename=application.name)


# The cluster's mark.


def test_a_store_belongs_to_one_cluster_and_root(blobs: Blobs, root: Path) -> None:
    assert blobs.read_cluster() is None
    assert blobs.claim_cluster(MARK) == MARK
    assert blobs.claim_cluster(MARK) == MARK
    assert Blobs(FileStore(root)).read_cluster() == MARK
    assert (root / "cluster.json").read_bytes() == (GOLDEN / "cluster.v1.json").read_bytes()
    for other in (replace(MARK, id="other"), replace(MARK, root="/other")):
        with pytest.raises(Conflict, match="belongs to cluster prod"):
            blobs.claim_cluster(other)
    assert [path.name for path in root.iterdir() if path.name != ".tmp"] == ["cluster.json"]


def test_of_two_clusters_that_claim_at_once_one_wins(root: Path) -> None:
    def claim(number: int) -> str:
        try:
            return Blobs(FileStore(root)).claim_cluster(replace(MARK, id=f"c{number}")).id
        except Conflict:
            return "conflict"

    with ThreadPoolExecutor(8) as pool:
        outcomes = sorted(pool.map(claim, range(8)))
    winner = Blobs(FileStore(root)).read_cluster()
    assert winner is not None
    assert outcomes == sorted([winner.id, *["conflict"] * 7])


def test_a_corrupt_mark_is_not_overwritten(blobs: Blobs, root: Path) -> None:
    root.mkdir()
    (root / "cluster.json").write_text("{}")
    with pytest.raises(Corrupt, match="cluster.json"):
        blobs.claim_cluster(MARK)


class Overwriting(FileStore):
    """A store that accepts the condition and ignores it, as some S3 servers do."""

    def create(self, key: str, data: bytes) -> None:
        self.delete(key)
        super().create(key, data)


def test_a_store_that_overwrites_is_refused(root: Path) -> None:
    with pytest.raises(AccessDenied, match="If-None-Match"):
        Blobs(Overwriting(root)).claim_cluster(MARK)
    assert Blobs(FileStore(root)).read_cluster() is None
    assert [path.name for path in root.iterdir()] == [".tmp"]


def test_a_blob_missing_from_a_store_without_its_mark_proves_nothing(blobs: Blobs, root: Path) -> None:
    blobs.claim_cluster(MARK)
    ref = blobs.put_spec(NAME, UID, 1, SPEC)
    (root / ref.key).unlink()
    with pytest.raises(NotFound):
        blobs.read_spec(ref)
    for content in (b"{}", None):  # the empty mount point of a share that is not mounted, or worse
        alter(root / "cluster.json", content) if content else (root / "cluster.json").unlink()
        with pytest.raises(Unreachable, match="mounted"):
            blobs.read_spec(ref)
