"""Chooses who carries a command out: the API of a supervisor, if ``--server`` or the environment names one, else this
process, in the registry.

Called by the commands that can ask either.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from supervisor.cli.gateway import Gateway, needs_registry
from supervisor.cli.options import Chosen
from supervisor.cli.output import notice
from supervisor.cli.registry_gateway import RegistryGateway
from supervisor.operations.context import open_commands


@contextmanager
def open_gateway(chosen: Chosen, *, writes: bool = False) -> Iterator[Gateway]:
    """Opens what carries out the requests of one command. ``writes`` says whether it may write. Raises InvalidInput."""
    if chosen.server_url is not None:
        from supervisor.cli.api_gateway import open_api  # who asks no server starts without its client

        yield open_api(chosen, writes=writes)
        return
    with open_commands(chosen.settings(), warn=notice) as context:
        yield RegistryGateway(context)


def refuse_over_api(chosen: Chosen, option: str) -> None:
    """Raises InvalidInput if an API was chosen, for an option that needs ZooKeeper or the store. Nothing is done then."""
    if chosen.server_url is not None:
        raise needs_registry(option, chosen.server_url)
