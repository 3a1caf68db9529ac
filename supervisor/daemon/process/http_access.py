"""Decides who is answered over HTTP: TLS, client certificates, and users with passwords.

``daemon.process.http`` asks it for each connection and each request; ``cli.doctor`` reads the same files with the
same functions. Probes (``/livez``, ``/readyz``) are answered to everybody who reaches the port: whoever asks them may
end this host's drivers, and must not fail for a password.

Certificates and users are read again when their files have changed (``clients.reread_files``); a half-written file
neither opens nor closes the port. At start it is an error.

The work of a wrong password is bounded: bcrypt is costly by design, so only ``CHECKS_MAX`` passwords are checked at
once, and a password that was right is remembered by its digest until the file changes.
"""

from __future__ import annotations

import base64
import binascii
import hmac
import os
import ssl
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import bcrypt

from supervisor.clients.reread_files import RereadFiles
from supervisor.errors import InvalidInput
from supervisor.settings.http import HttpSettings, HttpTlsSettings
from supervisor.settings.small_files import read_small
from supervisor.settings.yaml_text import read_mapping

USERS_FILE_MAX_BYTES: Final = 256 * 1024
CHECKS_MAX: Final = 2
"""So many passwords are checked by bcrypt at once; who comes besides waits ``CHECK_WAIT_S`` and is refused then."""
CHECK_WAIT_S: Final = 5.0
COST_MAX: Final = 16
"""A hash of a higher cost would take minutes to check."""
REMEMBERED_MAX: Final = 256

NO_CERTIFICATE: Final = "a client certificate is needed ({section}.tls.client_ca)\n"
NO_USER: Final = "a user name and a password are needed (http.users_file)\n"
BUSY: Final = "too many passwords are being checked: try again\n"


@dataclass(frozen=True, slots=True)
class HttpRefusal:
    """Is an answer to who may not ask: ``code`` is the HTTP status, ``challenge`` the value of WWW-Authenticate or empty."""

    code: int
    text: str
    challenge: str = ""


@dataclass(slots=True)
class _Users:
    """Holds users with their bcrypt hashes, and digests of the passwords that were right."""

    hashes: Mapping[str, bytes]
    right: dict[bytes, None] = field(default_factory=dict)
    secret: bytes = field(default_factory=lambda: os.urandom(32))


class HttpAccess:
    """Holds the certificate and users of one server. ``now_s`` is CLOCK_BOOTTIME; ``section`` is where the keys stand in
    supervisor.yaml. Raises InvalidInput if a file can't be used. It may be used by many threads at once."""

    def __init__(self, settings: HttpSettings, now_s: Callable[[], float], section: str = "http") -> None:
        self._settings = settings
        self._section = section
        self._lock = threading.Lock()
        self._checks = threading.BoundedSemaphore(CHECKS_MAX)
        tls = settings.tls
        named = (tls.cert, tls.key, tls.client_ca, settings.users_file)
        self._held = RereadFiles([path for path in named if path is not None], self._read, now_s)

    def tls_context(self) -> ssl.SSLContext | None:
        """Returns what a new connection is wrapped with, or None if the server speaks no TLS."""
        return self._held.get()[0]

    def refusal(self, authorization: str | None, has_certificate: bool) -> HttpRefusal | None:
        """Returns why a request is not answered, or None. ``authorization`` is the value of that header, and
        ``has_certificate`` says that the client has shown one that counts."""
        if self._settings.tls.client_ca is not None and not has_certificate:
            return HttpRefusal(403, NO_CERTIFICATE.format(section=self._section))
        users = self._held.get()[1]
        if users is None:
            return None
        challenge = HttpRefusal(401, NO_USER, 'Basic realm="spark-supervisor", charset="UTF-8"')
        given = _basic(authorization)
        if given is None:
            return challenge
        name, password = given
        digest = hmac.digest(users.secret, b"\0".join((name.encode(), password)), "sha256")
        if digest in users.right:
            return None
        if not self._checks.acquire(timeout=CHECK_WAIT_S):
            return HttpRefusal(503, BUSY)
        try:
            is_right = _matches(users.hashes.get(name), password)
        finally:
            self._checks.release()
        if not is_right:
            return challenge
        with self._lock:
            while len(users.right) >= REMEMBERED_MAX:
                del users.right[next(iter(users.right))]
            users.right[digest] = None
        return None

    def _read(self) -> tuple[ssl.SSLContext | None, _Users | None]:
        file = self._settings.users_file
        tls = tls_context(self._settings.tls, self._section)
        return tls, _Users(read_users(file)) if file is not None else None


