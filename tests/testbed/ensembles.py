"""What a fault test may ask of an ensemble, whichever kind it runs on: the common face of both.

``supervisor.demo.ensemble.EmbeddedEnsemble`` (processes) and ``tests.testbed.docker_ensemble.DockerEnsemble``
(containers) have these methods; what only containers can do (network cuts) is on DockerEnsemble alone.
"""

from __future__ import annotations

from contextlib import suppress
from typing import Protocol

from supervisor.errors import TimedOut


class Ensemble(Protocol):
    """Nodes are numbered from 0. ``kill``, ``stop``, ``pause`` return when it is so; ``restart`` needs ``wait_serving``."""

    @property
    def hosts(self) -> str: ...
    def address(self, i: int) -> str: ...
    def kill(self, i: int) -> None: ...
    def stop(self, i: int | None = None) -> None: ...
    def pause(self, i: int) -> None: ...
    def resume(self, i: int) -> None: ...
    def restart(self, i: int) -> None: ...
    def runs(self, i: int) -> bool: ...
    def modes(self) -> tuple[str | None, ...]: ...
    def leader(self, timeout_s: float = 30.0) -> int: ...
    def wait_serving(self, timeout_s: float = 30.0) -> None: ...


def bring_back(ensemble: Ensemble) -> None:
    """Start again what has ended by itself, as a service manager would. Quick where there is nothing to do.

    ZooKeeper 3.9.5 ends a follower now and then: "Committed proposal cached out of order", as a session is closed that has
    ephemerals, then "Severe unrecoverable error". No client can do anything about that.
    """
    if not all(ensemble.runs(node) for node in range(len(ensemble.hosts.split(",")))):
        repair(ensemble)


def repair(ensemble: Ensemble) -> None:
    """All nodes serve again, whatever a test did to them. To start an ensemble for each test takes longer.

    A node that is coming up is left to it: killed between the snapshot that it got and the note of its epoch it never
    starts again ("current epoch is older than the last zxid").
    """
    for node in range(len(ensemble.modes())):
        ensemble.resume(node) if ensemble.runs(node) else ensemble.restart(node)
    with suppress(TimedOut, AssertionError):
        ensemble.wait_serving(30)
    for node, mode in enumerate(ensemble.modes()):
        if mode is None:
            ensemble.restart(node)
    ensemble.wait_serving(60)
