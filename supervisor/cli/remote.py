"""Chooses the API of a supervisor in place of ZooKeeper and the store, from ``--server``, ``--token-file`` and the
environment.

Called by the commands that can ask it.
"""

from __future__ import annotations

import os
from pathlib import Path

from supervisor.api.client import ApiClient
from supervisor.api.connect_remedies import CA_VARIABLE
from supervisor.cli.global_options import SERVER_VARIABLE, TOKEN_FILE_VARIABLE
from supervisor.cli.options import Chosen
from supervisor.errors import InvalidInput


def api_of(chosen: Chosen) -> ApiClient | None:
    """Returns the API that was chosen, or None: then the command asks ZooKeeper and the store. Nothing is asked yet.
    Raises InvalidInput."""
    url = chosen.server_url
    if url is None:
        return None
    if chosen.config is not None:
        raise InvalidInput("--server is asked in place of what --config names: give one of the two")
    named = chosen.token_file or os.environ.get(TOKEN_FILE_VARIABLE)
    if not named:
        raise InvalidInput(
            f"no token for {url[:200]}",
            f"name the file that holds it with --token-file or {TOKEN_FILE_VARIABLE}",
        )
    ca = os.environ.get(CA_VARIABLE)
    return ApiClient(url, Path(named), Path(ca) if ca else None, source=_source(chosen))


def refuse_over_api(chosen: Chosen, option: str) -> None:
    """Raises InvalidInput if an API was chosen, for an option that needs ZooKeeper or the store. Nothing is done then."""
    if chosen.server_url is not None:
        raise InvalidInput(
            f"{option} needs ZooKeeper or the store, and can't ask the server {chosen.server_url[:200]!r}",
            "leave it out, or call the command on a host with supervisor.yaml",
        )


def _source(chosen: Chosen) -> str:
    return "--server" if chosen.server else SERVER_VARIABLE
