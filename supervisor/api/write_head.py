"""Judges the headers of a request that writes, before anything of its body is read. It is pure."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from supervisor.api.responses import ApiResponse, error_response
from supervisor.errors import InvalidInput

KEY_HEADER: Final = "Idempotency-Key"
KEY_PATTERN: Final = "[A-Za-z0-9_-]{16,64}"
_LENGTH: Final = re.compile(r"[0-9]{1,10}")


@dataclass(frozen=True, slots=True)
class WriteHead:
    """Holds what the headers say: ``length`` of the body in bytes, and the ``key`` by which the request is known again."""

    length: int
    key: str


def judge_write_head(
    values_of: Callable[[str], Sequence[str]], body_max_bytes: int
) -> WriteHead | ApiResponse:
    """Returns what the headers say, or why the request is refused. ``values_of`` returns all values of a header.

    The type of the body must be JSON: a form of another site's page can't send that, nor the header with the key.
    """
    kind = _one(values_of("Content-Type")).partition(";")[0].strip().lower()
    if kind != "application/json":
        return _refused(415, "the body must be JSON", "send Content-Type: application/json")
    if values_of("Transfer-Encoding") or values_of("Content-Encoding"):
        return _refused(411, "the body must be sent as it is, with its length", "send Content-Length")
    length = _one(values_of("Content-Length")).strip()
    if not _LENGTH.fullmatch(length):
        return _refused(411, "the length of the body is not known", "send Content-Length, once")
    if int(length) > body_max_bytes:
        return _refused(
            413,
            f"the body is larger than {body_max_bytes} bytes",
            "put large files into the store or on the hosts, and name them there",
        )
    key = _one(values_of(KEY_HEADER)).strip()
    if not re.fullmatch(KEY_PATTERN, key):
        return _refused(
            400,
            f"the header {KEY_HEADER} is missing, or is not valid",
            "send it once, with 16 to 64 letters, digits, dashes and underscores that are new for each request; "
            "cat /proc/sys/kernel/random/uuid prints such a key",
        )
    return WriteHead(int(length), key)


def _one(values: Sequence[str]) -> str:
    return values[0] if len(values) == 1 else ""


def _refused(code: int, what: str, remedy: str) -> ApiResponse:
    return error_response(code, InvalidInput(what, remedy))
