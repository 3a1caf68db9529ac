"""Asks the API of a supervisor, for the command line: then neither ZooKeeper nor the store is needed.

An error of the API is raised as the command line would raise it itself, with the same exit code. A token is sent over TLS
only, or to this machine.
"""

from __future__ import annotations

import ssl
import zlib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final, TypeVar
from urllib.parse import urlencode, urlsplit

from supervisor.api.connect_remedies import connect_complaint
from supervisor.api.paths import PREFIX
from supervisor.api.request_query import address_of
from supervisor.api.token_file import read_token
from supervisor.clients.web import WebAnswer, WebRequest, ask, parsed_json
from supervisor.errors import (
    AccessDenied,
    Conflict,
    InvalidInput,
    NotFound,
    NotSent,
    OutcomeUnknown,
    SupervisorError,
    TimedOut,
    Unreachable,
)
from supervisor.model.job_row import row_of_document
from supervisor.model.records import Pause
from supervisor.operations.job_list import JobList, WantedJobs, shared_hosts
from supervisor.operations.requests import ReadRequest
from supervisor.settings.addresses import are_loopback, split_host_port

ANSWER_S: Final = 40.0
"""It is longer than the time in which the server gives up."""
ALL: Final = ("all", "true")
NAMES_MAX: Final = 32
"""More names than so make the address too long: then all jobs are asked for."""
ANSWER_MAX_BYTES: Final = 256 * 2**20
PORTS: Final = {"https": 443, "http": 80}
_ERRORS: Final[dict[int, type[SupervisorError]]] = {
    2: InvalidInput,
    3: NotFound,
    4: Conflict,
    5: Unreachable,
    6: OutcomeUnknown,
    7: TimedOut,
}

Parameters = Sequence[tuple[str, str]]
T = TypeVar("T")


class AskElsewhere(SupervisorError):
    """Another host has what was asked for. ``server`` is the address of the API there, or empty."""

    def __init__(self, what: str, remedy: str, server: str) -> None:
        super().__init__(what, remedy)
        self.server = server


