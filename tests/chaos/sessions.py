"""Ending somebody's ZooKeeper session at once, as the session closer does: by its id and password.

The password of a session is no secret of the client: a server computes it from the id with a constant of its source
(``ZooKeeperServer.generatePasswd``), so that any server can check it. So the nemesis needs to ask nobody.
"""

from __future__ import annotations

from supervisor.clients.zookeeper import close_session

_SUPER_SECRET = 0xB3415C00
_MULTIPLIER, _MASK = 0x5DEECE66D, (1 << 48) - 1  # of java.util.Random
PASSWORD_BYTES = 16


def password_of(session: int) -> bytes:
    """What ``new Random(session ^ superSecret).nextBytes`` gives."""
    state = ((session ^ _SUPER_SECRET) ^ _MULTIPLIER) & _MASK
    found = b""
    while len(found) < PASSWORD_BYTES:
        state = (state * _MULTIPLIER + 0xB) & _MASK
        found += (state >> 16).to_bytes(4, "little")
    return found


def expel(hosts: str, session: int, timeout_s: float = 5.0) -> None:
    """Close ``session``. Raises Unreachable."""
    close_session(hosts, session, password_of(session), timeout_s)
