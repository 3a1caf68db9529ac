"""Does anybody listen at one of these addresses? For ``submit`` and ``doctor``, about a Spark master; bounded in time.

The resolver of the system has no time-out, so each address is tried on a daemon thread of its own that nobody waits for.
"""

from __future__ import annotations

import queue
import socket
import threading
import time
from collections.abc import Sequence

ADDRESSES_MAX = 8


def why_silent(addresses: Sequence[tuple[str, int]], within_s: float) -> str | None:
    """None: one of ``addresses`` took a connection within ``within_s`` seconds; else why the first that told did not."""
    tried = addresses[:ADDRESSES_MAX]
    answers: queue.SimpleQueue[str | None] = queue.SimpleQueue()
    deadline_s = time.monotonic() + within_s
    for host, port in tried:
        threading.Thread(
            target=_try, args=(host, port, within_s, answers), daemon=True, name="listening"
        ).start()
    whys: list[str] = []
    while len(whys) < len(tried):
        try:
            why = answers.get(timeout=max(0.0, deadline_s - time.monotonic()))
        except queue.Empty:
            break
        if why is None:
            return None
        whys.append(why)
    return whys[0] if whys else f"{tried[0][0]}:{tried[0][1]} did not answer within {within_s:g} s"


def _try(host: str, port: int, within_s: float, answers: queue.SimpleQueue[str | None]) -> None:
    try:
        with socket.create_connection((host, port), timeout=within_s):
            answers.put(None)
    except (OSError, UnicodeError) as error:
        answers.put(f"{host}:{port}: {getattr(error, 'strerror', None) or error}")
