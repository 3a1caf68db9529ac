"""The testbed itself: what the other tests rest on."""

from __future__ import annotations

import os
import select
import signal
import socket
import ssl
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path

import pytest
from kazoo.client import KazooClient
from kazoo.exceptions import ConnectionLoss, SessionExpiredError
from kazoo.retry import KazooRetry

from supervisor.clients.four_letter import ask
from supervisor.demo.ensemble import EmbeddedEnsemble
from tests.conftest import KINDS
from tests.testbed.certificates import Authority
from tests.testbed.docker_ensemble import DockerEnsemble
from tests.testbed.driver_tree import driver_tree
from tests.testbed.ensembles import Ensemble, RevivedEnsemble, repair
from tests.testbed.moto import MotoServer
from tests.testbed.namespaces import Namespace
from tests.testbed.proxy import (
    Action,
    Proxies,
    Proxy,
    TlsEnds,
    Way,
    any_request,
    http_request,
    zookeeper_request,
)
from tests.testbed.secured_ensemble import tls_ends
from tests.waiting import wait_until


@pytest.fixture(scope="module", params=KINDS)
def harmed_ensemble(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Ensemble]:
    """Of this module alone; take ``repaired_ensemble`` or ``repaired_containers``."""
    with (
        DockerEnsemble()
        if request.param == "docker"
        else EmbeddedEnsemble(tmp_path_factory.mktemp("harmed")) as ensemble
    ):
        yield ensemble


@pytest.fixture
def repaired_ensemble(harmed_ensemble: Ensemble) -> Ensemble:
    """All nodes serve, whatever the test before did to them; to be harmed."""
    repair(harmed_ensemble)
    return harmed_ensemble


@pytest.fixture
def repaired_containers(repaired_ensemble: Ensemble) -> DockerEnsemble:
    assert isinstance(repaired_ensemble, DockerEnsemble)
    return repaired_ensemble


in_containers = pytest.mark.parametrize("harmed_ensemble", KINDS[1:], indirect=True)


def wait_complete(ensemble: Ensemble) -> None:
    """One leads, two follow. Each node is asked with a short time-out: a busy one may not answer the first time."""
    complete = ["follower", "follower", "leader"]
    wait_until(lambda: sorted(str(mode) for mode in ensemble.modes()) == complete, 30, f"{complete}")


@contextmanager
def zookeeper(hosts: str, session_s: float = 10.0) -> Iterator[KazooClient]:
    client = KazooClient(
        hosts, timeout=session_s, connection_retry=KazooRetry(max_tries=-1, delay=0.1, max_delay=0.5)
    )
    client.start(timeout=30)
    try:
        yield client
    finally:
        client.stop()
        client.close()


def write_until_taken(hosts: str, path: str) -> None:
    """A quorum takes writes again when this returns."""
    with zookeeper(hosts) as client:
        wait_until(lambda: _created(client, path), 30, f"{path} to be written")


def _created(client: KazooClient, path: str) -> bool:
    try:
        client.ensure_path_async(path).get(timeout=5)
    except (ConnectionLoss, SessionExpiredError, client.handler.timeout_exception):
        return False
    return True


# Ensembles


def test_an_ensemble_has_one_leader_and_two_followers(ensemble: Ensemble, zk_root: str) -> None:
    wait_complete(ensemble)
    write_until_taken(ensemble.hosts, zk_root)


def test_a_killed_leader_is_replaced_and_comes_back_with_its_data(repaired_ensemble: Ensemble) -> None:
    write_until_taken(repaired_ensemble.hosts, "/before")
    old = repaired_ensemble.leader()
    repaired_ensemble.kill(old)
    wait_until(lambda: repaired_ensemble.leader() != old, 30, "another leader")
    write_until_taken(repaired_ensemble.hosts, "/while-down")
    repaired_ensemble.restart(old)
    repaired_ensemble.wait_serving()
    wait_complete(repaired_ensemble)
    with zookeeper(repaired_ensemble.address(old)) as client:
        client.sync("/")
        assert client.exists("/before") and client.exists("/while-down")


