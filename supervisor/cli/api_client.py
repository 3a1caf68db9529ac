"""Makes the client of the API of a supervisor from what the command line and the environment say.

``cli.remote`` calls it for the commands that can ask it, and ``cli.completion`` for names of jobs.
"""

from __future__ import annotations

import os
from pathlib import Path

from supervisor.api.client import ApiClient
from supervisor.api.connect_remedies import CA_VARIABLE
from supervisor.cli.global_options import TOKEN_FILE_VARIABLE
from supervisor.errors import InvalidInput


def client_at(url: str, token_file: str | Path | None, source: str) -> ApiClient:
    """Returns the client of the API at ``url``, which ``source`` has named. Nothing is asked yet. Raises InvalidInput."""
    named = token_file or os.environ.get(TOKEN_FILE_VARIABLE)
    if not named:
        raise InvalidInput(
            f"no token for {url[:200]}",
            f"name the file that holds it with --token-file or {TOKEN_FILE_VARIABLE}",
        )
    ca = os.environ.get(CA_VARIABLE)
    return ApiClient(url, Path(named), Path(ca) if ca else None, source=source)
