"""A network namespace for a process that is to be cut from the rest, with a veth pair to this machine and no NAT.

Root only. A process inside sees the same files, processes and cgroups; only its network is its own. It reaches this
machine at ``host_address``: what listens on 127.0.0.1 here is reached through a ``Proxies`` listening there; containers
are reached directly after ``reach(network)``. Nothing outside of the namespace made here is ever cut or changed, but
for INPUT and FORWARD rules that name its own interface; ``close`` removes all of it, and a later run what a killed one left.
"""

from __future__ import annotations

import itertools
import json
import os
import re
import signal
import subprocess
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType

from tests.testbed.subnets import free_subnet

_PREFIX = "sst"  # of namespaces and interfaces: sst<pid>x<n>, at most 15 characters
_counter = itertools.count()


class Namespace:
    """One namespace. ``cut`` drops silently, both ways; connections stay as they are and go on after ``heal``."""

    def __init__(self) -> None:
        sweep()
        number = next(_counter)
        self.name = f"{_PREFIX}{os.getpid()}x{number}"
        self._outer = f"{self.name}o"
        self._outside: list[list[str]] = []
        subnet = free_subnet(30)
        self.host_address, self.address = str(subnet[1]), str(subnet[2])
        try:
            _run("ip", "netns", "add", self.name)
            _run(
                "ip", "link", "add", self._outer, "type", "veth", "peer", "name", "inner", "netns", self.name
            )
            _run("ip", "address", "add", f"{self.host_address}/30", "dev", self._outer)
            _run("ip", "link", "set", self._outer, "up")
            self.run("ip", "address", "add", f"{self.address}/30", "dev", "inner")
            self.run("ip", "link", "set", "inner", "up")
            self.run("ip", "link", "set", "lo", "up")
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> Namespace:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def wrap(self, argv: Sequence[str]) -> list[str]:
        """``argv`` as to be started from here to run inside. The pid is that of the process itself (nsenter execs)."""
        # Not `ip netns exec`: that gives the process a /sys of its own, without the cgroup hierarchies.
        return ["nsenter", f"--net=/run/netns/{self.name}", *argv]

    def run(self, *argv: str) -> str:
        """Run a short command inside; its output. Raises CalledProcessError."""
        return _run(*self.wrap(argv))

    def pids(self) -> tuple[int, ...]:
        """Of the processes inside."""
        return tuple(int(word) for word in _run("ip", "netns", "pids", self.name).split())

    def cut(self) -> None:
        """Neither side hears the other; loopback inside works on."""
        self.cut_in()
        self.cut_out()

    def cut_in(self) -> None:
        """The processes inside hear nothing; what they say arrives."""
        self._iptables("-A", "INPUT", "-i", "inner", "-j", "DROP")

    def cut_out(self) -> None:
        """What the processes inside say does not arrive; they hear on."""
        self._iptables("-A", "OUTPUT", "-o", "inner", "-j", "DROP")

    def cut_from(self, address: str, port: int | None = None) -> None:
        """Cut from one address, or one port of it, e.g. from one of three servers. Both ways."""
        for chain, end, side in (("INPUT", "-s", "--sport"), ("OUTPUT", "-d", "--dport")):
            ports = [] if port is None else ["-p", "tcp", side, str(port)]
            self._iptables("-A", chain, end, address, *ports, "-j", "DROP")

    def lose(self, share: float) -> None:
        """Of the packets to and from this machine so many vanish, at random: their senders learn it by time-outs only.

        Each way it is the receiver who drops: a sender whose own packet filter drops is told at once, and sends again.
        """
        loss = ["-m", "statistic", "--mode", "random", "--probability", str(share), "-j", "DROP"]
        self._iptables("-A", "INPUT", "-i", "inner", *loss)
        self._outside_rule("INPUT", "-i", self._outer, *loss)

    def lost(self) -> tuple[int, int]:
        """How many packets ``lose`` has dropped since the last ``heal``: of those that came in, and of those that went out."""
        listing = ("iptables", "-w", "-vxnL", "INPUT")
        return _dropped(self.run(*listing), "inner"), _dropped(_run(*listing), self._outer)

    def heal(self) -> None:
        """Take back every cut and loss."""
        self._iptables("-F")
        for rule in [rule for rule in self._outside if rule[0] == "INPUT"]:
            _run("iptables", "-w", "-D", *rule)
            self._outside.remove(rule)

    def reach(self, network: str) -> None:
        """Let the processes inside reach ``network`` (CIDR notation, e.g. a Docker bridge's) through this machine."""
        self.run("ip", "route", "replace", network, "via", self.host_address)
        Path("/proc/sys/net/ipv4/ip_forward").write_text("1")  # as Docker has set it
        for way in (["-i", self._outer], ["-o", self._outer]):
            self._outside_rule("FORWARD", *way, "-j", "ACCEPT")

    def close(self) -> None:
        """End the processes inside (SIGKILL), then remove the namespace with its interfaces. Idempotent."""
        for rule in self._outside:
            _run("iptables", "-w", "-D", *rule)
        self._outside.clear()
        _remove(self.name)

    def _outside_rule(self, *rule: str) -> None:
        _run("iptables", "-w", "-I", *rule)
        self._outside.append(list(rule))

    def _iptables(self, *arguments: str) -> None:
        self.run("iptables", "-w", *arguments)


def sweep() -> None:
    """Remove namespaces, and rules about their interfaces, of test processes that are gone."""
    # The interface goes with its namespace; rules that name it would stay for ever.
    for line in (
        *_run("iptables", "-w", "-S", "FORWARD").splitlines(),
        *_run("iptables", "-w", "-S", "INPUT").splitlines(),
    ):
        found = re.search(rf"-[io] {_PREFIX}(\d+)x\d+o ", line)
        if found and not Path(f"/proc/{found.group(1)}").exists():
            subprocess.run(["iptables", "-w", "-D", *line.split()[1:]], capture_output=True, timeout=20)
    for entry in json.loads(_run("ip", "-json", "netns", "list") or "[]"):
        found = re.fullmatch(rf"{_PREFIX}(\d+)x\d+", entry["name"])
        if found and not Path(f"/proc/{found.group(1)}").exists():
            _remove(entry["name"])


def _dropped(listing: str, interface: str) -> int:
    """By the rules of ``iptables -vxnL`` that drop what comes from ``interface``."""
    rows = [line.split() for line in listing.splitlines()]
    return sum(int(row[0]) for row in rows if "DROP" in row and interface in row)


def _remove(name: str) -> None:
    if not Path(f"/run/netns/{name}").exists():
        return
    for pid in _run("ip", "netns", "pids", name).split():
        try:
            os.kill(int(pid), signal.SIGKILL)
        except ProcessLookupError:
            pass
    subprocess.run(["ip", "link", "delete", f"{name}o"], capture_output=True, timeout=20)
    subprocess.run(["ip", "netns", "delete", name], capture_output=True, timeout=20)


def _run(*argv: str) -> str:
    done = subprocess.run(argv, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=20)
    if done.returncode != 0:
        raise AssertionError(f"{' '.join(argv)} failed: {done.stderr.strip()}")
    return done.stdout
