"""Is the client's side of SASL GSSAPI (RFC 4752) with MIT Kerberos, by its own library ``libgssapi_krb5.so.2``.

The library gets a ticket from the keytab by itself, when there is none or when the last one has ended, and keeps it in the
memory of this process: nothing is renewed by hand, nothing is written to a disk. ``zookeeper_sasl`` imports it where
Kerberos is configured, and only there.
"""

from __future__ import annotations

import ctypes
import os
from functools import cache
from typing import Any

from supervisor.clients.connect_failure import ConnectFailure
from supervisor.clients.secret_file import check_readable

LIBRARY = "libgssapi_krb5.so.2"
_CACHE = b"MEMORY:spark-supervisor"
_CONTINUE = 1
_FLAGS = 2 | 8 | 32  # mutual authentication, sequence, integrity
_INITIATE = 1
_NO_LAYER = 1
_GENERIC, _BY_MECHANISM = 1, 2
# DER of the identifiers of RFC 1964 and RFC 2743
_KRB5 = bytes.fromhex("2a864886f712010202")
_HOST_SERVICE = bytes.fromhex("2a864886f71201020104")
_USER_NAME = bytes.fromhex("2a864886f71201020101")


class _Buffer(ctypes.Structure):
    _fields_ = [("length", ctypes.c_size_t), ("value", ctypes.c_void_p)]


class _Oid(ctypes.Structure):
    _fields_ = [("length", ctypes.c_uint32), ("elements", ctypes.c_char_p)]


class _OidSet(ctypes.Structure):
    _fields_ = [("count", ctypes.c_size_t), ("elements", ctypes.POINTER(_Oid))]


class _Pair(ctypes.Structure):
    _fields_ = [("key", ctypes.c_char_p), ("value", ctypes.c_char_p)]


class _Store(ctypes.Structure):
    _fields_ = [("count", ctypes.c_uint32), ("elements", ctypes.POINTER(_Pair))]


