"""Defines the section ``api`` of ``supervisor.yaml``: where the API is served, by which certificate, and to whom."""

from __future__ import annotations

from typing import Annotated
from urllib.parse import urlsplit

from pydantic import AfterValidator, Field, model_validator

from supervisor.settings.addresses import AbsolutePath, EndpointUrl, Listen, are_loopback, split_host_port
from supervisor.settings.http import HttpTlsSettings
from supervisor.settings.sections import Section

TOKEN_FILES_MAX = 64


EVERY_ADDRESS = ("0.0.0.0", "::", "0:0:0:0:0:0:0:0")


def _reached_by_tls(value: str) -> str:
    parts = urlsplit(value)
    if parts.scheme != "https" or parts.path:
        raise ValueError("must be https://host:port, without a path: tokens are sent to it")
    return value


class ApiSettings(Section):
    """Says where the API listens; without ``listen`` there is none. Each of ``token_files`` has the token of one client.
    Tokens are never read from the network in the clear: beyond this machine TLS is needed. ``page`` says whether
    the page for browsers is served there too.

    ``url`` is the address by which others reach it, as its certificate names it. It stands in the record of this supervisor,
    for clients that are to ask this host.
    """

    listen: Listen | None = None
    url: Annotated[EndpointUrl, AfterValidator(_reached_by_tls)] | None = None
    tls: HttpTlsSettings = HttpTlsSettings()
    token_files: Annotated[tuple[AbsolutePath, ...], Field(strict=False, max_length=TOKEN_FILES_MAX)] = ()
    page: bool = True

    @model_validator(mode="after")
    def _is_closed(self) -> ApiSettings:
        if self.listen is None:
            return self
        if not self.token_files:
            raise ValueError(
                "has no token_files, so everybody would be answered; name a file that holds a token, "
                "as openssl rand -hex 32 makes one"
            )
        if self.tls.cert is None and not are_loopback(self.listen):
            raise ValueError(
                f"listens on {self.listen} without TLS, so tokens would cross the network in the clear; "
                "set api.tls.cert and api.tls.key, or listen on 127.0.0.1"
            )
        return self

    def address(self, host: str) -> str:
        """Returns the address by which others reach the API, or an empty text if there is none. ``host`` is the name of this
        host."""
        if self.listen is None:
            return ""
        if self.url is not None:
            return self.url
        address, port = split_host_port(self.listen)
        if are_loopback(self.listen) or port == 0:
            return ""
        named = host if address in EVERY_ADDRESS else address
        return f"https://[{named}]:{port}" if ":" in named else f"https://{named}:{port}"
