"""What somebody else does to a savepoint, or to the target of a restore, while it is made, copied or deleted; and what an
interrupted one has left there."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from supervisor.checkpoint.layout import parse_metadata, renamed_metadata
from supervisor.checkpoint.schema_paths import hadoop_checksum
from supervisor.clients.store.area import PARTIAL, Area, Item
from supervisor.errors import Conflict, Corrupt, NotFound
from supervisor.model.going_back import GOES_ON, GoingBack, ReturnStep
from supervisor.savepoints import restore as restore_module
from supervisor.savepoints.create import Creation, manifest_at
from supervisor.savepoints.manifest import BEGUN, MANIFEST, SavepointStage, decode_manifest, encode_manifest
from supervisor.savepoints.restore import MARK, read_savepoint, restore, verify
from supervisor.savepoints.shelf import Shelf
from tests.unit.checkpoint.golden import inspected, only, unpack, without
from tests.unit.checkpoint.savepoints import AT, area, begun, contents, create, place, shelf

RENAMES = GoingBack(ReturnStep.NEW_IDS)
STATE = "state/0/0/1.delta"


@pytest.fixture
def source(tmp_path: Path) -> Path:
    return unpack("hdfs-v1", tmp_path)


@pytest.fixture
def store(tmp_path: Path) -> Path:
    return tmp_path / "store"


@pytest.fixture
def saved(source: Path, store: Path) -> Area:
    create(source, store)
    return area(place(store))


def stale(path: Path, whole: bytes) -> None:
    """As many bytes as the object has, and other ones."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"#" * len(whole))


class Meddled:
    """An area of which one method does something else first."""

    def __init__(self, inner: Area, method: str, before: Callable[..., object]) -> None:
        self._inner: Any = inner
        self._method, self._before = method, before
        self.location = inner.location

    def __getattr__(self, name: str) -> Any:
        real = getattr(self._inner, name)
        if name != self._method:
            return real

        def call(*given: Any, **more: Any) -> Any:
            self._before(*given, **more)
            return real(*given, **more)

        return call


# -- creation ---------------------------------------------------------------------------------------------------------


def test_what_an_interrupted_creation_has_copied_of_an_older_file_is_copied_anew(
    source: Path, store: Path
) -> None:
    """A state file that Spark has written again since has as many bytes as before, often."""
    for key in (STATE, "offsets/12"):
        stale(place(store) / "data" / key, (source / key).read_bytes())
    create(source, store)
    assert verify(area(place(store))).problems == ()
    assert (place(store) / "data" / STATE).read_bytes() == (source / STATE).read_bytes()


def test_a_boundary_that_has_gone_when_its_objects_are_listed_is_none(source: Path, store: Path) -> None:
    """Else the savepoint would say that it is after a batch which its copies do not have."""
    on, what = shelf(store), begun(source, place(store))
    on.begin(what)
    gone = iter(["commits/12"])

    def goes(_folder: str = "", *, whole: bool = False) -> None:
        for key in gone if whole else ():
            without(source, key)

    slow: Any = Meddled(area(source), "items", goes)
    made = Creation(slow, on.area_of(what), what, lambda: AT).run()
    (query,) = made.queries
    assert query.batch == 11 == only(inspected(place(store) / "data")).commits.newest


def test_what_is_rewritten_while_it_is_copied_is_not_said_to_be_missing(source: Path, store: Path) -> None:
    """Twice in the same place, at the same batches: nothing is wrong with a checkpoint that is still written to."""
    on, what = shelf(store), begun(source, place(store))
    on.begin(what)
    newest = "state/0/0/13.delta"
    whole, rewritten = (source / newest).read_bytes(), iter(range(2))

    def rewrites(_source: Area, item: Item, _key: str) -> None:
        if item.key == newest and next(rewritten, None) is not None:
            (source / newest).write_bytes(whole + b"#")
            (source / newest).write_bytes(whole)

    target: Any = Meddled(on.area_of(what), "copy_from", rewrites)
    creation = Creation(area(source), target, what, lambda: AT)
    creation.run()
    assert creation.rounds == 3
    assert verify(area(place(store))).problems == ()


def test_what_a_first_listing_lacks_is_looked_for_again(source: Path, store: Path) -> None:
    """A listing that is made while the checkpoint is written to is of no one moment."""
    on, what = shelf(store), begun(source, place(store))
    on.begin(what)
    newest = source / "state/0/0/13.delta"
    content, listings = newest.read_bytes(), iter(range(1, 100))

    def appears(_folder: str = "", *, whole: bool = False) -> None:
        if whole:
            newest.unlink() if next(listings) == 1 else newest.write_bytes(content)

    slow: Any = Meddled(area(source), "items", appears)
    Creation(slow, on.area_of(what), what, lambda: AT).run()
    assert verify(area(place(store))).problems == ()
    assert (place(store) / "data/state/0/0/13.delta").exists()


