"""ZooKeeper with TLS, SASL, x509 and ACLs, on real servers: who gets in, what each refusal says, what a session survives."""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest

from supervisor.clients import four_letter
from supervisor.clients.connect_failure import ConnectFailure
from supervisor.clients.zookeeper import Link, ZooClient, close_session
from supervisor.clients.zookeeper_probe import probe_servers
from supervisor.clock import boottime_s
from supervisor.errors import AccessDenied, InvalidInput, SupervisorError, Unreachable
from supervisor.model.transaction import ANY_VERSION, Check, Create, Delete, SetData, Transaction
from supervisor.model.zookeeper_access import (
    OPEN_ACCESS,
    OPEN_ACL,
    Acl,
    Mechanism,
    TlsFiles,
    ZooKeeperAccess,
    acl_of,
)
from supervisor.records.layout import Layout
from supervisor.registry.access_control import AclSession, apply_acl, is_open, survey
from tests.fakes.zookeeper_acls import GuardedZoo
from tests.testbed.certificates import Authority
from tests.testbed.ensembles import repair
from tests.testbed.proxy import Proxies
from tests.testbed.secured_ensemble import SecuredEnsemble
from tests.waiting import wait_until

SESSION_S = 8.0
NODES = 3


@pytest.fixture(scope="module")
def module_ensemble(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredEnsemble]:
    with SecuredEnsemble(tmp_path_factory.mktemp("zookeeper"), NODES) as ensemble:
        yield ensemble


@pytest.fixture
def ensemble(module_ensemble: SecuredEnsemble) -> Iterator[SecuredEnsemble]:
    yield module_ensemble
    repair(module_ensemble)


Connect = Callable[..., ZooClient]


@pytest.fixture
def connect(ensemble: SecuredEnsemble) -> Iterator[Connect]:
    with contextlib.ExitStack() as stack:

        def connected(access: ZooKeeperAccess, hosts: str = "", **arguments: object) -> ZooClient:
            client = ZooClient(
                hosts or ensemble.hosts, SESSION_S, access=access, request_timeout_s=3, **arguments
            )  # type: ignore[arg-type]
            stack.callback(client.close, 0.5)
            client.start()
            client.wait_connected(10)
            return client

        yield connected


def created(client: ZooClient, path: str, data: bytes = b"", *, ephemeral: bool = False) -> None:
    client.commit(Transaction("test", path, (Create(path, data, ephemeral),)))


def refusal(
    ensemble: SecuredEnsemble, access: ZooKeeperAccess, hosts: str = "", within_s: float = 10
) -> SupervisorError:
    client = ZooClient(hosts or ensemble.hosts, SESSION_S, access=access)
    client.start()
    try:
        with pytest.raises(SupervisorError) as refused:
            client.wait_connected(within_s)
        return refused.value
    finally:
        client.close(0.1)


# -- who gets in ---------------------------------------------------------------------------------------------------


def test_tls_alone(ensemble: SecuredEnsemble, connect: Connect, zk_root: str) -> None:
    client = connect(ensemble.over_tls())
    created(client, zk_root, b"x")
    node = client.read(zk_root)
    assert node is not None and node.data == b"x"
    assert client.read_acl(zk_root) == OPEN_ACL
    assert client.who_am_i() == ("ip:127.0.0.1",)


def test_a_password(ensemble: SecuredEnsemble, connect: Connect, zk_root: str) -> None:
    client = connect(ensemble.by_password())
    assert "sasl:supervisor" in (client.who_am_i() or ())
    created(client, zk_root)
    assert client.read_acl(zk_root) == acl_of(("sasl:supervisor",), ("sasl:reader",))


def test_a_certificate(ensemble: SecuredEnsemble, connect: Connect, zk_root: str) -> None:
    client = connect(ensemble.by_certificate())
    assert "x509:CN=supervisor" in (client.who_am_i() or ())
    created(client, zk_root)
    with pytest.raises(AccessDenied, match="acl_admins"):
        connect(ensemble.by_password()).read(zk_root)


