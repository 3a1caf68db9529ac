"""Copies the driver's stdout and stderr into rotated files, in a thread of the shim that nothing waits for.

The driver writes into a pipe, and this thread reads it. A disk that is full or fails costs output; the loss
is counted, and reported once there is room again. A disk that hangs delays the driver at most, never the
renewals (F56). When the shim dies the pipe has no reader any more: the driver would get EPIPE, but its tree
is killed at that moment anyway (``twin``).
"""

from __future__ import annotations

import os
import select
import threading
import time
from collections.abc import Callable

from supervisor.clients import umask

CHUNK_BYTES = 32 * 1024
TAIL_BYTES = 16 * 1024
_REOPEN_S = 1.0


class RotatedFile:
    """Writes to ``path``; ``path.1`` is the previous file, and so on up to ``path.<keep − 1>``. A write never
    raises: what cannot be written is dropped and counted."""

    def __init__(self, path: str, max_bytes: int, keep: int) -> None:
        self.path = path
        self.dropped_bytes = 0
        self._max_bytes = max_bytes
        self._keep = max(1, keep)
        self._descriptor: int | None = None
        self._size = 0
        self._retry_at_s = 0.0

    def write(self, data: bytes) -> None:
        if self._descriptor is None and not self._open():
            self.dropped_bytes += len(data)
            return
        if self.dropped_bytes:
            note = (
                f"\n[{self.dropped_bytes} bytes of output were dropped: they could not be written]\n".encode()
            )
            if self._put(note) < len(note):
                self.dropped_bytes += len(data)
                return
            self.dropped_bytes = 0
        self.dropped_bytes += len(data) - self._put(data)
        if self._size >= self._max_bytes:
            self._rotate()

    def close(self) -> None:
        if self._descriptor is not None:
            try:
                os.close(self._descriptor)
            except OSError:  # a late EIO of what was written before
                pass
            self._descriptor = None

    def move_to(self, path: str) -> None:
        """Gives the file, and what was rotated, another name; what is written goes on into the same file. What has the
        new name already becomes its rotated file. A name that can't be had costs nothing but the name."""
        try:
            if os.path.exists(path):
                if self._keep == 1:
                    return
                os.replace(path, f"{path}.1")
            umask.make_shared_directories(os.path.dirname(path), umask.GROUP)
            os.rename(self.path, path)
        except OSError:
            return
        before, self.path = self.path, path
        for number in range(1, self._keep):
            try:
                if not os.path.exists(f"{path}.{number}"):
                    os.rename(f"{before}.{number}", f"{path}.{number}")
            except OSError:
                pass

    def _put(self, data: bytes) -> int:
        """Returns how many bytes were taken."""
        done = 0
        try:
            while done < len(data) and self._descriptor is not None:
                done += os.write(self._descriptor, data[done:])
        except OSError:
            pass
        self._size += done
        return done

    def _open(self) -> bool:
        now_s = time.monotonic()
        if now_s < self._retry_at_s:
            return False
        self._retry_at_s = now_s + _REOPEN_S
        try:
            umask.make_shared_directories(os.path.dirname(self.path), umask.GROUP)
            self._descriptor = os.open(
                self.path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o640
            )
            self._size = os.fstat(self._descriptor).st_size
            if self._size == 0:
                umask.share(self._descriptor, umask.GROUP)
        except OSError:
            return False
        self._retry_at_s = 0.0
        return True

    def _rotate(self) -> None:
        self.close()
        try:
            for number in range(self._keep - 1, 0, -1):
                older = f"{self.path}.{number - 1}" if number > 1 else self.path
                if os.path.exists(older):
                    os.replace(older, f"{self.path}.{number}")
            if self._keep == 1:
                os.truncate(self.path, 0)
        except OSError:  # then the file grows on; the next write tries again
            pass
        self._open()  # there is always a file to follow


class OutputPump(threading.Thread):
    """Copies ``descriptor`` into ``file`` until its end, and remembers the last 16 KiB for the exit's reason. ``cover``
    takes the secrets out of these."""

    def __init__(self, descriptor: int, file: RotatedFile, cover: Callable[[str], str] = str) -> None:
        super().__init__(name="output", daemon=True)
        self._descriptor = descriptor
        self._file = file
        self._tail = b""
        self._cover = cover
        self._moves_to = ""
        self._wake = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)

    def move_to(self, path: str) -> None:
        """Gives the file another name (``RotatedFile.move_to``), soon: nobody waits for the disk."""
        self._moves_to = path
        os.eventfd_write(self._wake, 1)

    def run(self) -> None:
        self._file.write(b"")  # a log to look at, also of a silent driver
        poll = select.poll()
        poll.register(self._descriptor, select.POLLIN)
        poll.register(self._wake, select.POLLIN)
        while True:
            ready = {descriptor for descriptor, _ in poll.poll()}
            if self._wake in ready:
                os.eventfd_read(self._wake)
                self._file.move_to(self._moves_to)
            if self._descriptor not in ready:
                continue
            try:
                data = os.read(self._descriptor, CHUNK_BYTES)
            except OSError:
                data = b""
            if not data:
                break
            self._tail = (self._tail + data)[-TAIL_BYTES:]
            self._file.write(data)
        self._file.close()

    def tail(self) -> str:
        return self._cover(self._tail.decode("utf-8", "replace"))
