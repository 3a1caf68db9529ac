"""Lets a process become another Unix user for good, and says whether this process may do that.

The starter of a shim becomes the user of its driver right before exec, and so does the process that empties
what a driver has left behind. A supervisor that is not root needs three capabilities for it (``NEEDED``), which
it and its shims inherit as *ambient* ones from the service manager. None of them reaches the driver: a change
from one unprivileged user to another clears no capability by itself, so all sets are cleared here, and
``no_new_privs`` keeps every later exec from giving any back. This module imports the standard library only, and
little of it, because a shim imports it.
"""

from __future__ import annotations

import errno
import os
from typing import Any, Final

from supervisor.model.driver_user import ROOT, DriverUser

NEEDED: Final = {"CAP_KILL": 5, "CAP_SETGID": 6, "CAP_SETUID": 7}
"""Of the signals to another user's processes, and of the two identities. No capability to read or change files of
others is needed: what a driver may read is granted by ACL (``access``), and what it wrote is removed as its user."""

_SET_NO_NEW_PRIVS, _DROP_BOUNDING, _AMBIENT, _CLEAR_ALL = 38, 24, 47, 4
_CAPABILITIES_MAX: Final = 63
_CAPSET_VERSION: Final = 0x20080522
_SETS: Final = ("CapInh", "CapPrm", "CapEff", "CapAmb")


def missing(pid: int | None = None) -> tuple[str, ...]:
    """Returns the capabilities that this process (or ``pid``), or one that it executes, would lack."""
    status = _status(pid)
    is_root = status.get("Uid", "").split()[1:2] == [str(ROOT)]
    sets = ["CapEff"] if is_root else ["CapEff", "CapAmb"]
    has = [int(status.get(name, "0"), 16) for name in sets]
    return tuple(name for name, bit in NEEDED.items() if not all(mask >> bit & 1 for mask in has))


def give_up() -> None:
    """Gives up the capabilities that this process has without being root: those of the supervisor are not for a driver
    of the supervisor's own user either. Raises OSError."""
    if os.geteuid() == ROOT or _has_none(_status()):
        return
    import ctypes  # here: as below

    _clear_capabilities(ctypes.CDLL(None, use_errno=True))


def become(user: DriverUser) -> None:
    """Makes this process, which must have one thread, one of ``user``, without any capability and without a way
    back. Raises OSError if that is not possible, and also if it turns out not to have happened: then the process must not go
    on."""
    import ctypes  # here: only a process that is about to be replaced needs it

    if ROOT in (user.uid, user.gid, *user.groups):
        raise PermissionError(errno.EPERM, f"nothing runs as root or in its group (user {user.name})")
    libc = ctypes.CDLL(None, use_errno=True)

    def prctl(option: int, value: int) -> int:
        return 0 if libc.prctl(option, value, 0, 0, 0) == 0 else ctypes.get_errno()

    if error := prctl(_SET_NO_NEW_PRIVS, 1):
        raise OSError(error, f"no_new_privs cannot be set ({os.strerror(error)})")
    for capability in range(_CAPABILITIES_MAX + 1):
        if prctl(_DROP_BOUNDING, capability) == errno.EPERM:  # without CAP_SETPCAP: no_new_privs does it
            break
    try:
        os.setgroups(user.groups)
        os.setresgid(user.gid, user.gid, user.gid)
        os.setresuid(user.uid, user.uid, user.uid)
    except OSError as failed:
        raise OSError(
            failed.errno, f"it may not become user {user.name} ({failed.strerror}); see policy.run_as"
        ) from None
    _clear_capabilities(libc)
    _require_became(user)


def _clear_capabilities(libc: Any) -> None:
    import ctypes  # here: as above

    libc.prctl(_AMBIENT, _CLEAR_ALL, 0, 0, 0)
    header = (ctypes.c_uint32 * 2)(_CAPSET_VERSION, 0)
    if libc.capset(header, (ctypes.c_uint32 * 6)()) != 0:
        raise OSError(ctypes.get_errno(), "its capabilities cannot be given up")


def _require_became(user: DriverUser) -> None:
    status = _status()
    is_user = os.getresuid() == (user.uid,) * 3 and os.getresgid() == (user.gid,) * 3
    is_plain = status.get("NoNewPrivs") == "1" and _has_none(status)
    if not (is_user and is_plain and set(os.getgroups()) == set(user.groups)):
        raise PermissionError(errno.EPERM, f"it did not become user {user.name} alone")


def _has_none(status: dict[str, str]) -> bool:
    """Returns whether the process has no capability; a set that is not known counts as one that has some."""
    return all(int(status.get(name, "1"), 16) == 0 for name in _SETS)


def _status(pid: int | None = None) -> dict[str, str]:
    """Returns what the kernel says of a process, this one if none is named. Nothing known means nothing allowed."""
    try:
        # as bytes: what decodes others may have to be imported, and this user may not be able to
        with open(f"/proc/{pid or 'self'}/status", "rb") as file:
            lines = file.read().decode("utf-8", "replace").splitlines()
        pairs = (line.split(":", 1) for line in lines if ":" in line)
        return {name: value.strip() for name, value in pairs}
    except OSError:
        return {}
