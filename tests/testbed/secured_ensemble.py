"""The embedded ensemble with TLS, SASL and x509, as an administrator would set it up; and how to connect to it.

Clients come over TLS with a certificate of the test's authority. Only the harness uses the plain port, for four-letter
words. ``SPARK_SUPERVISOR_TEST_ZOOKEEPER`` chooses what suites run on: ``plain`` (default), ``tls``, ``tls+sasl``.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

from supervisor.clients import sessions, zookeeper
from supervisor.demo.ensemble import EmbeddedEnsemble
from supervisor.model.zookeeper_access import OPEN_ACCESS, Mechanism, TlsFiles, ZooKeeperAccess, access_from
from tests.testbed.certificates import Authority, Signed

KIND_VARIABLE = "SPARK_SUPERVISOR_TEST_ZOOKEEPER"
ACCESS_VARIABLE = "SPARK_SUPERVISOR_TEST_ZOOKEEPER_ACCESS"
USERS = {"supervisor": 's3cret, "quoted" \\ and more', "reader": "r3ad", "stranger": "str4nge"}
_AUTH = "org.apache.zookeeper.server.auth"


class SecuredEnsemble(EmbeddedEnsemble):
    """``client_auth``: none, want, need (a certificate). ``require_sasl``: whoever has not authenticated gets nothing.

    ``jaas`` replaces the JAAS file with the users of ``USERS``.
    """

    ports_per_node = 4

    def __init__(
        self,
        directory: Path,
        nodes: int = 3,
        *,
        client_auth: str = "want",
        require_sasl: bool = False,
        jaas: str = "",
        jvm_options: Sequence[str] = (),
        **more: Any,
    ) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self.authority = Authority(directory, "zookeeper authority")
        self._server = self.authority.sign("zookeeper-server")
        self._client_auth = client_auth
        self._require_sasl = require_sasl
        self.jaas = directory / "jaas.conf"
        self.jaas.write_text(jaas or _digest_jaas(USERS))
        self.key_store = directory / "server.pem"
        self.use_certificate(self._server)
        super().__init__(
            directory,
            nodes,
            jvm_options=(f"-Djava.security.auth.login.config={self.jaas}", *jvm_options),
            **more,
        )

    def use_certificate(self, signed: Signed) -> None:
        """What the servers show from their next start on."""
        self.key_store.write_bytes(signed.key.read_bytes() + signed.cert.read_bytes())

    def address(self, i: int) -> str:
        return f"127.0.0.1:{self._ports.further(i)}"

    def status_address(self, i: int) -> str:
        return f"127.0.0.1:{self._ports.client(i)}"

    def configuration_lines(self, i: int) -> Sequence[str]:
        sasl = ["enforce.auth.enabled=true", "enforce.auth.schemes=sasl"] if self._require_sasl else []
        return (
            f"secureClientPort={self._ports.further(i)}",
            "secureClientPortAddress=127.0.0.1",
            "serverCnxnFactory=org.apache.zookeeper.server.NettyServerCnxnFactory",
            f"ssl.keyStore.location={self.key_store}",
            "ssl.keyStore.type=PEM",
            f"ssl.trustStore.location={self.authority.ca}",
            "ssl.trustStore.type=PEM",
            f"ssl.clientAuth={self._client_auth}",
            "ssl.hostnameVerification=false",
            f"authProvider.sasl={_AUTH}.SASLAuthenticationProvider",
            f"authProvider.x509={_AUTH}.X509AuthenticationProvider",
            *sasl,
        )

    # -- how to connect --------------------------------------------------------------------------------------------

    def tls(self, name: str = "") -> TlsFiles:
        """With a client certificate of ``name``, or without one."""
        if not name:
            return TlsFiles(ca=str(self.authority.ca))
        signed = self.authority.sign(name)
        return TlsFiles(ca=str(self.authority.ca), cert=str(signed.cert), key=str(signed.key))

    def over_tls(self) -> ZooKeeperAccess:
        return ZooKeeperAccess(tls=self.tls())

    def by_password(self, user: str = "supervisor", password: str | None = None) -> ZooKeeperAccess:
        """TLS and DIGEST-MD5, and what is created is ``supervisor``'s alone, but ``reader`` may read."""
        file = self.directory / f"{user}.password"
        file.write_text((USERS[user] if password is None else password) + "\n")
        file.chmod(0o600)
        return ZooKeeperAccess(
            tls=self.tls(),
            mechanism=Mechanism.DIGEST_MD5,
            username=user,
            password_file=str(file),
            admins=("sasl:supervisor",),
            readers=("sasl:reader",),
        )

    def by_certificate(self, name: str = "supervisor") -> ZooKeeperAccess:
        return ZooKeeperAccess(tls=self.tls(name), mechanism=Mechanism.X509, admins=("x509:CN=supervisor",))


def _digest_jaas(users: dict[str, str]) -> str:
    lines = [f"  user_{user}={_jaas_text(password)}" for user, password in users.items()]
    return f"Server {{\n  {_AUTH}.DigestLoginModule required\n" + "\n".join(lines) + ";\n};\n"


def _jaas_text(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


# -- suites over the chosen kind -----------------------------------------------------------------------------------


def chosen_kind() -> str:
    return os.environ.get(KIND_VARIABLE) or "plain"


def chosen_ensemble(directory: Path, **more: Any) -> EmbeddedEnsemble:
    """An ensemble of the kind that the environment chooses. ``access_of`` says how to connect to it."""
    kind = chosen_kind()
    if kind == "plain":
        return EmbeddedEnsemble(directory, **more)
    assert kind in ("tls", "tls+sasl"), f"{KIND_VARIABLE}={kind}"
    return SecuredEnsemble(directory, require_sasl=kind == "tls+sasl", **more)


def access_of(ensemble: object) -> ZooKeeperAccess:
    if not isinstance(ensemble, SecuredEnsemble):
        return OPEN_ACCESS
    return ensemble.by_password() if chosen_kind() == "tls+sasl" else ensemble.over_tls()


@contextmanager
def used_by_default(access: ZooKeeperAccess) -> Iterator[None]:
    """Clients that this process makes, and testbed processes that it starts, connect by ``access`` if nothing else is said."""
    makers = (zookeeper.ZooClient.__init__, zookeeper.close_session, sessions.keep_session)
    before = [_give_default(make, access) for make in makers]
    outer = os.environ.get(ACCESS_VARIABLE)
    os.environ[ACCESS_VARIABLE] = json.dumps(asdict(access))
    try:
        yield
    finally:
        for make, old in zip(makers, before, strict=True):
            _give_default(make, old)
        os.environ.pop(ACCESS_VARIABLE, None)
        if outer is not None:
            os.environ[ACCESS_VARIABLE] = outer


def use_what_the_parent_uses() -> ZooKeeperAccess:
    """In a process of the testbed: what ``used_by_default`` says there counts here too."""
    text = os.environ.get(ACCESS_VARIABLE)
    if not text:
        return OPEN_ACCESS
    access = access_from(json.loads(text))
    for make in (zookeeper.ZooClient.__init__, zookeeper.close_session, sessions.keep_session):
        _give_default(make, access)
    return access


def _give_default(make: Any, access: ZooKeeperAccess) -> ZooKeeperAccess:
    """Replaces the default of the parameter ``access``; returns the one before."""
    if make.__kwdefaults__ and "access" in make.__kwdefaults__:
        before: ZooKeeperAccess = make.__kwdefaults__["access"]
        make.__kwdefaults__ = {**make.__kwdefaults__, "access": access}
        return before
    *others, last = make.__defaults__
    make.__defaults__ = (*others, access)
    return last
