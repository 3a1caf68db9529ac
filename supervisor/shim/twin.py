"""Runs the second killer: a process forked by the shim before it loads anything, which needs neither
ZooKeeper nor supervisor.

It watches the shim's pidfd and the deadline file, and does what ``model.second_killer`` decides: it acts at
once when the shim is dead, and when the deadline comes near (− p) although the shim lives, the shim dies
first and the tree after it. It ends when the shim is dead and nothing of the tree is seen. It renews nothing,
writes nothing to the registry and never waits for anything. ``__main__`` calls it. It uses the standard
library only.
"""

from __future__ import annotations

import gc
import os
import signal

from supervisor.clients import processes, run_dir
from supervisor.clients.containment import Containment
from supervisor.clients.run_dir import DeadlineFile
from supervisor.clients.second_killer import strike
from supervisor.clock import boottime_s
from supervisor.model.lease_terms import KILL_TIME_S, SECOND_KILLER_PERIOD_S
from supervisor.model.second_killer import Act, KillerProbe, SecondKiller, next_probe_at_s, step
from supervisor.shim.log import ShimLog


def fork_twin(tree: Containment, deadline: DeadlineFile, directory: str) -> int:
    """Forks the twin, and returns its pid in the shim. It must be called while this process has one thread.

    It forks twice, so that the twin is nobody's child: a shim that is child subreaper can then distinguish from
    having no child left that its tree is empty. ``tree`` must be one that can be asked after the shim's
    death. ``directory`` is the run directory. Raises OSError.
    """
    # ours before the fork: no moment at which the pid could mean somebody else
    shim = os.pidfd_open(os.getpid())
    read_pid, write_pid = os.pipe()
    gc.freeze()  # keep the collector from touching, and so copying, every page that the two share
    between = os.fork()
    if between == 0:
        try:
            os.setsid()
            if os.fork() == 0:
                _be_twin(shim, tree, deadline, directory, write_pid)
        finally:
            os._exit(0)  # a forked copy of the shim must never return into the shim's code
    os.close(write_pid)
    os.waitpid(between, 0)
    with os.fdopen(read_pid, "rb") as pipe:
        pid = int(pipe.read(20) or b"0")
    os.close(shim)
    if not pid:
        raise OSError("the twin could not be forked")
    return pid


def _be_twin(shim: int, tree: Containment, deadline: DeadlineFile, directory: str, write_pid: int) -> None:
    code = 1
    log = ShimLog(os.path.basename(directory))
    try:
        gc.disable()
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(number, signal.SIG_IGN)  # it ends with the shim, not with the host's first hint
        with open("/proc/self/comm", "w", encoding="ascii") as file:
            file.write("shim-twin")
        os.write(write_pid, b"%d" % os.getpid())
        os.close(write_pid)
        watch(shim, tree, deadline, log, directory)
        code = 0
    except BaseException as error:  # noqa: BLE001 - nothing above could report it
        log.log_event("twin_failed", "error", why=repr(error))
    finally:
        os._exit(code)


def watch(shim: int, tree: Containment, deadline: DeadlineFile, log: ShimLog, directory: str) -> None:
    """Returns when the shim (its pidfd) is dead and nothing of the tree is seen any more."""
    killer = SecondKiller()
    while killer.act is Act.PROBE:
        dead = processes.wait_dead(shim, _pause_s(killer))
        killer = step(killer, _probe(dead, deadline), boottime_s())
    if not killer.shim_dead:
        log.log_event("twin_acts", "error", why="the deadline is near and the shim has not acted")
    while killer.act is not Act.OVER:
        before_s = killer.took_s
        killer = step(killer, strike(killer.act, shim, tree, KILL_TIME_S), boottime_s())
        if killer.took_s - before_s > KILL_TIME_S:
            log.log_event("twin_kill_slow", "error", tree=killer.tree.value, killed_s=round(killer.took_s, 3))
    if killer.deadline_at_s is not None:  # else the shim had seen to it, and only ended
        log.log_event("twin_killed", "warning", tree=killer.tree.value, killed_s=round(killer.took_s, 3))
        run_dir.note_kill(directory, "twin", killer.took_s)


def _probe(dead: bool, deadline: DeadlineFile) -> KillerProbe:
    try:
        return KillerProbe(dead, deadline.read())
    except (OSError, ValueError):
        return KillerProbe(dead, None, readable=False)


def _pause_s(killer: SecondKiller) -> float:
    """Returns how long to wait, in seconds: p at most, because a wait is measured on a clock that stands
    still while the host sleeps."""
    at_s = next_probe_at_s(killer)
    return (
        SECOND_KILLER_PERIOD_S if at_s is None else min(SECOND_KILLER_PERIOD_S, max(0.0, at_s - boottime_s()))
    )
