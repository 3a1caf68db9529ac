"""Copies a savepoint to a location that is empty, and compares before and after. It is called by ``submit``,
``resume`` and ``savepoint restore``.

Two marks stand meanwhile: one at the savepoint, so that it is not deleted, and one at the target, so that a
restore that was interrupted can be distinguished from somebody's checkpoint and goes on when it is requested
again, with the query ids that it has begun with; of two at once only one goes on (``restore_mark``). Nothing
that is there is ever overwritten except by the same restore. Logs are copied first, the newest entries first: a
query that is started by hand on half a copy misses its state, and reports that, rather than beginning at an old
offset. An object that names its own location (``schema_paths``) names the new one in the copy. Its queries have
new ids where ``model.going_back`` says so.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Collection, Mapping
from typing import Final, NamedTuple

from supervisor.checkpoint.layout import (
    COMMITS,
    OFFSETS,
    Malformed,
    batch_of,
    parse_metadata,
    renamed_metadata,
)
from supervisor.checkpoint.schema_paths import hadoop_checksum, hadoop_name, moved
from supervisor.clients.store.area import PARTIAL, Area, Item
from supervisor.errors import Conflict, Corrupt, NotFound
from supervisor.model.checkpoint_expectation import SeenQuery
from supervisor.model.going_back import GoingBack, ReturnStep
from supervisor.model.location import digest, overlaps
from supervisor.model.query_metadata import METADATA
from supervisor.savepoints.create import (
    ReportProgress,
    differences,
    differing,
    in_parallel,
    manifest_at,
    problems_of,
)
from supervisor.savepoints.manifest import (
    DATA,
    OBJECTS_MAX_BYTES,
    RESTORES,
    SMALL_MAX_BYTES,
    Manifest,
    SavedObject,
    SavedQuery,
    decode_objects,
    objects_key,
)
from supervisor.savepoints.restore_mark import MARK, RestoreMark, ids_begun_with
from supervisor.savepoints.view import SavedTree

BEGINNINGS_MAX: Final = 3


class RestoredCopy(NamedTuple):
    """Holds the outcome of a restore. If ``did`` is False, exactly that copy was there already. ``queries`` are those of the
    copy, which may have other ids than in the savepoint, with the batch after which it was made."""

    manifest: Manifest
    did: bool
    queries: tuple[SeenQuery, ...]


class CopyVerdict(NamedTuple):
    """Holds the outcome of ``verify``. ``problems`` are sentences; if there are none, the savepoint is
    good."""

    manifest: Manifest
    problems: tuple[str, ...]


def read_savepoint(area: Area) -> tuple[Manifest, tuple[SavedObject, ...]]:
    """Returns the manifest and the list of objects. Raises NotFound if there is no (complete) savepoint,
    Corrupt if its list is missing or damaged."""
    manifest = manifest_at(area)
    if manifest is None:
        raise NotFound(f"there is no complete savepoint at {area.location}: it has no manifest")
    key = objects_key(manifest.objects_sha256)
    try:
        data = area.read(key, OBJECTS_MAX_BYTES)
    except NotFound:
        raise Corrupt(f"savepoint {manifest.id} is damaged: {area.location}/{key} is missing") from None
    return manifest, decode_objects(data, manifest, f"{area.location}/{key}")


def verify(area: Area) -> CopyVerdict:
    """Checks that all is there, as it was written, and that Spark could go on from it. On a file system every
    file is read."""
    manifest, saved = read_savepoint(area)
    problems = differences(area, saved, read_files=True)
    return CopyVerdict(manifest, (*problems, *(str(each) for each in problems_of(SavedTree(area, saved)))))


def restore(
    area: Area,
    target: Area,
    at: str,
    back: GoingBack,
    report_progress: ReportProgress = lambda _done, _of: None,
) -> RestoredCopy:
    """Restores the savepoint at ``area`` to ``target``. ``at`` is the wall time as text. ``back`` is the decision about its
    queries (``operations.going_back``). Raises NotFound, Corrupt (the savepoint is not what it was), Conflict (the target is
    not empty, or ``back`` refuses), and what the areas raise. A restore that was interrupted goes on when it is called
    again."""
    back.require()
    if overlaps(area.location, target.location):
        raise Conflict(
            f"{target.location} and the savepoint at {area.location} overlap: choose another location"
        )
    mark = f"{RESTORES}/{digest(target.location)}.json"
    note = json.dumps({"v": 1, "target": target.location, "at": at}).encode()
    area.write(mark, note)  # before the manifest is read: see savepoint_shelf.delete
    try:
        return _restore(area, target, report_progress, new_ids=back.step is ReturnStep.NEW_IDS)
    finally:
        area.remove(mark)


def _restore(area: Area, target: Area, report_progress: ReportProgress, *, new_ids: bool) -> RestoredCopy:
    manifest, saved = read_savepoint(area)
    wrong = differences(area, saved, read_files=False)
    if wrong:
        raise Corrupt(f"savepoint {manifest.id} is damaged: {wrong[0]}", "see savepoint verify")
    keys = {each.key for each in saved}
    changed = moved(
        keys, lambda key: area.read(f"{DATA}/{key}", SMALL_MAX_BYTES), manifest.source, target.location
    )
    for _ in range(BEGINNINGS_MAX):
        there = {item.key: item for item in target.items()}
        mine = _mark_of(target, there, manifest)
        ids = _ids(manifest, target, there, new_ids=new_ids) if mine is None else mine
        _require_begun_alike(target, manifest, mine, new_ids=new_ids)
        written = changed | _metadata(area, keys, manifest, ids)
        if there and mine is None:
            there.pop(MARK, None)
            if there.keys() == keys and _is_same(target, there, saved, written):
                return RestoredCopy(manifest, False, _queries(manifest, ids))
            raise Conflict(
                f"{target.location} is not empty ({len(there)} objects): choose a location where nothing is"
            )
        mark = RestoreMark(target, manifest, ids)
        if mine is not None:
            mark.take_over()
        elif not mark.begin():
            continue  # somebody else has begun meanwhile
        try:
            _copy(area, target, saved, there, written, mark, report_progress)
            _compare(target, saved, written, manifest)
            mark.require()
        except (Conflict, Corrupt):
            mark.require()  # who has taken it over is the reason
            raise
        target.flush()
        target.remove(MARK)
        mark.require_unchanged(_metadata(area, keys, manifest, ids))
        return RestoredCopy(manifest, True, _queries(manifest, ids))
    raise Conflict(f"others copy to {target.location} again and again", "give this command again later")


def _is_same(
    target: Area, there: dict[str, Item], saved: tuple[SavedObject, ...], changed: Mapping[str, bytes]
) -> bool:
    if differing(target, there, [each for each in saved if each.key not in changed]):
        return False
    return all(_holds(target, key, data) for key, data in changed.items())


def _mark_of(target: Area, there: Mapping[str, Item], manifest: Manifest) -> dict[str, str] | None:
    """Returns the ids, old to new, of a restore of this very savepoint that has begun there; None if none has. In place of
    what can be no id there is a new one."""
    ids = ids_begun_with(target, there, manifest)
    if ids is None:
        return None
    return {str(old): str(new) if _is_id(new) else str(uuid.uuid4()) for old, new in ids.items()}


def _require_begun_alike(
    target: Area, manifest: Manifest, mine: Mapping[str, str] | None, *, new_ids: bool
) -> None:
    """Raises Conflict if the copy that was begun keeps the ids of its queries, and this one is to have new ones. Of two that
    go on with a copy each may write what the other has completed: so all write the very same bytes. The other way about
    the copy keeps the new ids that it has: a sink drops no batch of an id that it does not know."""
    if new_ids and mine is not None and not mine and manifest.queries:
        raise Conflict(
            f"a copy of savepoint {manifest.id} was begun at {target.location}, and keeps the ids of its queries: now they "
            "are to be new",
            "choose another location, or give the command as it was given then",
        )


def _ids(manifest: Manifest, target: Area, there: Mapping[str, Item], *, new_ids: bool) -> dict[str, str]:
    """Returns a new id for each query, if they are to have new ones: that of the copy that is there already, else one that
    no query has."""
    if not new_ids:
        return {}
    return {
        query.id: (_id_there(target, query) if there else None) or str(uuid.uuid4())
        for query in manifest.queries
    }


def _id_there(target: Area, query: SavedQuery) -> str | None:
    """Returns the id of a query of a complete copy, if it can be a new one for ``query``. Whether it is that copy is decided
    by all its bytes (``_is_same``), the ids before it too."""
    try:
        found = parse_metadata(target.read(_metadata_of(query), SMALL_MAX_BYTES))
    except (NotFound, Corrupt, Malformed):
        return None
    return found if found != query.id and _is_id(found) else None


def _metadata(
    area: Area, keys: Collection[str], manifest: Manifest, ids: Mapping[str, str]
) -> dict[str, bytes]:
    """Returns the metadata of each query, with its new id if it has one, by key, and the checksum files beside it. Raises
    Corrupt."""
    found = {}
    for query in manifest.queries:
        key = _metadata_of(query)
        try:
            data = area.read(f"{DATA}/{key}", SMALL_MAX_BYTES)
            found[key] = renamed_metadata(data, ids[query.id]) if query.id in ids else data
        except (NotFound, Malformed) as error:
            raise Corrupt(f"savepoint {manifest.id} is damaged: {key} ({error})") from None
        sidecar = hadoop_name(key)
        if sidecar in keys:
            found[sidecar] = hadoop_checksum(found[key])
    return found


def _metadata_of(query: SavedQuery) -> str:
    return f"{query.path}/{METADATA}" if query.path else METADATA


def _is_id(value: object) -> bool:
    try:
        return isinstance(value, str) and str(uuid.UUID(value)) == value
    except ValueError:
        return False


def _queries(manifest: Manifest, ids: Mapping[str, str]) -> tuple[SeenQuery, ...]:
    return tuple(SeenQuery(ids.get(query.id, query.id), query.batch) for query in manifest.queries)


def _copy(
    area: Area,
    target: Area,
    saved: tuple[SavedObject, ...],
    there: dict[str, Item],
    changed: Mapping[str, bytes],
    mark: RestoreMark,
    report_progress: ReportProgress,
) -> None:
    listed = {item.key: item for item in area.items(DATA)}

    def one(each: SavedObject) -> str | None:
        mark.reread()
        if each.key in changed:
            _put(target, each.key, changed[each.key], is_there=each.key in there)
            return each.tag
        item, mine = listed[f"{DATA}/{each.key}"], there.get(each.key)
        if mine is not None and (mine.bytes, mine.mark) == (item.bytes, item.mark):
            return target.tag(mine)
        return target.copy_from(area, item, each.key)

    target.require_room(sum(each.bytes for each in saved if each.key not in there))
    report_progress(0, len(saved))
    for done, (each, tag) in enumerate(in_parallel(one, sorted(saved, key=_turn)), 1):
        if target.location.startswith("file:") and tag != each.tag:  # of the very bytes that were copied
            raise Corrupt(f"the savepoint is damaged: {each.key} has another content", "see savepoint verify")
        report_progress(done, len(saved))


def _compare(
    target: Area, saved: tuple[SavedObject, ...], changed: Mapping[str, bytes], manifest: Manifest
) -> None:
    """Compares sizes, by a listing; the tags of a copy may differ where the bucket encrypts. Temporary files
    that writing has left are removed."""
    there = {item.key: item for item in target.items()}
    for key in [key for key in there if key.endswith(PARTIAL) and key.rpartition("/")[2].startswith(".")]:
        target.remove(key)
        del there[key]
    sizes = {each.key: len(changed[each.key]) if each.key in changed else each.bytes for each in saved}
    wrong = [key for key, size in sizes.items() if key not in there or there[key].bytes != size]
    wrong += [key for key, data in changed.items() if not _holds(target, key, data)]
    strange = there.keys() - {each.key for each in saved} - {MARK}
    if wrong or strange:
        first = next(iter((*wrong, *strange)))
        raise Conflict(
            f"{target.location} was written to while savepoint {manifest.id} was restored: see {first}"
        )
    found = problems_of(target)
    if found:
        raise Corrupt(f"{target.location} is not what savepoint {manifest.id} was: {found[0]}")


def _put(target: Area, key: str, data: bytes, *, is_there: bool) -> None:
    """Writes what differs from the savepoint. Where nothing was it is created: another restore may have other ids."""
    if not is_there:
        target.create(key, data)
    elif not _holds(target, key, data):
        target.write(key, data)


def _holds(target: Area, key: str, data: bytes) -> bool:
    try:
        return target.read(key, SMALL_MAX_BYTES) == data
    except NotFound:
        return False


def _turn(each: SavedObject) -> tuple[int, int, str]:
    """Returns a sort key: metadata comes first, then the newest entries of the logs, then all else."""
    folder, _, name = each.key.rpartition("/")
    kind = folder.rpartition("/")[2]
    if kind in (OFFSETS, COMMITS):
        return (1, -(batch_of(name) or 0), each.key)
    return (0 if name == METADATA and not kind.startswith("_") else 2, 0, each.key)
