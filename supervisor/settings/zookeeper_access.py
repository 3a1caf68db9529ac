"""Defines how ``supervisor.yaml`` says how to connect to ZooKeeper, and who may do what there: ``zookeeper.tls``,
``zookeeper.auth`` and the ACL.

``settings.file`` has it as a part of ``zookeeper``. What contradicts itself is refused here, before anything connects; what
only the servers can tell (an unknown authority, a wrong password) is told by the connection.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Final, Literal

from pydantic import AfterValidator, Field, model_validator

from supervisor.model.zookeeper_access import Mechanism, TlsFiles, ZooKeeperAccess
from supervisor.settings.addresses import AbsolutePath
from supervisor.settings.sections import Section

SCHEMES: Final = ("sasl:", "x509:")

MechanismName = Literal["none", "x509", "digest-md5", "gssapi"]
AclMode = Literal["open", "create", "enforce"]


def _who(value: str) -> str:
    if not value.startswith(SCHEMES) or not value.partition(":")[2].strip() or not value.isprintable():
        raise ValueError("must be sasl:<name> or x509:<distinguished name>")
    return value


Who = Annotated[str, AfterValidator(_who)]
"""It is an id as ZooKeeper's ACLs have it."""


class ZooKeeperTlsSettings(Section):
    """Says how TLS is spoken. ``ca`` turns it on: only servers whose certificate is of one of its authorities are
    trusted. All files are PEM, and are read again at each connect.
    """

    ca: AbsolutePath | None = None
    cert: AbsolutePath | None = None
    key: AbsolutePath | None = None
    key_password_file: AbsolutePath | None = None
    verify_hostname: bool = True

    @model_validator(mode="after")
    def _is_whole(self) -> ZooKeeperTlsSettings:
        if self.ca is None and (self.cert or self.key or self.key_password_file):
            raise ValueError("needs ca too, which turns TLS on; add it, or remove the other keys")
        if (self.cert is None) != (self.key is None):
            raise ValueError("needs both cert and key, or neither of them")
        if self.key_password_file is not None and self.key is None:
            raise ValueError("has a key_password_file but no key; add it, or remove that")
        return self


class ZooKeeperAuthSettings(Section):
    """Says how this process proves who it is. ``username`` and ``password_file`` are for ``digest-md5``; ``principal`` and
    ``keytab`` for ``gssapi``. ``x509`` is the certificate of ``zookeeper.tls``.
    """

    mechanism: MechanismName = "none"
    username: str | None = Field(default=None, min_length=1, max_length=255)
    password_file: AbsolutePath | None = None
    principal: str | None = Field(default=None, min_length=1, max_length=255)
    keytab: AbsolutePath | None = None

    @model_validator(mode="after")
    def _is_whole(self) -> ZooKeeperAuthSettings:
        needed = {"digest-md5": ("username", "password_file"), "gssapi": ("principal", "keytab")}
        mine = needed.get(self.mechanism, ())
        for key in mine:
            if getattr(self, key) is None:
                raise ValueError(f"with mechanism {self.mechanism} needs {key}; add it")
        for mechanism, keys in needed.items():
            for key in keys:
                if key not in mine and getattr(self, key) is not None:
                    raise ValueError(f"has {key}, which is for mechanism {mechanism}; set that, or remove it")
        return self


class ZooKeeperSecurity(Section):
    """Holds the keys of ``zookeeper`` that say how to connect and who may do what (REFERENCE.md, ``zookeeper``)."""

    tls: ZooKeeperTlsSettings = ZooKeeperTlsSettings()
    auth: ZooKeeperAuthSettings = ZooKeeperAuthSettings()
    acl: AclMode = "open"
    acl_admins: list[Who] = Field(default_factory=list, max_length=32)
    acl_readers: list[Who] = Field(default_factory=list, max_length=32)

    @model_validator(mode="after")
    def _is_consistent(self) -> ZooKeeperSecurity:
        if self.auth.mechanism == "x509" and self.tls.cert is None:
            raise ValueError("auth: mechanism x509 needs tls.cert and tls.key; add them")
        if self.acl == "open":
            return self
        if not self.acl_admins:
            raise ValueError(
                f"acl: {self.acl} needs acl_admins; name the supervisors and the operators there"
            )
        if self.auth.mechanism == "none":
            raise ValueError(f"acl: {self.acl} needs auth.mechanism; without it this process is locked out")
        own = {"sasl:"} if self.auth.mechanism != "x509" else set()
        own |= {"x509:"} if self.tls.cert is not None else set()
        if not any(who.startswith(tuple(own)) for who in self.acl_admins):
            raise ValueError(
                f"acl_admins names nobody by {' or '.join(sorted(own))}, so this process is locked out; add it"
            )
        return self

    @property
    def access(self) -> ZooKeeperAccess:
        """Returns what every process that opens a session is given."""
        tls, auth, restricted = self.tls, self.auth, self.acl != "open"
        return ZooKeeperAccess(
            tls=None
            if tls.ca is None
            else TlsFiles(
                ca=str(tls.ca),
                cert=_text(tls.cert),
                key=_text(tls.key),
                key_password_file=_text(tls.key_password_file),
                verify_hostname=tls.verify_hostname,
            ),
            mechanism=Mechanism(auth.mechanism),
            username=auth.username or "",
            password_file=_text(auth.password_file),
            principal=auth.principal or "",
            keytab=_text(auth.keytab),
            admins=tuple(self.acl_admins) if restricted else (),
            readers=tuple(self.acl_readers) if restricted else (),
        )


def _text(path: Path | None) -> str:
    return str(path) if path is not None else ""
