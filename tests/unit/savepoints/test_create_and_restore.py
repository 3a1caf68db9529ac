"""Savepoints of checkpoints that Spark wrote: what is in them, what they say of themselves, and where they lead back to."""

from __future__ import annotations

import json
import shutil
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from supervisor.checkpoint.judge import judge
from supervisor.checkpoint.layout import parse_lineage, parse_metadata
from supervisor.clients.store import file_objects
from supervisor.clients.store.area import Area, open_area
from supervisor.errors import Conflict, Corrupt, InvalidInput, NotFound, Unreachable
from supervisor.model.going_back import GOES_ON, GoingBack, ReturnStep
from supervisor.savepoints.choice import belongs, is_needed
from supervisor.savepoints.create import ROUNDS_MAX, Creation, manifest_at
from supervisor.savepoints.manifest import SavepointStage, checked_id, decode_begun, decode_manifest, new_id
from supervisor.savepoints.restore import read_savepoint, restore, verify
from supervisor.savepoints.restore_mark import MARK
from supervisor.settings.policy import SavepointBounds
from supervisor.spec.s3a import S3Access
from tests.testbed.moto import MotoServer
from tests.unit.checkpoint.golden import NAMES, inspected, only, unpack, without, write
from tests.unit.checkpoint.savepoints import (
    AT,
    Moving,
    Target,
    area,
    begun,
    contents,
    create,
    files,
    place,
    shelf,
)
from tests.unit.checkpoint.test_inspect import upload


def later(source: Path, batch: int, operators: int = 1, partitions: int = 2) -> None:
    """Another batch runs and commits, as Spark writes it. ``source``: the golden ``hdfs-v1``."""
    write(source, f"offsets/{batch}", (source / f"offsets/{batch - 1}").read_bytes())
    for operator in range(operators):
        for partition in range(partitions):
            write(source, f"state/{operator}/{partition}/{batch + 1}.delta", b"x" * 50)
    write(source, f"commits/{batch}", (source / f"commits/{batch - 1}").read_bytes())


# -- what belongs to it -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("key", "kept", "needed"),
    [
        ("metadata", True, True),
        (".metadata.crc", True, True),
        ("offsets/7", True, True),
        ("offsets/.7.crc", True, True),
        ("offsets/8", False, True),
        ("offsets/.8.crc", False, True),
        ("offsets/5", True, False),
        ("commits/7", True, True),
        ("commits/8", False, True),
        ("commits/notes", False, True),
        ("offsets/.8.1b4e.tmp", False, True),
        ("commits/.7.1b4e.tmp.crc", False, True),
        ("sources/0/9", True, True),
        ("sources/0/9.compact", True, True),
        ("sources/0/.12.8ac.tmp", False, True),
        ("state/0/1/8.delta", True, False),
        ("state/0/1/9.delta", False, False),
        ("state/0/1/8.delta.crc", True, False),
        ("state/0/1/.8.delta.crc.crc", True, False),
        ("state/0/1/.9.delta.crc", False, False),
        ("state/0/1/left/8.snapshot", True, False),
        ("state/0/1/left/9.snapshot", False, False),
        ("state/0/1/8_ab-cd.changelog", True, False),
        ("state/0/1/9_ab-cd.zip", False, False),
        ("state/0/1/SSTs/000012-ab.sst", True, True),
        ("state/0/0/_metadata/schema", True, True),
        ("state/0/_metadata/metadata", True, True),
        ("state/0/_metadata/v2/7", True, True),
        ("state/0/_metadata/v2/8", False, True),
        ("state/0/_stateSchema/default/9_ab", True, True),
    ],
)
def test_what_belongs_to_the_boundary_after_batch_7(key: str, kept: bool, needed: bool) -> None:
    assert belongs(key, 7) is kept
    assert is_needed(key, 7) is needed or not kept


