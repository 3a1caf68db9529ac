"""Decides whether a state version can be loaded from the files that exist. It is pure; ``inspect`` passes it
one partition at a time.

A version consists of its snapshot, or of the nearest snapshot below it (or nothing, version 0) and every
change since: ``.delta`` files after a ``.snapshot`` (Spark's own provider), ``.changelog`` files after a
``.zip`` (RocksDB). With state format 2 the commit log names the id that the file of a version must carry;
files with other ids were written by batches that ran twice, or by a foreign driver.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Final, NamedTuple

from supervisor.checkpoint.layout import DEFAULT_STORE, StateFile, state_file
from supervisor.checkpoint.picture import StateStore

NO_STORE: Final = frozenset({"SSTs", "_metadata", "archive"})
"""These directories of a partition are not stores."""


class Held(NamedTuple):
    file: StateFile
    name: str
    bytes: int


class Partition(NamedTuple):
    """Collects one partition's state files. ``stores`` maps a name to its versions. ``sidecars`` names the
    files that have a checksum file of Spark's, by their key below the partition."""

    operator: str
    number: int
    stores: dict[str, list[Held]]
    sidecars: set[str]


def new_partition(operator: str, number: int) -> Partition:
    return Partition(operator, number, {}, set())


def take(partition: Partition, rest: str, size: int) -> None:
    """Adds one object to the partition. ``rest`` is its key below the partition, ``size`` its bytes."""
    folder, _, name = rest.rpartition("/")
    if "/" in folder or folder in NO_STORE:
        return
    if name.endswith(".crc"):
        if not name.startswith(".") and state_file(name.removesuffix(".crc")) is not None:
            partition.sidecars.add(rest.removesuffix(".crc"))
        return
    file = state_file(name)
    if file is not None:
        partition.stores.setdefault(folder or DEFAULT_STORE, []).append(Held(file, rest, size))


def judged(partition: Partition, wanted: int | None, ids: Collection[str]) -> tuple[StateStore, ...]:
    """Returns the stores with what each lacks. ``wanted`` is the version that a start would load, None or 0
    if it loads nothing. ``ids`` are those of that version; if empty, any id is right."""
    return tuple(
        _store(partition, name, held, wanted or 0, ids) for name, held in sorted(partition.stores.items())
    )


def formats(stores: Mapping[str, list[Held]]) -> tuple[set[int], set[str]]:
    """Returns the state formats and the kinds of files that occur."""
    files = [held.file for each in stores.values() for held in each]
    return {2 if file.unique is not None else 1 for file in files}, {file.kind for file in files}


def _store(
    partition: Partition, name: str, held: list[Held], wanted: int, ids: Collection[str]
) -> StateStore:
    newest = max(each.file.version for each in held)
    lacks, needed = _lacks(held, wanted, ids) if wanted else ("", None)
    top = f"{partition.operator}/{partition.number}/{needed.name}" if needed else ""
    return StateStore(
        partition.operator,
        partition.number,
        name,
        newest,
        lacks,
        top,
        needed.bytes if needed else 0,
        needed is not None and needed.name in partition.sidecars,
    )


def _lacks(held: list[Held], wanted: int, ids: Collection[str]) -> tuple[str, Held | None]:
    """Returns what is missing (``""`` if nothing is), and the file of the wanted version if it exists."""
    there = [each for each in held if each.file.version == wanted]
    mine = [each for each in there if not ids or each.file.unique is None or each.file.unique in ids]
    if not mine:
        return f"version {wanted}" + (
            " of the committed run: only files of other runs are there" if there else ""
        ), None
    full = [each for each in mine if each.bytes > 0]
    if not full:
        return f"the content of {mine[0].name}, which is empty", mine[0]
    needed = max(full, key=lambda each: each.file.whole)
    if needed.file.whole:
        return "", needed
    base = max(
        (e.file.version for e in held if e.file.whole and e.bytes > 0 and e.file.version <= wanted), default=0
    )
    filled = {each.file.version for each in held if each.bytes > 0}
    gap = next((version for version in range(base + 1, wanted) if version not in filled), None)
    if gap is None:
        return "", needed
    since = f"the snapshot of version {base}" if base else "the beginning"
    return f"version {gap} on the way from {since} to version {wanted}", needed
