"""What twin and guardian do when the shim is dead or has let its deadline come near (DESIGN §7.4), in this order:

SIGKILL the shim, wait for its death, kill the tree, prove it empty. The shim first, because a stopped shim is not a dead
one: it may go on between its last check and exec, and a tree killed before it could grow again. Standard library only.
"""

from __future__ import annotations

import signal
from typing import NamedTuple

from supervisor.clients import processes
from supervisor.clients.containment import Containment, Emptiness
from supervisor.model.lease_terms import KILL_TIME_S


class Killed(NamedTuple):
    """``took_s``: the tree alone. ``done``: shim dead and nothing of the tree is seen. Only EMPTY is a proof."""

    took_s: float
    shim_dead: bool
    tree: Emptiness

    @property
    def done(self) -> bool:
        return self.shim_dead and self.tree is not Emptiness.POPULATED


def kill_attempt(shim: int | None, tree: Containment, timeout_s: float = KILL_TIME_S) -> Killed:
    """One bounded try (at most about twice ``timeout_s``); repeat until ``done``. ``shim``: its pidfd, None = dead.

    A shim that does not die at once (uninterruptible in the kernel) runs no further line of code with SIGKILL pending,
    so the tree is killed even then; but it counts as done only when the shim is gone.
    """
    shim_dead = shim is None or not processes.send_signal(shim, signal.SIGKILL) or processes.wait_dead(shim, timeout_s)
    took_s = tree.kill(timeout_s)
    return Killed(took_s, shim_dead, tree.emptiness())
