"""SASL GSSAPI against a real MIT KDC and real ZooKeeper servers: tickets from a keytab, and what each failure says."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import asdict, replace
from pathlib import Path

import pytest

from supervisor.clients.zookeeper import Link, ZooClient
from supervisor.errors import AccessDenied, SupervisorError, Unreachable
from supervisor.model.transaction import Create, Transaction
from supervisor.model.zookeeper_access import Mechanism, ZooKeeperAccess
from tests.testbed.kerberos import REALM, Kdc
from tests.testbed.secured_ensemble import SecuredEnsemble
from tests.waiting import wait_until

pytestmark = pytest.mark.kerberos

JAAS = """Server {{
  com.sun.security.auth.module.Krb5LoginModule required
  useKeyTab=true storeKey=true useTicketCache=false
  keyTab="{keytab}" principal="zookeeper/127.0.0.1@{realm}";
}};
"""


@pytest.fixture(scope="module")
def kdc(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kdc]:
    with Kdc(tmp_path_factory.mktemp("kdc")) as kdc:
        before = os.environ.get("KRB5_CONFIG")
        os.environ["KRB5_CONFIG"] = str(kdc.config)
        yield kdc
        os.environ.pop("KRB5_CONFIG")
        if before is not None:
            os.environ["KRB5_CONFIG"] = before


@pytest.fixture(scope="module")
def ensemble(kdc: Kdc, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredEnsemble]:
    jaas = JAAS.format(keytab=kdc.keytab("zookeeper/127.0.0.1"), realm=REALM)
    options = (
        f"-Djava.security.krb5.conf={kdc.config}",
        "-Dzookeeper.kerberos.removeHostFromPrincipal=true",
        "-Dzookeeper.kerberos.removeRealmFromPrincipal=true",
    )
    with SecuredEnsemble(
        tmp_path_factory.mktemp("zookeeper"), 1, require_sasl=True, jaas=jaas, jvm_options=options
    ) as ensemble:
        yield ensemble


@pytest.fixture(scope="module")
def access(kdc: Kdc, ensemble: SecuredEnsemble) -> ZooKeeperAccess:
    return ZooKeeperAccess(
        tls=ensemble.tls(),
        mechanism=Mechanism.GSSAPI,
        principal=f"supervisor/host-a@{REALM}",
        keytab=str(kdc.keytab("supervisor/host-a")),
        admins=("sasl:supervisor",),
    )


def refused(ensemble: SecuredEnsemble, access: ZooKeeperAccess, within_s: float = 20) -> SupervisorError:
    client = ZooClient(ensemble.hosts, 20, access=access)
    client.start()
    try:
        with pytest.raises(SupervisorError) as error:
            client.wait_connected(within_s)
        return error.value
    finally:
        client.close(0.1)


def test_a_ticket_from_a_keytab(ensemble: SecuredEnsemble, access: ZooKeeperAccess, zk_root: str) -> None:
    client = ZooClient(ensemble.hosts, 20, access=access)
    client.start()
    client.wait_connected(20)
    assert "sasl:supervisor" in (client.who_am_i() or ())
    client.commit(Transaction("test", "t", (Create(zk_root, b""),)))
    assert client.read(zk_root) is not None
    client.close()


def test_while_the_kdc_is_away_a_process_with_a_ticket_connects_again_and_keeps_its_session(
    kdc: Kdc, ensemble: SecuredEnsemble, access: ZooKeeperAccess
) -> None:
    client = ZooClient(ensemble.hosts, 30, access=access)
    client.start()
    client.wait_connected(20)
    session = client.session
    kdc.stop()
    try:
        client._session._connection._socket.shutdown(2)
        wait_until(lambda: client.connections == 2, 20, "the next connection")
        assert client.session == session and client.link is Link.CONNECTED
    finally:
        kdc.start()
        client.close()


CONNECT = """
import json, sys
from supervisor.clients.zookeeper import ZooClient
from supervisor.model.zookeeper_access import access_from
client = ZooClient(sys.argv[1], 20, access=access_from(json.loads(sys.argv[2])))
client.start()
try:
    client.wait_connected(20)
    print("connected")
except Exception as error:
    print(f"{type(error).__name__}: {error}")
"""


def test_a_process_without_a_ticket_says_that_no_kdc_answers(
    kdc: Kdc, ensemble: SecuredEnsemble, access: ZooKeeperAccess
) -> None:
    def connected() -> str:
        argv = [sys.executable, "-c", CONNECT, ensemble.hosts, json.dumps(asdict(access))]
        return subprocess.run(argv, capture_output=True, text=True, timeout=90, check=True).stdout

    assert connected() == "connected\n"
    kdc.stop()
    try:
        said = connected()
    finally:
        kdc.start()
    assert said.startswith(Unreachable.__name__) and "no Kerberos ticket for supervisor/host-a" in said, said
    assert "start the KDC" in said


RENEW = """
import json, sys, time
from supervisor.clients.zookeeper import ZooClient
from supervisor.model.zookeeper_access import access_from
client = ZooClient(sys.argv[1], 30, access=access_from(json.loads(sys.argv[2])))
client.start()
client.wait_connected(20)
session = client.session
time.sleep(float(sys.argv[3]))
client._session._connection._socket.shutdown(2)
while client.connections < 2:
    time.sleep(0.05)
assert client.session == session
client.sync()
client.close()
"""


def test_a_ticket_that_has_ended_is_renewed_from_the_keytab(
    kdc: Kdc, ensemble: SecuredEnsemble, access: ZooKeeperAccess, tmp_path: Path
) -> None:
    life_s = 6
    short = tmp_path / "krb5.conf"
    short.write_text(kdc.config.read_text().replace("ticket_lifetime = 10m", f"ticket_lifetime = {life_s}s"))
    before = kdc.tickets_of("supervisor/host-a")
    argv = [sys.executable, "-c", RENEW, ensemble.hosts, json.dumps(asdict(access)), str(life_s + 2)]
    done = subprocess.run(
        argv, capture_output=True, text=True, timeout=90, env={**os.environ, "KRB5_CONFIG": str(short)}
    )
    assert done.returncode == 0, done.stderr
    assert kdc.tickets_of("supervisor/host-a") == before + 2


def test_a_principal_that_is_not_in_the_keytab(
    kdc: Kdc, ensemble: SecuredEnsemble, access: ZooKeeperAccess
) -> None:
    error = refused(ensemble, replace(access, principal=f"nobody@{REALM}"))
    assert isinstance(error, AccessDenied) and f"no Kerberos ticket for nobody@{REALM}" in str(error), error
    assert "klist -k" in error.complaint.remedy


def test_a_server_that_kerberos_does_not_know(
    kdc: Kdc, ensemble: SecuredEnsemble, access: ZooKeeperAccess
) -> None:
    client = replace(access, tls=replace(ensemble.tls(), verify_hostname=False))
    hosts = ensemble.hosts.replace("127.0.0.1", "localhost")
    other = ZooClient(hosts, 20, access=client)
    other.start()
    with pytest.raises(AccessDenied, match="Kerberos does not know"):
        other.wait_connected(20)
    other.close(0.1)


def test_a_keytab_that_cannot_be_read(
    ensemble: SecuredEnsemble, access: ZooKeeperAccess, tmp_path: Path
) -> None:
    error = refused(ensemble, replace(access, keytab=str(tmp_path / "none")))
    assert f"zookeeper.auth.keytab: {tmp_path}/none cannot be read" in str(error)
