"""Asks ZooKeeper servers for their status, by four-letter words, over a plain socket or over TLS.

It serves the embedded ensemble, doctor (``zookeeper_probe``) and tests. No decision of the product rests on
it: a server that was cut off from its quorum goes on reporting ``leader`` for seconds.
"""

from __future__ import annotations

import contextlib
import re
import socket
from collections.abc import Sequence
from dataclasses import dataclass

from supervisor.clients.zookeeper_tls import secured
from supervisor.model.zookeeper_access import TlsFiles

_TIMEOUT_S = 0.5


@dataclass(frozen=True)
class ServerStatus:
    """Holds the status of one server. ``mode`` is ``leader``, ``follower`` or ``standalone``, and None if
    there was no answer or no quorum (also in read-only mode). ``epoch`` is ZooKeeper's own."""

    mode: str | None
    epoch: int


def ask(address: str, word: str, timeout_s: float = _TIMEOUT_S, tls: TlsFiles | None = None) -> str:
    """Returns the answer of the server at ``host:port`` to ``word``. Raises OSError; with ``tls`` also ConnectFailure."""
    host, _, port = address.rpartition(":")
    answer = b""
    with contextlib.ExitStack() as stack:
        link: socket.socket = stack.enter_context(
            socket.create_connection((host, int(port)), timeout=timeout_s)
        )
        if tls is not None:
            link = stack.enter_context(secured(link, host, tls, timeout_s))
        link.sendall(word.encode())
        try:
            while chunk := link.recv(65536):
                answer += chunk
        except OSError:  # a server may end TLS without a farewell once it has answered
            if not answer:
                raise
    return answer.decode(errors="replace")


def ask_status(address: str) -> ServerStatus:
    """Asks one server once; never raises for a server that is down, stopped or without quorum."""
    try:
        answer = ask(address, "srvr")
    except OSError:
        return ServerStatus(None, 0)
    mode = re.search(r"^Mode: (\S+)", answer, re.MULTILINE)
    zxid = re.search(r"^Zxid: 0x([0-9a-f]+)", answer, re.MULTILINE)
    if mode is None or zxid is None or mode.group(1) == "read-only":
        return ServerStatus(None, 0)
    return ServerStatus(mode.group(1), int(zxid.group(1), 16) >> 32)


def newest_leader(addresses: Sequence[str]) -> int | None:
    """Returns the index of the server that leads; if two report that, the one of the higher epoch; None if no
    server leads just now."""
    answers = [ask_status(address) for address in addresses]
    leaders = [(seen.epoch, i) for i, seen in enumerate(answers) if seen.mode in ("leader", "standalone")]
    return max(leaders)[1] if leaders else None
