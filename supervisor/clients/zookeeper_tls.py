"""Speaks TLS to one ZooKeeper server, and says in one sentence why that does not work.

``kazoo_connection`` imports it when a connection is to use TLS, and not before: OpenSSL takes two megabytes of each
shim; ``four_letter``, which no shim loads, always imports it. The files are read at each connect, so a rotated
certificate counts from the next connection on, and a session survives it.
"""

from __future__ import annotations

import select
import socket
import ssl
import time
from contextlib import suppress

from supervisor.clients.connect_failure import ConnectFailure
from supervisor.clients.secret_file import check_readable, read_secret
from supervisor.model.zookeeper_access import TlsFiles

CHUNK_BYTES = 64 * 1024
_SEND_S = 5.0

# OpenSSL's numbers (X509_V_ERR_*)
_NOT_YET_VALID, _EXPIRED = 9, 10
_UNKNOWN_AUTHORITY = (2, 18, 19, 20, 21)
_WRONG_NAME = (62, 64)
_NOT_TLS = ("WRONG_VERSION_NUMBER", "RECORD_LAYER_FAILURE", "UNEXPECTED_EOF_WHILE_READING", "HTTP_REQUEST")


class TlsSocket:
    """Is a socket for kazoo's connection that never confuses what is encrypted with what can be read.

    ``fill`` takes what has arrived; only then ``recv`` has something to give. Whoever polls asks ``fill`` before it
    believes that there is something to read: a record may be incomplete, or carry no data. Used by one thread, but for
    ``shutdown``.
    """

    def __init__(self, link: ssl.SSLSocket, server: str) -> None:
        self._link = link
        self._server = server
        self._received = b""
        self._has_ended = False
        link.setblocking(False)

    def fileno(self) -> int:
        return self._link.fileno()

    def setblocking(self, _flag: bool) -> None:
        """Does nothing: kazoo asks for what is so already."""

    def pending(self) -> int:
        """Returns how much can be read without waiting; the end of the stream counts as one byte."""
        return len(self._received) or int(self._has_ended)

    def fill(self) -> bool:
        """Takes what has arrived, and returns whether ``recv`` has something to give now. Raises OSError,
        ConnectFailure (the server has turned our certificate down)."""
        if self.pending():
            return True
        try:
            self._received = self._link.recv(CHUNK_BYTES)
            self._has_ended = not self._received
        except (ssl.SSLWantReadError, ssl.SSLWantWriteError):
            return False
        except (ssl.SSLEOFError, ssl.SSLZeroReturnError):
            self._has_ended = True
        except ssl.SSLError as error:
            raise _failure(error, self._server) from error
        return True

    def recv(self, size: int) -> bytes:
        """Returns at most ``size`` bytes of what ``fill`` took; nothing at the end. Raises BlockingIOError if there is
        nothing."""
        if not self.fill():
            raise BlockingIOError
        given, self._received = self._received[:size], self._received[size:]
        return given

    def send(self, data: memoryview | bytes) -> int:
        """Sends as much of ``data`` as can be, waiting for the connection at most five seconds. Raises OSError."""
        end_at_s = time.monotonic() + _SEND_S
        while True:
            try:
                return self._link.send(data)
            except ssl.SSLWantWriteError:
                wanted = select.POLLOUT
            except ssl.SSLWantReadError:
                wanted = select.POLLIN
            poller = select.poll()
            poller.register(self._link, wanted)
            if not poller.poll(max(0.0, end_at_s - time.monotonic()) * 1000):
                raise TimeoutError("the server takes nothing")

    def shutdown(self, how: int) -> None:
        """Ends the stream below TLS. Any thread may call it: the one that reads sees the end."""
        socket.socket.shutdown(self._link, how)

    def close(self) -> None:
        with suppress(OSError):
            self._link.close()


