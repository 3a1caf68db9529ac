"""Lists the paths of the API, with the parameters of each: requests are matched by it (``api.service``), and the
description is made of it (``api.openapi``).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from supervisor.api import documents
from supervisor.api.job_document import JobDetailRequest
from supervisor.api.paths import FOLLOW_ATTEMPT, FOLLOW_JOB, NAME, PREFIX, SOURCE_STORE
from supervisor.api.request_query import parameters_of
from supervisor.errors import NotFound
from supervisor.operations.cluster_status import StatusRequest
from supervisor.operations.explain_document import ExplainAllRequest, ExplainJobRequest
from supervisor.operations.explain_screen import ExplainAllScreenRequest, ExplainJobScreenRequest
from supervisor.operations.history import HistoryRequest
from supervisor.operations.log_parts import CURSOR_PATTERN
from supervisor.operations.names import known_name
from supervisor.operations.requests import BOOLEAN, QueryParameter, ReadRequest
from supervisor.operations.top import TopRequest


@dataclass(frozen=True)
class Route:
    """Describes a path below the prefix. ``document`` is the type of its answer, or None for any object; ``is_text`` says
    that it answers with text, ``events`` has the types of what the events say by name, if it answers with events.
    ``request`` is what is carried out for the answer, where that is one of ``operations``."""

    operation: str
    path: str
    summary: str
    document: Any
    parameters: tuple[QueryParameter, ...] = ()
    is_text: bool = False
    events: tuple[tuple[str, Any], ...] = ()
    request: type[ReadRequest[Any]] | None = None

    @classmethod
    def of(cls, request: type[ReadRequest[Any]], document: Any) -> Route:
        """Returns the path at which ``request`` is answered with a ``document``."""
        parameters = parameters_of(request)
        return cls(request.operation, request.path, request.summary, document, parameters, request=request)

    @property
    def takes_name(self) -> bool:
        return NAME in self.path


ROUTES: Final = (
    Route(
        "jobs",
        "/jobs",
        "The jobs, as list prints them: by name, of each the live submission, or the newest if it failed.",
        list[documents.JobDocument],
        (
            QueryParameter("all", "Whether every submission that is kept is listed: true or false.", BOOLEAN),
            QueryParameter("name", "Only jobs of these names.", repeats=True),
            QueryParameter(
                "selector", "Only jobs with this label, like team=web; several must all hold.", repeats=True
            ),
            QueryParameter(
                "limit",
                "At most so many, from 1 to 99999; the header Link has the next page. "
                "Submissions of one name stay together.",
                "[1-9][0-9]{0,4}",
            ),
            QueryParameter("after", "Only jobs whose names come after this one."),
        ),
    ),
    Route.of(JobDetailRequest, documents.JobDetailDocument),
    Route.of(HistoryRequest, documents.HistoryDocument),
    Route(
        "logs",
        f"/jobs/{NAME}/logs",
        "What the driver of a job wrote, as its bytes are, at most 1 MiB; the header Link has the rest. The supervisor that "
        "ran the attempt answers it; if it is down, or has it no more, what was uploaded to the store is given.",
        None,
        (
            QueryParameter("attempt", "Of this attempt; else of the latest.", "[1-9][0-9]{0,8}"),
            QueryParameter(
                "uid", "Of this submission; else of the live one, or of the newest.", "[0-9a-z-]{1,64}"
            ),
            QueryParameter("tail", "Only the last so many lines, up to 99999.", "[0-9]{1,5}"),
            QueryParameter(
                "since",
                "Only what was written within this time, like 10m, by the times of files and of lines.",
                "[0-9]{1,9}(ms|s|m|h|d)",
            ),
            QueryParameter(
                "source", "store: what was uploaded, also where the host that has more is up.", SOURCE_STORE
            ),
            QueryParameter("offset", "Where to go on, as Link has it.", CURSOR_PATTERN),
            QueryParameter(
                "follow",
                "Link names what comes later, too: until this attempt has ended (attempt), or with the next attempts (job).",
                f"{FOLLOW_ATTEMPT}|{FOLLOW_JOB}",
            ),
        ),
        is_text=True,
    ),
    Route(
        "stacks",
        f"/jobs/{NAME}/stacks",
        "A thread dump of the driver of a job, as text. The supervisor that runs the attempt answers it.",
        None,
        (
            QueryParameter(
                "of", "Only of JVMs (jvm), or only of Python (python); else of both.", "jvm|python"
            ),
        ),
        is_text=True,
    ),
    Route.of(ExplainJobRequest, documents.ExplainJobDocument),
    Route.of(ExplainAllRequest, documents.ExplainDocument),
    Route.of(ExplainJobScreenRequest, documents.ExplainScreenDocument),
    Route.of(ExplainAllScreenRequest, documents.ExplainScreenDocument),
    Route.of(TopRequest, documents.TopDocument),
    Route("hosts", "/hosts", "The supervisors, as status prints them.", list[documents.HostDocument]),
    Route.of(StatusRequest, documents.ClusterDocument),
    Route(
        "events",
        "/events",
        "What changes from now on, as server-sent events, until the client leaves. With the header Last-Event-ID it goes on "
        "after that event.",
        None,
        events=(
            ("job", documents.JobEventDocument),
            ("changed", documents.ChangedEventDocument),
            ("reset", documents.ResetEventDocument),
        ),
    ),
    Route("openapi", "/openapi.json", "This description.", None),
)


def route_of(path: str) -> tuple[Route, str]:
    """Returns the route of a path, and the name in it, which is checked, or an empty one. Raises NotFound."""
    for route in ROUTES:
        name = name_at(route.path, path)
        if name is not None:
            return route, known_name(name) if route.takes_name else ""
    raise NotFound(f"nothing is at {path[:100]!r}", f"{PREFIX}/openapi.json lists what there is")


def name_at(template: str, path: str) -> str | None:
    """Returns the name of a job in ``path``, as it was sent, or an empty one; None if ``template``, a path below the
    prefix, is another one."""
    parts, wanted = path.split("/"), f"{PREFIX}{template}".split("/")
    if len(wanted) != len(parts) or not all(
        want in (NAME, part) for want, part in zip(wanted, parts, strict=True)
    ):
        return None
    return next((part for want, part in zip(wanted, parts, strict=True) if want == NAME), "")