def test_a_log_entry_that_is_not_what_its_checksum_says_makes_no_savepoint(source: Path, store: Path) -> None:
    """Spark would not read it either, in the checkpoint or in a copy."""
    checksum = source / "offsets/.12.crc"
    *begin, last = checksum.read_bytes()
    checksum.write_bytes(bytes([*begin, last ^ 1]))
    with pytest.raises(Corrupt, match="not whole"):
        create(source, store)
    assert manifest_at(area(place(store))) is None


def test_what_lies_beside_a_query_is_left_out(source: Path, store: Path) -> None:
    (source / "exports").mkdir()
    (source / "exports" / "12").write_text("of the application")
    manifest = create(source, store)
    assert manifest.left_out == 1
    assert not (place(store) / "data" / "exports").exists()


def test_a_copy_that_lacks_an_object_gets_no_manifest(source: Path, store: Path) -> None:
    """Nobody needs the oldest state to go on, so nothing else would notice that it has gone."""
    on, what = shelf(store), begun(source, place(store))
    on.begin(what)

    def removes(done: int, of: int) -> None:
        if done == of:
            (place(store) / "data" / STATE).unlink(missing_ok=True)

    creation = Creation(area(source), on.area_of(what), what, lambda: AT, report_progress=removes)
    with pytest.raises(Corrupt, match="written to by somebody else: .*is missing"):
        creation.run()
    assert manifest_at(area(place(store))) is None


def test_who_was_faster_has_made_the_savepoint(source: Path, store: Path) -> None:
    """Two complete it at once: what is told is what is there."""
    on, what = shelf(store), begun(source, place(store))
    on.begin(what)
    inner = on.area_of(what)

    def other_completes(key: str, data: bytes) -> None:
        assert key == MANIFEST
        inner.create(
            key, encode_manifest(replace(decode_manifest(data, key), created_at="2026-11-22T04:00:00.000Z"))
        )

    target: Any = Meddled(inner, "create", other_completes)
    made = Creation(area(source), target, what, lambda: AT).run()
    assert made == manifest_at(inner) and made.created_at != AT


def test_the_copies_are_on_the_disk_before_the_manifest_is(source: Path, store: Path) -> None:
    on, what, calls = shelf(store), begun(source, place(store)), list[str]()
    on.begin(what)
    target: Any = Meddled(on.area_of(what), "flush", lambda: calls.append("flush"))
    target = Meddled(target, "create", lambda key, _: calls.append(key))
    Creation(area(source), target, what, lambda: AT).run()
    assert calls == ["flush", MANIFEST]


# -- restore ----------------------------------------------------------------------------------------------------------


def test_what_an_interrupted_restore_has_left_of_other_bytes_is_copied_anew(
    saved: Area, source: Path, store: Path, tmp_path: Path
) -> None:
    target = tmp_path / "copy"
    manifest = read_savepoint(saved)[0]
    stale(target / "offsets/12", (source / "offsets/12").read_bytes())
    (target / MARK).write_text(json.dumps({"v": 1, "objects": manifest.objects_sha256, "ids": {}}))
    restore(saved, area(target), AT, GOES_ON)
    assert contents(target) == contents(place(store) / "data")


def test_a_copy_whose_metadata_is_another_is_not_that_copy(saved: Area, tmp_path: Path) -> None:
    target = tmp_path / "copy"
    restore(saved, area(target), AT, RENAMES)
    metadata = target / "metadata"
    body = json.loads(metadata.read_bytes())
    metadata.write_text(json.dumps({**body, "before": [*body["before"], "another"]}))
    with pytest.raises(Conflict, match="is not empty"):
        restore(saved, area(target), AT, RENAMES)
    assert parse_metadata(metadata.read_bytes()) == body["id"]


def test_an_old_id_is_no_new_one_whatever_the_metadata_says_of_itself(saved: Area, tmp_path: Path) -> None:
    """The sink would know the batches of that id again."""
    target = tmp_path / "copy"
    (query,) = restore(saved, area(target), AT, GOES_ON).queries
    named = renamed_metadata((target / "metadata").read_bytes(), query.id)
    (target / "metadata").write_bytes(named)
    (target / ".metadata.crc").write_bytes(hadoop_checksum(named))
    with pytest.raises(Conflict, match="is not empty"):
        restore(saved, area(target), AT, RENAMES)


