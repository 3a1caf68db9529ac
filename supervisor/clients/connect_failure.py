"""Says why a connection to a ZooKeeper server failed before it could be used: one sentence, and its remedy.

``zookeeper_tls`` and ``zookeeper_sasl`` raise it, and ``kazoo_connection`` catches it. For kazoo it is a connection
that dropped: the next server is tried, and the session is kept.
"""

from __future__ import annotations

from supervisor.clients.kazoo_parts import ConnectionDropped
from supervisor.errors import Complaint


class ConnectFailure(ConnectionDropped):  # type: ignore[misc]  # kazoo has no types
    """Is raised for one server and one connection. ``needs_correction`` says that waiting does not help: credentials,
    certificates or files must be changed, here or there."""

    def __init__(self, what: str, remedy: str = "", *, needs_correction: bool = True) -> None:
        self.complaint = Complaint(what, remedy)
        self.needs_correction = needs_correction
        super().__init__(str(self.complaint))


class SaslRefused(Exception):
    """Means that the server has answered that it does not accept this client."""
