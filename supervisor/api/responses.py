"""Defines answers of the API, and what a request asks for. ``api.service`` and ``api.log_answers`` make answers,
``daemon.process.api_server`` sends them."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final, NamedTuple

from supervisor.errors import SupervisorError, complaint_of
from supervisor.operations.logs import OutputElsewhere, OutputMissing

RETRY_AFTER_S: Final = 1
_ETAG: Final = re.compile(r'(?:W/)?("[^"]*")')
HTTP_STATUS: Final = {2: 400, 3: 404, 4: 409, 5: 503, 6: 504, 7: 504}
"""The HTTP status of an error by the exit code that the command line has for it; it is 500 for any other. Of a write that is
answered 504 the outcome is unknown."""
AGAIN_LATER: Final = (429, 503)


@dataclass(frozen=True)
class ApiResponse:
    """Is an answer; ``headers`` go beside those that every answer has. ``kind`` is the type of its body."""

    code: int
    body: bytes
    headers: Mapping[str, str] = field(default_factory=dict)
    kind: str = "application/json"


def with_tag(response: ApiResponse) -> ApiResponse:
    """Returns the answer with an ETag of its body."""
    tag = f'"{hashlib.sha256(response.body).hexdigest()[:32]}"'
    return replace(response, headers={**response.headers, "ETag": tag})


def unless_known(tagged: ApiResponse, if_none_match: str | None) -> ApiResponse:
    """Returns an answer that ``with_tag`` made, or 304 without its body if the client has that already."""
    known = (if_none_match or "").strip()
    if known == "*" or tagged.headers["ETag"] in _ETAG.findall(known):
        return replace(tagged, code=304, body=b"")
    return tagged


class RequestQuery(NamedTuple):
    """Holds the checked parameters of a request."""

    values: Mapping[str, list[str]]

    def text(self, name: str) -> str | None:
        return self.values[name][0] if name in self.values else None

    def flag(self, name: str) -> bool:
        return self.text(name) == "true"


def error_response(
    code: int,
    complaint: SupervisorError,
    headers: Mapping[str, str] | None = None,
    more: Mapping[str, Any] | None = None,
) -> ApiResponse:
    """Returns an answer that says what is wrong, as the command line would, and with which exit code. ``more`` goes into the
    document."""
    what, remedy = complaint_of(complaint)
    document = {"error": what, "remedy": remedy or None, "exit_code": complaint.exit_code}
    retry = {"Retry-After": str(RETRY_AFTER_S)} if code in AGAIN_LATER else {}
    return ApiResponse(code, encoded({**document, **(more or {})}), {**retry, **(headers or {})})


def response_to(error: SupervisorError) -> ApiResponse:
    """Returns the answer to a request that ended with an error. What another host has is 421, with that host: it is right to
    ask there."""
    if isinstance(error, OutputElsewhere):
        return error_response(421, error, more={"host": error.host or None, "server": error.server or None})
    if isinstance(error, OutputMissing):
        return error_response(404, error)
    return error_response(HTTP_STATUS.get(error.exit_code, 500), error)


def encoded(document: Any) -> bytes:
    return json.dumps(document, separators=(",", ":")).encode() + b"\n"