def test_a_certificate_and_a_password_together(ensemble: SecuredEnsemble, connect: Connect) -> None:
    access = replace(ensemble.by_password(), tls=ensemble.tls("supervisor"))
    known = connect(access).who_am_i() or ()
    assert {"x509:CN=supervisor", "sasl:supervisor"} <= set(known)


def test_a_key_with_a_password(ensemble: SecuredEnsemble, connect: Connect, tmp_path: Path) -> None:
    from cryptography.hazmat.primitives import serialization

    files = ensemble.tls("keeper")
    key = serialization.load_pem_private_key(Path(files.key).read_bytes(), None)
    (tmp_path / "key").write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.BestAvailableEncryption(b"hush"),
        )
    )
    password = tmp_path / "password"
    password.write_text("hush\n")
    password.chmod(0o600)
    locked = replace(files, key=str(tmp_path / "key"), key_password_file=str(password))
    access = ZooKeeperAccess(tls=locked, mechanism=Mechanism.X509)
    assert "x509:CN=keeper" in (connect(access).who_am_i() or ())
    without = replace(access, tls=replace(locked, key_password_file=""))
    assert "cannot be used" in str(refusal(ensemble, without))


def test_large_frames_and_many_reads(ensemble: SecuredEnsemble, connect: Connect, zk_root: str) -> None:
    """Records of TLS are 16 KiB: a frame is many of them, and several frames may be in one."""
    client = connect(ensemble.by_password())
    created(client, zk_root)
    data = {f"{zk_root}/{i}": bytes([i % 256]) * (100_000 if i % 100 == 0 else 50) for i in range(500)}
    for path, content in data.items():
        created(client, path, content)
    nodes = client.read_many(tuple(data)).nodes
    assert [node.data for node in nodes if node is not None] == list(data.values())
    assert len(client.children(zk_root) or ()) == 500


def test_a_watch_comes_over_tls(ensemble: SecuredEnsemble, connect: Connect, zk_root: str) -> None:
    client, other, seen = connect(ensemble.by_password()), connect(ensemble.by_password()), list[bool]()
    client.watch_exists(zk_root, lambda: seen.append(True))
    created(other, zk_root)
    wait_until(lambda: seen, 10, "the watch")


def test_idle_for_longer_than_the_session_it_stays(ensemble: SecuredEnsemble, connect: Connect) -> None:
    client = connect(ensemble.by_password())
    session, connections = client.session, client.connections
    time.sleep(SESSION_S * 1.3)
    client.sync()
    assert (client.session, client.connections) == (session, connections)


# -- what each refusal says ----------------------------------------------------------------------------------------


def test_a_wrong_password_says_so_at_once_and_names_both_ends(ensemble: SecuredEnsemble) -> None:
    begun_at_s = boottime_s()
    error = refusal(ensemble, ensemble.by_password("stranger", "wrong"), within_s=30)
    assert isinstance(error, AccessDenied) and boottime_s() - begun_at_s < 25
    assert "ZooKeeper refused the user name stranger or its password" in str(error)
    assert "JAAS" in error.complaint.remedy and "wrong" not in str(error)


def test_an_unknown_user(ensemble: SecuredEnsemble) -> None:
    access = replace(ensemble.by_password(), username="nobody")
    assert "refused the user name nobody" in str(refusal(ensemble, access))


def test_an_authority_that_is_not_ours(ensemble: SecuredEnsemble, tmp_path: Path) -> None:
    other = Authority(tmp_path, "another authority")
    error = refusal(ensemble, ZooKeeperAccess(tls=TlsFiles(ca=str(other.ca))))
    assert isinstance(error, AccessDenied)
    assert "is of an authority that zookeeper.tls.ca does not hold" in str(error)


