"""Reads a password from its file, again at each use: a rotated one counts from then on. It is never logged. Of a file
that a library reads (certificate, key, keytab) it says why it cannot be read.

``zookeeper_tls``, ``zookeeper_sasl`` and ``gssapi`` call it; it stands apart because TLS and SASL are loaded each without
the other.
"""

from __future__ import annotations

import os
import stat

from supervisor.clients.connect_failure import ConnectFailure

SECRET_MAX_BYTES = 4096


def read_secret(key: str, path: str) -> str:
    """Returns the content of ``path`` without the end of its line. ``key`` names the setting, for the message.

    Raises ConnectFailure if it cannot be read, is no regular file, is empty or long, or may be read by everybody.
    """
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        with os.fdopen(descriptor, "rb") as file:
            mode = os.fstat(descriptor).st_mode
            text = file.read(SECRET_MAX_BYTES + 1).decode().rstrip("\r\n")
    except OSError as error:
        raise _unreadable(key, path, error.strerror) from None
    except UnicodeDecodeError:
        raise _unreadable(key, path, "it is not UTF-8 text") from None
    if mode & stat.S_IROTH:
        raise ConnectFailure(f"{key}: everybody may read {path}", f"chmod o-rwx {path}")
    if not stat.S_ISREG(mode) or not text or len(text) > SECRET_MAX_BYTES:
        raise ConnectFailure(f"{key}: {path} does not hold a password", "write one line into it")
    return text


def check_readable(key: str, path: str) -> None:
    """Raises ConnectFailure if ``path`` cannot be opened. ``key`` names the setting, for the message."""
    try:
        os.close(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC))
    except OSError as error:
        raise _unreadable(key, path, error.strerror) from error


def _unreadable(key: str, path: str, why: str | None) -> ConnectFailure:
    return ConnectFailure(f"{key}: {path} cannot be read ({why})", "check its name and permissions")