def tls_context(tls: HttpTlsSettings, section: str = "http") -> ssl.SSLContext | None:
    """Returns the server's side of TLS, or None if no certificate is named. Raises InvalidInput.

    A client without a certificate is let in here: it may probe.
    """
    if tls.cert is None or tls.key is None:
        return None
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    try:
        # The password makes an encrypted key an error; without it OpenSSL would ask on the terminal.
        context.load_cert_chain(tls.cert, tls.key, password="")
    except (OSError, ValueError) as error:
        raise InvalidInput(
            f"{section}.tls.cert {tls.cert} and key {tls.key} can't be used ({_why(error)})",
            "they are PEM files that the supervisor may read, of one key pair; the key has no password",
        ) from None
    if tls.client_ca is not None:
        try:
            context.load_verify_locations(tls.client_ca)
        except (OSError, ValueError) as error:
            raise InvalidInput(
                f"{section}.tls.client_ca {tls.client_ca} can't be used ({_why(error)})",
                "it is a PEM file with the certificates of the authorities that sign clients",
            ) from None
        context.verify_mode = ssl.CERT_OPTIONAL
    return context


def read_users(path: Path) -> Mapping[str, bytes]:
    """Returns the bcrypt hash of each user of a file in the form of Prometheus' web configuration. Raises InvalidInput."""
    try:
        data = read_small(path, USERS_FILE_MAX_BYTES)
    except OSError as error:
        raise InvalidInput(f"http.users_file {path} can't be read ({error.strerror or error})") from None
    if len(data) > USERS_FILE_MAX_BYTES:
        raise InvalidInput(f"http.users_file {path} is larger than {USERS_FILE_MAX_BYTES // 1024} KiB")
    try:
        document = read_mapping(data.decode(), str(path))
    except UnicodeDecodeError:
        raise InvalidInput(f"http.users_file {path} is not UTF-8 text") from None
    other = sorted(str(key) for key in document if key != "basic_auth_users")
    if other:
        raise InvalidInput(
            f"http.users_file {path}: {other[0]} is not read here",
            "it holds basic_auth_users only; TLS is http.tls in supervisor.yaml",
        )
    users: Any = document.get("basic_auth_users")
    if not isinstance(users, Mapping) or not users:
        raise InvalidInput(
            f"http.users_file {path} has no basic_auth_users",
            "write basic_auth_users: {NAME: HASH}; htpasswd -nBC 10 NAME makes a hash",
        )
    return {_name(path, name): _hash(path, name, value) for name, value in users.items()}


def _name(path: Path, name: object) -> str:
    if not isinstance(name, str) or not name or ":" in name:
        raise InvalidInput(f"http.users_file {path}: a user's name is text without a colon, and not empty")
    return name


def _hash(path: Path, name: str, value: object) -> bytes:
    text = value.encode() if isinstance(value, str) else b""
    parts = text.split(b"$")
    is_bcrypt = (
        len(text) == 60 and len(parts) == 4 and parts[1] in (b"2a", b"2b", b"2y") and parts[2].isdigit()
    )
    if not is_bcrypt or not 4 <= int(parts[2]) <= COST_MAX:
        raise InvalidInput(
            f"http.users_file {path}: the value of {name} is no bcrypt hash of a cost from 4 to {COST_MAX}",
            f"htpasswd -nBC 10 {name} makes one",
        )
    return text


_NOBODY: Final = b"$2b$10$Bzr4D4bHWmiI5hesNXWD5.PwqBjsb1BWCoZ4Ljgj/4f0loOnIi6Xa"
"""This hash is checked for names that there are not, so that the time of an answer tells no names."""


def _matches(known: bytes | None, password: bytes) -> bool:
    try:
        is_right = bcrypt.checkpw(password, known or _NOBODY)
    except ValueError:  # longer than bcrypt takes, or with a NUL
        return False
    return is_right and known is not None


def _basic(authorization: str | None) -> tuple[str, bytes] | None:
    scheme, _, coded = (authorization or "").strip().partition(" ")
    if scheme.lower() != "basic":
        return None
    try:
        name, colon, password = base64.b64decode(coded.strip(), validate=True).partition(b":")
        return (name.decode(), password) if colon else None
    except (binascii.Error, UnicodeDecodeError):
        return None


def _why(error: Exception) -> str:
    if isinstance(error, ssl.SSLError):
        return (error.reason or str(error)).replace("_", " ").lower()
    return (error.strerror if isinstance(error, OSError) else "") or str(error)
