"""Lists the paths of the API, with the parameters of each: requests are matched by it (``api.service``), and the
description is made of it (``api.openapi``).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from supervisor.api import documents
from supervisor.errors import NotFound
from supervisor.operations.log_parts import CURSOR_PATTERN
from supervisor.operations.names import known_name

PREFIX: Final = "/api/v1"
NAME: Final = "{name}"
FOLLOW_ATTEMPT, FOLLOW_JOB = "attempt", "job"
UID_HEADER, ATTEMPT_HEADER, PATH_HEADER = "Log-Uid", "Log-Attempt", "Log-Path"
SOURCE_HEADER: Final = "Log-Source"
"""It says where the output comes from. If that is ``host``, Log-Path is a file there; if ``store``, it is the key of what
was uploaded."""
SOURCE_HOST, SOURCE_STORE = "host", "store"
LOST_HEADER: Final = "Log-Lost"
"""The files in which the client had read are gone: some output is missing before this piece."""
UNTIL_HEADER: Final = "Log-Uploaded-Until"
"""The store has only what the attempt wrote until then, a time in UTC."""
HOST_HEADER: Final = "Log-Host"
"""It goes with that: the host that has the rest, if it is known."""
LOG_HEADERS: Final = (
    "Link",
    UID_HEADER,
    ATTEMPT_HEADER,
    PATH_HEADER,
    SOURCE_HEADER,
    LOST_HEADER,
    UNTIL_HEADER,
    HOST_HEADER,
)
EVENTS_PATH: Final = f"{PREFIX}/events"
EVENT_STREAM: Final = "text/event-stream"
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
    """Describes a path below the prefix. ``document`` is the type of its answer, or None for any object; ``is_text`` says
    that it answers with text, ``events`` has the types of what the events say by name, if it answers with events."""

    operation: str
    path: str
    summary: str
    document: Any
    parameters: tuple[QueryParameter, ...] = ()
    is_text: bool = False
    events: tuple[tuple[str, Any], ...] = ()

    @property
    def takes_name(self) -> bool:
        return NAME in self.path


_VERBOSE = QueryParameter("verbose", "Whether also what it rests on is told: true or false.", _BOOLEAN)
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
    Route(
        "explainJobScreen",
        f"/jobs/{NAME}/explain/screen",
        "What explain prints of a job, in English, with times in UTC.",
        documents.ExplainScreenDocument,
        (_VERBOSE,),
    ),
    Route(
        "explainScreen",
        "/explain/screen",
        "What explain prints of all jobs, in English, with times in UTC.",
        documents.ExplainScreenDocument,
        (_VERBOSE,),
    ),
    Route("top", "/top", "What drivers take, and what hosts offer, as top prints it.", documents.TopDocument),
    Route("hosts", "/hosts", "The supervisors, as status prints them.", list[documents.HostDocument]),
    Route(
        "status",
        "/status",
        "The cluster. While ZooKeeper does not answer, what is not known is null.",
        documents.ClusterDocument,
    ),
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


def path_of_logs(name: str) -> str:
    """Returns the path of the logs of a job."""
    return f"{PREFIX}/jobs/{name}/logs"


def path_of_stacks(name: str) -> str:
    """Returns the path of the thread dumps of a job."""
    return f"{PREFIX}/jobs/{name}/stacks"


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
