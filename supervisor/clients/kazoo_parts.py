"""Imports the few parts of kazoo that are used here, without the modules that they load but never use.

Only ``kazoo_connection``, ``connect_failure``, ``zookeeper_session``, ``zookeeper``, ``zookeeper_answers`` and
``zookeeper_reads`` import it. This matters because every shim carries it: ``kazoo.client`` brings all recipes, ``ssl`` and
``hashlib`` bring libcrypto; without them an import costs 5 MB less per job. What is left out can't be missed:
``kazoo.protocol.connection`` names ``ssl`` only in two ``except`` clauses around a socket that never raises an
``SSLError`` (``zookeeper_tls`` translates them), and ``kazoo.security`` uses ``hashlib`` only to make digest ACLs.
A process that has the real modules keeps them.
"""

from __future__ import annotations

import logging
import sys
from importlib import import_module
from types import ModuleType
from typing import Any

__all__ = [
    "CLOSE_RESPONSE",
    "ACL",
    "SASL",
    "AuthFailedError",
    "CheckVersion",
    "CloseInstance",
    "Connect",
    "ConnectionDropped",
    "ConnectionHandler",
    "Create",
    "Delete",
    "Exists",
    "ForceRetryError",
    "GetACL",
    "GetChildren",
    "GetData",
    "Id",
    "KazooException",
    "KazooRetry",
    "KeeperState",
    "SessionClosedRequireSaslError",
    "SessionExpiredError",
    "SetACL",
    "SetData",
    "Sync",
    "Transaction",
    "errors",
    "int_struct",
    "quiet_logger",
]


class _Absent(ModuleType):
    """Replaces a module while kazoo is imported, and loads the real one if it is ever used."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        if sys.modules.get(self.__name__) is self:
            del sys.modules[self.__name__]
        return getattr(import_module(self.__name__), name)


class _NeverRaised(OSError):
    """Is what ``except ssl.SSLError`` catches in kazoo, where nothing raises it. Evaluating that clause must not
    load OpenSSL."""


def _absent_modules() -> list[_Absent]:
    absent = [_Absent(name) for name in ("ssl", "hashlib") if name not in sys.modules]
    for module in absent:
        sys.modules[module.__name__] = module
        if module.__name__ == "ssl":
            vars(module)["SSLError"] = _NeverRaised
    return absent


_stand_ins = _absent_modules()
try:
    from kazoo import exceptions as errors
    from kazoo.exceptions import (
        AuthFailedError,
        ConnectionDropped,
        KazooException,
        SessionClosedRequireSaslError,
        SessionExpiredError,
    )
    from kazoo.protocol.connection import CLOSE_RESPONSE, ConnectionHandler
    from kazoo.protocol.serialization import (
        SASL,
        CheckVersion,
        CloseInstance,
        Connect,
        Create,
        Delete,
        Exists,
        GetACL,
        GetChildren,
        GetData,
        SetACL,
        SetData,
        Sync,
        Transaction,
        int_struct,
    )
    from kazoo.protocol.states import KeeperState
    from kazoo.retry import ForceRetryError, KazooRetry
    from kazoo.security import ACL, Id
finally:
    for _module in _stand_ins:
        if sys.modules.get(_module.__name__) is _module:
            del sys.modules[_module.__name__]


class _OncePerOutage(logging.Filter):
    """Lets each warning through once until ``reset`` is called: an outage of an hour must not fill the log of
    every shim."""

    def __init__(self) -> None:
        super().__init__()
        self._logged: set[str] = set()

    def filter(self, record: logging.LogRecord) -> bool:
        if record.levelno >= logging.ERROR:
            return True
        if str(record.msg).startswith("Failed connecting to Zookeeper within"):
            return False  # said at every end of a client; our retries are never used up
        first = record.msg not in self._logged
        self._logged.add(record.msg)
        return first

    def reset(self) -> None:
        self._logged.clear()


def quiet_logger(name: str) -> tuple[logging.Logger, _OncePerOutage]:
    """Returns a logger for one connection, with its filter. Its level is never below WARNING: kazoo's DEBUG
    lines print credentials and znode data."""
    logging.getLogger("kazoo").setLevel(logging.WARNING)
    logger = logging.Logger(f"kazoo.{name}", logging.WARNING)
    logger.parent = logging.getLogger("kazoo")
    once = _OncePerOutage()
    logger.addFilter(once)
    return logger, once
