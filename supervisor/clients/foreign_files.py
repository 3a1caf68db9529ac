"""Opens files and directories at paths that another Unix user may be able to change: checkpoints, savepoints, restored
copies, the directories of logs. Whoever reads or writes there goes through this module.

A job's user, or somebody else, may put a link, a FIFO or another directory there at any time. So a path is walked by
descriptors, and each of them is judged by what it is, not by its name:

* **Links.** Above a location a link is followed if root or the user of this process has made it, in a directory that nobody
  else can change: so an administrator may move data. Within a location no link is followed. What a link of the job itself
  would lead to is not its to choose.
* **Files** are regular ones. Opening never waits. In a directory that others may change, a file of root or of this
  process's user that has a second name is refused: somebody may have given it that name.
* **Writing.** Each directory that is written to belongs to root or to the user of this process, and nobody else may change
  it. New directories are made below nobody else's. ``store_trust`` says what holds within the supervisor's own store.

Errors are OSError. ``UntrustedPath`` is one that says which part is not trusted and why.
"""

from __future__ import annotations

import errno
import os
import secrets
import stat
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from supervisor.clients import umask
from supervisor.clients.access import WRITE, granted_at
from supervisor.model.driver_user import ROOT

CLOSED_DEEP_MAX: Final = 64
LINKS_MAX: Final = 40
"""As many links of one path the kernel follows."""
_ENTER: Final = os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_LIST: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_NAMED_LIST: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
_READ: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
_NEW: Final = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


class UntrustedPath(PermissionError):
    """Says that a path leads over what another user has chosen, or may change."""

    def __init__(self, path: str, why: str) -> None:
        super().__init__(errno.EPERM, why, path)


@dataclass(frozen=True, slots=True)
class WriterTrust:
    """Says who may own and change a directory, so that this process writes to it: ``owners``, and the members of
    ``groups``, to which the directory belongs then; ``anybody`` says that it may be open to all. A group is trusted too
    if this process's own umask lets it write to what is made. ``heir`` gets what root makes. ``is_named`` says
    that the operator has named the location, so that links to it are his."""

    owners: frozenset[int]
    groups: frozenset[int] = frozenset()
    anybody: bool = False
    heir: tuple[int, int] | None = None
    is_named: bool = False

    def hand_over(self, descriptor: int) -> None:
        """Gives what this process has just made to ``heir``, a user and a group, if there is one. Raises OSError."""
        if self.heir is not None:
            os.fchown(descriptor, *self.heir)

    def why_not(self, directory: int) -> str:
        """Returns why nothing is written to the directory, which is open for reading, or nothing. Raises OSError."""
        found = os.fstat(directory)
        is_of_group = found.st_gid in self.groups
        if found.st_uid not in self.owners and not is_of_group and not _is_as_own(directory, found.st_uid):
            return f"belongs to user {found.st_uid}"
        if found.st_mode & stat.S_IWOTH and not self.anybody:
            return "may be changed by everybody"
        users = [uid for uid, may in granted_at(directory).items() if may & WRITE and uid not in self.owners]
        if users:
            return f"may be changed by user {users[0]}"
        is_shared = is_of_group or umask.lets_group_write()
        return "" if is_shared or not found.st_mode & stat.S_IWGRP else "may be changed by its group"


def _is_as_own(directory: int, owner: int) -> bool:
    """Says whether ``owner`` is whom this process's own files belong to there: a server may give all to one user
    (squashed), and some mounts into containers do. A file tells it, which is made and removed."""
    name = f".{secrets.token_hex(8)}.owner"
    try:
        descriptor = create_file(directory, name)
    except OSError:
        return False
    try:
        return os.fstat(descriptor).st_uid == owner
    finally:
        os.close(descriptor)
        with suppress(OSError):
            os.unlink(name, dir_fd=directory)


def own_trust() -> WriterTrust:
    """Returns the trust outside of the store: root and the user of this process."""
    return WriterTrust(frozenset({ROOT, os.geteuid()}))


def store_trust(store: str) -> WriterTrust:
    """Returns the trust within the directory of the store. The operator has said by its owner, its group and its mode who
    writes there; whoever else may, is trusted with nothing below. What root makes there belongs to the owner of the store,
    who could not go on with it otherwise. Raises OSError."""
    found = Path(store).stat()
    groups = frozenset({found.st_gid}) if found.st_mode & stat.S_IWGRP else frozenset[int]()
    owners = {ROOT, os.geteuid(), found.st_uid}
    heir = (found.st_uid, found.st_gid) if os.geteuid() == ROOT != found.st_uid else None
    return WriterTrust(frozenset(owners), groups, bool(found.st_mode & stat.S_IWOTH), heir, is_named=True)


# -- directories ----------------------------------------------------------------------------------------------------


@contextmanager
def directory_at(path: str, below: str = "", *, to_list: bool = False) -> Iterator[int]:
    """Opens the directory ``below`` in the location ``path``, which is absolute. Its descriptor serves for names in it, and
    with ``to_list`` also to list and to sync it, for which one needs the right to read it. Raises OSError."""
    with _opened(_entered(path), path, below, to_list) as descriptor:
        yield descriptor


