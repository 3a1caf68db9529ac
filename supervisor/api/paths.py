"""Names what stands in the addresses and headers of the API, for those who ask it and those who answer."""

from __future__ import annotations

from typing import Final

PREFIX: Final = "/api/v1"
NAME: Final = "{name}"
"""It stands in the path of what is about one job."""
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


def path_of_logs(name: str) -> str:
    """Returns the path of the logs of a job."""
    return f"{PREFIX}/jobs/{name}/logs"


def path_of_stacks(name: str) -> str:
    """Returns the path of the thread dumps of a job."""
    return f"{PREFIX}/jobs/{name}/stacks"
