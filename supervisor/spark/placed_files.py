"""Places the files of a spec (``files``) where the application finds them by their names: in its working directory,
beside itself, and, by ``spark.files``, with ``SparkFiles.get`` on the driver and on executors.

The working directory outlives attempts, and a prepared driver shares it with the one that runs. So a file is copied there
only while no driver of the job lives on this host; a prepared driver whose files are others is refused (``Refused``), and
its start is a cold one. At each start a file of the spec takes the place of one that the application has written to the same
name. What the spec does not name any more is removed.

The driver may be another user's, who can write to the directory: it is gone through by its descriptor, and no link is
followed.
"""

from __future__ import annotations

import errno
import hashlib
import json
import os
import shutil
import stat
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Final

from supervisor.clients.run_dir import read_file, write_atomically
from supervisor.errors import Unreachable
from supervisor.model.records import Cause
from supervisor.spark.refusal import Refused

PLACED: Final = "placed.json"
PLACED_MAX_BYTES: Final = 65536
MODE: Final = 0o644
"""The directory keeps others out."""


def place_files(cwd: Path, files: Mapping[str, Path], *, may_change: bool) -> None:
    """Makes the files of ``cwd`` that are of the spec those of ``files``, by name. If they are others, and ``may_change`` is
    False, that is refused. Raises Refused, Unreachable."""
    try:
        placed = _placed(cwd.parent)
        if not files and not placed:
            return
        directory = os.open(cwd, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
        try:
            gone = placed - files.keys()
            others = {name: path for name, path in files.items() if not _is_same(name, directory, path)}
            if (gone or others) and not may_change:
                raise Refused(
                    Cause.NOT_STARTED,
                    f"its files differ ({min(gone | others.keys())}) from those of the driver that runs in the same "
                    "working directory: it can't be prepared beside it",
                )
            write_atomically(str(cwd.parent / PLACED), json.dumps(sorted(placed | files.keys())).encode())
            for name in gone:
                _remove(name, directory)
            for name, path in others.items():
                _copy(name, directory, path)
            if gone:
                write_atomically(str(cwd.parent / PLACED), json.dumps(sorted(files)).encode())
        finally:
            os.close(directory)
    except OSError as error:
        raise Unreachable(
            f"the files of the spec can't be placed in {cwd} ({error.strerror})",
            "repair supervisor.state_dir",
        ) from None


def _placed(job_dir: Path) -> frozenset[str]:
    try:
        return frozenset(map(str, json.loads(read_file(str(job_dir / PLACED), PLACED_MAX_BYTES) or b"[]")))
    except (ValueError, TypeError, RecursionError):
        return frozenset()


def _is_same(name: str, directory: int, source: Path) -> bool:
    """Says whether ``name`` is a regular file with the content of ``source``. Raises OSError."""
    flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    try:
        descriptor = os.open(name, flags, dir_fd=directory)
    except OSError:
        return False
    found = os.fstat(descriptor)
    if not stat.S_ISREG(found.st_mode):
        os.close(descriptor)
        return False
    with os.fdopen(descriptor, "rb") as there, source.open("rb") as wanted:
        if found.st_size != os.fstat(wanted.fileno()).st_size:
            return False
        digests = [hashlib.file_digest(file, "sha256").digest() for file in (there, wanted)]
    return digests[0] == digests[1]


def _copy(name: str, directory: int, source: Path) -> None:
    draft = f".{name[:200]}.{os.urandom(4).hex()}"
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    try:
        with (
            os.fdopen(os.open(draft, flags, MODE, dir_fd=directory), "wb") as copy,
            source.open("rb") as file,
        ):
            os.fchmod(copy.fileno(), MODE)
            shutil.copyfileobj(file, copy)
        os.rename(draft, name, src_dir_fd=directory, dst_dir_fd=directory)
    except OSError as error:
        with suppress(OSError):
            os.unlink(draft, dir_fd=directory)
        if error.errno == errno.EISDIR:
            why = f"the working directory of the job has a directory {name!r}, and files names a file of that name"
            raise Refused(
                Cause.BAD_ARTIFACT, why, "rename the file, or have the application write elsewhere"
            ) from None
        raise


def _remove(name: str, directory: int) -> None:
    with suppress(FileNotFoundError, IsADirectoryError, PermissionError):
        os.unlink(name, dir_fd=directory)


def gather(application: Path, files: Mapping[str, Path], directory: Path) -> Path:
    """Puts ``application`` and ``files`` side by side into ``directory``, which exists, and returns the application there.
    They are links to the same content where the file system allows that. Raises Unreachable."""
    try:
        for name, source in {**files, application.name: application}.items():
            target = directory / name
            target.unlink(missing_ok=True)
            try:
                target.hardlink_to(source)
            except OSError:  # another file system
                shutil.copyfile(source, target)
    except OSError as error:
        raise Unreachable(
            f"{error.filename} can't be put into {directory} ({error.strerror})", "make room"
        ) from None
    return directory / application.name