def test_a_server_that_ends_by_itself_is_started_again(tmp_path: Path) -> None:
    """As its own defect ends it: nobody has told the ensemble. What was stopped on purpose stays down."""
    with RevivedEnsemble(tmp_path) as ensemble:
        ensemble.kill(2)
        for _ in range(2):
            pid = _kill_behind_its_back(ensemble, 0)
            wait_until(lambda old=pid: ensemble.node(0).pid not in (None, old), 20, "another process")  # type: ignore[misc]
        ensemble.wait_serving()
        assert ensemble.node(2).pid is None
        ensemble.restart(2)
        ensemble.wait_serving()
        wait_complete(ensemble)
        pid = _kill_behind_its_back(ensemble, 2)
        wait_until(lambda: ensemble.node(2).pid not in (None, pid), 20, "another process")


def test_whoever_waits_for_the_servers_meets_none_that_ended_by_itself(tmp_path: Path) -> None:
    """As a fixture does between two tests: at once, before anybody has started it again."""
    with RevivedEnsemble(tmp_path) as ensemble:
        for look in (ensemble.wait_serving, partial(ensemble.resume, 0)):
            with ensemble._nodes_lock:  # nobody else starts it
                _kill_behind_its_back(ensemble, 0)
                look()
                ensemble.wait_serving()
            assert None not in ensemble.modes()


@pytest.mark.parametrize("after", ["it is back", "its death"])
def test_no_server_is_started_once_the_ensemble_is_stopped(tmp_path: Path, after: str) -> None:
    others = set(threading.enumerate())
    ensemble = RevivedEnsemble(tmp_path, nodes=1)
    ensemble.start()
    pid = _kill_behind_its_back(ensemble, 0)
    if after == "it is back":
        wait_until(lambda: ensemble.node(0).pid not in (None, pid), 20, "another process")
    ensemble.stop()
    assert set(threading.enumerate()) <= others, "who starts servers has ended"
    assert not ensemble.runs(0)


def _kill_behind_its_back(ensemble: EmbeddedEnsemble, node: int) -> int:
    """Returns the process id of the server that is dead now."""
    pid = ensemble.node(node).pid
    assert pid is not None
    server = os.pidfd_open(pid)
    os.kill(pid, signal.SIGKILL)
    wait_until(partial(_is_gone, server), 20, "its death")
    os.close(server)
    return pid


def test_a_paused_leader_is_replaced_and_follows_when_it_wakes(repaired_ensemble: Ensemble) -> None:
    old = repaired_ensemble.leader()
    repaired_ensemble.pause(old)
    wait_until(lambda: repaired_ensemble.leader() != old, 30, "another leader")
    repaired_ensemble.wait_serving()  # of those that are not paused
    repaired_ensemble.resume(old)
    wait_until(lambda: repaired_ensemble.modes()[old] == "follower", 30, "the old leader to follow")


def test_a_node_that_was_paused_has_stopped() -> None:
    """The signal alone lets its threads go on for a moment: on a busy machine three paused servers committed a write."""
    with tempfile.TemporaryDirectory() as directory, EmbeddedEnsemble(directory, nodes=1) as ensemble:
        for _ in range(50):
            ensemble.pause(0)
            pid = ensemble.node(0).pid
            states = [
                path.read_text().rpartition(")")[2].split()[0]
                for path in Path(f"/proc/{pid}/task").glob("*/stat")
            ]
            ensemble.pause(0)  # once more is no other
            ensemble.resume(0)
            assert set(states) == {"T"}


def test_a_paused_node_can_be_killed(repaired_ensemble: Ensemble) -> None:
    repaired_ensemble.pause(0)
    repaired_ensemble.kill(0)
    repaired_ensemble.restart(0)
    repaired_ensemble.wait_serving()
    wait_complete(repaired_ensemble)


def test_without_quorum_nobody_serves_until_one_comes_back(repaired_ensemble: Ensemble) -> None:
    repaired_ensemble.kill(0)
    repaired_ensemble.stop(1)
    wait_until(lambda: repaired_ensemble.modes() == (None, None, None), 30, "the last node to stop serving")
    repaired_ensemble.restart(1)
    repaired_ensemble.wait_serving()
    write_until_taken(repaired_ensemble.hosts, "/again")


