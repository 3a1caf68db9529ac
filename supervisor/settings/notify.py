"""Defines the section ``notify`` of ``supervisor.yaml``: who is told when a job needs a person, and of which events."""

from __future__ import annotations

from typing import Annotated, Final, Literal
from urllib.parse import urlsplit

from pydantic import AfterValidator, Field, model_validator

from supervisor.settings.addresses import AbsolutePath, are_loopback
from supervisor.settings.sections import Section

RECEIVERS_MAX: Final = 8
URL_MAX: Final = 2000

EventName = Literal["failed", "quarantined", "falling_behind", "rolled_back"]
EVERY_EVENT: Final[tuple[EventName, ...]] = ("failed", "quarantined", "falling_behind", "rolled_back")


def _receiver_url(value: str) -> str:
    try:
        parts = urlsplit(value)
        usable = parts.scheme in ("http", "https") and bool(parts.hostname) and (parts.port or 0) >= 0
    except ValueError:
        usable = False
    plain = value.isascii() and value.isprintable() and " " not in value and len(value) <= URL_MAX
    if not usable or not plain or parts.fragment or parts.username or parts.password:
        raise ValueError("must be https://host/path, without credentials")
    return value


def _distinct(events: tuple[EventName, ...]) -> tuple[EventName, ...]:
    if not events:
        raise ValueError(f"names no event; write some of {', '.join(EVERY_EVENT)}, or leave the key out")
    return tuple(dict.fromkeys(events))


class ReceiverSettings(Section):
    """Is one receiver. ``name`` stands in records, logs and metrics; it is the host of ``url`` if not given. ``secret_file``
    holds the key by which messages are signed. ``ca`` verifies the receiver's certificate in place of the authorities of the
    system. Plain HTTP is allowed to this machine, and elsewhere only with ``plain_http: true``.
    """

    url: Annotated[str, AfterValidator(_receiver_url)]
    on: Annotated[tuple[EventName, ...], Field(strict=False), AfterValidator(_distinct)] = EVERY_EVENT
    secret_file: AbsolutePath
    name: Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,31}$")] | None = None
    ca: AbsolutePath | None = None
    plain_http: bool = False

    @property
    def label(self) -> str:
        return self.name or (urlsplit(self.url).hostname or "")[:32]

    @model_validator(mode="after")
    def _is_private(self) -> ReceiverSettings:
        parts = urlsplit(self.url)
        if parts.scheme == "https" or self.plain_http:
            return self
        host = f"[{parts.hostname}]" if ":" in (parts.hostname or "") else parts.hostname
        if not are_loopback(f"{host}:80"):
            raise ValueError(
                "has a url with http://: what is sent could be read and changed on the way; "
                "write https://, or plain_http: true if the network may be trusted"
            )
        return self


def _with_names_of_their_own(receivers: tuple[ReceiverSettings, ...]) -> tuple[ReceiverSettings, ...]:
    labels = [each.label for each in receivers]
    twice = next((label for label in labels if labels.count(label) > 1), None)
    if twice is not None:
        raise ValueError(f"has two receivers called {twice}; give each a name of its own (name)")
    return receivers


Receivers = Annotated[
    tuple[ReceiverSettings, ...],
    Field(strict=False, max_length=RECEIVERS_MAX),
    AfterValidator(_with_names_of_their_own),
]
