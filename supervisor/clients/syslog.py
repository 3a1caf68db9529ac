"""Sends lines to the syslog of this host, through its socket, as the C library does: a datagram, or else a stream.

The handler of the standard library is not used: where the first sending fails, it tries again without a time-out, and so
waits for ever for a syslog that has stopped reading.
"""

from __future__ import annotations

import errno
import socket
from pathlib import Path
from syslog import LOG_AUTH, LOG_INFO
from typing import Final

from supervisor.errors import Unreachable

PROGRAM: Final = "spark-supervisor"
SEND_MAX_S: Final = 1.0
PRIORITY: Final = LOG_AUTH | LOG_INFO


def send(path: Path, text: str) -> None:
    """Sends one line of the facility ``auth`` to the socket at ``path``. Raises Unreachable within about a second."""
    data = f"<{PRIORITY}>{PROGRAM}: {text}\0".encode(errors="replace")
    try:
        try:
            _send(path, socket.SOCK_DGRAM, data)
        except OSError as error:
            if error.errno != errno.EPROTOTYPE:  # it is a stream
                raise
            _send(path, socket.SOCK_STREAM, data)
    except TimeoutError:
        raise Unreachable(f"syslog at {path} does not take a line (it does not read)") from None
    except OSError as error:
        raise Unreachable(f"syslog at {path} does not take a line ({error.strerror or error})") from None


def _send(path: Path, kind: socket.SocketKind, data: bytes) -> None:
    with socket.socket(socket.AF_UNIX, kind) as connection:
        connection.settimeout(SEND_MAX_S)
        connection.connect(str(path))
        connection.sendall(data)
