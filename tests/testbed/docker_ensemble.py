"""A ZooKeeper ensemble of containers, whose network can be cut in every way that a fault test needs.

Each node is on two networks, with fixed addresses on both: its peers are on one, its clients on the other. So a leader
can be cut from its peers while its clients still reach it. Clients on this machine use the addresses of the client
network directly (mapped ports would change at every restart), which needs the engine to be local.

Cuts are iptables rules in the network namespace of the container, set from outside: the image needs no tools, and the
rules vanish with the container's process. They drop silently: nobody is told.
"""

from __future__ import annotations

import contextlib
import ipaddress
import subprocess
import time
import uuid
from types import TracebackType
from typing import Any

import docker.errors
import docker.types

from supervisor.clients.four_letter import ask_status, newest_leader
from tests.testbed import docker_engine
from tests.testbed.subnets import free_subnet
from tests.waiting import wait_until

# isort: split
from testcontainers.core.container import DockerContainer

_CLIENT_PORT = 2181
_FIRST_HOST = 10  # of the /24: node 0 has .10


class DockerEnsemble:
    """``nodes`` containers, numbered from 0. Methods of ``tests.testbed.ensembles.Ensemble``, and the cuts below.

    ``tick_ms`` 500 with ``sync_limit`` 6 as in the embedded ensemble; sessions of 1 to 60 s are granted.
    """

    def __init__(self, nodes: int = 3, tick_ms: int = 500, *, sync_limit: int = 6) -> None:
        self._count = nodes
        self._tick_ms = tick_ms
        self._sync_limit = sync_limit
        self._networks: list[Any] = []
        self._containers: list[DockerContainer] = []
        self._down: set[int] = set()
        self._paused: set[int] = set()

    def __enter__(self) -> DockerEnsemble:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    @property
    def hosts(self) -> str:
        return ",".join(self.address(i) for i in range(self._count))

    def address(self, i: int) -> str:
        """``ip:port`` of node ``i`` on the client network."""
        return f"{self.client_ip(i)}:{_CLIENT_PORT}"

    @property
    def client_network(self) -> str:
        """Of the client network, in CIDR notation."""
        return str(self._client_subnet)

    @property
    def client_network_name(self) -> str:
        """As the engine knows it: other containers may be started in it."""
        return str(self._networks[1].name)

    def client_ip(self, i: int) -> str:
        return str(self._client_subnet[_FIRST_HOST + i])

    def quorum_ip(self, i: int) -> str:
        return str(self._quorum_subnet[_FIRST_HOST + i])

    def start(self, timeout_s: float = 60.0) -> None:
        docker_engine.sweep()
        try:
            quorum, self._quorum_subnet = self._new_network("quorum")
            clients, self._client_subnet = self._new_network("clients")
            for i in range(self._count):
                container = self._new_container(i, quorum)
                container.start()
                self._containers.append(container)
                clients.connect(container.get_wrapped_container(), ipv4_address=self.client_ip(i))
            self.wait_serving(timeout_s)
        except BaseException:
            self.stop()
            raise

    def pid(self, i: int) -> int:
        """Of the server process, as this machine sees it."""
        return int(self._reloaded(i).attrs["State"]["Pid"])

    def runs(self, i: int) -> bool:
        """Whether its server lives; one may also have ended by itself."""
        return self.pid(i) != 0

    def logs(self, i: int) -> str:
        return str(self._container(i).logs().decode(errors="replace"))

    def kill(self, i: int) -> None:
        """SIGKILL; back when the container is dead."""
        if i not in self._down:
            with contextlib.suppress(docker.errors.APIError):  # it exited by itself meanwhile
                self._container(i).kill()
        self._container(i).wait(timeout=20)
        self._paused.discard(i)
        self._down.add(i)

    def stop(self, i: int | None = None) -> None:
        """End node ``i`` in an orderly way, or remove the whole ensemble with its networks. Idempotent."""
        if i is not None:
            if i in self._paused:
                self.resume(i)
            self._container(i).stop(timeout=10)
            self._down.add(i)
            return
        for container in self._containers:
            container.stop()
        self._containers.clear()
        for network in self._networks:
            network.remove()
        self._networks.clear()

    def pause(self, i: int) -> None:
        """Stops the server of node ``i``, the first process of its container, with SIGSTOP.

        An engine's own pause freezes the container's cgroup: with cgroup v1, runc tries that a thousand times and then
        gives up ("unable to freeze"), as seen on a busy machine.
        """
        self._container(i).kill("SIGSTOP")
        self._paused.add(i)

    def resume(self, i: int) -> None:
        if i in self._paused:
            self._container(i).kill("SIGCONT")
            self._paused.discard(i)

    unpause = resume

    def restart(self, i: int) -> None:
        """Start node ``i`` again with its data and addresses; killed first if it runs. Its cuts are healed by that."""
        if i not in self._down:
            self.kill(i)
        self._container(i).start()
        self._down.discard(i)

    def modes(self) -> tuple[str | None, ...]:
        return tuple(ask_status(self.address(i)).mode for i in range(self._count))

    def leader(self, timeout_s: float = 30.0) -> int:
        """A leader that was just cut from its peers is still named for some seconds, until there is another."""
        deadline_at_s = time.monotonic() + timeout_s
        while True:
            index = newest_leader([self.address(i) for i in range(self._count)])
            if index is not None:
                return index
            assert time.monotonic() < deadline_at_s, f"no leader within {timeout_s:g} s"
            time.sleep(0.05)

    def wait_serving(self, timeout_s: float = 30.0) -> None:
        """Until every node that is up and not paused is leader or follower."""
        up = [i for i in range(self._count) if i not in self._down | self._paused]
        wait_until(
            lambda: all(ask_status(self.address(i)).mode is not None for i in up),
            timeout_s,
            f"nodes {up} to serve",
        )

    def cut_quorum(self, i: int) -> None:
        """Node ``i`` and its peers no longer hear each other; its clients still reach it."""
        self._drop(i, "INPUT", "-s", str(self._quorum_subnet))
        self._drop(i, "OUTPUT", "-d", str(self._quorum_subnet))

    def cut_clients(self, i: int) -> None:
        """Node ``i`` and its clients no longer hear each other; it stays in the quorum. ``modes`` cannot see it."""
        self._drop(i, "INPUT", "-s", str(self._client_subnet))
        self._drop(i, "OUTPUT", "-d", str(self._client_subnet))

    def isolate(self, i: int) -> None:
        """Node ``i`` is alone: no peers, no clients."""
        self.cut_quorum(i)
        self.cut_clients(i)

    def cut_between(self, i: int, j: int) -> None:
        """Nodes ``i`` and ``j`` no longer hear each other; both hear the rest."""
        self._drop(i, "INPUT", "-s", self.quorum_ip(j))
        self._drop(i, "OUTPUT", "-d", self.quorum_ip(j))

    def cut_one_way(self, sender: int, receiver: int | None = None) -> None:
        """What ``sender`` says no longer reaches ``receiver`` (None: any peer); the other direction works."""
        to = str(self._quorum_subnet) if receiver is None else self.quorum_ip(receiver)
        self._drop(sender, "OUTPUT", "-d", to)

    def heal(self, i: int | None = None) -> None:
        """Take back every cut made at node ``i``, or all of them."""
        for node in range(self._count) if i is None else [i]:
            if node not in self._down and self.runs(node):
                self._iptables(node, "-F")

    def _drop(self, i: int, chain: str, *match: str) -> None:
        self._iptables(i, "-A", chain, *match, "-j", "DROP")

    def _iptables(self, i: int, *arguments: str) -> None:
        command = ["nsenter", "-t", str(self.pid(i)), "-n", "iptables", "-w", *arguments]
        subprocess.run(command, check=True, capture_output=True, timeout=20)

    def _container(self, i: int) -> Any:
        return self._containers[i].get_wrapped_container()

    def _reloaded(self, i: int) -> Any:
        container = self._container(i)
        container.reload()
        return container

    def _new_container(self, i: int, quorum: Any) -> DockerContainer:
        servers = (f"server.{n + 1}={self.quorum_ip(n)}:2888:3888;{_CLIENT_PORT}" for n in range(self._count))
        address = docker_engine.client().api.create_endpoint_config(ipv4_address=self.quorum_ip(i))
        container = DockerContainer(docker_engine.zookeeper_image()).with_kwargs(
            network=quorum.name,
            networking_config={quorum.name: address},
            labels={docker_engine.LABEL: docker_engine.owner()},
        )
        return container.with_envs(
            ZOO_MY_ID=str(i + 1),
            ZOO_SERVERS=" ".join(servers),
            ZOO_TICK_TIME=str(self._tick_ms),
            ZOO_INIT_LIMIT="20",
            ZOO_SYNC_LIMIT=str(self._sync_limit),
            ZOO_MAX_CLIENT_CNXNS="0",
            ZOO_ADMINSERVER_ENABLED="false",
            ZOO_4LW_COMMANDS_WHITELIST="srvr,ruok,mntr,cons,dump,wchs",
            ZOO_CFG_EXTRA=f"minSessionTimeout={2 * self._tick_ms} maxSessionTimeout=60000 quorumListenOnAllIPs=true",
            JVMFLAGS="-Xms32m -Xmx160m -XX:+UseSerialGC -XX:TieredStopAtLevel=1 -Dzookeeper.forceSync=no"
            # The way to a dead container is silent, where a dead process refuses: do not wait 5 s for it in elections.
            " -Dzookeeper.cnxTimeout=1000",
        )

    def _new_network(self, purpose: str) -> tuple[Any, ipaddress.IPv4Network]:
        """A bridge with a /24 of its own."""
        for _ in range(20):
            subnet = free_subnet(24)
            pool = docker.types.IPAMPool(subnet=str(subnet), gateway=str(subnet[1]))
            try:
                network = docker_engine.client().networks.create(
                    f"spark-supervisor-test-{purpose}-{uuid.uuid4().hex[:8]}",
                    driver="bridge",
                    ipam=docker.types.IPAMConfig(pool_configs=[pool]),
                    labels={docker_engine.LABEL: docker_engine.owner()},
                )
            except docker.errors.APIError as error:
                if "overlap" not in str(error):
                    raise
                continue  # somebody else took it a moment ago
            self._networks.append(network)
            return network, subnet
        raise AssertionError("found no free subnet for a Docker network")
