"""Says which text of a driver may be shown as the address of a page, and become a link: nothing else of it is trusted."""

from __future__ import annotations

import re
from typing import Final

WEB_ADDRESS_MAX_CHARS: Final = 200
_WEB_ADDRESS: Final = re.compile(
    r"https?://(?:[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?|\[[0-9A-Fa-f:.]+\])(?::[0-9]{1,5})?(?:/[A-Za-z0-9._~/-]*)?"
)
"""A host and a path of plain characters: no user, no query, no fragment, and nothing that is encoded."""


def web_address(text: object) -> str:
    """Returns ``text`` if it is an address of http or https, of at most 200 plain characters; else an empty text."""
    if not isinstance(text, str) or len(text) > WEB_ADDRESS_MAX_CHARS:
        return ""
    return text if _WEB_ADDRESS.fullmatch(text) else ""