@pytest.mark.parametrize(
    ("key", "data", "error"),
    [
        ("offsets/99", b"v1\n{}", "written to while"),
        (STATE, None, "written to while"),
        (STATE, b"#", "written to while"),
        ("offsets/12", b"same length", "is not what"),  # which Hadoop's checksum beside it tells
    ],
)
def test_what_is_written_to_the_target_meanwhile_is_no_checkpoint(
    saved: Area, tmp_path: Path, key: str, data: bytes | None, error: str
) -> None:
    target = tmp_path / "copy"

    def meddle(done: int, of: int) -> None:
        path = target / key
        if done != of:
            return
        if data is None:
            path.unlink()
        elif data == b"same length":
            stale(path, path.read_bytes())
        else:
            path.write_bytes(data)

    with pytest.raises((Conflict, Corrupt), match=error):
        restore(saved, area(target), AT, GOES_ON, meddle)
    assert (target / MARK).exists(), "which says that it is no checkpoint"


def test_a_mark_with_an_id_that_is_none_is_not_gone_on_with(saved: Area, tmp_path: Path) -> None:
    """Spark reads any text as an id; what a sink knows a batch by must be one that no other query has."""
    target = tmp_path / "copy"
    manifest = read_savepoint(saved)[0]
    old = manifest.queries[0].id
    target.mkdir()
    for wrong in ("x", 3, None, old.upper()):
        mark = {"v": 1, "objects": manifest.objects_sha256, "ids": {old: wrong}}
        (target / MARK).write_text(json.dumps(mark))
        (new,) = restore(saved, area(target), AT, RENAMES).queries
        assert new.id not in (wrong, old) and len(new.id) == 36


# -- deletion ---------------------------------------------------------------------------------------------------------


def test_a_mark_that_goes_hides_no_other(saved: Area, store: Path) -> None:
    """Of two restores one ends while their marks are read."""
    for name in ("aa", "bb"):
        saved.write(
            f"restores/{name}.json", json.dumps({"v": 1, "target": f"file:///{name}", "at": AT}).encode()
        )

    def goes(key: str, _: int) -> None:
        if key == "restores/aa.json":
            raise NotFound("it has ended")

    def wrapped(each: Any) -> Any:
        return Meddled(each, "read", goes) if each.location == saved.location else each

    with pytest.raises(Conflict, match="restored to file:///bb"):
        shelf(store, wrapped).delete("clicks", "one")
    assert shelf(store).find("clicks", "one").stage is SavepointStage.COMPLETE
    assert verify(saved).problems == ()


def removals(store: Path, calls: list[str]) -> Shelf:
    def recorded(each: Any) -> Any:
        return Meddled(each, "remove", lambda key: calls.append(key.removeprefix("clicks/one/")))

    return shelf(store, recorded)


def test_while_it_is_restored_nothing_of_it_is_touched(saved: Area, store: Path) -> None:
    """Not even for a moment: a delete that is killed then would leave half a savepoint to who restores it."""
    saved.write("restores/aa.json", json.dumps({"v": 1, "target": "file:///ck", "at": AT}).encode())
    calls: list[str] = []
    with pytest.raises(Conflict, match="restored to file:///ck"):
        removals(store, calls).delete("clicks", "one")
    assert calls == []


def test_its_manifest_goes_first_and_its_entry_last(saved: Area, store: Path) -> None:
    """In between it says that it is incomplete, and can be deleted again."""
    calls: list[str] = []
    removals(store, calls).delete("clicks", "one")
    assert (calls[0], calls[-1]) == (MANIFEST, BEGUN) and calls.count(BEGUN) == 1
    assert len(calls) > 10


def test_temporary_files_that_writing_has_left_are_no_part_of_the_copy(
    saved: Area, store: Path, tmp_path: Path
) -> None:
    target = tmp_path / "copy"

    def killed_meanwhile(done: int, of: int) -> None:
        if done == of:
            (target / f"offsets/.12{PARTIAL}").write_text("half")

    restore(saved, area(target), AT, GOES_ON, killed_meanwhile)
    assert contents(target) == contents(place(store) / "data")


def test_what_a_start_by_hand_on_half_a_copy_would_go_wrong_with_comes_last(
    saved: Area, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A query that sees the newest entries of its logs misses its state and says so; at an old entry it would begin there."""
    order: list[str] = []

    def in_turn(work: Any, todo: Any) -> Any:
        for each in todo:
            order.append(each.key)
            yield each, work(each)

    monkeypatch.setattr(restore_module, "in_parallel", in_turn)
    restore(saved, area(tmp_path / "copy"), AT, GOES_ON)
    logs = [key for key in order if key.startswith(("offsets/", "commits/")) and "/." not in key]
    batches = [int(key.rpartition("/")[2]) for key in logs]
    assert order[0] == "metadata" and batches == sorted(batches, reverse=True)
    assert order.index(logs[-1]) < min(order.index(key) for key in order if key.startswith("state/"))
