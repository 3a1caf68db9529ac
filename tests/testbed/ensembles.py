"""What a fault test may ask of an ensemble, whichever kind it runs on: the common face of both.

``supervisor.demo.ensemble.EmbeddedEnsemble`` (processes) and ``tests.testbed.docker_ensemble.DockerEnsemble``
(containers) have these methods; what only containers can do (network cuts) is on DockerEnsemble alone.
"""

from __future__ import annotations

import threading
from contextlib import suppress
from pathlib import Path
from typing import Any, Protocol

from supervisor.demo.ensemble import EmbeddedEnsemble
from supervisor.errors import TimedOut

POLL_EVERY_S = 0.1


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


class RevivedEnsemble(EmbeddedEnsemble):
    """Starts a server that has ended by itself again at once, as a service manager would, also while a test runs.

    ZooKeeper 3.9.5 ends a follower now and then: "Committed proposal cached out of order", as a session is closed that has
    ephemerals, then "Severe unrecoverable error". No client can do anything about that. What ``kill`` or ``stop`` ended
    stays down until ``restart``.
    """

    def __init__(self, directory: Path | str, nodes: int = 3, **options: Any) -> None:
        super().__init__(directory, nodes, **options)
        # Held while a server is ended or started: one that is just being ended has not ended by itself.
        self._nodes_lock = threading.RLock()
        self._stays_down: set[int] = set(range(nodes))
        self._over = threading.Event()
        self._reviver: threading.Thread | None = None

    def start(self, timeout_s: float = 300.0) -> None:
        super().start(timeout_s)
        self._stays_down.clear()
        self._over.clear()
        self._reviver = threading.Thread(target=self._revive, name="reviver", daemon=True)
        self._reviver.start()

    def kill(self, i: int) -> None:
        with self._nodes_lock:
            self._stays_down.add(i)
            super().kill(i)

    def resume(self, i: int) -> None:
        self._check_alive(i)
        super().resume(i)

    def restart(self, i: int) -> None:
        with self._nodes_lock:
            self._stays_down.discard(i)
            super().restart(i)

    def stop(self, i: int | None = None) -> None:
        with self._nodes_lock:
            self._stays_down.update(range(self._count) if i is None else [i])
            super().stop(i)
        if i is None and self._reviver is not None:
            self._over.set()
            self._reviver.join()
            self._reviver = None

    def _revive(self) -> None:
        while not self._over.wait(POLL_EVERY_S):
            with self._nodes_lock:
                for node in set(range(self._count)) - self._stays_down:
                    self._check_alive(node)

    def _check_alive(self, i: int) -> None:
        """Whoever asks before ``_revive`` has seen that a server ended by itself starts it."""
        with self._nodes_lock:
            if i in self._stays_down:
                super()._check_alive(i)
            elif not self.runs(i):
                self.restart(i)


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
