"""What the driver, or the host's supervisor for it, tells the shim: datagrams on a socket in the run directory.

Everything here comes from user code: nothing of it is trusted to be complete, of the right type, or rare.
Called by ``runner``.
"""

from __future__ import annotations

import json
import os
import socket
from typing import Any

from supervisor.clients.run_dir import REPORT
from supervisor.clock import wall_iso
from supervisor.model.records import Progress, clip
from supervisor.shim.state import Reported

DATAGRAM_MAX_BYTES = 8192
TAKEN_AT_ONCE = 50
_TEXT_MAX_BYTES = 1024
_NAME_MAX_BYTES = 120


class ReportSocket:
    """Bound through /proc/self/fd, so that the 108 bytes of a socket address are enough for any directory."""

    def __init__(self, run_dir: str) -> None:
        directory = os.open(run_dir, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            path = f"/proc/self/fd/{directory}/{REPORT}"
            if os.path.lexists(path):
                os.unlink(path)
            self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK)
            self._socket.bind(path)
        finally:
            os.close(directory)

    def fileno(self) -> int:
        return self._socket.fileno()

    def take(self) -> list[Reported]:
        """What has arrived, at most 50 of them: a chatty driver must not keep the shim from its lease."""
        reports = []
        for _ in range(TAKEN_AT_ONCE):
            try:
                data = self._socket.recv(DATAGRAM_MAX_BYTES)
            except OSError:  # nothing more
                break
            report = parse(data)
            if report is not None:
                reports.append(report)
        return reports


def parse(data: bytes) -> Reported | None:
    """None for what is no report."""
    try:
        body = json.loads(data)
    except (ValueError, RecursionError):
        return None
    if not isinstance(body, dict) or not isinstance(body.get("event"), str):
        return None
    event = body["event"][:20]
    if event in ("progress", "looked"):
        return Reported(event, progress=_progress(body))
    if event == "error":
        return Reported(event, error=clip(f"{body.get('kind', '')}: {body.get('message', '')}", _TEXT_MAX_BYTES))
    if event == "terminated" and body.get("error"):
        return Reported("error", error=clip(str(body["error"]), _TEXT_MAX_BYTES))
    return Reported(event)


def _progress(body: dict[str, Any]) -> Progress:
    query = body.get("query")
    batch = body.get("batch_id")
    return Progress(
        clip(query, _NAME_MAX_BYTES) if isinstance(query, str) else None,
        batch if isinstance(batch, int) and not isinstance(batch, bool) else None,
        _number(body.get("input_rows_per_s")), _number(body.get("processed_rows_per_s")), _number(body.get("batch_ms")),
        wall_iso(), _number(body.get("lag")),
    )


def _number(value: Any) -> float | None:
    """Finite numbers only: NaN is no JSON for those who read the record."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return float(value) if abs(value) < 1e15 else None
