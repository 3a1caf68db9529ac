"""Asks the Python interpreter of a driver where its threads are, by an order to the bootstrap in it (``spark.orders``).

A thread of the bootstrap answers, which does nothing else and never asks the JVM. It needs Python's global lock for a
moment: an interpreter that does not answer is kept from running any Python by code that never releases it.

A signal handler of ``faulthandler`` would answer even then, but an application can tell that it is there (its own use of the
signal, ``/proc``, each child that it forks), and this software changes nothing that an application sees.
"""

from __future__ import annotations

import json
import os
import socket
import stat
import time
from typing import Final

ORDER: Final = "stacks"
WITHIN_S: Final = 1.0
ANSWER_MAX_BYTES: Final = 256 * 1024


def ask_interpreter(orders: str, uid: int, until_at_s: float) -> str | None:
    """Returns the threads of the interpreter that takes orders at the socket ``orders`` of the user ``uid``, or None if it
    has not answered: there is none, or it can't. ``until_at_s`` is of ``time.monotonic``."""
    try:
        target = os.open(orders, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        found = os.fstat(target)
        if not stat.S_ISSOCK(found.st_mode) or found.st_uid != uid:
            return None
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as ours:
            ours.bind(b"")  # the kernel gives it a name, to which the answer is sent
            ours.settimeout(max(0.01, min(WITHIN_S, until_at_s - time.monotonic())))
            ours.sendto(json.dumps({"order": ORDER}).encode(), f"/proc/self/fd/{target}")
            return ours.recv(ANSWER_MAX_BYTES).decode("utf-8", "replace")
    except OSError:
        return None
    finally:
        os.close(target)
