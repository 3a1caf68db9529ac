"""Proves to a ZooKeeper server who we are, by SASL, on a connection that it has just granted a session.

``kazoo_connection`` imports it when the configuration asks for SASL, and not before. The password, or the ticket, is read
at each connect. A server that goes down in the middle is a connection that dropped, and no more: only what the server
*answers* means that it refuses our credentials.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Protocol

from supervisor.clients.connect_failure import ConnectFailure, SaslRefused
from supervisor.clients.digest_md5 import DigestMd5
from supervisor.clients.secret_file import read_secret
from supervisor.model.zookeeper_access import Mechanism, ZooKeeperAccess

STEPS_MAX = 10


class Conversation(Protocol):
    """Is the client's side of one mechanism."""

    is_complete: bool

    def respond(self, challenge: bytes) -> bytes:
        """Returns the answer to a challenge (the first is empty). Raises ValueError, ConnectFailure."""


def authenticate(access: ZooKeeperAccess, host: str, exchange: Callable[[bytes], bytes]) -> None:
    """Talks to the server ``host`` until both sides are content. ``exchange`` sends a response and returns the next
    challenge, or raises ``SaslRefused``, or whatever means that the connection is gone.

    Raises ConnectFailure, with the cause and its remedy.
    """
    conversation = _conversation(access, host)
    challenge = b""
    try:
        for _ in range(STEPS_MAX):
            response = conversation.respond(challenge)
            if conversation.is_complete and not response:
                return
            challenge = exchange(response)
            if conversation.is_complete and not challenge:
                return
    except SaslRefused as refused:
        raise _refused(access) from refused
    except ValueError as error:
        raise ConnectFailure(
            f"SASL with {host} failed: {error}", "compare zookeeper.auth with the servers' JAAS file"
        ) from error
    raise ConnectFailure(f"SASL with {host} did not come to an end", "see the log of that server")


def _conversation(access: ZooKeeperAccess, host: str) -> Conversation:
    if access.mechanism is Mechanism.GSSAPI:
        from supervisor.clients.gssapi import Gssapi  # ctypes and Kerberos: only where they are used

        return Gssapi(access.principal, access.keytab, host)
    password = read_secret("zookeeper.auth.password_file", access.password_file)
    return DigestMd5(access.username, password, os.urandom(16).hex())


def _refused(access: ZooKeeperAccess) -> ConnectFailure:
    if access.mechanism is Mechanism.GSSAPI:
        return ConnectFailure(
            f"ZooKeeper refused the Kerberos ticket of {access.principal}",
            "compare zookeeper.auth.principal with the servers' JAAS file and their clocks",
        )
    return ConnectFailure(
        f"ZooKeeper refused the user name {access.username} or its password",
        f"compare zookeeper.auth and {access.password_file} with the servers' JAAS file",
    )
