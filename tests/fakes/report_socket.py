"""The shim's end of the report protocol, for tests of what sends to it."""

from __future__ import annotations

import json
import os
import socket
from pathlib import Path
from types import TracebackType
from typing import Any


class ReportSocket:
    """Bound at ``<directory>/report`` through /proc, so that long directories do no harm. ``taken`` keeps all events."""

    def __init__(self, directory: Path) -> None:
        self.path = directory / "report"
        self._directory = os.open(directory, os.O_PATH | os.O_DIRECTORY)
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK)
        self._socket.bind(f"/proc/self/fd/{self._directory}/report")
        self.taken: list[dict[str, Any]] = []

    def take(self) -> list[dict[str, Any]]:
        """Read what has arrived; all events so far, oldest first."""
        while True:
            try:
                data = self._socket.recv(65536)
            except BlockingIOError:
                return self.taken
            assert len(data) <= 8192
            self.taken.append(json.loads(data))

    def names(self) -> list[str]:
        return [event["event"] for event in self.take()]

    def __enter__(self) -> ReportSocket:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._socket.close()
        os.close(self._directory)
