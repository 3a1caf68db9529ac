"""The embedded ensemble with TLS, SASL and x509, as an administrator would set it up; and how to connect to it.

Clients come over TLS with a certificate of the test's authority. Only the harness uses the plain port, for four-letter
words. ``SPARK_SUPERVISOR_TEST_ZOOKEEPER`` chooses what suites run on: ``plain`` (default), ``tls``, ``tls+sasl``.
"""

from __future__ import annotations

import json
import os
import ssl
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from supervisor.clients import sessions, zookeeper
from supervisor.clients.four_letter import ask
from supervisor.daemon.process.session_closer import SessionCloser
from supervisor.demo.ensemble import EmbeddedEnsemble
from supervisor.model.zookeeper_access import OPEN_ACCESS, Mechanism, TlsFiles, ZooKeeperAccess, access_from
from tests.testbed.certificates import Authority, Signed
from tests.testbed.ensembles import Ensemble, RevivedEnsemble
from tests.testbed.proxy import Proxies, TlsEnds

KIND_VARIABLE = "SPARK_SUPERVISOR_TEST_ZOOKEEPER"
ACCESS_VARIABLE = "SPARK_SUPERVISOR_TEST_ZOOKEEPER_ACCESS"
USERS = {"supervisor": 's3cret, "quoted" \\ and more', "reader": "r3ad", "stranger": "str4nge"}
_AUTH = "org.apache.zookeeper.server.auth"


class SecuredEnsemble(RevivedEnsemble):
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
        authority: Authority | None = None,
        **more: Any,
    ) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self.authority = authority or Authority(directory, "zookeeper authority")
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
        return by_password(self.tls(), self.directory, user, password)

    def by_certificate(self, name: str = "supervisor") -> ZooKeeperAccess:
        return ZooKeeperAccess(tls=self.tls(name), mechanism=Mechanism.X509, admins=("x509:CN=supervisor",))


def by_password(
    tls: TlsFiles, directory: Path, user: str = "supervisor", password: str | None = None
) -> ZooKeeperAccess:
    """TLS and DIGEST-MD5, and what is created is ``supervisor``'s alone, but ``reader`` may read."""
    file = directory / f"{user}.password"
    file.write_text((USERS[user] if password is None else password) + "\n")
    file.chmod(0o600)
    return ZooKeeperAccess(
        tls=tls,
        mechanism=Mechanism.DIGEST_MD5,
        username=user,
        password_file=str(file),
        admins=("sasl:supervisor",),
        readers=("sasl:reader",),
    )


def _digest_jaas(users: dict[str, str]) -> str:
    lines = [f"  user_{user}={_jaas_text(password)}" for user, password in users.items()]
    return f"Server {{\n  {_AUTH}.DigestLoginModule required\n" + "\n".join(lines) + ";\n};\n"


def _jaas_text(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


# -- suites over the chosen kind -----------------------------------------------------------------------------------


def chosen_kind() -> str:
    return os.environ.get(KIND_VARIABLE) or "plain"


@dataclass(frozen=True)
class Site:
    """What all ensembles of the suites in this process share: whoever can connect to one of them can connect to all."""

    authority: Authority
    directory: TemporaryDirectory[str]


@cache
def site() -> Site:
    """From the first call on, clients that this process makes, testbed processes that it starts, and proxies connect as the
    chosen kind asks for, if nothing else is said."""
    kind = chosen_kind()
    assert kind in ("tls", "tls+sasl"), f"{KIND_VARIABLE}={kind}"
    directory = TemporaryDirectory(prefix="zookeeper-site-")
    authority = Authority(Path(directory.name), "site authority")
    tls = TlsFiles(ca=str(authority.ca))
    access = by_password(tls, Path(directory.name)) if kind == "tls+sasl" else ZooKeeperAccess(tls=tls)
    _give_default(access)
    os.environ[ACCESS_VARIABLE] = json.dumps(asdict(access))
    Proxies.tls = tls_ends(authority)
    return Site(authority, directory)


@contextmanager
def running(directory: Path, nodes: int = 3, **more: Any) -> Iterator[EmbeddedEnsemble]:
    """An ensemble of the kind that the environment chooses."""
    if chosen_kind() == "plain":
        with RevivedEnsemble(directory, nodes, **more) as plain:
            yield plain
        return
    sasl = chosen_kind() == "tls+sasl"
    with SecuredEnsemble(directory, nodes, require_sasl=sasl, authority=site().authority, **more) as ensemble:
        yield ensemble


def access_in_use() -> ZooKeeperAccess:
    """How clients of this process connect if nothing else is said."""
    access: ZooKeeperAccess = zookeeper.ZooClient.__init__.__kwdefaults__["access"]
    return access


def ask_node(ensemble: Ensemble, i: int, word: str) -> str:
    """The answer of node ``i`` to a four-letter word, at the port that clients use: it tells of them alone."""
    return ask(ensemble.address(i), word, 5.0, access_in_use().tls)


def settings_in_use() -> dict[str, Any]:
    """The same as keys of ``zookeeper`` in supervisor.yaml."""
    access = access_in_use()
    if access == OPEN_ACCESS:
        return {}
    tls = (
        {key: value for key, value in asdict(access.tls).items() if value and key != "extra"}
        if access.tls
        else {}
    )
    auth = {"mechanism": access.mechanism.value}
    if access.mechanism is Mechanism.DIGEST_MD5:
        auth |= {"username": access.username, "password_file": access.password_file}
    acl = {"acl": "enforce", "acl_admins": list(access.admins), "acl_readers": list(access.readers)}
    return {"tls": tls, "auth": auth, **(acl if access.admins else {})}


def use_what_the_parent_uses() -> None:
    """In a process of the testbed: what ``site`` says in its parent counts here too."""
    text = os.environ.get(ACCESS_VARIABLE)
    if text:
        _give_default(access_from(json.loads(text)))


def _give_default(access: ZooKeeperAccess) -> None:
    """Replaces the default of each parameter ``access``."""
    by_keyword: list[Any] = [zookeeper.ZooClient.__init__, sessions.keep_session]
    by_position: list[Any] = [zookeeper.close_session, SessionCloser.__init__]
    for make in by_keyword:
        make.__kwdefaults__ = {**make.__kwdefaults__, "access": access}
    for make in by_position:
        make.__defaults__ = (access,)


def tls_ends(authority: Authority) -> TlsEnds:
    """How a proxy speaks TLS where ``authority`` signs everybody."""
    signed = authority.sign("proxy")
    to_clients = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    to_clients.load_cert_chain(signed.cert, signed.key)
    to_server = ssl.create_default_context(cafile=str(authority.ca))
    return TlsEnds(to_clients, to_server)
