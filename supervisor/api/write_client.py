"""Asks the API of a supervisor to write, for the command line (``cli.gateway`` and ``cli.apply_over_api``).

Each request has a key of its own and is sent once. It is sent again, with the same key, only after the server has said
that nothing was begun. If the connection ends before the answer, the outcome is unknown: that is said, as for a write to
ZooKeeper.
"""

from __future__ import annotations

import base64
import json
import secrets
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from supervisor.api.client import ApiClient
from supervisor.api.paths import NAME, PREFIX
from supervisor.api.write_head import KEY_HEADER
from supervisor.api.write_routes import BUNDLE_MAX_BYTES, ROUTE_OF, body_of
from supervisor.clients.web import WebAnswer, WebRequest
from supervisor.clock import boottime_s
from supervisor.errors import InvalidInput, NotSent, OutcomeUnknown, SupervisorError, Unreachable
from supervisor.operations.apply import Applied, AppliedAction, Difference
from supervisor.operations.bundle import FILES_MAX, ApplyRequest, BundleFile
from supervisor.operations.jobs import Did, Done
from supervisor.operations.requests import JobRequest, WriteRequest

SPARE_S: Final = 10.0
"""The client waits so much longer than the server, which knows better what came about."""
TOO_LARGE: Final = "put large files on every host and name them as local:/path, or on S3 as s3://bucket/key"
BUSY_MAX_S: Final = 60.0
BUSY_PAUSE_S: Final = 1.0
ASK_AGAIN: Final = "show tells what came about; the same command may be given again"


@dataclass(frozen=True)
class RemoteDone:
    """Holds what the server did to a job, and what it says besides."""

    done: Done
    notices: tuple[str, ...]


@dataclass(frozen=True)
class RemoteApplied:
    """Holds what became of each spec, and what the server says besides."""

    applied: list[Applied]
    notices: tuple[str, ...]


class WriteClient:
    """Writes by ``api``. Raises InvalidInput if that is asked without TLS."""

    def __init__(self, api: ApiClient) -> None:
        if not api.has_tls:
            raise InvalidInput("writes go over TLS only", "give --server https://HOST:PORT")
        self._api = api

    def write(self, request: JobRequest) -> RemoteDone:
        """Has the server carry ``request`` out. Raises what the command line raises, and OutcomeUnknown."""
        document = self._post(request, request.name)
        try:
            done = Done(str(document["name"]), str(document["uid"]), Did(document["did"]))
            return RemoteDone(done, _texts(document["notices"]))
        except (KeyError, TypeError, ValueError):
            raise _odd() from None

    def apply(self, request: ApplyRequest) -> RemoteApplied:
        """Has the server apply specs. Raises as ``write`` does, and InvalidInput for what is too large."""
        document = self._post(request)
        try:
            applied = [_applied(each) for each in document["applied"]]
            return RemoteApplied(applied, _texts(document["notices"]))
        except (KeyError, TypeError, ValueError):
            raise _odd() from None

    def _post(self, request: WriteRequest[Any], name: str = "") -> dict[str, Any]:
        route = ROUTE_OF[type(request)]
        path, answer_s = route.path.replace(NAME, name), route.body_s + route.answer_s
        key, body = secrets.token_hex(16), json.dumps(body_of(request)).encode()
        if len(body) > BUNDLE_MAX_BYTES:
            raise InvalidInput(
                f"what is to be sent is larger than {BUNDLE_MAX_BYTES >> 20} MiB",
                TOO_LARGE,
            )
        until_at_s = boottime_s() + BUSY_MAX_S
        while True:
            answer = self._sent(path, body, key, answer_s)
            if answer.status != 429 or boottime_s() >= until_at_s:
                break
            time.sleep(BUSY_PAUSE_S)
        found = self._api.answer_document(answer, accepts=lambda known: "applied" in known)
        if not isinstance(found, dict):
            raise _odd()
        return found

    def _sent(self, path: str, body: bytes, key: str, answer_s: float) -> WebAnswer:
        headers = {"Content-Type": "application/json", KEY_HEADER: key}
        request = WebRequest(method="POST", body=body, headers=headers)
        try:
            return self._api.send(f"{PREFIX}{path}", request, answer_s + SPARE_S)
        except NotSent:
            raise
        except Unreachable as error:
            raise OutcomeUnknown(f"the outcome is unknown: {error.complaint.what}", ASK_AGAIN) from None


def bundle_files(files: Mapping[str, Path]) -> list[BundleFile]:
    """Returns what is in ``files``, which have the paths that the server is told. Raises InvalidInput for what is too large
    or can't be read."""
    if len(files) > FILES_MAX:
        raise InvalidInput(f"these are more than {FILES_MAX} files", "apply fewer specs at once")
    size = 0
    for path in files.values():
        try:
            size += path.stat().st_size
        except OSError as error:
            raise InvalidInput(f"{path} can't be read ({error.strerror or error})") from None
        if size * 4 // 3 > BUNDLE_MAX_BYTES:
            raise InvalidInput(
                f"{path} and the files before it are too large to be sent: {BUNDLE_MAX_BYTES * 3 // 4 >> 20} MiB at most",
                TOO_LARGE,
            )
    try:
        return [
            BundleFile(path=name, base64=base64.b64encode(path.read_bytes()).decode())
            for name, path in files.items()
        ]
    except OSError as error:
        raise InvalidInput(f"{error.filename} can't be read ({error.strerror or error})") from None


def _applied(document: Mapping[str, Any]) -> Applied:
    error = None
    if document["exit_code"]:
        said, *others = _texts(document["complaints"])
        error = ApiClient.error_of(int(document["exit_code"]), said)
        if isinstance(error, InvalidInput):
            error.others = tuple(others)
    return Applied(
        Path(document["file"]),
        action=AppliedAction(document["action"]),
        revision=document["revision"] or 0,
        why=str(document["why"]),
        error=error,
        reported_name=document["name"],
        differences=_differences(document.get("differences")),
    )


def _differences(found: Any) -> tuple[Difference, ...] | None:
    if found is None:
        return None
    return tuple(Difference(str(each["key"]), each["before"], each["after"]) for each in found)


def _texts(found: Any) -> tuple[str, ...]:
    return tuple(str(each) for each in found)


def _odd() -> SupervisorError:
    return OutcomeUnknown("the server's answer makes no sense", ASK_AGAIN)