@contextmanager
def directory_in(own: str, below: str, *, to_list: bool = False) -> Iterator[int]:
    """Does the same for ``own``, which the operator has named, so that links of it are his; within it no link is followed.
    Raises OSError."""
    entered = os.open(own, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    with _opened(entered, own, below, to_list) as descriptor:
        yield descriptor


@contextmanager
def _opened(descriptor: int, path: str, below: str, to_list: bool) -> Iterator[int]:
    with _Walk(descriptor) as walk:
        for name in filter(None, below.split("/")):
            walk.go_to(_step(walk.at, name, f"{path}/{below}"))
        if to_list:
            walk.go_to(os.open(".", _LIST, dir_fd=walk.at))
        yield walk.at


class _Walk:
    """Is at one directory, whose descriptor is open, until it ends: ``at``. Wherever it is interrupted, each descriptor is
    closed once: the number of one that is closed may be another thread's next."""

    def __init__(self, at: int) -> None:
        self.at = at

    def __enter__(self) -> _Walk:
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self.at)

    def go_to(self, descriptor: int) -> None:
        before, self.at = self.at, descriptor
        os.close(before)


def _entered(path: str) -> int:
    """Returns a descriptor of the directory, which leads to it and can't list it. Links are judged. Raises OSError."""
    left, links = deque(path.split("/")), 0
    with _Walk(os.open("/", _ENTER)) as walk:
        while left:
            name = left.popleft()
            if name in ("", "."):
                continue
            try:
                walk.go_to(os.open(name, _ENTER, dir_fd=walk.at))
            except NotADirectoryError:
                target = _target(walk.at, name, path)
                links += 1
                if links > LINKS_MAX:
                    raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), path) from None
                left.extendleft(reversed(target.split("/")))
                if target.startswith("/"):
                    walk.go_to(os.open("/", _ENTER))
        return os.dup(walk.at)


def _target(directory: int, name: str, path: str) -> str:
    """Returns where the link ``name`` leads, if it may be followed. Raises OSError: NotADirectoryError if it is no link."""
    link = os.open(name, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=directory)
    try:
        found = os.fstat(link)
        if not stat.S_ISLNK(found.st_mode):
            raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), path)
        if found.st_uid not in (ROOT, os.geteuid()):
            raise UntrustedPath(path, f"{name} is a link of user {found.st_uid}, and is not followed")
        if _is_changeable(directory) or (found.st_nlink > 1 and _takes_names(directory)):
            raise UntrustedPath(
                path, f"{name} is a link in a directory that others may change, and is not followed"
            )
        return os.readlink("", dir_fd=link)
    finally:
        os.close(link)


def _is_changeable(directory: int) -> bool:
    """Says whether somebody else than root and the user of this process may exchange what is in the directory. In a sticky
    one of theirs everybody may exchange only his own."""
    found = os.fstat(directory)
    is_sticky = found.st_mode & stat.S_ISVTX and found.st_uid in (ROOT, os.geteuid())
    return _takes_names(directory) and not is_sticky


def _takes_names(directory: int) -> bool:
    """Says whether somebody else than root and the user of this process may make names in the directory."""
    found = os.fstat(directory)
    by_others = stat.S_IWOTH | (0 if umask.lets_group_write() else stat.S_IWGRP)
    return found.st_uid not in (ROOT, os.geteuid()) or bool(found.st_mode & by_others)


def _step(directory: int, name: str, path: str) -> int:
    """Returns a descriptor of the directory ``name``, which is no link. Raises OSError."""
    try:
        return os.open(name, _ENTER, dir_fd=directory)
    except NotADirectoryError:
        if stat.S_ISLNK(os.stat(name, dir_fd=directory, follow_symlinks=False).st_mode):
            raise UntrustedPath(path, f"{name} is a link within it, and is not followed") from None
        raise


# -- files ----------------------------------------------------------------------------------------------------------


def open_file(directory: int, name: str) -> int:
    """Returns a descriptor of the regular file ``name`` of a directory, for reading. Raises OSError: ELOOP for a link,
    EINVAL for what is no file."""
    descriptor = os.open(name, _READ, dir_fd=directory)
    try:
        found = os.fstat(descriptor)
        if not stat.S_ISREG(found.st_mode):
            raise OSError(errno.EINVAL, "not a regular file", name)
        if found.st_nlink > 1 and found.st_uid in (ROOT, os.geteuid()) and _takes_names(directory):
            raise UntrustedPath(
                name,
                f"{name} is a second name of a file of user {found.st_uid}, in a directory of others",
            )
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def create_file(directory: int, name: str) -> int:
    """Returns a descriptor of a new file, for writing. Raises OSError: FileExistsError if the name is taken, by whatever."""
    return os.open(name, _NEW, 0o666, dir_fd=directory)


# -- writing --------------------------------------------------------------------------------------------------------


