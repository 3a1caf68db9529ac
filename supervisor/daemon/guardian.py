"""The third killer (DESIGN §7.4): the supervisor as guardian of the attempts of its host, and the one who buries them.

It looks at ``<runtime_dir>/attempts``, holds a pidfd per shim, and acts at once when a shim is dead, else at
deadline − p: SIGKILL to the shim, wait for its death, kill the tree, prove it empty. If the shim is dead and the tree
*proven* empty (a cgroup), it writes the tombstone, so that nobody has to wait; without proof it writes nothing and the
leader waits the full time. Then it removes the run directory. Adoption is nothing special: a supervisor that starts
finds the shims of its predecessor here (I6).

Driven by a loop of the daemon: ``tick`` whenever one of ``fds`` is readable, and after the seconds that it returned.
It never starts anything, never renews, never blocks on ZooKeeper (one asynchronous request per attempt), and touches no
run directory of another supervisor. Run files of an earlier boot are removed and nothing else (F58): that the host was
booted would prove its tree gone, but that the files are of this very host is only what they say, and a tombstone on the
strength of a copied or shared directory would start a second driver. The leader's full wait is mostly over by then.
"""

from __future__ import annotations

import os
import queue
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import Any, Protocol

import structlog

from supervisor.clients import processes, run_dir
from supervisor.clients.containment import CgroupContainment, Containment, Emptiness, ScanContainment
from supervisor.clients.processes import ProcessId
from supervisor.clients.run_dir import ShimRecord
from supervisor.clients.second_killer import kill_attempt
from supervisor.clients.spawn import reap_finished
from supervisor.clients.zookeeper import Committed, Reads
from supervisor.clock import wall_iso
from supervisor.daemon.housekeeping import ENDED, put_aside
from supervisor.errors import Corrupt, SupervisorError
from supervisor.model.launch import Launch
from supervisor.model.lease_terms import KILL_TIME_S, SECOND_KILLER_PERIOD_S, second_killer_acts_s
from supervisor.model.records import Cause, Ownership, OwnState
from supervisor.model.seen import Found
from supervisor.model.transaction import Transaction
from supervisor.registry.attempt_writes import Exit, Identity, tombstone
from supervisor.registry.codec import decode
from supervisor.registry.layout import Layout, about_key

log = structlog.get_logger(__name__)

UNBORN_S = 15.0
"""A run directory without a shim for so long was left by an agent that crashed before it started one."""

CLAIM_UNDER_WAY_S = 20.0
"""A claim that a dead shim has sent may still commit: the longest session time-out in use, and some."""

DOUBT_S = 600.0
_SLICE_S = 0.05
_RETRY_S = 1.0


class Registry(Protocol):
    """The two calls of ``ZooClient`` that are used here."""

    def read_many_async(self, paths: tuple[str, ...], done: Callable[[Reads | SupervisorError], None]) -> None: ...
    def commit_async(self, tx: Transaction, done: Callable[[Committed | SupervisorError], None]) -> None: ...


class WardStage(StrEnum):
    """``watched`` → ``killing`` → ``burying`` → ``removing``; ``unborn`` before there is a shim."""

    UNBORN = "unborn"
    WATCHED = "watched"
    KILLING = "killing"
    BURYING = "burying"
    REMOVING = "removing"


@dataclass
class Ward:
    """One attempt of this host. Times in BOOTTIME seconds."""

    key: str
    directory: str
    seen_s: float
    stage: WardStage = WardStage.UNBORN
    launch: Launch | None = None
    shim: ShimRecord | None = None
    pidfd: int | None = None
    tree: Containment | None = None
    deadline_s: float | None = None
    cause: Cause = Cause.SHIM_DIED
    died_s: float = 0.0
    killed_s: float = 0.0
    asking: bool = False
    retry_s: float = 0.0
    doubt_s: float | None = None
    answers: list[Reads | Committed | SupervisorError] = field(default_factory=list)

    @property
    def about(self) -> dict[str, Any]:
        """Whom a line of the log is about. The job is not known before its launch file was read."""
        job = {} if self.launch is None else {"job": self.launch.assignment.name}
        return {**job, **about_key(self.key)}