@pytest.mark.parametrize("name", NAMES)
def test_a_copy_is_whole_and_ends_at_the_newest_commit(name: str, tmp_path: Path) -> None:
    source = unpack(name, tmp_path)
    before = contents(source)
    manifest = create(source, tmp_path / "store")
    query = only(inspected(source))
    assert [(each.id, each.batch) for each in manifest.queries] == [(query.id, query.commits.newest)]
    copied = only(inspected(place(tmp_path / "store") / "data"))
    assert (copied.offsets.newest, copied.lag, copied.id) == (query.commits.newest, 0, query.id)
    assert judge(inspected(place(tmp_path / "store") / "data")) == ()
    assert contents(source) == before
    assert verify(area(place(tmp_path / "store"))).problems == ()
    data = place(tmp_path / "store") / "data"
    assert (manifest.objects, manifest.bytes) == (
        len([*files(data)]),
        sum((data / key).stat().st_size for key in files(data)),
    )


def test_several_queries_each_at_its_own_boundary(tmp_path: Path) -> None:
    unpack("files", tmp_path / "ck")
    unpack("hdfs-v1", tmp_path / "ck")
    (tmp_path / "ck" / "notes").mkdir()
    (tmp_path / "ck" / "notes" / "readme").write_text("mine")
    manifest = create(tmp_path / "ck", tmp_path / "store")
    assert [each.path for each in manifest.queries] == ["files", "hdfs-v1"]
    assert manifest.left_out == 1
    assert not (place(tmp_path / "store") / "data" / "notes").exists()


def test_nothing_to_save(tmp_path: Path) -> None:
    with pytest.raises(NotFound):
        create(tmp_path / "none", tmp_path / "store")
    source = unpack("hdfs-v1", tmp_path)
    shutil.rmtree(source / "commits")
    with pytest.raises(Conflict, match="nothing to save"):
        create(source, tmp_path / "store", "two")


@pytest.mark.parametrize(
    ("bounds", "why"),
    [
        ({"objects": 100}, r"more than 100 objects \(policy.savepoints.objects\): nothing was copied"),
        ({"size": "2m"}, r"more than 2m \(policy.savepoints.size\): nothing was copied"),
    ],
)
def test_a_checkpoint_beyond_the_bounds_is_refused_by_name(
    bounds: dict[str, object], why: str, tmp_path: Path
) -> None:
    source, store = unpack("files", tmp_path), tmp_path / "store"
    for number in range(120):
        write(source, f"sources/0/extra-{number}", b"x" * 20_000)
    target, what = area(place(store)), begun(source, place(store))
    with pytest.raises(InvalidInput, match=why):
        Creation(area(source), target, what, lambda: AT, bounds=SavepointBounds.model_validate(bounds)).run()
    assert not [*files(store)]
    Creation(area(source), target, what, lambda: AT, bounds=SavepointBounds()).run()


