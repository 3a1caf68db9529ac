"""Grants one more Unix user access to a file or a directory of this process's own user, by its POSIX ACL.

The owner stays the owner: no capability is needed, nobody else gets anything, whichever groups the user is in,
and what the user may not write it cannot have changed. A link is never followed, and what belongs to another
user is never touched: the paths lead below directories of the supervisor, but a defect must not open more than
those. A file system needs ACLs for it (ext4, xfs, tmpfs and overlayfs have them).
"""

from __future__ import annotations

import errno
import os
import stat
import struct
from typing import Final

READ: Final = 4
WRITE: Final = 2
ENTER: Final = 1

_ATTRIBUTE: Final = "system.posix_acl_access"
_VERSION: Final = struct.pack("<I", 2)
_ENTRY: Final = struct.Struct("<HHI")
_USER_OBJ, _USER, _GROUP_OBJ, _GROUP, _MASK, _OTHER = 0x01, 0x02, 0x04, 0x08, 0x10, 0x20
_NOBODY: Final = 0xFFFFFFFF

Entries = dict[tuple[int, int], int]
"""It maps (tag, id) to permissions."""


def grant(path: str, uid: int, may: int) -> None:
    """Lets ``uid`` do what ``may`` says with ``path`` (READ, WRITE and ENTER, added up). What others may stays as it is.
    Raises OSError: ENOTSUP where the file system has no ACLs."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        found = os.fstat(descriptor)
        if found.st_uid != os.geteuid():
            raise PermissionError(errno.EPERM, os.strerror(errno.EPERM), path)
        if not (stat.S_ISDIR(found.st_mode) or stat.S_ISREG(found.st_mode)):
            raise OSError(errno.EINVAL, os.strerror(errno.EINVAL), path)
        entries = _entries(descriptor, found.st_mode)
        entries[_USER, uid] = may
        of_groups = [bits for (tag, _), bits in entries.items() if tag in (_USER, _GROUP_OBJ, _GROUP)]
        entries[_MASK, _NOBODY] = 0
        for bits in of_groups:
            entries[_MASK, _NOBODY] |= bits
        os.setxattr(descriptor, _ATTRIBUTE, _encoded(entries))
    finally:
        os.close(descriptor)


def granted(path: str) -> dict[int, int]:
    """Returns what users are granted beside the owner, by their ids. Raises OSError."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        entries = _entries(descriptor, os.fstat(descriptor).st_mode)
    finally:
        os.close(descriptor)
    return _of_users(entries)


def granted_at(descriptor: int) -> dict[int, int]:
    """Returns the same of what is open. Where the file system has no ACLs nobody is granted anything. Raises OSError."""
    try:
        return _of_users(_entries(descriptor, os.fstat(descriptor).st_mode))
    except OSError as error:
        if error.errno == errno.ENOTSUP:
            return {}
        raise


def _of_users(entries: Entries) -> dict[int, int]:
    return {uid: bits for (tag, uid), bits in entries.items() if tag == _USER}


def _entries(descriptor: int, mode: int) -> Entries:
    plain = {
        (_USER_OBJ, _NOBODY): mode >> 6 & 7,
        (_GROUP_OBJ, _NOBODY): mode >> 3 & 7,
        (_OTHER, _NOBODY): mode & 7,
    }
    try:
        data = os.getxattr(descriptor, _ATTRIBUTE)
    except OSError as error:
        if error.errno == errno.ENODATA:
            return plain
        raise
    return {(tag, uid): bits for tag, bits, uid in _ENTRY.iter_unpack(data[len(_VERSION) :])}


def _encoded(entries: Entries) -> bytes:
    """Returns the attribute. The kernel wants the entries sorted by tag and id."""
    return _VERSION + b"".join(_ENTRY.pack(tag, bits, uid) for (tag, uid), bits in sorted(entries.items()))
