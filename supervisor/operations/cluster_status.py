"""Takes the state of the cluster as ``status`` shows it. Called by ``cli`` and ``demo``; no policy here."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from supervisor.clients.threads import Pool
from supervisor.errors import SupervisorError, Unreachable
from supervisor.observe.status import ClusterConfiguration, is_ok, take_status, unreachable_status
from supervisor.operations.context import CommandContext

if TYPE_CHECKING:
    from supervisor.settings.file import Settings


def configuration_of(settings: Settings) -> ClusterConfiguration:
    return ClusterConfiguration(settings.cluster, settings.zookeeper.hosts, settings.store.url)


def status_of(context: CommandContext) -> tuple[dict[str, Any], SupervisorError | None]:
    """Returns the document of ``status``. If ZooKeeper did not answer, it has nulls, and the error is
    returned with it."""
    configuration, settings = configuration_of(context.settings), context.settings
    # both may take their time to say that they are down
    with Pool(1, "store") as pool:
        store_ok = pool.submit(is_ok, context.store().check)
        try:
            zoo = context.zoo()
            context.check()
            session = zoo.session
            session_s = session.timeout_s if session is not None else settings.zookeeper.session_timeout_s
            return take_status(zoo, context.layout, configuration, session_s, store_ok.result()), None
        except Unreachable as error:
            return unreachable_status(configuration, store_ok.result()), error
