"""Checks the API of this host, as ``api`` in ``supervisor.yaml`` says: its certificate, its tokens, and that it answers.

No token is sent: whoever listens there might not be the supervisor. It answers if it asks for a token.
"""

from __future__ import annotations

import ipaddress
import socket
import ssl
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from cryptography import x509

from supervisor.api.paths import PREFIX
from supervisor.api.tokens import TokenFiles, unused_files
from supervisor.cli.doctor.findings import (
    CheckGroup,
    DoctorCheck,
    DoctorFinding,
    ok,
    problem,
    skipped,
    warning,
)
from supervisor.cli.doctor.host import CERTIFICATE_DAYS_LEFT
from supervisor.cli.doctor.subject import Subject
from supervisor.clients import host_probe
from supervisor.clients.web import WebRequest, ask
from supervisor.clock import boottime_s
from supervisor.daemon.process.http_access import tls_context
from supervisor.daemon.process.supervisor import LOCK
from supervisor.errors import InvalidInput, Unreachable
from supervisor.settings.addresses import are_loopback, split_host_port
from supervisor.settings.api import EVERY_ADDRESS, ApiSettings

ASK_S: Final = 5.0
ANSWER_MAX_BYTES: Final = 64 * 1024
OFF: Final = "api.listen is not set: there is no API"
REALM: Final = "spark-supervisor"


@dataclass(frozen=True, slots=True)
class ApiFacts:
    """Holds what was found. ``listen`` is empty if there is no API, and ``url`` if no other host is told where it is.
    ``days_left`` is for how many days the certificate is still valid, negative if it is not any more, and ``is_named``
    says whether it names the host of ``url``; None means that this is not known, or that there is none. ``unanswered``
    says why the API does not answer, and is None while no supervisor runs here."""

    listen: str = ""
    url: str = ""
    has_tls: bool = False
    tls_error: str = ""
    days_left: float | None = None
    is_named: bool | None = None
    tokens_error: str = ""
    without_token: tuple[str, ...] = ()
    readers: int = 0
    operators: int = 0
    unanswered: str | None = None


def collect(subject: Subject) -> ApiFacts:
    settings = subject.settings.api
    if settings.listen is None:
        return ApiFacts()
    url = settings.address(socket.gethostname())
    certificate, tls_error = _certificate(settings)
    return ApiFacts(
        listen=settings.listen,
        url=url,
        has_tls=settings.tls.cert is not None,
        tls_error=tls_error,
        days_left=None if certificate is None else _days_left(certificate),
        is_named=_is_named(certificate, urlsplit(url).hostname or "")
        if certificate is not None and url
        else None,
        tokens_error=_tokens_error(settings),
        without_token=tuple(map(str, unused_files(settings.token_files, settings.operator_token_files))),
        readers=len(settings.token_files),
        operators=len(settings.operator_token_files),
        unanswered=_unanswered(settings, subject),
    )


def _certificate(settings: ApiSettings) -> tuple[x509.Certificate | None, str]:
    """Returns the certificate and why the files of TLS can't be used."""
    if settings.tls.cert is None:
        return None, ""
    try:
        tls_context(settings.tls, "api")
        return _read(settings.tls.cert), ""
    except InvalidInput as error:
        return None, str(error)


def _read(path: Path) -> x509.Certificate | None:
    try:
        return x509.load_pem_x509_certificate(path.read_bytes())
    except (OSError, ValueError):
        return None


def _days_left(certificate: x509.Certificate) -> float:
    return (certificate.not_valid_after_utc - datetime.now(UTC)).total_seconds() / 86_400


def _is_named(certificate: x509.Certificate, host: str) -> bool:
    """Says whether a client that asks for ``host`` takes the certificate for its: by its subject alternative names."""
    try:
        names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        return False
    try:
        return ipaddress.ip_address(host) in names.get_values_for_type(x509.IPAddress)
    except ValueError:
        wanted = host.lower()
        found = [name.lower() for name in names.get_values_for_type(x509.DNSName)]
        above = f"*.{wanted.partition('.')[2]}"
        return wanted in found or above in found


def _tokens_error(settings: ApiSettings) -> str:
    try:
        TokenFiles(settings.token_files, boottime_s, settings.operator_token_files)
    except InvalidInput as error:
        return str(error)
    return ""


