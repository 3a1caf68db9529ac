"""Ends helper processes when the process that started them dies, however it dies.

PDEATHSIG would not do: it fires when the *thread* that called fork ends, and SIGKILL lets nobody clean up. So a tiny
process of its own holds a pidfd of its parent and of every process handed to it; when the parent is gone it kills them.
A pidfd never names another process, so a reused pid is never hit.

Used by the embedded ensemble and by tests. It never ends anything that was not handed to it, and never outlives both
its parent and its charges. This file is also the program of the guard, run by path: it imports nothing but the stdlib.
"""

from __future__ import annotations

import os
import select
import signal
import socket
import subprocess
import sys

_WATCH = b"w"
_DISMISS = b"q"


class DeathGuard:
    """One guard process, about 8 MB. Use from one thread at a time.

    Charges are killed (SIGKILL) when this process dies or exits without ``dismiss``.
    """

    def __init__(self) -> None:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        parent = os.pidfd_open(os.getpid())
        try:
            self._process = subprocess.Popen(
                [sys.executable, "-I", "-S", __file__, str(parent), str(theirs.fileno())],
                pass_fds=(parent, theirs.fileno()),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
                cwd="/",
            )
        finally:
            os.close(parent)
            theirs.close()
        self._socket = ours

    @property
    def pid(self) -> int:
        return self._process.pid

    def watch(self, pid: int) -> None:
        """Hand over a child of this process. It must not have been waited for yet, so that ``pid`` is certainly it."""
        charge = os.pidfd_open(pid)
        try:
            socket.send_fds(self._socket, [_WATCH], [charge])
        finally:
            os.close(charge)

    def dismiss(self) -> None:
        """The charges may live on: the guard goes, killing nobody. Idempotent."""
        if self._socket.fileno() < 0:
            return
        try:
            self._socket.send(_DISMISS)
        except (BrokenPipeError, ConnectionResetError):
            pass  # the guard itself was killed: it guards nothing any more
        self._socket.close()
        try:
            self._process.wait(timeout=5)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


def _guard(parent: int, control: socket.socket) -> None:
    charges: set[int] = set()
    poller = select.poll()
    poller.register(parent, select.POLLIN)
    poller.register(control, select.POLLIN)
    while True:
        for fd, _ in poller.poll():
            if fd == parent:
                for charge in charges:
                    _kill(charge)
                return
            if fd == control.fileno():
                message, received, _, _ = socket.recv_fds(control, 1, 1)
                if message == _DISMISS:
                    return
                if message == _WATCH:
                    charges.update(received)
                    for charge in received:
                        poller.register(charge, select.POLLIN)
                else:  # closed without a word: the parent is about to go, its pidfd will tell
                    poller.unregister(control)
            elif fd in charges:
                charges.discard(fd)
                poller.unregister(fd)
                os.close(fd)


def _kill(pidfd: int) -> None:
    try:
        signal.pidfd_send_signal(pidfd, signal.SIGKILL)
    except ProcessLookupError:
        pass


if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    _guard(int(sys.argv[1]), socket.socket(fileno=int(sys.argv[2])))
