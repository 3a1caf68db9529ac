"""Chooses who carries a command out: the API of a supervisor, if ``--server`` or the environment names one, else this
process, in the registry.

Called by the commands that can ask either.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from supervisor.api.client import ApiClient
from supervisor.cli.api_client import client_at
from supervisor.cli.api_gateway import ApiGateway, needs_registry
from supervisor.cli.gateway import Gateway
from supervisor.cli.global_options import SERVER_VARIABLE
from supervisor.cli.options import Chosen
from supervisor.cli.output import notice
from supervisor.cli.registry_gateway import RegistryGateway
from supervisor.errors import InvalidInput
from supervisor.operations.context import open_commands


@contextmanager
def open_gateway(chosen: Chosen, *, writes: bool = False) -> Iterator[Gateway]:
    """Opens what carries out the requests of one command. ``writes`` says whether it may write. Raises InvalidInput."""
    api = api_of(chosen)
    if api is not None:
        yield ApiGateway(api, chosen.server_url or "", writes=writes)
        return
    with open_commands(chosen.settings(), warn=notice) as context:
        yield RegistryGateway(context)


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
        raise needs_registry(option, chosen.server_url)
