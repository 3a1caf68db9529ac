"""Keeps the outputs that were fetched from the store last, for the API: a client asks for one in pieces, and each of them
would fetch all of it anew.

What is behind the keys of an output never changes, so what is kept is what would be fetched. The files have no name, and few
are kept; ``api.log_pieces`` asks the store each time whether the output is there still.
"""

from __future__ import annotations

import os
import tempfile
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import IO, Final

from supervisor.clients.store.base import Store
from supervisor.clock import boottime_s
from supervisor.operations.log_parts import LogParts
from supervisor.operations.uploaded_output import UploadedLog, fetch_stored

KEPT_MAX: Final = 2
"""So many outputs are kept, of 17 MiB at most."""
KEPT_S: Final = 60.0
"""After so many seconds without a request, one is not kept any more, from the next request for any output on."""


@dataclass
class _Fetched:
    stream: IO[bytes]
    written_at_s: float
    used_at_s: float


class FetchedOutputs:
    """May be used by many threads at once."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._kept: dict[tuple[str, ...], _Fetched] = {}

    @contextmanager
    def open(self, store: Store, found: UploadedLog) -> Iterator[LogParts]:
        """Opens an output, and fetches it if it is not kept. Raises as ``fetch_stored`` does."""
        with ExitStack() as stack:
            kept = self._find(found, stack)
            if kept is None:
                stream = stack.enter_context(tempfile.TemporaryFile(buffering=0))
                kept = _Fetched(stream, fetch_stored(store, found, stream), boottime_s())
                self._keep(found, kept)
            yield LogParts.of_stored(kept.stream, kept.written_at_s)

    def _find(self, found: UploadedLog, stack: ExitStack) -> _Fetched | None:
        """Returns what is kept of an output, with a descriptor of its own, or None."""
        with self._lock:
            now_s = boottime_s()
            for names in [names for names, one in self._kept.items() if now_s - one.used_at_s > KEPT_S]:
                self._kept.pop(names).stream.close()
            kept = self._kept.get(found.names)
            if kept is None:
                return None
            kept.used_at_s = now_s
            return _Fetched(stack.enter_context(_again(kept.stream)), kept.written_at_s, now_s)

    def _keep(self, found: UploadedLog, fetched: _Fetched) -> None:
        with self._lock:
            if found.names in self._kept:  # another thread was faster
                return
            while len(self._kept) >= KEPT_MAX:
                oldest = min(self._kept, key=lambda names: self._kept[names].used_at_s)
                self._kept.pop(oldest).stream.close()
            self._kept[found.names] = _Fetched(
                _again(fetched.stream), fetched.written_at_s, fetched.used_at_s
            )


def _again(stream: IO[bytes]) -> IO[bytes]:
    return os.fdopen(os.dup(stream.fileno()), "rb", buffering=0)
