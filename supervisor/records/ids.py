"""Makes names that must never repeat: uids of submissions, ids of multis, claims, nonces. They are random;
stdlib only."""

from __future__ import annotations

import hashlib
import re
import secrets

from supervisor.clock import wall_s

_ALPHABET = "0123456789abcdefghjkmnpqrstvwxyz"
_MADE = re.compile(f"[{_ALPHABET}]{{12}}-[0-9a-f]{{8}}")


def new_uid(name: str) -> str:
    """Returns ``<12 characters>-<8 hex of sha256(name)>``, new for every submission.

    The first seven characters grow with the wall clock, so listings read in order of submission (display
    only); five are random; the suffix lets the results of one name be picked out of a listing without reading
    them.
    """
    at_s = int(wall_s())
    stamp = "".join(_ALPHABET[(at_s >> shift) & 31] for shift in range(30, -1, -5))
    return stamp + "".join(secrets.choice(_ALPHABET) for _ in range(5)) + "-" + name_suffix(name)


def name_suffix(name: str) -> str:
    """Returns the part of a uid that its name decides."""
    return hashlib.sha256(name.encode()).hexdigest()[:8]


def may_be_of(uid: str, name: str) -> bool:
    """Returns False if ``uid`` was made, by ``new_uid``, for another name."""
    return _MADE.fullmatch(uid) is None or uid.endswith(name_suffix(name))


def new_op_id() -> str:
    """Returns the id of one multi, claim or nonce: 128 random bits in hex."""
    return secrets.token_hex(16)
