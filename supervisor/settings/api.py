"""Defines the section ``api`` of ``supervisor.yaml``: where the API is served, by which certificate, and to whom."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field, model_validator

from supervisor.settings.addresses import AbsolutePath, Listen, are_loopback
from supervisor.settings.http import HttpTlsSettings
from supervisor.settings.sections import Section

TOKEN_FILES_MAX = 64


class ApiSettings(Section):
    """Says where the API listens; without ``listen`` there is none. Each of ``token_files`` has the token of one client.
    Tokens are never read from the network in the clear: beyond this machine TLS is needed. ``page`` says whether
    the page for browsers is served there too.
    """

    listen: Listen | None = None
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
