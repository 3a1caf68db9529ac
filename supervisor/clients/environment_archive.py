"""Reads and unpacks a packed Python environment (venv-pack, conda-pack): a tar.gz with ``bin/python`` at its top.

Whoever packed it may have meant harm: nothing is written outside of the target, nothing in it leads out of it but a link
of ``bin`` to an interpreter that the host allows, no file is a device or set-user-id, and there is a bound for what comes
out. The errors are those of ``errors``: ``InvalidInput`` for what is wrong with the archive itself.
"""

from __future__ import annotations

import errno
import os
import tarfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from typing import BinaryIO, Final

from supervisor.clients.opened_as import OF_HOST, open_as
from supervisor.clients.unzipped import Unzipped
from supervisor.errors import InvalidInput, Unreachable

PYTHON: Final = "bin/python"
UNPACKED_MAX_BYTES: Final = 8 * 1024**3
MEMBERS_MAX: Final = 300_000
DIRECTORY_MODE: Final = 0o755
HEADERS_BYTES: Final = 4096
"""It is what a member may take beside its data, on average."""
GLOBAL_HEADERS_MAX: Final = 64
ROOM_LEFT_BYTES: Final = 512 * 1024**2
FILES_LEFT: Final = 4096
TOP_MODE: Final = 0o700
DEPTH_MAX: Final = 64
"""It is that of a member below the top. Whoever walks through what was unpacked may do so recursively."""
_BROKEN: Final = (
    tarfile.TarError,
    EOFError,
    zlib.error,
    ValueError,
    OverflowError,
    RecursionError,
)
"""They are what ``tarfile`` raises at an archive that is broken, by chance or with intent."""
_OF_HOST: Final = OF_HOST | {errno.ENOSPC, errno.EDQUOT, errno.EROFS}
PACK_IT: Final = "pack the environment with venv-pack or conda-pack"


class ForbiddenInterpreter(InvalidInput):
    """Says that an archive has an interpreter that is none of the archive, and none that the host allows."""


def require_environment(archive: Path) -> None:
    """Reads the archive as far as its ``bin/python``. Raises InvalidInput if it has none, or is none, and Unreachable if
    this host can't read it now."""
    with open_as(str(archive), None) as file, _opened(archive, file) as (tar, content):
        if not any(_is_python(member.name) for member in _members_of(tar, content, archive)):
            raise _without_python(archive)


def unpack(archive: Path, file: BinaryIO, target: Path, is_allowed: Callable[[str], bool]) -> str:
    """Unpacks ``file``, which was opened at the path ``archive``, into ``target``, an empty directory, and returns the
    SHA-256 of what it has read. ``is_allowed`` says whether a link in ``bin`` may lead to this interpreter of the host.
    Raises InvalidInput, and Unreachable if this host can't do it now."""
    if not hasattr(tarfile, "data_filter"):
        raise Unreachable(
            "the supervisor's Python unpacks nothing safely", "run it with Python 3.11.4 or newer"
        )
    judge, size = _Members(is_allowed), 0
    _require_room(archive, target, os.fstat(file.fileno()).st_size)  # less than what comes out
    with _opened(archive, file, lambda: _require_room(archive, target)) as (tar, content):
        for member in _members_of(tar, content, archive):
            size += member.size
            if size > UNPACKED_MAX_BYTES:
                raise _too_large(archive)
            _require_room(archive, target, member.size if member.isreg() else 0)
            tar.extract(member, target, filter=judge.judged)
        _open_directories(target)
        sha256 = content.sha256()
    if not os.access(target / PYTHON, os.X_OK) or not (target / PYTHON).is_file():
        raise _without_python(archive)
    return sha256


def _members_of(tar: tarfile.TarFile, content: Unzipped, archive: Path) -> Iterator[tarfile.TarInfo]:
    """Yields the members of the archive and keeps none of them in memory."""
    number = 0
    while True:
        content.in_headers(True)
        member = tar.next()
        if member is None:
            return
        content.in_headers(False)
        number += 1
        if number > MEMBERS_MAX:
            raise _too_large(archive)
        if member.size < 0 or len(tar.pax_headers) > GLOBAL_HEADERS_MAX:
            raise InvalidInput(f"{archive.name} has a header that no packer writes", PACK_IT)
        yield member
        tar.members.clear()  # type: ignore[attr-defined]


def _require_room(archive: Path, target: Path, more: int = 0) -> None:
    """Raises Unreachable if ``more`` bytes in ``target`` would leave less than ``ROOM_LEFT_BYTES``, or ``FILES_LEFT``, to
    the others on its file system."""
    try:
        there = os.statvfs(target)
    except OSError:
        return  # whoever writes there next says why
    free = there.f_bavail * there.f_frsize
    if free - more < ROOM_LEFT_BYTES or (there.f_files and there.f_favail < FILES_LEFT):
        left = f"{ROOM_LEFT_BYTES >> 20} MiB and {FILES_LEFT} files have to be left"
        raise Unreachable(
            f"{target.parent} has no room for {archive.name}: of {free >> 20} MiB and {there.f_favail} files {left}",
            "make room there, or set spark.environments_dir of supervisor.yaml",
        )


