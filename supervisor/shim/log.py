"""Writes the shim's log: one JSON object per line in shim.log, in the form of the supervisor's, so that a uid
can be followed.

It is used by shim and twin in place of ``supervisor.logs``, because structlog would cost every job some
megabytes. The events and their fields stand in ``supervisor.logs.events``. A line that cannot be written (a
full disk) is lost, and nothing else.
"""

from __future__ import annotations

import json
import os
from typing import Any

from supervisor.clock import wall_iso


class ShimLog:
    """Writes lines about one attempt. ``key`` is ``<uid>.<attempt>``. ``job`` is empty while it is not known
    (the twin is forked first)."""

    def __init__(self, key: str, job: str = "") -> None:
        uid, _, attempt = key.rpartition(".")
        about = {"job": job} if job else {}
        self._about = {**about, "uid": uid, "attempt": int(attempt) if attempt.isdigit() else attempt}

    def log_event(self, event: str, level: str = "info", **fields: Any) -> None:
        """Writes one line. It never raises."""
        head = {"timestamp": wall_iso(), "level": level, "event": event}
        line = {**head, **self._about, **fields, "logger": "supervisor.shim"}
        try:
            os.write(2, f"{json.dumps(line, default=repr)}\n".encode())
        except OSError:
            pass
