"""Holds an answer as it is sent: its document is encoded once, and compressed once, for all who ask for the same."""

from __future__ import annotations

import gzip
import re
import threading
from dataclasses import replace
from typing import Final

from supervisor.api.responses import ApiResponse, unless_known

PACKED_MIN_BYTES: Final = 1024
"""What is smaller fits into one packet in any case."""
LEVEL: Final = 1
"""Lists of jobs are a twentieth of their size with it, and better levels take several times as long for a little more."""
_GZIP: Final = re.compile(r"\s*(?:gzip|x-gzip|\*)\s*(?:;\s*q\s*=\s*([0-9.]+)\s*)?", re.IGNORECASE)


class EncodedAnswer:
    """``plain`` is the answer with its tag. It may be used by many threads at once."""

    def __init__(self, plain: ApiResponse) -> None:
        self._plain = replace(plain, headers={**plain.headers, "Vary": "Accept-Encoding"})
        self._lock = threading.Lock()
        self._packed: ApiResponse | None = None

    def for_client(self, accept_encoding: str | None, if_none_match: str | None) -> ApiResponse:
        """Returns the answer as a client takes it, by its headers of these names, or 304 if it has that already."""
        is_packed = takes_gzip(accept_encoding) and len(self._plain.body) >= PACKED_MIN_BYTES
        return unless_known(self._compressed() if is_packed else self._plain, if_none_match)

    def _compressed(self) -> ApiResponse:
        """Returns it compressed. Its tag is another one: a tag names bytes."""
        with self._lock:
            if self._packed is None:
                body = gzip.compress(self._plain.body, LEVEL, mtime=0)
                tag = f'{self._plain.headers["ETag"][:-1]}-gzip"'
                headers = {**self._plain.headers, "Content-Encoding": "gzip", "ETag": tag}
                self._packed = replace(self._plain, body=body, headers=headers)
            return self._packed


def takes_gzip(accept_encoding: str | None) -> bool:
    """Says whether the value of the header Accept-Encoding lets an answer be compressed."""
    for part in (accept_encoding or "")[:1000].split(","):
        found = _GZIP.fullmatch(part)
        if found is not None:
            return found[1] is None or found[1].strip("0.") != ""
    return False
