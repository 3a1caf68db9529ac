"""Checks hosts, ports, paths and URLs of ``supervisor.yaml`` when it is read, not at the first connection.

Each is an annotated type for pydantic; a wrong value raises ValueError with the rest of a sentence that
begins with the key. Nothing here uses the network or the disk.
"""

from __future__ import annotations

import ipaddress
import re
import socket
from pathlib import Path
from typing import Annotated, Any, Final
from urllib.parse import urlsplit

from pydantic import AfterValidator, BeforeValidator, PlainSerializer

DEFAULT_CLIENT_PORT: Final = 2181

_HOST: Final = re.compile(r"[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?|\[[0-9A-Fa-f:.]+\]")
_WORD: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,126}")
_BUCKET: Final = re.compile(r"[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]")


def split_host_port(text: str) -> tuple[str, int]:
    """Splits ``zk1:2181`` or ``[::1]:2181`` into host without brackets, and port. Raises ValueError."""
    host, colon, port = text.rpartition(":")
    if not colon or not _HOST.fullmatch(host):
        raise ValueError(f"holds {text[:80]!r}, which is not host:port")
    if not re.fullmatch(r"[0-9]{1,5}", port) or int(port) > 65535:
        raise ValueError(f"holds {text[:80]!r}, whose port is not a number up to 65535")
    return host.strip("[]"), int(port)


def are_loopback(hosts: str) -> bool:
    """Returns whether only this machine reaches all of ``host:port,host:port``, as far as their names say."""
    return all(_is_loopback(split_host_port(each)[0]) for each in hosts.split(","))


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _hosts(value: str) -> str:
    parts = [part.strip() for part in value.split(",")]
    if not all(parts):
        raise ValueError("must list the ensemble as host:port,host:port")
    if any("/" in part for part in parts):
        raise ValueError("must not carry a path; put it into zookeeper.root")
    full = [
        part if ":" in part and not part.endswith("]") else f"{part}:{DEFAULT_CLIENT_PORT}" for part in parts
    ]
    for part in full:
        if split_host_port(part)[1] == 0:
            raise ValueError(f"holds {part!r}, whose port is 0")
    return ",".join(full)


def _root(value: str) -> str:
    if not value.startswith("/") or value == "/":
        raise ValueError("must be an absolute path below /, like /spark-supervisor")
    if value.endswith("/"):
        raise ValueError(f"must not end in a slash; write {value.rstrip('/') or '/spark-supervisor'}")
    parts = value[1:].split("/")
    if any(part in ("", ".", "..") or not part.isprintable() or not part.isascii() for part in parts):
        raise ValueError("must consist of plain names separated by single slashes")
    if parts[0] == "zookeeper":
        raise ValueError("must not lie in /zookeeper, which belongs to ZooKeeper itself")
    return value


def _listen(value: str) -> str:
    split_host_port(value)
    return value


def _identity(value: Any) -> Any:
    return socket.gethostname() if value is None else value


def _word(value: str) -> str:
    if not _WORD.fullmatch(value):
        raise ValueError("must consist of letters, digits, dots, dashes and underscores (at most 127)")
    return value


def _path(value: Any) -> Path:
    path = Path(value) if isinstance(value, str | Path) else None
    if path is None or not path.is_absolute() or ".." in path.parts:
        raise ValueError("must be an absolute path without '..'")
    return path


def _store_url(value: str) -> str:
    scheme, separator, rest = value.partition("://")
    if not separator or scheme not in ("s3", "file"):
        hint = "; write s3:// here, s3a:// is for Spark" if scheme in ("s3a", "s3n") else ""
        raise ValueError(f"must be s3://bucket/prefix or file:///directory{hint}")
    if (
        any(mark in rest for mark in "?#")
        or not rest.isprintable()
        or any(p in (".", "..") for p in rest.split("/"))
    ):
        raise ValueError("must be a plain location, without '?', '#', '.' and '..'")
    if scheme == "file":
        if not rest.startswith("/") or not rest.strip("/"):
            raise ValueError("must name a directory by its absolute path, file:///directory")
        return f"file:///{'/'.join(part for part in rest.split('/') if part)}"
    bucket, *prefix = rest.split("/")
    if not _BUCKET.fullmatch(bucket):
        raise ValueError(
            f"names the bucket {bucket[:80]!r}; it takes 3 to 63 lower-case letters, digits, dots, dashes"
        )
    return "/".join(["s3:/", bucket, *(part for part in prefix if part)])


def _endpoint(value: str) -> str:
    try:
        parts = urlsplit(value)
        usable = parts.scheme in ("http", "https") and bool(parts.hostname) and (parts.port or 0) >= 0
    except ValueError:
        usable = False
    if not usable or parts.query or parts.fragment or parts.username or parts.password:
        raise ValueError("must be http://host:port or https://host, without credentials")
    return value.rstrip("/")


ZooKeeperHosts = Annotated[str, AfterValidator(_hosts)]
"""It has the form ``host:port,host:port``; a missing port becomes 2181."""
ZooKeeperRoot = Annotated[str, AfterValidator(_root)]
Listen = Annotated[str, AfterValidator(_listen)]
"""It has the form ``host:port``; port 0 lets the system choose."""
PlainName = Annotated[str, AfterValidator(_word)]
SupervisorId = Annotated[str, BeforeValidator(_identity), AfterValidator(_word)]
AbsolutePath = Annotated[Path, BeforeValidator(_path), PlainSerializer(str, return_type=str)]
StoreUrl = Annotated[str, AfterValidator(_store_url)]
"""It has no trailing or double slashes, so that two spellings of one store are not taken for two."""
EndpointUrl = Annotated[str, AfterValidator(_endpoint)]