def test_a_disk_without_room_is_told_before_anything_is_copied(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source, store = unpack("files", tmp_path), tmp_path / "store"
    needed = sum(path.stat().st_size for path in source.rglob("*") if path.is_file())
    asked: list[str] = []

    def free(path: str) -> int:
        asked.append(path)
        return file_objects.ROOM_LEFT_BYTES + needed // 2

    with monkeypatch.context() as patch:
        patch.setattr(file_objects, "free_bytes", free)
        with pytest.raises(Unreachable, match="has no room for .* MiB have to be left"):
            create(source, store)
    assert asked == [str(place(store))] and not [each for each in files(store) if "/data/" in each]
    create(source, store)
    with monkeypatch.context() as patch:
        patch.setattr(file_objects, "free_bytes", free)
        with pytest.raises(Unreachable, match="has no room"):
            restore(area(place(store)), area(tmp_path / "target"), AT, GOES_ON)
    assert {*files(tmp_path / "target")} == {MARK}
    assert restore(area(place(store)), area(tmp_path / "target"), AT, GOES_ON).did


def test_a_damaged_checkpoint_is_no_savepoint(tmp_path: Path) -> None:
    source = unpack("hdfs-v1", tmp_path)
    newest = only(inspected(source)).commits.newest
    without(source, f"state/0/1/{(newest or 0) + 1}.delta")
    with pytest.raises(Corrupt, match="lacks version"):
        create(source, tmp_path / "store")
    (entry,) = shelf(tmp_path / "store").entries("clicks")
    assert entry.stage is SavepointStage.INCOMPLETE
    (source / "metadata").unlink()
    with pytest.raises(Corrupt, match="query id"):
        create(source, tmp_path / "store", "two")


# -- Spark goes on meanwhile ----------------------------------------------------------------------------------------


def created_while(source: Path, tmp_path: Path, before_copy: Callable[[str], None]) -> tuple[Creation, Any]:
    what = begun(source, place(tmp_path / "store"))
    moving: Any = Moving(area(source), before_copy)
    target: Any = Target(area(place(tmp_path / "store")))
    creation = Creation(moving, target, what, lambda: AT)
    return creation, creation.run


def test_what_the_clean_up_takes_and_nobody_needs_is_left_out(tmp_path: Path) -> None:
    source = unpack("hdfs-v1", tmp_path)
    gone = {"offsets/10", "commits/9", "commits/10"}

    def clean_up(key: str) -> None:
        if key in gone:
            without(source, key)

    creation, run = created_while(source, tmp_path, clean_up)
    manifest = run()
    assert creation.rounds == 1
    keys = {each.key for each in read_savepoint(area(place(tmp_path / "store")))[1]}
    assert not gone & keys
    assert "offsets/11" in keys
    assert verify(area(place(tmp_path / "store"))).problems == ()
    assert manifest.queries[0].batch == only(inspected(source)).commits.newest


def test_when_something_needed_has_gone_a_newer_batch_is_taken(tmp_path: Path) -> None:
    source = unpack("hdfs-v1", tmp_path)
    newest = only(inspected(source)).commits.newest
    assert newest is not None
    seen: list[str] = []

    def batch_passes(key: str) -> None:
        seen.append(key)
        if len(seen) == 3:  # the boundary that was chosen is cleaned up, a newer one is there
            later(source, newest + 1)
            without(source, f"commits/{newest}")

    creation, run = created_while(source, tmp_path, batch_passes)
    manifest = run()
    assert (creation.rounds, manifest.queries[0].batch) == (2, newest + 1)
    assert verify(area(place(tmp_path / "store"))).problems == ()
    assert len(seen) < 2 * manifest.objects, "what was copied is not copied again"
    assert {f"state/0/0/{newest + 2}.delta", f"offsets/{newest + 1}"} <= {
        each.key for each in read_savepoint(area(place(tmp_path / "store")))[1]
    }


def test_a_state_file_that_is_replaced_during_the_copy_is_looked_at_again(tmp_path: Path) -> None:
    source = unpack("hdfs-v1", tmp_path)
    newest = only(inspected(source)).commits.newest
    assert newest is not None
    key = f"state/0/0/{newest + 1}.delta"
    replaced = []

    def replace(copied: str) -> None:
        if copied == key and not replaced:
            replaced.append(key)
            write(source, key, (source / key).read_bytes() + b"#")

    _, run = created_while(source, tmp_path, replace)
    run()
    assert (place(tmp_path / "store") / "data" / key).read_bytes() == (source / key).read_bytes()


def test_a_checkpoint_that_is_cleaned_up_faster_than_copied_is_no_savepoint(tmp_path: Path) -> None:
    source = unpack("hdfs-v1", tmp_path)
    batches = [only(inspected(source)).commits.newest or 0]

    def always(key: str) -> None:
        if key == f"commits/{batches[-1]}":
            later(source, batches[-1] + 1)
            without(source, key)
            batches.append(batches[-1] + 1)

    creation, run = created_while(source, tmp_path, always)
    with pytest.raises(Conflict, match="minBatchesToRetain"):
        run()
    assert creation.rounds == ROUNDS_MAX
    assert manifest_at(area(place(tmp_path / "store"))) is None


def test_a_batch_that_is_not_committed_leaves_nothing_in_it(tmp_path: Path) -> None:
    """Its offset, its state, and a snapshot of it, which a later start would take for its own."""
    source = unpack("hdfs-v1", tmp_path)
    newest = only(inspected(source)).commits.newest
    assert newest is not None
    for key in (f"offsets/{newest + 1}", f"state/0/0/{newest + 2}.delta", f"state/0/0/{newest + 2}.snapshot"):
        write(source, key, b"v1\n{}")
    create(source, tmp_path / "store")
    keys = {each.key for each in read_savepoint(area(place(tmp_path / "store")))[1]}
    assert not [key for key in keys if f"/{newest + 2}." in key or key == f"offsets/{newest + 1}"]


# -- again, restored, verified, deleted -----------------------------------------------------------------------------


def test_created_again_it_is_the_same(tmp_path: Path) -> None:
    source = unpack("hdfs-v1", tmp_path)
    first = create(source, tmp_path / "store")
    later(source, (only(inspected(source)).commits.newest or 0) + 1)
    assert create(source, tmp_path / "store") == first


@pytest.mark.parametrize("name", ["hdfs-v1", "rocksdb-v2", "join", "files"])
def test_restored_it_is_a_checkpoint_without_traces(name: str, tmp_path: Path) -> None:
    create(unpack(name, tmp_path), tmp_path / "store")
    saved, target = area(place(tmp_path / "store")), tmp_path / "fresh" / "ck"
    assert restore(saved, area(target), AT, GOES_ON).did
    assert contents(target) == contents(place(tmp_path / "store") / "data")
    assert judge(inspected(target)) == ()
    assert not [*saved.items("restores")]
    again = restore(saved, area(target), AT, GOES_ON)
    assert not again.did, "asked for again after the answer was lost: fine"


def renaming(tmp_path: Path, name: str = "hdfs-v1") -> tuple[Area, Path, tuple[str, ...]]:
    """A savepoint, where its copy goes, and the ids of its queries."""
    manifest = create(unpack(name, tmp_path), tmp_path / "store")
    return area(place(tmp_path / "store")), tmp_path / "copy", tuple(each.id for each in manifest.queries)


RENAMES = GoingBack(ReturnStep.NEW_IDS)


def killed(done: int, _of: int) -> None:
    if done == 3:
        raise RuntimeError("killed")


def test_a_decision_that_refuses_copies_nothing(tmp_path: Path) -> None:
    saved, target, _ = renaming(tmp_path)
    with pytest.raises(Conflict, match="rows would be lost"):
        restore(saved, area(target), AT, GoingBack(ReturnStep.REFUSE, "rows would be lost"))
    assert not target.exists() and not [*saved.items("restores")]


def test_a_copy_with_new_ids_says_them_and_is_whole(tmp_path: Path) -> None:
    """Who starts it expects these ids; the checksum file beside the metadata is of the new one."""
    saved, target, old = renaming(tmp_path)
    made = restore(saved, area(target), AT, RENAMES)
    data = (target / "metadata").read_bytes()
    assert tuple(each.id for each in made.queries) == (parse_metadata(data),)
    assert parse_lineage(data) == old and parse_metadata(data) not in old
    assert judge(inspected(target)) == ()
    again = restore(saved, area(target), AT, RENAMES)
    assert (again.did, again.queries) == (False, made.queries), "it is that copy"
    with pytest.raises(Conflict, match="is not empty"):
        restore(saved, area(target), AT, GOES_ON)


def test_a_copy_that_keeps_its_ids_is_no_copy_with_new_ones(tmp_path: Path) -> None:
    """Its sink would know the batches of the old ids again. Nor is a copy of another query, whose id is unrelated."""
    saved, target, old = renaming(tmp_path)
    made = restore(saved, area(target), AT, GOES_ON)
    assert tuple(each.id for each in made.queries) == old
    with pytest.raises(Conflict, match="is not empty"):
        restore(saved, area(target), AT, RENAMES)
    metadata = target / "metadata"
    metadata.write_bytes(metadata.read_bytes().replace(old[0].encode(), str(uuid.uuid4()).encode()))
    with pytest.raises(Conflict, match="is not empty"):
        restore(saved, area(target), AT, RENAMES)


def test_an_interrupted_copy_goes_on_with_the_ids_that_it_has(tmp_path: Path) -> None:
    """Two ids for one copy: what was told to the job would not be what lies there."""
    saved, target, old = renaming(tmp_path)
    new = str(uuid.uuid4())
    manifest, _ = read_savepoint(saved)
    mark = {"v": 1, "savepoint": manifest.id, "objects": manifest.objects_sha256, "ids": {old[0]: new}}
    target.mkdir()
    (target / MARK).write_text(json.dumps(mark))
    with pytest.raises(RuntimeError, match="killed"):
        restore(saved, area(target), AT, RENAMES, killed)
    assert json.loads((target / MARK).read_bytes())["ids"] == {old[0]: new}
    assert [each.id for each in restore(saved, area(target), AT, RENAMES).queries] == [new]
    assert parse_metadata((target / "metadata").read_bytes()) == new


def test_an_interrupted_copy_with_new_ids_can_become_one_with_the_old(tmp_path: Path) -> None:
    saved, target, old = renaming(tmp_path)
    restore(saved, area(target), AT, RENAMES)
    manifest, _ = read_savepoint(saved)
    mark = {"v": 1, "savepoint": manifest.id, "objects": manifest.objects_sha256, "ids": {}}
    (target / MARK).write_text(json.dumps(mark))
    restore(saved, area(target), AT, GOES_ON)
    assert parse_metadata((target / "metadata").read_bytes()) == old[0]
    assert contents(target) == contents(place(tmp_path / "store") / "data")


def test_nothing_is_restored_over_anything(tmp_path: Path) -> None:
    source = unpack("hdfs-v1", tmp_path)
    create(source, tmp_path / "store")
    before = contents(source)
    saved = area(place(tmp_path / "store"))
    with pytest.raises(Conflict, match="is not empty"):
        restore(saved, area(source), AT, GOES_ON)
    assert contents(source) == before
    with pytest.raises(Conflict, match="overlap"):
        restore(saved, area(place(tmp_path / "store") / "data"), AT, GOES_ON)
    create(source, tmp_path / "store", "two")
    (tmp_path / "half").mkdir()
    (tmp_path / "half" / MARK).write_text(json.dumps({"v": 1, "savepoint": "other", "objects": "of another"}))
    with pytest.raises(Conflict):
        restore(saved, area(tmp_path / "half"), AT, GOES_ON)


def test_a_damaged_savepoint_is_told_and_not_restored(tmp_path: Path) -> None:
    create(unpack("hdfs-v1", tmp_path), tmp_path / "store")
    saved, data = area(place(tmp_path / "store")), place(tmp_path / "store") / "data"
    whole = (data / "offsets/11").read_bytes()
    (data / "offsets/11").write_bytes(whole[:-1] + b"#")
    assert verify(saved).problems[0] == "offsets/11 has another content"
    with pytest.raises(Corrupt, match="another content"):
        restore(saved, area(tmp_path / "one"), AT, GOES_ON)
    (data / "offsets/11").write_bytes(whole + b"#")
    with pytest.raises(Corrupt, match="bytes, not"):
        restore(saved, area(tmp_path / "two"), AT, GOES_ON)
    (data / "offsets/11").unlink()
    assert verify(saved).problems[0] == "offsets/11 is missing"
    assert not (tmp_path / "two").exists()
    (listed,) = place(tmp_path / "store").glob("objects-*.json")
    listed.write_bytes(listed.read_bytes()[:-1] + b" }")
    with pytest.raises(Corrupt, match="vouches"):
        verify(saved)
    listed.unlink()
    with pytest.raises(Corrupt, match="is missing"):
        restore(saved, area(tmp_path / "three"), AT, GOES_ON)


def test_what_lies_beside_the_copies_does_not_matter(tmp_path: Path) -> None:
    """Left of a creation that was killed, before the checkpoint was begun anew with lower batch numbers."""
    source = unpack("hdfs-v1", tmp_path)
    (place(tmp_path / "store") / "data" / "offsets").mkdir(parents=True)
    (place(tmp_path / "store") / "data" / "offsets" / "99").write_text("v1\n{}\n-")
    create(source, tmp_path / "store")
    saved = area(place(tmp_path / "store"))
    assert verify(saved).problems == ()
    restore(saved, area(tmp_path / "ck"), AT, GOES_ON)
    assert not (tmp_path / "ck" / "offsets" / "99").exists()


def test_delete_refuses_while_it_is_restored(tmp_path: Path) -> None:
    create(unpack("files", tmp_path), tmp_path / "store")
    on, saved = shelf(tmp_path / "store"), area(place(tmp_path / "store"))
    saved.write("restores/ab.json", json.dumps({"v": 1, "target": "file:///ck", "at": AT}).encode())
    with pytest.raises(Conflict, match="restored to file:///ck"):
        on.delete("clicks", "one")
    assert on.find("clicks", "one").stage is SavepointStage.COMPLETE
    on.delete("clicks", "one", force=True)
    assert not [*files(tmp_path / "store")]
    with pytest.raises(NotFound):
        on.delete("clicks", "one")
    with pytest.raises(NotFound):
        on.find("clicks", "one")


def test_a_restore_that_begins_during_the_delete_keeps_it(tmp_path: Path) -> None:
    create(unpack("files", tmp_path), tmp_path / "store")
    saved = area(place(tmp_path / "store"))

    class Begins:
        def __init__(self, inner: Any) -> None:
            self._inner = inner

        def __getattr__(self, name: str) -> Any:
            return getattr(self._inner, name)

        def remove(self, key: str) -> None:
            self._inner.write("restores/ab.json", b"{}")
            self._inner.remove(key)

    on = shelf(tmp_path / "store", lambda each: Begins(each) if each.location == saved.location else each)
    with pytest.raises(Conflict):
        on.delete("clicks", "one")
    assert verify(saved).problems == ()


def test_a_restore_leaves_its_mark_before_it_reads_anything(tmp_path: Path) -> None:
    """Who deletes the savepoint looks for marks and removes the manifest: one read before the mark would be of a copy that goes."""
    create(unpack("files", tmp_path), tmp_path / "store")
    calls: list[str] = []
    saved: Any = area(place(tmp_path / "store"))

    def heard(name: str) -> Callable[..., Any]:
        real = getattr(saved, name)
        return lambda *args: calls.append(f"{name} {args[0] if args else ''}") or real(*args)

    for name in ("read", "write", "items", "remove"):
        setattr(saved, name, heard(name))
    restore(saved, area(tmp_path / "copy"), AT, GOES_ON)
    assert calls[0].startswith("write restores/"), calls[:3]
    assert calls[-1].startswith("remove restores/")


def heard(area: Any, calls: list[str], *names: str) -> Any:
    """``area``, each call of these methods noted in ``calls`` before it is made."""

    def noting(name: str) -> Callable[..., Any]:
        real = getattr(area, name)
        return lambda *args, **more: (
            calls.append(f"{name} {args[0] if args else ''}".strip()) or real(*args, **more)
        )

    for name in names:
        setattr(area, name, noting(name))
    return area


def test_a_restore_takes_its_mark_off_the_target_last_of_all(tmp_path: Path) -> None:
    """Until then a restore that was killed goes on, and nothing else takes the copy for a checkpoint: not before it was compared,
    and not before it is on the disk."""
    create(unpack("files", tmp_path), tmp_path / "store")
    calls: list[str] = []
    target = heard(area(tmp_path / "copy"), calls, "items", "read", "write", "flush", "remove")
    restore(area(place(tmp_path / "store")), target, AT, GOES_ON)
    end = calls.index("flush")
    assert calls[end : end + 2] == ["flush", f"remove {MARK}"], calls[-5:]
    assert {*calls[end + 2 :]} == {"read metadata", "read .metadata.crc"}, (
        "was it taken over just before that?"
    )


def test_whether_it_is_still_wanted_is_asked_before_the_manifest_is_there(tmp_path: Path) -> None:
    """Afterwards it would be a savepoint that nobody lists, if the process dies over the question."""
    source, calls = unpack("files", tmp_path), list[str]()
    on, what = shelf(tmp_path / "store"), begun(source, place(tmp_path / "store"))
    on.begin(what)
    target = heard(on.area_of(what), calls, "write", "create", "flush")
    Creation(area(source), target, what, lambda: AT, still_wanted=lambda: calls.append("wanted?")).run()
    assert calls[-2:] == ["wanted?", "create manifest.json"] and any(
        one.startswith("write objects") for one in calls[:-2]
    ), calls


def test_deleted_while_it_is_created(tmp_path: Path) -> None:
    source = unpack("files", tmp_path)
    on, what = shelf(tmp_path / "store"), begun(source, place(tmp_path / "store"))
    on.begin(what)

    def wanted() -> None:
        on.delete("clicks", "one")
        on.require(what)

    with pytest.raises(Conflict, match="was deleted"):
        Creation(area(source), on.area_of(what), what, lambda: AT, still_wanted=wanted).run()
    assert manifest_at(area(place(tmp_path / "store"))) is None


def test_a_savepoint_beside_its_checkpoint_has_its_entry_in_the_store(tmp_path: Path) -> None:
    source, elsewhere = unpack("files", tmp_path), tmp_path / "files.savepoints" / "clicks" / "one"
    on, what = shelf(tmp_path / "store"), begun(source, elsewhere)
    on.begin(what)
    Creation(area(source), on.area_of(what), what, lambda: AT).run()
    (entry,) = on.entries("clicks")
    assert (entry.stage, entry.begun) == (SavepointStage.COMPLETE, what)
    assert on.names() == ("clicks",)
    on.delete("clicks", "one")
    assert not [*files(tmp_path / "store"), *files(tmp_path / "files.savepoints")]


# -- what is written down -------------------------------------------------------------------------------------------

MANIFEST_V1 = (
    b'{"v":1,"id":"one","name":"clicks","uid":"u1","attempt":2,"source":"s3://b/ck","location":"s3://b/s/one","queries":'
    b'[{"path":"","id":"q","batch":7}],"objects":3,"bytes":9,"objects_sha256":"ab","begun_at":"t","created_at":"t2",'
    b'"software":"0.1.0","left_out":1,"of_a_newer_version":[1]}'
)
BEGUN_V1 = (
    b'{"v":1,"id":"one","name":"clicks","uid":"u1","attempt":2,"source":"s3://b/ck","location":"s3://b/s/one","access":'
    b'{"endpoint_url":"http://minio","region":null,"path_style":true},"at":"t","software":"0.1.0"}'
)


def test_version_1_stays_readable() -> None:
    manifest = decode_manifest(MANIFEST_V1, "there")
    assert (manifest.queries[0].batch, manifest.objects, manifest.left_out, manifest.attempt) == (7, 3, 1, 2)
    assert decode_begun(BEGUN_V1, "there").access == S3Access("http://minio", None, True)


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"[]",
        b"{}",
        b'{"v":1}',
        MANIFEST_V1.replace(b'"id":"one"', b'"id":1'),
        MANIFEST_V1.replace(b'"batch":7', b'"batch":"x"'),
        MANIFEST_V1.replace(b'"batch":7', b'"batch":1e999'),
        MANIFEST_V1.replace(b'"batch":7', b'"batch":-Infinity'),
        b"[" * 5000,
        MANIFEST_V1.replace(b'"batch":7', b'"batch":1' + b"0" * 400),
        MANIFEST_V1.replace(b'"id":"one"', b'"id":"\\ud800"'),
        MANIFEST_V1.replace(b'"objects_sha256":"', b'"objects_sha256":"../'),
    ],
)
def test_what_is_no_manifest(data: bytes) -> None:
    with pytest.raises(Corrupt, match="there"):
        decode_manifest(data, "there")


