"""Decides which objects of a checkpoint that is being written belong to the boundary after batch N. It is
pure.

Batch N is committed when ``commits/N`` is there, and then all of it is: ``offsets/N`` was written before the
batch, state version N + 1 by it. Whatever is newer belongs to a batch that may yet fail, and must not be
copied: a start from the copy plans batch N + 1 anew, maybe with other rows, and a state file, or worse a
snapshot, of the old batch N + 1 would be taken for its own.

These are kept in any version: ``metadata``; ``sources`` (a file source logs files before the offset that
names them, and a start reads what is logged beyond its offset, so newer is right and older would lose rows);
SST files (only a snapshot that was chosen leads to one); schemas. Of transformWithState's metadata, one file
per batch, those up to N are kept.
"""

from __future__ import annotations

import re
from typing import Final

from supervisor.checkpoint.layout import COMMITS, OFFSETS, STATE, batch_of, state_file
from supervisor.clients.store.area import PARTIAL

LOGS: Final = frozenset({OFFSETS, COMMITS})
_OPERATOR_METADATA: Final = re.compile(r"[^/]+/_metadata/v\d+/\.?(\d{1,18})(?:\.crc)*")


def belongs(rest: str, batch: int) -> bool:
    """Returns whether an object belongs to the boundary after ``batch``. ``rest`` is its key below the
    query's directory."""
    folder, _, below = rest.partition("/")
    name = rest.rpartition("/")[2]
    if is_temporary(name):
        return False
    if folder in LOGS:
        number = batch_of(_main(name))
        return number is not None and number <= batch
    if folder != STATE:
        return True
    state = state_file(_main(name))
    if state is not None:
        return state.version <= batch + 1
    metadata = _OPERATOR_METADATA.fullmatch(below)
    return metadata is None or int(metadata[1]) <= batch


def is_temporary(name: str) -> bool:
    """Returns whether a file is a temporary one of Spark's rename manager (``.7.<uuid>.tmp``, with or without
    ``.crc``), or of this project."""
    return name.endswith((".tmp", ".tmp.crc", PARTIAL)) and name.startswith((".", "_", "temp-"))


def is_needed(rest: str, batch: int) -> bool:
    """Returns False for files that a start from the boundary after ``batch`` never reads; a copy without them is
    complete. State files are among them: ``judge`` finds in the copy which of those are missing."""
    folder, _, _below = rest.partition("/")
    name = _main(rest.rpartition("/")[2])
    if folder in LOGS:
        number = batch_of(name)
        return number is None or number >= batch - 1
    return folder != STATE or state_file(name) is None


def _main(name: str) -> str:
    """Returns the name of the file that this checksum file belongs to: ``.17.crc`` → ``17``, ``5.delta.crc`` →
    ``5.delta``, ``.5.delta.crc.crc`` too. The name of any other file is returned as it is."""
    while name.endswith(".crc"):
        name = name.removesuffix(".crc").removeprefix(".")
    return name