def secured(sock: socket.socket, host: str, files: TlsFiles, timeout_s: float) -> ssl.SSLSocket:
    """Does the handshake with the server ``host`` on a connected socket, within ``timeout_s`` for each step.

    Raises ConnectFailure with a sentence of its own for each cause that a person must correct, and OSError for a
    server that is gone or silent.
    """
    context = _context(files)
    sock.settimeout(timeout_s)
    try:
        # bytes, because a str would load the tables of IDNA into every shim
        name = host.encode() if host.isascii() else host
        return context.wrap_socket(sock, server_hostname=name)
    except ssl.SSLError as error:
        raise _failure(error, host) from error
    except ConnectionResetError as error:
        raise _not_tls(host) from error


def _context(files: TlsFiles) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.options |= ssl.OP_NO_RENEGOTIATION
    context.check_hostname = files.verify_hostname
    check_readable("zookeeper.tls.ca", files.ca)
    try:
        context.load_verify_locations(cafile=files.ca)
    except (OSError, ValueError) as error:
        raise ConnectFailure(
            f"zookeeper.tls.ca: {files.ca} holds no certificates ({_reason(error)})",
            "name a PEM file with the authorities of the servers",
        ) from error
    if files.cert:
        _load_own(context, files)
    return context


def _load_own(context: ssl.SSLContext, files: TlsFiles) -> None:
    check_readable("zookeeper.tls.cert", files.cert)
    check_readable("zookeeper.tls.key", files.key or files.cert)
    password = ""
    if files.key_password_file:
        password = read_secret("zookeeper.tls.key_password_file", files.key_password_file)
    try:
        # an empty password in place of none: OpenSSL would ask for it at the terminal
        context.load_cert_chain(files.cert, files.key or None, lambda: password)
    except (OSError, ValueError) as error:
        text = _reason(error)
        if "VALUES_MISMATCH" in text:
            what, remedy = "do not belong together", "name the key that the certificate was made for"
        else:
            what, remedy = (
                f"cannot be used ({text})",
                "check the files, and key_password_file if the key has one",
            )
        raise ConnectFailure(
            f"zookeeper.tls: cert {files.cert} and key {files.key or files.cert} {what}", remedy
        ) from error


def _failure(error: ssl.SSLError, host: str) -> ConnectFailure:
    if isinstance(error, ssl.SSLCertVerificationError):
        return _distrusted(error, host)
    reason = error.reason or ""
    if "ALERT" in reason:
        return ConnectFailure(
            f"the server {host} turned our certificate, or our TLS, down ({_reason(error)})",
            "give zookeeper.tls.cert and key of an authority that the servers trust, not expired",
        )
    if isinstance(error, ssl.SSLEOFError | ssl.SSLZeroReturnError) or reason in _NOT_TLS:
        return _not_tls(host)
    return ConnectFailure(
        f"TLS with {host} failed ({_reason(error)})", "compare zookeeper.tls with the servers' configuration"
    )


def _not_tls(host: str) -> ConnectFailure:
    return ConnectFailure(
        f"the server {host} does not speak TLS on this port",
        "name its secureClientPort in zookeeper.hosts, or remove zookeeper.tls",
        needs_correction=False,  # a server that is just ending looks the same
    )


def _distrusted(error: ssl.SSLCertVerificationError, host: str) -> ConnectFailure:
    code = error.verify_code
    if code in _WRONG_NAME:
        return ConnectFailure(
            f"the certificate of the server is for another host than {host}",
            "name the servers in zookeeper.hosts as their certificates do",
        )
    if code == _EXPIRED:
        return ConnectFailure(
            f"the certificate of the server {host}, or of its authority, has expired", "renew it there"
        )
    if code == _NOT_YET_VALID:
        return ConnectFailure(
            f"the certificate of the server {host} is not valid yet", "compare the clocks of the two hosts"
        )
    if code in _UNKNOWN_AUTHORITY:
        return ConnectFailure(
            f"the certificate of the server {host} is of an authority that zookeeper.tls.ca does not hold",
            "add the authority of the servers to that file",
        )
    return ConnectFailure(
        f"the certificate of the server {host} is not trusted ({error.verify_message})", "renew it there"
    )


def _reason(error: Exception) -> str:
    reason = getattr(error, "reason", None) or getattr(error, "strerror", None) or error
    return str(reason)