def test_an_embedded_ensemble_dies_with_its_process(tmp_path: Path) -> None:
    program = (
        "import sys, time; from supervisor.demo.ensemble import EmbeddedEnsemble\n"
        "e = EmbeddedEnsemble(sys.argv[1]); e.start()\n"
        "print(*(e.node(i).pid for i in range(3)), flush=True); time.sleep(600)"
    )
    argv = [sys.executable, "-c", program, str(tmp_path)]
    owner = subprocess.Popen(argv, stdout=subprocess.PIPE, text=True, cwd=Path(__file__).parents[2])
    assert owner.stdout is not None
    pidfds = [os.pidfd_open(int(pid)) for pid in owner.stdout.readline().split()]
    assert len(pidfds) == 3
    owner.kill()
    owner.wait()
    for pidfd in pidfds:
        wait_until(partial(_is_gone, pidfd), 30, "a server to die with its parent")
        os.close(pidfd)


def _is_gone(pidfd: int) -> bool:
    return bool(select.select([pidfd], [], [], 0)[0])


def test_of_a_driver_that_a_test_has_started_nothing_is_left(tmp_path: Path) -> None:
    """Its Python outlives a JVM that is killed, and Python workers have a process group of their own."""
    program = (
        "import os, subprocess, sys, time\n"
        "sleep = [sys.executable, '-c', 'import time; time.sleep(600)']\n"
        "for group in (None, 0):\n"
        "    print(subprocess.Popen(sleep, process_group=group).pid, flush=True)\n"
        "time.sleep(600)"
    )
    log = tmp_path / "log"
    argv = [sys.executable, "-c", program]
    with driver_tree(argv, env=os.environ, cwd=tmp_path, log=log) as driver:
        wait_until(lambda: len(log.read_text().split()) == 2, 30, "both children")
        pidfds = [os.pidfd_open(int(pid)) for pid in log.read_text().split()]
        driver.kill()
        driver.wait()
        assert not any(map(_is_gone, pidfds))
    assert driver.returncode == -9
    for pidfd in pidfds:
        wait_until(partial(_is_gone, pidfd), 30, "the end of a child")
        os.close(pidfd)


def test_an_embedded_ensemble_may_be_left_running_and_started_again_on_its_data(tmp_path: Path) -> None:
    ensemble = EmbeddedEnsemble(tmp_path, nodes=1)
    ensemble.start()
    write_until_taken(ensemble.hosts, "/kept")
    assert len(ensemble.leave_running()) == 1
    assert "Mode: standalone" in ask(ensemble.address(0), "srvr")
    ensemble.stop()
    with EmbeddedEnsemble(tmp_path, nodes=1) as again, zookeeper(again.hosts) as client:
        assert client.exists("/kept")


# Cuts between containers


@in_containers
def test_a_leader_cut_from_its_peers_is_replaced_while_clients_reach_it(
    repaired_containers: DockerEnsemble,
) -> None:
    old = repaired_containers.leader()
    repaired_containers.cut_quorum(old)
    others = [i for i in range(3) if i != old]
    wait_until(lambda: "leader" in [repaired_containers.modes()[i] for i in others], 30, "another leader")
    assert ask(repaired_containers.address(old), "ruok") == "imok"
    repaired_containers.heal()
    wait_until(lambda: repaired_containers.modes()[old] == "follower", 60, "the old leader to follow")


@in_containers
def test_a_node_cut_from_its_clients_stays_in_the_quorum(repaired_containers: DockerEnsemble) -> None:
    leader = repaired_containers.leader()
    repaired_containers.cut_clients(leader)
    assert repaired_containers.modes()[leader] is None
    others = ",".join(repaired_containers.address(i) for i in range(3) if i != leader)
    write_until_taken(others, "/through-followers")
    repaired_containers.heal(leader)
    assert wait_until(repaired_containers.leader) == leader


@pytest.mark.docker
@pytest.mark.netns
def test_a_process_in_a_namespace_reaches_containers_until_it_is_cut(docker_ensemble: DockerEnsemble) -> None:
    with Namespace() as namespace:
        namespace.reach(docker_ensemble.client_network)
        assert "Mode" in _srvr_from(namespace, docker_ensemble.address(0))
        namespace.cut_from(docker_ensemble.client_ip(0))
        assert _srvr_from(namespace, docker_ensemble.address(0)) == "timeout"
        assert "Mode" in _srvr_from(namespace, docker_ensemble.address(1))


# Namespaces