def _unanswered(settings: ApiSettings, subject: Subject) -> str | None:
    """Asks the API without a token, on this host. It is not asked while no supervisor runs here."""
    if host_probe.lock_holder(subject.settings.supervisor.runtime_dir / LOCK) is None:
        return None
    address, port = split_host_port(settings.listen or "")
    if port == 0:
        return None
    host = {"0.0.0.0": "127.0.0.1"}.get(address, "[::1]" if address in EVERY_ADDRESS else address)
    host = f"[{host}]" if ":" in host and not host.startswith("[") else host
    scheme, tls = "http", None
    if settings.tls.cert is not None:
        scheme, tls = "https", ssl.create_default_context()
        tls.check_hostname, tls.verify_mode = False, ssl.CERT_NONE  # nothing secret is sent
    try:
        request = WebRequest(tls=tls)
        answer = ask(
            f"{scheme}://{host}:{port}{PREFIX}/status", ASK_S * subject.patience, ANSWER_MAX_BYTES, request
        )
    except Unreachable as error:
        return error.complaint.what
    challenge = answer.headers.get("www-authenticate", "")
    needs_certificate = settings.tls.client_ca is not None and answer.status == 403
    if (answer.status == 401 and REALM in challenge) or needs_certificate:
        return ""
    return f"who listens at {settings.listen} answers {answer.status}, and asks for no token"


# -- judges -------------------------------------------------------------------------------------------------------


def judge_api(facts: ApiFacts) -> DoctorFinding:
    if not facts.listen:
        return skipped(OFF)
    if facts.unanswered:
        return problem(
            f"the API does not answer: {facts.unanswered}", "restart the supervisor, and see its log"
        )
    if not facts.url and not are_loopback(facts.listen):
        return warning(f"api.listen {facts.listen} has no address for others", "set api.url")
    where = f"api.listen {facts.listen}" + (f", for others {facts.url}" if facts.url else "")
    if facts.unanswered is None:
        return ok(f"{where}; it was not asked, because no supervisor runs here")
    return ok(f"{where}: it answers, and asks for a token")


def judge_api_certificate(facts: ApiFacts) -> DoctorFinding:
    if not facts.listen:
        return skipped(OFF)
    if facts.tls_error:
        return problem(facts.tls_error, "mend it: the supervisor does not start with it")
    if not facts.has_tls:
        return ok(f"api.listen {facts.listen} is reached from this host only, without TLS")
    if facts.days_left is not None and facts.days_left < CERTIFICATE_DAYS_LEFT:
        when = "has expired" if facts.days_left < 0 else f"expires in {facts.days_left:.0f} days"
        return (problem if facts.days_left < 0 else warning)(
            f"the certificate api.tls.cert {when}", "replace the file; it is read again without a restart"
        )
    if facts.is_named is False:
        return warning(
            f"the certificate api.tls.cert does not name the host of {facts.url}, so clients refuse it",
            "set api.url to a name that it has, or have it made for this one",
        )
    left = "" if facts.days_left is None else f" for {facts.days_left:.0f} days"
    return ok(
        f"the certificate api.tls.cert is valid{left}" + (", and names this host" if facts.is_named else "")
    )


def judge_api_tokens(facts: ApiFacts) -> DoctorFinding:
    if not facts.listen:
        return skipped(OFF)
    if facts.tokens_error:
        return problem(facts.tokens_error, "mend it: the supervisor does not start with it")
    if facts.without_token:
        files = ", ".join(facts.without_token)
        return warning(
            f"nobody has a token of {files}: empty, or not there",
            "write a token into it, or take it out of the configuration: openssl rand -hex 32 makes one",
        )
    if facts.operators:
        return ok(f"{facts.readers} tokens may read, and {facts.operators} may also write, over TLS only")
    return ok(f"{facts.readers} tokens may read, and none may write")


API: Final = CheckGroup(
    "api",
    collect,
    (
        DoctorCheck("api", "the API of this host answers, and others know where", judge_api),
        DoctorCheck(
            "api-certificate",
            "its certificate: usable, valid, for the name by which it is asked",
            judge_api_certificate,
        ),
        DoctorCheck(
            "api-tokens", "its tokens: readable, not by everybody, each of one client", judge_api_tokens
        ),
    ),
)
