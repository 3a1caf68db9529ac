"""Runs ``python -m supervisor.clients.diagnostics``: reads one task from stdin, writes the diagnostics to stdout, and ends.

It is bounded by itself: whatever hangs, the kernel ends it (SIGALRM) some seconds after its time. It becomes the user of the
driver before it opens anything of it, so that what the user has put there is of no use to anybody else.
"""

from __future__ import annotations

import codecs
import json
import os
import signal
import sys

from supervisor.clients.diagnostics.collection import collect, task_of
from supervisor.clients.privileges import become
from supervisor.model.driver_user import DriverUser

_MORE_S = 3


def main() -> None:
    """Collects what stdin asks for."""
    given = json.loads(sys.stdin.buffer.read())
    user = given.pop("user", None)
    task = task_of(given)
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
    signal.alarm(int(task.within_s) + _MORE_S)
    for name in (
        "ascii",
        "utf-8",
    ):  # they are loaded when they are used, and the other user may not be able to
        codecs.lookup(name)
    if user is not None:
        become(DriverUser(name=user["name"], uid=user["uid"], gid=user["gid"], groups=tuple(user["groups"])))
    collect(task, _write)


def _write(text: str) -> None:
    data = memoryview(text.encode("utf-8", "replace"))
    while data:
        data = data[os.write(1, data) :]


if __name__ == "__main__":
    try:
        main()
    except BrokenPipeError:  # nobody reads any more
        pass