def test_a_server_under_another_name(
    ensemble: SecuredEnsemble, connect: Connect, monkeypatch: pytest.MonkeyPatch
) -> None:
    hosts = ensemble.hosts.replace("127.0.0.1", "127.0.0.2")
    monkeypatch.setattr(
        "supervisor.clients.kazoo_connection.Connection._expand_client_hosts",
        lambda self: [(host, "127.0.0.1", port) for host, port in self._owner.hosts],
    )
    error = refusal(ensemble, ensemble.over_tls(), hosts)
    assert "the certificate of the server is for another host than 127.0.0.2" in str(error)
    trusting = replace(
        ensemble.over_tls(), tls=TlsFiles(ca=str(ensemble.authority.ca), verify_hostname=False)
    )
    connect(trusting, hosts)


def test_an_expired_server(tmp_path: Path) -> None:
    with SecuredEnsemble(tmp_path / "zookeeper", 1) as ensemble:
        ensemble.use_certificate(ensemble.authority.sign("old", days=-1))
        ensemble.restart(0)
        ensemble.wait_serving()
        error = refusal(ensemble, ensemble.over_tls())
    assert isinstance(error, AccessDenied) and "has expired; renew it there" in str(error)


def test_a_client_certificate_that_the_servers_do_not_take(tmp_path: Path) -> None:
    with SecuredEnsemble(tmp_path / "zookeeper", 1, client_auth="need") as ensemble:
        other = Authority(tmp_path, "another authority").sign("supervisor")
        expired = ensemble.authority.sign("expired", days=-1)
        assert "turned our certificate" in str(refusal(ensemble, ensemble.over_tls()))
        for signed in (other, expired):
            files = replace(ensemble.tls(), cert=str(signed.cert), key=str(signed.key))
            error = refusal(ensemble, ZooKeeperAccess(tls=files, mechanism=Mechanism.X509))
            assert isinstance(error, AccessDenied) and "turned our certificate" in str(error), error
        client = ZooClient(ensemble.hosts, SESSION_S, access=ensemble.by_certificate())
        client.start()
        client.wait_connected(10)
        assert four_letter.ask(ensemble.address(0), "ruok", 3, ensemble.tls("supervisor")) == "imok"
        client.close()


def test_tls_to_a_port_that_has_none(ensemble: SecuredEnsemble) -> None:
    error = refusal(ensemble, ensemble.over_tls(), ensemble.status_address(0), within_s=3)
    assert isinstance(error, Unreachable) and "does not speak TLS on this port" in str(error)
    assert "secureClientPort" in error.complaint.remedy


@pytest.mark.parametrize(
    ("break_it", "sentence"),
    [
        (
            lambda a, d: replace(a, tls=replace(a.tls, ca=f"{d}/none")),
            "zookeeper.tls.ca: {d}/none cannot be read (No such",
        ),
        (
            lambda a, d: replace(a, tls=replace(a.tls, ca=f"{d}/empty")),
            "zookeeper.tls.ca: {d}/empty holds no certificates",
        ),
        (
            lambda a, d: replace(a, tls=replace(a.tls, cert=f"{d}/none", key=f"{d}/none")),
            "zookeeper.tls.cert: {d}/none",
        ),
        (lambda a, d: replace(a, tls=replace(a.tls, cert=f"{d}/empty", key=f"{d}/empty")), "cannot be used"),
        (
            lambda a, d: replace(a, password_file=f"{d}/none"),
            "zookeeper.auth.password_file: {d}/none cannot be read",
        ),
        (lambda a, d: replace(a, password_file=f"{d}/empty"), "{d}/empty does not hold a password"),
        (lambda a, d: replace(a, password_file=f"{d}/public"), "everybody may read {d}/public; chmod o-rwx"),
        (lambda a, d: replace(a, password_file=f"{d}"), "does not hold a password|cannot be read"),
    ],
)
def test_files_that_are_missing_or_make_no_sense(
    ensemble: SecuredEnsemble,
    tmp_path: Path,
    break_it: Callable[[ZooKeeperAccess, Path], ZooKeeperAccess],
    sentence: str,
) -> None:
    for name, mode in (("empty", 0o600), ("public", 0o644)):
        (tmp_path / name).write_text("" if name == "empty" else "password\n")
        (tmp_path / name).chmod(mode)
    error = refusal(ensemble, break_it(ensemble.by_password(), tmp_path))
    assert isinstance(error, AccessDenied)
    assert any(part.format(d=tmp_path) in str(error) for part in sentence.split("|")), error


