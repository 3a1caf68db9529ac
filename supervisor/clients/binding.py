"""Finds out whether a process of this host can listen at an address. ``doctor`` asks it; it is bounded in time."""

from __future__ import annotations

import socket
from concurrent.futures import TimeoutError as LateError

from supervisor.clients.threads import run_in_thread


def why_not_bound(host: str, within_s: float) -> str:
    """Returns why nothing can listen at ``host``, on a port that the system chooses; empty if it can. The resolver has no
    time-out, so it is asked in a thread that is not waited for longer than ``within_s`` seconds."""
    try:
        return run_in_thread("binding", lambda: _try(host)).result(within_s)
    except LateError:
        return f"{host} is not resolved within {within_s:g} s"


def _try(host: str) -> str:
    try:
        found = socket.getaddrinfo(host.strip("[]"), 0, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as error:
        return f"{host} is not resolved ({getattr(error, 'strerror', None) or error})"
    why = ""
    for family, kind, protocol, _, address in found:
        try:
            with socket.socket(family, kind, protocol) as one:
                one.bind(address)
                return ""
        except OSError as error:
            why = why or f"{address[0]} is no address of this host ({error.strerror})"
    return why
