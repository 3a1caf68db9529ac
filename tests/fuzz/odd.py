"""Odd records: a value somewhere in one is another. Whether it can still be decoded is not asked."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from typing import Any

NUMBERS: tuple[Any, ...] = (
    -1,
    0,
    1,
    2**31,
    2**53,
    2**63,
    10**400,
    -(10**400),
    -1.0,
    0.5,
    1e15,
    1e308,
    -1e308,
    1e-308,
)
WORDS: tuple[str, ...] = (
    "",
    "x/y",
    "..",
    "../../tmp",
    "\u2028",
    "\x00",
    "s3a://b/c",
    "relative",
    "file:///",
    "file:relative",
    "a b 5",
    "q 99999999999999999999999",
    "z" * 500,
    "claimed",
    "draining",
    "exited",
    "vacant",
    "dirty",
    "failed",
    "2026-13-99",
)
OTHERS: tuple[Any, ...] = (None, True, [], {}, [[]], [None], {"extra": 1}, ["x"], ["a b 5"])


def odd_value(rng: random.Random, before: Any, names: tuple[str, ...]) -> Any:
    """Mostly of the type that was there. ``names``: of other jobs and hosts, uids among them."""
    kind = rng.random()
    if kind < 0.15:
        return rng.choice(OTHERS)
    if isinstance(before, bool):
        return not before
    if isinstance(before, int | float):
        return rng.choice(NUMBERS)
    if isinstance(before, str):
        return rng.choice(WORDS + names)
    if isinstance(before, list) and before and kind < 0.5:
        return before * rng.choice((0, 3, 20))
    return rng.choice(NUMBERS + WORDS + OTHERS)


def odd_record(rng: random.Random, data: bytes, names: tuple[str, ...]) -> bytes:
    """``data`` with one to three odd values; now and then no JSON, or deeper than any."""
    kind = rng.random()
    if kind < 0.02:
        return rng.choice((b"", b"{", b"[" * 2000 + b"]" * 2000, b"null", b"\xff", b'{"v":2}', b"NaN"))
    body = json.loads(data)
    for _ in range(rng.choice((1, 1, 1, 2, 3))):
        places = [*_places(body)]
        place, key = rng.choice(places)
        if rng.random() < 0.05 and isinstance(place, dict):
            del place[key]
        else:
            place[key] = odd_value(rng, place[key], names)
    return json.dumps(body).encode()


def _places(body: Any) -> Iterator[tuple[Any, Any]]:
    for key, value in list(
        body.items() if isinstance(body, dict) else enumerate(body) if isinstance(body, list) else ()
    ):
        yield body, key
        yield from _places(value)