@contextmanager
def directory_to_write(path: str, below: str, trust: WriterTrust) -> Iterator[tuple[int, tuple[int, int]]]:
    """Opens the directory ``below`` in the location ``path``, to write to it; what is missing is made, but not what the
    operator has named. Yields the descriptor, and device and inode of the location itself. Raises OSError: UntrustedPath if
    ``trust`` does not hold for one of them."""
    descriptor = os.open(path, _NAMED_LIST) if trust.is_named else _location_to_write(path, trust)
    with _Walk(descriptor) as walk:
        _require(walk.at, path, trust)
        found = os.fstat(walk.at)
        at = path
        for name in filter(None, below.split("/")):
            at = f"{at}/{name}"
            walk.go_to(_made(walk.at, name, at, trust))
            _require(walk.at, at, trust)
        yield walk.at, (found.st_dev, found.st_ino)


def free_bytes(path: str) -> int | None:
    """Returns how much may be written to the location ``path``, or where it would be made; None if that is not known."""
    while True:
        try:
            with directory_at(path or "/") as directory:
                there = os.fstatvfs(directory)
            return there.f_bavail * there.f_frsize
        except FileNotFoundError:
            path = path.rpartition("/")[0]
        except OSError:
            return None


def require_closed(path: str, below: str, trust: WriterTrust) -> None:
    """Checks all below the directory ``below`` of ``path``, for a program that opens it by its names and follows links: it
    consists of regular files, and of directories in which nobody whom ``trust`` does not name can put anything, so that
    it stays so; nor can anybody exchange a directory above it. Raises OSError: UntrustedPath says what does not hold."""
    for above in () if trust.is_named else Path(os.path.realpath(path)).parents:
        with directory_at(str(above)) as directory:
            if _is_changeable(directory):
                raise UntrustedPath(path, f"{above} above it may be changed by others")
    opened = directory_in if trust.is_named else directory_at
    with opened(path, "", to_list=True) as directory:
        _require(directory, path, trust)
    with opened(path, below, to_list=True) as directory:
        _require_closed(directory, f"{path}/{below}", trust, 0)


def _require_closed(directory: int, path: str, trust: WriterTrust, deep: int) -> None:
    _require(directory, path, trust)
    if deep > CLOSED_DEEP_MAX:
        raise UntrustedPath(path, f"has directories that are more than {CLOSED_DEEP_MAX} deep")
    with os.scandir(directory) as children:
        for child in children:
            at = f"{path}/{child.name}"
            mode = child.stat(follow_symlinks=False).st_mode
            if stat.S_ISDIR(mode):
                with _Walk(_step(directory, child.name, at)) as walk:
                    walk.go_to(os.open(".", _LIST, dir_fd=walk.at))
                    _require_closed(walk.at, at, trust, deep + 1)
            elif not stat.S_ISREG(mode):
                kind = "a link" if stat.S_ISLNK(mode) else "no regular file"
                raise UntrustedPath(at, f"is {kind}, and nothing that Spark writes to a checkpoint")


def require_writable(path: str, trust: WriterTrust) -> None:
    """Checks, and leaves nothing: may this process write to the location ``path``, or make it? Raises OSError: UntrustedPath
    if ``trust`` does not hold."""
    try:
        with directory_at(path, to_list=True) as directory:
            _require(directory, path, trust)
    except FileNotFoundError:
        _require_to_make(path, trust)


def _require_to_make(path: str, trust: WriterTrust) -> None:
    above, _, _name = path.rpartition("/")
    try:
        with directory_at(above or "/") as directory:
            _require_owner(directory, path, above, trust)
    except FileNotFoundError:
        _require_to_make(above, trust)


def _require_owner(directory: int, path: str, above: str, trust: WriterTrust) -> None:
    owner = os.fstat(directory).st_uid
    if owner not in trust.owners and not _is_as_own(directory, owner):
        raise UntrustedPath(path, f"{above} belongs to user {owner}")


def _location_to_write(path: str, trust: WriterTrust) -> int:
    try:
        entered = _entered(path)
    except FileNotFoundError:
        above, _, name = path.rpartition("/")
        parent = _location_to_write(above, trust)
        try:
            _require_owner(parent, path, above, trust)
            return _made(parent, name, path, trust)
        finally:
            os.close(parent)
    try:
        return os.open(".", _LIST, dir_fd=entered)
    finally:
        os.close(entered)


def _made(directory: int, name: str, path: str, trust: WriterTrust) -> int:
    """Returns a descriptor of the directory ``name``, which is made if it is missing. Raises OSError."""
    is_new = False
    try:
        os.mkdir(name, 0o777, dir_fd=directory)
        is_new = True
    except FileExistsError:
        pass
    entered = _step(directory, name, path)
    try:
        descriptor = os.open(".", _LIST, dir_fd=entered)
    finally:
        os.close(entered)
    if is_new:
        umask.share(descriptor)
        trust.hand_over(descriptor)
    return descriptor


def _require(directory: int, path: str, trust: WriterTrust) -> None:
    why = trust.why_not(directory)
    if why:
        raise UntrustedPath(path, f"{path} {why}")