class ApiClient:
    """Asks the server at ``url`` with the token in ``token_file``. ``ca`` is a file of authorities in place of the system's;
    ``source`` says where the address came from. Raises InvalidInput; nothing is asked yet."""

    def __init__(self, url: str, token_file: Path, ca: Path | None = None, source: str = "--server") -> None:
        self._url = _checked_url(url, source)
        self._token_file, self._ca = token_file, ca
        self._token = read_token(token_file, "--token-file")
        self._tls = _tls(ca) if self._url.startswith("https:") else None

    def of(self, url: str) -> ApiClient | None:
        """Returns what asks another server of the cluster, which this one has named, or None if the token must not go there.

        It goes to the host of this server, and beyond it only where ``ca`` is given: then only who has a certificate of that
        authority gets it. Else a certificate of any authority of the system would do, for a name that was in ZooKeeper.
        From TLS it never goes to plain HTTP: behind a tunnel to ``https://localhost`` any program of this machine could
        listen there.
        """
        try:
            other = ApiClient(url, self._token_file, self._ca)
        except InvalidInput:
            return None
        if self.has_tls and not other.has_tls:
            return None
        is_same_host = urlsplit(url).hostname == urlsplit(self._url).hostname
        return other if is_same_host or (self._ca is not None and other.has_tls) else None

    @property
    def has_tls(self) -> bool:
        return self._tls is not None

    def jobs(self, wanted: WantedJobs, *, with_pause: bool = True) -> JobList:
        """Returns the list as ``operations.listing`` has it. ``with_pause`` also asks whether the cluster is paused and
        which hosts have several supervisors, which a table shows. Raises SupervisorError."""
        documents = self.get("/jobs", _parameters(wanted))
        status = self.get("/status") if with_pause else None
        try:
            rows = [row for row in map(row_of_document, documents) if wanted.chooses(row)]
            if status is None:
                return JobList(rows)
            pause = status["pause"]
            record = (
                None
                if pause is None
                else Pause(by=pause["by"], at=pause["since"], reason=pause["reason"], op="")
            )
            hosts = shared_hosts(member["host"] for member in status["supervisors"])
            return JobList(rows, bool(status["paused"]), record, hosts)
        except (TypeError, ValueError, KeyError, AttributeError):
            raise self._odd() from None

    def read(self, request: ReadRequest[T]) -> T:
        """Returns the answer to ``request``. Raises SupervisorError."""
        document = self.get(*address_of(request))
        try:
            return request.answer(document, self._url)
        except (KeyError, TypeError, ValueError):
            raise self._odd() from None

    def get(self, path: str, parameters: Parameters = ()) -> Any:
        """Returns the document at ``path``. Raises what the command line would raise, and Unreachable for what is no
        answer of the API."""
        query = f"?{urlencode(parameters)}" if parameters else ""
        answer = self._ask(f"{PREFIX}{path}{query}", "application/json")
        return self.answer_document(answer, accepts=lambda _document: False)

    def get_text(self, target: str) -> WebAnswer:
        """Returns the text at ``target``, path and query, with its headers. Raises as ``get`` does, and AskElsewhere."""
        answer = self._ask(target, "text/plain")
        if answer.status == 200 and answer.headers.get("content-type", "").startswith("text/plain"):
            return answer
        raise self._error(answer.status, parsed_json(answer.body))

    def _ask(self, target: str, kind: str) -> WebAnswer:
        headers = {"Accept": kind, "Accept-Encoding": "gzip"}
        answer = self.send(target, WebRequest(headers=headers), ANSWER_S)
        return answer._replace(body=self._unpacked(answer))

    def _unpacked(self, answer: WebAnswer) -> bytes:
        """Returns the body without compression. Raises Unreachable for what is larger than an answer may be, or no gzip."""
        if answer.headers.get("content-encoding") != "gzip":
            return answer.body
        packed = zlib.decompressobj(wbits=31)
        try:
            body = packed.decompress(answer.body, ANSWER_MAX_BYTES)
        except zlib.error:
            raise self._odd() from None
        if not packed.eof:
            raise self._odd()
        return body

    def send(self, target: str, request: WebRequest, timeout_s: float) -> WebAnswer:
        """Returns the answer to ``request``, to which the token is added. Raises NotSent if it certainly was not sent, and
        Unreachable if no complete answer came."""
        headers = {**request.headers, "Authorization": f"Bearer {self._token}"}
        whole = request._replace(headers=headers, tls=self._tls)
        try:
            return ask(f"{self._url}{target}", timeout_s, ANSWER_MAX_BYTES, whole)
        except Unreachable as error:
            is_later = self.has_tls and not isinstance(error, NotSent)
            complaint = connect_complaint(self._url, error.__cause__, self._ca)
            if is_later or not complaint:
                raise
            raise type(error)(*complaint) from None

    def answer_document(self, answer: WebAnswer, accepts: Callable[[dict[str, Any]], bool]) -> Any:
        """Returns the document of an answer that says that it succeeded, or of any other that ``accepts``. Raises as ``get``
        does."""
        document = parsed_json(answer.body)
        if answer.status == 200 and document is not None:
            return document
        if isinstance(document, dict) and accepts(document):
            return document
        raise self._error(answer.status, document)

    @staticmethod
    def error_of(exit_code: int, what: str, remedy: str = "") -> SupervisorError:
        """Returns the error that the command line raises with this exit code."""
        return _ERRORS.get(exit_code, SupervisorError)(what, remedy)

    def _error(self, status: int, document: Any) -> SupervisorError:
        is_error = isinstance(document, dict) and isinstance(document.get("error"), str)
        if status == 401 or (status == 403 and not is_error):
            why = f"{status}: {document['error']}" if is_error else f"{status}"
            return AccessDenied(
                f"{self._url} does not let this client in ({why})",
                "its api.token_files must name a file with the token of --token-file",
            )
        if not is_error:
            return self._odd(f" ({status})")
        code, remedy = document.get("exit_code"), document.get("remedy")
        said = document["error"], remedy if isinstance(remedy, str) else ""
        if status == 421:
            server = document.get("server")
            return AskElsewhere(*said, server if isinstance(server, str) else "")
        return self.error_of(code if isinstance(code, int) else 1, *said)

    def _odd(self, how: str = "") -> Unreachable:
        return Unreachable(
            f"{self._url} does not answer as the API of a supervisor{how}",
            "it is the address of api.listen there",
        )


def _parameters(wanted: WantedJobs) -> Parameters:
    """Returns the query by which ``wanted`` is asked for. Few names are told to the server, so that it sends no others."""
    names = wanted.names if len(wanted.names) <= NAMES_MAX else ()
    asked = [("name", name) for name in names] + [("selector", each) for each in wanted.selector]
    return [*asked, *([ALL] if wanted.every_uid else [])]


def _checked_url(url: str, source: str) -> str:
    """Returns ``scheme://host:port``. Raises InvalidInput."""
    try:
        parts = urlsplit(url)
        port = parts.port or PORTS[parts.scheme]
        host = f"[{parts.hostname}]" if ":" in (parts.hostname or "") else parts.hostname or ""
        split_host_port(f"{host}:{port}")
        is_plain = parts.path in ("", "/") and not (parts.query or parts.fragment or "@" in parts.netloc)
    except (ValueError, KeyError):
        is_plain = False
    if not is_plain:
        raise InvalidInput(f"{source} must be https://HOST:PORT", "the address of api.listen of a supervisor")
    if parts.scheme == "http" and not are_loopback(f"{host}:{port}"):
        raise InvalidInput(
            f"{source} would send the token over plain HTTP",
            "write https://, or reach it on this machine by a tunnel",
        )
    return f"{parts.scheme}://{host}:{port}"


def _tls(ca: Path | None) -> ssl.SSLContext:
    try:
        return ssl.create_default_context(cafile=ca)
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or str(error)
        raise InvalidInput(
            f"the authority {ca} can't be used ({why})",
            "it is a PEM file with the certificates of the authority",
        ) from None