@pytest.mark.netns
def test_a_namespace_is_cut_and_healed_without_breaking_its_connections(
    embedded_ensemble: EmbeddedEnsemble,
) -> None:
    with Namespace() as namespace, Proxies(embedded_ensemble.hosts, namespace.host_address) as proxies:
        assert "Mode" in _srvr_from(namespace, proxies[0].address)
        namespace.cut()
        assert _srvr_from(namespace, proxies[0].address) == "timeout"
        namespace.heal()
        assert "Mode" in _srvr_from(namespace, proxies[0].address)


@pytest.mark.netns
def test_a_namespace_that_loses_packets_loses_no_bytes(embedded_ensemble: EmbeddedEnsemble) -> None:
    def rules() -> str:
        return subprocess.run(
            ["iptables", "-w", "-S", "INPUT"], capture_output=True, text=True, check=True
        ).stdout

    with Namespace() as namespace, Proxies(embedded_ensemble.hosts, namespace.host_address) as proxies:
        namespace.lose(0.3)
        assert namespace.name in rules()
        answer = partial(_srvr_from, namespace, proxies[0].address)
        wait_until(lambda: "Mode" in answer() and min(namespace.lost()) > 0, 60, "an answer, and losses")
        namespace.heal()
        assert namespace.name not in rules() and namespace.lost() == (0, 0)
        namespace.lose(0.3)
    assert namespace.name not in rules()


@pytest.mark.netns
def test_a_namespace_leaves_nothing_behind_not_even_its_processes() -> None:
    with Namespace() as namespace:
        process = subprocess.Popen(namespace.wrap(["sleep", "600"]))
        wait_until(lambda: process.pid in namespace.pids(), 10, "the process to be inside")
    assert process.wait(timeout=10) == -signal.SIGKILL
    assert not Path(f"/run/netns/{namespace.name}").exists()


def _srvr_from(namespace: Namespace, address: str) -> str:
    host, _, port = address.rpartition(":")
    program = (
        "import socket, sys\n"
        "try:\n"
        "    s = socket.create_connection((sys.argv[1], int(sys.argv[2])), timeout=2)\n"
        "    s.send(b'srvr'); print(s.recv(999))\n"
        "except TimeoutError: print('timeout')"
    )
    return namespace.run(sys.executable, "-S", "-c", program, host, port).strip()


# The proxy


def test_a_proxy_resets_after_the_request_took_effect(
    embedded_ensemble: EmbeddedEnsemble, zk_root: str
) -> None:
    with Proxy(embedded_ensemble.address(0)) as proxy, zookeeper(proxy.address) as client:
        trap = proxy.on_request(zookeeper_request(zk_root), Action.CUT_AFTER)
        with pytest.raises(ConnectionLoss):
            client.create_async(zk_root).get(timeout=10)
        trap.wait()
        wait_until(lambda: client.connected, 30, "the client to come back")
        assert client.exists(zk_root)


def test_a_proxy_resets_before_the_request_is_seen(embedded_ensemble: EmbeddedEnsemble, zk_root: str) -> None:
    with Proxy(embedded_ensemble.address(0)) as proxy, zookeeper(proxy.address) as client:
        trap = proxy.on_request(zookeeper_request(zk_root), Action.CUT_BEFORE)
        with pytest.raises(ConnectionLoss):
            client.create_async(zk_root).get(timeout=10)
        trap.wait()
        wait_until(lambda: client.connected, 30, "the client to come back")
        assert not client.exists(zk_root)


def test_a_trap_whose_server_went_before_it_answered_catches_the_next_request() -> None:
    """The server is gone with the first request; what comes next is answered, and that answer is lost."""
    with (
        socket.create_server(("127.0.0.1", 0)) as server,
        Proxy(f"127.0.0.1:{server.getsockname()[1]}") as proxy,
    ):
        trap = proxy.on_request(any_request, Action.CUT_AFTER)
        for answers in (False, True):
            assert not trap.sprung
            with socket.create_connection(("127.0.0.1", proxy.port), timeout=10) as client:
                link, _ = server.accept()
                client.sendall(b"ask")
                with link:
                    assert link.recv(3) == b"ask"
                    if answers:
                        link.sendall(b"answer")
                        trap.wait()
                with suppress(ConnectionResetError):
                    assert client.recv(6) == b""
        assert trap.sprung


