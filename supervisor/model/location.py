"""Normalises the locations of checkpoints, so that one is distinguished from another under any spelling. It is
pure: it asks no file system.

Two jobs on one checkpoint destroy it, so ``registry`` claims every location under its digest and refuses
equal or nested ones. The rules are those of Hadoop's ``Path``, because Spark resolves the location with it:

* scheme and host are case-insensitive, a path is not;
* ``s3://``, ``s3a://`` and ``s3n://`` are three clients for the same buckets (``abfs``/``abfss`` and
  ``wasb``/``wasbs`` alike);
* ``.``, ``..``, double and trailing slashes are resolved; ``file:/x``, ``file:///x`` and ``/x`` are
  equal;
* percent-encoding is left alone: Hadoop does not decode it, ``a%20b`` is a directory whose name has a percent
  sign in it, and decoding would make one place of two.

Symbolic links, mount points and host aliases are not resolved here: two spellings that only a file system
knows to be equal count as different.
"""

from __future__ import annotations

import re
from typing import Final

from supervisor.errors import InvalidInput

LOCATION_MAX_BYTES: Final = 1024
"""A location stands in several records of at most 4 KiB."""

_SCHEME: Final = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):(.*)", re.DOTALL)
_BUCKET: Final = re.compile(r"[a-z0-9][a-z0-9._-]{1,253}[a-z0-9]")
_AUTHORITY: Final = re.compile(r"([a-z0-9._$-]+@)?([a-z0-9._-]+|\[[0-9a-f:.]+\])(:[0-9]{1,5})?")
_SAME_SCHEME: Final = {"s3a": "s3", "s3n": "s3", "abfss": "abfs", "wasbs": "wasb"}
_DEFAULT_PORT: Final = {"hdfs": 8020}
_NO_FILE_SYSTEM: Final = frozenset({"http", "https", "ftp", "jar", "local", "store", "memory"})


def normalise(location: str) -> str:
    """Returns ``location`` in its one spelling, like ``s3://bucket/a/b``, ``file:///a/b``, ``hdfs://host/a``.
    It is idempotent.

    Raises ``InvalidInput`` for what is no absolute location of a directory below the root of a file system or
    bucket.
    """
    if not location or location != location.strip() or not location.isprintable():
        raise _invalid(location, "is empty or holds spaces around it or control characters")
    if len(location.encode("utf-8", "replace")) > LOCATION_MAX_BYTES:
        raise InvalidInput(
            f"location {location[:60]}… is longer than {LOCATION_MAX_BYTES} bytes", "shorten it"
        )
    match = _SCHEME.fullmatch(location)
    scheme, rest = (match[1].lower(), match[2]) if match else ("", location)
    scheme = _SAME_SCHEME.get(scheme, scheme)
    if scheme in ("", "file"):
        return f"file:///{_path(location, _local_path(location, scheme, rest))}"
    if scheme in _NO_FILE_SYSTEM:
        raise _invalid(location, f"is {scheme}:, where Spark cannot keep a checkpoint")
    if not rest.startswith("//"):
        raise _invalid(location, f"names no host or bucket after {scheme}:")
    authority, _, path = rest[2:].partition("/")
    return f"{scheme}://{_authority(location, scheme, authority.lower())}/{_path(location, path)}"


def overlaps(one: str, other: str) -> bool:
    """Returns whether the two are equal, or one is inside the other, by whole path components. Raises
    ``InvalidInput`` as ``normalise`` does.
    """
    first, second = normalise(one), normalise(other)
    return first == second or first.startswith(f"{second}/") or second.startswith(f"{first}/")


def is_inside(location: str, enclosing: str) -> bool:
    """Returns whether ``location`` is equal to ``enclosing`` or below it, by whole path components; also
    False for what is no location."""
    try:
        inner, outer = normalise(location), normalise(enclosing)
    except InvalidInput:
        return False
    return inner == outer or inner.startswith(f"{outer}/")


def digest(location: str) -> str:
    """Returns the sha256 in hex of the normalised location: the name of its znode. Raises
    ``InvalidInput``.
    """
    import hashlib  # here: a shim normalises locations, and goes without it

    return hashlib.sha256(normalise(location).encode()).hexdigest()


def _local_path(location: str, scheme: str, rest: str) -> str:
    if rest.startswith("//"):
        host, _, path = rest[2:].partition("/")
        if not scheme or host.lower() not in ("", "localhost"):
            raise _invalid(location, "names a host where a local path should begin")
        return path
    if not rest.startswith("/"):
        raise _invalid(location, "is relative, and would be another place on each host")
    return rest


def _authority(location: str, scheme: str, authority: str) -> str:
    if scheme == "s3":
        if not _BUCKET.fullmatch(authority):
            raise _invalid(location, "names no usable bucket")
        return authority
    match = _AUTHORITY.fullmatch(authority)
    if not match:
        raise _invalid(location, "names no usable host")
    port = int(match[3][1:]) if match[3] else None
    if port is not None and port > 65535:
        raise _invalid(location, "has an impossible port")
    shown = "" if port is None or port == _DEFAULT_PORT.get(scheme) else f":{port}"
    return f"{match[1] or ''}{match[2]}{shown}"


def _path(location: str, path: str) -> str:
    parts: list[str] = []
    for part in path.split("/"):
        if part == ".." and not parts:
            raise _invalid(location, "leads out of its file system")
        if part == "..":
            parts.pop()
        elif part not in ("", "."):
            parts.append(part)
    if not parts:
        raise _invalid(
            location, "is the root of its file system or bucket, and would enclose every other location"
        )
    return "/".join(parts)


def _invalid(location: str, why: str) -> InvalidInput:
    return InvalidInput(
        f"location {location[:120]!r} {why}", "write one like s3a://bucket/path or file:///path"
    )
