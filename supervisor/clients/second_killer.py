"""Carries out the kills of twin and guardian, in the order that ``model.second_killer`` decides. It imports
the standard library only."""

from __future__ import annotations

import signal

from supervisor.clients import processes
from supervisor.clients.containment import Containment
from supervisor.model.second_killer import Act, ShimStruck, TreeStruck


def strike(act: Act, shim: int | None, tree: Containment, timeout_s: float) -> ShimStruck | TreeStruck:
    """Does ``act`` (KILL_SHIM or KILL_TREE), for at most about ``timeout_s``. ``shim`` is its pidfd, or None
    if the shim is dead."""
    if act is Act.KILL_SHIM:
        dead = (
            shim is None
            or not processes.send_signal(shim, signal.SIGKILL)
            or processes.wait_dead(shim, timeout_s)
        )
        return ShimStruck(dead)
    took_s = tree.kill(timeout_s)
    return TreeStruck(took_s, tree.emptiness())