def test_a_healed_trap_lets_the_answer_pass() -> None:
    with (
        socket.create_server(("127.0.0.1", 0)) as server,
        Proxy(f"127.0.0.1:{server.getsockname()[1]}") as proxy,
    ):
        trap = proxy.on_request(any_request, Action.CUT_AFTER)
        with socket.create_connection(("127.0.0.1", proxy.port), timeout=10) as client:
            link, _ = server.accept()
            client.sendall(b"ask")
            assert link.recv(3) == b"ask"
            proxy.heal()
            link.sendall(b"answer")
            assert client.recv(6) == b"answer"
            link.close()
        assert not trap.sprung


def test_a_held_request_takes_effect_when_it_is_released(
    embedded_ensemble: EmbeddedEnsemble, zk_root: str
) -> None:
    with (
        Proxy(embedded_ensemble.address(0)) as proxy,
        zookeeper(proxy.address) as client,
        zookeeper(embedded_ensemble.address(0)) as witness,
    ):
        trap = proxy.on_request(zookeeper_request(zk_root), Action.HOLD)
        pending = client.create_async(zk_root)
        trap.wait()
        assert not witness.exists(zk_root)
        proxy.release()
        assert pending.get(timeout=10) == zk_root
        assert witness.exists(zk_root)


def test_responses_can_be_dropped_alone(embedded_ensemble: EmbeddedEnsemble, zk_root: str) -> None:
    with (
        Proxy(embedded_ensemble.address(0)) as proxy,
        zookeeper(proxy.address) as client,
        zookeeper(embedded_ensemble.address(0)) as witness,
    ):
        proxy.drop(Way.RESPONSES)
        pending = client.create_async(zk_root)
        wait_until(lambda: witness.exists(zk_root), 10, "the request to take effect")
        proxy.heal()
        with pytest.raises(ConnectionLoss):
            pending.get(timeout=10)


def test_a_client_behind_black_holes_loses_its_session(
    embedded_ensemble: EmbeddedEnsemble, zk_root: str
) -> None:
    with (
        Proxies(embedded_ensemble.hosts) as proxies,
        zookeeper(embedded_ensemble.hosts) as witness,
        zookeeper(proxies.hosts, session_s=2) as client,
    ):
        client.create(zk_root, ephemeral=True)
        proxies.each(Proxy.drop)
        wait_until(lambda: witness.exists(zk_root) is None, 30, "the session to end")
        proxies.each(Proxy.heal)


def test_a_store_write_is_done_though_its_answer_is_lost(moto_server: MotoServer, s3_bucket: str) -> None:
    with Proxy(f"127.0.0.1:{moto_server.port}") as proxy:
        trap = proxy.on_request(http_request("PUT", f"/{s3_bucket}/key"), Action.CUT_AFTER)
        with socket.create_connection(("127.0.0.1", proxy.port), timeout=10) as link:
            link.sendall(f"PUT /{s3_bucket}/key HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\nhi".encode())
            with pytest.raises(ConnectionResetError):
                link.recv(100)
        trap.wait()
    assert moto_server.client().get_object(Bucket=s3_bucket, Key="key")["Body"].read() == b"hi"


def test_a_proxy_refuses_and_welcomes_again() -> None:
    with _echo() as target, Proxy(target) as proxy:
        proxy.refuse()
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(("127.0.0.1", proxy.port), timeout=10)
        proxy.heal()
        with socket.create_connection(("127.0.0.1", proxy.port), timeout=10) as link:
            link.sendall(b"x" * 300_000)
            link.shutdown(socket.SHUT_WR)
            received = b"".join(iter(lambda: link.recv(65536), b""))
    assert received == b"x" * 300_000


def test_nothing_passes_a_proxy_that_refused_while_it_was_accepting() -> None:
    """Such a connection was served for as long as it lasted: a client kept the server from which the test had cut it."""
    with _echo() as target, Proxy(target) as proxy:
        for _ in range(10):
            over = threading.Event()
            with ThreadPoolExecutor(4) as pool:
                connecting = [pool.submit(_connect_until, over, proxy.port) for _ in range(4)]
                proxy.refuse()
                over.set()
                links = [link for future in connecting for link in future.result()]
            assert _echoed(links) == []
            proxy.heal()