def test_two_files_that_do_not_belong_together(ensemble: SecuredEnsemble) -> None:
    one, two = ensemble.tls("one"), ensemble.tls("two")
    access = ZooKeeperAccess(tls=replace(one, key=two.key), mechanism=Mechanism.X509)
    assert "do not belong together" in str(refusal(ensemble, access))


def test_without_credentials_where_they_are_asked_for(tmp_path: Path) -> None:
    with SecuredEnsemble(tmp_path / "zookeeper", 1, require_sasl=True) as ensemble:
        client = ZooClient(ensemble.hosts, SESSION_S, access=ensemble.over_tls())
        client.start()
        client.wait_connected(10)
        with pytest.raises(AccessDenied, match="ZooKeeper asks for credentials: set zookeeper.auth"):
            client.read("/")
        client.close(0.1)


def test_an_id_that_the_servers_do_not_know(
    ensemble: SecuredEnsemble, connect: Connect, zk_root: str
) -> None:
    client = connect(replace(ensemble.by_password(), admins=("kerberos:supervisor",)))
    with pytest.raises(InvalidInput, match="authProvider"):
        created(client, zk_root)


def test_an_old_supervisor_on_a_secured_root_fails_clearly(
    ensemble: SecuredEnsemble, connect: Connect, zk_root: str
) -> None:
    created(connect(ensemble.by_password()), zk_root)
    old = connect(ensemble.over_tls())
    with pytest.raises(AccessDenied, match=f"does not permit access to {zk_root}: NoAuth"):
        old.read(zk_root)
    with pytest.raises(AccessDenied, match="zookeeper.auth and acl_admins"):
        created(old, f"{zk_root}/below")


def test_refused_for_long_it_makes_neither_a_busy_loop_nor_many_sessions(ensemble: SecuredEnsemble) -> None:
    def sessions() -> int:
        status = [four_letter.ask(ensemble.status_address(i), "mntr", 3) for i in range(NODES)]
        return max(
            int(text.split("zk_global_sessions")[1].split()[0])
            for text in status
            if "zk_global_sessions" in text
        )

    connects: list[float] = []
    access = ensemble.by_password("stranger", "wrong")
    before = sessions()
    with Proxies(ensemble.hosts) as proxies:
        client = ZooClient(proxies.hosts, SESSION_S, access=access)
        original = client._session._connection._connect_once

        def counted(host: str, hostip: str, port: int) -> tuple[float, float]:
            connects.append(boottime_s())
            return original(host, hostip, port)

        client._session._connection._connect_once = counted
        client.start()
        time.sleep(6)
        assert client.link is Link.SUSPENDED
        assert sessions() <= before + 1, "the one session is tried again and again"
        assert len(connects) <= 5 * NODES, "rounds come later and later"
        client.close(0.1)


# -- what a session survives ---------------------------------------------------------------------------------------


def test_a_connection_is_announced_only_after_sasl(ensemble: SecuredEnsemble, connect: Connect) -> None:
    """A connection that was announced too early would have its first requests refused, or answered as to a stranger."""
    links: list[Link] = []
    heard: list[tuple[str, ...] | None] = []
    for _ in range(10):
        client = connect(ensemble.by_password(), on_link=links.append)
        heard.append(client.who_am_i())
        assert client.connections == 1
    assert all("sasl:supervisor" in (known or ()) for known in heard)
    assert links.count(Link.CONNECTED) == 10


