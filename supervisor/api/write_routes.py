"""Lists the paths of the API that write, with the body of each: requests are matched by it (``daemon.process.api_server``),
and the description is made of it (``api.openapi``)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from supervisor.api import documents, write_requests
from supervisor.api.routes import NAME, name_at
from supervisor.settings.sections import Section

BODY_MAX_BYTES: Final = 64 * 1024
BODY_S: Final = 5.0
BUNDLE_S: Final = 60.0
JOB_ANSWER_S: Final = 60.0
"""A command reports within so long that ZooKeeper does not answer; a write that takes longer goes on by itself."""
APPLY_ANSWER_S: Final = 300.0


@dataclass(frozen=True)
class WriteRoute:
    """Describes a path below the prefix to which a write is posted. ``request`` is the type of its body, and ``document``
    that of its answer. The body has at most ``body_max_bytes``, and comes within ``body_s``; it is answered within
    ``answer_s``."""

    operation: str
    path: str
    summary: str
    request: type[Section]
    document: Any
    body_max_bytes: int = BODY_MAX_BYTES
    body_s: float = BODY_S
    answer_s: float = JOB_ANSWER_S

    @property
    def takes_name(self) -> bool:
        return NAME in self.path


WRITE_ROUTES: Final = (
    WriteRoute(
        "cancel",
        f"/jobs/{NAME}/cancel",
        "Cancels a job, as cancel does.",
        write_requests.CancelRequest,
        documents.DoneDocument,
    ),
    WriteRoute(
        "suspend",
        f"/jobs/{NAME}/suspend",
        "Stops a job and keeps it registered, as suspend does.",
        write_requests.SuspendRequest,
        documents.DoneDocument,
    ),
    WriteRoute(
        "resume",
        f"/jobs/{NAME}/resume",
        "Runs a suspended, failed or quarantined job again, as resume does.",
        write_requests.ResumeRequest,
        documents.DoneDocument,
    ),
    WriteRoute(
        "restart",
        f"/jobs/{NAME}/restart",
        "Starts a new attempt, as restart does.",
        write_requests.RestartRequest,
        documents.DoneDocument,
    ),
    WriteRoute(
        "apply",
        "/apply",
        "Makes jobs what specs say, as apply does. If anything is wrong with any of them, nothing is done.",
        write_requests.ApplyRequest,
        documents.ApplyDocument,
        write_requests.BUNDLE_MAX_BYTES,
        BUNDLE_S,
        APPLY_ANSWER_S,
    ),
)


def write_route_of(path: str) -> tuple[WriteRoute, str] | None:
    """Returns the route of a path, and the name in it as it was sent, or an empty one; None if nothing is written there."""
    for route in WRITE_ROUTES:
        name = name_at(route.path, path)
        if name is not None:
            return route, name
    return None
