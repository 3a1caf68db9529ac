"""Subnets for test networks that collide with nothing this machine routes to. Used by namespaces and Docker networks."""

from __future__ import annotations

import ipaddress
import random
from pathlib import Path


def free_subnet(prefix_length: int) -> ipaddress.IPv4Network:
    """A random subnet of 10.128.0.0/9 without a route on this machine. Two callers at once may get the same: try again."""
    pool = ipaddress.IPv4Network("10.128.0.0/9")
    taken = _routes()
    for _ in range(1000):
        address = random.randrange(int(pool.network_address), int(pool.broadcast_address))
        subnet = ipaddress.IPv4Network((address, prefix_length), strict=False)
        if not any(subnet.overlaps(route) for route in taken):
            return subnet
    raise AssertionError(f"this machine has routes to all of {pool}: no room for a test network")


def _routes() -> list[ipaddress.IPv4Network]:
    """All but the default route."""
    routes = []
    for line in Path("/proc/net/route").read_text().splitlines()[1:]:
        fields = line.split()
        destination, mask = (ipaddress.IPv4Address(bytes.fromhex(fields[i])[::-1]) for i in (1, 7))
        if int(mask):
            routes.append(ipaddress.IPv4Network(f"{destination}/{mask}"))
    return routes
