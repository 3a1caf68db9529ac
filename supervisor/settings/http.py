"""Defines the ``http`` section of ``supervisor.yaml``: who is answered over HTTP, and by which certificate.

The address is ``supervisor.http``. ``users_file`` has the form of Prometheus' web configuration file, of which only
``basic_auth_users`` is read here; its TLS part is ``http.tls``.
"""

from __future__ import annotations

from typing import Annotated

from pydantic import Field, model_validator

from supervisor.settings.addresses import AbsolutePath
from supervisor.settings.sections import Section


class HttpTlsSettings(Section):
    """Names PEM files. With ``cert`` and ``key`` the server speaks TLS only; with ``client_ca`` it answers, besides
    probes, only clients with a certificate that this authority has signed.
    """

    cert: AbsolutePath | None = None
    key: AbsolutePath | None = None
    client_ca: AbsolutePath | None = None

    @model_validator(mode="after")
    def _is_whole(self) -> HttpTlsSettings:
        if (self.cert is None) != (self.key is None):
            missing = "key" if self.key is None else "cert"
            raise ValueError(f"has no {missing}; a certificate and its key belong together")
        if self.client_ca is not None and self.cert is None:
            raise ValueError(
                "has client_ca but no cert and key; a client shows its certificate over TLS only"
            )
        return self


class HttpSettings(Section):
    """Says who is answered. Without ``tls.client_ca`` and ``users_file`` everybody is. ``hosts`` are the names under which
    it may be asked (``daemon.process.host_names``)."""

    tls: HttpTlsSettings = HttpTlsSettings()
    users_file: AbsolutePath | None = None
    hosts: (
        Annotated[
            tuple[Annotated[str, Field(pattern=r"^[A-Za-z0-9*?]([A-Za-z0-9.*?-]{0,251})$")], ...],
            Field(strict=False, max_length=100),
        ]
        | None
    ) = None