def test_a_client_that_one_proxy_refuses_is_not_let_in_by_the_next() -> None:
    """One after the other, they reset a client that had just been welcomed by the next: it asked the server meanwhile."""
    with _echo() as target, Proxies(f"{target},{target}") as proxies:
        for _ in range(20):
            with socket.create_connection(("127.0.0.1", proxies[0].port), timeout=10) as link:
                link.sendall(b"x")
                assert link.recv(1) == b"x"
                with ThreadPoolExecutor(1) as pool:
                    refused = pool.submit(_is_refused_by, proxies[1].port, link)
                    proxies.refuse()
                assert refused.result()
            proxies.each(Proxy.heal)


def _is_refused_by(port: int, link: socket.socket) -> bool:
    """What a client meets there that goes there as soon as its ``link`` is broken."""
    with pytest.raises(ConnectionResetError):
        link.recv(1)
    try:
        socket.create_connection(("127.0.0.1", port), timeout=10).close()
    except ConnectionRefusedError:
        return True
    return False


def test_a_proxy_cuts_a_tls_connection_that_both_ends_are_closing(tmp_path: Path) -> None:
    """As at the end of a test, when the client has just been closed."""
    ends = tls_ends(Authority(tmp_path))
    with socket.create_server(("127.0.0.1", 0)) as listening, ThreadPoolExecutor(1) as pool:
        serving = pool.submit(_accept_tls, listening, ends)
        with Proxy(f"127.0.0.1:{listening.getsockname()[1]}", tls=ends) as proxy:
            link = socket.create_connection(("127.0.0.1", proxy.port), timeout=10)
            client = ends.to_server.wrap_socket(link, server_hostname="127.0.0.1")
            server = serving.result(10)
            proxy.hold(Way.REQUESTS)  # so that the connection is not over yet
            for end in (client, server):
                end.unwrap().close()  # once the proxy has seen it
            proxy.cut()


def test_a_slow_proxy_loses_nothing() -> None:
    with (
        _echo() as target,
        Proxy(target) as proxy,
        socket.create_connection(("127.0.0.1", proxy.port)) as link,
    ):
        proxy.delay(0.05, Way.REQUESTS)
        proxy.throttle(100_000, Way.RESPONSES)
        link.sendall(b"ab" * 5_000)
        link.shutdown(socket.SHUT_WR)
        assert b"".join(iter(lambda: link.recv(65536), b"")) == b"ab" * 5_000


def _accept_tls(listening: socket.socket, ends: TlsEnds) -> ssl.SSLSocket:
    accepted, _ = listening.accept()
    accepted.settimeout(10)
    return ends.to_clients.wrap_socket(accepted, server_side=True)


@contextmanager
def _echo() -> Iterator[str]:
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            try:
                while True:
                    link, _ = server.accept()
                    threading.Thread(target=answer, args=(link,), daemon=True).start()
            except OSError:
                pass  # closed: the test is over

        def answer(link: socket.socket) -> None:
            with link, suppress(OSError):
                while chunk := link.recv(65536):
                    link.sendall(chunk)

        threading.Thread(target=serve, daemon=True).start()
        yield f"127.0.0.1:{server.getsockname()[1]}"
        server.shutdown(socket.SHUT_RDWR)


# S3


def test_a_bucket_is_new_and_empty(moto_server: MotoServer, s3_bucket: str) -> None:
    assert moto_server.client().list_objects_v2(Bucket=s3_bucket)["KeyCount"] == 0
    assert os.environ["AWS_ACCESS_KEY_ID"] == moto_server.env["AWS_ACCESS_KEY_ID"]


def test_a_wait_in_vain_says_for_what() -> None:
    with pytest.raises(AssertionError, match="in vain for godot"):
        wait_until(lambda: False, 0.1, "godot")


def _connect_until(over: threading.Event, port: int) -> list[socket.socket]:
    """Connects again and again. The last few connections are those that were made around the refusal."""
    links: list[socket.socket] = []
    while not over.is_set():
        try:
            links.append(socket.create_connection(("127.0.0.1", port), timeout=10))
        except OSError:
            break
    return links


def _echoed(links: list[socket.socket]) -> list[socket.socket]:
    """Those of ``links`` that answer within half a second; closes all."""
    for link in links:
        with suppress(OSError):
            link.sendall(b"x")
    time.sleep(0.5)
    return [link for link in links if _received(link) == b"x"]


def _received(link: socket.socket) -> bytes:
    with link:
        link.setblocking(False)
        try:
            return link.recv(1)
        except OSError:
            return b""
