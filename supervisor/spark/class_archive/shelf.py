"""Keeps the archives of a host in ``<runtime_dir>/class-archives``: at most 4 of them, within 2 GiB.

Beside each archive lies a note (JSON), which is written last and says what file it is about: inode, size, times, and
the SHA-256 of what was dumped. A driver maps the archive and dies with SIGBUS or worse if that is cut off or garbled under
it. So a file is never overwritten: it appears by a rename, is read-only, and goes by unlink, which leaves it
to those that have mapped it. And only a file that is exactly the noted one is given to a driver; whoever
wrote to it changed its times. The content is compared with the SHA-256 by the thread that makes archives, not
at a start.

What was not made here is neither used nor removed: other names, links, directories, files of other users.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import secrets
import shutil
import stat
from collections.abc import Collection
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, NamedTuple

from supervisor.spark.class_archive.key import ArchiveKey

KEPT: Final = 4
KEPT_BYTES: Final = 2 * 1024**3
NOTE_MAX_BYTES: Final = 262_144
NOT_YET: Final = "none has been made yet"
DRAFT_PREFIX: Final = ".making-"
READ_BYTES: Final = 2**20

_OURS: Final = re.compile(r"([0-9a-f]{24})\.(jsa|aot|json)")


class ArchiveNote(NamedTuple):
    """Holds what is noted of an archive. ``names`` are the names at the top of the archived jars."""

    file: Path
    identity: tuple[int, ...]
    sha256: str
    names: frozenset[str]


def find(directory: Path, key: ArchiveKey) -> ArchiveNote | str:
    """Returns the archive of ``key`` if it is whole, as far as that is seen without reading it; else why there is
    none."""
    file = directory / key.file_name
    try:
        owner = directory.stat().st_uid  # doctor may be run by another user
        note = _read_note(directory / f"{key.name}.json", owner)
        found = file.lstat()
    except (FileNotFoundError, NotADirectoryError):
        return NOT_YET
    except (OSError, ValueError) as error:
        return f"what is noted of {file.name} cannot be read ({getattr(error, 'strerror', None) or error})"
    if not _is_ours(found, owner) or _identity(found) != note.identity:
        return f"{file} is not the file that was made here"
    return note._replace(file=file)


def is_whole(note: ArchiveNote) -> bool:
    """Returns whether the content is what was dumped. It reads all of it. Raises OSError."""
    return _sha256(note.file) == note.sha256


def keep(directory: Path, key: ArchiveKey, draft: Path, names: Collection[str]) -> Path:
    """Puts ``draft``, which lies in the same file system, on the shelf, and returns where. Raises OSError."""
    draft.chmod(0o444)  # for drivers of any user, if the directory lets them pass
    with draft.open("rb") as file:
        os.fsync(file.fileno())
    sha256 = _sha256(draft)
    target, note = directory / key.file_name, directory / f"{key.name}.json"
    _remove(note)
    draft.replace(target)
    body = {"identity": _identity(target.lstat()), "sha256": sha256, "names": sorted(names)}
    written = directory / f"{DRAFT_PREFIX}{secrets.token_hex(4)}.json"
    try:
        with os.fdopen(os.open(written, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as text:
            json.dump(body, text)
        written.replace(note)
    finally:
        written.unlink(missing_ok=True)
    return target


def tidy(directory: Path, current: Collection[str] = ()) -> None:
    """Removes what is left of a supervisor that was killed, and all archives but the newest, of which there are at
    most ``KEPT`` within ``KEPT_BYTES``. ``current`` are the names of those in use, which stay.

    It is for the thread that makes archives: nobody else may be making one. Raises OSError.
    """
    sizes: dict[str, int] = {}
    made_at_s: dict[str, float] = {}
    try:
        entries = sorted(directory.iterdir())
    except FileNotFoundError:
        return
    for entry in entries:
        found = entry.lstat()
        if found.st_uid != os.geteuid():
            continue
        if entry.name.startswith(DRAFT_PREFIX):
            _remove_draft(entry, found)
            continue
        match = _OURS.fullmatch(entry.name)
        if match is None or not stat.S_ISREG(found.st_mode):
            continue
        sizes[match[1]] = sizes.get(match[1], 0) + found.st_size
        made_at_s[match[1]] = max(made_at_s.get(match[1], 0.0), found.st_mtime)
    kept_bytes = 0
    by_age = sorted(sizes, key=lambda name: (name not in current, -made_at_s[name], name))
    for number, name in enumerate(by_age):
        kept_bytes += sizes[name]
        if number and name not in current and (number >= KEPT or kept_bytes > KEPT_BYTES):
            remove(directory, name)


def remove(directory: Path, name: str) -> None:
    """Removes the archive called ``name``, its note first. Raises OSError."""
    for ending in ("json", "jsa", "aot"):
        _remove(directory / f"{name}.{ending}")


def _remove(path: Path) -> None:
    with suppress(FileNotFoundError):
        if _is_ours(path.lstat(), os.geteuid()):
            path.unlink()


def _remove_draft(path: Path, found: os.stat_result) -> None:
    """Removes a draft. ``rmtree`` follows no link, and a link itself is left alone."""
    if stat.S_ISDIR(found.st_mode):
        shutil.rmtree(path, ignore_errors=True)
    elif stat.S_ISREG(found.st_mode):
        path.unlink(missing_ok=True)


def _is_ours(found: os.stat_result, owner: int) -> bool:
    return stat.S_ISREG(found.st_mode) and found.st_uid == owner and not found.st_mode & 0o022


def _identity(found: os.stat_result) -> tuple[int, ...]:
    return (found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns)


def _read_note(path: Path, owner: int) -> ArchiveNote:
    """Raises OSError, ValueError."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    with os.fdopen(descriptor, "rb") as file:
        if not _is_ours(os.fstat(descriptor), owner):
            raise ValueError("it is no file of ours")
        body: Any = json.loads(file.read(NOTE_MAX_BYTES))
    if not isinstance(body, dict) or not isinstance(body.get("names"), list):
        raise ValueError("it is no note of an archive")
    identity = body.get("identity")
    if not isinstance(identity, list) or not all(isinstance(part, int) for part in identity):
        raise ValueError("it is no note of an archive")
    return ArchiveNote(path, tuple(identity), str(body.get("sha256")), frozenset(map(str, body["names"])))


def _sha256(path: Path) -> str:
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while data := file.read(READ_BYTES):
            digest.update(data)
    return digest.hexdigest()
