"""Defines the section ``api`` of ``supervisor.yaml``: where the API is served, by which certificate, and to whom."""

from __future__ import annotations

import re
from typing import Annotated, Final
from urllib.parse import urlsplit

from pydantic import AfterValidator, Field, model_validator

from supervisor.settings.addresses import AbsolutePath, EndpointUrl, Listen, are_loopback, split_host_port
from supervisor.settings.http import HttpTlsSettings
from supervisor.settings.sections import Section

TOKEN_FILES_MAX = 64
OPERATOR_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,27}")
"""The name of an operator's file stands in records, as who asked for a write, with his address behind it."""

EVERY_ADDRESS = ("0.0.0.0", "::", "0:0:0:0:0:0:0:0")


def _reached_by_tls(value: str) -> str:
    parts = urlsplit(value)
    if parts.scheme != "https" or parts.path:
        raise ValueError("must be https://host:port, without a path: tokens are sent to it")
    return value


TokenFiles = Annotated[tuple[AbsolutePath, ...], Field(strict=False, max_length=TOKEN_FILES_MAX)]


class ApiSettings(Section):
    """Says where the API listens; without ``listen`` there is none. Each of ``token_files`` has the token of one client that
    may read, and each of ``operator_token_files`` that of one who may also write. Tokens are never read from the network in
    the clear: beyond this machine TLS is needed, and for writes everywhere. ``page`` says whether the page for browsers is
    served there too.

    ``url`` is the address by which others reach it, as its certificate names it. It stands in the record of this supervisor,
    for clients that are to ask this host.
    """

    listen: Listen | None = None
    url: Annotated[EndpointUrl, AfterValidator(_reached_by_tls)] | None = None
    tls: HttpTlsSettings = HttpTlsSettings()
    token_files: TokenFiles = ()
    operator_token_files: TokenFiles = ()
    page: bool = True

    @model_validator(mode="after")
    def _is_closed(self) -> ApiSettings:
        if self.listen is None:
            return self
        if not self.token_files and not self.operator_token_files:
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

    @model_validator(mode="after")
    def _has_operators_by_name_and_over_tls(self) -> ApiSettings:
        """Raises ValueError where a write could come in the clear, or where it could not be said who asked for it."""
        names = [file.name for file in self.operator_token_files]
        for name in names:
            if not OPERATOR_NAME.fullmatch(name):
                raise ValueError(
                    f"has the operator's file {name[:40]!r}: its name says who asked for a write, so it must be 1 to 28 "
                    "letters, digits, dots, dashes and underscores"
                )
            if names.count(name) > 1:
                raise ValueError(
                    f"has two files {name} in operator_token_files, so nobody could say which of them asked for a write; "
                    "give each another name"
                )
        both = set(self.operator_token_files) & set(self.token_files)
        if both:
            raise ValueError(
                f"has {min(both)} in token_files and operator_token_files; an operator reads, too"
            )
        if names and self.tls.cert is None:
            raise ValueError(
                "has operator_token_files without TLS: writes are taken over TLS only, on 127.0.0.1, too; "
                "set api.tls.cert and api.tls.key"
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