def test_a_rolling_restart_of_the_ensemble_costs_no_session(
    ensemble: SecuredEnsemble, connect: Connect, zk_root: str
) -> None:
    clients = [connect(ensemble.by_password()) for _ in range(8)]
    sessions = [client.session for client in clients]
    created(clients[0], zk_root)
    for number, client in enumerate(clients):
        created(client, f"{zk_root}/{number}", ephemeral=True)
    for node in range(NODES):
        ensemble.stop(node)
        ensemble.restart(node)
        ensemble.wait_serving()
    for client in clients:
        client.wait_connected(10)
        client.sync()
    assert [client.session for client in clients] == sessions
    assert len(clients[0].children(zk_root) or ()) == len(clients)


@pytest.mark.parametrize("frames", [1, 2])
def test_a_server_that_is_killed_in_the_middle_of_sasl_costs_no_session(
    ensemble: SecuredEnsemble, connect: Connect, monkeypatch: pytest.MonkeyPatch, frames: int
) -> None:
    """It is no refusal: kazoo would take it for one, and be dead for good (kazoo #806, #810)."""
    client = connect(ensemble.by_password())
    session = client.session
    connection = client._session._connection
    exchanges, original = [0], connection._exchange
    port = connection._socket._link.getpeername()[1]
    node = next(i for i in range(NODES) if ensemble.address(i).endswith(f":{port}"))

    def dying(response: bytes) -> bytes:
        exchanges[0] += 1
        if exchanges[0] == frames:
            peer = connection._socket._link.getpeername()[1]
            ensemble.kill(next(i for i in range(NODES) if ensemble.address(i).endswith(f":{peer}")))
        answer: bytes = original(response)
        return answer

    monkeypatch.setattr(connection, "_exchange", dying)
    with contextlib.suppress(OSError):
        connection._socket.shutdown(2)
    wait_until(lambda: client.connections == 2, 20, "the next connection")
    assert client.session == session and client.link is Link.CONNECTED
    client.sync()
    assert not all(ensemble.runs(i) for i in range(NODES)) and node in range(NODES)


def test_rotated_certificates_and_passwords_count_from_the_next_connection_on(tmp_path: Path) -> None:
    with SecuredEnsemble(tmp_path / "zookeeper", 1, client_auth="need") as ensemble:
        files = ensemble.tls("supervisor")
        access = replace(ensemble.by_password(), tls=files)
        client = ZooClient(ensemble.hosts, 20, access=access)
        client.start()
        client.wait_connected(10)
        session = client.session
        Path(files.cert).write_bytes(ensemble.authority.sign("renewed").cert.read_bytes())
        Path(files.key).write_bytes((ensemble.authority._directory / "renewed.key").read_bytes())
        ensemble.jaas.write_text(ensemble.jaas.read_text().replace("s3cret", "n3w"))
        Path(access.password_file).write_text(Path(access.password_file).read_text().replace("s3cret", "n3w"))
        ensemble.use_certificate(ensemble.authority.sign("zookeeper-renewed"))
        ensemble.restart(0)
        wait_until(lambda: client.connections == 2, 30, "the next connection")
        assert client.session == session
        assert {"x509:CN=renewed", "sasl:supervisor"} <= set(client.who_am_i() or ())
        client.close()


def test_a_password_that_the_servers_learn_later_is_enough(tmp_path: Path) -> None:
    """Refused now is not refused for good: the client goes on trying, and keeps its session."""
    with SecuredEnsemble(tmp_path / "zookeeper", 1) as ensemble:
        access = ensemble.by_password()
        correct = Path(access.password_file).read_text()
        Path(access.password_file).write_text("n3w\n")
        client = ZooClient(ensemble.hosts, 30, access=access)
        client.start()
        with pytest.raises(AccessDenied):
            client.wait_connected(10)
        Path(access.password_file).write_text(correct)
        wait_until(lambda: client.link is Link.CONNECTED, 20, "the connection")
        client.close()