class Guardian:
    """``client``: the registry as it is now, None while there is none. ``supervisor``: our id.

    ``on_kill``: is told of each driver tree that was killed here: by whom (shim, twin, guardian), in what seconds.
    """

    def __init__(
        self, attempts_dir: Path | str, supervisor: str, layout: Layout, client: Callable[[], Registry | None],
        on_kill: Callable[[str, float], None] = lambda _killer, _seconds: None,
    ) -> None:
        self._on_kill = on_kill
        self._attempts_dir = str(attempts_dir)
        self._supervisor = supervisor
        self._layout = layout
        self._client = client
        self._wards: dict[str, Ward] = {}
        self._boot_id = processes.boot_id()
        self._answers: queue.SimpleQueue[tuple[str, Reads | Committed | SupervisorError]] = queue.SimpleQueue()
        self._wake = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)

    # -- for the daemon ------------------------------------------------------------------------------------------------

    def fds(self) -> list[int]:
        """Descriptors that become readable when there is something to do: shims that ended, answers of ZooKeeper."""
        return [self._wake, *(ward.pidfd for ward in self._wards.values()
                              if ward.pidfd is not None and ward.stage is WardStage.WATCHED)]

    def keys(self) -> frozenset[str]:
        """``<uid>.<attempt>`` of all run directories as of the last tick."""
        return frozenset(self._wards)

    def wards(self) -> tuple[Ward, ...]:
        """For display."""
        return tuple(self._wards.values())

    def tick(self, now_s: float) -> float:
        """Do what is due. Returns the seconds after which it wants to be called again (at most p)."""
        self._take_answers()
        self._list_wards(now_s)
        reap_finished()
        for ward in list(self._wards.values()):
            try:
                self._attend(ward, now_s)
            except OSError as error:  # no descriptor, no memory: this one again at the next tick, the others now
                log.warning("guardian_failed", **ward.about, stage=ward.stage.value, why=str(error))
        killing = any(ward.stage is WardStage.KILLING for ward in self._wards.values())
        return min([SECOND_KILLER_PERIOD_S, *([_SLICE_S / 5] if killing else []), *self._deadlines(now_s)])

    def close(self) -> None:
        """Let go of everything; the shims go on."""
        for ward in self._wards.values():
            self._forget(ward)
        self._wards.clear()
        os.close(self._wake)

    # -- the wards -----------------------------------------------------------------------------------------------------

    def _list_wards(self, now_s: float) -> None:
        try:
            names = {name for name in os.listdir(self._attempts_dir) if name[0] != "."}  # noqa: PTH208 - names only
        except FileNotFoundError:
            names = set()
        for name in names - self._wards.keys():
            self._wards[name] = Ward(name, f"{self._attempts_dir}/{name}", now_s)
        for name in self._wards.keys() - names:
            self._forget(self._wards.pop(name))

    def _forget(self, ward: Ward) -> None:
        if ward.pidfd is not None:
            os.close(ward.pidfd)
            ward.pidfd = None

    def _deadlines(self, now_s: float) -> list[float]:
        return [max(0.0, second_killer_acts_s(ward.deadline_s) - now_s) for ward in self._wards.values()
                if ward.stage is WardStage.WATCHED and ward.deadline_s is not None]

    def _attend(self, ward: Ward, now_s: float) -> None:
        if ward.stage is WardStage.UNBORN:
            self._meet(ward, now_s)
        if ward.stage is WardStage.WATCHED:
            self._watch(ward, now_s)
        if ward.stage is WardStage.KILLING:
            self._kill(ward, now_s)
        if ward.stage is WardStage.BURYING:
            self._bury(ward, now_s)
        if ward.stage is WardStage.REMOVING:
            self._remove(ward)

    def _meet(self, ward: Ward, now_s: float) -> None:
        """Find out what is in the run directory."""
        if ward.launch is None:
            ward.launch = self._read_launch(ward)
        if ward.launch is not None and ward.launch.supervisor != self._supervisor:
            return  # somebody else's: leave it alone
        ward.shim = run_dir.read_process(f"{ward.directory}/{run_dir.SHIM}")
        if ward.shim is None:
            if now_s - ward.seen_s >= UNBORN_S and run_dir.remove(ward.directory):
                log.info("run_dir_removed", **ward.about, why="no shim was ever started")
            return
        ward.tree = self._tree(ward, ward.shim)
        if ward.shim.process.boot_id != self._boot_id:
            log.info("run_dir_of_earlier_boot", **ward.about)
            ward.stage = WardStage.REMOVING
            return
        ward.pidfd = processes.open_pidfd(ward.shim.process)
        ward.stage = WardStage.WATCHED

    def _read_launch(self, ward: Ward) -> Launch | None:
        path = Path(ward.directory) / run_dir.LAUNCH
        try:
            return decode(Launch, path.read_bytes(), str(path))
        except FileNotFoundError:
            return None
        except Corrupt as error:
            log.error("launch_file_corrupt", **ward.about, why=str(error))
            return None

    def _tree(self, ward: Ward, shim: ShimRecord) -> Containment:
        if ward.launch is not None and ward.launch.cgroup is not None:
            return CgroupContainment(ward.launch.cgroup)

        def root() -> ProcessId | None:
            record = run_dir.read_process(f"{ward.directory}/{run_dir.DRIVER}")
            return None if record is None else record.process

        return ScanContainment(shim.claim, root)

    # -- killing -------------------------------------------------------------------------------------------------------

    def _watch(self, ward: Ward, now_s: float) -> None:
        try:
            ward.deadline_s = run_dir.read_deadline(ward.directory)
        except (OSError, ValueError):  # torn, or no descriptor: what is known stays
            pass
        due = ward.deadline_s is not None and now_s >= second_killer_acts_s(ward.deadline_s)
        dead = ward.pidfd is None or processes.wait_dead(ward.pidfd, 0.0)
        if not dead and not due:
            return
        ward.cause = Cause.LEASE_EXPIRED if due else Cause.SHIM_DIED
        ward.died_s = now_s
        ward.stage = WardStage.KILLING
        if not dead:
            log.error("shim_let_deadline_come", **ward.about, deadline_s=ward.deadline_s)

    def _kill(self, ward: Ward, now_s: float) -> None:
        assert ward.tree is not None
        killed = kill_attempt(ward.pidfd, ward.tree, _SLICE_S)
        ward.killed_s += killed.took_s
        if not killed.done:
            if now_s - ward.died_s > KILL_TIME_S:
                log.error("kill_takes_too_long", **ward.about, seconds=round(now_s - ward.died_s, 1))
            return
        if killed.tree is Emptiness.EMPTY or ward.killed_s > 0.001:
            log.warning("shim_gone", **ward.about, tree=killed.tree.value, cause=ward.cause.value,
                        killed_s=round(ward.killed_s, 3), next="a tombstone if the tree is proven empty, else the full wait")
        else:      # a shim that has ended in order takes its cgroup with it
            log.info("attempt_over", **ward.about, next="its run directory is removed")
        self._forget(ward)
        proven = killed.tree is Emptiness.EMPTY and ward.launch is not None
        ward.stage = WardStage.BURYING if proven else WardStage.REMOVING

    # -- burying -------------------------------------------------------------------------------------------------------

    def _bury(self, ward: Ward, now_s: float) -> None:
        """Read /own, write the tombstone if it is still about this claim, until that is settled."""
        client = self._client()
        if ward.answers:
            self._heed(ward, ward.answers.pop(), client, now_s)
        elif not ward.asking and client is not None and now_s >= ward.retry_s:
            assert ward.launch is not None
            ward.asking = True
            client.read_many_async((self._layout.own(ward.launch.assignment.name),), partial(self._answered, ward.key))

    def _heed(
        self, ward: Ward, answer: Reads | Committed | SupervisorError, client: Registry | None, now_s: float
    ) -> None:
        ward.retry_s = now_s + _RETRY_S
        if isinstance(answer, Committed):
            log.info("tombstone_written", **ward.about, cause=ward.cause.value)
            ward.stage = WardStage.REMOVING
        elif isinstance(answer, Reads):
            self._decide(ward, answer, client, now_s)

    def _decide(self, ward: Ward, answer: Reads, client: Registry | None, now_s: float) -> None:
        assert ward.launch is not None and ward.shim is not None
        entry, node = ward.launch.assignment, answer.nodes[0]
        path = self._layout.own(entry.name)
        try:
            own = None if node is None else Found(decode(Ownership, node.data, path), node.stat.version)
        except Corrupt:
            own = None
        if own is None or own.version < entry.own_version:  # absent, unreadable, older than seen: unknown
            self._doubt(ward, now_s, DOUBT_S)
        elif own.version == entry.own_version and own.record.state is OwnState.ASSIGNED:
            self._doubt(ward, now_s, CLAIM_UNDER_WAY_S)
        else:
            mine = Identity(entry.name, entry.uid, entry.attempt, ward.shim.claim)
            op = f"guardian.{ward.shim.claim}"
            transaction = tombstone(self._layout, own, mine, self._exit(ward, own.record), op, wall_iso())
            if transaction is None or client is None:
                ward.stage = WardStage.REMOVING if transaction is None else ward.stage
            else:
                ward.asking = True
                client.commit_async(transaction, partial(self._answered, ward.key))

    def _doubt(self, ward: Ward, now_s: float, patience_s: float) -> None:
        ward.doubt_s = now_s if ward.doubt_s is None else ward.doubt_s
        if now_s - ward.doubt_s >= patience_s:
            log.warning("no_tombstone", **ward.about, why="/own does not show the claim")
            ward.stage = WardStage.REMOVING

    def _exit(self, ward: Ward, own: Ownership) -> Exit:
        """A stop that was requested before is a stop, whatever killed the driver in the end."""
        driver = run_dir.read_process(f"{ward.directory}/{run_dir.DRIVER}")
        ran_s = 0.0 if driver is None else max(0.0, ward.died_s - processes.started_s(driver.process))
        if own.state is OwnState.DRAINING:
            return Exit(Cause.STOPPED, "stopped on request; its shim died meanwhile", None, round(ran_s, 3))
        why = "its lease ran out" if ward.cause is Cause.LEASE_EXPIRED else "its shim died"
        return Exit(ward.cause, f"{why}, and the driver with it", None, round(ran_s, 3))

    def _answered(self, key: str, answer: Reads | Committed | SupervisorError) -> None:
        """In the connection thread of the client."""
        self._answers.put((key, answer))
        try:
            os.eventfd_write(self._wake, 1)
        except OSError:  # closed meanwhile, or full
            pass

    def _take_answers(self) -> None:
        try:
            os.eventfd_read(self._wake)
        except BlockingIOError:
            pass
        while not self._answers.empty():
            key, answer = self._answers.get()
            ward = self._wards.get(key)
            if ward is not None:
                ward.asking = False
                ward.answers.append(answer)

    def _remove(self, ward: Ward) -> None:
        """Tried again at each tick: the twin may still live there for a moment, and must see its files."""
        if ward.tree is not None:
            ward.tree.remove()
        run_dir.remove(ward.directory, partial(self._last_look, ward))

    def _last_look(self, ward: Ward) -> None:
        """Nobody lives there any more: its log is kept, its kills are counted. Neither keeps it from being removed."""
        kills = run_dir.read_kills(ward.directory)
        if ward.deadline_s is not None and not any(killer == "twin" for killer, _ in kills):
            kills.append(("guardian", ward.killed_s))      # a driver was to be killed, and no twin was left to do it
        for killer, seconds in kills:
            self._on_kill(killer, seconds)
        shim_log = Path(ward.directory) / run_dir.SHIM_LOG
        try:
            if ward.launch is not None and shim_log.stat().st_size:
                put_aside(shim_log, Path(self._attempts_dir).parent / ENDED, ward.launch.assignment.name, ward.key)
        except OSError as error:
            log.info("shim_log_lost", **ward.about, why=str(error))
