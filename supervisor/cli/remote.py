"""Chooses the API of a supervisor in place of ZooKeeper and the store, from ``--server``, ``--token-file`` and the
environment.

Called by the commands that can ask it.
"""

from __future__ import annotations

from supervisor.api.client import ApiClient
from supervisor.cli.api_client import client_at
from supervisor.cli.global_options import SERVER_VARIABLE
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
    return client_at(url, chosen.token_file, "--server" if chosen.server else SERVER_VARIABLE)


def refuse_over_api(chosen: Chosen, option: str) -> None:
    """Raises InvalidInput if an API was chosen, for an option that needs ZooKeeper or the store. Nothing is done then."""
    if chosen.server_url is not None:
        raise InvalidInput(
            f"{option} needs ZooKeeper or the store, and can't ask the server {chosen.server_url[:200]!r}",
            "leave it out, or call the command on a host with supervisor.yaml",
        )
