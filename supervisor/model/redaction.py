"""Covers secrets in whatever is given away: those that are known, wherever they stand, and what looks like one by its name.

Pure; ``operations.debug_bundle`` calls it. A known secret is covered as it is, and as it stands in JSON, in a URL and in
base64. What nobody has named as a secret can't be covered: prose can hide anything.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any, Final
from urllib.parse import SplitResult, quote, quote_plus, urlsplit

from supervisor.model.secret import SecretSource
from supervisor.model.secret_words import REDACTED, covered, is_secret_file_name, is_secret_name

SHORTEST: Final = 6
"""A shorter known secret is not searched for: it would cover half of every text (true, false), and be read off that."""
_URL: Final = "url"
_REFERENCE_START: Final = tuple(f"${{{source.value}:" for source in SecretSource)


def web_url(value: str) -> SplitResult | None:
    """Returns the parts of a URL of the web, or None. Whoever has path and query of a webhook can call it."""
    with suppress(ValueError):
        parts = urlsplit(value)
        return parts if parts.scheme in ("http", "https") and parts.netloc else None
    return None


class Redactor:
    """Covers the secrets ``known``, and what looks like one."""

    def __init__(self, known: Iterable[str]) -> None:
        spellings = {each for secret in known for each in _spellings(secret)}
        longest_first = sorted(spellings, key=lambda each: (-len(each), each))
        self._known = re.compile("|".join(map(re.escape, longest_first))) if longest_first else None

    def text(self, text: str) -> str:
        """Returns ``text`` without secrets."""
        if self._known is not None:
            text = self._known.sub(REDACTED, text)
        return covered(text)

    def document(self, value: Any, name: str = "") -> Any:
        """Returns a document (as JSON has it) without secrets: texts as ``text`` does, and whatever has a secret's name.
        The name of a file is none. Of a web address under ``url`` its host is left."""
        if isinstance(value, Mapping):
            return {self.text(str(key)): self.document(each, str(key)) for key, each in value.items()}
        if isinstance(value, str):
            if name == _URL and (parts := web_url(value)) is not None:
                return self.text(
                    f"{parts.scheme}://{parts.netloc}/"
                    + ("" if parts.path in ("", "/") and not parts.query else REDACTED)
                )
            is_named = is_secret_name(name) and not is_secret_file_name(name)
            return REDACTED if is_named and not value.startswith(_REFERENCE_START) else self.text(value)
        if isinstance(value, Sequence):
            return [self.document(each, name) for each in value]
        return value


def _spellings(secret: str) -> set[str]:
    """Returns how a secret may stand in a text. Each line of one with several lines is one of its own."""
    lines = {secret, *secret.splitlines()}
    found = set()
    for each in lines:
        for spelling in (each, each.strip()):
            encoded = base64.b64encode(spelling.encode()).decode()
            found |= {
                spelling,
                json.dumps(spelling)[1:-1],
                quote(spelling, safe=""),
                quote_plus(spelling),
                encoded,
            }
    return {each for each in found if len(each) >= SHORTEST}