class Gssapi:
    """Holds one conversation with the service ``zookeeper`` on ``host``, as ``principal``, whose key is in ``keytab``."""

    def __init__(self, principal: str, keytab: str, host: str) -> None:
        self._principal = principal
        self._host = host
        self._context, self._credential, self._target = (ctypes.c_void_p() for _ in range(3))
        self._library = _library()
        self._is_established = False
        self.is_complete = False
        check_readable("zookeeper.auth.keytab", keytab)
        self._credential = self._acquire(keytab)
        self._target = self._name(f"zookeeper@{host}", _HOST_SERVICE)

    def respond(self, challenge: bytes) -> bytes:
        """Returns the answer to a challenge. Raises ValueError if the server's makes no sense, ConnectFailure if Kerberos
        gives no ticket."""
        if not self._is_established:
            return self._step(challenge)
        layers = self._unwrap(challenge)
        if len(layers) != 4 or not layers[0] & _NO_LAYER:
            raise ValueError("the server asks for a protection of SASL's own")
        self.is_complete = True
        return self._wrap(bytes((_NO_LAYER, 0, 0, 0)))

    def __del__(self) -> None:
        minor = ctypes.byref(ctypes.c_uint32())
        if self._context:
            self._library.gss_delete_sec_context(minor, ctypes.byref(self._context), None)
        if self._credential:
            self._library.gss_release_cred(minor, ctypes.byref(self._credential))
        if self._target:
            self._library.gss_release_name(minor, ctypes.byref(self._target))

    def _acquire(self, keytab: str) -> ctypes.c_void_p:
        pairs = (_Pair * 2)(_Pair(b"client_keytab", os.fsencode(f"FILE:{keytab}")), _Pair(b"ccache", _CACHE))
        store, mechanisms = _Store(2, pairs), _OidSet(1, ctypes.pointer(_oid(_KRB5)))
        name, credential = self._name(self._principal, _USER_NAME), ctypes.c_void_p()
        try:
            self._call(
                "gss_acquire_cred_from",
                name,
                ctypes.c_uint32(0),
                ctypes.byref(mechanisms),
                ctypes.c_int(_INITIATE),
                ctypes.byref(store),
                ctypes.byref(credential),
                None,
                None,
            )
        finally:
            self._library.gss_release_name(ctypes.byref(ctypes.c_uint32()), ctypes.byref(name))
        return credential

    def _step(self, challenge: bytes) -> bytes:
        given, answer = _buffer(challenge), _Buffer()
        major = self._call(
            "gss_init_sec_context",
            self._credential,
            ctypes.byref(self._context),
            self._target,
            ctypes.byref(_oid(_KRB5)),
            ctypes.c_uint32(_FLAGS),
            ctypes.c_uint32(0),
            None,
            ctypes.byref(given),
            None,
            ctypes.byref(answer),
            None,
            None,
        )
        self._is_established = major != _CONTINUE
        return self._taken(answer)

    def _unwrap(self, message: bytes) -> bytes:
        given, answer = _buffer(message), _Buffer()
        self._call("gss_unwrap", self._context, ctypes.byref(given), ctypes.byref(answer), None, None)
        return self._taken(answer)

    def _wrap(self, message: bytes) -> bytes:
        given, answer = _buffer(message), _Buffer()
        self._call(
            "gss_wrap",
            self._context,
            ctypes.c_int(0),
            ctypes.c_uint32(0),
            ctypes.byref(given),
            None,
            ctypes.byref(answer),
        )
        return self._taken(answer)

    def _name(self, text: str, kind: bytes) -> ctypes.c_void_p:
        name = ctypes.c_void_p()
        self._call(
            "gss_import_name",
            ctypes.byref(_buffer(text.encode())),
            ctypes.byref(_oid(kind)),
            ctypes.byref(name),
        )
        return name

    def _taken(self, buffer: _Buffer) -> bytes:
        data = ctypes.string_at(buffer.value, buffer.length) if buffer.value else b""
        self._library.gss_release_buffer(ctypes.byref(ctypes.c_uint32()), ctypes.byref(buffer))
        return data

    def _call(self, function: str, *arguments: Any) -> int:
        minor = ctypes.c_uint32()
        major = int(getattr(self._library, function)(ctypes.byref(minor), *arguments))
        if major & 0xFFFF0000:
            by_mechanism, generic = minor.value, major & 0xFFFF0000
            raise self._failure(
                self._text(by_mechanism, _BY_MECHANISM) if by_mechanism else self._text(generic, _GENERIC)
            )
        return major & 0xFFFF

    def _text(self, status: int, kind: int) -> str:
        again, ignored, text = ctypes.c_uint32(), ctypes.c_uint32(), _Buffer()
        oid = _oid(_KRB5)
        self._library.gss_display_status(
            ctypes.byref(ignored),
            ctypes.c_uint32(status),
            ctypes.c_int(kind),
            ctypes.byref(oid),
            ctypes.byref(again),
            ctypes.byref(text),
        )
        return self._taken(text).decode(errors="replace")

    def _failure(self, text: str) -> ConnectFailure:
        if "contact any KDC" in text or "find KDC" in text:
            return ConnectFailure(
                f"no Kerberos ticket for {self._principal}: {text}",
                "start the KDC, or correct /etc/krb5.conf; what runs keeps its session meanwhile",
                needs_correction=False,
            )
        if "not found in Kerberos database" in text:
            what = f"Kerberos does not know {self._principal}, or zookeeper/{self._host}"
            remedy = "add the principal, or name the servers in zookeeper.hosts as Kerberos does"
            return ConnectFailure(f"{what} ({text})", remedy)
        return ConnectFailure(
            f"no Kerberos ticket for {self._principal}: {text}",
            "compare zookeeper.auth.principal and keytab (klist -k), and the clocks",
        )


def _oid(elements: bytes) -> _Oid:
    return _Oid(len(elements), elements)


def _buffer(data: bytes) -> _Buffer:
    return _Buffer(len(data), ctypes.cast(ctypes.c_char_p(data), ctypes.c_void_p))


@cache
def _library() -> ctypes.CDLL:
    try:
        library = ctypes.CDLL(LIBRARY)
    except OSError as error:
        raise ConnectFailure(
            f"zookeeper.auth.mechanism gssapi needs {LIBRARY}, which is not installed",
            "install MIT Kerberos (Debian: libgssapi-krb5-2)",
        ) from error
    for name in (
        "import_name",
        "acquire_cred_from",
        "init_sec_context",
        "unwrap",
        "wrap",
        "display_status",
        "release_name",
        "release_buffer",
        "release_cred",
        "delete_sec_context",
    ):
        getattr(library, f"gss_{name}").restype = ctypes.c_uint32
    return library