def _open_directories(target: Path) -> None:
    """Makes the directories below ``target`` ones that all may read who get there, and ``target`` itself one of its owner.
    venv-pack names no directory that has files: the umask of this process has made those. Raises OSError."""
    for above, _directories, _files, descriptor in os.fwalk(target, follow_symlinks=False):
        os.fchmod(descriptor, TOP_MODE if Path(above) == target else DIRECTORY_MODE)


class _Members:
    """Judges the members of an archive in their order, beside ``tarfile.data_filter``.

    No member lies behind a link, and a link goes up first and then only down, from where it is and within the archive. So
    whichever links it passes, it ends within the archive, however the file system resolves it.
    """

    def __init__(self, is_allowed: Callable[[str], bool]) -> None:
        self._is_allowed = is_allowed
        self._links: set[PurePosixPath] = set()
        self._files: set[PurePosixPath] = set()

    def judged(self, member: tarfile.TarInfo, path: str) -> tarfile.TarInfo:
        """Returns the member as it is written. Raises InvalidInput, tarfile.FilterError."""
        name = self._inside(member.name, member.name)
        if member.issym():
            self._links.add(name)
            if member.linkname.startswith("/") and name.parent == PurePosixPath("bin"):
                return self._to_host(member, path)
            self._check_link(member, name)
            return _filtered_link(member, path)
        if member.islnk() and self._inside(member.linkname, member.name) not in self._files:
            raise InvalidInput(f"{member.name[:120]} is a link to no file before it", PACK_IT)
        self._files.add(name)
        kept = tarfile.data_filter(member, path)
        if kept.isdir():
            return kept.replace(mode=DIRECTORY_MODE, deep=False)
        return kept.replace(mode=0o755 if (member.mode or 0) & 0o100 else 0o644, deep=False)

    def _inside(self, given: str, named: str) -> PurePosixPath:
        """Returns a path of the archive, which is below its top and behind no link."""
        name = PurePosixPath(given)
        if len(name.parts) > DEPTH_MAX:
            raise InvalidInput(f"{named[:120]} lies deeper than {DEPTH_MAX} directories", PACK_IT)
        if name.is_absolute() or ".." in name.parts or not self._links.isdisjoint((name, *name.parents)):
            raise InvalidInput(f"{named[:120]} lies outside of the archive, or behind a link", PACK_IT)
        return name

    def _check_link(self, member: tarfile.TarInfo, name: PurePosixPath) -> None:
        parts = PurePosixPath(member.linkname).parts
        ups = next((n for n, part in enumerate(parts) if part != ".."), len(parts))
        is_plain = not member.linkname.startswith("/") and ".." not in parts[ups:]
        if not is_plain or ups > len(name.parts) - 1:
            raise InvalidInput(f"{member.name[:120]} is a link out of the archive", PACK_IT)

    def _to_host(self, member: tarfile.TarInfo, path: str) -> tarfile.TarInfo:
        if not self._is_allowed(member.linkname):
            where = f"{member.name[:120]} leads to {member.linkname[:200]}"
            raise ForbiddenInterpreter(
                f"python.archive: {where}, which is none that spark.pythons of supervisor.yaml allows",
                "pack the interpreter too (conda-pack), or have the operator allow that one",
            )
        return _filtered_link(member, path)


def _filtered_link(member: tarfile.TarInfo, path: str) -> tarfile.TarInfo:
    """Returns a link that is judged already. ``data_filter`` would follow it through the links that are on disk, also those
    to the host, so that the order of the members would matter: it judges all but where the link leads."""
    filtered = tarfile.data_filter(member.replace(linkname=".", deep=False), path)
    return filtered.replace(linkname=member.linkname, deep=False)


@contextmanager
def _opened(
    archive: Path, file: BinaryIO, at_step: Callable[[], None] = lambda: None
) -> Iterator[tuple[tarfile.TarFile, Unzipped]]:
    unusable = f"{archive.name} is no usable tar.gz"
    try:
        with (
            Unzipped(file, UNPACKED_MAX_BYTES + HEADERS_BYTES * MEMBERS_MAX, at_step) as content,
            tarfile.open(fileobj=content, mode="r:") as tar,
        ):
            yield tar, content
    except _BROKEN as error:
        raise InvalidInput(f"{unusable}: {str(error)[:200]}", PACK_IT) from None
    except OSError as error:
        why = error.strerror or str(error)[:200]
        if error.errno in _OF_HOST:
            raise Unreachable(f"{archive.name} cannot be unpacked here ({why})", "repair this host") from None
        raise InvalidInput(f"{unusable}: {why}", PACK_IT) from None


def _is_python(name: str) -> bool:
    return PurePosixPath(name).as_posix() == PYTHON


def _without_python(archive: Path) -> InvalidInput:
    return InvalidInput(f"{archive.name} has no {PYTHON} that can be executed", PACK_IT)


def _too_large(archive: Path) -> InvalidInput:
    limit = f"{UNPACKED_MAX_BYTES >> 30} GiB or {MEMBERS_MAX} files"
    return InvalidInput(
        f"{archive.name} is larger than {limit} when it is unpacked", "leave out what is not needed"
    )
