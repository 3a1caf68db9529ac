"""Finds out whether anything listens at one of several addresses. ``submit`` and ``doctor`` ask it about a
Spark master; it is bounded in time.

The resolver of the system has no time-out, so each address is tried on a daemon thread of its own that is not
waited for.
"""

from __future__ import annotations

import socket
from collections.abc import Sequence
from concurrent.futures import as_completed
from functools import partial

from supervisor.clients.threads import run_in_thread

ADDRESSES_MAX = 8


def why_silent(addresses: Sequence[tuple[str, int]], within_s: float) -> str | None:
    """Returns None if one of the first ADDRESSES_MAX ``addresses`` took a connection within ``within_s``
    seconds; else why the first that failed did not."""
    tried = addresses[:ADDRESSES_MAX]
    attempts = [run_in_thread("listening", partial(_try, host, port, within_s)) for host, port in tried]
    whys: list[str] = []
    try:
        for attempt in as_completed(attempts, timeout=within_s):
            why = attempt.result()
            if why is None:
                return None
            whys.append(why)
    except TimeoutError:
        pass
    return whys[0] if whys else f"{tried[0][0]}:{tried[0][1]} did not answer within {within_s:g} s"


def _try(host: str, port: int, within_s: float) -> str | None:
    try:
        with socket.create_connection((host, port), timeout=within_s):
            return None
    except (OSError, UnicodeError) as error:
        return f"{host}:{port}: {getattr(error, 'strerror', None) or error}"
