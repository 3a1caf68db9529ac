"""Lists the paths of the API, with the parameters of each: requests are matched by it (``api.service``), and the
description is made of it (``api.openapi``).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from supervisor.api import documents
from supervisor.errors import NotFound
from supervisor.operations.names import known_name

PREFIX: Final = "/api/v1"
NAME: Final = "{name}"
_BOOLEAN: Final = "true|false"


@dataclass(frozen=True)
class QueryParameter:
    """Describes a parameter of a query. ``pattern`` is what a value must match as a whole; ``repeats`` says whether
    there may be several."""

    name: str
    description: str
    pattern: str | None = None
    repeats: bool = False


@dataclass(frozen=True)
class Route:
    """Describes a path below the prefix. ``document`` is the type of its answer, or None for any object."""

    operation: str
    path: str
    summary: str
    document: Any
    parameters: tuple[QueryParameter, ...] = ()

    @property
    def takes_name(self) -> bool:
        return NAME in self.path


_ALL = QueryParameter("all", "Whether every submission that is kept is listed: true or false.", _BOOLEAN)

ROUTES: Final = (
    Route(
        "jobs",
        "/jobs",
        "The jobs, as list prints them: by name, of each the live submission, or the newest if it failed.",
        list[documents.JobDocument],
        (
            _ALL,
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
    Route("job", f"/jobs/{NAME}", "One job, as show prints it.", documents.JobDetailDocument),
    Route(
        "history",
        f"/jobs/{NAME}/history",
        "What happened to a job, newest last, as history prints it.",
        documents.HistoryDocument,
        (_ALL, QueryParameter("uid", "Of this submission; else of the live one, or of the newest.")),
    ),
    Route(
        "explainJob",
        f"/jobs/{NAME}/explain",
        "What becomes of a job, and why, as explain prints it.",
        documents.ExplainJobDocument,
    ),
    Route(
        "explain",
        "/explain",
        "What becomes of all jobs that do not simply run, most urgent first.",
        documents.ExplainDocument,
    ),
    Route("hosts", "/hosts", "The supervisors, as status prints them.", list[documents.HostDocument]),
    Route(
        "status",
        "/status",
        "The cluster. While ZooKeeper does not answer, what is not known is null.",
        documents.ClusterDocument,
    ),
    Route("openapi", "/openapi.json", "This description.", None),
)


def route_of(path: str) -> tuple[Route, str]:
    """Returns the route of a path, and the name in it, which is checked, or an empty one. Raises NotFound."""
    parts = path.split("/")
    for route in ROUTES:
        wanted = f"{PREFIX}{route.path}".split("/")
        if len(wanted) == len(parts) and all(
            want in (NAME, part) for want, part in zip(wanted, parts, strict=True)
        ):
            name = next((part for want, part in zip(wanted, parts, strict=True) if want == NAME), None)
            return route, "" if name is None else known_name(name)
    raise NotFound(f"nothing is at {path[:100]!r}", f"{PREFIX}/openapi.json lists what there is")
