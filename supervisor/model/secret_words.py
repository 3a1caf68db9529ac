"""The words by which something is taken for a secret, and what covers it in a text. There is no other list.

Pure. A name (of a variable, a property, an option, a key of a document) is judged by ``is_secret_name``; a text of an
application or of Spark is given to ``covered``. This is a safeguard, no promise: prose can hide anything. Each pattern is
bounded or consumes what it reads, so that no text takes time that grows with its square.
"""

from __future__ import annotations

import re
from typing import Final

REDACTED: Final = "*********(redacted)"

_WORDS: Final = (
    r"secret|password|passwd|passphrase|pwd|token|credential(?!s?[._-]?provider)"
    r"|(?:access|api|account|private|shared|signing|encryption|storage)[._-]?key"
)
_NAME: Final = re.compile(rf"(?i){_WORDS}|(?<!by)pass(?=$|[._-])|(?:^|[._-])sig(?:nature)?$")
_WORDS_OF_SPARK: Final = re.compile(r"(?i)secret|password|token|access[._-]?key")
"""This is Spark's own pattern (``spark.redaction.regex``), extended by the spelling of environment variables. A whole value
that has one of these words is covered, as Spark's pages do it."""

_FREE: Final = rf"(?!{re.escape(REDACTED)})"
"""What is covered already stays as it is."""
_VALUE: Final = rf"""{_FREE}[^\s&"']{{2,}}[^\s&"',;)}}\]]"""
_QUOTED: Final = re.compile(
    rf"""(?i)((?:{_WORDS})[\w.-]{{0,99}}["']?\s?(?:=>?|:)\s?)(["']){_FREE}[^"'\n]{{3,500}}(?=\2)"""
)
_NAMED: Final = re.compile(rf"""(?i)((?:{_WORDS})[\w.-]{{0,99}}["']?(?: ?=>? ?| ?: ?|\t+)){_VALUE}""")
_PASS: Final = re.compile(rf"(?i)(\bpass ?= ?|[?&;]sig(?:nature)?=|\bX-Amz-Signature=){_VALUE}")
_OPTION: Final = re.compile(rf"(?i)((?<![\w-])--?[\w-]{{0,40}}(?:{_WORDS})[\w-]{{0,40}}[ \t]+)(?!-){_VALUE}")
_VARIABLE: Final = re.compile(
    r"(?m)(\b[A-Z0-9_]{0,40}(?:SECRET|PASSWORD|TOKEN|(?:ACCESS|API|PRIVATE)_KEY)[A-Z0-9_]{0,40} +)"
    rf"{_FREE}\S{{3,}}$"
)
"""A variable and one word behind it, to the end of the line: more words are a sentence about the variable."""
_BEARER: Final = re.compile(r"(?i)(\b(?:bearer|basic)\s+)[A-Za-z0-9._~+/=-]{8,}")
_ACCESS_KEY_ID: Final = re.compile(r"\b(?:AKIA|ASIA)[A-Z0-9]{12,}\b")
_PRIVATE_KEY: Final = re.compile(r"(-----BEGIN [A-Z ]{0,30}PRIVATE KEY-----).*?(?:-----END|\Z)", re.DOTALL)
_IN_URL: Final = re.compile(r"""(?<=://)([^\s/:@"']{0,200}):(?!\d{1,5}[/?\s])[^\s@"']{1,500}@""")
_FILE_ENDINGS: Final = ("_file", "_files")


def is_secret_name(name: str) -> bool:
    """Returns whether what has this name is taken for a secret, such as a variable or a key of a configuration."""
    return bool(_NAME.search(name))


def is_secret_file_name(name: str) -> bool:
    """Returns whether a key of a configuration names a file with a secret, or several."""
    return is_secret_name(name) and name.endswith(_FILE_ENDINGS)


def is_secret_value(value: str) -> bool:
    """Returns whether a whole value is taken for a secret, by the words that Spark looks for."""
    return bool(_WORDS_OF_SPARK.search(value))


def covered(text: str) -> str:
    """Returns ``text`` without what looks like a secret, so that it can be kept where everybody can read it: what follows
    a name like ``password=`` or ``--api-key``, credentials in a URL or a header, private keys and identifiers of keys."""
    text = _PRIVATE_KEY.sub(rf"\1{REDACTED}", text)
    text = _ACCESS_KEY_ID.sub(REDACTED, _BEARER.sub(rf"\1{REDACTED}", text))
    text = _QUOTED.sub(rf"\1\2{REDACTED}", text)
    for pattern in (_NAMED, _PASS, _OPTION, _VARIABLE):
        text = pattern.sub(rf"\1{REDACTED}", text)
    return _IN_URL.sub(rf"\1:{REDACTED}@", text)
