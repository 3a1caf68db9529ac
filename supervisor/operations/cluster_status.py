"""Takes the state of the cluster as ``status`` shows it. Called by ``cli`` and ``demo``; no policy here."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

from supervisor.clients.threads import Pool
from supervisor.errors import SupervisorError, Unreachable
from supervisor.observe.status import ClusterConfiguration, is_ok, take_status, unreachable_status
from supervisor.operations.context import CommandContext
from supervisor.operations.requests import ReadRequest

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


Status: TypeAlias = "tuple[dict[str, Any], SupervisorError | None]"


@dataclass(frozen=True)
class StatusRequest(ReadRequest[Status]):
    """Asks for the document of ``status``, and for the error if ZooKeeper did not answer."""

    operation = "status"
    path = "/status"
    summary = "The cluster. While ZooKeeper does not answer, what is not known is null."

    def carry_out(self, context: CommandContext) -> Status:
        return status_of(context)

    def document(self, answer: Status) -> dict[str, Any]:
        return answer[0]

    def answer(self, document: Any, server: str) -> Status:
        is_known = document["zookeeper"]["session"] is not None
        return document, None if is_known else Unreachable(f"ZooKeeper does not answer {server}")
