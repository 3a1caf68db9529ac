"""Reads a token of the API from its file. It stands apart because the command line goes without logs."""

from __future__ import annotations

import os
import re
import stat
from pathlib import Path
from typing import Final

from supervisor.clients.connect_failure import ConnectFailure
from supervisor.clients.secret_file import read_secret
from supervisor.errors import InvalidInput

TOKEN_MIN_CHARACTERS: Final = 32
TOKEN_MAX_CHARACTERS: Final = 512
_TOKEN: Final = re.compile(rf"[\x21-\x7e]{{{TOKEN_MIN_CHARACTERS},{TOKEN_MAX_CHARACTERS}}}")


def is_without_token(path: Path) -> bool:
    """Returns whether the file is empty or not there: then nobody has its token."""
    try:
        with open(path, "rb", opener=_open_at_once) as file:
            is_file = stat.S_ISREG(os.fstat(file.fileno()).st_mode)
            return is_file and not file.read(TOKEN_MIN_CHARACTERS).strip()
    except FileNotFoundError:
        return True
    except OSError:
        return False


def _open_at_once(path: str, flags: int) -> int:
    """Opens a file; one that is a pipe is not waited for."""
    return os.open(path, flags | os.O_NONBLOCK)


def read_token(path: Path, key: str) -> str:
    """Returns the token in the file that ``key`` names. Raises InvalidInput, also for a file that everybody may read."""
    try:
        token = read_secret(key, str(path)).strip()
    except ConnectFailure as error:
        raise InvalidInput(str(error)) from None
    if not _TOKEN.fullmatch(token):
        raise InvalidInput(
            f"{key}: {path} holds no token",
            f"write one line of {TOKEN_MIN_CHARACTERS} to {TOKEN_MAX_CHARACTERS} letters and digits; "
            "openssl rand -hex 32 makes one",
        )
    return token
