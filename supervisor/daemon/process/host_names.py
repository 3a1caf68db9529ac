"""Says under which names a server is asked for, by the header ``Host`` of a request. ``daemon.process.http`` asks it.

A browser on this machine can be led to a page whose name, a moment later, has the address of this server (DNS rebinding):
the page reads then what is served to this machine alone. Its requests have the page's name in ``Host``. An address there
is no name, so no such page can be behind it.
"""

from __future__ import annotations

import ipaddress
import socket
from collections.abc import Sequence
from fnmatch import fnmatchcase

ANY = "*"


class HostNames:
    """The names that are answered: ``names`` (``*`` and ``?`` for any characters), and always addresses and
    ``localhost``. Null means those and the name of this host for a server on a loopback address, and any for another
    one: by which names other machines reach it, it can't know."""

    def __init__(self, names: Sequence[str] | None, listens_on: str) -> None:
        if names is None:
            names = (_name_of_this_host(),) if _is_loopback(listens_on) else (ANY,)
        self._names = tuple(name.lower() for name in names)

    def is_named(self, header: str | None) -> bool:
        """Returns whether a request with this ``Host`` is answered. One without any comes from no browser."""
        if header is None:
            return True
        host = _without_port(header.strip().lower())
        return (
            host == "localhost" or _is_address(host) or any(fnmatchcase(host, name) for name in self._names)
        )


def _name_of_this_host() -> str:
    return socket.gethostname()  # of the kernel: no resolver is asked


def _without_port(host: str) -> str:
    if host.startswith("["):
        return host.partition("]")[0].removeprefix("[")
    return host.rpartition(":")[0] if ":" in host else host


def _is_address(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True


def _is_loopback(host: str) -> bool:
    return host == "localhost" or (_is_address(host) and ipaddress.ip_address(host).is_loopback)
