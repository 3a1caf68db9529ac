"""Finds Unix users of this host by name or number, for drivers that run as them."""

from __future__ import annotations

import os
import pwd
import stat
from pathlib import Path

from supervisor.errors import InvalidInput, NotFound
from supervisor.model.driver_user import ROOT, DriverUser


def closed_to_others(path: str) -> str | None:
    """Returns the part of ``path``, links resolved, that other users can't pass or read, or None if they can."""
    whole = Path(os.path.realpath(path))
    for part in (*reversed(whole.parents), whole):
        try:
            mode = part.stat().st_mode
        except OSError:
            return str(part)
        if not mode & (stat.S_IROTH if part == whole else stat.S_IXOTH):
            return str(part)
    return None


def may_read(path: str, user: DriverUser) -> bool:
    """Returns whether the modes of ``path`` and of the directories above it let ``user`` read the file. Access control
    lists are not asked."""
    whole = Path(os.path.realpath(path))
    try:
        return all(
            _allows(part.stat(), user, stat.S_IRUSR if part == whole else stat.S_IXUSR)
            for part in (*reversed(whole.parents), whole)
        )
    except OSError:
        return False


def _allows(status: os.stat_result, user: DriverUser, of_owner: int) -> bool:
    if status.st_uid == user.uid:
        return bool(status.st_mode & of_owner)
    if status.st_gid in (user.gid, *user.groups):
        return bool(status.st_mode & (of_owner >> 3))
    return bool(status.st_mode & (of_owner >> 6))


def find_driver_user(name: str) -> DriverUser:
    """Returns the user ``name``, or the one with that number, with its own groups.

    A number without an entry has a group of the same number, and no home; Hadoop, and so Spark, does not run as one.
    Raises NotFound for a name that this host does not know, and InvalidInput for one that no driver may run as: root,
    root's group, and the user of this process.
    """
    try:
        entry = pwd.getpwuid(int(name)) if name.isdigit() else pwd.getpwnam(name)
    except KeyError:
        if not name.isdigit():
            raise NotFound(
                f"there is no user {name}", f"make it on this host: useradd --system {name}"
            ) from None
        user = DriverUser(name=name, uid=int(name), gid=int(name))
    else:
        groups = tuple(sorted(set(os.getgrouplist(entry.pw_name, entry.pw_gid)) - {entry.pw_gid}))
        home = entry.pw_dir if Path(entry.pw_dir).is_dir() else ""
        user = DriverUser(name=entry.pw_name, uid=entry.pw_uid, gid=entry.pw_gid, groups=groups, home=home)
    if ROOT in (user.uid, user.gid, *user.groups):
        raise InvalidInput(f"user {name} is root, or in root's group", "choose another user")
    if user.uid == os.geteuid():
        raise InvalidInput(f"user {name} is the supervisor's own", "leave run_as out, or choose another user")
    return user
