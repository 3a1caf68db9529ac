"""Sends lines to the syslog of this host, through its socket, by the standard library's handler."""

from __future__ import annotations

import logging
from logging.handlers import SysLogHandler
from pathlib import Path
from typing import Final

from supervisor.errors import Unreachable

PROGRAM: Final = "spark-supervisor"
SEND_MAX_S: Final = 1.0


class _Handler(SysLogHandler):
    def handleError(self, _record: logging.LogRecord) -> None:
        """Raises what went wrong, which the standard library would print."""
        raise


def send(socket: Path, text: str) -> None:
    """Sends one line of the facility ``auth``. Raises Unreachable within about a second."""
    try:
        handler = _Handler(address=str(socket), facility=SysLogHandler.LOG_AUTH)
        try:
            handler.ident = f"{PROGRAM}: "
            handler.socket.settimeout(SEND_MAX_S)  # type: ignore[attr-defined]  # mypy: it is in the standard library
            handler.emit(logging.LogRecord(PROGRAM, logging.INFO, "", 0, text, None, None))
        finally:
            handler.close()
    except OSError as error:
        raise Unreachable(f"syslog at {socket} does not take a line ({error.strerror or error})") from None
