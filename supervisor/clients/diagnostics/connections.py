"""Lists the sockets that processes hold open: TCP connections with their ends and states, and how many others there are.

The addresses are read from ``/proc/<pid>/net``, that is from the network namespace of the process.
"""

from __future__ import annotations

import os
import socket
import struct
from collections.abc import Iterator
from typing import Final

from supervisor.clients.diagnostics import proc

LINES_MAX: Final = 100
_DESCRIPTORS_MAX: Final = 20_000
_STATES: Final = (
    "",
    "ESTABLISHED",
    "SYN_SENT",
    "SYN_RECV",
    "FIN_WAIT1",
    "FIN_WAIT2",
    "TIME_WAIT",
    "CLOSE",
    "CLOSE_WAIT",
    "LAST_ACK",
    "LISTEN",
    "CLOSING",
)


def sockets_of(pid: int) -> Iterator[str]:
    """Yields a line for each TCP socket of a process, and one for the number of its other descriptors."""
    inodes, descriptors = _socket_inodes(pid)
    known: set[str] = set()
    lines: list[str] = []
    for table in ("tcp", "tcp6"):
        for line in proc.read(f"/proc/{pid}/net/{table}").decode("ascii", "replace").splitlines()[1:]:
            words = line.split()
            if len(words) > 9 and words[9] in inodes:
                known.add(words[9])
                lines.append(described(words))
    yield from sorted(lines)[:LINES_MAX]
    if len(lines) > LINES_MAX:
        yield f"… and {len(lines) - LINES_MAX} more"
    yield f"{descriptors} descriptors, {len(inodes - known)} other sockets"


def described(words: list[str]) -> str:
    """Returns the line for one row of /proc/net/tcp. ``queued`` are the bytes that wait to be sent and to be read."""
    number = int(words[3], 16)
    state = _STATES[number] if number < len(_STATES) else words[3]
    to_send, _, to_read = words[4].partition(":")
    queued = f"  queued {int(to_send, 16)}/{int(to_read, 16)}" if words[4].strip("0:") else ""
    return f"{state:<12} {address(words[1])} -> {address(words[2])}{queued}"


def address(text: str) -> str:
    """Returns an address as people write it, of one as the kernel prints it: words of four bytes in the host's order."""
    host, _, port = text.partition(":")
    raw = b"".join(struct.pack("=I", int(host[begin : begin + 8], 16)) for begin in range(0, len(host), 8))
    if len(raw) == 4:
        return f"{socket.inet_ntop(socket.AF_INET, raw)}:{int(port, 16)}"
    shown = socket.inet_ntop(socket.AF_INET6, raw)
    mapped = shown.removeprefix("::ffff:")
    return f"{mapped if '.' in mapped else f'[{shown}]'}:{int(port, 16)}"


def _socket_inodes(pid: int) -> tuple[set[str], int]:
    try:
        names = os.listdir(f"/proc/{pid}/fd")
    except OSError:
        return set(), 0
    inodes = set()
    for name in names[:_DESCRIPTORS_MAX]:
        try:
            target = os.readlink(f"/proc/{pid}/fd/{name}")
        except OSError:
            continue
        if target.startswith("socket:["):
            inodes.add(target[8:-1])
    return inodes, len(names)