def test_what_is_no_entry() -> None:
    for change in (
        {"every_s": float("inf")},
        {"every_s": float("nan")},
        {"every_s": -1.0},
        {"attempt": 1e999},
        {"access": {"endpoint_url": 5}},
        {"access": {"path_style": "yes"}},
        {"attempt": True},
    ):
        with pytest.raises(Corrupt, match="there"):
            decode_begun(json.dumps({**json.loads(BEGUN_V1), **change}).encode(), "there")


def test_the_copies_of_an_entry_lie_nowhere_but_in_a_place_of_its_own(tmp_path: Path) -> None:
    """Else its deletion would take a checkpoint, or what another one consists of."""
    source, store = unpack("files", tmp_path), tmp_path / "store"
    for savepoint in ("one", "two"):
        create(source, store, savepoint)
    before = contents(source), contents(place(store, "two"))
    entry = place(store, "one") / "begun.json"
    for where in (source, place(store, "two"), store, store / "savepoints", store / "savepoints" / "clicks"):
        entry.write_text(json.dumps({**json.loads(entry.read_bytes()), "location": f"file://{where}"}))
        on = shelf(store)
        assert [each.stage for each in on.entries("clicks")] == [
            SavepointStage.UNKNOWN,
            SavepointStage.COMPLETE,
        ]
        with pytest.raises(Corrupt, match="no place of savepoint one of clicks"):
            on.delete("clicks", "one")
    on.delete("clicks", "one", force=True)
    assert (contents(source), contents(place(store, "two"))) == before and not place(store, "one").exists()


