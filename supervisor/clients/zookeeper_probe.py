"""Probes each ZooKeeper server, and tries a session out. ``doctor`` uses it; nothing that it creates stays.

A server is asked with ``srvr``, the one four-letter word that is allowed by default since 3.5; one that
refuses it is tried with a session of its own. One that allows
``conf``, too, says how many connections it takes. Everything is bounded, and raises nothing but what its docstring
says.
"""

from __future__ import annotations

import contextlib
import re
import secrets
import socket
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial

from supervisor.clients.connect_failure import ConnectFailure
from supervisor.clients.four_letter import ask
from supervisor.clients.threads import Pool
from supervisor.clients.zookeeper import ZooClient, parse_hosts
from supervisor.errors import AccessDenied, Complaint, SupervisorError
from supervisor.model.transaction import ANY_VERSION, Create, Delete, Transaction
from supervisor.model.zookeeper_access import OPEN_ACCESS, ZooKeeperAccess

SERVER_S = 3.0
ROUNDS = 15


@dataclass(frozen=True, slots=True)
class ServerProbe:
    """Holds what was learnt of one server. ``error`` says why it cannot be reached. ``mode`` is ``leader
    follower observer standalone read-only``, or None if it has no quorum (then ``serving`` is False) or does
    not say. ``version`` is like ``3.9.5``, or None if it does not say. ``connections_max`` is how many connections it takes
    from one address (``maxClientCnxns``; 0: any number), or None if it does not say."""

    address: str
    serving: bool
    mode: str | None = None
    version: str | None = None
    error: str = ""
    connections_max: int | None = None


def probe_servers(
    hosts: str, within_s: float = SERVER_S, access: ZooKeeperAccess = OPEN_ACCESS
) -> tuple[ServerProbe, ...]:
    """Probes every server of ``hosts``, in parallel, and returns the results in order. ``within_s`` bounds
    each answer of a server."""
    addresses = [f"[{host}]:{port}" if ":" in host else f"{host}:{port}" for host, port in parse_hosts(hosts)]
    with Pool(max(1, len(addresses)), "zookeeper-look") as pool:
        return tuple(pool.map(partial(probe_server, within_s=within_s, access=access), addresses))


def probe_server(
    address: str, within_s: float = SERVER_S, access: ZooKeeperAccess = OPEN_ACCESS
) -> ServerProbe:
    """Probes one server. Never raises."""
    host, _, port = address.rpartition(":")
    bare = host.removeprefix("[").removesuffix("]")
    try:
        socket.getaddrinfo(bare, int(port), type=socket.SOCK_STREAM)
    except OSError as error:
        return ServerProbe(address, False, error=f"its name does not resolve ({error.strerror or error})")
    try:
        answer = ask(f"{bare}:{port}", "srvr", within_s, access.tls)
    except ConnectFailure as error:
        return ServerProbe(address, False, error=error.complaint.what)
    except OSError as error:
        return ServerProbe(address, False, error=_why(error, within_s))
    found = read_srvr(address, answer)
    if found is None:
        return _by_session(address, within_s, access)
    return replace(found, connections_max=_connections_max(f"{bare}:{port}", within_s, access))


def _connections_max(address: str, within_s: float, access: ZooKeeperAccess) -> int | None:
    try:
        answer = ask(address, "conf", within_s, access.tls)
    except (OSError, ConnectFailure):
        return None
    found = re.search(r"^maxClientCnxns=(\d+)", answer, re.MULTILINE)
    return int(found[1]) if found else None


def read_srvr(address: str, answer: str) -> ServerProbe | None:
    """Returns what the answer to ``srvr`` says; None if the word is not allowed there."""
    version = re.search(r"version: (\d+\.\d+\.\d+)", answer)
    mode = re.search(r"^Mode: (\S+)", answer, re.MULTILINE)
    version_text = version[1] if version else None
    if mode:
        return ServerProbe(address, mode[1] != "read-only", mode[1], version_text)
    if "not currently serving" in answer:
        return ServerProbe(address, False, None, version_text, "it is up, but has no quorum")
    return None


def _by_session(address: str, within_s: float, access: ZooKeeperAccess) -> ServerProbe:
    client = ZooClient(address, 10.0, request_timeout_s=within_s, access=access)
    client.start()
    try:
        client.wait_connected(within_s)
        client.sync()
        return ServerProbe(address, True)
    except AccessDenied as error:
        return ServerProbe(address, False, error=error.complaint.what)
    except SupervisorError:
        return ServerProbe(
            address, False, error="it accepts connections, but no session (no quorum, TLS, no ZooKeeper)"
        )
    finally:
        client.close(1.0)


def _why(error: OSError, within_s: float) -> str:
    if isinstance(error, TimeoutError):
        return f"no answer within {within_s:g} s"
    return (error.strerror or str(error)).lower()


# -- a session ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Latency:
    """Holds the times of ``sync`` and a read after it, in milliseconds."""

    min_ms: float
    median_ms: float
    max_ms: float


def measure(client: ZooClient, path: str, rounds: int = ROUNDS) -> Latency:
    """Measures ``rounds`` times a ``sync`` and a read of ``path``. Raises Unreachable."""
    times = []
    for _ in range(rounds):
        began_at_s = time.monotonic()
        client.sync()
        with contextlib.suppress(AccessDenied):  # an answer, too
            client.read(path)
        times.append((time.monotonic() - began_at_s) * 1000)
    times.sort()
    return Latency(times[0], times[len(times) // 2], times[-1])


@dataclass(frozen=True, slots=True)
class WriteTrial:
    """Holds the outcome of ``try_write``. ``parent`` is where an ephemeral znode was tried. ``skew_s`` is how
    far ZooKeeper's clock is ahead of this host's."""

    parent: str
    error: Complaint = Complaint()
    skew_s: float | None = None


def try_write(client: ZooClient, root: str) -> WriteTrial:
    """Creates, reads and deletes an ephemeral znode at ``root``, or at its nearest ancestor that exists.

    Raises Unreachable; what ZooKeeper refuses is in the result.
    """
    parent = root
    try:
        while parent and client.read(parent) is None:
            parent = parent.rpartition("/")[0]
    except AccessDenied as error:
        return WriteTrial(parent, error.complaint)
    path = f"{parent}/spark-supervisor-doctor-{secrets.token_hex(8)}"
    before_at_s = time.time()
    try:
        client.commit(Transaction("doctor", path, (Create(path, b"", ephemeral=True),)))
    except SupervisorError as error:
        return WriteTrial(parent or "/", error.complaint)
    written_at_s = (before_at_s + time.time()) / 2
    try:
        node = client.read(path)
        client.commit(Transaction("doctor", path, (Delete(path, ANY_VERSION),)))
    except SupervisorError as error:
        return WriteTrial(parent or "/", error.complaint)
    modified_at_s = node.stat.modified_at_s if node is not None else 0.0
    return WriteTrial(parent or "/", skew_s=modified_at_s - written_at_s if modified_at_s else None)


def same_machine(addresses: Sequence[str]) -> tuple[str, ...]:
    """Returns those of ``addresses`` (host:port) that resolve to an address and port that another one has
    already."""
    seen: set[tuple[str, int]] = set()
    doubled = []
    for address in addresses:
        host, _, port = address.rpartition(":")
        try:
            found = {
                (str(entry[4][0]), int(port)) for entry in socket.getaddrinfo(host.strip("[]"), int(port))
            }
        except OSError:
            continue
        if found & seen:
            doubled.append(address)
        seen |= found
    return tuple(doubled)
