"""Says how a process connects to ZooKeeper, and who may do what with the znodes that it creates.

The settings make it, and every process that opens a session gets it: the supervisor, the command line, the
session closer, and the shim by its launch file. It names files and never holds what is in them, so that it can
be written down; each connection reads the files again, and so takes what was rotated. It is stdlib only, because a
shim imports it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Final, NamedTuple

PERM_READ: Final = 1
PERM_ALL: Final = 31


class Mechanism(StrEnum):
    """Says how a process proves to ZooKeeper who it is. ``X509`` is the client certificate of TLS alone."""

    NONE = "none"
    X509 = "x509"
    DIGEST_MD5 = "digest-md5"
    GSSAPI = "gssapi"


class AclEntry(NamedTuple):
    """Grants ``perms`` (the bits of ZooKeeper) to ``who``: ``world:anyone``, ``sasl:<name>`` or
    ``x509:<distinguished name>``."""

    who: str
    perms: int


Acl = tuple[AclEntry, ...]

ANYONE: Final = "world:anyone"
OPEN_ACL: Final[Acl] = (AclEntry(ANYONE, PERM_ALL),)


@dataclass(frozen=True, slots=True, kw_only=True)
class TlsFiles:
    """Names the PEM files of a TLS connection. ``ca`` holds the only authorities that are trusted. ``cert`` and ``key``
    are empty where the client shows no certificate."""

    ca: str
    cert: str = ""
    key: str = ""
    key_password_file: str = ""
    verify_hostname: bool = True
    extra: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class ZooKeeperAccess:
    """Says how to connect (``tls``, ``mechanism`` and what it needs), and whom the ACL of a new znode names.

    ``admins`` may do everything and ``readers`` may read; both are written ``sasl:<name>`` or ``x509:<distinguished
    name>``. Without ``admins`` a new znode is open to everyone.
    """

    tls: TlsFiles | None = None
    mechanism: Mechanism = Mechanism.NONE
    username: str = ""
    password_file: str = ""
    principal: str = ""
    keytab: str = ""
    admins: tuple[str, ...] = ()
    readers: tuple[str, ...] = ()
    extra: dict[str, Any] = field(default_factory=dict)

    @property
    def uses_sasl(self) -> bool:
        return self.mechanism in (Mechanism.DIGEST_MD5, Mechanism.GSSAPI)

    @property
    def acl(self) -> Acl:
        """Returns the ACL of a znode that this process creates."""
        return acl_of(self.admins, self.readers) if self.admins else OPEN_ACL


OPEN_ACCESS: Final = ZooKeeperAccess()
"""It is a plain connection without credentials, and whatever is created is open to everyone."""


def acl_of(admins: tuple[str, ...], readers: tuple[str, ...]) -> Acl:
    """Returns the ACL that lets ``admins`` do everything and ``readers`` read. Who is both is an admin."""
    reading = tuple(AclEntry(who, PERM_READ) for who in readers if who not in admins)
    return (*(AclEntry(who, PERM_ALL) for who in admins), *reading)


def access_from(body: Mapping[str, Any]) -> ZooKeeperAccess:
    """Returns what ``dataclasses.asdict`` has made a mapping of. Raises KeyError, TypeError or ValueError for another
    one."""
    tls = body["tls"]
    lists = {key: tuple(map(str, body[key])) for key in ("admins", "readers")}
    return ZooKeeperAccess(
        **{**body, **lists, "tls": tls and TlsFiles(**tls), "mechanism": Mechanism(body["mechanism"])}
    )
