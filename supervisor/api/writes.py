"""Carries out the writes of the API by the operations of the command line: the same refusals, the same words, the same
lines of the audit.

``daemon.process.api_server`` calls it, after it has checked that an operator's token was shown over TLS. Who asks is what
the supervisor knows itself: the name of the token's file, and the address of the connection. A body is hostile: pydantic
judges it (``api.write_routes``), and what an apply brings is kept apart from this host (``operations.bundle``).
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final

from supervisor.api.bounded_writes import BoundedWrites, NotBegun, RepeatedWrite, SameUnderWay, WriteOnce
from supervisor.api.bundle_slot import BundleSlot
from supervisor.api.responses import (
    HTTP_STATUS,
    RETRY_AFTER_S,
    ApiResponse,
    encoded,
    error_response,
    response_to,
)
from supervisor.api.write_routes import WriteRoute
from supervisor.errors import Complaint, InvalidInput, SupervisorError, Unreachable
from supervisor.logs import get_logger
from supervisor.operations.apply import Applied, exit_code_of
from supervisor.operations.author import operator_as_author
from supervisor.operations.bundle import AppliedBundle, ApplyRequest
from supervisor.operations.context import CommandContext, require_submitted
from supervisor.operations.pause_notice import warn_of_pause
from supervisor.operations.requests import JobRequest, WriteRequest

log = get_logger(__name__)

WRITERS: Final = 2
NOTICES_MAX: Final = 100


@dataclass(frozen=True, slots=True)
class AskedOverApi:
    """Is one request: ``body`` was posted to ``route``, whose path has ``name``, by ``operator`` from ``address``, with
    ``key``."""

    route: WriteRoute
    name: str
    body: bytes | bytearray
    key: str
    operator: str
    address: str

    @property
    def once(self) -> WriteOnce:
        said = begun_digest(self.route, self.name)
        said.update(self.body)
        return WriteOnce(self.operator, self.key, said.digest())


def begun_digest(route: WriteRoute, name: str) -> Any:
    """Returns the digest of a request to ``route``, whose path has ``name``, to which its body is to be added."""
    return hashlib.sha256(f"{route.operation}\0{name}\0".encode())


class ApiWrites:
    """Writes to one cluster, with what ``open_context`` opens. One bundle is held at a time: whoever reads one takes the
    slot for it before. It may be used by many threads at once."""

    def __init__(self, open_context: Callable[[], AbstractContextManager[CommandContext]]) -> None:
        self._of_jobs = BoundedWrites(open_context, WRITERS, "api-write")
        self._of_bundles = BoundedWrites(open_context, 1, "api-apply")  # no stop waits for an apply
        self._slot = BundleSlot()

    def close(self) -> None:
        """Drops what has not begun."""
        self._of_jobs.close()
        self._of_bundles.close()

    def answer(self, asked: AskedOverApi) -> ApiResponse:
        """Returns the answer, when what was asked for is durable. Never raises."""
        route = asked.route

        def answer_of() -> ApiResponse:
            request = route.request_of(asked.name, asked.body)
            lane = self._of_bundles if isinstance(request, ApplyRequest) else self._of_jobs
            return lane.carry_out(asked.once, partial(_result_of, asked, request), route.answer_s)

        return _answered(route, answer_of)

    # -- bundles ------------------------------------------------------------------------------------------------------

    def take_bundle_slot(self, operator: str, key: str) -> ApiResponse | RepeatedWrite | None:
        """Takes the slot for the bundle of a request. Returns None if it is taken: then ``give_bundle_slot_back`` is to be
        called. Else it returns what was sent before with this key, which needs no slot, or the answer to who may try
        again."""
        repeated = self._of_bundles.repeat_of(operator, key)
        if repeated is not None:
            return _under_way(SameUnderWay()) if repeated.has_enough_waiters() else repeated
        if self._slot.take((operator, key)):
            return None
        if self._slot.is_of((operator, key)):
            return _under_way(SameUnderWay())
        return error_response(
            429, Unreachable("nothing was done: another apply is being carried out", "try again in a moment")
        )

    def give_bundle_slot_back(self, operator: str, key: str) -> None:
        """Frees the slot as soon as the request of its holder is carried out: until then its bundle is held."""
        self._of_bundles.when_over((operator, key), self._slot.give_back)

    def answer_again(self, repeated: RepeatedWrite, route: WriteRoute, once: WriteOnce) -> ApiResponse:
        """Returns the answer to a request that was sent before. Never raises."""
        return _answered(route, lambda: repeated.answer(once, route.answer_s))


def _under_way(error: SameUnderWay) -> ApiResponse:
    return error_response(409, error, {"Retry-After": str(RETRY_AFTER_S)})


def _answered(route: WriteRoute, answer: Callable[[], ApiResponse]) -> ApiResponse:
    """Returns the answer, or that to its error."""
    try:
        return answer()
    except NotBegun as error:
        return error_response(429, error)
    except SameUnderWay as error:
        return _under_way(error)
    except SupervisorError as error:
        return response_to(error)
    except Exception:  # the edge of a request
        log.exception("http_answer_failed", path=route.path)
        return error_response(500, SupervisorError("internal error", "see the log of the supervisor"))


def _result_of(asked: AskedOverApi, request: WriteRequest[Any], kept: CommandContext) -> ApiResponse:
    """Returns the answer to ``request``, in the name of its operator. Errors about a job are answers, so that the same
    key gets them again. Raises Unreachable and AccessDenied where nothing was done."""
    notices: list[str] = []
    author = operator_as_author(asked.operator, asked.address)
    context = replace(kept, warn=notices.append, acting_for=author)
    if isinstance(request, ApplyRequest):
        return _applied(request.carry_out(context), notices)
    assert isinstance(request, JobRequest)
    require_submitted(context, request.name)
    done = request.carry_out(context)
    warn_of_pause(context, done)
    document = {"name": done.name, "uid": done.uid, "did": done.did.value, "notices": notices[:NOTICES_MAX]}
    return ApiResponse(200, encoded(document))


def _applied(bundle: AppliedBundle, notices: list[str]) -> ApiResponse:
    applied, shown = bundle.applied, bundle.shown
    worst = max(applied, key=lambda one: one.error.exit_code if one.error is not None else 0)
    said = Complaint() if worst.error is None else worst.error.complaint
    exit_code = exit_code_of(applied)
    answer: Mapping[str, Any] = {
        "applied": [_document(one, shown) for one in applied],
        "exit_code": exit_code,
        "error": shown(said.what) or None,
        "remedy": shown(said.remedy) or None,
        "notices": [shown(notice) for notice in notices[:NOTICES_MAX]],
    }
    return ApiResponse(200 if exit_code == 0 else HTTP_STATUS.get(exit_code, 500), encoded(answer))


def _document(one: Applied, shown: Callable[[str], str]) -> dict[str, Any]:
    error = one.error
    others = error.others if isinstance(error, InvalidInput) else ()
    complaints = [] if error is None else [shown(text) for text in (str(error), *others)]
    document = one.document()
    return {**document, "why": shown(document["why"]), "complaints": complaints}
