"""Is the body of an upload, which reports to its budget how far it was sent. Only ``s3_session`` and
``s3_objects`` call it.

botocore reads a body once to sign it, before it is sent: that is no progress. So positions count only from
botocore's ``before-send`` on, and only further than ever before.
"""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

from supervisor.clients.store.deadline import Budget
from supervisor.errors import InvalidInput


class Upload(io.BufferedReader):
    """Is a file open for reading. Once ``sending`` is set, what is read is sent."""

    def __init__(self, raw: io.RawIOBase, size_bytes: int, budget: Budget) -> None:
        super().__init__(raw)
        self._size_bytes = size_bytes
        self._budget = budget
        self.sending = False

    @classmethod
    def of(cls, source: Path, size_bytes: int, budget: Budget) -> Upload:
        """Opens ``source``. ``size_bytes`` is the size that was announced; a file that grows is not sent
        further. Raises ``InvalidInput``."""
        try:
            return cls(io.FileIO(source), size_bytes, budget)
        except OSError as error:
            raise InvalidInput(f"{source} cannot be read: {error.strerror or error}") from None

    def read(self, size: int | None = -1, /) -> bytes:
        position = self.tell()
        if self.sending:
            self._budget.moved("sent", position)
        left = max(0, self._size_bytes - position)
        return super().read(left if size is None or size < 0 else min(size, left))


def arm(client: Any) -> None:
    """Lets ``client`` mark the uploads when they are being sent."""
    client.meta.events.register("before-send.s3.PutObject", _sending)


def _sending(request: Any, **_: Any) -> None:
    if isinstance(request.body, Upload):
        request.body.sending = True