def test_a_session_is_closed_by_its_password_from_elsewhere(
    ensemble: SecuredEnsemble, connect: Connect, zk_root: str
) -> None:
    access = ensemble.by_password()
    leader, other = connect(access), connect(access)
    created(leader, zk_root, ephemeral=True)
    assert leader.session is not None
    close_session(ensemble.hosts, leader.session.id, leader.session.password, 10, access)
    other.sync()
    assert other.read(zk_root) is None
    wait_until(lambda: leader.link is Link.LOST, 10, "the loss")


def test_no_secret_is_in_a_launch_file_or_in_a_line_for_the_session_closer(ensemble: SecuredEnsemble) -> None:
    text = json.dumps(asdict(ensemble.by_password()))
    assert "s3cret" not in text and "password_file" in text


# -- four-letter words ---------------------------------------------------------------------------------------------


def test_doctors_probes_speak_tls(ensemble: SecuredEnsemble, tmp_path: Path) -> None:
    probes = probe_servers(ensemble.hosts, 5, ensemble.over_tls())
    assert [probe.serving for probe in probes] == [True] * NODES and {p.mode for p in probes} == {
        "leader",
        "follower",
    }
    other = ZooKeeperAccess(tls=TlsFiles(ca=str(Authority(tmp_path, "another authority").ca)))
    assert all("is of an authority" in probe.error for probe in probe_servers(ensemble.hosts, 5, other))
    with pytest.raises(ConnectFailure):
        four_letter.ask(ensemble.address(0), "srvr", 3, other.tls)
    assert not any(probe.serving for probe in probe_servers(ensemble.hosts, 1, OPEN_ACCESS))


# -- ACLs ----------------------------------------------------------------------------------------------------------

WANTED = acl_of(("sasl:supervisor", "x509:CN=operator"), ("sasl:reader",))


def story(root: str, supervisor: AclSession, reader: AclSession, stranger: AclSession) -> list[object]:
    """What the three may do with a root that one of them secures: the same on real servers and in memory."""
    told: list[object] = []

    def attempt(what: Callable[[], object]) -> None:
        try:
            told.append(what())
        except AccessDenied:
            told.append("denied")

    def commit(client: AclSession, *ops: Create | SetData | Delete | Check) -> None:
        client.commit(Transaction("test", "t", ops))

    commit(stranger, Create(root, b""), Create(f"{root}/a", b""), Create(f"{root}/a/b", b""))
    told.append(apply_acl(supervisor, Layout(root), WANTED))
    told.append(survey(supervisor, Layout(root), WANTED).differing)
    for client in (supervisor, reader, stranger):
        attempt(lambda client=client: client.read(f"{root}/a") is not None)
        attempt(lambda client=client: client.children(f"{root}/a"))
        attempt(lambda client=client: client.read_many((root, f"{root}/a/b")).nodes.count(None))
        attempt(lambda client=client: client.read_acl(f"{root}/a") == WANTED)
        attempt(lambda client=client: commit(client, Check(f"{root}/a", 0)))
        attempt(lambda client=client: commit(client, SetData(f"{root}/a/b", b"x", ANY_VERSION)))
        attempt(lambda client=client: commit(client, Create(f"{root}/c", b"")))
        attempt(lambda client=client: commit(client, Delete(f"{root}/c", ANY_VERSION)))
        attempt(lambda client=client: client.set_acl(f"{root}/a", WANTED))
        attempt(lambda client=client: client.read(f"{root}/none"))
        attempt(lambda client=client: client.read_acl(f"{root}/none"))
        attempt(lambda client=client: client.set_acl(f"{root}/none", WANTED))
    told.append(apply_acl(supervisor, Layout(root), OPEN_ACL))
    attempt(lambda: stranger.set_acl(root, OPEN_ACL))
    return told


