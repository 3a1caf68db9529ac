"""Decides when twin and guardian kill, and in what order (protocol §7.4), sans I/O: ``step(killer, event,
now)``.

=========  ===============================================  ==================================================
act        what the caller does                             what ends it
=========  ===============================================  ==================================================
probe      It probes the shim and reads the deadline file.  shim dead, or deadline − p has come → kill shim
kill shim  It sends SIGKILL to the shim, awaits its death.  → kill tree
kill tree  It sends SIGKILL to the tree, checks whether it  shim dead and nothing of the tree seen → over;
           is empty.                                        else → kill shim, again
over       It does nothing more.
=========  ===============================================  ==================================================

The shim is killed first, because a stopped shim is not a dead one: it may go on between its last check and
exec, and a tree that was killed before it could grow again. A shim that does not die at once (uninterruptible
in the kernel) runs no further line of code with SIGKILL pending, so the tree is killed even then; but it is
over only when the shim is gone.

It is run by ``shim.twin`` and, as a part of ``daemon.host.guarded_attempt``, by the guardian. It uses named
tuples, not dataclasses, because the twin keeps in memory what is imported here for as long as the job lives.
"""

from __future__ import annotations

from enum import StrEnum
from typing import NamedTuple, TypeAlias

from supervisor.model.emptiness import Emptiness
from supervisor.model.lease_terms import second_killer_acts_at_s


class Act(StrEnum):
    """Names what is to be done next; the table is above."""

    PROBE = "probe"
    KILL_SHIM = "kill shim"
    KILL_TREE = "kill tree"
    OVER = "over"


class KillerProbe(NamedTuple):
    """Holds what a probe of the shim and the deadline file showed. ``deadline_at_s`` is what the file says;
    None means that no driver is to be killed. ``readable`` is False if the file is torn, or no descriptor was
    to be had for reading it.
    """

    shim_dead: bool
    deadline_at_s: float | None
    readable: bool = True


class ShimStruck(NamedTuple):
    dead: bool


class TreeStruck(NamedTuple):
    """Says what a kill of the tree led to. ``took_s`` counts the seconds from the first signal on."""

    took_s: float
    tree: Emptiness


Event: TypeAlias = KillerProbe | ShimStruck | TreeStruck


class SecondKiller(NamedTuple):
    """Holds the state of twin or guardian. ``due`` says whether the deadline had come near at the last probe.
    ``took_s`` is the sum over all kills of the tree so far.

    If ``shim_dead`` is False when probing ends, a living shim has let its deadline come.
    """

    act: Act = Act.PROBE
    deadline_at_s: float | None = None
    shim_dead: bool = False
    due: bool = False
    took_s: float = 0.0
    tree: Emptiness = Emptiness.UNPROVABLE


def step(killer: SecondKiller, event: Event, now_s: float) -> SecondKiller:
    """Returns the state after ``event``; its ``act`` says what to do. ``now_s`` is a time of BOOTTIME. An
    event out of turn changes nothing.
    """
    match event:
        case KillerProbe() if killer.act is Act.PROBE:
            return _probed(killer, event, now_s)
        case ShimStruck(dead) if killer.act is Act.KILL_SHIM:
            return killer._replace(shim_dead=dead, act=Act.KILL_TREE)
        case TreeStruck(took_s, tree) if killer.act is Act.KILL_TREE:
            over = killer.shim_dead and tree is not Emptiness.POPULATED
            return killer._replace(
                took_s=killer.took_s + took_s, tree=tree, act=Act.OVER if over else Act.KILL_SHIM
            )
    return killer


def _probed(killer: SecondKiller, probe: KillerProbe, now_s: float) -> SecondKiller:
    deadline_at_s = probe.deadline_at_s if probe.readable else killer.deadline_at_s  # what is known stays
    due = deadline_at_s is not None and now_s >= second_killer_acts_at_s(deadline_at_s)
    act = Act.KILL_SHIM if due or probe.shim_dead else Act.PROBE
    return killer._replace(deadline_at_s=deadline_at_s, shim_dead=probe.shim_dead, due=due, act=act)


def next_probe_at_s(killer: SecondKiller) -> float | None:
    """Returns when to probe at the latest (BOOTTIME), by the deadline that is known. None means that no
    deadline is known and that a probe every p suffices.
    """
    return None if killer.deadline_at_s is None else second_killer_acts_at_s(killer.deadline_at_s)