def test_a_newer_format_is_told() -> None:
    with pytest.raises(Corrupt, match="newer"):
        decode_manifest(MANIFEST_V1.replace(b'"v":1', b'"v":2'), "there")


def test_ids() -> None:
    assert new_id("2026-11-22T03:15:09.123Z", "ab12") == "20261122-031509-ab12"
    assert checked_id("before-upgrade") == "before-upgrade"
    for bad in ("", "A", "a/b", "..", "-a", "a" * 64):
        with pytest.raises(InvalidInput):
            checked_id(bad)


# -- on S3 ----------------------------------------------------------------------------------------------------------


def test_on_s3(tmp_path: Path, moto_server: MotoServer, s3_bucket: str) -> None:
    """Created, resumed, verified, restored, damaged, deleted; the store in another bucket than the checkpoint."""
    access, other = S3Access(moto_server.endpoint_url), moto_server.new_bucket()
    location = upload(unpack("files", tmp_path), moto_server, s3_bucket)
    source = open_area(location, access)

    def there(path: str) -> Area:
        return open_area(f"s3://{other}/store/savepoints/{path}", access)

    what = begun(Path("/"), Path("/"))
    manifest = Creation(source, there("clicks/one"), what, lambda: AT).run()
    assert manifest.queries[0].batch == 2
    assert verify(there("clicks/one")).problems == ()
    asked = there("clicks/one")
    there("clicks/one").remove("manifest.json")
    assert Creation(source, asked, what, lambda: AT).run() == manifest
    assert asked.requests < manifest.objects, "copies that are there are not made again"
    target = open_area(f"s3a://{s3_bucket}/fresh", access)
    assert restore(there("clicks/one"), target, AT, GOES_ON).did
    assert not restore(there("clicks/one"), target, AT, GOES_ON).did
    assert judge(inspected(f"s3://{s3_bucket}/fresh", access)) == ()
    there("clicks/one").write("data/offsets/1", b"v1\n{}\n-")
    assert [problem for problem in verify(there("clicks/one")).problems if "offsets/1" in problem]
