"""Answers with a thread dump of a driver that runs under this supervisor, and says of any other which host has it, as
``api.log_answers`` does for logs.

One dump is one request: several of them, some seconds apart, are asked for by the client. A dump holds up a JVM for some
milliseconds, so few are taken at once.
"""

from __future__ import annotations

import threading
from typing import Final
from urllib.parse import quote

from supervisor.api.paths import ATTEMPT_HEADER, UID_HEADER
from supervisor.api.responses import ApiResponse, RequestQuery
from supervisor.api.shared_reads import AGAIN, BUSY, SharedReads
from supervisor.errors import Unreachable
from supervisor.model.diagnostics import KINDS
from supervisor.operations.stacks import running_driver, thread_dumps

AT_ONCE_MAX: Final = 2
TEXT: Final = "text/plain; charset=utf-8"


class StacksAnswers:
    """Answers from the processes of this host, and from what ``reads`` reads. It may be used by many threads at once."""

    def __init__(self, reads: SharedReads) -> None:
        self._reads = reads
        self._free = threading.BoundedSemaphore(AT_ONCE_MAX)

    def answer(self, query: RequestQuery, name: str) -> ApiResponse:
        """Returns a thread dump. Raises SupervisorError, among them OutputElsewhere."""
        of = query.text("of")
        driver = self._reads.get(("stacks", name), lambda context: running_driver(context, name))
        if not self._free.acquire(blocking=False):
            raise Unreachable(BUSY, AGAIN)
        try:
            text = b"".join(thread_dumps(driver, 1, 0.0, KINDS if of is None else (of,)))
        finally:
            self._free.release()
        headers = {UID_HEADER: quote(driver.uid), ATTEMPT_HEADER: str(driver.attempt)}
        return ApiResponse(200, text, headers, TEXT)
