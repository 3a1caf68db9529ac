"""Lays out how a supervisor and a driver of another Unix user talk: directories of the supervisor's own, in which
only that user gets something beside it, by ACL.

==============================  ==============================================================================
<runtime_dir>                   0711: who knows a name gets to it, nobody sees one
<runtime_dir>/attempts          0700: launch files, deadlines, locks. No driver gets there
<runtime_dir>/work/<key>        the driver's user may read and enter it: properties, files, and
  user                          whose it is (``daemon.host.leftovers`` removes what that user has written, as that user)
  channel                       it may read and enter it
    report                      the shim's socket, to which it may send
    gate, opening               verdict and opening, which it may read (``run_dir``)
    driver                      it may make files here: the socket ``orders``, at which it takes orders
<state_dir>/jobs, tmp           0711. The directories in them have ``user``, too, and one where it may write
                                (``model.host_directories``)
==============================  ==============================================================================

The user owns none of these, so it can neither replace nor open one of them to others. ``spark.attempt_place`` and
``daemon.host`` call it, and the shim takes a name from it; so it imports the standard library only.
"""

from __future__ import annotations

import contextlib
import os
import stat
from typing import Final

from supervisor.clients.access import ENTER, READ, WRITE, grant
from supervisor.clients.run_dir import ORDERS, write_atomically

CHANNEL: Final = "channel"
DRIVERS_OWN: Final = "driver"
USER: Final = "user"
READABLE: Final = 0o644
"""Of files that only their directory keeps from others."""
TRAVERSED: Final = 0o711


def make_channel(work_dir: str, uid: int) -> str:
    """Makes what is in ``work_dir``, which exists, for a driver of the user ``uid``, and returns the channel. It may be
    called again. Raises OSError."""
    channel = f"{work_dir}/{CHANNEL}"
    own = f"{channel}/{DRIVERS_OWN}"
    for directory in (channel, own):
        try:
            os.mkdir(directory, 0o700)
        except FileExistsError:
            pass
    write_atomically(f"{work_dir}/{USER}", b"%d\n" % uid)
    grant(own, uid, READ | WRITE | ENTER)
    grant(channel, uid, READ | ENTER)
    grant(work_dir, uid, READ | ENTER)
    return channel


def open_to(directory: str, name: str, uid: int) -> None:
    """Lets the user ``uid`` write to ``name`` in ``directory``, which both exist, and notes that it does: what it leaves
    there is removed as that user. Raises OSError."""
    write_atomically(f"{directory}/{USER}", b"%d\n" % uid)
    grant(f"{directory}/{name}", uid, READ | WRITE | ENTER)
    grant(directory, uid, ENTER)


def orders_path(channel: str, of_other_user: bool) -> str:
    """Returns the socket at which a driver takes orders. ``channel`` is that of its attempt, which is the run directory
    where the driver's user is the supervisor's own."""
    return f"{channel}/{DRIVERS_OWN}/{ORDERS}" if of_other_user else f"{channel}/{ORDERS}"


def user_of(work_dir: str) -> int | None:
    """Returns the user whose driver works in ``work_dir``; None if that is the supervisor's own. Raises OSError,
    ValueError if it can't be known."""
    try:
        with open(f"{work_dir}/{USER}", "rb") as file:
            return int(file.read(20))
    except FileNotFoundError:
        return None


def let_pass(directory: str) -> None:
    """Makes a directory of this user's one that others may pass, and not list. Raises OSError."""
    os.makedirs(directory, mode=0o700, exist_ok=True)
    os.chmod(directory, TRAVERSED)


def let_read(directory: str) -> None:
    """Makes what is in ``directory`` readable, and not writable, for all who get there. It is for files of this user's
    that are no secret among those who do. Links are left alone. Raises OSError."""
    for above, _directories, files, descriptor in os.fwalk(directory, follow_symlinks=False):
        if above != directory:
            os.fchmod(descriptor, 0o755)
        for name in files:
            with contextlib.suppress(FileNotFoundError):  # the draft of another thread
                _let_read_file(name, descriptor)


def _let_read_file(name: str, directory: int) -> None:
    file = os.open(name, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=directory)
    try:
        if stat.S_ISREG(os.fstat(file).st_mode):
            os.chmod(f"/proc/self/fd/{file}", READABLE)
    finally:
        os.close(file)
