"""Is the client's side of SASL DIGEST-MD5 (RFC 2831), as far as ZooKeeper uses it: ``qop=auth``, one realm, no
authorization id. It is pure: challenges come in, responses go out.

MD5 protects little: run it over TLS only. ``zookeeper_sasl`` calls it.
"""

from __future__ import annotations

import hashlib
import re

SERVICE = "zookeeper"
HOST = "zk-sasl-md5"  # ZooKeeper puts this in place of the server's name, for every server
_COUNT = "00000001"
_PAIR = re.compile(r'\s*,?\s*([A-Za-z-]+)\s*=\s*(?:"((?:[^"\\]|\\.)*)"|([^\s,"]*))')


class DigestMd5:
    """Holds one conversation. ``client_nonce`` must be new for each; ``uri`` is the service, as both sides know it."""

    def __init__(
        self, username: str, password: str, client_nonce: str, uri: str = f"{SERVICE}/{HOST}"
    ) -> None:
        self._uri = uri
        self._username = username
        self._password = password
        self._client_nonce = client_nonce
        self._expected = ""
        self.is_complete = False

    def respond(self, challenge: bytes) -> bytes:
        """Returns what to answer: to the empty challenge with which a conversation begins, and to the server's first one.

        Its second one proves that the server knows the password too; then the conversation is complete. Raises
        ValueError for a challenge that makes no sense, or proves nothing.
        """
        if not challenge and not self._expected:
            return b""
        given = directives(challenge)
        if not self._expected:
            return self._answer(given)
        if given.get("rspauth") != self._expected:
            raise ValueError("the server does not know the password")
        self.is_complete = True
        return b""

    def _answer(self, given: dict[str, str]) -> bytes:
        nonce, realm = given.get("nonce", ""), given.get("realm", HOST)
        if not nonce or given.get("algorithm") != "md5-sess":
            raise ValueError("the server's challenge is none of DIGEST-MD5")
        if "auth" not in given.get("qop", "auth").split(","):
            raise ValueError("the server asks for a protection of SASL's own")
        secret = _md5(b":".join(map(_bytes, (self._username, realm, self._password))))
        session_key = _md5(secret + f":{nonce}:{self._client_nonce}".encode()).hex()

        def proof(method: str) -> str:
            target = _md5(f"{method}:{self._uri}".encode()).hex()
            parts = (session_key, nonce, _COUNT, self._client_nonce, "auth", target)
            return _md5(":".join(parts).encode()).hex()

        self._expected = proof("")
        quoted = {"username": self._username, "realm": realm, "nonce": nonce, "cnonce": self._client_nonce}
        words = [
            *(["charset=utf-8"] if given.get("charset") else []),
            *(f'{name}="{_escaped(value)}"' for name, value in quoted.items()),
            f"nc={_COUNT}",
            "qop=auth",
            f'digest-uri="{self._uri}"',
            f"response={proof('AUTHENTICATE')}",
        ]
        return ",".join(words).encode()


def directives(challenge: bytes) -> dict[str, str]:
    """Returns the names and values of a challenge. Raises ValueError if it is no list of them."""
    text, at, found = challenge.decode().rstrip(" ,\0"), 0, {}
    while at < len(text):
        pair = _PAIR.match(text, at)
        if pair is None:
            raise ValueError("the server's challenge is no list of names and values")
        quoted = pair[2]
        found[pair[1].lower()] = re.sub(r"\\(.)", r"\1", quoted) if quoted is not None else pair[3]
        at = pair.end()
    return found


def _escaped(value: str) -> str:
    return value.replace("\\", "\\\\").replace('"', '\\"')


def _bytes(text: str) -> bytes:
    """Returns ``text`` in ISO 8859-1 if that is possible, as RFC 2831 demands for what is hashed; else in UTF-8."""
    try:
        return text.encode("latin-1")
    except UnicodeEncodeError:
        return text.encode()


def _md5(data: bytes) -> bytes:
    return hashlib.md5(data, usedforsecurity=False).digest()
