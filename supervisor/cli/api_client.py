"""Makes the client of the API of a supervisor from what the command line and the environment say.

``cli.api_gateway`` calls it for the commands that can ask it, and ``cli.completion`` for names of jobs.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from supervisor.api.client import ApiClient
from supervisor.api.connect_remedies import CA_VARIABLE
from supervisor.cli.global_options import SERVER_VARIABLE, TOKEN_FILE_VARIABLE
from supervisor.errors import InvalidInput

if TYPE_CHECKING:
    from supervisor.cli.options import Chosen


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


def api_of(chosen: Chosen) -> ApiClient | None:
    """Returns the API that was chosen, or None: then the command asks ZooKeeper and the store. Nothing is asked yet.
    Raises InvalidInput."""
    url = chosen.server_url
    if url is None:
        return None
    if chosen.config is not None:
        raise InvalidInput("--server is asked in place of what --config names: give one of the two")
    return client_at(url, chosen.token_file, "--server" if chosen.server else SERVER_VARIABLE)
