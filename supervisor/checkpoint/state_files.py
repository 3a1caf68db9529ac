"""Can a state version be loaded from the files that are there? Pure; ``inspect`` feeds it one partition at a time.

A version is a snapshot, or the nearest snapshot below it (or nothing, version 0) and every change since: ``.delta`` behind
``.snapshot`` (Spark's own provider), ``.changelog`` behind ``.zip`` (RocksDB). With state format 2 the commit log names the
id that the file of a version must carry; files with other ids are those of batches that were run twice, or by a stranger.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Final, NamedTuple

from supervisor.checkpoint.layout import DEFAULT_STORE, StateFile, state_file
from supervisor.checkpoint.picture import StateStore

NO_STORE: Final = frozenset({"SSTs", "_metadata", "archive"})
"""Directories of a partition that are no stores."""


class Held(NamedTuple):
    file: StateFile
    name: str
    bytes: int


class Partition(NamedTuple):
    """``stores``: name → its versions. ``sidecars``: names of Spark's checksum files, below the partition."""

    operator: str
    number: int
    stores: dict[str, list[Held]]
    sidecars: set[str]


def new_partition(operator: str, number: int) -> Partition:
    return Partition(operator, number, {}, set())


def take(partition: Partition, rest: str, size: int) -> None:
    """One object of the partition; ``rest``: its key below it."""
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
    """``wanted``: the version that a start would load; None or 0: nothing. ``ids``: of that version, empty for any."""
    return tuple(
        _store(partition, name, held, wanted or 0, ids) for name, held in sorted(partition.stores.items())
    )


def formats(stores: Mapping[str, list[Held]]) -> tuple[set[int], set[str]]:
    """State formats and kinds of files that occur."""
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
    """What is not there, and the file of the wanted version if that is."""
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
