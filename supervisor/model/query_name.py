"""Says what a query is called for people. Pure, stdlib only; used wherever one is named."""

from __future__ import annotations

import re
from typing import Final

_ID: Final = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
ID_CHARS: Final = 8


def query_name(name: str | None, query_id: str | None = None) -> str:
    """Returns the name of a query; of one without a name, what tells it from others. Reports of such a query give its id
    for the name."""
    if name and name != query_id and _ID.fullmatch(name) is None:
        return name
    identity = query_id or name
    return f"unnamed (id {identity[:ID_CHARS]})" if identity else "unnamed"
