"""Cutting a process from a whole ensemble, both ways or one way, by the means that the ensemble's kind allows.

On containers it is the network itself: the process lives in a namespace of its own, and iptables inside that drops what
comes or goes; on processes of this machine, which all share the loopback, a proxy before each server does it. Nobody is
told in either case. Made by ``cut_from``, for supervisors and shims of a ``Fleet``.
"""

from __future__ import annotations

from collections.abc import Callable
from types import TracebackType
from typing import Protocol

from supervisor.demo.ensemble import EmbeddedEnsemble
from tests.testbed.ensembles import Ensemble
from tests.testbed.fleet_member import FleetMember
from tests.testbed.namespaces import Namespace
from tests.testbed.proxy import Proxies, Proxy, Way


class Cut(Protocol):
    """``apply(member)``: from its next start on, the member and its shims are on the far side. ``cut()``: both ways."""

    def __enter__(self) -> Cut: ...
    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...
    def apply(self, member: FleetMember) -> None: ...
    def cut(self, *ways: Way) -> None: ...
    def heal(self) -> None: ...


class ProxyCut:
    """By a proxy before each server of ``ensemble``."""

    def __init__(self, ensemble: Ensemble) -> None:
        self._proxies = Proxies(ensemble.hosts)

    def __enter__(self) -> ProxyCut:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._proxies.close()

    def apply(self, member: FleetMember) -> None:
        member.hosts = self._proxies.hosts

    def cut(self, *ways: Way) -> None:
        self._proxies.each(lambda proxy: proxy.drop(*ways))

    def heal(self) -> None:
        self._proxies.each(Proxy.heal)


class NetworkCut:
    """By iptables in a network namespace, which reaches the containers of ``network`` (CIDR notation)."""

    def __init__(self, network: str) -> None:
        self._namespace = Namespace()
        self._namespace.reach(network)

    def __enter__(self) -> NetworkCut:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._namespace.close()

    def apply(self, member: FleetMember) -> None:
        member.wrapper = tuple(self._namespace.wrap(()))

    def cut(self, *ways: Way) -> None:
        does: dict[Way, Callable[[], None]] = {
            Way.REQUESTS: self._namespace.cut_out,
            Way.RESPONSES: self._namespace.cut_in,
        }
        for way in ways or does:
            does[way]()

    def heal(self) -> None:
        self._namespace.heal()


def cut_from(ensemble: Ensemble) -> Cut:
    """What cuts its members off ``ensemble``; use it as a context."""
    if isinstance(ensemble, EmbeddedEnsemble):
        return ProxyCut(ensemble)
    network: str = ensemble.client_network  # type: ignore[attr-defined]
    return NetworkCut(network)