def test_acls_mean_the_same_in_memory_and_on_real_servers(
    ensemble: SecuredEnsemble, connect: Connect, zk_root: str
) -> None:
    plain = replace(ensemble.by_password("stranger"), admins=(), readers=())
    reader = replace(ensemble.by_password("reader"), admins=(), readers=())
    supervisor = replace(ensemble.by_password(), admins=(), readers=())
    real = story(zk_root, connect(supervisor), connect(reader), connect(plain))
    zoo = GuardedZoo()
    assert real == story(
        zk_root, zoo.known_as("sasl:supervisor"), zoo.known_as("sasl:reader"), zoo.known_as("sasl:stranger")
    )
    assert real.count("denied") > 5


def walked(client: ZooClient, path: str) -> Iterator[tuple[str, Acl]]:
    yield path, client.read_acl(path) or OPEN_ACL
    for name in client.children(path) or ():
        yield from walked(client, f"{path.rstrip('/')}/{name}")


def test_a_walk_of_what_was_created_finds_no_world(
    ensemble: SecuredEnsemble, connect: Connect, zk_root: str
) -> None:
    client = connect(ensemble.by_password())
    layout = Layout(zk_root)
    creates = [Create(path, b"") for path in (zk_root, layout.version, *layout.persistent_parents())]
    client.commit(Transaction("found", "f", tuple(creates)))
    created(client, layout.supervisor("s0"), ephemeral=True)
    found = list(walked(client, zk_root))
    assert len(found) == len(creates) + 1 and not any(is_open(acl) for _, acl in found)


# -- what it costs a shim ------------------------------------------------------------------------------------------

SHIM_LIKE = """
import json, os, sys, time
from supervisor.model.zookeeper_access import access_from
from supervisor.shim import runner
from supervisor.clients.zookeeper import ZooClient
hosts, access = sys.argv[1], access_from(json.loads(sys.argv[2]))
client = ZooClient(hosts, 10.0, access=access)
client.start(); client.wait_connected(10)
def rate():
    begun = time.monotonic()
    for _ in range(300): client.read("/")
    return (time.monotonic() - begun) * 1000
rate(); took = rate()
status = open("/proc/self/status").read()
def mib(line): return int(status.split(line)[1].split()[0]) / 1024
print(json.dumps({"own_mib": mib("RssAnon:"), "rss_mib": mib("VmRSS:"), "ms": took, "modules": sorted(sys.modules)}))
client.close()
"""


def test_a_shim_pays_for_tls_and_sasl_only_where_they_are_configured(
    ensemble: SecuredEnsemble, record_property: Callable[[str, object], None]
) -> None:
    def measured(hosts: str, access: ZooKeeperAccess) -> dict[str, Any]:
        argv = [sys.executable, "-c", SHIM_LIKE, hosts, json.dumps(asdict(access))]
        answer = subprocess.run(argv, check=True, capture_output=True, timeout=60)
        found: dict[str, Any] = json.loads(answer.stdout)
        return found

    plain = measured(",".join(ensemble.status_address(i) for i in range(NODES)), OPEN_ACCESS)
    tls = measured(ensemble.hosts, ensemble.over_tls())
    both = measured(ensemble.hosts, ensemble.by_password())
    kinds = {"plain": plain, "tls": tls, "tls+sasl": both}
    loaded = {kind: set(found.pop("modules")) for kind, found in kinds.items()}
    record_property("shim", kinds)
    print(kinds)
    assert not loaded["plain"] & {"ssl", "hashlib", "supervisor.clients.zookeeper_sasl"}
    assert "ssl" in loaded["tls"] and not loaded["tls"] & {"supervisor.clients.zookeeper_sasl", "unicodedata"}
    assert not loaded["tls+sasl"] & {"ctypes", "unicodedata", "secrets"}
    # what a shim has for itself; the pages of OpenSSL's files are shared by all
    assert both["own_mib"] - plain["own_mib"] <= 3
