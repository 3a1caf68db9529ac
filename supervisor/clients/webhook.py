"""Sends one message to an HTTP receiver, signed as the Standard Webhooks specification has it (standardwebhooks.com).

The signature is HMAC-SHA256 over ``<id>.<timestamp>.<body>``; the timestamp is that of this sending, so that a receiver can
refuse what was recorded and sent again. Redirects and proxies are not followed, and of an answer nothing is read but its
status and its headers (``clients.web``).
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import ssl
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from supervisor.clients.connect_failure import ConnectFailure
from supervisor.clients.secret_file import read_secret
from supervisor.clients.web import WebRequest, ask
from supervisor.clock import wall_s
from supervisor.errors import InvalidInput, SupervisorError, Unreachable
from supervisor.settings.notify import ReceiverSettings

SEND_S: Final = 10.0
KEY_PREFIX: Final = "whsec_"
KEY_MIN_BYTES: Final = 24
KEY_HELP: Final = (
    'make one: echo "whsec_$(openssl rand -base64 32)" (mode 0600), and give it to the receiver too'
)


@dataclass(frozen=True, slots=True)
class WebhookTarget:
    """Says where messages go. ``secret_file`` holds the key of the signature, and ``ca`` the certificates of authorities if
    not those of the system count; both are read at each sending, so that renewed ones count at once."""

    url: str
    secret_file: str
    ca: str | None = None

    def key(self) -> bytes:
        """Returns the key. Raises InvalidInput."""
        try:
            text = read_secret("notify.secret_file", self.secret_file)
        except ConnectFailure as error:
            raise InvalidInput(error.complaint.what, error.complaint.remedy or KEY_HELP) from None
        try:
            key = base64.b64decode(text.strip().removeprefix(KEY_PREFIX), validate=True)
        except (binascii.Error, ValueError):
            key = b""
        if len(key) < KEY_MIN_BYTES:
            raise InvalidInput(
                f"notify.secret_file: {self.secret_file} holds no key of {KEY_MIN_BYTES} bytes or more in Base64",
                KEY_HELP,
            )
        return key

    def tls(self) -> ssl.SSLContext | None:
        """Returns how the receiver's certificate is verified; None for plain HTTP. Raises InvalidInput."""
        if not self.url.startswith("https:"):
            return None
        try:
            return ssl.create_default_context(cafile=self.ca)
        except OSError as error:  # SSLError is one
            raise InvalidInput(f"notify.ca: {self.ca} cannot be read ({error.strerror or error})") from None


def webhook_target(receiver: ReceiverSettings) -> WebhookTarget:
    """Returns where messages to ``receiver`` go."""
    ca = None if receiver.ca is None else str(receiver.ca)
    return WebhookTarget(receiver.url, str(receiver.secret_file), ca)


def signed_headers(key: bytes, message_id: str, timestamp: int, body: bytes) -> Mapping[str, str]:
    """Returns the headers by which a receiver verifies ``body``. ``timestamp`` is in seconds since the epoch."""
    signed = f"{message_id}.{timestamp}.".encode() + body
    signature = base64.b64encode(hmac.new(key, signed, hashlib.sha256).digest()).decode()
    return {
        "webhook-id": message_id,
        "webhook-timestamp": str(timestamp),
        "webhook-signature": f"v1,{signature}",
        "Content-Type": "application/json",
    }


def post_message(target: WebhookTarget, message_id: str, body: bytes) -> None:
    """Sends ``body``, and returns once the receiver has accepted it (any status 2xx). Raises Unreachable and InvalidInput,
    with texts that show neither the path of the URL nor the key."""
    headers = signed_headers(target.key(), message_id, int(wall_s()), body)
    request = WebRequest("POST", body, headers, target.tls(), reads_body=False)
    answer = ask(target.url, SEND_S, 0, request)
    if not 200 <= answer.status < 300:
        raise Unreachable(f"the receiver answers {answer.status}")


def why_unreachable(target: WebhookTarget, timeout_s: float) -> str:
    """Returns what would keep a message from being sent, or an empty text. It asks for the URL with HEAD, so that nobody is
    told anything; whatever is answered shows that somebody is there, whose certificate is valid."""
    try:
        target.key()
        ask(target.url, timeout_s, 0, WebRequest("HEAD", tls=target.tls(), reads_body=False))
    except SupervisorError as error:
        return str(error)
    return ""
