"""Notifies systemd of the state of this process (sd_notify), if it asked: READY=1, WATCHDOG=1, STOPPING=1, STATUS=.

Called by ``daemon.loops.watchdog`` and at start and stop of the daemon. Without NOTIFY_SOCKET nothing happens.
"""

from __future__ import annotations

import os
import socket


def notify(*lines: str) -> bool:
    """Sends lines such as ``READY=1``. It never blocks or raises; it returns True if they were sent."""
    address = os.environ.get("NOTIFY_SOCKET", "")
    if not address.startswith(("/", "@")):
        return False
    if address.startswith("@"):
        address = "\0" + address[1:]  # the abstract namespace
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as link:
            link.setblocking(False)
            link.sendto("\n".join(lines).encode(), address)
    except OSError:
        return False
    return True


def watchdog_period_s() -> float | None:
    """Returns how often systemd wants WATCHDOG=1 at the least, in seconds (half its limit), or None if it does not want it
    or asks another process."""
    limit_us = os.environ.get("WATCHDOG_USEC", "")
    asked = os.environ.get("WATCHDOG_PID", "")
    if not limit_us.isdigit() or int(limit_us) == 0 or (asked and asked != str(os.getpid())):
        return None
    return int(limit_us) / 2e6
