"""Reads and unpacks a packed Python environment (venv-pack, conda-pack): a tar.gz with ``bin/python`` at its top.

Whoever packed it may have meant harm: nothing is written outside of the target, nothing in it leads out of it but a link
of ``bin`` to an interpreter that the host allows, no file is a device or set-user-id, and there is a bound for what comes
out. The errors are those of ``errors``: ``InvalidInput`` for what is wrong with the archive itself.
"""

from __future__ import annotations

import gzip
import os
import tarfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from typing import Final

from supervisor.errors import InvalidInput, Unreachable

PYTHON: Final = "bin/python"
UNPACKED_MAX_BYTES: Final = 8 * 1024**3
MEMBERS_MAX: Final = 300_000
DIRECTORY_MODE: Final = 0o755
TOP_MODE: Final = 0o700
DEPTH_MAX: Final = 64
"""It is that of a member below the top. Whoever walks through what was unpacked may do so recursively."""
PACK_IT: Final = "pack the environment with venv-pack or conda-pack"


class ForbiddenInterpreter(InvalidInput):
    """Says that an archive has an interpreter that is none of the archive, and none that the host allows."""


def require_environment(archive: Path) -> None:
    """Reads the archive as far as its ``bin/python``. Raises InvalidInput if it has none, or is none."""
    with _opened(archive) as tar:
        for number, member in enumerate(tar):
            if _is_python(member.name):
                return
            if number >= MEMBERS_MAX:
                raise _too_large(archive)
    raise _without_python(archive)


def unpack(archive: Path, target: Path, is_allowed: Callable[[str], bool]) -> None:
    """Unpacks the archive into ``target``, an empty directory. ``is_allowed`` says whether a link in ``bin`` may lead to
    this interpreter of the host. Raises InvalidInput, and Unreachable if this host can't do it now."""
    if not hasattr(tarfile, "data_filter"):
        raise Unreachable(
            "the supervisor's Python unpacks nothing safely", "run it with Python 3.11.4 or newer"
        )
    members, size = _Members(is_allowed), 0
    with _opened(archive) as tar:
        for number, member in enumerate(tar):
            size += max(0, member.size)
            if size > UNPACKED_MAX_BYTES or number >= MEMBERS_MAX:
                raise _too_large(archive)
            try:
                tar.extract(member, target, filter=members.judged)
            except gzip.BadGzipFile:
                raise
            except OSError as error:
                why = error.strerror or str(error)
                raise Unreachable(f"{target} cannot be filled ({why})", "make room there") from None
        _open_directories(target)
    if not os.access(target / PYTHON, os.X_OK) or not (target / PYTHON).is_file():
        raise _without_python(archive)


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
def _opened(archive: Path) -> Iterator[tarfile.TarFile]:
    try:
        with tarfile.open(archive, "r:gz") as tar:
            yield tar
    except (tarfile.FilterError, tarfile.TarError, EOFError, zlib.error) as error:
        raise InvalidInput(f"{archive.name} is no usable tar.gz: {error}", PACK_IT) from None
    except OSError as error:
        why = error.strerror or str(error)
        raise InvalidInput(f"{archive.name} is no usable tar.gz: {why}", PACK_IT) from None


def _is_python(name: str) -> bool:
    return PurePosixPath(name).as_posix() == PYTHON


def _without_python(archive: Path) -> InvalidInput:
    return InvalidInput(f"{archive.name} has no {PYTHON} that can be executed", PACK_IT)


def _too_large(archive: Path) -> InvalidInput:
    limit = f"{UNPACKED_MAX_BYTES >> 30} GiB or {MEMBERS_MAX} files"
    return InvalidInput(
        f"{archive.name} is larger than {limit} when it is unpacked", "leave out what is not needed"
    )
