"""Says who gives a command: the one source of every ``by`` in the registry, and of the audit.

It is the principal as which ZooKeeper has authenticated this connection, where it has; else the kernel's number of the
user, on this host. For a write over the API it is the operator whose token was shown, and his address. What a user may
set himself (``LOGNAME``, ``USER``) never counts.
"""

from __future__ import annotations

import os
import socket
from typing import Protocol

from supervisor.model.records import BY_MAX_BYTES, clip
from supervisor.model.zookeeper_access import Mechanism, ZooKeeperAccess


class KnowsUs(Protocol):
    """Is a session that can say as whom ZooKeeper knows it."""

    def who_am_i(self) -> tuple[str, ...] | None: ...


def author_of(zoo: KnowsUs, access: ZooKeeperAccess) -> str:
    """Returns ``sasl:<name>`` or ``x509:<distinguished name>`` of the connection of ``zoo``, else ``user_here``.

    ZooKeeper is asked only where ``access`` has credentials. Raises Unreachable.
    """
    has_certificate = access.tls is not None and bool(access.tls.cert)
    if access.mechanism is Mechanism.NONE and not has_certificate:
        return user_here()
    schemes = ("sasl:", "x509:") if access.uses_sasl else ("x509:",)
    known_as = zoo.who_am_i() or ()
    proven = (known for scheme in schemes for known in known_as if known.startswith(scheme))
    return next(proven, user_here())


def user_here() -> str:
    """Returns ``uid:<number>@<host>`` of this process, by the kernel."""
    return f"uid:{os.getuid()}@{socket.gethostname()}"


def supervisor_as_author(supervisor_id: str) -> str:
    """Returns the author of what the supervisor ``supervisor_id`` does by itself, as short as a record has it."""
    return clip(f"supervisor:{supervisor_id}", BY_MAX_BYTES)


def operator_as_author(name: str, address: str) -> str:
    """Returns the author of a write over the API: the name of the file of the operator's token, and the address of the
    connection, as short as a record has it. Both are the supervisor's own knowledge; nothing of the request is in it."""
    return clip(f"token:{name}@{address}", BY_MAX_BYTES)
