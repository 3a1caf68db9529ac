"""Answers the requests of the API: what ``-o json`` prints, from the operations of the command line.

``daemon.process.api_server`` calls it, with one request at a time in each of its threads, after it has checked the token.
What is read is shared and bounded (``api.shared_reads``). Names and values of a URL are hostile: a name is checked by
the rule of the command line before it leads to any znode, and nothing of a path is decoded.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, NamedTuple
from urllib.parse import parse_qs, quote, urlencode

from supervisor.api.encoded_answer import EncodedAnswer
from supervisor.api.events import EventFeed, read_cluster
from supervisor.api.log_answers import LogAnswers
from supervisor.api.openapi import openapi_document
from supervisor.api.paths import EVENT_STREAM, PREFIX
from supervisor.api.readings import jobs_reading
from supervisor.api.request_query import request_of
from supervisor.api.responses import (
    ApiResponse,
    RequestQuery,
    encoded,
    error_response,
    response_to,
    unless_known,
    with_tag,
)
from supervisor.api.routes import Route, route_of
from supervisor.api.shared_reads import SharedReads
from supervisor.api.stacks_answers import StacksAnswers
from supervisor.errors import InvalidInput, SupervisorError
from supervisor.logs import get_logger
from supervisor.model.job_row import JobRow
from supervisor.operations.cluster_status import Status, StatusRequest
from supervisor.operations.context import CommandContext
from supervisor.operations.job_list import JobList
from supervisor.operations.requests import QueryParameter, ReadRequest
from supervisor.operations.selection import selector_of

log = get_logger(__name__)

METHODS: Final = ("GET", "HEAD")
QUERY_MAX_FIELDS: Final = 64
VALUE_MAX_CHARACTERS: Final = 512


class ApiService:
    """Answers for one cluster, with what ``reads`` reads, and what drivers of this supervisor wrote below ``log_dir``. It
    may be used by many threads at once."""

    def __init__(self, reads: SharedReads, log_dir: Path) -> None:
        self._reads = reads
        self.events = EventFeed(lambda: read_cluster(reads))
        self._answers: Mapping[str, Callable[[RequestQuery, str], Any]] = {
            "jobs": self._jobs,
            "logs": LogAnswers(reads, log_dir).answer,
            "stacks": StacksAnswers(reads).answer,
            "hosts": self._hosts,
            "events": lambda _query, _name: ApiResponse(200, b"", kind=EVENT_STREAM),
            "openapi": lambda _query, _name: openapi_document(),
        }

    def close(self) -> None:
        """Ends the sessions and the streams. What is under way is answered with an error."""
        self.events.close()
        self._reads.close()

    def answer(
        self,
        method: str,
        target: str,
        if_none_match: str | None = None,
        accept_encoding: str | None = None,
    ) -> ApiResponse:
        """Returns the answer to a request for ``target``, which is path and query as they were sent. The others are
        headers of these names. Never raises."""
        path, _, query = target.partition("?")
        try:
            if method not in METHODS:
                return _method_refused(method, path)
            route, name = route_of(path)
            checked = _checked_query(route, query)
            if route.request is not None:
                wanted: Any = _wanted(request_of(route.request, name, checked))
            else:
                wanted = self._answers[route.operation](checked, name)
            if isinstance(wanted, ApiResponse):
                return wanted
            if isinstance(wanted, _Wanted):
                of = route.operation, tuple((key, *values) for key, values in checked.values.items())
                found = self._reads.derive(wanted.key, wanted.read, of, wanted.encoded)
            else:
                found = EncodedAnswer(tagged(wanted))
            return found.for_client(accept_encoding, if_none_match)
        except SupervisorError as error:
            return response_to(error)
        except Exception:  # the edge of a request
            log.exception("http_answer_failed", path=path[:100])
            return error_response(500, SupervisorError("internal error", "see the log of the supervisor"))

    def _jobs(self, query: RequestQuery, _name: str) -> _Wanted:
        every_uid = query.flag("all")
        names, selector = query.values.get("name"), query.values.get("selector")
        if names and selector:
            raise InvalidInput("give names of jobs, or a selector, not both")
        parsed = selector_of("selector", selector)
        limit = _limit(query.text("limit"))

        def page(listed: JobList) -> _Page:
            rows = [
                row
                for row in listed.rows
                if (not names or row.name in names) and (parsed is None or parsed.selects(row.labels))
            ]
            return _page(rows, limit, query)

        listing = jobs_reading(every_uid=every_uid)
        return _Wanted(listing.key, listing.read, page)

    def _hosts(self, _query: RequestQuery, _name: str) -> Any:
        return _wanted(StatusRequest(), _hosts_of)


def _method_refused(method: str, path: str) -> ApiResponse:
    """Returns the answer to a method that nothing is read with. Raises NotFound if there is nothing below the prefix."""
    if path.startswith(f"{PREFIX}/"):
        route_of(path)
    error = InvalidInput(f"the method {method[:20]} is not allowed", "use GET")
    return error_response(405, error, {"Allow": ", ".join(METHODS)})


def _hosts_of(status: Status) -> Any:
    document, error = status
    if error is not None:
        raise error
    return document["supervisors"]


# -- pages and tags -----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Wanted:
    """Says what is read for a request (``SharedReads.get``), and what document, or page of one, is made of it."""

    key: Hashable
    read: Callable[[CommandContext], Any]
    make: Callable[[Any], Any] = lambda document: document

    def encoded(self, result: Any) -> EncodedAnswer:
        return EncodedAnswer(tagged(self.make(result)))


def _wanted(request: ReadRequest[Any], make: Callable[[Any], Any] | None = None) -> _Wanted:
    """Returns what is read for ``request``; who asks for an equal one shares it."""
    return _Wanted(request, request.carry_out, make or request.document)


class _Page(NamedTuple):
    rows: list[dict[str, Any]]
    headers: dict[str, str]


def _page(rows: list[JobRow], limit: int | None, query: RequestQuery) -> _Page:
    """Returns the rows behind ``after``, at most ``limit`` of them; submissions of one name are not divided. Rows are
    sorted by their names."""
    after = query.text("after")
    if after is not None:
        rows = [row for row in rows if (row.name or "") > after]
    if limit is None or len(rows) <= limit:
        return _Page([row.document() for row in rows], {})
    last = rows[limit - 1].name
    cut = next((n for n in range(limit, len(rows)) if rows[n].name != last), len(rows))
    headers = {}
    if cut < len(rows):
        more = [(key, value) for key, values in query.values.items() if key != "after" for value in values]
        following = urlencode([*more, ("after", last or "")], quote_via=quote)
        headers["Link"] = f'<{PREFIX}/jobs?{following}>; rel="next"'
    return _Page([row.document() for row in rows[:cut]], headers)


def tagged(made: Any) -> ApiResponse:
    """Returns the answer with a document, or a page of one, and its tag."""
    headers = {}
    if isinstance(made, _Page):
        headers, made = made.headers, made.rows
    kept = {"Cache-Control": "private, no-cache", **headers}
    return with_tag(ApiResponse(200, encoded(made), kept))


def document_response(document: Any, if_none_match: str | None) -> ApiResponse:
    """Returns a document with its tag, or 304 without it if the client has it already."""
    return unless_known(tagged(document), if_none_match)


# -- what a URL may hold ------------------------------------------------------------------------------------------


def _checked_query(route: Route, query: str) -> RequestQuery:
    """Returns the parameters of a query. Raises InvalidInput for what the path does not take."""
    try:
        values = parse_qs(
            query,
            keep_blank_values=True,
            strict_parsing=bool(query),
            errors="strict",
            max_num_fields=QUERY_MAX_FIELDS,
        )
    except ValueError:
        raise InvalidInput("the query can't be read", "write it as NAME=VALUE&NAME=VALUE") from None
    known = {parameter.name: parameter for parameter in route.parameters}
    for name, given in values.items():
        parameter = known.get(name)
        if parameter is None:
            takes = f"it takes {', '.join(known)}" if known else "it takes none"
            raise InvalidInput(f"unknown parameter {name[:40]!r}", takes)
        _check_values(parameter, given)
    return RequestQuery(values)


def _check_values(parameter: QueryParameter, given: list[str]) -> None:
    if len(given) > 1 and not parameter.repeats:
        raise InvalidInput(f"{parameter.name} is given more than once", "give it once")
    for value in given:
        if parameter.pattern is not None and not re.fullmatch(parameter.pattern, value):
            raise InvalidInput(f"{parameter.name} can't be {value[:80]!r}", parameter.description)
        if len(value) > VALUE_MAX_CHARACTERS:
            raise InvalidInput(
                f"{parameter.name} is longer than {VALUE_MAX_CHARACTERS} characters", "shorten it"
            )


def _limit(text: str | None) -> int | None:
    return None if text is None else int(text)
