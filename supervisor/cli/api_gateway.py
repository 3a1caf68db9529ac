"""Has the API of a supervisor carry out requests: then neither ZooKeeper nor the store is reached from here."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, NoReturn

from supervisor.api.client import ApiClient
from supervisor.api.job_document import JobDetailRequest
from supervisor.api.write_client import WriteClient
from supervisor.cli.api_client import api_of
from supervisor.cli.gateway import Gateway, needs_registry
from supervisor.cli.output import notice
from supervisor.errors import NotFound
from supervisor.model.job_row import JobRow
from supervisor.model.labels import Selector
from supervisor.model.records import Promotion
from supervisor.operations.job_list import JobList, WantedJobs
from supervisor.operations.jobs import Done
from supervisor.operations.names import known_name
from supervisor.operations.requests import Answer, JobRequest, LocalRequest, ReadRequest
from supervisor.operations.selection import Jobs, Selected, named, with_replaced

if TYPE_CHECKING:
    from supervisor.cli.options import Chosen
    from supervisor.operations.listing import JobsRequest


class ApiGateway(Gateway):
    """Asks ``api``, whose address was given as ``server``. If the command ``writes``, it raises InvalidInput without TLS,
    before anything is asked."""

    def __init__(self, api: ApiClient, server: str, *, writes: bool = False) -> None:
        self._api, self._server = api, server
        self._writes = WriteClient(api) if writes else None

    def read(self, request: ReadRequest[Answer]) -> Answer:
        return self._api.read(request)

    def job_lister(self, request: JobsRequest, *, with_pause: bool) -> Callable[[], JobList]:
        return lambda: self._api.jobs(request.wanted, with_pause=with_pause)

    def read_here(self, _request: LocalRequest[Answer]) -> Answer | None:
        return None

    def write(self, request: JobRequest) -> Done:
        remote = (self._writes or WriteClient(self._api)).write(request)
        for sentence in remote.notices:
            notice(sentence)
        return remote.done

    def warn_of_pause(self, *_changes: Done) -> None:
        """Says nothing: the server has said it with each of them."""

    def newest(self, names: Sequence[str]) -> list[Selected | NotFound]:
        return [self._newest(name) for name in names]

    def _newest(self, name: str) -> Selected | NotFound:
        try:
            return replace(named(name), uid=str(self.read(JobDetailRequest(known_name(name)))["uid"] or ""))
        except NotFound as error:
            return error

    def labelled(self, selector: Selector) -> Jobs:
        rows = self._api.jobs(WantedJobs(lambda _row: True), with_pause=False).rows
        found = with_replaced(_of_row(row) for row in rows if row.name and row.uid is not None)
        unreadable = tuple(row.name for row in rows if row.name and row.uid is None)
        chosen = {row.name for row in rows if selector.selects(row.labels)}
        return Jobs(tuple(job for job in found if job.name in chosen), unreadable)

    def registry(self, option: str) -> NoReturn:
        raise needs_registry(option, self._server)


def open_api(chosen: Chosen, *, writes: bool) -> ApiGateway:
    """Returns what asks the server that was chosen. Raises InvalidInput; nothing is asked yet."""
    api = api_of(chosen)
    assert api is not None
    return ApiGateway(api, chosen.server_url or "", writes=writes)


def _of_row(row: JobRow) -> Selected:
    """Returns the job of a row. One that has failed has no reference, and nothing is desired of it."""
    place = row.in_place_of
    return Selected(
        row.name or "",
        row.uid or "",
        None if row.desired is None else 0,
        None,
        row.desired == "suspended",
        promotion=None
        if place is None
        else Promotion(over=place["name"], uid=place["uid"], by="", at="", done=True),
    )
